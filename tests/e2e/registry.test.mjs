// Images from a registry: names, credentials and everything that a registry may do wrong, with an engine of this
// file's own and registries on its loopback (lib/registry.mjs).
import assert from 'node:assert/strict'
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { Pki } from './lib/certs.mjs'
import { Ledger, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { driver } from './lib/docker.mjs'
import { impossible, startEngine } from './lib/engines.mjs'
import { invoke } from './lib/http.mjs'
import { build, tempDir, until } from './lib/node.mjs'
import { Registry, faults } from './lib/registry.mjs'

const skip = impossible() || false
const HELLO = path.join(build, 'functions/hello')
const OPEN = '127.0.0.1:5000'
const BASIC = '127.0.0.1:5001'
const BEARER = '127.0.0.1:5002'
const SECURE = '172.17.0.1:5003' // not of 127.0.0.0/8, where engines do without TLS
const NOBODY = '127.0.0.1:5009'
const USER = 'fn'
const PASSWORD = 'pa5sw0rd:with-colon'
const REFRESH = 'r3fresh-tok3n'
const TOKEN = 'b3arer-tok3n'
const CERTS = '/etc/docker/certs.d'
const NO_DIGEST = `sha256:${'0'.repeat(64)}`

const base64 = (text) => Buffer.from(text).toString('base64')
const packed = (password = PASSWORD) => ({ auth: base64(`${USER}:${password}`) })
const config = (entries, more = {}) => JSON.stringify({ auths: entries, ...more })

describe('images from a registry', { skip }, () => {
  const ledger = new Ledger()
  const pki = new Pki()
  const made = [`${CERTS}/${SECURE}`, CERTS].filter((dir) => !existsSync(dir))
  const nodes = []
  let engine, open, basic, bearer, secure
  let n = 0

  before(async () => {
    engine = await startEngine({ images: [], ledger, options: ['--max-download-attempts=1'] })
    const cert = pki.issue({ cn: 'registry', by: pki.ca, ext: ['subjectAltName=IP:172.17.0.1'] })
    const users = { [USER]: PASSWORD, '<refresh>': REFRESH }
    open = await Registry.start()
    basic = await Registry.start({ auth: 'basic', users })
    bearer = await Registry.start({ auth: 'bearer', users, tokens: [TOKEN] })
    secure = await Registry.start({ tls: { cert: readFileSync(cert.cert), key: readFileSync(cert.key) } })
    for (const [at, registry] of [[OPEN, open], [BASIC, basic], [BEARER, bearer], [SECURE, secure]]) {
      const [host, port] = at.split(':')
      await engine.forward(port, registry.socket, host)
    }
  })
  afterEach(async () => {
    await Promise.all(nodes.splice(0).map((node) => node.stop()))
  })
  after(async () => {
    await engine?.stop()
    for (const registry of [open, basic, bearer, secure]) registry?.stop()
    for (const dir of made) rmSync(dir, { recursive: true, force: true })
  })

  // A runner and a load balancer for functions of these images; what they are called is call()'s first parameter.
  async function rig(images, { auth = '', runner = '', env, plugins } = {}) {
    const functions = Object.fromEntries(Object.entries(images).map(([name, image]) => [name, { image, memory: 32 }]))
    const r = await startRunner({ driver: driver(engine.socket, auth && `, ${auth}`), runner: `owner: registry-${process.pid}\nfreeze_idle: never\n${runner}`, env })
    const lb = await startLb({ addresses: [r.address], functions, plugins })
    nodes.push(lb, r)
    return { runner: r, lb, call: (name, headers) => invoke(lb, fnId(name), '{"name":"you"}', headers), log: () => r.log + lb.log }
  }

  // An image of its own in a registry, by its name.
  function image(registry, at) {
    const repository = `team/image${n++}`
    registry.put(repository, HELLO)
    return `${at}/${repository}`
  }
  const repositoryOf = (name) => name.slice(name.indexOf('/') + 1)

  function expectHello(answer, what) {
    assert.equal(answer.status, 200, `${what}: ${answer.text}`)
    assert.match(answer.text, /Hello you/)
  }

  function expectFailure(answer, status, message, what) {
    assert.equal(`${answer.status} ${answer.text}`, `${status} ${JSON.stringify({ message })}\n`, what)
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
  }

  it('are found by their tag, without a tag and by their digest', async () => {
    const digest = open.put('names/by-digest', HELLO)
    open.put('names/latest', HELLO)
    open.put('names/tagged', HELLO, 'v1.2')
    const { call } = await rig({
      latest: `${OPEN}/names/latest`, tagged: `${OPEN}/names/tagged:v1.2`, digest: `${OPEN}/names/by-digest@${digest}`,
      both: `${OPEN}/names/by-digest:no-such-tag@${digest}`,
    })
    for (const name of ['latest', 'tagged', 'digest', 'both']) expectHello(await call(name), name)
  })

  it('are used only if they are what their digest says', async () => {
    open.put('lying/registry', HELLO)
    open.images.set(`lying/registry:${NO_DIGEST}`, open.images.get('lying/registry:latest'))
    const { call } = await rig({ missing: `${OPEN}/lying/other@${NO_DIGEST}`, lying: `${OPEN}/lying/registry@${NO_DIGEST}` })
    const name = (repository) => `${OPEN}/lying/${repository}@sha256:000000000000...`
    expectFailure(await call('missing'), 404, `Failed to pull image '${name('other')}': manifest for ${name('other')} not found: manifest unknown: not here`)
    expectFailure(await call('lying'), 502, `Failed to pull image '${name('registry')}': manifest verification failed for digest sha256:000000000000...`)
  })

  it('come over TLS from whoever the engine trusts', async () => {
    const name = image(secure, SECURE)
    const { call } = await rig({ secure: name })
    expectFailure(await call('secure'), 502, `Failed to pull image '${name}': Get "https://${SECURE}/v2/": x509: certificate signed by unknown authority`)
    mkdirSync(`${CERTS}/${SECURE}`, { recursive: true })
    copyFileSync(pki.ca.own, `${CERTS}/${SECURE}/ca.crt`)
    expectHello(await call('secure'))
  })

  it('are pulled once, however many calls wait', async () => {
    const CALLS = 20
    const name = image(open, OPEN)
    const { call, runner } = await rig({ one: name })
    const door = open.fail(repositoryOf(name), 'blobs', faults.closed())
    const calls = Array.from({ length: CALLS }, () => call('one'))
    await until('all of them wait', async () => (await runner.metric('fn_queued')) === CALLS)
    door.open()
    for (const answer of await Promise.all(calls)) expectHello(answer)
    assert.equal(open.count(repositoryOf(name), 'blobs'), 2, 'its configuration and its layer')
    assert.equal(runner.log.split(`pulling image ${name} without credentials`).length, 2)
  })

  it('that do not come in time are a 504, and cost other images nothing', async () => {
    const images = { silent: image(open, OPEN), dripping: image(open, OPEN), quick: image(open, OPEN) }
    const { call } = await rig(images, { runner: 'pull_timeout: 3s' })
    open.fail(repositoryOf(images.silent), 'manifests', faults.silent())
    open.fail(repositoryOf(images.dripping), 'blobs', faults.drip())
    const slow = ['silent', 'dripping'].map((name) => call(name))
    await until('both have begun', () => ['silent', 'dripping'].every((name) => open.count(repositoryOf(images[name]), 'manifests') > 0))
    expectHello(await call('quick'))
    for (const answer of await Promise.all(slow)) expectFailure(answer, 504, 'Image pull timed out')
    open.faults.clear()
    for (const name of ['silent', 'dripping']) expectHello(await call(name), `${name}, later`)
  })

  const error = (code, message) => ({ code, message })
  // What fails, how, and what the caller reads behind "Failed to pull image '...': ".
  const rows = {
    denied: ['manifests', faults.status(401, error('UNAUTHORIZED', 'log in')), 502, 'unauthorized: log in'],
    forbidden: ['manifests', faults.status(403, error('DENIED', 'not yours')), 404,
      "pull access denied for NAME, repository does not exist or may require 'docker login': denied: not yours"],
    unknown: ['manifests', faults.status(404, error('MANIFEST_UNKNOWN', 'none')), 404, 'manifest for NAME:latest not found: manifest unknown: none'],
    norepository: ['manifests', faults.status(404, error('NAME_UNKNOWN', 'none')), 404, 'repository NAME not found: name unknown: none'],
    toomany: ['manifests', faults.status(429, error('TOOMANYREQUESTS', 'slow down'), { 'retry-after': '1' }), 502, 'toomanyrequests: slow down'],
    broken: ['manifests', faults.status(500), 502, 'received unexpected HTTP status: 500 Internal Server Error'],
    nojson: ['manifests', faults.garbage(200, '<html>'), 502, "error unmarshalling content: invalid character '<' looking for beginning of value"],
    cutmanifest: ['manifests', faults.truncated(), 502, 'Head "http://127.0.0.1:5000/v2/REPOSITORY/manifests/latest": EOF'],
    noblob: ['blobs', faults.status(404, error('BLOB_UNKNOWN', 'none')), 502, 'error pulling image configuration: download failed after attempts=1: unknown blob'],
    toomanyblobs: ['blobs', faults.status(429, error('TOOMANYREQUESTS', 'slow down')), 502,
      'error pulling image configuration: download failed after attempts=1: toomanyrequests: slow down'],
    brokenblob: ['blobs', faults.status(500), 502,
      'error pulling image configuration: download failed after attempts=6: received unexpected HTTP status: 500 Internal Server Error'],
    cutblob: ['blobs', faults.truncated(), 502, 'error pulling image configuration: download failed after attempts=6: unexpected EOF'],
    wrongblob: ['blobs', faults.otherBytes(), 502, 'error pulling image configuration: image config verification failed for digest CONFIG'],
    wronglayer: ['blobs', faults.only('layer', faults.otherBytes()), 502, 'filesystem layer verification failed for digest LAYER'],
  }

  it('fail with what the registry says, to the caller and in the log', async () => {
    const images = Object.fromEntries(Object.keys(rows).map((name) => [name, image(open, OPEN)]))
    const { call, log } = await rig(images)
    for (const [name, [what, fault]] of Object.entries(rows)) open.fail(repositoryOf(images[name]), what, fault)
    await Promise.all(Object.entries(rows).map(async ([name, [, , status, text]]) => {
      const at = images[name]
      const digests = JSON.parse(open.images.get(`${repositoryOf(at)}:latest`))
      const shown = (digest) => `${digest.slice(0, 'sha256:'.length + 12)}...`
      const sentence = text.replace('NAME', at).replace('REPOSITORY', repositoryOf(at))
        .replace('CONFIG', shown(digests.config.digest)).replace('LAYER', shown(digests.layers[0].digest))
      expectFailure(await call(name), status, `Failed to pull image '${at}': ${sentence}`, name)
      await until(`${name} is in the log`, () => log().includes(sentence.replaceAll('"', '\\"')))
    }))
    open.faults.clear()
    for (const name of ['unknown', 'toomany', 'cutblob', 'wronglayer']) expectHello(await call(name), `${name}, once the registry is well`)
  })

  it('of a registry that is not there', async () => {
    const name = `${NOBODY}/team/image`
    const { call } = await rig({ gone: name })
    expectFailure(await call('gone'), 502, `Failed to pull image '${name}': Get "http://${NOBODY}/v2/": dial tcp ${NOBODY}: connect: connection refused`)
  })

  // ---- credentials ----------------------------------------------------------------------------

  function file(text, name = 'config.json') {
    const dir = tempDir()
    writeFileSync(path.join(dir, name), text, { mode: 0o600 })
    return { dir, name: path.join(dir, name) }
  }
  // A directory of PATH with docker-credential-test, which knows one registry.
  function helper(registry, answer) {
    const { dir, name } = file(`#!/bin/sh\nread r\n[ "$1 $r" = "get ${registry}" ] && echo '${JSON.stringify(answer)}' && exit\necho credentials not found; exit 1\n`, 'docker-credential-test')
    chmodSync(name, 0o700)
    return `${dir}:${process.env.PATH}`
  }
  const answer = { Username: USER, Secret: PASSWORD }

  // Where credentials come from, and for which registries they are.
  const sources = {
    'FN_DOCKER_AUTH, with auths': () => ({ env: { FN_DOCKER_AUTH: config({ [BASIC]: packed(), [BEARER]: packed() }) } }),
    'FN_DOCKER_AUTH, without auths': () => ({ env: { FN_DOCKER_AUTH: JSON.stringify({ [BASIC]: packed(), [`http://${BEARER}`]: packed() }) } }),
    'name and password, URLs as keys': () => ({ env: { FN_DOCKER_AUTH: config({
      [`https://${BASIC}/v1/`]: { username: USER, password: PASSWORD }, [`${BEARER}/v2/`]: { username: USER, password: PASSWORD } }) } }),
    auth_file: () => ({ auth: `auth_file: ${file(config({ [BASIC]: packed(), [BEARER]: packed() })).name}` }),
    DOCKER_CONFIG: () => ({ env: { DOCKER_CONFIG: file(config({ [BASIC]: packed(), [BEARER]: packed() })).dir } }),
    'the home directory': () => {
      const home = tempDir()
      mkdirSync(path.join(home, '.docker'))
      writeFileSync(path.join(home, '.docker/config.json'), config({ [BASIC]: packed(), [BEARER]: packed() }), { mode: 0o600 })
      return { env: { HOME: home } }
    },
    'the old file of the home directory, beside a broken one': () => {
      const home = tempDir()
      mkdirSync(path.join(home, '.docker'))
      writeFileSync(path.join(home, '.docker/config.json'), '{', { mode: 0o600 })
      writeFileSync(path.join(home, '.dockercfg'), JSON.stringify({ [BASIC]: packed(), [BEARER]: packed() }), { mode: 0o600 })
      return { env: { HOME: home } }
    },
    'an identity token': () => ({ env: { FN_DOCKER_AUTH: config({ [BASIC]: packed(), [BEARER]: { identitytoken: REFRESH } }) } }),
    'a registry token': () => ({ env: { FN_DOCKER_AUTH: config({ [BASIC]: packed(), [BEARER]: { registrytoken: TOKEN } }) } }),
    credHelpers: () => ({ env: { FN_DOCKER_AUTH: config({ [BASIC]: packed() }, { credHelpers: { [BEARER]: 'test' } }), PATH: helper(BEARER, answer) } }),
    'credsStore, identity token': () => ({
      env: { FN_DOCKER_AUTH: config({}, { credsStore: 'test' }), PATH: helper(BEARER, { Username: '<token>', Secret: REFRESH }) }, only: 'bearer' }),
  }
  for (const [source, make] of Object.entries(sources)) {
    it(`need credentials: ${source}`, async () => {
      const { only, ...options } = make()
      const images = { bearer: image(bearer, BEARER), ...(only ? {} : { basic: image(basic, BASIC) }) }
      const { call, log } = await rig(images, options)
      for (const name of Object.keys(images)) expectHello(await call(name), name)
      expectNoSecret(log())
    })
  }

  it('need credentials that are theirs', async () => {
    const images = { open: image(open, OPEN), bearer: image(bearer, BEARER) }
    for (const registry of [open, bearer]) registry.asked.length = 0
    const { call } = await rig(images, { env: { FN_DOCKER_AUTH: config({ [BASIC]: packed(), '127.0.0.1': packed() }) } })
    expectHello(await call('open'))
    assert.equal((await call('bearer')).status, 502)
    assert.deepEqual([...open.asked, ...bearer.asked].filter((a) => a.authorization?.startsWith('Basic')), [])
  })

  const secrets = [PASSWORD, REFRESH, TOKEN, packed().auth, base64(PASSWORD), base64(config({ [BASIC]: packed() }))]
  function expectNoSecret(text) {
    for (const secret of secrets) assert.ok(!text.includes(secret), `${secret} is shown`)
  }

  it('are refused without credentials, and with wrong ones, which nobody is shown', async () => {
    const images = { basic: image(basic, BASIC), bearer: image(bearer, BEARER) }
    const head = (name) => `Failed to pull image '${images[name]}': Head "http://${images[name].replace('/', '/v2/')}/manifests/latest": `
    const none = await rig(images)
    expectFailure(await none.call('basic'), 502, `${head('basic')}no basic auth credentials`)
    expectFailure(await none.call('bearer'), 502, `${head('bearer')}unauthorized: incorrect username or password`)
    assert.match(none.runner.log, new RegExp(`pulling image ${images.basic} without credentials`))

    const wrong = await rig(images, { env: { FN_DOCKER_AUTH: config({ [BASIC]: packed(`${PASSWORD}!`), [BEARER]: packed(`${PASSWORD}!`) }) } })
    const answers = [await wrong.call('basic'), await wrong.call('bearer')]
    expectFailure(answers[0], 502, `Failed to pull image '${images.basic}': unauthorized`)
    expectFailure(answers[1], 502, `${head('bearer')}unauthorized: incorrect username or password`)
    assert.match(wrong.runner.log, new RegExp(`pulling image ${images.basic} with credentials`))
    expectNoSecret(wrong.log() + answers.map((a) => a.text + a.rawHeaders.join()).join())
  })

  it('use a login that was made after the start', async () => {
    const images = { basic: image(basic, BASIC) }
    const { dir, name } = file('{}')
    const { call } = await rig(images, { env: { DOCKER_CONFIG: dir } })
    assert.equal((await call('basic')).status, 502)
    writeFileSync(name, config({ [BASIC]: packed() }))
    expectHello(await call('basic'))
  })

  it('use a token that came with the call', async () => {
    const images = { mine: image(bearer, BEARER), theirs: image(bearer, BEARER) }
    const { call, log } = await rig(images, {
      env: { FN_DOCKER_AUTH: config({ [BEARER]: packed('wrong') }) },
      plugins: `overriders:\n  - { use: tag, file: ${path.join(build, 'plugins/override-tag.so')}, key: FN_REGISTRY_TOKEN, header: Registry-Token }`,
    })
    expectHello(await call('mine', { 'Registry-Token': TOKEN }), 'rather than the configured credentials')
    const failed = await call('theirs', { 'Registry-Token': 'n0-such-token' })
    expectFailure(failed, 502, `Failed to pull image '${images.theirs}': unauthorized`)
    assert.match(log(), new RegExp(`pulling image ${images.mine} with the call's token`))
    assert.ok(!(log() + failed.text).includes('n0-such-token'))
    expectNoSecret(log())
  })
})

// Functions that are made by HTTP and called: an api node, a load balancer and a runner, and a full node by itself;
// who may make them; what is left of changes when the node is killed in the middle of them.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { startLb, startRunner } from './lib/cluster.mjs'
import { request } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

const ask = async (node, method, target, body, headers) => {
  const answer = await request(node.url(target), { method, headers, body: body && JSON.stringify(body) })
  return { status: answer.status, headers: answer.headers, said: answer.text && JSON.parse(answer.text) }
}
const done = async (...args) => {
  const answer = await ask(...args)
  assert.ok(answer.status === 200 || answer.status === 204, `${args[1]} ${args[2]}: ${JSON.stringify(answer)}`)
  return answer.said
}

async function startApi({ http = '', api = '' } = {}) {
  const port = await freePort()
  return Fnd.start('api', port, `
node: api
http: { listen: "127.0.0.1:${port}"${http} }
store: { url: "sqlite3://${path.join(tempDir(), 'fn.db')}" }
${api}
`)
}

async function startFull(more = '') {
  const port = await freePort()
  return Fnd.start('full', port, `
node: full
http: { listen: "127.0.0.1:${port}" }
store: { url: "sqlite3://${path.join(tempDir(), 'fn.db')}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { driver: { use: process, root: ${path.join(build, 'functions')} } }
runner: { iofs_path: ${tempDir()}, writable_root: true }
${more}
`)
}

const call = (node, target, body = '{"name":"you"}') => request(node.url(target), { method: 'POST', body })

async function deploy(api, name = 'shop') {
  const app = await done(api, 'POST', '/v2/apps', { name })
  const fn = await done(api, 'POST', '/v2/fns', { app_id: app.id, name: 'greet', image: 'hello' })
  const trigger = await done(api, 'POST', '/v2/triggers',
    { app_id: app.id, fn_id: fn.id, name: 'greet', type: 'http', source: '/greet' })
  return { app, fn, trigger }
}

// What an author sees of a function from its first call to its end, at a node that uses changes at once.
async function wholeLife(api, lb) {
  const { app, fn, trigger } = await deploy(api)
  for (const target of [`/invoke/${fn.id}`, '/t/shop/greet']) {
    const answer = await call(lb, target)
    assert.equal(answer.status, 200, answer.text)
    assert.match(answer.text, /Hello you/)
  }
  await done(api, 'PUT', `/v2/fns/${fn.id}`, { image: 'echo', config: { A: '1' } })
  assert.equal((await call(lb, `/invoke/${fn.id}`, 'back')).text, 'back')
  await done(api, 'PUT', `/v2/triggers/${trigger.id}`, { source: '/moved' })
  assert.equal((await call(lb, '/t/shop/moved', 'back')).text, 'back')
  assert.equal((await call(lb, '/t/shop/greet')).status, 404)
  await done(api, 'DELETE', `/v2/fns/${fn.id}`)
  const gone = await call(lb, `/invoke/${fn.id}`)
  assert.equal(gone.status, 404)
  assert.equal(JSON.parse(gone.text).message, 'Fn not found')
  await done(api, 'DELETE', `/v2/apps/${app.id}`)
  assert.equal(JSON.parse((await call(lb, '/t/shop/moved')).text).message, 'App not found')
}

describe('an api node, a load balancer and a runner', () => {
  let api
  let runner
  let lb
  before(async () => {
    api = await startApi()
    runner = await startRunner()
    lb = await startLb({ addresses: [runner.address], lb: `api_url: "http://127.0.0.1:${api.port}"\ncache_ttl: 0s` })
  })
  after(() => Promise.all([lb, runner, api].map((n) => n?.stop())))

  it('a function is made, called by id and by trigger, changed and removed', () => wholeLife(api, lb))

  it('calls go on while the API node is away', async () => {
    const { fn } = await deploy(api, 'away')
    assert.equal((await call(lb, `/invoke/${fn.id}`)).status, 200)
    await api.kill()
    assert.equal((await call(lb, `/invoke/${fn.id}`)).status, 200)
    await api.start()
    assert.equal((await call(lb, `/invoke/${fn.id}`)).status, 200)
  })
})

describe('a full node with a store', () => {
  let full
  before(async () => { full = await startFull() })
  after(() => full?.stop())

  it('uses each change with the next call, also of what was asked for too early', async () => {
    assert.equal((await call(full, '/t/shop/greet')).status, 404)
    await wholeLife(full, full)
  })

  it('has its endpoints in annotations', async () => {
    const { fn, trigger } = await deploy(full)
    const invoke = fn.annotations['fnproject.io/fn/invokeEndpoint']
    const http = trigger.annotations['fnproject.io/trigger/httpEndpoint']
    for (const url of [invoke, http]) {
      const answer = await request(url, { method: 'POST', body: '{"name":"you"}' })
      assert.match(answer.text, /Hello you/)
    }
  })
})

describe('who may use the API', () => {
  const outside = 'api: { clients: [10.0.0.0/8] }'

  it('nobody from a network that is not named, but for calls', async () => {
    const full = await startFull(outside)
    try {
      const answer = await ask(full, 'GET', '/v2/apps')
      assert.equal(answer.status, 403)
      assert.match(answer.said.message, /^API1107 .*api\.clients/)
      assert.equal((await call(full, '/invoke/x')).status, 404)
    } finally {
      await full.stop()
    }
  })

  it('no page of another origin, unless it is named', async () => {
    const page = { Origin: 'http://ui.example' }
    for (const [http, status] of [['', 403], [', cors_origins: ["http://ui.example"]', 200]]) {
      const api = await startApi({ http })
      try {
        const answer = await ask(api, 'POST', '/v2/apps', { name: 'made' }, page)
        assert.equal(answer.status, status)
        assert.equal(answer.headers['access-control-expose-headers'], status === 200 ? 'Fn-Request-Id, Retry-After' : undefined)
        if (status === 403) assert.match(answer.said.message, /^API1107 .*another origin/)
        assert.equal((await done(api, 'GET', '/v2/apps')).items.length, status === 200 ? 1 : 0)
        const own = { Origin: `http://127.0.0.1:${api.port}` }
        assert.equal((await ask(api, 'GET', '/v2/apps', undefined, own)).status, 200)
      } finally {
        await api.stop()
      }
    }
  })
})

describe('tokens', () => {
  const hash = (token) => createHash('sha256').update(token).digest('hex')
  const bearer = (token) => ({ Authorization: `Bearer ${token}` })
  let api
  before(async () => {
    api = await startApi({ api: `api:
  tokens: ["ci deploy ${hash('of-ci')}", "ops admin ${hash('of-ops')}"]
  read_without_token: false` })
  })
  after(() => api?.stop())

  it('who has none is told so, and each may what its role may', async () => {
    const without = await request(api.url('/v2/apps'))
    assert.equal(without.status, 401)
    assert.equal(without.headers['www-authenticate'], 'Bearer')
    assert.match(JSON.parse(without.text).message, /^API1108 /)
    const refused = await ask(api, 'POST', '/v2/apps', { name: 'shop' }, bearer('of-ci'))
    assert.equal(refused.status, 403)
    assert.match(refused.said.message, /^API1109 the token ci .* admin$/)
    const app = await done(api, 'POST', '/v2/apps', { name: 'shop' }, bearer('of-ops'))
    await done(api, 'POST', '/v2/fns', { app_id: app.id, name: 'f', image: 'i' }, bearer('of-ci'))
    await until('the change is in the log', () => /msg="changed by the API" method=POST route="?\/v2\/fns"? .*token=ci/.test(api.log))
    assert.ok(!api.log.includes('of-ci'), 'no token is in the log')
  })

  it('each change is in the log with the id of its request', async () => {
    const send = (name, id) => request(api.url('/v2/apps'), { method: 'POST', headers: { ...bearer('of-ops'), ...id }, body: JSON.stringify({ name }) })
    const named = await send('named', { 'Fn-Request-Id': 'mine-7' })
    assert.equal(named.headers['fn-request-id'], 'mine-7')
    await until('it is there', () => /msg="changed by the API" .*name=named .*fn_request_id=mine-7/.test(api.log))
    const ours = (await send('ours')).headers['fn-request-id']
    assert.match(ours, /^[0-9A-Z]{26}$/)
    await until('it is there', () => new RegExp(`msg="changed by the API" .*name=ours .*fn_request_id=${ours}`).test(api.log))
  })

  it('fnd api takes one from FN_TOKEN', async () => {
    const fnd = (env) => promisify(execFile)(path.join(build, 'fnd'), ['api', 'export', '--url', api.url('')],
      { env: { PATH: process.env.PATH, ...env } })
    assert.match((await fnd({ FN_TOKEN: 'of-ci' })).stdout, /name: "?shop/)
    await assert.rejects(fnd({}), /API1108/)
  })
})

describe('an API node that is killed in the middle of changes', () => {
  const WRITERS = 8
  const ROUNDS = 3
  const ENOUGH = Math.ceil(Number(process.env.FND_KILL_WRITES ?? 450) / ROUNDS) // FND_KILL_WRITES=10000 for more

  it('has everything that it said it has, and nothing half', async () => {
    const api = await startApi()
    const app = await done(api, 'POST', '/v2/apps', { name: 'all' })
    const told = new Map()
    const sent = new Set()
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const before = told.size
        const write = async (writer) => {
          for (let i = 0; ; i++) {
            const name = `f${round}-${writer}-${i}`
            sent.add(name)
            const answer = await ask(api, 'POST', '/v2/fns', { app_id: app.id, name, image: 'i', config: { NAME: name } })
              .catch(() => null)
            if (answer?.status !== 200) return
            told.set(answer.said.id, name)
            if (told.size - before === ENOUGH) await api.kill()
          }
        }
        await Promise.all(Array.from({ length: WRITERS }, (_, i) => write(i)))
        assert.ok(api.exit, 'it was killed')
        await api.start()
      }
      for (const [id, name] of told) assert.equal((await done(api, 'GET', `/v2/fns/${id}`)).config.NAME, name)
      const found = []
      for (let cursor = ''; cursor !== undefined;) {
        const page = await done(api, 'GET', `/v2/fns?app_id=${app.id}&per_page=100&cursor=${cursor}`)
        for (const fn of page.items) {
          assert.ok(sent.has(fn.name) && fn.config.NAME === fn.name, 'as it was sent')
          found.push(fn.name)
        }
        cursor = page.next_cursor
      }
      assert.equal(new Set(found).size, found.length)
      assert.ok(found.length >= told.size && found.length <= told.size + ROUNDS * WRITERS)
    } finally {
      await api.stop()
    }
  })
})

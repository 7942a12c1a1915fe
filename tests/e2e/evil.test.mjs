// Plugins that do what no plugin may do, met by the real commands: `fnd check` tells what can be known
// without starting anything, `fnd run` ends with 78 and the same sentence, within its deadlines.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'
import { request } from './lib/http.mjs'

const fnd = path.join(build, 'fnd')
const evil = (name) => path.join(build, 'tests/plugins/evil', `${name}.so`)
const run = (args) => spawnSync(fnd, args, { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH } })

function yaml({ placer = '{ use: naive }', rules = '', port = 0, socket = 'off' }) {
  return `node: lb
http: { listen: "127.0.0.1:${port}" }
admin: { socket: "${socket}" }
plugin_dir: ${path.join(build, 'plugins')}
apps: [{ name: a, functions: [{ name: f, image: x }] }]
plugins:
  pool: { use: static, runners: ["127.0.0.1:1"] }
  placer: ${placer}
${rules}`
}

function write(text) {
  const file = path.join(tempDir(), 'fn.yaml')
  writeFileSync(file, text)
  return file
}

// [file, use, sentence]
const rows = [
  ['e01_ctor_crashes', 'e01', /^PLG911 \S+fn\.yaml:\d+:\d+: \S+e01_ctor_crashes\.so: crashed in the trial \(while it was loaded\): SIGSEGV, Segmentation fault$/m],
  ['e02_ctor_loops', 'e02', /^PLG912 \S+fn\.yaml:\d+:\d+: \S+: did not load within 1000 ms in the trial \(while it was loaded\); expected constructors that return$/m],
  ['e03_ctor_exits', 'e03', /^PLG913 \S+fn\.yaml:\d+:\d+: \S+: ended the trial process \(while it was loaded\) with exit code 0; expected a plugin that never ends its process$/m],
  ['e03_ctor_exits_hard', 'e03', /^PLG913 \S+fn\.yaml:\d+:\d+: \S+: ended the trial process/m],
  ['e04_no_entry', 'e04', /^PLG907 \S+fn\.yaml:\d+:\d+: \S+: exports no fn_plugin_v1; expected FN_PLUGIN_DEFINE in one of its source files$/m],
  ['e04_wrong_kind', 'e04', /^PLG907 \S+fn\.yaml:\d+:\d+: \S+: teapot\/e04: unknown kind; expected one of placer, pool/m],
  ['e05_create_floods', 'e05', /^PLG915 \S+fn\.yaml:\d+:\d+: e05: placer\/e05: \\x1b\[31mHACKED\\x1b\[0m.{1,200}$/m],
  ['e06_create_sleeps', 'e06', /^PLG914 \S+fn\.yaml:\d+:\d+: e06: placer\/e06: create\(\) did not return within 1000 ms \(plugins\.start_timeout\)$/m],
]

describe('evil plugins at load', () => {
  for (const [file, use, sentence] of rows) {
    it(`${file}: refused with its sentence, nothing else happens`, () => {
      const config = write(yaml({ placer: `{ use: ${use}, file: ${evil(file)} }`,
        rules: '  trial_timeout: 1s\n  start_timeout: 1s\n' }))
      const check = run(['check', '--config', config])
      assert.equal(check.status, 78, check.stderr)
      assert.match(check.stderr, sentence)
      const start = performance.now()
      const result = run(['run', '--config', config])
      assert.equal(result.status, 78, result.stderr)
      assert.equal(result.signal, null)
      assert.match(result.stderr, sentence)
      assert.doesNotMatch(result.stderr, /[\x00-\x08\x0b-\x1f\x7f]/, 'no control bytes reach the terminal')
      assert.ok(performance.now() - start < 10_000, 'within its deadlines')
    })
  }

  it('without the trial a crash in a constructor is the node\'s, and told by a check', () => {
    const config = write(yaml({ placer: `{ use: e01, file: ${evil('e01_ctor_crashes')} }`, rules: '  trial: false\n' }))
    const check = run(['check', '--config', config])
    assert.deepEqual([check.status, check.signal], [70, null])
    assert.match(check.stderr, /^fnd: the check broke off, got (signal|exit code) \d+; expected its end \(the report above names the plugin that ran, if one did\)$/m)
    const exits = run(['check', '--config', write(yaml({ placer: `{ use: e03, file: ${evil('e03_ctor_exits_hard')} }`, rules: '  trial: false\n' }))])
    assert.equal(exits.status, 70, exits.stderr)
    assert.match(exits.stderr, /the check broke off, got exit code \d+/)
  })
})

describe('the linker in the trial', () => {
  it('is tuned as the node\'s is: it loads what the node can load', () => {
    const check = (env) => spawnSync(fnd, ['plugins', evil('l12_static_tls')], { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH, ...env } })
    assert.match(check({}).stderr, /^PLG908 .*cannot allocate memory in static TLS block/m)
    const tuned = check({ GLIBC_TUNABLES: 'glibc.rtld.optional_static_tls=200000' })
    assert.equal(tuned.status, 0, tuned.stderr)
  })
})

describe('evil plugins that wait until they are called', () => {
  for (const file of ['e22_jumps', 'e22_jumps_over', 'e22_throws', 'e22_throws_over']) {
    it(`${file}: fnd check loads it, calls nothing and survives`, () => {
      const check = run(['check', '--config', write(yaml({ placer: `{ use: e22, file: ${evil(file)} }` }))])
      assert.deepEqual([check.status, check.signal], [0, null], check.stderr)
      assert.match(check.stdout, new RegExp(`${file}\\.so {2}# version 6\\.6\\.6`))
    })
  }
})

describe('hashes and signatures', () => {
  let dir
  let placer
  const sha256 = (file) => execFileSync('sha256sum', [file], { encoding: 'utf8' }).slice(0, 64)
  before(() => {
    dir = tempDir()
    chmodSync(dir, 0o755)
    placer = path.join(dir, 'vendor.so')
    copyFileSync(path.join(build, 'plugins/placer-naive.so'), placer)
    chmodSync(placer, 0o755)
  })

  it('a pinned hash must be the right one', () => {
    const good = sha256(placer)
    const wrong = good.replace(/^./, (c) => (c === '0' ? '1' : '0'))
    const check = (pin) => run(['check', '--config', write(yaml({ placer: `{ use: naive, file: ${placer}, sha256: "${pin}" }` }))])
    assert.equal(check(good).status, 0)
    assert.match(check(good).stdout, new RegExp(`^ +sha256: ${good}$`, 'm'))
    const refused = check(wrong)
    assert.equal(refused.status, 78)
    assert.match(refused.stderr, new RegExp(`^PLG903 \\S+fn\\.yaml:\\d+:\\d+: ${placer}: sha256 ${good}; expected ${wrong}$`, 'm'))
    assert.match(check('abc').stderr, /CFG704 \S+fn\.yaml:8:\d+: sha256, got "abc"; expected 64 hex digits/)
  })

  it('the documented openssl commands make a signature that counts', () => {
    const key = path.join(dir, 'key.pem')
    const pub = path.join(dir, 'ops.pem')
    const openssl = (...args) => execFileSync('openssl', args)
    openssl('genpkey', '-algorithm', 'ed25519', '-out', key)
    openssl('pkey', '-in', key, '-pubout', '-out', pub)
    const files = [placer, path.join(dir, 'pool-static.so')]
    copyFileSync(path.join(build, 'plugins/pool-static.so'), files[1])
    chmodSync(files[1], 0o755)
    const config = (rules) => write(`node: lb
http: { listen: "127.0.0.1:0" }
plugin_dir: ${dir}
apps: [{ name: a, functions: [{ name: f, image: x }] }]
plugins:
  keys: [${pub}]
  placer: { use: naive, file: ${placer} }
  pool: { use: static, runners: ["127.0.0.1:1"] }
${rules}`)
    let result = run(['check', '--config', config('')])
    assert.equal(result.status, 78)
    assert.match(result.stderr, /^PLG918 \S+fn\.yaml:\d+:\d+: \S+vendor\.so: is not signed, got no file \S+vendor\.so\.sig; expected a signature by the key \S+ops\.pem, or plugins\.unsigned: allow$/m)
    for (const file of files) openssl('pkeyutl', '-sign', '-rawin', '-inkey', key, '-in', file, '-out', `${file}.sig`)
    result = run(['check', '--config', config('')])
    assert.equal(result.status, 0, result.stderr)
    assert.match(result.stdout, /vendor\.so {2}# version \S+, signed by ops\.pem/)
    result = run(['plugins', '--config', config(''), placer])
    assert.match(result.stdout, /sha256 [0-9a-f]{64}, signed by ops\.pem/)
    const bytes = readFileSync(`${placer}.sig`)
    writeFileSync(`${placer}.sig`, `${bytes.toString('base64')}\n`)
    assert.equal(run(['check', '--config', config('')]).status, 0)
    bytes[3] ^= 1
    writeFileSync(`${placer}.sig`, bytes)
    for (const rules of ['', '  unsigned: allow\n']) {
      result = run(['check', '--config', config(rules)])
      assert.equal(result.status, 78)
      assert.match(result.stderr, /^PLG918 \S+fn\.yaml:\d+:\d+: \S+vendor\.so: signature \S+vendor\.so\.sig is not one of this file; expected one by the key/m)
    }
  })
})

describe('an unsigned plugin that the operator allows', () => {
  let node
  before(async () => {
    const dir = tempDir()
    const key = path.join(dir, 'key.pem')
    const pub = path.join(dir, 'ops.pem')
    execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', key])
    execFileSync('openssl', ['pkey', '-in', key, '-pubout', '-out', pub])
    const port = await freePort()
    chmodSync(dir, 0o700)
    node = await Fnd.start('lb', port, yaml({ port, socket: path.join(dir, 'admin.sock'),
      rules: `  keys: [${pub}]\n  unsigned: allow\n` }))
    node.socket = path.join(dir, 'admin.sock')
  })
  after(() => node?.stop())

  it('taints the node, in the log and in the metrics', async () => {
    assert.match(node.log, /level=warn.*plugin is not signed: this node is tainted.*placer-naive\.so/)
    const answer = await request(node.url('/metrics'))
    assert.match(answer.text, /^fn_plugin_tainted 2$/m)
    assert.match(run(['status', '--socket', node.socket]).stdout, /^tainted +2 plugin files are not signed$/m)
  })
})

describe('evil plugins in a reload', () => {
  let node
  const options = { rules: '  start_timeout: 600ms\n  trial_timeout: 600ms\n' }
  before(async () => {
    options.port = await freePort()
    node = await Fnd.start('lb', options.port, yaml(options))
  })
  after(() => node?.stop())

  // -> what the log says of the refused reload.
  async function reload(placer) {
    const from = node.log.length
    const refused = await node.metric('fn_config_reloads{result="refused"}')
    writeFileSync(path.join(node.dir, 'fn.yaml'), yaml({ ...options, placer }))
    node.signal('SIGHUP')
    await until('it is refused', async () => await node.metric('fn_config_reloads{result="refused"}') > (refused ?? 0))
    return node.log.slice(from)
  }

  it('each is refused, and the node serves on', async () => {
    for (const [file, use, sentence] of rows) {
      const log = await reload(`{ use: ${use}, file: ${evil(file)} }`)
      assert.match(log, new RegExp(`level=error msg="${/PLG\d+/.exec(sentence.source)[0]} `), file)
      assert.equal((await request(node.url('/version'))).status, 200)
    }
  })

  it('a create() that never returns costs one thread, twice; then no further one is tried', async () => {
    const sleeps = `{ use: e06, file: ${evil('e06_create_sleeps')} }`
    assert.match(await reload(sleeps), /PLG914 \S+: e06: placer\/e06: create\(\) did not return within 600 ms/)
    assert.match(await reload(sleeps), /PLG914 \S+: e06: placer\/e06: create\(\) was not called: 2 earlier ones never returned; expected a new process/)
    assert.match(await reload('{ use: ch }'), /PLG914 \S+: ch: placer\/ch: create\(\) was not called/, 'also of a good one')
    const { code, signal } = await node.stop()
    assert.deepEqual({ code, signal }, { code: 0, signal: null }, 'it ends as always')
  })
})

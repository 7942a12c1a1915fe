// Torture of what happens once: a start, another configuration, an end. Memory fails at each place. A node that does
// not start says why; one that runs keeps its configuration or takes the new one, whole; one that is to end, ends.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Ledger, appsYaml, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { request } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'
import { ReloadLb, stampDriver } from './lib/reload.mjs'
import { Torture, endsWell } from './lib/torture.mjs'

const REFUSES = [1, 64, 69, 70, 78]
const TAKEN = 0 // of `fnd reload`
const KEPT = 78
const AGAIN_MS = 10_000
const END_MS = 15_000

const call = (node, body = 'x', fn = 'echo') => request(node.url(`/invoke/${fnId(fn)}`), { method: 'POST', body, keepAlive: false, timeoutMs: AGAIN_MS })
  .catch((e) => ({ status: 0, text: e.message }))

const ledger = new Ledger()

const serves = (what, node) => until(`${what}: it serves`, async () => {
  assert.equal(node.exit, null, `${what}: ended\n${node.log.slice(-2000)}`)
  return (await call(node)).status === 200
}, AGAIN_MS)

// -> how it ended, in time.
async function end(what, node) {
  const timer = setTimeout(() => node.signal('SIGKILL'), END_MS)
  node.signal('SIGTERM')
  const exit = await node.ended
  clearTimeout(timer)
  assert.equal(exit.signal, null, `${what}: it did not end\n${node.log.slice(-2000)}`)
  return exit
}

async function startFull(env) {
  const port = await freePort()
  const yaml = `node: full
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${await freePort()}" }
store: { url: "sqlite3://${path.join(tempDir(), 'fn.db')}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { placer: [naive, { use: ch, name: second }], driver: { use: process, root: ${path.join(build, 'functions')} } }
runner: { iofs_path: ${tempDir()}, writable_root: true }
${appsYaml({ echo: { annotations: { list: [1, 'two'] }, triggers: ['/echo'] }, ledger: { config: { LEDGER_FILE: ledger.file } } })}`
  return Fnd.start('node', port, yaml, { env, wait: false })
}

describe('torture of a start', () => {
  const torture = new Torture()
  after(() => torture.close())

  // -> the node, or null when it refused to start.
  async function start(what) {
    const node = await startFull(torture.env)
    await until(`${what}: it is up or not\n${node.log}`, async () => node.exit ||
      (await request(node.url('/version'), { keepAlive: false }).catch(() => null))?.status === 200, AGAIN_MS)
    if (!node.exit) return node
    assert.ok(REFUSES.includes(node.exit.code), `${what}: ${JSON.stringify(node.exit)}\n${node.log.slice(-2000)}`)
    assert.match(node.log, /\w/, `${what}: it does not say why`)
    return null
  }

  for (const row of [['malloc aside', 'ENOMEM', 30, 61], ['open', 'EMFILE', 40, 1], ['mmap', 'ENOMEM', 40, 1], ['thread', 'EAGAIN', 10, 1],
    ['socket', 'EMFILE', 10, 1], ['bind', 'EADDRINUSE', 10, 1], ['bind', 'ENOMEM', 10, 1], ['listen', 'EADDRINUSE', 10, 1], ['setsockopt', 'ENOBUFS', 20, 1],
    ['getsockname', 'ENOBUFS', 10, 1], ['socketpair', 'EMFILE', 10, 1], ['epoll_create', 'EMFILE', 10, 1], ['opendir', 'EMFILE', 10, 1],
    ['rename', 'ENOSPC', 10, 1], ['fsync', 'EIO', 10, 1], ['pwrite', 'ENOSPC', 10, 1], ['epoll_ctl', 'ENOSPC', 20, 1], ['eventfd', 'EMFILE', 10, 1], ['pipe', 'EMFILE', 10, 1], ['mkdir', 'ENOSPC', 10, 1],
    ['read', 'EINTR', 40, 1], ['write', 'ENOSPC', 20, 1]]) {
    it(`${row[0]}: ${row[1]}`, async () => {
      const failed = await torture.each(row, start, async (what, node) => {
        if (!node) return
        await serves(what, node)
        assert.equal((await end(what, node)).code, 0, `${what}\n${node.log.slice(-2000)}`)
      })
      assert.ok(failed > 0, 'none of them failed')
    })
  }
})

describe('torture of a load balancer that reaches for its runner', () => {
  const torture = new Torture()
  let runner
  before(async () => { runner = await startRunner() })
  after(async () => {
    torture.close()
    await runner?.stop()
  })

  // -> the node; its start is over when its runner was reached, or was not.
  async function start() {
    const lb = await startLb({ addresses: [runner.address], functions: { echo: {} }, env: torture.env, wait: false })
    await until('it is up', async () => lb.exit || (await request(lb.url('/version'), { keepAlive: false }).catch(() => null))?.status === 200, AGAIN_MS)
    if (!lb.exit) await call(lb)
    return lb
  }

  for (const row of [['socket', 'EMFILE', 20, 1], ['socket', 'ENOBUFS', 20, 1], ['connect', 'EINTR', 10, 1], ['connect', 'ECONNREFUSED', 10, 1],
    ['connect', 'ENETUNREACH', 10, 1], ['connect', 'EAGAIN', 10, 1], ['setsockopt', 'ENOBUFS', 20, 1], ['getsockname', 'ENOBUFS', 20, 1],
    ['recv', 'EAGAIN', 20, 1], ['recv', 'ECONNRESET', 20, 1], ['sendmsg', 'EAGAIN', 20, 1], ['sendmsg', 'EPIPE', 20, 1], ['epoll_ctl', 'ENOMEM', 20, 1]]) {
    it(`${row[0]}: ${row[1]}`, async () => {
      const failed = await torture.each(row, start, async (what, lb) => {
        if (!lb.exit) await serves(what, lb)
        else assert.ok(REFUSES.includes(lb.exit.code) && /\w/.test(lb.log), `${what}: ${JSON.stringify(lb.exit)}\n${lb.log.slice(-2000)}`)
        if (!lb.exit) assert.equal((await end(what, lb)).code, 0, `${what}\n${lb.log.slice(-2000)}`)
      })
      assert.ok(failed > 0, 'none of them failed')
    })
  }
})

describe('torture of a reload', () => {
  const torture = new Torture()
  let runner
  let lb
  let mark = 'a'
  let descriptors
  before(async () => {
    runner = await startRunner({ driver: stampDriver })
    lb = await ReloadLb.start({ addresses: [runner.address], env: torture.env })
    await settled()
    descriptors = open()
  })
  after(async () => {
    torture.close()
    await lb?.stop()
    await runner?.stop()
    endsWell(lb?.node)
  })

  const open = () => readdirSync(`/proc/${lb.node.pid}/fd`).length
  const settled = () => until('one generation is left', async () => await lb.node.metric('fn_config_generations') === 1)

  // To the other mark. -> what the command said.
  async function reload() {
    return lb.reload({ mark: mark === 'a' ? 'b' : 'a' })
  }

  async function check(what, said) {
    assert.equal(lb.node.exit, null, `${what}: ended\n${lb.node.log.slice(-2000)}`)
    if (said.code === TAKEN) mark = mark === 'a' ? 'b' : 'a'
    else if (said.code !== KEPT) mark = (await lb.mark())[0] // the answer was lost, whatever it was
    assert.match(said.out + said.err, /\w/, `${what}: it does not say why`)
    assert.equal(await lb.mark(), `${mark}-${mark}`, `${what}: ${JSON.stringify(said)}`)
    assert.equal((await reload()).code, TAKEN, `${what}: the next one is not taken\n${lb.node.log.slice(-2000)}`)
    mark = mark === 'a' ? 'b' : 'a'
    assert.equal(await lb.mark(), `${mark}-${mark}`, what)
  }

  for (const row of [['malloc aside', 'ENOMEM', 20, 9], ['open', 'EMFILE', 20, 1], ['mmap', 'ENOMEM', 20, 1], ['thread', 'EAGAIN', 10, 1],
    ['epoll_ctl', 'ENOSPC', 10, 1], ['eventfd', 'EMFILE', 10, 1], ['read', 'EINTR', 20, 1]]) {
    it(`${row[0]}: ${row[1]}`, async () => {
      await torture.each(row, reload, check)
    })
  }

  it('gives back what it opened', async () => {
    await settled()
    await until('descriptors', () => open() <= descriptors + 2)
  })
})

describe('torture of an end', () => {
  const torture = new Torture()
  after(() => torture.close())

  for (const row of [['malloc aside', 'ENOMEM', 10, 17], ['epoll_wait', 'EINTR', 5, 17], ['epoll_ctl', 'ENOSPC', 10, 1], ['open', 'EMFILE', 5, 71]]) {
    it(`${row[0]}: ${row[1]}`, async () => {
      // A node with a call is there before each failure; the last one is for nobody.
      let { node, running } = await busy()
      await torture.each(row, (what) => end(what, node), async (what, exit) => {
        assert.equal(exit.code, 0, `${what}\n${node.log.slice(-2000)}`)
        const answer = await running
        assert.ok(answer.status > 0, `${what}: a call without an answer`);
        ({ node, running } = await busy())
      })
      await end(row[0], node)
    })
  }

  async function busy() {
    const node = await startFull(torture.env)
    await node.ready()
    await serves('before', node)
    const running = call(node, '150 slow', 'ledger')
    await until('its call runs', async () => await node.metric('fn_calls_in_flight') > 0)
    return { node, running }
  }
})

// What one app may do to another on the same runner and engine: nothing. A registry and a log server that accept and are
// silent, or drip, hold up the engine's pulls, starts and removals of one app; the cold starts of a quiet one go on.
// Alone: it measures what an app notices of another.
import assert from 'node:assert/strict'
import net from 'node:net'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { driver, noEngine as skip } from './lib/docker.mjs'
import { invoke, request } from './lib/http.mjs'
import { until } from './lib/node.mjs'

const COLD_MAX_MS = 10_000 // half a second on an idle machine; 20 s and more while it waits for the others
const MEMORY_MB = 1024
const EVIL = 8

// Accepts; `bytes` go out one a second.
class EvilServer {
  constructor(bytes = '') {
    this.sockets = new Set()
    this.server = net.createServer((s) => {
      let at = 0
      const drip = bytes && setInterval(() => s.write(bytes[at++ % bytes.length]), 1000)
      this.sockets.add(s.on('error', () => {}).on('close', () => {
        clearInterval(drip)
        this.sockets.delete(s)
      }).resume())
    })
  }

  async start() {
    await new Promise((resolve) => { this.server.listen(0, '127.0.0.1', resolve) })
    return this.server.address().port
  }

  stop() {
    this.server.close()
    for (const s of this.sockets) s.destroy()
  }
}

describe('an app beside one that misbehaves', { skip }, () => {
  const silent = new EvilServer()
  const dripping = new EvilServer('HTTP/1.1 200 OK\r\n\r\n')
  const functions = {}
  let runner
  let lb
  let quiet = 0

  before(async () => {
    const port = await silent.start()
    const drip = await dripping.start()
    // Images that this runner has not looked up before.
    const images = ['hello', 'echo', 'node-hello', 'hello']
    images.forEach((image, i) => { functions[`quiet${i}`] = { image: `fnd/${image}:latest`, memory: 64 } })
    for (let i = 0; i < EVIL; i++) functions[`pulls${i}`] = { app: 'pulls', image: `127.0.0.1:${port}/evil${i}:latest`, memory: 64 }
    functions.large = { app: 'large', image: `127.0.0.1:${drip}/large:latest`, memory: MEMORY_MB }
    functions.logs = { app: 'logs', image: 'fnd/hello:latest', memory: 64 }
    const options = 'owner: e2e-neighbours-' + process.pid + '\nfreeze_idle: never\npull_timeout: never\nstart_timeout: never\nsyslog_own_networks: true\nmemory_total: ' + MEMORY_MB + 'MiB'
    runner = await startRunner({ driver: driver(), runner: options })
    lb = await startLb({ addresses: [runner.address], functions, apps: { logs: `syslog_url: "tcp+tls://127.0.0.1:${port}"` } })
  })

  after(async () => {
    silent.stop()
    dripping.stop()
    await lb?.stop()
    await runner?.stop()
  })

  // Clients that leave after a second.
  const leave = (name) => request(lb.url(`/invoke/${fnId(name)}`), { method: 'POST', timeoutMs: 1000, keepAlive: false }).catch((e) => e)

  async function coldStart(what) {
    const begin = Date.now()
    const answer = await invoke(lb, fnId(`quiet${quiet++}`))
    const ms = Date.now() - begin
    assert.equal(answer.status, 200, `${what}: ${answer.text}`)
    assert.ok(ms < COLD_MAX_MS, `${what}: a cold start took ${ms} ms`)
  }

  it('alone', () => coldStart('alone'))

  it('one call of a large function from a registry that drips takes no memory', async () => {
    await leave('large')
    await coldStart('beside a registry that drips')
  })

  it('images of a registry that is silent hold up no image that is there', async () => {
    await Promise.all(Array.from({ length: EVIL }, (_, i) => leave(`pulls${i}`)))
    assert.ok(silent.sockets.size > 0, 'the engine asks the registry')
    await coldStart('beside a registry that is silent')
  })

  it('a log server that is silent holds up no start, and each call of its app has an answer', async () => {
    const before = silent.sockets.size
    const calls = Promise.all(Array.from({ length: EVIL }, () => invoke(lb, fnId('logs'))))
    await until('the engine asks the log server', () => silent.sockets.size > before)
    await coldStart('beside a log server that is silent')
    silent.stop() // a short test: they would wait for their placement timeout
    for (const answer of await calls) {
      assert.notEqual(answer.status, 200)
      assert.ok(['failed', 'not-executed'].includes(answer.headers['fn-outcome']), answer.headers['fn-outcome'])
    }
  })
})

// What strangers do to a load balancer and its runner, all at once, in a process of its own (evil-tenant.test.mjs): it
// ends with its standard input, and tells how often it made each attack.
import http from 'node:http'
import net from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client, message } from './grpc.mjs'
import { fnId } from './cluster.mjs'

export const IMAGES = 8 // functions whose images never come
export const SYSLOGS = 8 // functions whose log server says nothing
const HOSTILE_PEER = '127.0.0.2' // the load balancer is 127.0.0.1
const HOSTILE_CLIENT = '127.0.0.3'
const KEPT_OPEN = 200

export const nth = (name, i) => `${name}x${String(i).padStart(3, '0')}`
const all = (n, f) => Promise.all(Array.from({ length: n }, (_, i) => f(i)))

// An answer in time, or null for a client that leaves after `leaveMs`.
export async function post(port, name, body, { leaveMs = 60_000, localAddress } = {}) {
  const options = { method: 'POST', localAddress, agent: localAddress ? new http.Agent() : undefined }
  return new Promise((resolve) => {
    const req = http.request(`http://127.0.0.1:${port}/invoke/${fnId(name)}`, options, (res) => {
      res.resume()
      res.on('close', () => resolve({ status: res.statusCode, outcome: res.headers['fn-outcome'] }))
    })
    req.setTimeout(leaveMs, () => req.destroy())
    req.on('error', () => resolve(null))
    req.end(body)
  })
}

// Every attack is a loop of its own, until stop().
class Attacks {
  constructor({ lb, grpc }) {
    Object.assign(this, { lb, grpc, going: true, loops: [], open: [], done: {} })
  }

  start() {
    // Files that take long to remove, and a container that ends with them.
    this.#loop('fragments', 1000, async () => {
      await post(this.lb, 'fragments', 'fragments 50000')
      await post(this.lb, 'fragments', 'exit 0')
    })
    // Starts that wait for images, of which the callers leave.
    this.#loop('images', 500, () => all(IMAGES, (i) => post(this.lb, nth('image', i), '', { leaveMs: 1000 })))
    // Starts that hang in the engine.
    this.#loop('syslog', 500, () => all(SYSLOGS, (i) => post(this.lb, nth('syslog', i), '', { leaveMs: 1000 })))
    // The port of the runner: large messages, calls without bodies, connections that say nothing.
    const extensions = Buffer.concat(Array.from({ length: 60_000 }, (_, i) => message([6, message([1, String(1e6 - i)], [2, 'x'])])))
    const target = `http://127.0.0.1:${this.grpc}`
    this.#loop('messages', 250, () => this.#peer(target, message([1, '{}'], [2, extensions])))
    this.#loop('models', 250, () => this.#peer(target, message([1, `{"x":"${'y'.repeat(1 << 20)}"}`])))
    this.#loop('connections', 50, () => this.#hold(this.grpc))
    // Lines of the log, while nobody reads them.
    for (let i = 0; i < 4; i++) {
      this.#loop('lines', 5, (n) => post(this.lb, `none${i}x${n}`, '', { localAddress: HOSTILE_CLIENT }))
    }
    // Many requests in one piece.
    const pipeline = 'GET /version HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(500)
    this.#loop('pipeline', 200, () => this.#write(this.lb, pipeline))
  }

  #loop(what, pauseMs, act) {
    this.loops.push((async () => {
      for (let n = 0; this.going; n++) {
        await act(n)
        this.done[what] = (this.done[what] ?? 0) + 1
        await wait(pauseMs)
      }
    })())
  }

  // A call whose body never comes.
  async #peer(target, call) {
    const client = new Client(target, { localAddress: HOSTILE_PEER })
    client.call('/RunnerProtocol/Engage', message([1, call]))
    this.open.push(client)
    await Promise.race([client.failed, wait(500)])
    if (this.open.length > KEPT_OPEN) this.open.shift().close()
  }

  #hold(port) {
    const socket = net.connect({ port, host: '127.0.0.1', localAddress: HOSTILE_PEER })
    socket.on('error', () => {})
    this.open.push({ close: () => socket.destroy() })
  }

  #write(port, bytes) {
    return new Promise((done) => {
      const socket = net.connect({ port, host: '127.0.0.1', localAddress: HOSTILE_CLIENT }, () => socket.end(bytes))
      socket.resume()
      socket.on('error', () => {})
      socket.on('close', done)
    })
  }

  async stop() {
    this.going = false
    for (const o of this.open) o.close()
    await Promise.all(this.loops)
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const attacks = new Attacks(JSON.parse(process.argv[2]))
  attacks.start()
  process.stdin.resume().once('end', async () => {
    await attacks.stop()
    process.stdout.write(JSON.stringify(attacks.done), () => process.exit(0))
  })
}

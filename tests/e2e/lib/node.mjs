// Starts and stops real fnd processes for the end-to-end tests.
//
// A node is started from a fn.yaml text, is ready when it answers GET /version, and is gone when
// stop() or kill() returned. Its log is kept and shown when something fails.
import { execFile, spawn } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { closeIdle, request } from './http.mjs'
import { socketOfPort, temporary } from './leftovers.mjs'

// Debian's Node.js 18 has no import.meta.dirname.
export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..')
export const build = path.resolve(root, process.env.FND_BUILD ?? 'build')
// For builds with a sanitizer.
const sanitizers = Object.fromEntries(Object.entries(process.env).filter(([name]) => /^[AT]SAN_OPTIONS$/.test(name)))
const START_TIMEOUT_MS = 20_000
const STOP_TIMEOUT_MS = 20_000

export function tempDir() {
  return temporary(path.join(tmpdir(), 'fnd-e2e-'))
}

// A port that was free a moment ago.
// Below the range that the kernel gives to outgoing connections: a port of that one may be in use
// again before the node listens on it.
const PORT_FIRST = 10_000
const PORTS = 22_000

export function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer()
    const next = () => server.listen(PORT_FIRST + Math.floor(Math.random() * PORTS), '127.0.0.1')
    server.on('error', next)
    server.once('listening', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
    next()
  })
}

// Runs cond() until it gives a truthy value; the deadline is a failure, not a wait. One that costs something, as a
// command does, is asked less often: tests that wait leave the processors to those that do not.
const LOOK_MS = [10, 100]
export async function until(what, cond, timeoutMs = 10_000) {
  const end = Date.now() + timeoutMs
  for (;;) {
    const began = Date.now()
    const value = await cond()
    if (value) return value
    if (Date.now() > end) throw new Error(`not within ${timeoutMs} ms: ${what}`)
    const pause = Math.min(LOOK_MS[1], Math.max(LOOK_MS[0], 3 * (Date.now() - began)))
    await new Promise((r) => setTimeout(r, pause))
  }
}

// What a failed test left running ends with its file, which could not end otherwise.
const running = new Set()
if (process.env.NODE_TEST_CONTEXT) after(() => Promise.all([...running].map((fnd) => fnd.kill())))

// FND_TRANSPORT=core scripts/test e2e: every node of every test speaks gRPC over C core.
const transport = process.env.FND_TRANSPORT ? { FND_TRANSPORT: process.env.FND_TRANSPORT } : {}

export class Fnd {
  constructor(name, port, dir) {
    Object.assign(this, { name, port, dir, log: '', exit: null })
  }

  url(p) {
    return `http://${this.host ?? '127.0.0.1'}:${this.port}${p}`
  }

  // yaml: text of fn.yaml, with the port already in it; null: what env and args say is all.
  // within: a command that runs it elsewhere, where `host` is its address. program: a copy of fnd.
  static async start(name, port, yaml, { env = {}, args = [], wait = true, within = [], host, program = path.join(build, 'fnd') } = {}) {
    const dir = tempDir()
    const file = path.join(dir, 'fn.yaml')
    if (yaml !== null) writeFileSync(file, yaml, { mode: 0o600 })
    const fnd = new Fnd(name, port, dir)
    socketOfPort(port)
    fnd.host = host
    fnd.start = () => fnd.#spawn([...within, program, 'run', ...(yaml === null ? [] : ['--config', file]), ...args], env, wait)
    await fnd.start()
    return fnd
  }

  async #spawn([program, ...args], env, wait) {
    this.exit = null
    this.child = spawn(program, args, {
      env: { PATH: process.env.PATH, TMPDIR: this.dir, ...transport, ...sanitizers, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.pid = this.child.pid
    running.add(this)
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on('data', (data) => { this.log += data })
    }
    this.ended = new Promise((resolve) => {
      this.child.once('close', (code, signal) => {
        this.exit = { code, signal }
        running.delete(this)
        resolve(this.exit)
      })
    })
    if (wait) await this.ready()
  }

  async ready() {
    await until(`${this.name} answers`, async () => {
      if (this.exit) throw new Error(`${this.name} ended: ${JSON.stringify(this.exit)}\n${this.log}`)
      const answer = await request(this.url('/version')).catch(() => null)
      return answer?.status === 200
    }, START_TIMEOUT_MS)
  }

  signal(signo) {
    if (!this.exit) process.kill(this.pid, signo)
  }

  async kill() {
    this.signal('SIGKILL')
    return this.ended
  }

  async stop() {
    closeIdle(this.port) // the node would wait for a last request
    this.signal('SIGCONT')
    this.signal('SIGTERM')
    const timer = setTimeout(() => this.signal('SIGKILL'), STOP_TIMEOUT_MS)
    const exit = await this.ended
    clearTimeout(timer)
    rmSync(this.dir, { recursive: true, force: true })
    return exit
  }

  get adminSocket() {
    return /admin=(\S+)/.exec(this.log)[1]
  }

  // What a command prints of this node.
  async ask(...args) {
    return (await promisify(execFile)(path.join(build, 'fnd'), [...args, '--socket', this.adminSocket])).stdout
  }

  async metrics() {
    const text = (await request(this.url('/metrics'))).text
    const values = new Map()
    for (const line of text.split('\n')) {
      const m = /^([a-z_:][^{ ]*(?:{.*})?) (.*)$/i.exec(line)
      if (m) values.set(m[1], Number(m[2]))
    }
    return values
  }

  // Sum of all series of a family.
  async metric(name) {
    let sum = 0
    for (const [key, value] of await this.metrics()) {
      if (key === name || key.startsWith(`${name}{`)) sum += value
    }
    return sum
  }

  rssKiB() {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${this.pid}/status`, 'utf8'))[1])
  }
}

// What a reload does to calls: p99 while one is made and switched in, beside p99 without one.
//
//   FND_BUILD=build node bench/reload.mjs [--json]
//
// A load balancer and a runner with the process driver; this process offers RATE calls/s over plain
// sockets, open loop: a call that finds no free connection waits from then on. Rounds
// alternate: a stretch without reload, then one reload that changes placer and overriders. Reloads are
// asked for on the admin socket, so that no process is started while latencies are taken.
import { renameSync, utimesSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import { fnId, startRunner } from '../tests/e2e/lib/cluster.mjs'
import { ReloadLb, lbYaml, stampDriver } from '../tests/e2e/lib/reload.mjs'
import { until } from '../tests/e2e/lib/node.mjs'

const RATE = Number(process.env.FND_BENCH_RATE ?? 10_000)
const CONNECTIONS = 64
const ROUNDS = Number(process.env.FND_BENCH_ROUNDS ?? 20)
const QUIET_MS = 300
const AFTER_MS = 50 // the old generation ends
const TICK_MS = 1
const json = process.argv.includes('--json')

const now = () => Number(process.hrtime.bigint() / 1000n) // us

class Load {
  constructor(port) {
    const body = '{"name":"x"}'
    Object.assign(this, { port, idle: [], queue: [], done: [], failed: 0 })
    this.bytes = Buffer.from(`POST /invoke/${fnId('hello')} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  }

  async start() {
    await Promise.all(Array.from({ length: CONNECTIONS }, () => this.#connect()))
    this.offer(RATE)
    this.timer = setInterval(() => this.#tick(), TICK_MS)
  }

  // From now on that many calls/s.
  offer(rate) {
    Object.assign(this, { rate, begun: now(), sent: 0, queue: [] })
  }

  #connect() {
    return new Promise((resolve) => {
      const s = net.connect(this.port, '127.0.0.1', () => { this.idle.push(s); resolve() })
      s.setNoDelay(true)
      s.on('data', (data) => this.#answer(s, data))
      s.on('error', () => { this.failed++ })
      s.on('close', () => { if (this.timer) this.#connect() })
    })
  }

  #tick() {
    const due = Math.floor((now() - this.begun) * this.rate / 1e6)
    for (; this.sent < due; this.sent++) {
      const s = this.idle.pop()
      if (s) this.#send(s, now())
      else this.queue.push(now())
    }
  }

  #send(s, turn) {
    s.turn = turn
    s.text = ''
    s.write(this.bytes)
  }

  // An answer with a Content-Length may come in pieces.
  #answer(s, data) {
    s.text += data.toString('latin1')
    const head = s.text.indexOf('\r\n\r\n')
    const length = Number(/content-length: (\d+)/i.exec(s.text)?.[1] ?? 0)
    if (head < 0 || s.text.length < head + 4 + length) return
    if (!s.text.startsWith('HTTP/1.1 200')) this.failed++
    this.done.push([s.turn, now() - s.turn])
    if (/connection: close/i.test(s.text)) return
    if (this.queue.length) this.#send(s, this.queue.shift())
    else this.idle.push(s)
  }

  stop() {
    clearInterval(this.timer)
    this.timer = null
  }
}

function p(list, share) {
  const sorted = [...list].sort((a, b) => a - b)
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] : 0
}

function reload(lb) {
  return new Promise((resolve, reject) => {
    const rq = http.request({ socketPath: lb.socket(), method: 'POST', path: '/reload' }, (answer) => {
      answer.resume()
      answer.on('end', () => (answer.statusCode === 200 ? resolve() : reject(new Error(`reload: ${answer.statusCode}`))))
    })
    rq.on('error', reject)
    rq.end()
  })
}

function replace(lb, text) {
  writeFileSync(`${lb.file}.new`, text, { mode: 0o600 })
  utimesSync(`${lb.file}.new`, 1, 1)
  renameSync(`${lb.file}.new`, lb.file)
}

const sleep = (ms) => new Promise((r) => setTimeout(r, ms))

const runner = await startRunner({ driver: stampDriver, runner: 'freeze_idle: never\nuser_logs: false' })
const lb = await ReloadLb.start({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions: { hello: {} } })
const configs = ['naive', 'ch'].map((placer, i) => lbYaml({ ...lb.options, placer, second: `, slow: ${i}ns` }))
const load = new Load(lb.options.port)
await load.start()
await sleep(3000) // containers and memory are warm
// A machine that cannot carry the rate would be measured by the length of its queue.
for (load.offer(RATE); await sleep(1000), load.queue.length > 0; load.offer(load.rate * 0.7)) await sleep(0)
for (let i = 0; i < 4; i++) {
  replace(lb, configs[i % 2])
  await reload(lb)
}
const windows = []
load.done = []
const begun = now()
for (let i = 0; i < ROUNDS; i++) {
  const quiet = now()
  await sleep(QUIET_MS)
  replace(lb, configs[i % 2])
  const begin = now()
  await reload(lb)
  const made = now()
  await sleep(AFTER_MS)
  windows.push({ quiet, begin, made, end: now() })
}
const seconds = (now() - begun) / 1e6
load.stop()
const before = []
const during = []
for (const [turn, took] of load.done) {
  const w = windows.find((x) => turn + took >= x.quiet && turn <= x.end)
  if (!w) continue
  (turn + took < w.begin ? before : during).push(took)
}
const result = {
  rate: Math.round(load.done.length / seconds), calls_before: before.length, calls_during: during.length,
  before_p50_us: Math.round(p(before, 0.5)), during_p50_us: Math.round(p(during, 0.5)),
  before_p99_us: Math.round(p(before, 0.99)), during_p99_us: Math.round(p(during, 0.99)),
  reload_ms: Number((p(windows.map((w) => w.made - w.begin), 0.5) / 1000).toFixed(1)), failed: load.failed,
}
await until('the calls have ended', () => load.idle.length >= CONNECTIONS - 1, 5000).catch(() => {})
await Promise.race([lb.stop(), sleep(3000)])
await Promise.race([runner.stop(), sleep(3000)])
if (load.rate < RATE) console.error(`this machine did not carry ${RATE} calls/s just now; offered ${Math.round(load.rate)}`)
if (!json) console.error(`${ROUNDS} reloads under ${result.rate} calls/s, each ${result.reload_ms} ms`)
console.log(JSON.stringify(result))
process.exit(result.failed > 0 ? 1 : 0)

// scripts/bench: measures fnd, and a Go peer when FN_PEER names its binary, in alternating rounds.
//
// Figures: calls/s and latency from wrk; CPU from /proc/PID/schedstat of the load balancer and the
// runner; memory from /proc/PID/status. Everything runs on one machine, load generator included.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Fnd, build, freePort, tempDir, until } from '../tests/e2e/lib/node.mjs'
import { request } from '../tests/e2e/lib/http.mjs'
import { cpuMicros, median, rssMB } from './lib/figures.mjs'

const ROUNDS = Number(process.env.FND_BENCH_ROUNDS ?? 5)
const SECONDS = Number(process.env.FND_BENCH_SECONDS ?? 4)
// After a load the Go peer pauses its containers through the engine, which takes seconds of processor
// time: the next load begins when nine tenths of the machine are idle.
const QUIET_IDLE = 0.9
const QUIET_WAIT_MS = 15_000
const IMAGE = 'fnd/hello:latest'
const MEMORY_MB = 64

// Of all processors; what niced programs use counts as idle.
function idleTicks() {
  const [, user, nice, system, idle, iowait, irq, softirq, steal] = readFileSync('/proc/stat', 'utf8').split('\n')[0].split(/ +/).map(Number)
  return { idle: nice + idle + iowait, all: user + nice + system + idle + iowait + irq + softirq + steal }
}

async function quiet() {
  for (let waited = 0; waited < QUIET_WAIT_MS; waited += 500) {
    const before = idleTicks()
    await new Promise((done) => setTimeout(done, 500))
    const now = idleTicks()
    if ((now.idle - before.idle) / (now.all - before.all) >= QUIET_IDLE) return
  }
}

const wrkScript = path.join(mkdtempSync(path.join(tmpdir(), 'fnd-bench-')), 'post.lua')
writeFileSync(wrkScript, `wrk.method = "POST"
wrk.body = '{"name":"benchmark"}'
wrk.headers["Content-Type"] = "application/json"
done = function(summary, latency, requests)
  io.write(string.format("RESULT %d %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    summary.errors.status, summary.errors.connect + summary.errors.read + summary.errors.timeout))
end
`)

// A node that answers nothing any more would hold the generator for ever.
const LOAD_LATE_MS = 20_000
const STOP_MS = 10_000

// -> Promise of { rate, p50, p99, errors, requests }, latencies in microseconds.
function wrk(url, connections, seconds) {
  return new Promise((resolve, reject) => {
    const child = spawn('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', wrkScript, url],
      { timeout: seconds * 1000 + LOAD_LATE_MS, killSignal: 'SIGKILL' })
    let text = ''
    child.stdout.on('data', (d) => { text += d })
    child.on('error', reject)
    child.on('close', () => {
      const m = /RESULT (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)/.exec(text)
      if (!m) return reject(new Error(`wrk at ${url}: ${text || `no end within ${LOAD_LATE_MS / 1000} s`}`))
      const [requests, micros, p50, p99, bad, failed] = m.slice(1).map(Number)
      resolve({ requests, rate: requests / (micros / 1e6), p50, p99, errors: bad + failed })
    })
  })
}

const docker = (...args) => execFileSync('docker', args, { stdio: ['ignore', 'pipe', 'ignore'] }).toString()

function removeContainers() {
  const ids = docker('ps', '-aq', '--filter', `ancestor=${IMAGE}`).split('\n').filter(Boolean)
  if (ids.length) docker('rm', '-f', ...ids)
}

function warm(s) {
  return until(`${s.name} warm`, async () =>
    (await request(s.url, { method: 'POST', body: '{"name":"warm"}' })).status === 200, 60_000)
}

// Loads of 64 connections until one of them has started no container: starts cost more than calls.
const SETTLE_LOADS = 12
async function settle(url) {
  const count = () => docker('ps', '-q', '--filter', `ancestor=${IMAGE}`).split('\n').length
  for (let i = 0, before = -1; i < SETTLE_LOADS && before !== count(); i++) {
    before = count()
    await wrk(url, 64, 2)
  }
}

// The engine that scripts/bench started, else the machine's own.
const DRIVER = process.env.DOCKER_HOST ? `{ use: docker, docker_host: "${process.env.DOCKER_HOST}" }` : '{ use: docker }'

// ---- the two systems ------------------------------------------------------------------------

// grpc: "tcp", or "unix" for nodes that share a machine. more: lines of both nodes' fn.yaml.
async function startFnd(grpc = 'tcp', more = '', env = {}) {
  const [lbPort, runnerPort] = [await freePort(), await freePort()]
  const address = grpc === 'tcp' ? `127.0.0.1:${await freePort()}` : `unix:${path.join(tempDir(), 'grpc.sock')}`
  const runnerYaml = (more) => `
node: pure-runner
http: { listen: "127.0.0.1:${runnerPort}" }
grpc: { listen: "${address}" }
plugin_dir: ${path.join(build, 'plugins')}
${more}
plugins:
  driver: ${DRIVER}
`
  const lbYaml = (more) => `
node: lb
http: { listen: "127.0.0.1:${lbPort}" }
plugin_dir: ${path.join(build, 'plugins')}
${more}
plugins:
  placer: { use: naive }
  pool: { use: static, runners: ["${address}"] }
apps:
  - name: bench
    functions:
      - { name: hello, id: 01BENCH0000000000000000000, image: "${IMAGE}", memory: ${MEMORY_MB}, idle_timeout: 600 }
`
  const runner = await Fnd.start('runner', runnerPort, runnerYaml(more), { env })
  const lb = await Fnd.start('lb', lbPort, lbYaml(more), { env })
  return {
    name: `fnd, ${grpc}`, pids: [lb.pid, runner.pid], url: lb.url('/invoke/01BENCH0000000000000000000'),
    stop: async () => { await lb.stop(); await runner.stop() },
    reload: (more) => { reload(runner, runnerYaml(more)); reload(lb, lbYaml(more)) },
  }
}

function reload(node, yaml) {
  const file = path.join(node.dir, 'fn.yaml')
  writeFileSync(file, yaml, { mode: 0o600 })
  execFileSync(path.join(build, 'fnd'), ['reload', '--config', file], { env: { PATH: process.env.PATH, TMPDIR: node.dir }, stdio: 'ignore' })
}

async function startPeer(binary) {
  const dir = tempDir()
  const children = []
  const node = async (type, port, env) => {
    const child = spawn(binary, [], { stdio: 'ignore', cwd: dir,
      env: { PATH: process.env.PATH, HOME: dir, ...(process.env.DOCKER_HOST ? { DOCKER_HOST: process.env.DOCKER_HOST } : {}), FN_NODE_TYPE: type, FN_PORT: String(port), FN_LOG_LEVEL: 'error', ...env } })
    children.push(child)
    await until(`${type} answers`, () => request(`http://127.0.0.1:${port}/version`).catch(() => null), 30_000)
    return child.pid
  }
  const [api, lb, runner, grpc] = [await freePort(), await freePort(), await freePort(), await freePort()]
  await node('api', api, { FN_DB_URL: `sqlite3://${dir}/fn.db` })
  const runnerPid = await node('pure-runner', runner, { FN_GRPC_PORT: String(grpc), FN_ENABLE_NB_RESOURCE_TRACKER: 'true', FN_IOFS_PATH: dir })
  const lbPid = await node('lb', lb, { FN_RUNNER_API_URL: `http://127.0.0.1:${api}`, FN_RUNNER_ADDRESSES: `127.0.0.1:${grpc}` })
  const post = async (p, body) => JSON.parse((await request(`http://127.0.0.1:${api}${p}`,
    { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } })).text)
  const app = await post('/v2/apps', { name: 'bench' })
  const fn = await post('/v2/fns', { name: 'hello', app_id: app.id, image: IMAGE, memory: MEMORY_MB, idle_timeout: 600 })
  return {
    name: 'Go Fn', pids: [lbPid, runnerPid], url: `http://127.0.0.1:${lb}/invoke/${fn.id}`,
    stop: async () => {
      const gone = Promise.all(children.map((c) => new Promise((r) => c.once('close', r))))
      for (const child of children) child.kill('SIGTERM')
      const late = setTimeout(() => children.forEach((c) => c.kill('SIGKILL')), STOP_MS)
      await gone
      clearTimeout(late)
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

// The table's columns, and how each of them starts; FND_BENCH_COLUMNS=0,3 measures these alone.
const columns = process.env.FND_BENCH_COLUMNS?.split(',').map(Number)
const paths = [
  ['fnd', () => startFnd('tcp')],
  ['fnd, unix socket between the nodes', () => startFnd('unix')],
  ['fnd, processors_awake: false', () => startFnd('tcp', 'processors_awake: false')],
  ['fnd, transport: core', existsSync(path.join(build, 'transports', 'grpc-core.so')) && (() => startFnd('tcp', '', { FND_TRANSPORT: 'core' }))],
  ['Go Fn', process.env.FN_PEER && (() => startPeer(path.resolve(process.env.FN_PEER)))],
]
// The same nodes with other lines in fn.yaml; their callers ask for no trace.
const tracing = [
  ['fnd, no traces', () => ''],
  ['one call in a hundred traced', (url) => `traces: { endpoint: "${url}", sample_permille: 10 }`],
  ['each call traced', (url) => `traces: { endpoint: "${url}", sample_permille: 1000 }`],
]
const parts = process.argv.slice(2)
const systems = (parts[0] === 'traces' ? tracing : paths).filter(([, make], i) => make && (!columns || columns.includes(i)))

// ---- measurements ----------------------------------------------------------------------------

const rows = []
function row(what, target, list, figure) {
  rows.push([what, target, ...list.map(figure)])
}

async function measureLoads(s, results) {
  for (const c of Object.keys(results)) {
    await quiet()
    const before = s.pids.map(cpuMicros)
    const r = await wrk(s.url, c, SECONDS)
    r.cpu = s.pids.map((pid, i) => (cpuMicros(pid) - before[i]) / r.requests)
    r.rss = s.pids.map(rssMB)
    results[c].push(r)
  }
}

// One system at a time: fifty idle containers of another cost a tenth of the calls and double the p99.
async function measurePath() {
  const list = systems.map(([, start]) => ({ start, results: { 1: [], 8: [], 64: [] } }))
  for (let round = 0; round < ROUNDS; round++) {
    for (const { start, results } of list) {
      const s = await start()
      try {
        await warm(s)
        await settle(s.url)
        await measureLoads(s, results)
      } finally {
        await s.stop()
        removeContainers()
      }
    }
  }
  rowsOfLoads(list)
}

const cpu = (r) => r.cpu[0] + r.cpu[1]

function rowsOfLoads(list) {
  const of = (s, c, f) => median(s.results[c].map(f))
  for (const c of [8, 64]) {
    row(`calls/s, c=${c}`, c === 8 ? '>= 18000' : '>= 16000', list, (s) => of(s, c, (r) => r.rate).toFixed(0))
  }
  for (const c of [8, 64]) {
    row(`CPU per call, LB + runner, c=${c}`, c === 8 ? '' : '<= 80 us', list, (s) =>
      `${of(s, c, cpu).toFixed(1)} us (${of(s, c, (r) => r.cpu[0]).toFixed(1)} + ${of(s, c, (r) => r.cpu[1]).toFixed(1)})`)
  }
  for (const c of [1, 8, 64]) row(`p50, c=${c}`, c === 1 ? '<= 250 us' : '', list, (s) => `${of(s, c, (r) => r.p50)} us`)
  row('p99, c=8', '<= 3 ms', list, (s) => `${(of(s, 8, (r) => r.p99) / 1000).toFixed(2)} ms`)
  row('resident memory behind it, LB + runner', '', list, (s) =>
    `${of(s, 64, (r) => r.rss[0]).toFixed(1)} + ${of(s, 64, (r) => r.rss[1]).toFixed(1)} MB`)
  row('errors, all rounds', '0', list, (s) => Object.values(s.results).flat().reduce((n, r) => n + r.errors, 0))
}

// What one per cent costs is less than two starts of the same node differ by: one pair of nodes is
// reloaded, in turns of alternating order, and each turn is compared with its own.
async function measureTraces() {
  const collector = http.createServer((req, res) => { req.resume().on('end', () => res.end()) })
  await new Promise((resolve) => collector.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${collector.address().port}/v1/traces`
  const list = systems.map(([, lines]) => ({ lines: lines(url), results: { 1: [], 8: [], 64: [] } }))
  const s = await startFnd()
  try {
    await warm(s)
    await settle(s.url)
    for (let round = 0; round < ROUNDS; round++) {
      for (const { lines, results } of round % 2 ? [...list].reverse() : list) {
        s.reload(lines)
        await measureLoads(s, results)
      }
    }
  } finally {
    await s.stop()
    removeContainers()
    collector.close()
  }
  rowsOfLoads(list)
  for (const c of [8, 64]) {
    row(`CPU per call against the first column, c=${c}`, '', list, ({ results }) => {
      const percent = results[c].map((r, i) => (cpu(r) / cpu(list[0].results[c][i]) - 1) * 100).sort((a, b) => a - b)
      const at = (q) => percent[Math.floor(percent.length * q)].toFixed(1)
      return `${median(percent).toFixed(1)} % (middle half: ${at(0.25)} to ${at(0.75)})`
    })
  }
}

async function measureMemory() {
  const s = await startFnd()
  try {
    await warm(s)
    let calls = 0
    let first
    while (calls < 1_000_000) {
      calls += (await wrk(s.url, 64, 10)).requests
      first ??= s.pids.map(rssMB)
    }
    const now = s.pids.map(rssMB)
    row(`resident memory after ${(calls / 1e6).toFixed(2)} M calls (LB, runner)`, '<= 25 MB', [s], () =>
      now.map((mb, i) => `${mb.toFixed(1)} MB (${(mb - first[i]).toFixed(1)} since the first 10 s)`).join(', '))
  } finally {
    await s.stop()
  }
}

// 10 000 calls wait at a load balancer; its only runner has room for one container, which is taken.
async function measureParked() {
  const [port, runnerPort, grpcPort] = [await freePort(), await freePort(), await freePort()]
  const CALLS = 10_000
  const SAMPLE_MS = 2000
  const HOLD_MS = 90_000
  const runner = await Fnd.start('runner', runnerPort, `
node: pure-runner
http: { listen: "127.0.0.1:${runnerPort}" }
grpc: { listen: "127.0.0.1:${grpcPort}" }
plugin_dir: ${path.join(build, 'plugins')}
runner: { memory_total: ${MEMORY_MB}MiB }
plugins:
  driver: { use: process, root: ${path.join(build, 'functions')} }
`)
  const lb = await Fnd.start('lb', port, `
node: lb
http: { listen: "127.0.0.1:${port}", connections_max: 20000, connections_per_ip_max: 20000 }
lb: { placement_timeout: 2m }
plugin_dir: ${path.join(build, 'plugins')}
plugins:
  placer: { use: naive }
  pool: { use: static, runners: ["127.0.0.1:${grpcPort}"] }
apps:
  - name: bench
    functions:
      - { name: sleeper, id: 01BENCH0000000000000000000, image: sleeper, memory: ${MEMORY_MB}, timeout: 120 }
`)
  try {
    const { default: net } = await import('node:net')
    const sockets = []
    const call = (body) => {
      const socket = net.connect(port, '127.0.0.1')
      socket.on('error', () => {})
      socket.write(`POST /invoke/01BENCH0000000000000000000 HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      sockets.push(socket)
    }
    call(String(HOLD_MS))
    await until('the runner is full', () => runner.metric('fn_container_busy_total'))
    const before = rssMB(lb.pid)
    for (let i = 0; i < CALLS; i++) {
      call('10'.padStart(20))
      if (i % 200 === 0) await new Promise((r) => setImmediate(r))
    }
    await until('all are there', async () => (await lb.metric('fn_calls_in_flight')) > CALLS, 25_000)
    await quiet()
    const each = ((rssMB(lb.pid) - before) * 1024) / CALLS
    const [cpu, refused, begin] = [cpuMicros(lb.pid), await lb.metric('fn_lb_placer_retry_busy_count'), Date.now()]
    await new Promise((r) => setTimeout(r, SAMPLE_MS))
    const seconds = (Date.now() - begin) / 1000
    const load = (cpuMicros(lb.pid) - cpu) / 1e6 / seconds
    const tries = (await lb.metric('fn_lb_placer_retry_busy_count') - refused) / CALLS / seconds
    rows.push(['10 000 parked calls', '<= 32 KiB each', `${each.toFixed(1)} KiB each, ${(load * 100).toFixed(1)} % of a core`])
    rows.push(['each offered to the full runner', '<= 10 times/s', `${tries.toFixed(2)} times/s`])
    for (const socket of sockets) socket.destroy()
  } finally {
    await lb.kill()
    await runner.kill()
  }
}

function measurePlace() {
  const out = execFileSync(path.join(build, 'bench', 'bench_decide')).toString()
  for (const line of out.trim().split('\n')) rows.push([line, '', ''])
}

const measurements = { path: measurePath, traces: measureTraces, parked: measureParked, memory: measureMemory, place: measurePlace }
const wanted = parts.length ? parts : Object.keys(measurements).filter((name) => name !== 'traces')
for (const name of wanted) {
  if (!measurements[name]) throw new Error(`unknown measurement "${name}"; known: ${Object.keys(measurements).join(" ")}, and plugins, npm, api, runner, mixed alone`)
  process.stderr.write(`measuring: ${name}\n`)
  await measurements[name]()
}
const head = ['what', 'must reach', ...systems.map(([name]) => name)]
console.log(`| ${head.join(' | ')} |\n|${head.map(() => '---').join('|')}|`)
for (const r of rows) console.log(`| ${[...r, '', '', '', ''].slice(0, head.length).join(' | ')} |`)
rmSync(path.dirname(wrkScript), { recursive: true, force: true })
process.exit(0)

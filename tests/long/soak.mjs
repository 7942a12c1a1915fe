// Mixed calls through three load balancers, while something fails every few seconds. Two of them have three runners, one
// of each driver; the third follows a manager whose runners are processes of its control plane, over mutual TLS. All have
// functions of their fn.yaml and functions of an API node. Containers are killed, the engine stops or hangs, functions run out
// of memory, are evicted or deployed anew, runners, manager and API end and come back, any node is stopped for seconds, ways
// to a runner and to the API break, stall and are slow, clients leave, load balancers get other placers, plugin files and
// certificates are replaced. In rounds; the load balancers live through all of them.
//
//   scripts/soak [calls=24000] [hours=H] [seed=N] [report=FILE.md]
//
// The seed draws calls and faults; how they meet is up to the machine. At the end of each round nothing runs, and:
// no call ran twice; each was answered, with its id and what became of it; a 200 ran once and is the caller's own; what
// was not executed never began; nothing ran that nobody was told of; no container, cgroup, mount, directory or process is
// left, and descriptors and memory of each node are what they were after a round without faults.
import { execFileSync, spawnSync } from 'node:child_process'
import { appendFileSync, chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, readlinkSync, renameSync, rmSync,
  truncateSync, utimesSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { Ledger, fnId, startLb, startRunner } from '../e2e/lib/cluster.mjs'
import { driver as dockerDriver } from '../e2e/lib/docker.mjs'
import { KEEPER_PORT, impossible, startEngine } from '../e2e/lib/engines.mjs'
import { closeIdle, request } from '../e2e/lib/http.mjs'
import { Fnd, build, freePort, root, tempDir, until } from '../e2e/lib/node.mjs'
import { Proxy } from '../e2e/lib/proxy.mjs'
import { resources } from '../e2e/lib/reload.mjs'
import { mulberry, pick } from './draw.mjs'
import { elasticPids, makeCerts, managerYaml, tlsEntry } from './elastic.mjs'
import { drawMemory, page } from './report.mjs'

const args = Object.fromEntries(process.argv.slice(2).map((a) => a.split('=')))
for (const key of Object.keys(args)) {
  if (!['calls', 'hours', 'seed', 'report'].includes(key)) throw new Error(`argument "${key}"; expected calls=N, hours=H, seed=N or report=FILE`)
}
const CALLS = Number(args.calls ?? 24_000) // of a round
const HOURS = Number(args.hours ?? 0) // rounds are begun until then; 0 = one
const SEED = Number(args.seed ?? Date.now() % 100_000)
const CALLERS = 16
const WARM_CALLS = 1500
const FAULT_MS = [1500, 4000] // between two
const FREEZE_MS = [200, 4000]
const LINK_MS = [300, 5000] // of a fault of the network
const BACK_MS = 60_000
const REST_MS = 120_000
const SETTLE_MS = 3000
const RSS_GROWTH_KIB = 6 * 1024
const FD_GROWTH = 4
const RUNNER_MB = 640
const STOP_LATE_MS = 60_000

const why = impossible()
if (why) throw new Error(`a soak needs root and a container engine: ${why}`)
const sleep = (ms) => new Promise((r) => setTimeout(r, ms))
const draw = mulberry(SEED)
const between = ([low, high], from) => low + from() * (high - low)

const dir = mkdtempSync('/var/tmp/fnd-soak-')
const problems = []
const began = Date.now()
const say = (text) => {
  const line = `${((Date.now() - began) / 1000).toFixed(1).padStart(8)} ${text}`
  console.log(line)
  appendFileSync(path.join(dir, 'acts'), `${line}\n`)
}
const problem = (text) => { problems.push(text); say(`PROBLEM ${text}`) }

// ---- the ledger: an address that leads to it from containers of the engine, from those of oci and from processes ----

const ledger = new Ledger()
const address = `198.18.${(process.pid >> 8) & 255}.${process.pid & 255}` // a network for tests (RFC 2544)
const ip = (...argv) => execFileSync('ip', argv, { stdio: ['ignore', 'ignore', 'pipe'] })
const keeper = net.createServer((socket) => {
  let text = ''
  socket.on('error', () => {})
  socket.on('data', (data) => {
    text += data
    const end = text.lastIndexOf('\n') + 1
    appendFileSync(ledger.file, text.slice(0, end))
    text = text.slice(end)
  })
})

// ---- nodes --------------------------------------------------------------------------------------------------------

const store = path.join(dir, 'store')
const state = path.join(dir, 'state')
const certs = path.join(dir, 'certs')
const plugins = path.join(dir, 'plugins')
const owner = (kind) => `soak-${process.pid}-${kind}`
const nodes = {}
const links = {} // ways whose network can fail: lb1 to the runner of processes, lb0 and lb1 to the API
let engine

const config = { LEDGER_ADDR: `${address}:${KEEPER_PORT}` }
const one = { image: 'fnd/ledger:latest', memory: 64, timeout: 20, idle_timeout: 5, config }
const functions = {
  oom: { image: 'fnd/misbehave:latest', memory: 64, timeout: 10, idle_timeout: 2 },
  misbehave: { image: 'fnd/misbehave:latest', memory: 64, timeout: 3, idle_timeout: 2 },
}
const hot = ['a', 'b', 'c', 'd'].map((c) => `hot-${c}`)
const cold = [...'abcdefghijkl'].map((c) => `cold-${c}`)
const big = ['a', 'b', 'c'].map((c) => `big-${c}`)
for (const name of hot) functions[name] = { ...one, app: 'warm' }
for (const name of cold) functions[name] = { ...one, idle_timeout: 1, app: name }
for (const name of big) functions[name] = { ...one, memory: 384, idle_timeout: 1, app: 'big' }
const made = new Map() // of the API node: name -> id
const idOf = (name) => made.get(name) ?? fnId(name)

function track(node) {
  node.expected = false
  node.ended.then((exit) => {
    if (!node.expected) problem(`${node.name} (${node.pid}) ended on its own: ${JSON.stringify(exit)}\n${node.log.slice(-3000)}`)
  })
}

const crash = /(fnd crashed|runtime error:|Sanitizer|WARNING: ThreadSanitizer)[^\n]*(\n[^\n]*){0,12}/
function keepLog(node) {
  const bad = crash.exec(node.log)
  if (bad) problem(`${node.name}: ${bad[0]}`)
  appendFileSync(path.join(dir, `log.${node.name}`), node.log)
  node.log = ''
}

const placers = ['naive', 'chbl', 'p2c', 'hybrid', 'ch']
const placer = (name) => `{ use: ${name}, file: ${path.join(plugins, `placer-${name}.so`)} }`
const command = (...argv) => spawnSync(path.join(build, 'fnd'), argv, { encoding: 'utf8', timeout: BACK_MS })

function copyPlugin(name) {
  const file = path.join(plugins, `placer-${name}.so`)
  copyFileSync(path.join(build, `plugins/placer-${name}.so`), `${file}.new`)
  renameSync(`${file}.new`, file)
}

// Old enough to be read at once.
function reload(lb, name) {
  const file = path.join(lb.dir, 'fn.yaml')
  writeFileSync(`${file}.new`, readFileSync(file, 'utf8').replace(/placer: .*/, `placer: ${placer(name)}`), { mode: 0o600 })
  utimesSync(`${file}.new`, 1, 1)
  renameSync(`${file}.new`, file)
  const { status, stderr } = command('reload', '--config', file)
  if (status !== 0) problem(`reload of ${lb.name} with ${name}: ${status} ${stderr}`)
}

async function api(method, at, body) {
  const a = await request(nodes.api.url(`/v2/${at}`), { method, body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } })
  if (a.status !== 200) throw new Error(`${method} ${at}: ${a.status} ${a.text}`)
  return JSON.parse(a.text)
}

async function startApi() {
  const port = await freePort()
  nodes.api = await Fnd.start('api', port, `
node: api
http: { listen: "127.0.0.1:${port}" }
store: { url: "sqlite3://${dir}/fn.db" }
log: { level: warn }
`)
  const app = await api('POST', 'apps', { name: 'made' })
  for (const name of ['made-a', 'made-b', 'made-c']) {
    made.set(name, (await api('POST', 'fns', { app_id: app.id, name, ...one })).id)
  }
}

// A manager, and the load balancer that follows it.
async function startElastic(more) {
  const port = await freePort()
  const grpc = await freePort()
  makeCerts(certs, ['lb-2'])
  nodes.npm = await Fnd.start('npm', port, managerYaml({ dir, certs, port, grpc, runnerMb: RUNNER_MB, groups: ['default'],
    driver: `driver: { use: process, root: ${path.join(build, 'functions')} }`, npm: 'log: { level: warn }' }))
  const pool = `{ use: npm, address: "127.0.0.1:${grpc}", interval: 200ms, lb_id: "spiffe://fnd/lb-2" }`
  nodes.lb2 = await startLb({ name: 'lb2', pool, functions, placer: placer('hybrid'), lb: balancing(),
    more: `${more}\ngrpc: { tls: node, reconnect_max: 200ms, probe_interval: 500ms, probe_timeout: 500ms }\ntls: { node: ${tlsEntry(certs, 'lb-2')} }` })
}

const balancing = (port = nodes.api.port) => `placement_timeout: 8s\ndetached_placement_timeout: 8s\napi_url: http://127.0.0.1:${port}\ncache_ttl: 2s`

async function startNodes() {
  const drivers = {
    docker: dockerDriver(engine.socket),
    oci: `driver: { use: oci, store: ${store}, state: ${state}, runtime: crun, network: host }`,
    process: `driver: { use: process, root: ${path.join(build, 'functions')} }`,
  }
  const more = 'log: { level: warn }\ndrain_timeout: 10s'
  for (const [kind, driver] of Object.entries(drivers)) {
    const iofs = tempDir()
    const runner = `owner: ${owner(kind)}\nmemory_total: ${RUNNER_MB}MiB\nuser_logs: false`
    nodes[kind] = Object.assign(await startRunner({ name: kind, driver, runner, more, iofs }), { iofs, kind })
  }
  const addresses = runners().map((n) => n.address)
  mkdirSync(plugins)
  chmodSync(plugins, 0o755)
  placers.forEach(copyPlugin)
  await startApi()
  links.process = await Proxy.start({ port: Number(nodes.process.address.split(':')[1]) })
  links.api = await Proxy.start({ port: nodes.api.port })
  const through = [addresses, addresses.map((a) => (a === nodes.process.address ? `127.0.0.1:${links.process.port}` : a))]
  for (const [i, first] of ['naive', 'chbl'].entries()) {
    nodes[`lb${i}`] = await startLb({ name: `lb${i}`, addresses: through[i], functions, placer: placer(first), more, lb: balancing(links.api.port) })
  }
  await startElastic(more)
  Object.values(nodes).forEach(track)
}

const runners = () => Object.values(nodes).filter((n) => n.kind)
const lbs = () => [nodes.lb0, nodes.lb1, nodes.lb2]

// ---- calls --------------------------------------------------------------------------------------------------------

let answers = [] // { id, status, outcome, text, kind, own, complete }
let tally = new Map()
const all = new Map() // tallies of all rounds
const samples = [] // of a round each
let left = 0
let untilMs = began + HOURS * 3_600_000

async function call(lb, name, body, headers = {}) {
  const kind = headers['Fn-Invoke-Type'] ?? (name.startsWith('oom') || name === 'misbehave' ? 'odd' : 'sync')
  let a
  try {
    a = await request(lb.url(`/invoke/${idOf(name)}`), { method: 'POST', body, headers, timeoutMs: 60_000 })
  } catch (error) {
    problem(`a call of ${name} at ${lb.name} has no answer: ${error.code ?? error.message}`)
    return
  }
  const [id, outcome] = [a.headers['fn-call-id'], a.headers['fn-outcome']]
  const what = `${kind} ${a.status} ${outcome ?? ''} ${a.status < 400 ? '' : a.text.replace(/[0-9A-Z]{20,}|\d+/g, '#').slice(0, 80)}`
  tally.set(what, (tally.get(what) ?? 0) + 1)
  answers.push({ id, status: a.status, outcome, kind, complete: a.complete, own: a.text === `${id} ${body}`, text: a.text.slice(0, 160) })
}

// 0.9 ms to 130 ms, now and then a second.
const duration = (from) => Math.floor(from() < 0.02 ? 300 + from() * 1000 : from() * from() * 130)

async function oneCall(from, n) {
  const lb = pick(lbs(), from)
  const kind = from()
  const body = `${duration(from)} ${n} ${'x'.repeat(from() < 0.03 ? 50_000 : 10)}`
  if (kind < 0.72) await call(lb, pick(hot, from), body)
  else if (kind < 0.80) await call(lb, pick([...made.keys()], from), body)
  else if (kind < 0.92) await call(lb, pick(cold, from), body)
  else if (kind < 0.94) await call(lb, pick(big, from), body)
  else if (kind < 0.97) await call(lb, pick(hot, from), body, { 'Fn-Invoke-Type': 'detached' })
  else await call(lb, 'misbehave', pick(['exit 3', 'crash', 'close', 'garbage', 'ok', 'short-body', 'two-answers'], from))
}

async function load(calls, seed) {
  left = calls
  await Promise.all(Array.from({ length: CALLERS }, async (_, i) => {
    const from = mulberry(seed * 1000 + i)
    while (left > 0) await oneCall(from, left--)
  }))
}

// ---- faults -------------------------------------------------------------------------------------------------------

const busy = new Set() // what is down at present
const acts = new Map()

// One thing at a time goes away and comes back, so that there is always somebody who serves.
async function away(what, work) {
  if (busy.size) return false
  busy.add(what)
  try {
    await work()
  } catch (error) {
    problem(`${what}: ${error.message}`)
  } finally {
    busy.delete(what)
  }
  return true
}

async function restart(node, signal) {
  node.expected = true
  node.signal(signal)
  const late = setTimeout(() => { problem(`${node.name} has not ended ${STOP_LATE_MS / 1000} s after ${signal}`); node.signal('SIGABRT') }, STOP_LATE_MS)
  const exit = await node.ended
  clearTimeout(late)
  if (signal === 'SIGTERM' && exit.code !== 0) problem(`${node.name} ended after SIGTERM with ${JSON.stringify(exit)}\n${node.log.slice(-3000)}`)
  keepLog(node)
  await node.start()
  track(node)
}

const childrenOf = (pid) => readdirSync('/proc').filter((p) => {
  try { return /^\d+$/.test(p) && readFileSync(`/proc/${p}/stat`, 'latin1').replace(/^.*\) /, '').split(' ')[1] === String(pid) } catch { return false }
})
const nameOf = (pid) => { try { return readFileSync(`/proc/${pid}/comm`, 'utf8') } catch { return '' } } // '': it has gone
const containers = () => engine.docker('ps', '-aq', '--filter', `label=io.fnd.owner=${owner('docker')}`).split('\n').filter(Boolean)

const faults = {
  // A container of any of the three, as somebody with a root shell would.
  kill: async (from) => {
    const kind = pick(['docker', 'docker', 'oci', 'process'], from)
    if (kind === 'docker') {
      if (busy.has('engine')) return 'nothing: the engine is away'
      const id = pick(containers(), from)
      if (id) spawnSync('docker', ['--host', `unix://${engine.socket}`, 'kill', id], { stdio: 'ignore', timeout: BACK_MS })
      return id ? `docker ${id}` : 'nothing: there is none'
    }
    const pid = busy.has(kind) ? undefined : pick(childrenOf(nodes[kind].pid), from)
    if (pid) spawnSync('kill', ['-9', pid], { stdio: 'ignore' })
    return pid ? `${kind}, process ${pid}` : 'nothing'
  },
  engine: async (from) => {
    const [how, ms] = [from() < 0.5 ? 'stops' : 'hangs', between([500, 3000], from)]
    const done = away('engine', async () => {
      if (how === 'stops') await engine.kill()
      else engine.signal('SIGSTOP')
      await sleep(ms)
      if (how === 'stops') await engine.restart()
      else engine.signal('SIGCONT')
    })
    done.then((yes) => yes && say(`engine is back after ${how}`))
    return `${how} for ${Math.round(ms)} ms`
  },
  oom: async (from) => {
    await call(pick(lbs(), from), 'oom', 'oom')
    return ''
  },
  // Functions that need more than half of a runner, all at once.
  evict: async (from) => {
    await Promise.all(big.map((name) => call(pick(lbs(), from), name, `50 evict ${name}`)))
    return ''
  },
  runner: async (from) => {
    const [kind, signal] = [pick(['docker', 'oci', 'process'], from), from() < 0.5 ? 'SIGKILL' : 'SIGTERM']
    away(kind, () => restart(nodes[kind], signal)).then((yes) => yes && say(`runner ${kind} is back after ${signal}`))
    return `${kind} ${signal}`
  },
  // One of the manager's, which finds out by itself.
  machine: async (from) => {
    const pid = pick(elasticPids(dir), from)
    if (pid) spawnSync('kill', ['-9', String(pid)], { stdio: 'ignore' })
    return pid ? `process ${pid}` : 'nothing: there is none'
  },
  node: async (from) => {
    const [name, signal] = [pick(['npm', 'api'], from), from() < 0.5 ? 'SIGKILL' : 'SIGTERM']
    away(name, () => restart(nodes[name], signal)).then((yes) => yes && say(`${name} is back after ${signal}`))
    return `${name} ${signal}`
  },
  // A process that stands still, for which its neighbours have only their clocks.
  freeze: async (from) => {
    const [name, ms] = [pick([...Object.keys(nodes), 'machine'], from), between(FREEZE_MS, from)]
    const pid = name === 'machine' ? pick(elasticPids(dir), from) : nodes[name].pid
    if (!pid) return 'nothing: there is none'
    away(name, async () => {
      spawnSync('kill', ['-STOP', String(pid)], { stdio: 'ignore' })
      await sleep(ms)
      spawnSync('kill', ['-CONT', String(pid)], { stdio: 'ignore' })
    })
    return `${name} for ${Math.round(ms)} ms`
  },
  network: async (from) => {
    const [name, kind, ms] = [pick(Object.keys(links), from), pick(['cut', 'stall', 'refuse', 'delay'], from), between(LINK_MS, from)]
    const link = links[name]
    if (link.fault) return 'nothing: it fails already'
    link.fault = { kind, from: pick(['client', 'server'], from), after: kind === 'delay' ? undefined : Math.floor(from() * 5000), delayMs: Math.floor(from() * 500) }
    sleep(ms).then(() => { link.fault = null; link.reset() }) // what is late must not be overtaken
    return `${name}: ${kind} for ${Math.round(ms)} ms`
  },
  deploy: async (from) => {
    const name = pick([...made.keys()], from)
    if (busy.has('api')) return 'nothing: the API is away'
    await api('PUT', `fns/${made.get(name)}`, { config: { ...config, DEPLOY: String(Math.floor(from() * 1e6)) } })
    return name
  },
  // Another placer, by a file that is new every second time.
  reload: async (from) => {
    const [lb, name, fresh] = [pick(lbs(), from), pick(placers, from), from() < 0.5]
    if (fresh) copyPlugin(name)
    reload(lb, name)
    return `${lb.name} ${name}${fresh ? ', a new file' : ''}`
  },
  certs: async () => {
    const fresh = path.join(dir, 'fresh')
    rmSync(fresh, { recursive: true, force: true })
    makeCerts(fresh, ['lb-2'])
    for (const f of readdirSync(fresh)) renameSync(path.join(fresh, f), path.join(certs, f))
    for (const pid of [...(busy.has('npm') ? [] : [nodes.npm.pid]), nodes.lb2.pid, ...elasticPids(dir)]) spawnSync('kill', ['-HUP', String(pid)], { stdio: 'ignore' })
    return ''
  },
  // Clients that leave in the middle of a request, which is none for that.
  clients: async (from) => {
    const head = `POST /invoke/${idOf(pick(hot, from))} HTTP/1.1\r\nHost: x\r\n`
    const texts = [head, `${head}Content-Length: 1000\r\n\r\n100 abc`, `${head}Transfer-Encoding: chunked\r\n\r\n5\r\n10 ab\r\n5`, '\x16\x03\x01 garbage']
    for (let i = 0; i < 20; i++) {
      const socket = net.connect(pick(lbs(), from).port, '127.0.0.1')
      socket.on('error', () => {})
      socket.write(pick(texts, from))
      setTimeout(() => socket.destroy(), from() * 1000)
    }
    return ''
  },
}
const lots = ['kill', 'kill', 'kill', 'engine', 'oom', 'evict', 'evict', 'runner', 'runner', 'machine', 'machine', 'node', 'node', 'deploy',
  'deploy', 'reload', 'reload', 'certs', 'clients', 'freeze', 'freeze', 'network', 'network']

async function faultsWhile(work) {
  let over = false
  let n = 0
  const failing = (async () => {
    while (!over) {
      const name = pick(lots, draw)
      const from = mulberry(Math.floor(draw() * 1e9))
      const wait = between(FAULT_MS, draw)
      faults[name](from).then((text) => say(`${name} ${text}`), (error) => problem(`${name}: ${error.message}`))
      acts.set(name, (acts.get(name) ?? 0) + 1)
      n++
      await sleep(wait)
    }
  })()
  await work()
  over = true
  await failing
  await until('what was away is back', () => busy.size === 0, BACK_MS)
  return n
}

// ---- judgement ----------------------------------------------------------------------------------------------------

const mounts = (at) => readFileSync('/proc/self/mountinfo', 'utf8').split('\n').filter((line) => line.includes(at))
const cgroups = (kind, parent) => ['', 'freezer', 'memory', 'pids', 'cpu'].map((c) => path.join('/sys/fs/cgroup', c, parent))
  .filter((at) => existsSync(at)).flatMap((at) => readdirSync(at)).filter((name) => name.startsWith(`${owner(kind)}--`) && !name.endsWith('-alive'))

// What there still is of containers: nothing, once all have been idle for long enough.
function leftovers() {
  const list = { 'containers of the engine': containers(), 'folders of oci': existsSync(state) ? readdirSync(state) : [],
    'cgroups of oci': cgroups('oci', 'fnd-oci'), 'cgroups of process': cgroups('process', 'fnd'),
    "mounts of oci's folders": mounts(state) }
  for (const r of runners()) {
    list[`children of ${r.kind}`] = childrenOf(r.pid).filter((pid) => !r.own.has(nameOf(pid)))
    list[`mounts of ${r.kind}`] = mounts(r.iofs)
    list[`directories of ${r.kind}`] = readdirSync(r.iofs).flatMap((name) => readdirSync(path.join(r.iofs, name))).filter((name) => name !== '.lock')
  }
  for (const pid of elasticPids(dir)) list[`children of machine ${pid}`] = childrenOf(pid).filter((p) => !nodes.process.own.has(nameOf(p)))
  return Object.entries(list).filter(([, found]) => found.length).map(([what, found]) => `${found.length} ${what}: ${found.slice(0, 3)}`)
}

const zero = { lb: ['fn_calls_in_flight', 'fn_lb_waiting', 'fn_config_generations_stuck'], runner: ['fn_running', 'fn_queued', 'fn_runner_calls_in_flight'] }
async function judgeRest() {
  for (const node of [...runners(), ...lbs()]) {
    for (const name of node.kind ? zero.runner : zero.lb) {
      await until(`${node.name}: ${name} is 0`, async () => (await node.metric(name)) === 0, BACK_MS).catch((e) => problem(e.message))
    }
  }
  await until('nothing of containers is left', () => leftovers().length === 0, REST_MS).catch(() => leftovers().forEach((l) => problem(`left: ${l}`)))
}


// -> [descriptor, what it leads to] of each that a process has open.
const descriptorsOf = (pid) => readdirSync(`/proc/${pid}/fd`).map((fd) => {
  try { return [fd, readlinkSync(`/proc/${pid}/fd/${fd}`)] } catch { return [fd, 'closed meanwhile'] }
})

// Threads of a driver keep connections to the engine (core/http/fetch.c): as many as were busy at a time, which is chance.
function connectionsToEngine(pid) {
  const clients = readFileSync('/proc/net/unix', 'utf8').split('\n').slice(1).map((l) => l.trim().split(/\s+/)).filter((f) => f[5] === '03' && !f[7]).map((f) => `socket:[${f[6]}]`)
  const own = new Set(clients)
  return descriptorsOf(pid).filter(([, to]) => own.has(to)).length
}
const look = () => Object.fromEntries(Object.values(nodes).map((n) => [n.name, { ...resources(n.pid), kept: n.kind === 'docker' ? connectionsToEngine(n.pid) : 0 }]))

// Without connections of ours, which nodes see closed a moment later.
async function atRest(before = look()) {
  Object.values(nodes).forEach((n) => closeIdle(n.port))
  await until('descriptors are those of before', () => Object.entries(look()).every(([name, now]) => now.fds - now.kept <= before[name].fds - before[name].kept), SETTLE_MS).catch(() => {})
  return look()
}

// What a node has open, for who wants to know what is too much. -> the file of the list
function keepDescriptors(name) {
  const { pid } = nodes[name]
  const file = path.join(dir, `descriptors.${name}.${samples.length}`)
  const links = descriptorsOf(pid).map((of) => of.join(' '))
  const sockets = execFileSync('ss', ['-Htxanp'], { encoding: 'utf8' }).split('\n').filter((line) => line.includes(`pid=${pid},`))
  writeFileSync(file, [...links, ...sockets, ''].join('\n'))
  return file
}

function judgeResources(before, rest) {
  for (const [name, now] of Object.entries(rest)) {
    const was = before[name]
    say(`${name} at rest: ${now.fds} descriptors (${was.fds}), ${now.threads} threads (${was.threads}), ${Math.round(now.rssKiB / 1024)} MiB (${Math.round(was.rssKiB / 1024)})`)
    if (now.fds - now.kept > was.fds - was.kept + FD_GROWTH) problem(`${name} has ${now.fds} descriptors open, before it was ${was.fds}; ${now.kept} and ${was.kept} lead to the engine; ${keepDescriptors(name)} has the list`)
    if (now.rssKiB > was.rssKiB + RSS_GROWTH_KIB) problem(`${name} has ${now.rssKiB} KiB of memory, before it was ${was.rssKiB}`)
  }
}

function judgeCall(a, calls, twice) {
  const ran = calls.get(a.id)
  const said = `call ${a.id}, ${a.kind}, answered ${a.status} ${a.outcome ?? ''} ${a.text}`
  if (!a.id) return problem(`${said}: without an id`)
  if (twice.has(a.id)) problem(`${said}: the id was given twice`)
  twice.add(a.id)
  if (!a.outcome && a.kind !== 'detached') problem(`${said}: nobody says what became of it`)
  if (a.outcome === 'not-executed' && ran) problem(`${said}: it ran`)
  if (a.kind !== 'sync' || a.status !== 200 || !a.complete) return undefined
  if (ran?.starts !== 1 || ran.ends !== 1) problem(`${said}: it began ${ran?.starts ?? 0} times and ended ${ran?.ends ?? 0} times`)
  return a.own || problem(`${said}: the answer is not its own`)
}

// Lines of the ledger come over a network, and detached calls end after their answer.
async function judgeCalls(brokenBefore) {
  const detached = () => answers.filter((a) => a.status === 202)
  const complete = () => {
    const calls = ledger.read()
    return [...answers.filter((a) => a.kind === 'sync' && a.status === 200)].every((a) => calls.get(a.id)?.ends)
  }
  await until('the ledger is complete', complete, BACK_MS).catch(() => {})
  const calls = ledger.read()
  const twice = new Set()
  for (const a of answers) judgeCall(a, calls, twice)
  for (const [id, { starts, ends }] of calls) {
    if (starts > 1 || ends > 1) problem(`call ${id} began ${starts} times, ended ${ends} times`)
    if (!twice.has(id)) problem(`call ${id} ran, and nobody was told of it`)
  }
  const lost = detached().filter((a) => !calls.get(a.id)?.ends).length
  const broken = await brokenDetached() - brokenBefore
  if (lost > broken) problem(`${lost} detached calls have not run to their end, and ${broken} are counted as broken`)
  say(`${detached().length} detached calls, ${lost} of them broken off`)
  return calls.size
}

const brokenDetached = async () => (await Promise.all(lbs().map((lb) => lb.metric('fn_detached_broken')))).reduce((a, b) => a + b, 0)

// before: what nodes had at rest; without: it is without faults.
async function round(calls, seed, before) {
  answers = []
  tally = new Map()
  truncateSync(ledger.file)
  const broken = await brokenDetached()
  const begin = Date.now()
  const n = before ? await faultsWhile(() => load(calls, seed)) : await load(calls, seed).then(() => 0)
  const seconds = (Date.now() - begin) / 1000
  await judgeRest()
  const ran = await judgeCalls(broken)
  say(`${answers.length} calls in ${seconds.toFixed(0)} s, ${n} faults; ${ran} calls ran`)
  for (const [what, count] of [...tally].sort((a, b) => b[1] - a[1])) console.log(`${String(count).padStart(9)} ${what}`)
  for (const [what, count] of tally) all.set(what, (all.get(what) ?? 0) + count)
  const rest = await atRest(before)
  samples.push({ s: (Date.now() - began) / 1000, calls: answers.length, ran, faults: n, nodes: rest })
  Object.values(nodes).forEach(keepLog)
  if (before) judgeResources(before, rest)
  return rest
}

// ---- all ----------------------------------------------------------------------------------------------------------

async function main() {
  say(`seed ${SEED}, ${CALLS} calls a round, ${HOURS} hours, ${build}; logs in ${dir}`)
  engine = await startEngine({ images: ['ledger', 'misbehave'].map((name) => `fnd/${name}:latest`), ledger })
  engine.inside('ip', 'addr', 'add', `${address}/32`, 'dev', 'lo')
  ip('addr', 'add', `${address}/32`, 'dev', 'lo')
  writeFileSync(ledger.file, '')
  await new Promise((resolve) => keeper.listen(KEEPER_PORT, address, resolve))
  execFileSync(path.join(root, 'scripts/build-images'), ['ledger', 'misbehave'], { env: { ...process.env, FND_BUILD: build, FND_OCI_STORE: store } })
  await startNodes()
  for (const r of runners()) r.own = new Set(childrenOf(r.pid).map(nameOf))
  for (const lb of lbs()) placers.forEach((name) => reload(lb, name)) // what was loaded once stays
  const before = await round(Math.min(WARM_CALLS, CALLS), SEED + 1)
  for (let i = 0; i === 0 || Date.now() < untilMs; i++) {
    say(`round ${i}`)
    await round(CALLS, SEED + 2 + i, before)
  }
}

async function end() {
  for (const node of Object.values(nodes).reverse()) {
    node.expected = true
    const exit = await node.stop()
    if (exit.code !== 0) problem(`${node.name} ended with ${JSON.stringify(exit)}\n${node.log.slice(-3000)}`)
    keepLog(node)
  }
  const machines = elasticPids(dir)
  for (const pid of machines) spawnSync('kill', [String(pid)], { stdio: 'ignore' })
  await until('machines end', () => elasticPids(dir).length === 0, BACK_MS).catch((e) => problem(e.message))
  await engine?.stop()
  keeper.close()
  spawnSync('ip', ['addr', 'del', `${address}/32`, 'dev', 'lo'], { stdio: 'ignore' })
  // What a killed machine had mounted the next one removes; behind the last there is none.
  for (const at of mounts(path.join(dir, 's'))) spawnSync('umount', ['--lazy', at.split(' ')[4]], { stdio: 'ignore' })
  for (const at of mounts(dir)) problem(`mounted at the end: ${at}`)
}

for (const signo of ['SIGINT', 'SIGTERM']) {
  process.on(signo, () => {
    problem(`stopped by ${signo}`)
    untilMs = left = 0
  })
}
function writeReport(file) {
  const drawing = path.join(path.dirname(file), 'img', `${path.basename(file, '.md')}.svg`)
  mkdirSync(path.dirname(drawing), { recursive: true })
  writeFileSync(drawing, drawMemory(samples))
  writeFileSync(file, page({ samples, tally: all, acts, problems, seed: SEED, build: path.basename(build), drawing: path.relative(path.dirname(file), drawing) }))
}

mkdirSync(state)
await main().catch((error) => problem(error.stack))
await end().catch((error) => problem(error.stack))
if (args.report && samples.length) writeReport(args.report)
say(problems.length ? `${problems.length} problems with seed ${SEED}; logs in ${dir}` : `no problem, seed ${SEED}`)
if (!problems.length) rmSync(dir, { recursive: true, force: true })
process.exit(problems.length ? 1 : 0)

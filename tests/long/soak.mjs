// Mixed calls through two load balancers and three runners, one of each driver, while something fails every few
// seconds: containers are killed, the engine stops or hangs, functions run out of memory or are evicted, runners end and
// come back. In rounds; the nodes live through all of them.
//
//   scripts/soak [calls=24000] [hours=H] [seed=N]
//
// The seed draws calls and faults; how they meet is up to the machine. At the end of each round nothing runs, and:
// no call ran twice; each was answered, with its id and what became of it; a 200 ran once and is the caller's own; what
// was not executed never began; nothing ran that nobody was told of; no container, cgroup, mount, directory or process is
// left, and descriptors and memory of each node are what they were after a round without faults.
import { execFileSync, spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { Ledger, fnId, startLb, startRunner } from '../e2e/lib/cluster.mjs'
import { driver as dockerDriver } from '../e2e/lib/docker.mjs'
import { KEEPER_PORT, impossible, startEngine } from '../e2e/lib/engines.mjs'
import { request } from '../e2e/lib/http.mjs'
import { build, root, tempDir, until } from '../e2e/lib/node.mjs'
import { resources } from '../e2e/lib/reload.mjs'
import { mulberry, pick } from './draw.mjs'

const args = Object.fromEntries(process.argv.slice(2).map((a) => a.split('=')))
for (const key of Object.keys(args)) {
  if (!['calls', 'hours', 'seed'].includes(key)) throw new Error(`argument "${key}"; expected calls=N, hours=H or seed=N`)
}
const CALLS = Number(args.calls ?? 24_000) // of a round
const HOURS = Number(args.hours ?? 0) // rounds are begun until then; 0 = one
const SEED = Number(args.seed ?? Date.now() % 100_000)
const CALLERS = 16
const WARM_CALLS = 1500
const FAULT_MS = [1500, 4000] // between two
const BACK_MS = 60_000
const REST_MS = 120_000
const RSS_GROWTH_KIB = 6 * 1024
const FD_GROWTH = 4 // connections to the engine that are kept
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
const owner = (kind) => `soak-${process.pid}-${kind}`
const nodes = {}
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
  const addresses = Object.values(nodes).map((n) => n.address)
  for (const [name, placer] of [['lb0', '{ use: naive }'], ['lb1', '{ use: chbl }']]) {
    nodes[name] = await startLb({ name, addresses, functions, placer, more, lb: 'placement_timeout: 8s\ndetached_placement_timeout: 8s' })
  }
  Object.values(nodes).forEach(track)
}

const runners = () => Object.values(nodes).filter((n) => n.kind)
const lbs = () => [nodes.lb0, nodes.lb1]

// ---- calls --------------------------------------------------------------------------------------------------------

let answers = [] // { id, status, outcome, text, kind, own, complete }
let tally = new Map()
let left = 0
let untilMs = began + HOURS * 3_600_000

async function call(lb, name, body, headers = {}) {
  const kind = headers['Fn-Invoke-Type'] ?? (name.startsWith('oom') || name === 'misbehave' ? 'odd' : 'sync')
  let a
  try {
    a = await request(lb.url(`/invoke/${fnId(name)}`), { method: 'POST', body, headers, timeoutMs: 60_000 })
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
  if (kind < 0.80) await call(lb, pick(hot, from), body)
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
}
const lots = ['kill', 'kill', 'kill', 'engine', 'oom', 'evict', 'evict', 'runner', 'runner']

async function faultsWhile(work) {
  let over = false
  let n = 0
  const failing = (async () => {
    while (!over) {
      const name = pick(lots, draw)
      const from = mulberry(Math.floor(draw() * 1e9))
      const wait = between(FAULT_MS, draw)
      faults[name](from).then((text) => say(`${name} ${text}`), (error) => problem(`${name}: ${error.message}`))
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
  return Object.entries(list).filter(([, found]) => found.length).map(([what, found]) => `${found.length} ${what}: ${found.slice(0, 3)}`)
}

const zero = { lb: ['fn_calls_in_flight', 'fn_lb_waiting'], runner: ['fn_running', 'fn_queued', 'fn_runner_calls_in_flight'] }
async function judgeRest() {
  for (const node of Object.values(nodes)) {
    for (const name of node.kind ? zero.runner : zero.lb) {
      await until(`${node.name}: ${name} is 0`, async () => (await node.metric(name)) === 0, BACK_MS).catch((e) => problem(e.message))
    }
  }
  await until('nothing of containers is left', () => leftovers().length === 0, REST_MS).catch(() => leftovers().forEach((l) => problem(`left: ${l}`)))
}

const atRest = () => Object.fromEntries(Object.values(nodes).map((n) => [n.name, resources(n.pid)]))

function judgeResources(before) {
  for (const [name, now] of Object.entries(atRest())) {
    const was = before[name]
    say(`${name} at rest: ${now.fds} descriptors (${was.fds}), ${now.threads} threads (${was.threads}), ${Math.round(now.rssKiB / 1024)} MiB (${Math.round(was.rssKiB / 1024)})`)
    if (now.fds > was.fds + FD_GROWTH) problem(`${name} has ${now.fds} descriptors open, before it was ${was.fds}`)
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

async function round(calls, seed, withFaults) {
  answers = []
  tally = new Map()
  truncateSync(ledger.file)
  const broken = await brokenDetached()
  const begin = Date.now()
  const n = withFaults ? await faultsWhile(() => load(calls, seed)) : await load(calls, seed).then(() => 0)
  const seconds = (Date.now() - begin) / 1000
  await judgeRest()
  const ran = await judgeCalls(broken)
  say(`${answers.length} calls in ${seconds.toFixed(0)} s, ${n} faults; ${ran} calls ran`)
  for (const [what, count] of [...tally].sort((a, b) => b[1] - a[1])) console.log(`${String(count).padStart(9)} ${what}`)
  Object.values(nodes).forEach(keepLog)
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
  await round(Math.min(WARM_CALLS, CALLS), SEED + 1, false)
  const before = atRest()
  for (let i = 0; i === 0 || Date.now() < untilMs; i++) {
    say(`round ${i}`)
    await round(CALLS, SEED + 2 + i, true)
    judgeResources(before)
  }
}

async function end() {
  for (const node of Object.values(nodes).reverse()) {
    node.expected = true
    const exit = await node.stop()
    if (exit.code !== 0) problem(`${node.name} ended with ${JSON.stringify(exit)}\n${node.log.slice(-3000)}`)
    keepLog(node)
  }
  await engine?.stop()
  keeper.close()
  spawnSync('ip', ['addr', 'del', `${address}/32`, 'dev', 'lo'], { stdio: 'ignore' })
  for (const at of mounts(dir)) problem(`mounted at the end: ${at}`)
}

for (const signo of ['SIGINT', 'SIGTERM']) {
  process.on(signo, () => {
    problem(`stopped by ${signo}`)
    untilMs = left = 0
  })
}
mkdirSync(state)
await main().catch((error) => problem(error.stack))
await end().catch((error) => problem(error.stack))
say(problems.length ? `${problems.length} problems with seed ${SEED}; logs in ${dir}` : `no problem, seed ${SEED}`)
if (!problems.length) rmSync(dir, { recursive: true, force: true })
process.exit(problems.length ? 1 : 0)

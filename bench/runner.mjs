// scripts/bench runner: how soon a runner has a container, beside what the engine or the runtime takes alone for the same
// one, in alternating rounds; frozen and idle containers. One table, each row against its limit.
//
// Engine and runtimes do with the containers what the driver has them do: their requests and bundles are copies of a
// function's. Everything is on one machine.
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { fnId, startLb, startRunner } from '../tests/e2e/lib/cluster.mjs'
import { driver as dockerDriver } from '../tests/e2e/lib/docker.mjs'
import { invoke } from '../tests/e2e/lib/http.mjs'
import { build, root, until } from '../tests/e2e/lib/node.mjs'
import { bodyOf, containersWith, createAndStart, mountOf, remove } from './lib/engine.mjs'
import { cpuMicros, median, quantile, rssMB, timed } from './lib/figures.mjs'

const PAIRS = Number(process.env.FND_BENCH_ROUNDS ?? 32) // of a start alone and a cold call
const REST_MS = 250 // between two starts: what the engine still does for the last one is over
const FROZEN_CALLS = 100
const FROZEN_REST_MS = 60
const WARM = 100
const WARM_ROUNDS = 20
const CLIENT_CALLS = 3000 // until the client itself is compiled
const AT_ONCE = 40
const AT_ONCE_ROUNDS = 2
const IDLE = Number(process.env.FND_BENCH_IDLE ?? 300)
const IDLE_MB = 16
const IDLE_REST_MS = 2000
const IDLE_MS = 12_000
const FROZEN_MS = 120_000
const STARTS = 8 // at a time: runner.parallel_starts_max

const dir = mkdtempSync('/var/tmp/fnd-bench-runner-')
const owner = `bench-runner-${process.pid}`
const LABEL = `fnd.bench=${process.pid}`
const store = path.join(dir, 'store')
const rest = (ms = REST_MS) => new Promise((r) => setTimeout(r, ms))
const ms = (value) => `${value.toFixed(value < 10 ? 2 : 0)} ms`

// ---- the table ----------------------------------------------------------------------------------

const rows = []
let missed = 0

function row(what, limit, met, figure, beside = '') {
  if (!met) missed++
  rows.push([what, limit, figure, beside, met ? 'met' : 'not met'])
  console.error(`measured: ${what}: ${figure}`)
}

// ---- nodes --------------------------------------------------------------------------------------

const name = (i) => `f${String(i).padStart(3, '0')}`
const names = (n) => Array.from({ length: n }, (_, i) => name(i))
// An app for each `perApp` functions: what one app may have started at a time is a share.
const functionsOf = (n, memory, idle, perApp) => Object.fromEntries(names(n).map((fn, i) =>
  [fn, { image: 'fnd/hello', memory, idle_timeout: idle(i), app: `app${Math.floor(i / perApp)}` }]))

const drivers = {
  docker: () => dockerDriver(),
  oci: (runtime) => `driver: { use: oci, store: ${store}, state: ${path.join(dir, 'state')}, runtime: ${runtime} }`,
  oneOci: () => runtimes.slice(0, 1).map((r) => ['oci', drivers.oci(r)]),
  process: () => `driver: { use: process, root: ${path.join(build, 'functions')} }`,
}

// A runner and its load balancer with n functions, while `use` runs.
async function nodes({ driver, n, memory = 64, idle = () => 600, perApp = n, runner = '' }, use) {
  const started = []
  const started1 = async (node) => started.unshift(await node) && started[0]
  const quiet = 'log: { level: warn }'
  try {
    const r = await started1(startRunner({ driver, runner: `owner: ${owner}\nmemory_total: 64GiB\n${runner}`, more: quiet, env: { HOME: dir } }))
    const functions = functionsOf(n, memory, idle, perApp)
    const lb = await started1(startLb({ addresses: [r.address], functions, more: quiet }))
    await use(async (fn) => {
      const answer = await invoke(lb, fnId(fn), '{}')
      if (answer.status !== 200) throw new Error(`a call of ${fn}: ${answer.status} ${answer.text}`)
    }, r, lb)
  } finally {
    for (const node of started) await node.stop()
  }
}

// ---- cold calls ---------------------------------------------------------------------------------

// A start alone and a first call in pairs, in both orders: what the engine still does for the one is no burden of the other
// alone. The first function is the pattern.
async function coldCalls(options, alone) {
  const took = { call: [], alone: [] }
  await nodes({ ...options, n: PAIRS + 1 }, async (call) => {
    await call(name(0))
    const start = await alone()
    const turns = [async () => took.alone.push(await start()), async (i) => took.call.push(await timed(() => call(name(i))))]
    for (let i = 1; i <= PAIRS; i++) {
      for (const turn of i % 2 ? turns : turns.toReversed()) {
        await rest()
        await turn(i)
      }
    }
  })
  return { call: median(took.call), alone: median(took.alone), p90: quantile(took.call, 0.9), more: median(took.call.map((t, i) => t - took.alone[i])) }
}

let folders = 0
function socketFolder() {
  const at = path.join(dir, `iofs${folders++}`)
  mkdirSync(at)
  chmodSync(at, 0o777)
  return at
}

const pattern = (fn) => containersWith(`io.fnd.owner=${owner}`).length && containersWith(`io.fnd.fn_id=${fnId(fn)}`)[0]

async function engineAlone() {
  const id = pattern(name(0))
  return async () => {
    const body = await bodyOf(id, socketFolder(), LABEL)
    let made
    const took = await timed(async () => { made = await createAndStart(body) })
    await remove(made)
    return took
  }
}

async function coldDocker() {
  for (const [network, runner] of [['bridge', ''], ['none', 'no_network: true']]) {
    const { call, alone, p90, more } = await coldCalls({ driver: drivers.docker(), runner }, engineAlone)
    row(`cold call, driver docker, ${network}`, "engine's create + start + 8 ms", more <= 8, `${ms(call)} (p90 ${ms(p90)})`,
      `engine ${ms(alone)}; median of the differences ${more.toFixed(1)} ms`)
  }
}

// Beside v1 hierarchies it makes crun give up: the driver's containers do not see it either.
const WITHOUT_HYBRID = 'umount -l /sys/fs/cgroup/unified 2>/dev/null; exec "$0" "$@"'

// The bundle of a function, on a copy of its image in place of an overlay.
function runtimeAlone(runtime) {
  const state = path.join(dir, 'state')
  const config = JSON.parse(readFileSync(path.join(state, readdirSync(state)[0], 'config.json'), 'utf8'))
  const bundle = path.join(dir, runtime)
  const run = (...args) => execFileSync('unshare', ['--mount', 'sh', '-c', WITHOUT_HYBRID, runtime, '--root', path.join(bundle, 'state'), ...args], { stdio: 'ignore' })
  mkdirSync(bundle)
  const [layer] = readdirSync(path.join(store, 'layers'))
  cpSync(path.join(store, 'layers', layer), path.join(bundle, 'root'), { recursive: true })
  config.root.path = path.join(bundle, 'root')
  let n = 0
  return async () => {
    const id = `${owner}-${runtime}-${n++}`
    config.linux.cgroupsPath = `/${id}`
    config.mounts.find((m) => m.destination === '/tmp/iofs').source = socketFolder()
    writeFileSync(path.join(bundle, 'config.json'), JSON.stringify(config))
    const took = await timed(() => run('run', '--detach', '--bundle', bundle, id))
    run('delete', '--force', id)
    return took
  }
}

// The limit was set where runc alone took 29 ms; on a slower machine what it takes more is not the driver's.
const OCI_MS = 45
const OCI_MORE_MS = OCI_MS - 29

async function coldOci() {
  for (const runtime of runtimes) {
    const { call, alone, p90, more } = await coldCalls({ driver: drivers.oci(runtime) }, () => runtimeAlone(runtime))
    row(`cold call, driver oci, ${runtime}`, `${OCI_MS} ms, or ${runtime} alone + ${OCI_MORE_MS} ms`, call <= OCI_MS || more <= OCI_MORE_MS,
      `${ms(call)} (p90 ${ms(p90)})`, `${runtime} ${ms(alone)}; median of the differences ${more.toFixed(1)} ms`)
  }
}

// ---- containers that are there ------------------------------------------------------------------

// Calls on one connection, without a client library's own time. -> milliseconds
function caller(lb) {
  const socket = net.connect(lb.port, '127.0.0.1')
  socket.setNoDelay(true)
  const call = (fn) => timed(async () => {
    socket.write(`POST /invoke/${fnId(fn)} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}`)
    const [data] = await once(socket, 'data')
    if (!data.toString().startsWith('HTTP/1.1 200')) throw new Error(data)
  })
  return { call, end: () => socket.destroy() }
}

// n calls, each of them after `before`.
async function callsAfter(lb, n, before) {
  const { call, end } = caller(lb)
  const took = []
  for (let i = 0; i < n; i++) {
    await before()
    took.push(await call(name(0)))
  }
  end()
  return took
}

// Containers that are there only because runner.warm_max keeps them: beyond their idle timeout. By turns with them those that are in
// use, so that what else the machine does is in both.
async function warmContainers() {
  const runner = 'warm_max: 1\nwarm_hold: 1h\nfreeze_idle: never'
  const isKept = (i) => i % 2 === 0
  const took = { kept: [], inUse: [] }
  const hitsOf = (r) => r.metric('fn_runner_warm_hits_total')
  await nodes({ driver: drivers.docker(), n: WARM, idle: (i) => (isKept(i) ? 1 : 600), runner }, async (first, r, lb) => {
    for (const fn of names(WARM)) await first(fn)
    const { call, end } = caller(lb)
    for (let i = 0; i < CLIENT_CALLS; i++) await call(name(1))
    const before = await hitsOf(r)
    for (let round = 0; round < WARM_ROUNDS; round++) {
      await until('all are kept ready', async () => await r.metric('fn_runner_warm_containers') === WARM / 2)
      await rest() // the pages of metrics that were asked for are made and thrown away
      for (let i = 0; i < WARM; i++) (isKept(i) ? took.kept : took.inUse).push(await call(name(i)))
    }
    end()
    const hits = await hitsOf(r) - before
    const [p99, beside] = [took.kept, took.inUse].map((all) => quantile(all, 0.99))
    row('call that finds a container that is kept ready, driver docker', 'p99 2 ms', p99 <= 2 && hits === took.kept.length, `p99 ${ms(p99)}`,
      `in use: p99 ${ms(beside)}; p50 ${ms(median(took.kept))} and ${ms(median(took.inUse))}; ${hits} of ${took.kept.length} calls found one`)
  })
}

// The same pause before a container that is not frozen: what the machine takes to wake up is in both.
async function frozenContainer() {
  const figures = (took) => `p50 ${ms(median(took))}, p99 ${ms(quantile(took, 0.99))}`
  for (const [kind, driver] of [['docker', drivers.docker()], ...drivers.oneOci(), ['process', drivers.process()]]) {
    const took = {}
    for (const [which, freeze] of [['frozen', '20ms'], ['awake', 'never']]) {
      await nodes({ driver, n: 1, runner: `freeze_idle: ${freeze}` }, async (call, runner, lb) => {
        await call(name(0))
        took[which] = await callsAfter(lb, FROZEN_CALLS, async () => {
          await rest(FROZEN_REST_MS)
          if (which === 'frozen') await until('it is frozen', () => runner.metric('fn_container_paused_total'))
        })
      })
    }
    row(`call to a frozen container, driver ${kind}`, 'p50 2 ms', median(took.frozen) <= 2, figures(took.frozen), `not frozen, after the same pause: ${figures(took.awake)}`)
  }
}

// ---- many ---------------------------------------------------------------------------------------

// `work(i)` for all i below n, `parallel` of them at a time.
async function inParallel(n, parallel, work) {
  let next = 0
  await Promise.all(Array.from({ length: parallel }, async () => { while (next < n) await work(next++) }))
}

function removeAll(label) {
  const ids = containersWith(label)
  return inParallel(ids.length, STARTS, (i) => remove(ids[i]).catch(() => {})) // gone already
}

// Each app has a function, so that the runner starts as many at a time as it may.
async function engineAtOnce(body) {
  const made = []
  const bodies = names(AT_ONCE).map(() => ({ ...body, HostConfig: { ...body.HostConfig, Mounts: [mountOf(socketFolder())] } }))
  const took = await timed(() => inParallel(AT_ONCE, STARTS, async (i) => { made.push(await createAndStart(bodies[i])) }))
  await inParallel(AT_ONCE, STARTS, (i) => remove(made[i]))
  return took
}

async function startsAtOnce() {
  const took = { call: [], alone: [] }
  for (let round = 0; round < AT_ONCE_ROUNDS; round++) {
    await nodes({ driver: drivers.docker(), n: AT_ONCE + 1, perApp: 1 }, async (call) => {
      await call(name(AT_ONCE))
      const body = await bodyOf(pattern(name(AT_ONCE)), socketFolder(), LABEL)
      const alone = async () => took.alone.push(await engineAtOnce(body))
      const calls = async () => took.call.push(await timed(() => Promise.all(names(AT_ONCE).map(call))))
      for (const which of round % 2 ? [calls, alone] : [alone, calls]) await rest(1000).then(which)
    })
  }
  const ratio = median(took.call.map((t, i) => t / took.alone[i]))
  row(`${AT_ONCE} cold calls at once, driver docker`, `1.3 x the engine's time for ${AT_ONCE} starts`, ratio <= 1.3, `${ratio.toFixed(2)} x`,
    `${took.call.map(ms).join(', ')}; engine, ${STARTS} at a time: ${took.alone.map(ms).join(', ')}`)
}

// Without a network, which takes an engine half as long to make.
async function idleContainers() {
  for (const [kind, driver] of [['docker', drivers.docker()], ...drivers.oneOci()]) {
    await nodes({ driver, n: IDLE, perApp: 1, memory: IDLE_MB, runner: 'no_network: true' }, async (call, runner) => {
      await inParallel(IDLE, STARTS, (i) => call(name(i)))
      await until('all are frozen', async () => await runner.metric('fn_container_paused_total') === IDLE, FROZEN_MS)
      await rest(IDLE_REST_MS)
      const [cpu, begin] = [cpuMicros(runner.pid), performance.now()]
      await rest(IDLE_MS)
      const share = (cpuMicros(runner.pid) - cpu) / 10 / (performance.now() - begin)
      const mb = rssMB(runner.pid)
      row(`${IDLE} idle containers, driver ${kind}`, 'CPU 1 %, memory 40 MB', share <= 1 && mb <= 40, `${share.toFixed(2)} %, ${mb.toFixed(1)} MB`, `over ${IDLE_MS / 1000} s`)
      await removeAll(`io.fnd.owner=${owner}`) // a runner that stops would have too little time
    })
  }
}

// ---- all ----------------------------------------------------------------------------------------

const runtimes = ['crun', 'runc'].filter((r) => spawnSync(r, ['--version']).status === 0)
const parts = { cold: coldDocker, oci: coldOci, warm: warmContainers, frozen: frozenContainer, burst: startsAtOnce, idle: idleContainers }
try {
  execFileSync(path.join(root, 'scripts/build-images'), ['hello'], { env: { ...process.env, FND_BUILD: build, FND_OCI_STORE: store } })
  for (const part of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(parts)) {
    if (!parts[part]) throw new Error(`unknown part "${part}"; known: ${Object.keys(parts).join(' ')}`)
    await parts[part]()
  }
} finally {
  rmSync(dir, { recursive: true, force: true })
  for (const label of [LABEL, `io.fnd.owner=${owner}`]) await removeAll(label)
}
console.log('\n| what | at most | fnd | beside | |\n|---|---|---|---|---|')
for (const cells of rows) console.log(`| ${cells.join(' | ')} |`)
process.exit(missed ? 1 : 0)

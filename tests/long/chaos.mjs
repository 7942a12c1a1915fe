// Everything at once, for minutes: a manager, load balancers of both pools and runners under load, while
// nodes are killed, stopped and reloaded, certificates and plugin files replaced, clients misbehave.
//
//   FND_LONG=1 FND_BUILD=build-asan [FND_CHAOS_SEED=7] [FND_CHAOS_S=120] node tests/long/chaos.mjs
//
// The seed draws what is done and in which order; each act is printed, and all logs stay in the folder
// that is named at the start. It ends with 1 when a process ended on its own, a sanitizer reported, a
// call ran twice, a 200 did not run exactly once, a call that was told as not executed ran, or when the
// gauges are not at rest after the load.
import { execFile } from 'node:child_process'
import { appendFileSync, chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync,
  rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { Ledger, appsYaml, fnId } from '../e2e/lib/cluster.mjs'
import { request } from '../e2e/lib/http.mjs'
import { Fnd, build, freePort, root, until } from '../e2e/lib/node.mjs'
import { resources } from '../e2e/lib/reload.mjs'
import { mulberry, pick } from './draw.mjs'
import { elasticPids, makeCerts, managerYaml, tlsEntry } from './elastic.mjs'

if (!process.env.FND_LONG) {
  console.log('not run: it takes minutes; set FND_LONG=1')
  process.exit(0)
}
const SEED = Number(process.env.FND_CHAOS_SEED ?? Date.now() % 100000)
const SECONDS = Number(process.env.FND_CHAOS_S ?? 120)
const ONLY = process.env.FND_CHAOS_ACTS?.split(',')
const WORKERS = Number(process.env.FND_CHAOS_WORKERS ?? 8)
const RUNNER_MB = 256

const sleep = (ms) => new Promise((r) => setTimeout(r, ms))
const draw = mulberry(SEED)

const dir = mkdtempSync('/tmp/fnc-')
const problems = []
const began = Date.now()
const say = (text) => {
  const line = `${((Date.now() - began) / 1000).toFixed(2).padStart(7)} ${text}`
  console.log(line)
  appendFileSync(path.join(dir, 'acts'), `${line}\n`)
}
const problem = (text) => { problems.push(text); say(`PROBLEM ${text}`) }

// ---- sanitizers ----------------------------------------------------------------------------------

const supp = path.join(root, 'tests/unit/rpc')
const env = {
  ASAN_OPTIONS: `detect_leaks=1:log_path=${dir}/san.asan`,
  LSAN_OPTIONS: `suppressions=${supp}/lsan.supp:print_suppressions=0`,
  UBSAN_OPTIONS: 'print_stacktrace=1',
  TSAN_OPTIONS: `suppressions=${supp}/tsan.supp:log_path=${dir}/san.tsan:halt_on_error=0:exitcode=0`,
}

// ---- nodes ---------------------------------------------------------------------------------------

const certs = path.join(dir, 'certs')
const demo = (to) => makeCerts(to, ['lb-0', 'lb-2'])
demo(certs)
const plugins = path.join(dir, 'plugins')
mkdirSync(plugins)
for (const f of readdirSync(path.join(build, 'plugins')).filter((n) => n.endsWith('.so'))) {
  copyFileSync(path.join(build, 'plugins', f), path.join(plugins, f))
}
chmodSync(plugins, 0o755)
const evil = (name, factory = name.slice(0, 3)) => `{ use: ${factory}, file: ${build}/tests/plugins/evil/${name}.so }`
const ledger = new Ledger()
const config = { LEDGER_FILE: ledger.file }
const functions = {
  ledger: { memory: 128, config, timeout: 10 },
  evil: { image: 'ledger', memory: 128, config, timeout: 10 },
  other: { image: 'ledger', memory: 64, config, timeout: 2, idle_timeout: 1 },
  blue: { image: 'ledger', memory: 128, config: { ...config, FN_LB_GROUP_ID: 'blue' } },
  stray: { image: 'ledger', memory: 128, config: { ...config, FN_LB_GROUP_ID: 'nobody-knows' } },
  misbehave: { memory: 128, timeout: 2 },
}
const driver = `driver: { use: process, root: ${path.join(build, 'functions')} }`
const nodes = {}

function track(node) {
  node.expected = false
  node.ended.then((exit) => {
    if (!node.expected) problem(`${node.name} (${node.pid}) ended on its own: ${JSON.stringify(exit)}\n${node.log.slice(-3000)}`)
  })
}
const write = (file, text) => {
  writeFileSync(`${file}.new`, text, { mode: 0o600 })
  utimesSync(`${file}.new`, 1, 1)
  renameSync(`${file}.new`, file)
}

async function start(name, port, yaml) {
  const node = nodes[name] = await Fnd.start(name, port, yaml, { env })
  node.file = path.join(node.dir, 'fn.yaml')
  node.good = yaml
  track(node)
  return node
}
async function restart(node, signal) {
  node.expected = true
  node.signal('SIGCONT')
  node.signal(signal)
  const late = setTimeout(() => { problem(`${node.name} has not ended 40 s after ${signal}`); node.signal('SIGABRT') }, 40_000)
  const exit = await node.ended
  clearTimeout(late)
  if (signal === 'SIGTERM' && exit.code !== 0) problem(`${node.name} ended after SIGTERM with ${JSON.stringify(exit)}\n${node.log.slice(-3000)}`)
  writeFileSync(path.join(dir, `log.${node.name}.${node.pid}`), node.log)
  node.log = ''
  write(node.file, node.good)
  await node.start()
  track(node)
}

async function startNpm() {
  const port = await freePort()
  const grpc = await freePort()
  await start('npm', port, managerYaml({ dir, certs, port, grpc, runnerMb: RUNNER_MB, groups: ['default', 'blue'], driver, env }))
  nodes.npm.socket = path.join(dir, 'npm.sock')
  nodes.npm.grpcPort = grpc
}

async function startRunner(name) {
  const port = await freePort()
  const grpc = await freePort()
  mkdirSync(path.join(dir, name))
  await start(name, port, `
node: pure-runner
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${grpc}", tls: node }
plugin_dir: ${build}/plugins
drain_timeout: 5s
runner: { memory_total: ${RUNNER_MB * 2}MiB, iofs_path: ${dir}/${name}, writable_root: true }
plugins:
  ${driver}
tls: { node: ${tlsEntry(certs, 'runner-1')} }
`)
  nodes[name].grpcPort = grpc
}

const placers = ['{ use: naive }', '{ use: ch }', '{ use: p2c }', '{ use: chbl }', '{ use: first }', '{ use: hybrid }',
  '[p2c, { use: slowstart, inner: p2c }]']
const evils = [evil('e15_index'), evil('e15_wait'), evil('e15_verdict'), evil('e15_code'), evil('e25_random'), evil('e07_call_sleeps'),
  evil('e26_slow_sometimes')]
const stamp = `{ use: stamp, file: ${build}/tests/plugins/stamp.so, mark: x }`
const overriders = ['[]', `[${stamp}]`, '[{ use: tag, value: chaos }]', `[{ use: tag, header: X-Tag }, ${stamp}]`]

// A load balancer's fn.yaml; `from` draws the variant.
function lbYaml(lb, from) {
  const any = (list) => (from ? pick(list, from) : list[0])
  const evilPlacer = from && from() < 0.25
  const fns = { ...functions }
  if (from && from() < 0.2) delete fns.other
  if (from && from() < 0.3) fns.extra = { image: 'hello', memory: 64 }
  const other = from && from() < 0.25 && lb.other
  return `
node: lb
http: { listen: "127.0.0.1:${lb.port}", body_max: ${any(['64KiB', '128KiB'])}, header_timeout: 3s, body_timeout: 3s, write_stall: 3s }
grpc: { tls: node, reconnect_max: 200ms, probe_interval: 500ms, probe_timeout: 500ms }
plugin_dir: ${plugins}
drain_timeout: ${any(['5s', '6s'])}
plugins:
  placer: ${evilPlacer ? pick(evils, from) : any(placers)}
  ${evilPlacer || any([0, 1]) ? 'fallback: { use: naive }' : ''}
  shadow: ${from && from() < 0.3 ? pick(evils, from) : any(['{ use: p2c, name: next }', '{ use: ch, name: next }', '{ use: hybrid, name: next }'])}
  pool: ${other || lb.pool}
  overriders: ${any(overriders)}
  listeners: ${any(['[]', `[{ use: stamp, file: ${build}/tests/plugins/stamp.so }]`, '[{ use: count }]'])}
lb:
  placement_timeout: ${any(['4s', '2s', '300ms'])}
  detached_placement_timeout: 3s
  waiting_calls_max: ${any([1000, 3])}
  why_calls: ${any([100, 0, 4096])}
  pool_grace: ${any(['1s', '0s'])}
  shadow_permille: ${any([1000, 100])}
tls: { node: ${tlsEntry(certs, `lb-${lb.index}`)} }
${appsYaml(fns)}`
}
async function startLb(name, pool, other) {
  const lb = { port: await freePort(), pool, other, index: name.slice(2) }
  await start(name, lb.port, lbYaml(lb))
  Object.assign(nodes[name], lb)
}

const cli = (...args) => new Promise((resolve) => {
  execFile(path.join(build, 'fnd'), args, { env: { PATH: process.env.PATH, ...env }, timeout: 60_000 }, (error, out, err) => {
    if (error?.signal || [70, 134, 139].includes(error?.code)) problem(`fnd ${args.join(' ')}: ${error.code ?? error.signal} ${err}`)
    resolve({ code: error ? error.code : 0, out, err })
  })
})
// ---- load ----------------------------------------------------------------------------------------

const answers = new Map() // call id -> { status, outcome }
const tally = {}
let running = true
const count = (what) => { tally[what] = (tally[what] ?? 0) + 1 }

function note(a, id) {
  if (!id) return
  if (answers.has(id)) problem(`call id ${id} was given twice`)
  answers.set(id, { status: a.status, outcome: a.headers['fn-outcome'], text: a.text.slice(0, 300) })
}

async function call(lb, name, body, headers = {}) {
  const a = await request(lb.url(`/invoke/${fnId(name)}`), { method: 'POST', body, headers, timeoutMs: 60_000 })
  count(`${a.status} ${a.headers['fn-outcome'] ?? ''} ${a.status >= 400 ? a.text.replace(/[0-9A-Z]{20,}|\d+/g, '#').slice(0, 90) : ''}`)
  note(a, a.headers['fn-call-id'])
  if (a.status === 200 && name !== 'misbehave' && a.complete && !a.text.endsWith(body)) problem(`a strange answer: ${a.text.slice(0, 200)}`)
  return a
}

function rude(lb, kind) {
  return new Promise((resolve) => {
    const socket = net.connect(lb.port, '127.0.0.1')
    const head = `POST /invoke/${fnId('ledger')} HTTP/1.1\r\nHost: x\r\n`
    const steps = {
      'cut in the body': [`${head}Content-Length: 1000\r\n\r\n100 abc`, 50],
      'cut in chunks': [`${head}Transfer-Encoding: chunked\r\n\r\n5\r\n10 ab\r\n5`, 50],
      'cut while it runs': [`${head}Content-Length: 3\r\n\r\n200`, 100],
      'slow head': [head, 1500],
      'too large': [`${head}Content-Length: 10000000\r\n\r\n${'x'.repeat(50000)}`, 200],
      'garbage': ['\x00\x01GET / \r\n\r\n\r\n', 100],
      'pipelined': [`${head}Content-Length: 1\r\n\r\n1`.repeat(5), 400],
      'pipelined and cut': [`${head}Content-Length: 2\r\n\r\n50`.repeat(5), 30],
      'half closed': [`${head}Content-Length: 2\r\n\r\n50`, 300],
    }
    const [bytes, ms] = steps[kind]
    socket.on('error', () => {})
    socket.on('close', resolve)
    socket.on('data', () => {})
    socket.write(bytes)
    if (kind === 'half closed') socket.end()
    setTimeout(() => socket.destroy(), ms)
  })
}
const rudeness = ['cut in the body', 'cut in chunks', 'cut while it runs', 'slow head', 'too large', 'garbage', 'pipelined', 'pipelined and cut', 'half closed']

async function worker(i) {
  const from = mulberry(SEED * 1000 + i)
  const lbs = Object.values(nodes).filter((n) => n.name.startsWith('lb'))
  for (let n = 0; running; n++) {
    const lb = pick(lbs, from)
    const r = from()
    const body = `${Math.floor(from() * (r < 0.1 ? 1500 : 120))} ${i}-${n}`
    const kind = from()
    try {
      if (kind < 0.45) await call(lb, 'ledger', body)
      else if (kind < 0.6) await call(lb, 'evil', body)
      else if (kind < 0.68) await call(lb, 'other', body)
      else if (kind < 0.76) await call(lb, 'blue', body)
      else if (kind < 0.78) await call(lb, 'stray', body)
      else if (kind < 0.83) await call(lb, 'ledger', body, { 'Fn-Invoke-Type': 'detached' })
      else if (kind < 0.85) await call(lb, 'nowhere', body)
      else if (kind < 0.88) await call(lb, 'misbehave', pick(['exit', 'crash', 'hang', 'garbage', 'close'], from))
      else if (kind < 0.9) await call(lb, 'ledger', `0 ${'y'.repeat(60000)}`)
      else await rude(lb, pick(rudeness, from))
    } catch (e) {
      count(`no answer: ${e.code ?? e.message}`)
      await sleep(50)
    }
  }
}

// ---- acts ----------------------------------------------------------------------------------------

const lbNames = ['lb0', 'lb1', 'lb2']
const stopped = async (pid, ms) => {
  try {
    process.kill(pid, 'SIGSTOP')
    await sleep(ms)
    process.kill(pid, 'SIGCONT')
  } catch { /* it is gone */ }
}
const tolerate = (pid, signal) => { try { process.kill(pid, signal) } catch { /* it is gone */ } }
const anyElastic = (d) => { const pids = elasticPids(dir); return pids.length ? pids[Math.floor(d * pids.length)] : 0 }
let busy = new Set()
const alone = async (name, what) => { // one restart of a node at a time
  if (busy.has(name)) return
  busy.add(name)
  await what().catch((e) => problem(`${name}: ${e.message}`)).finally(() => busy.delete(name))
}

function reloadWith(name, text, how) {
  return alone(name, async () => {
    const node = nodes[name]
    if (node.exit) return
    write(node.file, text)
    if (how < 0.3) node.signal('SIGHUP')
    else {
      const many = how < 0.5 ? 3 : 1
      const got = await Promise.all(Array.from({ length: many }, () => cli('reload', '--config', node.file)))
      for (const g of got) {
        count(`reload ${g.code}`)
        if (![0, 69, 78].includes(g.code)) problem(`reload: ${g.code} ${g.err}`)
        if (g.code === 78 && text === node.next) say(`  refused: ${g.err.trim().slice(0, 400)}`)
      }
    }
  })
}
const breakages = [
  (t) => t.replace('placer:', 'placr:'), (t) => t.slice(0, t.indexOf("placer:") + 9), (t) => t.replace(/use: \w+/, 'use: nothing'),
  () => '', () => 'a: [', (t) => t.replace('why_calls: ', 'why_calls: x'), (t) => t.replace(/listen: "[^"]*"/, 'listen: "127.0.0.1:1"'),
  (t) => t.replace(/pool: .*/, `pool: ${evil('e01_ctor_crashes')}`), (t) => t.replace(/overriders: .*/, `overriders: [${stamp}, ${stamp}]`),
  (t) => t.replace(/placer: .*/, `placer: ${evil('e06_create_sleeps')}`), (t) => t.replace(/placer: .*/, `placer: ${evil('e05_create_floods')}`),
  (t) => t + '\0', (t) => t + '['.repeat(3000),
]
const acts = {
  killElastic: (d) => { const pid = anyElastic(d); if (pid) tolerate(pid, 'SIGKILL'); return String(pid) },
  stopElastic: (d, e) => { const pid = anyElastic(d); if (pid) stopped(pid, 200 + e * 4000); return String(pid) },
  termElastic: (d) => { const pid = anyElastic(d); if (pid) tolerate(pid, 'SIGTERM'); return String(pid) },
  runner: (d, e) => {
    const name = d < 0.5 ? 'runner0' : 'runner1'
    if (e < 0.4) stopped(nodes[name].pid, 200 + e * 8000)
    else alone(name, () => restart(nodes[name], e < 0.7 ? 'SIGKILL' : 'SIGTERM'))
    return `${name} ${e < 0.4 ? 'STOP' : e < 0.7 ? 'KILL' : 'TERM'}`
  },
  lb: (d, e) => {
    const name = lbNames[Math.floor(d * 3)]
    if (e < 0.3) stopped(nodes[name].pid, 200 + e * 8000)
    else alone(name, () => restart(nodes[name], e < 0.6 ? 'SIGKILL' : 'SIGTERM'))
    return `${name} ${e < 0.3 ? 'STOP' : e < 0.6 ? 'KILL' : 'TERM'}`
  },
  manager: (d) => {
    if (d < 0.4) stopped(nodes.npm.pid, 200 + d * 10000)
    else alone('npm', () => restart(nodes.npm, d < 0.7 ? 'SIGKILL' : 'SIGTERM'))
    return d < 0.4 ? 'STOP' : d < 0.7 ? 'KILL' : 'TERM'
  },
  reload: (d, e, from) => {
    const name = lbNames[Math.floor(d * 3)]
    const node = nodes[name]
    node.next = lbYaml(node, from)
    reloadWith(name, node.next, e)
    return `${name} ${/placer: .*/.exec(node.next)[0].slice(0, 60)} ${/pool: \{ use: \w+/.exec(node.next)[0]}`
  },
  broken: (d, e, from) => {
    const name = lbNames[Math.floor(d * 3)]
    const i = Math.floor(from() * breakages.length)
    reloadWith(name, breakages[i](lbYaml(nodes[name], from)), e)
    return `${name} ${i}`
  },
  shadow: (d, e) => {
    const node = nodes[lbNames[Math.floor(d * 3)]]
    cli('shadow', '--socket', /admin=(\S+)/.exec(node.log)?.[1] ?? '/none', e < 0.6 ? 'swap' : 'back')
    return `${node.name} ${e < 0.6 ? 'swap' : 'back'}`
  },
  drain: (d, e) => {
    cli('runners', '--json', '--socket', nodes.npm.socket, 'list').then(({ code, out }) => {
      if (code) return
      const { runners } = JSON.parse(out)
      const r = runners[Math.floor(d * runners.length)]
      if (r) cli('runners', '--socket', nodes.npm.socket, r.operator_drain ? 'undrain' : 'drain', r.id)
    })
    return ''
  },
  undrainAll: () => {
    undrain()
    return ''
  },
  certs: (d) => {
    const fresh = path.join(dir, 'fresh')
    rmSync(fresh, { recursive: true, force: true })
    demo(fresh)
    const files = d < 0.2 ? ['lb-1.key', 'npm-1.key'] : readdirSync(fresh)
    for (const f of files) renameSync(path.join(fresh, f), path.join(certs, f))
    for (const n of Object.values(nodes)) n.signal('SIGHUP')
    for (const pid of elasticPids(dir)) tolerate(pid, 'SIGHUP')
    if (d < 0.2) setTimeout(() => acts.certs(1), 1500)
    return d < 0.2 ? 'keys that do not fit, for 1.5 s' : 'all'
  },
  plugin: (d, e) => {
    const names = readdirSync(plugins).filter((n) => n.startsWith('placer-') || n.startsWith('pool-'))
    const name = names[Math.floor(d * names.length)]
    const file = path.join(plugins, name)
    if (e < 0.3) truncateSync(file, Math.floor(e * 10000))
    else if (e < 0.6) writeFileSync(file, readFileSync(path.join(build, 'plugins', name)).fill(0, 5000, 9000))
    setTimeout(() => {
      copyFileSync(path.join(build, 'plugins', name), `${file}.new`)
      renameSync(`${file}.new`, file)
    }, 2000)
    return `${name} ${e < 0.3 ? 'cut' : e < 0.6 ? 'overwritten' : 'replaced'}`
  },
  curious: (d, e) => {
    const all = Object.values(nodes)
    const node = all[Math.floor(d * all.length)]
    const socket = /admin=(\S+)/.exec(node.log)?.[1] ?? '/none'
    for (const word of [['status'], ['why', [...answers.keys()].at(-1) ?? 'x'], ['shadow', 'status'], ['runners', 'list']]) cli(word[0], '--socket', socket, ...word.slice(1))
    const s = net.connect(socket)
    s.on('error', () => {})
    s.write(pick(['GET /status HTTP/1.1\r\n\r\n', 'POST /reload HTTP/1.1\r\nContent-Length: 0\r\n\r\n', 'POST /reload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n', '\xff'.repeat(9000), 'GET /status HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(200), 'GET /why?id='], () => e))
    setTimeout(() => s.destroy(), 30 * e)
    return node.name
  },
}
const undrain = async () => {
  const { code, out } = await cli('runners', '--json', '--socket', nodes.npm.socket, 'list')
  if (code) return
  for (const r of JSON.parse(out).runners.filter((x) => x.operator_drain)) await cli('runners', '--socket', nodes.npm.socket, 'undrain', r.id)
}
const weights = { killElastic: 3, stopElastic: 2, termElastic: 2, runner: 3, lb: 3, manager: 2, reload: 10, broken: 4, shadow: 5,
  drain: 2, undrainAll: 2, certs: 2, plugin: 3, curious: 3 }
const lots = Object.entries(weights).filter(([a]) => !ONLY || ONLY.includes(a)).flatMap(([a, n]) => Array(n).fill(a))

// ---- judgement -----------------------------------------------------------------------------------

function judgeCalls() {
  const ran = ledger.read()
  for (const [id, c] of ran) {
    if (c.starts > 1 || c.ends > 1) problem(`call ${id} ran ${c.starts} times, ended ${c.ends} times`)
  }
  for (const [id, a] of answers) {
    const c = ran.get(id)
    if (a.status === 200 && !(c?.starts === 1 && c.ends === 1) && !/misbehav/.test(a.text)) problem(`call ${id} was answered 200 and ran ${c?.starts ?? 0} times: ${a.text}`)
    if (a.outcome === 'not-executed' && c) problem(`call ${id} was answered ${a.status} not-executed and ran: ${a.text}`)
  }
  return ran.size
}

async function judgeRest() {
  const zero = { lb: ['fn_calls_in_flight', 'fn_lb_waiting', 'fn_config_generations_stuck'], runner: ['fn_running', 'fn_queued', 'fn_calls_in_flight'], npm: [] }
  for (const node of Object.values(nodes)) {
    const kind = node.name.replace(/\d/, '')
    for (const name of zero[kind] ?? []) {
      await until(`${node.name}: ${name} is 0`, async () => (await node.metric(name)) === 0, 20_000).catch(async (e) => problem(`${e.message}: ${await node.metric(name)}`))
    }
    if (kind === 'lb') {
      await until(`${node.name}: one generation`, async () => (await node.metric('fn_config_generations')) === 1, 15_000)
        .catch(async (e) => problem(`${e.message}: ${(await cli('status', '--config', node.file)).out}`))
    }
  }
}

function judgeLogs() {
  const odd = new Map()
  for (const f of readdirSync(dir)) {
    if (f.startsWith('san.')) problem(`${f}:\n${readFileSync(path.join(dir, f), 'utf8').slice(0, 3000)}`)
    if (!f.startsWith('log.')) continue
    const text = readFileSync(path.join(dir, f), 'utf8')
    const m = /(fnd crashed|runtime error:|Sanitizer)[^\n]*(\n[^\n]*){0,12}/.exec(text)
    if (m) problem(`${f}: ${m[0]}`)
    for (const line of text.split('\n')) {
      if (!/level=(warn|error)/.test(line)) continue
      const shape = line.replace(/^time=\S+ /, '').replace(/[0-9A-Z]{20,}/g, 'ID').replace(/\/tmp\/\S+/g, 'PATH').replace(/\d+/g, '#')
      const e = odd.get(shape) ?? { n: 0, line }
      e.n++
      odd.set(shape, e)
    }
  }
  writeFileSync(path.join(dir, 'odd'), [...odd.values()].sort((a, b) => b.n - a.n).map((e) => `${e.n} ${e.line}`).join('\n'))
}

// ---- all -----------------------------------------------------------------------------------------

say(`seed ${SEED}, ${SECONDS} s, ${build}, logs in ${dir}`)
await startNpm()
await startRunner('runner0')
await startRunner('runner1')
const static0 = `{ use: static, runners: ["127.0.0.1:${nodes.runner0.grpcPort}", "127.0.0.1:${nodes.runner1.grpcPort}"] }`
const static1 = `{ use: static, runners: ["127.0.0.1:${nodes.runner1.grpcPort}"] }`
const npmPool = `{ use: npm, address: "127.0.0.1:${nodes.npm.grpcPort}", interval: 200ms, lb_id: "spiffe://fnd/LB" }`
await startLb('lb0', npmPool.replace('LB', 'lb-0'), static0)
await startLb('lb1', npmPool.replace('LB', 'lb-1'), npmPool.replace('LB', 'lb-1').replace('200ms', '300ms'))
await startLb('lb2', static0, static1)
const workers = Array.from({ length: WORKERS }, (_, i) => worker(i))
const memory = new Map() // pid -> [first, last]
const end = Date.now() + SECONDS * 1000
while (Date.now() < end) {
  const name = pick(lots, draw)
  const [d, e, pause] = [draw(), draw(), draw()]
  say(`${name} ${acts[name](d, e, mulberry(Math.floor(draw() * 1e9)))}`)
  await sleep(200 + pause * 1500)
  for (const n of Object.values(nodes)) {
    if (n.exit) continue
    try {
      const m = memory.get(n.pid) ?? { name: n.name, at: Date.now(), first: resources(n.pid) }
      if (Date.now() - m.at < 15000) m.first = resources(n.pid)
      m.last = resources(n.pid)
      memory.set(n.pid, m)
    } catch { /* it ends */ }
  }
}
say('rest')
running = false
await until('nothing is restarted', () => busy.size === 0, 60_000).catch((e) => problem(e.message))
await Promise.race([Promise.all(workers), sleep(70_000).then(() => problem('calls that are not answered after 70 s'))])
await undrain()
await sleep(3000)
await judgeRest()
for (const [pid, m] of memory) {
  if (m.last.rssKiB !== m.first.rssKiB) say(`${m.name} ${pid}: ${JSON.stringify(m.first)} -> ${JSON.stringify(m.last)}`)
}
for (const n of Object.values(nodes).reverse()) {
  n.expected = true
  if (!n.exit) say(`${n.name} at rest: ${JSON.stringify(resources(n.pid))}`)
  const exit = await n.stop()
  if (exit.code !== 0) problem(`${n.name} ended with ${JSON.stringify(exit)}\n${n.log.slice(-2000)}`)
  writeFileSync(path.join(dir, `log.${n.name}.${n.pid}`), n.log)
}
for (const pid of elasticPids(dir)) tolerate(pid, 'SIGTERM')
await until('elastic runners end', () => elasticPids(dir).length === 0, 20_000).catch((e) => { problem(e.message); elasticPids(dir).forEach((p) => tolerate(p, 'SIGKILL')) })
const ran = judgeCalls()
judgeLogs()
say(`calls ${answers.size}, ran ${ran}`)
for (const [k, n] of Object.entries(tally).sort((a, b) => b[1] - a[1])) console.log(`${String(n).padStart(7)} ${k}`)
say(problems.length ? `${problems.length} problems, seed ${SEED}` : `no problem, seed ${SEED}`)
rmSync(ledger.dir, { recursive: true, force: true })
if (!existsSync(path.join(dir, 'odd'))) problem('no logs')
process.exit(problems.length ? 1 : 0)

// scripts/bench mixed: load balancers and runners of fnd over both transports and of Go Fn (FN_PEER) in
// one cluster, each load balancer in front of all runners, and a ledger of what the functions ran.
//
//   FN_PEER=<fnserver> scripts/bench mixed [calls]       default: a million
//
// Every call is written down twice: by its function (start and end, over TCP) and here, by what the
// client was told. In between each runner of fnd is drained and started again, under load. At the end:
// no call ran twice, each complete 200 ran once and is the caller's own, what was said not to be
// executed never began, and nothing ran that nobody was told of.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { Fnd, build, freePort, tempDir, until } from '../tests/e2e/lib/node.mjs'
import { request } from '../tests/e2e/lib/http.mjs'

const CALLS = Number(process.argv[2] ?? 1_000_000)
const CALLERS = 6 // of each load balancer
// Of each runner: less than the callers, so that calls are refused and go elsewhere.
const CONTAINERS = 5
const MEMORY_MB = 64
const STOP_MS = 20_000
const LEDGER_LATE_MS = 30_000
const PROGRESS_MS = 10_000
const NEVER_MS = 3_600_000

// ---- the ledger -------------------------------------------------------------------------------

// Call id -> starts + ends * ENDS: a million objects would be most of this process.
const ENDS = 1000
const ran = new Map()
let lines = 0

function note(line) {
  const [id, , event] = line.split(' ')
  ran.set(id, (ran.get(id) ?? 0) + (event === 'start' ? 1 : ENDS))
  lines++
}

// Each container has a connection, which it keeps.
function startLedger(host) {
  const server = net.createServer((socket) => {
    let rest = ''
    socket.setEncoding('latin1')
    socket.on('data', (text) => {
      const parts = (rest + text).split('\n')
      rest = parts.pop()
      parts.forEach(note)
    })
    socket.on('error', () => {})
  })
  return new Promise((resolve) => server.listen(0, host, () => resolve(`${host}:${server.address().port}`)))
}

// ---- callers ----------------------------------------------------------------------------------

const told = { ids: new Set(), twice: 0, foreign: 0, without: 0, kinds: new Map(), wrong: [] }
let begun = 0, answered = 0

function judge(lb, head, body) {
  const status = Number(head.slice(9, 12))
  const id = /^fn-call-id: *(\S+)/im.exec(head)?.[1]
  const outcome = /^fn-outcome: *(\S+)/im.exec(head)?.[1] ?? '-'
  const kind = `${lb.name}: ${status} ${outcome}`
  told.kinds.set(kind, (told.kinds.get(kind) ?? 0) + 1)
  answered++
  if (!id) {
    told.without++
  } else if (told.ids.has(id)) {
    told.twice++
  } else {
    told.ids.add(id)
  }
  if (status === 200 && !body.startsWith(`${id} `)) told.foreign++
  if (status !== 200) told.wrong.push({ lb: lb.name, id, status, outcome, body: body.slice(0, 120) })
}

// One caller: a connection, a call at a time, until all calls have begun.
function caller(lb) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(lb.port, '127.0.0.1')
    const bytes = `POST /invoke/${lb.fn} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n0 `
    let text = ''
    let last = false // answer of this connection, which has had its 10 000 requests
    const next = () => {
      if (last || begun >= CALLS) return socket.end()
      begun++
      socket.write(bytes)
    }
    const answer = () => {
      const head = text.indexOf('\r\n\r\n')
      if (head < 0) return false
      const length = /^content-length: *(\d+)/im.exec(text.slice(0, head))
      if (!length) reject(new Error(`${lb.name}: an answer without a length: ${text.slice(0, head)}`))
      const end = head + 4 + Number(length?.[1] ?? 0)
      if (text.length < end) return false
      judge(lb, text.slice(0, head), text.slice(head + 4, end))
      last = /^connection: *close/im.test(text.slice(0, head))
      text = text.slice(end)
      return true
    }
    socket.setNoDelay(true)
    socket.setEncoding('latin1')
    socket.on('connect', next)
    socket.on('data', (data) => {
      text += data
      if (answer()) next()
    })
    socket.on('error', reject)
    socket.on('close', () => {
      if (begun >= CALLS) return resolve()
      if (!last) return reject(new Error(`${lb.name} closed a connection without a word`))
      resolve(caller(lb))
    })
  })
}

// ---- nodes ------------------------------------------------------------------------------------

const peers = []

async function startGo(type, port, env) {
  const dir = tempDir()
  const child = spawn(path.resolve(process.env.FN_PEER), [], { stdio: 'ignore', cwd: dir, env: {
    PATH: process.env.PATH, HOME: dir, ...engine, FN_LOG_LEVEL: 'error', FN_NODE_TYPE: type, FN_PORT: String(port), ...env } })
  peers.push(child)
  child.once('exit', (code) => { if (!ending) console.error(`Go's ${type} ended: ${code}`) })
  await until(`${type} answers`, () => request(`http://127.0.0.1:${port}/version`).catch(() => null), 30_000)
}

const engine = process.env.DOCKER_HOST ? { DOCKER_HOST: process.env.DOCKER_HOST } : {}
let ending = false

async function stopPeers() {
  const gone = peers.map((c) => c.exitCode ?? c.signalCode ?? new Promise((r) => c.once('exit', r)))
  for (const child of peers) child.kill('SIGTERM')
  const late = setTimeout(() => peers.forEach((c) => c.kill('SIGKILL')), STOP_MS)
  await Promise.all(gone)
  clearTimeout(late)
}

async function fnd(name, port, env) {
  const node = await Fnd.start(name, port, null, { env: { ...engine, HOME: tempDir(), FN_PORT: String(port), FN_LOG_LEVEL: 'warn', ...env } })
  nodes.push(node)
  return node
}

async function startRunners() {
  const list = []
  for (const transport of ['nghttp2', 'core', 'go']) {
    const [port, grpc] = [await freePort(), await freePort()]
    const env = { FN_NODE_TYPE: 'pure-runner', FN_GRPC_PORT: String(grpc), FN_IOFS_PATH: tempDir(),
      FN_MAX_TOTAL_MEMORY_BYTES: String(CONTAINERS * MEMORY_MB << 20), FN_ENABLE_NB_RESOURCE_TRACKER: 'true', FN_FREEZE_IDLE_MSECS: String(NEVER_MS) }
    if (transport === 'go') await startGo('pure-runner', port, env)
    const node = transport === 'go' ? null : await fnd(`runner-${transport}`, port, { ...env, FND_TRANSPORT: transport })
    list.push({ name: transport, node, address: `127.0.0.1:${grpc}` })
  }
  return list
}

async function startLbs(api, fn, addresses) {
  const list = []
  for (const transport of ['nghttp2', 'core', 'go']) {
    const port = await freePort()
    const env = { FN_NODE_TYPE: 'lb', FN_RUNNER_API_URL: `http://127.0.0.1:${api}`, FN_RUNNER_ADDRESSES: addresses }
    if (transport === 'go') await startGo('lb', port, env)
    const node = transport === 'go' ? null : await fnd(`lb-${transport}`, port, { ...env, FND_TRANSPORT: transport })
    list.push({ name: transport, node, port, fn })
  }
  return list
}

async function startApi(ledger) {
  const port = await freePort()
  await startGo('api', port, { FN_DB_URL: `sqlite3://${tempDir()}/fn.db` })
  const post = async (p, body) => JSON.parse((await request(`http://127.0.0.1:${port}${p}`,
    { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } })).text)
  const app = await post('/v2/apps', { name: 'mixed', config: { LEDGER_ADDR: ledger } })
  const fn = await post('/v2/fns', { name: 'ledger', app_id: app.id, image: 'fnd/ledger:latest', memory: MEMORY_MB, timeout: 30, idle_timeout: 300 })
  return { port, fn: fn.id }
}

// Calls that are not counted, until each load balancer has had an answer.
async function warm(lbs) {
  let warmed = 0
  for (const lb of lbs) {
    await until(`${lb.name} warm`, async () => {
      const { status, text } = await request(`http://127.0.0.1:${lb.port}/invoke/${lb.fn}`, { method: 'POST', body: '0 ' })
      if (status === 200) warmed++
      else console.error(`${lb.name}: ${status} ${text}`)
      return status === 200
    }, 60_000)
  }
  await until('they are written down', () => lines === 2 * warmed)
  ran.clear()
  lines = 0
}

// ---- the run ----------------------------------------------------------------------------------

// Drains a runner under load and starts it again; its calls end with it or go elsewhere.
async function drain(runner) {
  const exit = await runner.node.stop()
  console.error(`runner ${runner.name} drained at ${answered} calls, exit ${JSON.stringify(exit)}`)
  await runner.node.start()
}

async function load(lbs, runners) {
  const began = Date.now()
  const progress = setInterval(() => console.error(`${answered} calls, ${Math.round((Date.now() - began) / 1000)} s`), PROGRESS_MS)
  const drains = [[0.3, 'nghttp2'], [0.6, 'core']].map(async ([share, name]) => {
    await until('its share', () => answered >= CALLS * share, NEVER_MS)
    await drain(runners.find((r) => r.name === name))
  })
  await Promise.all(lbs.flatMap((lb) => Array.from({ length: CALLERS }, () => caller(lb))))
  await Promise.all(drains)
  clearInterval(progress)
  return (Date.now() - began) / 1000
}

function report(seconds) {
  const count = (is) => [...ran].filter(is).length
  const once = (id) => ran.get(id) === ENDS + 1
  const unlike = told.wrong.filter((w) => once(w.id)).length // failed, as the function had it
  const faults = {
    'ran twice': count(([, v]) => v % ENDS > 1 || v >= 2 * ENDS),
    'began and did not end': count(([, v]) => v === 1),
    'said 200, did not run once': answered - told.wrong.length - (count(([id]) => once(id) && told.ids.has(id)) - unlike),
    'said not executed, but ran': told.wrong.filter((w) => w.outcome === 'not-executed' && ran.has(w.id)).length,
    'outcome unknown': told.wrong.filter((w) => w.outcome === 'unknown').length,
    'ran, and nobody was told': count(([id]) => !told.ids.has(id)),
    "somebody else's answer": told.foreign, 'without an id': told.without, 'one id told twice': told.twice,
  }
  const rows = { calls: answered, seconds: seconds.toFixed(0), 'calls/s': (answered / seconds).toFixed(0),
    ...Object.fromEntries([...told.kinds].sort()), 'calls that ran': ran.size, ...faults }
  for (const [what, n] of Object.entries(rows)) console.log(`| ${what} | ${n} |`)
  told.wrong.slice(0, 20).forEach((w) => console.error(JSON.stringify({ ...w, ran: ran.get(w.id) ?? 0 })))
  const clean = answered === CALLS && !Object.values(faults).some(Boolean)
  if (!clean) console.error('the ledger is not clean')
  return clean
}

if (!process.env.FN_PEER) throw new Error('FN_PEER names the fnserver of Go Fn, which this needs')
if (!existsSync(path.join(build, 'transports', 'grpc-core.so'))) throw new Error('gRPC C core is not built: libgrpc-dev')
// Of the engine's own bridge: the first address of its network where the engine does not name it.
const [gateway, subnet] = execFileSync('docker', ['network', 'inspect', 'bridge', '-f', '{{with index .IPAM.Config 0}}{{.Gateway}} {{.Subnet}}{{end}}'], { encoding: 'utf8' }).split(' ')
const nodes = []
let clean = false
try {
  const api = await startApi(await startLedger(gateway || subnet.replace(/\.0\/.*\n/, '.1')))
  const runners = await startRunners()
  const lbs = await startLbs(api.port, api.fn, runners.map((r) => r.address).join(','))
  await warm(lbs)
  const seconds = await load(lbs, runners)
  await until('all are written down', () => lines === 2 * ran.size, LEDGER_LATE_MS).catch(() => {})
  clean = report(seconds)
  for (const { name, node } of runners) {
    if (node) console.log(`| runner ${name}, since its drain | ${await node.metric('fn_calls')} |`)
  }
} finally {
  ending = true
  for (const node of nodes) await (clean ? node.stop() : node.kill())
  await stopPeers()
}
process.exit(clean ? 0 : 1)

// scripts/bench api: the management API of an api node with SQLite, and of a Go peer when FN_PEER names its binary,
// in alternating rounds: reads, durable creates, a long list, calls by trigger and by id, and how soon a load balancer
// uses what changed. One table, each row against its limit.
//
// The load generator is on the same machine. Databases are in FND_BENCH_DIR (/var/tmp): on a disk, where the write-ahead
// log has to be synchronised.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { startLb, startRunner } from '../tests/e2e/lib/cluster.mjs'
import { invoke, request } from '../tests/e2e/lib/http.mjs'
import { Fnd, freePort, until } from '../tests/e2e/lib/node.mjs'
import { median } from './lib/figures.mjs'

const ROUNDS = Number(process.env.FND_BENCH_ROUNDS ?? 3)
const SECONDS = Number(process.env.FND_BENCH_SECONDS ?? 4)
const ITEMS = Number(process.env.FND_BENCH_ITEMS ?? 100_000)
const CLIENTS = 8
const FILLERS = 128
const PAGE = 100
const PAIRS = 5 // in each round, of calls by id and by trigger: many short ones, for a ratio of a few percent
const CHANGES = 50
const CHANGE_MS_MAX = 10_000 // what is not seen by then is a failure, not a figure

const dir = mkdtempSync(path.join(process.env.FND_BENCH_DIR ?? '/var/tmp', 'fnd-bench-api-'))
const name = (n) => `f${String(n).padStart(9, '0')}`
let named = 0 // names that were given away, a block for each load

function script(file, request) {
  const at = path.join(dir, file)
  writeFileSync(at, `${request}
done = function(summary, latency, requests)
  io.write(string.format("RESULT %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout))
end
`)
  return at
}

const get = script('get.lua', '')
const call = script('call.lua', 'wrk.method = "POST"\nwrk.body = "{}"')
const create = (app) => script('create.lua', `local n = ${named}
request = function()
  n = n + 1
  return wrk.format("POST", "/v2/fns", nil,
    string.format('{"app_id":"${app}","name":"f%09d","image":"me/img:1","config":{"KEY":"value"}}', n))
end`)

// -> { rate, p50, p99 (microseconds), errors, requests }
function load(url, clients, lua, seconds = SECONDS) {
  return new Promise((resolve, reject) => {
    const child = spawn('wrk', ['-t1', `-c${clients}`, `-d${seconds}s`, '-s', lua, url])
    let text = ''
    child.stdout.on('data', (d) => { text += d })
    child.on('error', reject)
    child.on('close', () => {
      const m = /RESULT (\d+) (\d+) (\d+) (\d+) (\d+)/.exec(text)
      if (!m) return reject(new Error(`wrk at ${url}: ${text}`))
      const [requests, micros, p50, p99, errors] = m.slice(1).map(Number)
      resolve({ requests, rate: requests / (micros / 1e6), p50, p99, errors })
    })
  })
}

async function startFnd() {
  const port = await freePort()
  const node = await Fnd.start('fnd', port, null, {
    env: { FN_NODE_TYPE: 'api', FN_PORT: String(port), FN_LOG_LEVEL: 'warn', FN_DB_URL: `sqlite3://${dir}/fnd.db` },
  })
  return { name: 'fnd', url: node.url('').replace(/\/$/, ''), stop: () => node.stop() }
}

async function startGo() {
  const port = await freePort()
  const child = spawn(process.env.FN_PEER, [], { stdio: 'ignore', env: { ...process.env, FN_NODE_TYPE: 'api',
    FN_PORT: String(port), FN_LOG_LEVEL: 'error', FN_DB_URL: `sqlite3://${dir}/go.db` } })
  const url = `http://127.0.0.1:${port}`
  await until('the Go peer answers', async () => (await request(`${url}/version`).catch(() => null))?.status === 200)
  return { name: 'Go', url, stop: () => new Promise((r) => { child.once('close', r); child.kill() }) }
}

const ask = async (api, method, target, body) => {
  const answer = await request(api.url + target, { method, body: JSON.stringify(body) })
  if (answer.status !== 200) throw new Error(`${method} ${target}: ${answer.status} ${answer.text}`)
  return JSON.parse(answer.text)
}

// ---- the table --------------------------------------------------------------------------------

const rows = [] // { what, limit, figures of fnd, of Go, met }
let failed = 0 // requests
let missed = 0 // limits
const ms = (micros) => `${(micros / 1000).toFixed(2)} ms`

function row(what, limit, met, fnd, go = '') {
  missed += met === false ? 1 : 0
  rows.push([what, limit, fnd, go, met === undefined ? '' : met ? 'met' : 'not met'])
}

// Of the loads of several rounds, the medians.
function summary(loads) {
  failed += loads.reduce((sum, l) => sum + l.errors, 0)
  const of = (key) => median(loads.map((l) => l[key]))
  const all = { rate: of('rate'), p50: of('p50'), p99: of('p99') }
  return { ...all, text: `${Math.round(all.rate)}/s, p50 ${ms(all.p50)}, p99 ${ms(all.p99)}` }
}

// ---- what is measured -------------------------------------------------------------------------

async function readsAndCreates(apis) {
  const loads = { get: apis.map(() => []), create: apis.map(() => []) }
  for (const api of apis) {
    api.app = (await ask(api, 'POST', '/v2/apps', { name: 'bench' })).id
    api.fn = (await ask(api, 'POST', '/v2/fns', { app_id: api.app, name: 'a', image: 'me/img:1', config: { KEY: 'value' } })).id
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, api] of apis.entries()) {
      loads.get[i].push(await load(`${api.url}/v2/fns/${api.fn}`, CLIENTS, get))
      const made = await load(api.url, CLIENTS, create(api.app))
      named += made.requests + CLIENTS
      loads.create[i].push(made)
    }
  }
  const [read, readGo] = loads.get.map(summary)
  row(`GET of a function by id, ${CLIENTS} clients`, '>= 20 000/s', read.rate >= 20_000, read.text, readGo?.text)
  const [made, madeGo] = loads.create.map(summary)
  row(`create of a function, durable, ${CLIENTS} clients`, '>= 1 500/s', made.rate >= 1_500, made.text, madeGo?.text)
}

// Go Fn's node would take an hour to fill.
async function longList(fnd) {
  let made
  do {
    made = await load(fnd.url, FILLERS, create(fnd.app), 2)
    named += made.requests + FILLERS
  } while (named < ITEMS)
  row(`create of a function, durable, ${FILLERS} clients`, '', undefined, summary([made]).text)
  const list = `${fnd.url}/v2/fns?app_id=${fnd.app}&per_page=${PAGE}&cursor=`
  const last = Buffer.from(name(named - FILLERS - 2 * PAGE)).toString('base64url')
  for (const clients of [1, CLIENTS]) {
    const loads = { first: [], last: [] }
    for (let round = 0; round < ROUNDS; round++) {
      loads.first.push(await load(list, clients, get))
      loads.last.push(await load(list + last, clients, get))
    }
    const [a, b] = [summary(loads.first), summary(loads.last)]
    const of = `list of ${ITEMS}, page of ${PAGE}, ${clients === 1 ? 'one client' : `${clients} clients`}`
    row(`${of}: the first`, 'p99 <= 5 ms', a.p99 <= 5_000, a.text)
    row(`${of}: the last`, 'p99 <= 5 ms', b.p99 <= 5_000, b.text)
    row(`${of}: p50 of the last against the first`, '<= 105 %', b.p50 <= 1.05 * a.p50, `${(100 * b.p50 / a.p50).toFixed(1)} %`)
  }
}

async function triggerAgainstId(lb, fnd, fn) {
  await ask(fnd, 'POST', '/v2/triggers', { app_id: fn.app_id, fn_id: fn.id, name: 't', type: 'http', source: '/t' })
  const urls = { id: lb.url(`/invoke/${fn.id}`), trigger: lb.url('/t/calls/t') }
  const loads = { id: [], trigger: [] }
  for (const url of Object.values(urls)) await load(url, CLIENTS, call, 1)
  for (let pair = 0; pair < PAIRS * ROUNDS; pair++) {
    for (const by of pair % 2 ? ['id', 'trigger'] : ['trigger', 'id']) {
      loads[by].push(await load(urls[by], CLIENTS, call, Math.max(1, Math.floor(SECONDS / PAIRS))))
    }
  }
  const [id, trigger] = [summary(loads.id), summary(loads.trigger)]
  const ratio = median(loads.trigger.map((l, i) => l.rate / loads.id[i].rate))
  row(`call by id, ${CLIENTS} clients`, '', undefined, id.text)
  row(`call by trigger, ${CLIENTS} clients`, '', undefined, trigger.text)
  row('calls by trigger against those by id', '>= 95 %', ratio >= 0.95, `${(100 * ratio).toFixed(1)} %`)
}

// From the answer of the API node to the answer of the first call with the new value, the start of a container included.
async function changes(lb, fnd, fn) {
  const took = []
  for (let i = 0; i < CHANGES; i++) {
    await ask(fnd, 'PUT', `/v2/fns/${fn.id}`, { config: { K: `v${i}` } })
    const began = performance.now()
    for (let value; value !== `v${i}`;) {
      const answer = await invoke(lb, fn.id, '', { 'Echo-Env': 'K' })
      value = answer.text.trim().split(' ')[1]
      if (answer.status !== 200) throw new Error(`a call: ${answer.status} ${value}`)
      if (performance.now() - began > CHANGE_MS_MAX) throw new Error(`the load balancer still uses ${value} at change ${i}`)
    }
    took.push((performance.now() - began) * 1000)
  }
  took.sort((a, b) => a - b)
  const p99 = took[Math.ceil(0.99 * took.length) - 1]
  row('change of a function, until a call has it', 'p99 <= 50 ms', p99 <= 50_000, `p50 ${ms(median(took))}, p99 ${ms(p99)}`)
}

async function calls(fnd) {
  const nodes = []
  const started = async (node) => nodes.unshift(await node) && nodes[0]
  try {
    const app = await ask(fnd, 'POST', '/v2/apps', { name: 'calls' })
    const make = (name, more) => ask(fnd, 'POST', '/v2/fns', { app_id: app.id, name, memory: 64, ...more })
    const runner = await started(startRunner({ more: 'log: { level: warn }' }))
    const lb = await started(startLb({ addresses: [runner.address], lb: `api_url: "${fnd.url}"\ncache_ttl: 1h`, more: 'log: { level: warn }' }))
    await triggerAgainstId(lb, fnd, await make('hello', { image: 'fnd/hello' }))
    await changes(lb, fnd, await make('echo', { image: 'fnd/echo', idle_timeout: 1 }))
  } finally {
    for (const node of nodes) await node.stop()
  }
}

const apis = []
try {
  apis.push(await startFnd())
  if (process.env.FN_PEER) apis.push(await startGo())
  await readsAndCreates(apis)
  await longList(apis[0])
  await calls(apis[0])
} finally {
  await Promise.all(apis.map((api) => api.stop()))
  rmSync(dir, { recursive: true, force: true })
}

console.log('\n| what | limit | fnd | Go Fn | |\n|---|---|---|---|---|')
for (const cells of rows) console.log(`| ${cells.join(' | ')} |`)
if (failed) console.log(`\n${failed} requests failed`)
process.exit(failed || missed ? 1 : 0)

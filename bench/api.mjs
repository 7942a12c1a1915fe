// scripts/bench api: the management API of an api node with SQLite, and of a Go peer when FN_PEER names its binary,
// in alternating rounds; durable creates, reads, and the last page of a long list.
//
// The load generator is on the same machine. Databases are in FND_BENCH_DIR (/var/tmp): on a disk, where the write-ahead
// log has to be synchronised.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { request } from '../tests/e2e/lib/http.mjs'
import { Fnd, freePort, until } from '../tests/e2e/lib/node.mjs'

const ROUNDS = Number(process.env.FND_BENCH_ROUNDS ?? 3)
const SECONDS = Number(process.env.FND_BENCH_SECONDS ?? 4)
const ITEMS = Number(process.env.FND_BENCH_ITEMS ?? 100_000)
const CLIENTS = 8
const FILLERS = 128
const PAGE = 100

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]
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

const post = async (api, target, body) =>
  JSON.parse((await request(api.url + target, { method: 'POST', body: JSON.stringify(body) })).text)

const apis = [await startFnd(), ...(process.env.FN_PEER ? [await startGo()] : [])]
const rows = new Map() // what -> { name of the node: loads }
const note = (what, api, result) => {
  if (!rows.has(what)) rows.set(what, {})
  const row = rows.get(what)
  row[api.name] = [...(row[api.name] ?? []), result]
}

try {
  for (const api of apis) {
    api.app = (await post(api, '/v2/apps', { name: 'bench' })).id
    api.fn = (await post(api, '/v2/fns', { app_id: api.app, name: 'a', image: 'me/img:1', config: { KEY: 'value' } })).id
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const api of apis) {
      note('GET function by id', api, await load(`${api.url}/v2/fns/${api.fn}`, CLIENTS, get))
      const made = await load(api.url, CLIENTS, create(api.app))
      named += made.requests + CLIENTS
      note('create function, durable', api, made)
    }
  }
  const [fnd] = apis
  let made = 0
  while (named < ITEMS) {
    made = await load(fnd.url, FILLERS, create(fnd.app), 2)
    named += made.requests + FILLERS
  }
  note(`create function, ${FILLERS} clients`, fnd, made)
  const list = `${fnd.url}/v2/fns?app_id=${fnd.app}&per_page=${PAGE}&cursor=`
  const last = Buffer.from(name(named - FILLERS - 2 * PAGE)).toString('base64url')
  for (let round = 0; round < ROUNDS; round++) {
    note(`list of ${ITEMS}: first page of ${PAGE}`, fnd, await load(list, CLIENTS, get))
    note(`list of ${ITEMS}: last page of ${PAGE}`, fnd, await load(list + last, CLIENTS, get))
  }
} finally {
  await Promise.all(apis.map((api) => api.stop()))
  rmSync(dir, { recursive: true, force: true })
}

console.log(`\n| ${CLIENTS} clients | ${apis.map((a) => `${a.name}: 1/s | p50 ms | p99 ms`).join(' | ')} |`)
console.log(`|---|${apis.map(() => '---|---|---').join('|')}|`)
let bad = 0
for (const [what, by] of rows) {
  const cells = apis.map(({ name: n }) => {
    if (!by[n]) return '– | – | –'
    bad += by[n].reduce((sum, l) => sum + l.errors, 0)
    const ms = (key) => (median(by[n].map((l) => l[key])) / 1000).toFixed(2)
    return `${Math.round(median(by[n].map((l) => l.rate)))} | ${ms('p50')} | ${ms('p99')}`
  })
  console.log(`| ${what} | ${cells.join(' | ')} |`)
}
if (bad) console.log(`\n${bad} requests failed`)
process.exit(bad ? 1 : 0)

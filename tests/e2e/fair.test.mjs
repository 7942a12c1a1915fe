// What a client may take from the others at a load balancer: nothing that they notice. One asks for random ids at an API
// node that takes its time, one sends requests by the thousand without waiting for answers; a quiet one goes on.
// At a runner: a function that keeps all its containers busy leaves one to a function that has none.
// Alone: it measures what a client notices of another.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import { after, before, describe, it } from 'node:test'
import { ApiNode } from './lib/api.mjs'
import { fnId, startCluster, startLb, startRunner } from './lib/cluster.mjs'
import { docker, driver, noEngine as skip } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { until } from './lib/node.mjs'

const QUIET_MAX_MS = 2000 // a few milliseconds on an idle machine; 5 s and more while it waits for the others
const STRANGERS = 300
const API_MS = 100

// Calls one after the other for a while; the longest, in ms.
async function quiet(node, name, forMs) {
  const begin = Date.now()
  let longest = 0
  while (Date.now() - begin < forMs) {
    const at = Date.now()
    const answer = await invoke(node, fnId(name))
    assert.equal(answer.status, 200, answer.text)
    longest = Math.max(longest, Date.now() - at)
    await new Promise((r) => { setTimeout(r, 20) })
  }
  return longest
}

function get(node, path, options = {}) {
  return new Promise((resolve, reject) => {
    http.request(node.url(path), { method: 'POST', ...options }, (res) => {
      res.resume().on('end', () => resolve(res.statusCode))
    }).on('error', reject).end()
  })
}

// A process that keeps `connections` full of requests and throws the answers away.
const FLOOD = `
  const net = require('node:net')
  const [port, connections, path] = process.argv.slice(1)
  const many = Buffer.from(('GET ' + path + ' HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n').repeat(2000))
  const open = () => {
    const s = net.connect(Number(port), '127.0.0.1')
    const fill = () => { while (s.write(many)); }
    s.on('connect', fill).on('drain', fill).on('error', () => {}).on('close', open).resume()
  }
  for (let i = 0; i < connections; i++) open()
`

describe('a load balancer', () => {
  let api
  let runner
  let lb
  before(async () => {
    api = await ApiNode.start()
    runner = await startRunner()
    lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], http: 'connections_per_ip_max: 2000', lb: `api_url: "http://127.0.0.1:${api.port}"\ncache_ttl: 500ms` })
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
  })
  after(async () => {
    await lb?.stop()
    await runner?.stop()
    await api?.stop()
  })

  it('with a client that asks for random ids: known functions go on, and so do first calls of others', async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: STRANGERS })
    const seen = new Set()
    let asked = 0
    let on = true
    api.delayMs = API_MS
    const stranger = async (k) => {
      while (on) {
        seen.add(await get(lb, `/invoke/stranger-${k}-${asked++}`, { agent }))
      }
    }
    const strangers = Array.from({ length: STRANGERS }, (_, k) => stranger(k))
    await until('they are at work', () => asked > 2 * STRANGERS, 60_000)
    const known = quiet(lb, 'hello', 3000)
    const at = Date.now()
    const first = await get(lb, `/invoke/${fnId('echo')}`, { localAddress: '127.0.0.2' })
    const firstMs = Date.now() - at
    const longest = await known
    on = false
    await Promise.all(strangers)
    api.delayMs = 0
    agent.destroy()
    assert.equal(first, 200)
    assert.ok(longest < QUIET_MAX_MS, `a call of a known function took ${longest} ms`)
    assert.ok(firstMs < QUIET_MAX_MS, `the first call of another address took ${firstMs} ms`)
    for (const status of seen) assert.ok(status === 404 || status === 503, String(status))
  })

  it('with clients that pipeline requests by the thousand: others are served', async () => {
    const flood = spawn(process.execPath, ['-e', FLOOD, String(lb.port), '20', '/metrics'], { stdio: 'ignore' })
    try {
      const served = async () => [...await lb.metrics()].reduce((n, [key, value]) => n + (key.startsWith('fn_api_response_count') && key.includes('/metrics') ? value : 0), 0)
      const before = await served()
      await until('they are at work', async () => await served() > before + 100, 60_000)
      const longest = await quiet(lb, 'hello', 3000)
      assert.ok(longest < QUIET_MAX_MS, `a call took ${longest} ms`)
    } finally {
      flood.kill('SIGKILL')
      await once(flood, 'exit')
    }
  })
})

const PLACES = 4
const RUN_MS = 300
const BOUND_MS = 2000 + RUN_MS + 5000 // docs/runner.md; a removal and a start on a machine that is busy

describe('a full runner', { skip }, () => {
  const functions = {
    sleeper: { image: 'fnd/sleeper:latest', memory: 64, app: 'greedy' },
    hello: { image: 'fnd/hello:latest', memory: 64 },
  }
  const owner = `e2e-fair-${process.pid}`
  let cluster
  before(async () => {
    cluster = await startCluster({ functions, runnerOptions: { driver: driver(), runner: `owner: ${owner}\nmemory_total: ${PLACES * 64}MiB` } })
  })
  after(async () => {
    await cluster?.stop()
    assert.equal(docker('ps', '-aq', '--filter', `label=io.fnd.owner=${owner}`), '')
  })

  it('with a function that keeps all its containers busy: another one gets its own, and no call is ended for it', async () => {
    const [runner] = cluster.runners
    const value = async (name) => (await runner.metrics()).get(name) ?? 0
    let on = true
    let ran = 0
    const seen = new Set()
    const greedy = async () => {
      while (on) {
        const answer = await invoke(cluster.lb, fnId('sleeper'), String(RUN_MS))
        seen.add(`${answer.status} ${answer.headers['fn-outcome']}`)
        ran++
      }
    }
    const callers = Array.from({ length: 3 * PLACES }, greedy)
    await until('it has the runner', async () => ran > 3 * PLACES && await value('fn_util_mem_avail') === 0, 30_000)
    const at = Date.now()
    assert.equal((await invoke(cluster.lb, fnId('hello'))).status, 200)
    const firstMs = Date.now() - at
    const longest = await quiet(cluster.lb, 'hello', 3000)
    on = false
    await Promise.all(callers)
    assert.ok(firstMs < BOUND_MS, `its first call took ${firstMs} ms`)
    assert.ok(longest < QUIET_MAX_MS, `a later one took ${longest} ms`)
    assert.equal(await value('fn_runner_fair_closed_total'), 1)
    for (const what of seen) assert.ok(what === '200 ok' || what === '503 not-executed', what)
  })
})

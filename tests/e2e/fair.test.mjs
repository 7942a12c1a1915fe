// What a client may take from the others at a load balancer: nothing that they notice. One asks for random ids at an API
// node that takes its time, one sends requests by the thousand without waiting for answers; a quiet one goes on.
// Alone: it measures what a client notices of another.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import { after, before, describe, it } from 'node:test'
import { ApiNode } from './lib/api.mjs'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
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

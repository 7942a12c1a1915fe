// Calls that wait: parked without hurry while every runner is full, ended at the deadline or run
// when there is room; and the books of both nodes under mixed load.
import assert from 'node:assert/strict'
import http from 'node:http'
import { describe, it } from 'node:test'
import { Ledger, fnId, startCluster } from './lib/cluster.mjs'
import { invoke, raw } from './lib/http.mjs'
import { until } from './lib/node.mjs'

const CALLS = 2000
const PARK_MS = 7000 // a loaded machine opens that many connections in this time
const RETRIES_PER_SECOND_MAX = 10

// Room for one container of the function.
const small = 'memory_total: 256MiB\nqueue_wait: 0s\nqueue_factor: 1'

async function outcomes(node) {
  const m = await node.metrics()
  let sum = 0
  for (const [key, value] of m) if (key.startsWith('fn_call_outcomes')) sum += value
  return { calls: m.get('fn_calls') ?? 0, sum, inFlight: m.get('fn_calls_in_flight') ?? 0 }
}

// Each call has a connection of its own, so that the client is never the limit.
function park(lb, n, body) {
  const agent = new http.Agent({ keepAlive: false, maxSockets: Infinity })
  return Array.from({ length: n }, (_, i) => new Promise((resolve, reject) => {
    const req = http.request(lb.url(`/invoke/${fnId('ledger')}`), { method: 'POST', agent }, (res) => {
      let text = ''
      res.on('data', (d) => { text += d })
      res.on('end', () => resolve({ status: res.statusCode, headers: res.headers, text }))
    })
    req.on('error', reject)
    req.end(`${body} ${i}`)
  }))
}

const start = (ledger, lb) => startCluster({
  functions: { ledger: { memory: 200, timeout: 60, config: { LEDGER_FILE: ledger.file } } },
  runnerOptions: { runner: small },
  lbOptions: { lb, http: 'connections_max: 4000\nconnections_per_ip_max: 4000' },
})

describe('2000 calls at a full runner', () => {
  it('are not hurried and all end with 503 and Retry-After at the placement deadline', async () => {
    const ledger = new Ledger()
    const { lb, runners, stop } = await start(ledger, `placement_timeout: ${PARK_MS}ms`)
    const holder = invoke(lb, fnId('ledger'), `${4 * PARK_MS} holder`).catch(() => 'cut off with its nodes')
    await until('the runner is full', () => ledger.read().size === 1)
    const begin = Date.now()
    const rss = lb.rssKiB()
    const calls = park(lb, CALLS, '0')
    await until('all wait', async () => (await lb.metric('fn_queued')) >= CALLS, PARK_MS)
    const parkedKiB = (lb.rssKiB() - rss) / CALLS
    const answers = await Promise.all(calls)
    const seconds = (Date.now() - begin) / 1000
    const refused = await lb.metric('fn_lb_placer_retry_busy_count')
    for (const answer of answers) {
      assert.equal(answer.status, 503, answer.text)
      assert.ok(Number(answer.headers['retry-after']) > 0)
      assert.equal(answer.headers['fn-outcome'], 'not-executed')
    }
    assert.ok(seconds < 2 * PARK_MS / 1000, `ended after ${seconds} s`)
    assert.ok(refused > 0, 'they were offered')
    assert.ok(refused / CALLS / seconds <= RETRIES_PER_SECOND_MAX, `${refused} refusals in ${seconds} s`)
    assert.ok(parkedKiB <= 32, `${parkedKiB} KiB per call`)
    assert.equal(ledger.read().size, 1, 'none of them ran')
    await Promise.all([lb.kill(), runners[0].kill()])
    await holder
    await stop()
  })

  it('run once there is room, each once', async () => {
    const ledger = new Ledger()
    const { lb, stop } = await start(ledger, 'placement_timeout: 60s')
    const holder = invoke(lb, fnId('ledger'), `${PARK_MS} holder`)
    await until('the runner is full', () => ledger.read().size === 1)
    const calls = park(lb, CALLS, '0')
    await until('all wait', async () => (await lb.metric('fn_queued')) >= CALLS, PARK_MS)
    assert.equal((await holder).status, 200)
    const begin = Date.now()
    const answers = await Promise.all(calls)
    const seconds = (Date.now() - begin) / 1000
    for (const answer of answers) {
      assert.equal(answer.status, 200, answer.text)
      assert.ok(answer.text.startsWith(answer.headers['fn-call-id']))
    }
    for (const [id, entry] of ledger.read()) assert.equal(entry.starts, 1, id)
    assert.ok(seconds < 30, `all had run after ${seconds} s`)
    await stop()
  })

  it('whose clients go away leave nothing behind', async () => {
    const ledger = new Ledger()
    const { lb, stop } = await start(ledger, 'placement_timeout: 30s')
    const holder = invoke(lb, fnId('ledger'), '2000 holder')
    await until('the runner is full', () => ledger.read().size === 1)
    const head = `POST /invoke/${fnId('ledger')} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n0`
    await Promise.all(Array.from({ length: 200 }, () => raw(lb.port, head, { waitMs: 500 })))
    await until('only the holder is left', async () => (await lb.metric('fn_calls_in_flight')) <= 1)
    assert.equal(await lb.metric('fn_lb_placer_client_cancelled_count'), 200)
    assert.equal((await holder).status, 200)
    assert.equal((await invoke(lb, fnId('ledger'), '0 next')).status, 200)
    await stop()
  })
})

describe('the books', () => {
  it('agree at every moment: calls = outcomes + in flight, on both nodes, with clients that go away', async () => {
    const ledger = new Ledger()
    const { lb, runners, stop } = await startCluster({
      functions: { ledger: { config: { LEDGER_FILE: ledger.file } }, misbehave: { timeout: 2 }, hello: {}, big: {}, gone: { image: 'not-there' } },
      lbOptions: { lb: 'placement_timeout: 1s' },
    })
    let running = true
    let samples = 0
    const watch = async () => {
      while (running) {
        const { calls, sum, inFlight } = await outcomes(lb)
        assert.equal(calls, sum + inFlight, 'at the load balancer, under load')
        const m = await runners[0].metrics()
        let runnerSum = 0
        for (const [key, value] of m) if (key.startsWith('fn_runner_calls_total')) runnerSum += value
        assert.equal(m.get('fn_runner_calls_received_total') ?? 0, runnerSum + m.get('fn_runner_calls_in_flight'), 'at the runner, under load')
        samples++
      }
    }
    const sampler = watch().then(() => null, (e) => e)
    const work = [
      () => invoke(lb, fnId('hello')),
      () => invoke(lb, fnId('ledger'), '20 x'),
      () => invoke(lb, fnId('ledger'), '20 d', { 'Fn-Invoke-Type': 'detached' }),
      () => invoke(lb, fnId('misbehave'), 'crash'),
      () => invoke(lb, fnId('misbehave'), 'garbage'),
      () => invoke(lb, fnId('big'), '300000'),
      () => invoke(lb, fnId('gone')),
      () => invoke(lb, 'nope'),
      () => raw(lb.port, `POST /invoke/${fnId('ledger')} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n500`, { waitMs: 50 }),
      () => raw(lb.port, `POST /invoke/${fnId('big')} HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n5000000`, { waitMs: 5 }),
      () => raw(lb.port, `POST /invoke/${fnId('hello')} HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf`, { waitMs: 20 }),
    ]
    for (let round = 0; round < 12; round++) await Promise.all(work.map((one) => one().catch(() => null)))
    running = false
    assert.ifError(await sampler)
    assert.ok(samples > 5)
    await until('all calls have an outcome', async () => (await outcomes(lb)).inFlight === 0 &&
      (await runners[0].metric('fn_runner_calls_in_flight')) === 0)
    const { calls, sum } = await outcomes(lb)
    assert.equal(calls, sum)
    for (const [id, entry] of ledger.read()) assert.ok(entry.starts <= 1, id)
    await stop()
  })
})

describe('limits of -1', () => {
  it('are none: Go\'s variables for pulls and starts', async () => {
    const { lb, stop } = await startCluster({ functions: { hello: {} },
      runnerOptions: { env: { FN_HOT_PULL_TIMEOUT_MSECS: '-1', FN_HOT_START_TIMEOUT_MSECS: '-1' } } })
    const answer = await invoke(lb, fnId('hello'))
    assert.equal(answer.status, 200, answer.text)
    await stop()
  })
})

// The main path with real processes: client, load balancer, runner, function process.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startCluster, Ledger } from './lib/cluster.mjs'
import { invoke, raw, request } from './lib/http.mjs'
import { Fnd, build, freePort, until } from './lib/node.mjs'

const ledger = new Ledger()
const functions = {
  hello: { triggers: ['/hello', '/'] },
  echo: { triggers: ['/echo'] },
  big: {},
  sleeper: { timeout: 2 },
  misbehave: {},
  ledger: { config: { LEDGER_FILE: ledger.file } },
}

describe('lb and runner', () => {
  let cluster
  let lb
  before(async () => {
    cluster = await startCluster({ functions })
    lb = cluster.lb
  })
  after(() => cluster?.stop())

  it('answers an invoke with the function\'s body and the call headers', async () => {
    const answer = await invoke(lb, fnId('hello'), '{"name":"x"}', { 'Content-Type': 'application/json' })
    assert.equal(answer.status, 200)
    assert.match(answer.text, /Hello x/)
    assert.match(answer.headers['fn-call-id'], /^[0-9A-HJKMNP-TV-Z]{26}$/)
    assert.equal(answer.headers['fn-outcome'], 'ok')
    assert.equal(Number(answer.headers['content-length']), answer.body.length)
  })

  it('answers a trigger and hides the function\'s own headers', async () => {
    const answer = await request(lb.url('/t/demo/hello?x=1'), { method: 'POST', body: '{"name":"y"}' })
    assert.equal(answer.status, 200)
    assert.match(answer.text, /Hello y/)
    assert.ok(answer.headers['fn-call-id'])
    assert.equal(answer.headers['fn-fdk-version'], undefined)
    assert.equal((await request(lb.url('/t/demo'))).status, 200, 'the root source')
  })

  it('carries bodies of many sizes both ways', async () => {
    for (const size of [0, 1, 10_239, 10_240, 10_241, 25_000, 1_000_000, 3_000_000]) {
      const body = Buffer.alloc(size, 'abcdefghij')
      const answer = await invoke(lb, fnId('echo'), body)
      assert.equal(answer.status, 200, `${size} bytes`)
      assert.ok(answer.body.equals(body), `${size} bytes come back unchanged`)
    }
  })

  it('streams a large answer', async () => {
    const answer = await invoke(lb, fnId('big'), '3000000')
    assert.equal(answer.status, 200)
    assert.equal(answer.body.length, 3_000_000)
  })

  it('keeps answers apart under concurrency', async () => {
    const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => invoke(lb, fnId('ledger'), `0 mine-${i}`)))
    answers.forEach((answer, i) => {
      assert.equal(answer.status, 200, answer.text)
      assert.ok(answer.text.startsWith(answer.headers['fn-call-id']))
      assert.match(answer.text, new RegExp(`mine-${i}$`))
    })
    for (const [id, entry] of ledger.read()) assert.equal(entry.starts, 1, `call ${id} ran once`)
  })

  it('says 404 for an unknown function, app and trigger, and 405 for a wrong method', async () => {
    assert.equal((await invoke(lb, 'nope')).status, 404)
    assert.equal((await request(lb.url('/t/demo/nope'))).status, 404)
    assert.equal((await request(lb.url('/t/nope/hello'))).status, 404)
    assert.equal((await request(lb.url(`/invoke/${fnId('hello')}`))).status, 405)
    assert.equal((await request(lb.url('/nowhere'))).status, 404)
  })

  it('ends a call at its time limit with 504 and removes the container', async () => {
    const answer = await invoke(lb, fnId('sleeper'), '10000')
    assert.equal(answer.status, 504)
    assert.equal(answer.headers['fn-outcome'], 'failed')
    assert.match(answer.text, /Timed out/)
  })

  it('tells a crash in mid call with its cause', async () => {
    const answer = await invoke(lb, fnId('misbehave'), 'crash')
    assert.equal(answer.status, 502)
    assert.equal(answer.headers['fn-outcome'], 'failed')
    assert.equal((await invoke(lb, fnId('misbehave'), 'ok')).status, 200, 'the next call gets a new container')
  })

  it('cancels when the client goes away and counts it', async () => {
    const before = await lb.metric('fn_canceled')
    await raw(lb.port, `POST /invoke/${fnId('sleeper')} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n1500`, { waitMs: 300 })
    await until('the call is counted as cancelled', async () => (await lb.metric('fn_canceled')) === before + 1)
    assert.ok((await lb.metrics()).get('fn_lb_call_latency_count{call_status="canceled"}') > 0)
  })

  it('serves /, /version and /metrics', async () => {
    assert.match((await request(lb.url('/'))).text, /"hello":"world!"/)
    assert.match((await request(lb.url('/version'))).text, /"version":"/)
    assert.ok((await lb.metric('fn_calls')) > 0)
    assert.ok((await cluster.runners[0].metric('fn_calls')) > 0)
  })

  it('metrics have Go Fn\'s names, types and units', async () => {
    const runner = cluster.runners[0]
    const sum = (m, name) => [...m].reduce((n, [key, value]) => (key === name || key.startsWith(`${name}{`) ? n + value : n), 0)
    const before = { lb: await lb.metrics(), runner: await runner.metrics() }
    assert.equal((await invoke(lb, fnId('sleeper'), '200')).status, 200)
    assert.equal((await request(lb.url('/t/demo/hello'))).status, 200)
    for (let i = 0; i < 5; i++) assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200)
    const families = [
      [lb, 'counter', ['fn_api_request_count', 'fn_api_response_count', 'fn_calls', 'fn_completed', 'fn_canceled', 'fn_timeouts', 'fn_errors',
        'fn_server_busy', 'fn_lb_placer_rp_error_count', 'fn_lb_placer_client_timeout_count', 'fn_lb_placer_rp_empty_count', 'fn_lb_placer_client_cancelled_count',
        'fn_lb_placer_timeout_count', 'fn_lb_placer_placed_ok_count', 'fn_lb_placer_placed_error_count', 'fn_lb_placer_placed_abort_count',
        'fn_lb_placer_retry_busy_count', 'fn_lb_placer_retry_error_count', 'fn_process_cpu_seconds_total']],
      [lb, 'gauge', ['fn_queued', 'fn_running', 'fn_process_resident_memory_bytes']],
      [lb, 'histogram', ['fn_api_latency', 'fn_lb_call_latency', 'fn_lb_runner_sched_latency', 'fn_lb_runner_exec_latency',
        'fn_lb_placer_attempt_count', 'fn_lb_placer_latency']],
      [runner, 'counter', ['fn_calls', 'fn_completed', 'fn_errors']],
      [runner, 'gauge', ['fn_util_cpu_used', 'fn_util_cpu_avail', 'fn_util_mem_used', 'fn_util_mem_avail', 'fn_container_wait_total',
        'fn_container_start_total', 'fn_container_idle_total', 'fn_container_busy_total', 'fn_process_start_time_seconds']],
      [runner, 'histogram', ['fn_container_wait_duration_seconds', 'fn_container_start_duration_seconds', 'fn_container_idle_duration_seconds',
        'fn_container_busy_duration_seconds', 'fn_container_uds_init_latency', 'fn_runner_container_busy_seconds']],
    ]
    const after = { lb: await lb.metrics(), runner: await runner.metrics() }
    for (const [node, type, names] of families) {
      const text = (await request(node.url('/metrics'))).text
      for (const name of names) assert.ok(text.includes(`# TYPE ${name} ${type}\n`), `${name} is no ${type} of the ${node.name}`)
    }
    const grown = (who, name) => sum(after[who], name) - sum(before[who], name)
    const took = (value, unit) => assert.ok(value >= 200 * unit && value < 5000 * unit, `${value}`)
    for (const name of ['fn_api_latency_sum', 'fn_lb_runner_exec_latency_sum']) took(grown('lb', name), 1)
    took(grown('runner', 'fn_container_busy_duration_seconds_sum'), 1) // milliseconds, whatever its name says
    took(grown('runner', 'fn_runner_container_busy_seconds_sum'), 0.001)
    assert.ok(grown('lb', 'fn_lb_call_latency_sum') < 200, 'without the execution')
    for (const name of ['sched', 'exec']) assert.equal(grown('lb', `fn_lb_runner_${name}_latency_count`), 7, `${name}, also of hot calls`)
    assert.ok(sum(after.runner, 'fn_util_mem_avail') > 1 << 20, 'bytes')
    assert.ok(Math.abs(sum(after.lb, 'fn_process_resident_memory_bytes') / 1024 - lb.rssKiB()) < 4096, 'bytes')
    assert.ok(Math.abs(sum(after.lb, 'fn_process_start_time_seconds') - Date.now() / 1000) < 600, 'seconds')
  })

  it('keeps its books: received = sum of outcomes + in flight', async () => {
    await until('balanced', async () => {
      const m = await lb.metrics()
      let outcomes = 0
      for (const [key, value] of m) if (key.startsWith('fn_call_outcomes')) outcomes += value
      return (m.get('fn_calls') ?? 0) === outcomes
    })
  })
})

describe('driver process: what cannot be run', () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'fnd-e2e-hidden-'))
  let cluster
  before(async () => {
    writeFileSync(path.join(dir, 'noprogram'), 'neither a program nor a script', { mode: 0o755 })
    cluster = await startCluster({
      functions: { absent: { image: 'some/absent:1' }, noprogram: { image: 'some/noprogram:1' } },
      runnerOptions: { driver: `driver: { use: process, root: ${dir} }` },
    })
  })
  after(async () => {
    await cluster?.stop()
    rmSync(dir, { recursive: true })
  })

  for (const name of ['absent', 'noprogram']) {
    it(`tells the log the path of ${name}, not the caller`, async () => {
      const answer = await invoke(cluster.lb, fnId(name), 'x')
      assert.ok(answer.status >= 400, `status ${answer.status}`)
      assert.match(answer.text, name === 'absent' ? /'some\/absent:1'/ : /could not be started/)
      assert.doesNotMatch(answer.text, /hidden/)
      await until(`the runner's log has the path of ${name}`, () => cluster.runners[0].log.includes(path.join(dir, name)))
    })
  }
})

describe('CORS', () => {
  const page = { Origin: 'http://page.example' }
  let cluster
  before(async () => {
    cluster = await startCluster({
      functions: { hello: { triggers: ['/hello'] } },
      lbOptions: { env: { FN_API_CORS_ORIGINS: 'http://page.example, https://other.example', FN_API_CORS_HEADERS: 'Content-Type, X-Mine' } },
    })
  })
  after(() => cluster?.stop())

  it('answers a preflight itself', async () => {
    const answer = await request(cluster.lb.url(`/invoke/${fnId('hello')}`), { method: 'OPTIONS', headers: page })
    assert.equal(answer.status, 200)
    assert.equal(answer.text, '')
    assert.equal(answer.headers['access-control-allow-origin'], 'http://page.example')
    assert.equal(answer.headers['access-control-allow-methods'], 'GET,POST,PUT,HEAD,DELETE')
    assert.equal(answer.headers['access-control-allow-headers'], 'Content-Type,X-Mine')
    assert.equal(answer.headers['access-control-max-age'], '43200')
    assert.equal(answer.rawHeaders.filter((h) => h === 'Vary').length, 3)
    assert.equal((await request(cluster.lb.url('/version'), { method: 'OPTIONS' })).status, 405, 'without an origin')
  })

  it('lets pages of the list read answers and errors, and refuses others', async () => {
    for (const [fn, status] of [['hello', 200], ['absent', 404]]) {
      const answer = await invoke(cluster.lb, fnId(fn), '{"name":"x"}', page)
      assert.equal(answer.status, status)
      assert.equal(answer.headers['access-control-allow-origin'], 'http://page.example')
      assert.equal(answer.headers.vary, 'Origin')
    }
    const refused = await invoke(cluster.lb, fnId('hello'), 'x', { Origin: 'http://evil.example' })
    assert.equal(refused.status, 403)
    assert.equal(refused.text, '')
    assert.equal(refused.headers['fn-call-id'], undefined)
    const plain = await invoke(cluster.lb, fnId('hello'), 'x')
    assert.equal(plain.status, 200)
    assert.equal(plain.headers.vary, undefined)
  })
})

describe('processors_awake', () => {
  const device = '/dev/cpu_dma_latency'
  const holds = (fnd) => readdirSync(`/proc/${fnd.pid}/fd`).some((fd) => {
    try {
      return readlinkSync(`/proc/${fnd.pid}/fd/${fd}`) === device
    } catch {
      return false // closed meanwhile
    }
  })

  const start = (port, wish) => Fnd.start('lb', port, `
node: lb
${wish}
http: { listen: "127.0.0.1:${port}", requests_per_connection_max: 1000000 }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { pool: { use: static, runners: ["127.0.0.1:1"] } }
`)
  const busy = async (lb, done) => {
    let over = false
    const ask = async () => {
      while (!over) await request(lb.url('/version'))
    }
    const callers = [ask(), ask(), ask()]
    try {
      await done()
    } finally {
      over = true
      await Promise.all(callers)
    }
  }

  it('holds the device while the node is busy, and no longer; without it the log says so', async () => {
    const port = await freePort()
    const lb = await start(port, 'processors_awake: true')
    assert.ok(!holds(lb))
    await busy(lb, async () => {
      if (existsSync(device)) {
        await until('it is held', () => holds(lb), 30_000)
        assert.equal(await lb.metric('fn_node_awake'), 1)
      } else {
        await until('the log says why not', () => lb.log.includes('processors sleep as they do'), 30_000)
      }
    })
    await until('it is let go', () => !holds(lb), 30_000)
    await lb.stop()
  })

  it('is done by itself on virtual machines only, and not at all when told so', async () => {
    const driver = '/sys/devices/system/cpu/cpuidle/current_driver'
    const halts = existsSync(driver) && readFileSync(driver, 'utf8') === 'haltpoll\n'
    for (const [wish, awake] of [['', halts && existsSync(device)], ['processors_awake: false', false]]) {
      const port = await freePort()
      const lb = await start(port, wish)
      await busy(lb, async () => {
        if (awake) await until('it is held', () => holds(lb), 30_000)
        // Lanes are looked at just before the processors are.
        else await until('the watchdog was there', async () => (await request(lb.url('/metrics'))).text.includes('fn_lane_lost '), 30_000)
        assert.equal(holds(lb), awake)
        assert.equal(await lb.metric('fn_node_awake'), Number(awake))
      })
      await lb.stop()
    }
  })
})

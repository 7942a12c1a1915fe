// Nodes that die, hang and come back; connections that are cut at every stage. The ledger proves that
// no call ran twice and that a call said to be not executed was not (F01 to F20, F93, F103).
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import net from 'node:net'
import { Ledger, fnId, startCluster, startLb, startRunner } from './lib/cluster.mjs'
import { invoke, raw, request } from './lib/http.mjs'
import { build, freePort, tempDir, until } from './lib/node.mjs'
import { Proxy } from './lib/proxy.mjs'

const FLIPS = 24 // in each direction of a call

const withLedger = () => {
  const ledger = new Ledger()
  return { ledger, functions: { ledger: { config: { LEDGER_FILE: ledger.file } }, hello: {}, big: {}, sleeper: {}, misbehave: { timeout: 20 } } }
}

describe('a runner that dies', () => {
  it('F01 before the connection exists: the other one takes the call', async () => {
    const { ledger, functions } = withLedger()
    const runner = await startRunner()
    const lb = await startLb({ addresses: [`127.0.0.1:${await freePort()}`, `127.0.0.1:${runner.grpcPort}`], functions })
    await invoke(lb, fnId('ledger'), '0 warm')
    for (let i = 0; i < 20; i++) {
      const begin = Date.now()
      const answer = await invoke(lb, fnId('ledger'), `0 ${i}`)
      assert.equal(answer.status, 200, answer.text)
      assert.ok(Date.now() - begin < 1000)
      ledger.check(answer, `call ${i}`)
    }
    await lb.stop()
    await runner.stop()
  })

  it('F04 in mid call: unknown, at once, never sent again; used again within a second of its return', async () => {
    const { ledger, functions } = withLedger()
    const runners = [await startRunner(), await startRunner()]
    const lb = await startLb({ addresses: runners.map((r) => `127.0.0.1:${r.grpcPort}`), functions })
    await Promise.all([1, 2, 3, 4].map(() => invoke(lb, fnId('ledger'), '200 warm')))
    const order = []
    const calls = Array.from({ length: 8 }, async (_, i) => {
      const answer = await invoke(lb, fnId('ledger'), `3000 ${i}`)
      order.push(answer.status)
      return answer
    })
    await until('all run', () => [...ledger.read().values()].filter((c) => c.starts > c.ends).length >= 8)
    await runners[0].kill()
    const first = await Promise.race(calls)
    assert.equal(first.status, 502)
    assert.equal(first.headers['fn-outcome'], 'unknown')
    const answers = await Promise.all(calls)
    assert.deepEqual(order, [...order].sort().reverse(), 'no error waits until the calls of the other runner end')
    const seen = ledger.read()
    for (const answer of answers) ledger.check(answer, 'F04', seen)
    assert.ok(answers.some((a) => a.status === 200), 'the other runner was not disturbed')
    assert.equal((await invoke(lb, fnId('ledger'), '0 next')).status, 200)

    await runners[0].start()
    const back = Date.now()
    await until('the returned runner is used', async () => {
      await Promise.all([1, 2, 3, 4].map(() => invoke(lb, fnId('ledger'), '20 again')))
      return (await runners[0].metric('fn_calls')) > 0
    }, 5000)
    assert.ok(Date.now() - back < 2500)
    await lb.stop()
    await Promise.all(runners.map((r) => r.stop()))
  })

  it('F05 in mid request body: unknown, at once, and nothing of it ran twice', async () => {
    const { ledger, functions } = withLedger()
    const runner = await startRunner()
    const proxy = await Proxy.start({ port: runner.grpcPort, host: '127.0.0.1' })
    const lb = await startLb({ addresses: [`127.0.0.1:${proxy.port}`], functions, lb: 'placement_timeout: 3s' })
    assert.equal((await invoke(lb, fnId('ledger'), '0 warm')).status, 200)
    const passed = proxy.passed.client
    proxy.fault = { kind: 'stall', from: 'client', after: 200_000 }
    const call = invoke(lb, fnId('ledger'), `0 ${'x'.repeat(4_000_000)}`)
    await until('a part of the body has passed', () => proxy.fault.hit)
    assert.ok(proxy.passed.client - passed < 4_000_000)
    const killed = Date.now()
    await runner.kill()
    proxy.reset()
    const answer = await call
    assert.ok(Date.now() - killed < 2000, 'the error is not late')
    assert.equal(answer.status, 502, answer.text)
    assert.equal(answer.headers['fn-outcome'], 'unknown')
    ledger.check(answer, 'F05')
    proxy.fault = null
    await runner.start()
    await until('the returned runner is used', async () => (await invoke(lb, fnId('ledger'), '0 next')).status === 200)
    for (const [id, entry] of ledger.read()) assert.ok(entry.starts <= 1, id)
    await lb.stop()
    await proxy.stop()
    await runner.stop()
  })

  it('F08 between pieces of the answer: the client sees a cut answer', async () => {
    const { functions } = withLedger()
    const cluster = await startCluster({ functions, lbOptions: { lb: 'response_max: 0' }, runnerOptions: { runner: 'max_response_size: 0' } })
    await invoke(cluster.lb, fnId('big'), '10')
    const answer = raw(cluster.lb.port, `POST /invoke/${fnId('big')} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n5000000000`, { waitMs: 10_000 })
    await until('it streams', async () => (await cluster.runners[0].metric('fn_running')) >= 1)
    await new Promise((r) => setTimeout(r, 200))
    await cluster.runners[0].kill()
    const got = await answer
    assert.ok(got.closed)
    assert.ok(got.status === 502 || !got.text.endsWith('0\r\n\r\n'), 'no end of the chunked body')
    await cluster.stop()
  })

  it('F12 hangs: its calls end as unknown, the others go on, it comes back after SIGCONT', async () => {
    const { ledger, functions } = withLedger()
    const runners = [await startRunner(), await startRunner()]
    const lb = await startLb({ addresses: runners.map((r) => `127.0.0.1:${r.grpcPort}`), functions })
    await Promise.all([1, 2, 3, 4].map(() => invoke(lb, fnId('ledger'), '200 warm')))
    const calls = Array.from({ length: 6 }, (_, i) => invoke(lb, fnId('ledger'), `1000 ${i}`))
    await until('all run', () => [...ledger.read().values()].filter((c) => c.starts > c.ends).length >= 6)
    runners[0].signal('SIGSTOP')
    const begin = Date.now()
    const answers = await Promise.all(calls)
    assert.ok(Date.now() - begin < 7000, `in-flight calls ended after ${Date.now() - begin} ms`)
    assert.ok(answers.every((a) => [200, 502, 504].includes(a.status)))
    assert.equal((await invoke(lb, fnId('ledger'), '0 next')).status, 200)
    runners[0].signal('SIGCONT')
    await until('the runner is idle again', async () => (await runners[0].metric('fn_running').catch(() => 1)) === 0, 15_000)
    for (const answer of answers) ledger.check(answer, 'F12')
    await lb.stop()
    await Promise.all(runners.map((r) => r.stop()))
  })
})

describe('connections that are cut', () => {
  it('F02 to F10, F103: at many offsets in both directions, no call runs twice or vanishes', async () => {
    const { ledger, functions } = withLedger()
    const runner = await startRunner()
    const proxy = await Proxy.start({ port: runner.grpcPort, host: '127.0.0.1' })
    const lb = await startLb({ addresses: [`127.0.0.1:${proxy.port}`], functions, lb: 'placement_timeout: 3s' })
    const one = (body) => invoke(lb, fnId('ledger'), body)
    assert.equal((await one('0 warm')).status, 200)
    const base = { ...proxy.passed }
    assert.equal((await one('0 measured')).status, 200)
    const cost = { client: proxy.passed.client - base.client, server: proxy.passed.server - base.server }
    const outcomes = new Map()
    for (const from of ['client', 'server']) {
      const step = Math.max(1, Math.floor(cost[from] / 40))
      for (let after = 0; after <= cost[from] + step; after += step) {
        proxy.fault = null
        await until('the link is back', async () => (await one('0 probe')).status === 200, 10_000)
        const socket = [...proxy.sockets].find((s) => (from === 'client' ? s.localPort === proxy.port : s.remotePort === runner.grpcPort))
        assert.ok(socket, 'a connection to cut')
        proxy.fault = { kind: 'cut', from, after: socket.bytesPassed + after }
        const answer = await one(`0 cut-${from}-${after}`)
        proxy.fault = null
        const outcome = answer.headers['fn-outcome']
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
        assert.ok([200, 502, 503, 504].includes(answer.status), `${answer.status} ${answer.text}`)
        assert.ok(outcome, 'an outcome is always named')
        ledger.check(answer, `${from} ${after}`)
      }
    }
    assert.ok((outcomes.get('unknown') ?? 0) > 10, `the cuts hit: ${JSON.stringify([...outcomes])}`)
    await lb.stop()
    await proxy.stop()
    await runner.stop()
  })

  it('a runner behind a stalled connection is left within its keepalive', async () => {
    const { ledger, functions } = withLedger()
    const runners = [await startRunner(), await startRunner()]
    const proxy = await Proxy.start({ port: runners[0].grpcPort, host: '127.0.0.1' })
    const lb = await startLb({ addresses: [`127.0.0.1:${proxy.port}`, `127.0.0.1:${runners[1].grpcPort}`], functions })
    const calls = []
    let there = 0
    while (there < 1 || calls.length === there) {
      calls.push(invoke(lb, fnId('ledger'), `5000 ${calls.length}`))
      await until('it runs', () => [...ledger.read().values()].filter((c) => c.starts > c.ends).length === calls.length)
      there = await runners[0].metric('fn_runner_calls_in_flight')
      assert.ok(calls.length < 30, `${there} of ${calls.length} calls are there`)
    }
    proxy.fault = { kind: 'stall', from: 'server', after: 0 }
    const begin = Date.now()
    const answers = await Promise.all(calls)
    assert.ok(Date.now() - begin < 12_000, 'nobody waits for the time limit of the function')
    for (const answer of answers) ledger.check(answer, 'stall')
    assert.deepEqual(answers.map((a) => a.headers['fn-outcome']).sort(), [...Array(calls.length - there).fill('ok'), ...Array(there).fill('unknown')])
    assert.equal((await invoke(lb, fnId('ledger'), '0 after')).status, 200)
    await lb.stop()
    await proxy.stop()
    await Promise.all(runners.map((r) => r.stop()))
  })
})

describe('bytes that are flipped', () => {
  const secure = (dir, name) => `tls: { node: { cert: ${dir}/${name}.pem, key: ${dir}/${name}.key, ca: ${dir}/ca.pem } }`
  // check(ledger, answer, what): what must be true of each answer.
  async function flipMany({ runnerOptions = {}, lbMore = 'grpc: { reconnect_max: 100ms }', check }) {
    const ledger = new Ledger()
    const functions = { ledger: { timeout: 2, config: { LEDGER_FILE: ledger.file } } }
    const runner = await startRunner(runnerOptions)
    const proxy = await Proxy.start({ port: runner.grpcPort, host: '127.0.0.1' })
    const lb = await startLb({ addresses: [`127.0.0.1:${proxy.port}`], functions, lb: 'placement_timeout: 2s\nexecution_headroom: 1s', more: lbMore })
    const one = (body) => invoke(lb, fnId('ledger'), body)
    await until('the runner is connected', async () => (await one('0 warm')).status === 200)
    const base = { ...proxy.passed }
    await one('0 measured')
    const cost = { client: proxy.passed.client - base.client, server: proxy.passed.server - base.server }
    let broken = 0
    for (const from of ['client', 'server']) {
      for (let i = 0; i < FLIPS; i++) {
        proxy.fault = null
        await until('the link is back', async () => (await one('0 probe')).status === 200, 20_000)
        const socket = [...proxy.sockets].find((s) => (from === 'client' ? s.localPort === proxy.port : s.remotePort === runner.grpcPort))
        proxy.fault = { kind: 'flip', from, after: socket.bytesPassed + Math.floor(i * cost[from] / FLIPS), bit: 1 << i % 8 }
        const answer = await one('0 flipped')
        assert.ok(answer.headers['fn-outcome'], `an outcome is always named: ${answer.status} ${answer.text}`)
        broken += answer.status !== 200
        check(ledger, answer, `${from} ${i}: ${answer.status} ${answer.text}`)
      }
    }
    assert.deepEqual([lb.exit, runner.exit], [null, null])
    await lb.stop()
    await proxy.stop()
    await runner.stop()
    return broken
  }

  it('F104 under TLS: the connection ends, its calls are told so, and no answer is another one', async () => {
    const dir = path.join(tempDir(), 'certs')
    execFileSync(path.join(build, 'fnd'), ['certs', 'demo', dir])
    const broken = await flipMany({ runnerOptions: { grpcMore: 'tls: node', more: secure(dir, 'runner-1') },
      lbMore: `grpc: { tls: node, reconnect_max: 100ms }\n${secure(dir, 'lb-1')}`, check: (ledger, answer, what) => ledger.check(answer, what) })
    assert.ok(broken > FLIPS, `${broken} calls were broken`)
  })

  it('F104 without TLS: whatever is read, every call ends, once, and both nodes go on', async () => {
    await flipMany({ check: (ledger, answer, what) => {
      const entry = ledger.read().get(answer.headers['fn-call-id'])
      assert.ok((entry?.starts ?? 0) <= 1, what)
      if (answer.headers['fn-outcome'] === 'not-executed') assert.equal(entry, undefined, what)
    } })
  })
})

describe('full runners', () => {
  it('a full runner says so at once, the other takes the calls, and waiting ones are not hurried', async () => {
    const { ledger, functions } = withLedger()
    const small = { runner: 'memory_total: 512MiB\nqueue_wait: 0s' }
    const runners = [await startRunner(small), await startRunner(small)]
    const lb = await startLb({ addresses: runners.map((r) => `127.0.0.1:${r.grpcPort}`), functions, placer: '{ use: ch }' })
    const answers = await Promise.all(Array.from({ length: 24 }, (_, i) => invoke(lb, fnId('ledger'), `300 ${i}`)))
    const seen = ledger.read()
    for (const answer of answers) {
      assert.equal(answer.status, 200, answer.text)
      ledger.check(answer, 'full', seen)
    }
    for (const r of runners) assert.ok((await r.metric('fn_calls')) > 0, 'both runners worked')
    await lb.stop()
    await Promise.all(runners.map((r) => r.stop()))
  })

  it('no runner at all: 503 with Retry-After at the placement deadline', async () => {
    const { functions } = withLedger()
    const lb = await startLb({ addresses: [`127.0.0.1:${await freePort()}`], functions, lb: 'placement_timeout: 1s' })
    const answer = await invoke(lb, fnId('hello'))
    assert.equal(answer.status, 503)
    assert.ok(Number(answer.headers['retry-after']) > 0)
    assert.equal(answer.headers['fn-outcome'], 'not-executed')
    assert.match(answer.text, /LB30[123]/)
    await lb.stop()
  })
})

describe('a load balancer that ends', () => {
  it('F15 killed: the runner lets running calls end and frees its slots', async () => {
    const { ledger, functions } = withLedger()
    const cluster = await startCluster({ functions })
    await invoke(cluster.lb, fnId('ledger'), '0 warm')
    const calls = Array.from({ length: 3 }, (_, i) => invoke(cluster.lb, fnId('ledger'), `500 ${i}`).catch(() => 'closed'))
    await until('they run', () => [...ledger.read().values()].filter((c) => c.starts > c.ends).length >= 3)
    await cluster.lb.kill()
    assert.deepEqual(await Promise.all(calls), ['closed', 'closed', 'closed'])
    await until('slots are free', async () => (await cluster.runners[0].metric('fn_running')) === 0, 10_000)
    for (const [id, entry] of ledger.read()) assert.ok(entry.starts <= 1, id)
    await cluster.runners[0].stop()
  })

  it('F16 and F11 stopped: running calls end, exit status 0', async () => {
    const { functions } = withLedger()
    const cluster = await startCluster({ functions })
    await invoke(cluster.lb, fnId('sleeper'), '0')
    const calls = [1, 2, 3].map(() => invoke(cluster.lb, fnId('sleeper'), '700'))
    await until('they run', async () => (await cluster.runners[0].metric('fn_running')) >= 3)
    const runnerEnd = cluster.runners[0].stop()
    const lbEnd = cluster.lb.stop()
    for (const answer of await Promise.all(calls)) assert.equal(answer.status, 200, answer.text)
    assert.equal((await lbEnd).code, 0, cluster.lb.log)
    assert.equal((await runnerEnd).code, 0, cluster.runners[0].log)
  })

  it('F16 at its drain deadline or a second signal: what still runs is answered and told', async () => {
    const { functions } = withLedger()
    for (const signals of [1, 2]) {
      const runner = await startRunner()
      const lb = await startLb({ addresses: [runner.address], functions, more: `drain_timeout: ${signals === 1 ? '500ms' : '60s'}` })
      await invoke(lb, fnId('sleeper'), '0')
      const call = invoke(lb, fnId('sleeper'), '20000')
      await until('it runs', async () => (await runner.metric('fn_running')) === 1)
      lb.signal('SIGTERM')
      await until('it drains', () => lb.log.includes('draining: new calls are refused'))
      if (signals === 2) lb.signal('SIGTERM')
      const answer = await call
      assert.deepEqual([answer.status, answer.headers['fn-outcome']], [502, 'unknown'], answer.text)
      assert.match(answer.text, /LB313 this load balancer stopped before the call ended/)
      assert.deepEqual(await lb.ended, { code: signals === 1 ? 0 : 143, signal: null }, lb.log)
      assert.match(lb.log, new RegExp(`msg="call ended" call_id=${answer.headers['fn-call-id']} outcome=unknown`))
      assert.match(lb.log, signals === 1 ? /the drain deadline passed; what still runs is cut" calls=1/ : /a second signal: ending at once" calls=1/)
      await runner.stop()
    }
  })

  it('F16 stopped under load: whoever sent a request has its answer, and is told not to send another', async () => {
    const cluster = await startCluster({ functions: { hello: {} } })
    await Promise.all(Array.from({ length: 8 }, () => invoke(cluster.lb, fnId('hello'))))
    const request = `POST /invoke/${fnId('hello')} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}`
    let answered = 0
    // One connection that always has a request under way, until it is told that it ends. -> what went wrong
    const client = () => new Promise((resolve) => {
      const socket = net.connect(cluster.lb.port, '127.0.0.1', () => socket.write(request))
      let text = ''
      socket.on('data', (data) => {
        text += data
        const head = text.indexOf('\r\n\r\n')
        if (head < 0 || text.length < head + 4 + Number(/content-length: (\d+)/i.exec(text)[1])) return
        const [answer, last] = [text, /^connection: close\r$/im.test(text.slice(0, head + 2))]
        text = ''
        answered++
        if (!answer.startsWith('HTTP/1.1 200 ')) resolve(answer)
        else if (last) resolve(null)
        else socket.write(request)
      })
      socket.on('error', (error) => resolve(`${error.code} after ${text.length} bytes of an answer`))
      socket.on('close', () => resolve('closed with a request under way'))
    })
    const clients = Array.from({ length: 16 }, client)
    await until('they call', () => answered > 500)
    const stopped = cluster.lb.stop()
    for (const failure of await Promise.all(clients)) assert.equal(failure, null)
    assert.equal((await stopped).code, 0, cluster.lb.log)
    await cluster.runners[0].stop()
  })
})

describe('clients', () => {
  it('F19 that stop reading are cut off and their call is cancelled', async () => {
    const { functions } = withLedger()
    const cluster = await startCluster({ functions, lbOptions: { http: 'write_stall: 1s', lb: 'response_max: 0' }, runnerOptions: { runner: 'max_response_size: 0' } })
    const socket = net.connect(cluster.lb.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.pause()
    socket.write(`POST /invoke/${fnId('big')} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n2000000000`)
    await until('it streams', async () => (await cluster.runners[0].metric('fn_running')) >= 1)
    await until('it is cancelled', async () => (await cluster.lb.metric('fn_running')) === 0, 15_000)
    assert.ok(cluster.lb.rssKiB() < 64 * 1024)
    socket.destroy()
    await cluster.stop()
  })

  it('F93 nine tenths of the descriptors in use: those that are in are served, no busy loop, it recovers', async (t) => {
    const { functions } = withLedger()
    const cluster = await startCluster({ functions, lbOptions: { http: 'connections_per_ip_max: 10000' } })
    const { lb } = cluster
    t.after(() => cluster.stop())
    const first = await invoke(lb, fnId('hello'))
    assert.equal(first.status, 200)
    execFileSync('prlimit', ['--pid', String(lb.pid), '--nofile=300:300'])
    const answers = []
    const sockets = []
    t.after(() => sockets.forEach((s) => s.destroy()))
    await Promise.all(Array.from({ length: 400 }, () => new Promise((resolve) => {
      const s = net.connect(lb.port, '127.0.0.1', () => resolve())
      sockets.push(s)
      s.on('data', (data) => answers.push(data.toString()))
      s.on('error', () => resolve())
    })))
    await until('somebody is turned away', () => answers.length > 0)
    assert.match(answers[0], /^HTTP\/1\.1 503 [^]*Retry-After: [^]*HTTP116 this node is out of descriptors/)
    const open = readdirSync(`/proc/${lb.pid}/fd`).length
    assert.ok(open < 280, `${open} of 300 descriptors are in use`)
    const cpu = () => readFileSync(`/proc/${lb.pid}/stat`, 'utf8').split(' ').slice(13, 15).reduce((a, b) => a + Number(b), 0)
    const before = cpu()
    // Beside the hungry ones a client that is connected goes on.
    const inside = sockets[0]
    const answer = new Promise((resolve) => inside.once('data', (data) => resolve(data.toString())))
    inside.write(`POST /invoke/${fnId('hello')} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}`)
    assert.match(await answer, /^HTTP\/1\.1 200 /)
    await new Promise((resolve) => setTimeout(resolve, 1000))
    assert.ok(cpu() - before <= 20, `${cpu() - before} of 100 ticks`)
    for (const s of sockets) s.destroy()
    await until('it serves', async () => (await request(lb.url(`/invoke/${fnId('hello')}`), { method: 'POST', body: '{}', keepAlive: false }).catch(() => null))?.status === 200)
  })
})

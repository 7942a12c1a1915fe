// A runner that is asked to end while calls run: at its drain deadline, and at a second signal.
import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, readdirSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { describe, it } from 'node:test'
import { Ledger, fnId, startCluster, startLb, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { build, tempDir, until } from './lib/node.mjs'

const WITHIN_MS = 30_000
const DETACHED = { 'Fn-Invoke-Type': 'detached' }

const processes = (program) => readdirSync('/proc').filter((pid) => {
  try { return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0] === program } catch { return false }
})

describe('a runner that is cut', () => {
  for (const [what, { timeout, signals, code, line }] of Object.entries({
    'F11 at its drain deadline': { timeout: '500ms', signals: 1, code: 0, line: /the drain deadline passed; what still runs is cut" calls=4\n/ },
    'F11 at a second signal': { timeout: '60s', signals: 2, code: 143, line: /a second signal: ending at once" calls=4\n/ },
  })) it(`${what}: its calls are unknown, it says how many and which, and nothing is left of them`, async () => {
    const dir = tempDir()
    const program = path.join(dir, 'ledger')
    copyFileSync(path.join(build, 'functions/ledger'), program)
    const iofs = tempDir()
    const options = { iofs, driver: `driver: { use: process, root: ${dir} }`, runner: `owner: cut-${process.pid}` }
    const ledger = new Ledger()
    const runner = await startRunner({ ...options, more: `drain_timeout: ${timeout}` })
    const lb = await startLb({ addresses: [runner.address], functions: { ledger: { config: { LEDGER_FILE: ledger.file } } }, more: 'drain_timeout: 10s' })
    const detached = [await invoke(lb, fnId('ledger'), '20000 d', DETACHED), await invoke(lb, fnId('ledger'), '20000 e', DETACHED)]
    for (const answer of detached) assert.equal(answer.status, 202, answer.text)
    const calls = [1, 2].map((i) => invoke(lb, fnId('ledger'), `20000 ${i}`))
    await until('all run', () => [...ledger.read().values()].filter((c) => c.starts > c.ends).length === 4)
    runner.signal('SIGTERM')
    await until('it drains', () => runner.log.includes('draining: new calls are refused'))
    if (signals === 2) runner.signal('SIGTERM')
    const answers = await Promise.all(calls)
    for (const answer of answers) {
      assert.deepEqual([answer.status, answer.headers['fn-outcome']], [502, 'unknown'], answer.text)
      assert.match(answer.text, /runner stopped before the function had answered/)
    }
    assert.deepEqual(await runner.ended, { code, signal: null }, runner.log)
    assert.match(runner.log, line)
    for (const { headers } of [...answers, ...detached]) {
      const id = headers['fn-call-id']
      assert.match(runner.log, new RegExp(`msg="call failed" call_id=${id} .*app_id=\\S+ fn_id=${fnId('ledger')} .*outcome=unknown`))
      await until('the load balancer names it too', () => new RegExp(`msg="call ended" call_id=${id} outcome=unknown`).test(lb.log))
      assert.deepEqual([ledger.read().get(id).starts, ledger.read().get(id).ends], [1, 0], 'it ran once')
    }
    assert.equal(await lb.metric('fn_detached_broken'), 2)
    // What ends at once leaves the rest to whoever starts next.
    const next = signals === 2 ? await startRunner(options) : null
    await until('their functions are gone', () => processes(program).length === 0, WITHIN_MS)
    await until('their directories are gone', () => readdirSync(iofs).length === (next ? 1 : 0), WITHIN_MS)
    await next?.stop()
    assert.equal((await lb.stop()).code, 0)
  })
})

describe('a runner whose calls have ended', () => {
  const BYTES = 20_000_000 // more than sockets and windows between runner and client take

  // Asks for BYTES and reads on only when told; resolves to what came behind the head when it is all or the socket closed.
  const slowClient = (port) => {
    const socket = net.connect(port, '127.0.0.1')
    let got = 0
    const body = new Promise((resolve) => {
      let head = ''
      socket.on('data', (data) => {
        const text = head.includes('\r\n\r\n') ? '' : data.toString('latin1')
        got += text ? (head + text).split('\r\n\r\n').slice(1).join('').length : data.length
        head += text
        if (got >= BYTES) resolve(got)
      })
      socket.on('close', () => resolve(got))
      socket.on('error', () => {})
    })
    socket.pause()
    socket.write(`POST /invoke/${fnId('big')} HTTP/1.1\r\nHost: x\r\nContent-Length: ${String(BYTES).length}\r\n\r\n${BYTES}`)
    return { socket, body }
  }
  const start = async (more = '') => {
    const cluster = await startCluster({ functions: { big: {} }, lbOptions: { lb: 'response_max: 0' }, runnerOptions: { runner: 'max_response_size: 0', grpcMore: 'send_queue: 16MiB', more } })
    const client = slowClient(cluster.lb.port)
    const [runner] = cluster.runners
    await until('its call has ended', async () => (await runner.metric('fn_runner_calls_received_total')) === 1 && (await runner.metric('fn_runner_calls_in_flight')) === 0)
    runner.signal('SIGTERM')
    return { cluster, client, runner }
  }

  it('waits for a client that reads its answer slowly', async () => {
    const { cluster, client, runner } = await start()
    await Promise.race([runner.ended, new Promise((resolve) => setTimeout(resolve, 2000))])
    client.socket.resume()
    assert.equal(await client.body, BYTES)
    client.socket.destroy()
    assert.deepEqual(await runner.ended, { code: 0, signal: null }, runner.log)
    assert.match(runner.log, /drained: no work is left/)
    assert.doesNotMatch(cluster.lb.log, /outcome=unknown/)
    await cluster.lb.stop()
  })

  it('waits no longer than until its drain deadline', async () => {
    const { cluster, client, runner } = await start('drain_timeout: 500ms')
    assert.deepEqual(await runner.ended, { code: 0, signal: null }, runner.log)
    assert.match(runner.log, /the drain deadline passed; what clients have not read of their answers is cut/)
    client.socket.resume()
    assert.ok(await client.body < BYTES)
    client.socket.destroy()
    await cluster.lb.stop()
  })
})

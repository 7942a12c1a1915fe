// Faults of a real container engine, which belongs to this file alone: not there, hung, killed, slow, back
// again (F39, F40, F41, F44). The ledger proves that no call ran twice and that every one had its answer.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { Ledger, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { driver } from './lib/docker.mjs'
import { impossible, startEngine } from './lib/engines.mjs'
import { invoke } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'
import { Proxy } from './lib/proxy.mjs'

const why = impossible()
const skip = why || false
const COLD = [...'abcdefghijkl'].map((c) => `cold-${c}`) // functions that have no container
const RECOVERY_MS = 30_000
const KEEP = ['--live-restore'] // containers outlive the engine

const threads = (node) => readdirSync(`/proc/${node.pid}/task`).length
const descriptors = (node) => readdirSync(`/proc/${node.pid}/fd`).length
const cpuTicks = (node) => readFileSync(`/proc/${node.pid}/stat`, 'utf8').split(' ').slice(13, 15).reduce((a, b) => a + Number(b), 0)

describe('a container engine of its own that fails', { skip }, () => {
  const ledger = new Ledger()
  let engine
  let runner
  let lb
  let owners = 0

  const functions = () => {
    const one = { image: 'fnd/ledger:latest', memory: 64, config: { LEDGER_ADDR: engine.ledgerAddress } }
    const all = { hot: { ...one }, other: { ...one } }
    for (const name of COLD) all[name] = { ...one }
    return all
  }
  const owner = () => `engine-faults-${owners}`
  const containers = (...filters) => engine.docker('ps', '-aq', '--filter', `label=io.fnd.owner=${owner()}`, ...filters).split('\n').filter(Boolean)
  const call = async (name, body) => {
    const begin = Date.now()
    return Object.assign(await invoke(lb, fnId(name), body), { ms: Date.now() - begin })
  }

  // socket: of a proxy in front of the engine.
  async function start({ socket = engine.socket, runner: section = 'freeze_idle: never', options = '', more, placement = '2s' } = {}) {
    owners++
    runner = await startRunner({ driver: driver(socket, options), runner: `owner: ${owner()}\n${section}`, more })
    lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions: functions(), lb: `placement_timeout: ${placement}` })
  }

  // Lines of the ledger come over a network: those of a complete answer may still be on their way.
  async function checkLedger(answers, what) {
    const ran = answers.filter((a) => a.status === 200).map((a) => a.headers['fn-call-id'])
    await until('the ledger is complete', () => {
      const calls = ledger.read()
      return ran.every((id) => calls.get(id)?.ends)
    })
    for (const a of answers) {
      assert.ok(a.headers['fn-outcome'], `${what}: ${a.status} without an outcome`)
      ledger.check(a, what)
    }
    for (const [id, entry] of ledger.read()) assert.ok(entry.starts <= 1, `${what}: ${id} ran twice`)
    await until('every call is accounted for', async () => {
      const m = await runner.metrics()
      const ended = [...m].filter(([k]) => k.startsWith('fn_runner_calls_total{')).reduce((sum, [, v]) => sum + v, 0)
      return m.get('fn_runner_calls_in_flight') === 0 && m.get('fn_runner_calls_received_total') === ended
    })
  }

  // Calls a hot function again and again until `work` is over. -> the answers
  async function hotWhile(work) {
    const answers = []
    let over = false
    const loop = async (n) => {
      for (let i = 0; !over; i++) answers.push(await call('hot', `20 ${n}.${i}`))
    }
    const loops = [loop(0), loop(1)]
    try {
      await work()
    } finally {
      over = true
      await Promise.all(loops)
    }
    return answers
  }

  async function first(name) {
    const answer = await call(name, '0 first')
    assert.equal(answer.status, 200, answer.text)
    return answer
  }

  async function refused(name) {
    const begin = Date.now()
    const answer = await call(name, '0 cold')
    assert.equal(answer.status, 503, answer.text)
    assert.equal(answer.headers['fn-outcome'], 'not-executed')
    assert.match(answer.text, /^{"message":".+"}/)
    return { answer, ms: Date.now() - begin }
  }

  const served = (name) => until(`${name} is served`, async () => {
    const answer = await call(name, '0 again')
    ledger.check({ ...answer, status: 0 }, 'again')
    return answer.status === 200
  }, RECOVERY_MS)

  const engineIs = (up) => until(`the engine counts as ${up ? 'up' : 'down'}`, async () => (await runner.metric('fn_runner_engine_up')) === up, RECOVERY_MS)

  // The end of every fault: nothing of it is left.
  async function endWithoutTrace() {
    assert.equal((await lb.stop()).code, 0)
    const exit = await runner.stop()
    assert.deepEqual(exit, { code: 0, signal: null }, runner.log)
    await until('no container is left', () => containers().length === 0, RECOVERY_MS)
    lb = runner = null
  }

  before(async () => {
    engine = await startEngine({ images: ['fnd/ledger:latest'], ledger, options: KEEP })
  })
  afterEach(async () => {
    engine.wake()
    await lb?.kill()
    await runner?.kill()
    lb = runner = null
  })
  after(() => engine?.stop())

  it('F39 killed: hot calls go on, starts are refused within a second, it is used again when it is back', async () => {
    await start()
    const answers = [await first('hot'), await first('other')]
    const long = call('other', '2500 long')
    await until('it runs', () => [...ledger.read().values()].some((c) => c.starts > c.ends))
    const hot = await hotWhile(async () => {
      await engine.kill()
      await engineIs(0)
      for (const name of COLD.slice(0, 3)) {
        const { answer, ms } = await refused(name)
        assert.ok(ms < 4000, `the placement timeout is 2 s, refused after ${ms} ms`)
        answers.push(answer)
      }
      answers.push(await long)
      await engine.restart()
      await engineIs(1)
      answers.push(await until('a start is possible', async () => {
        const answer = await call(COLD[0], '0 back')
        answers.push(answer)
        return answer.status === 200 && answer
      }, RECOVERY_MS))
    })
    for (const a of hot) assert.equal(a.status, 200, a.text)
    assert.equal(answers[5].status, 200, 'a call that ran was not disturbed')
    await checkLedger([...hot, ...answers], 'F39')
    await endWithoutTrace()
  })

  // A runner that is not waited for, with the engine at `socket`. -> its process
  async function launch(socket, { grpcPort, more = '' } = {}) {
    const port = await freePort()
    return Fnd.start('runner', port, `
node: pure-runner
${more}
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${grpcPort ?? await freePort()}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { ${driver(socket)} }
runner: { iofs_path: ${tempDir()} }
`, { wait: false })
  }

  it('F39 not there at the start: one sentence and exit status 69', async () => {
    const missing = await launch(path.join(tempDir(), 'docker.sock'))
    assert.deepEqual(await missing.ended, { code: 69, signal: null }, missing.log)
    assert.match(missing.log, /DOC1001 unix:\/\/\S*docker\.sock: No such file or directory/)
    await engine.kill()
    const refusing = await launch(engine.socket)
    assert.deepEqual(await refusing.ended, { code: 69, signal: null }, refusing.log)
    assert.match(refusing.log, /DOC1001 unix:\/\/\S*docker\.sock: cannot connect: Connection refused/)
    await engine.restart()
  })

  it('F40 stopped while a runner starts: it gives up in order, also when it is asked to or has no port', async () => {
    engine.signal('SIGSTOP')
    const waiting = await launch(engine.socket)
    assert.deepEqual(await waiting.ended, { code: 69, signal: null }, waiting.log)
    assert.match(waiting.log, /docker\.sock: no complete answer in time/)
    const asked = await launch(engine.socket)
    await until('it waits for the engine', () => threads(asked) > 1)
    asked.signal('SIGTERM')
    assert.deepEqual(await asked.ended, { code: 0, signal: null }, asked.log)
    engine.signal('SIGCONT')
    // The port turns out to be taken. The engine would hang in the list of leftovers, which are the other runner's.
    const proxy = await Proxy.start({ path: engine.socket }, { path: path.join(tempDir(), 'docker.sock') })
    proxy.match = { text: 'io.fnd.owner%3D', fault: { kind: 'stall', from: 'client', after: 0 } }
    const taken = net.createServer().listen(0, '127.0.0.1')
    await until('a port is taken', () => taken.listening)
    const portless = await launch(proxy.path, { grpcPort: taken.address().port })
    assert.deepEqual(await portless.ended, { code: 69, signal: null }, portless.log)
    assert.match(portless.log, /GRPC|address|in use/i)
    assert.equal(proxy.matched, 0, 'who has no port asks for no leftovers')
    taken.close()
    await proxy.stop()
  })

  it('F40 stopped: hot calls go on, starts are refused in time, nothing piles up, nothing is left behind', async () => {
    await start()
    const answers = [await first('hot'), await first('other')]
    const before = { threads: threads(runner), descriptors: descriptors(runner) }
    const hot = await hotWhile(async () => {
      engine.signal('SIGSTOP')
      const burst = await Promise.all(COLD.map(refused))
      for (const { ms } of burst) assert.ok(ms < 8000, `refused after ${ms} ms`)
      await engineIs(0)
      const again = await Promise.all(COLD.map(refused))
      for (const { ms } of again) assert.ok(ms < 4000, `refused after ${ms} ms`)
      answers.push(...burst.map((b) => b.answer), ...again.map((b) => b.answer))
      // Four operations and a probe may be stuck, each with a thread and a connection.
      assert.ok(threads(runner) <= before.threads + 12, `${before.threads} threads, then ${threads(runner)}`)
      assert.ok(descriptors(runner) <= before.descriptors + 12 + 4 * COLD.length, `${before.descriptors} descriptors, then ${descriptors(runner)}`)
      const cpu = cpuTicks(runner)
      await new Promise((r) => { setTimeout(r, 1000) })
      assert.ok(cpuTicks(runner) - cpu < 60, 'it does not turn')
      engine.signal('SIGCONT')
      await engineIs(1)
      await served(COLD[0])
    })
    for (const a of hot) assert.equal(a.status, 200, a.text)
    await checkLedger([...hot, ...answers], 'F40')
    await endWithoutTrace()
  })

  it('F40 stopped: frozen containers are not waited for, and a runner ends at its drain limit', async () => {
    await start({ runner: 'freeze_idle: 10ms', options: ', freeze_by: engine', more: 'drain_timeout: 3s' })
    const answers = [await first('other')]
    await until('it is frozen', () => containers('--filter', 'status=paused').length === 1)
    engine.signal('SIGSTOP')
    const { answer, ms } = await refused('other')
    assert.ok(ms < 8000, `refused after ${ms} ms`)
    await checkLedger([...answers, answer], 'F40')
    assert.equal((await lb.stop()).code, 0)
    const begin = Date.now()
    assert.deepEqual(await runner.stop(), { code: 0, signal: null }, runner.log)
    assert.ok(Date.now() - begin < 15_000)
    engine.signal('SIGCONT')
    runner = await startRunner({ driver: driver(engine.socket), runner: `owner: ${owner()}` })
    await until('the next one removes what was left', () => containers().length === 0, RECOVERY_MS)
    await runner.stop()
    lb = runner = null
  })

  it('F40 stopped: containers that the driver freezes by their cgroups answer meanwhile', async () => {
    await start({ runner: 'freeze_idle: 10ms' })
    const answers = [await first('hot'), await first('other')]
    await until('both are frozen', async () => (await runner.metric('fn_container_paused_total')) === 2)
    engine.signal('SIGSTOP')
    answers.push((await refused(COLD[0])).answer)
    await engineIs(0)
    answers.push(await first('hot'), await first('other'))
    engine.signal('SIGCONT')
    await engineIs(1)
    await served(COLD[0])
    await checkLedger(answers, 'F40')
    await endWithoutTrace()
  })

  it('F41 slow: starts take longer, hot calls do not', async () => {
    const proxy = await Proxy.start({ path: engine.socket }, { path: path.join(tempDir(), 'docker.sock') })
    await start({ socket: proxy.path, placement: '10s' })
    const answers = [await first('hot')]
    const slowest = (calls) => Math.max(...calls.map((a) => a.ms))
    proxy.fault = { kind: 'delay', delayMs: 300 }
    let cold
    const hot = await hotWhile(async () => {
      cold = await call(COLD[0], '0 slow')
    })
    assert.equal(cold.status, 200, cold.text)
    for (const a of hot) assert.equal(a.status, 200, a.text)
    assert.ok(hot.length > 10)
    assert.ok(slowest(hot) < 1000, `${slowest(hot)} ms`)
    await checkLedger([...answers, cold, ...hot], 'F41')
    proxy.fault = null
    await endWithoutTrace()
    await proxy.stop()
  })

  it('F41 answers, but starts and removes nothing: hot calls go on, no start is waited for beyond its limit', async () => {
    await start({ runner: 'freeze_idle: never\nengine_timeout: 2s' })
    const answers = [await first('hot')]
    const hot = await hotWhile(async () => {
      engine.signalContainerd('SIGSTOP')
      for (const name of COLD.slice(0, 3)) {
        const { answer, ms } = await refused(name)
        assert.ok(ms < 8000, `refused after ${ms} ms`)
        answers.push(answer)
      }
      engine.signalContainerd('SIGCONT')
      await served(COLD[0])
    })
    for (const a of hot) assert.equal(a.status, 200, a.text)
    await checkLedger([...hot, ...answers], 'F41')
    await endWithoutTrace()
  })

  it('F41 the answer to a create is lost: what was made is removed, although no call follows', async () => {
    const proxy = await Proxy.start({ path: engine.socket }, { path: path.join(tempDir(), 'docker.sock') })
    await start({ socket: proxy.path, runner: 'freeze_idle: never\nengine_timeout: 1s' })
    const answers = [await first('hot')]
    proxy.match = { text: 'POST /containers/create', fault: { kind: 'stall', from: 'server', after: 0 } }
    answers.push((await refused(COLD[0])).answer)
    assert.ok(proxy.matched > 0)
    await until('the engine made it', () => containers('--filter', 'status=created').length > 0)
    proxy.match = proxy.fault = null
    proxy.reset()
    await until('it is removed', () => containers('--filter', 'status=created').length === 0, RECOVERY_MS)
    answers.push(await first('hot'))
    await checkLedger(answers, 'F41')
    await endWithoutTrace()
    await proxy.stop()
  })

  it('F44 restarted, which ends its containers: calls that ran fail once with the cause, the next are served', async () => {
    await start()
    const answers = [await first('hot'), await first('other')]
    const running = [call('hot', '20000 runs'), call('other', '20000 runs')]
    await until('both run', () => [...ledger.read().values()].filter((c) => c.starts > c.ends).length === 2)
    await engine.kill()
    await engine.restart([])
    for (const answer of await Promise.all(running)) {
      assert.equal(answer.status, 502, answer.text)
      assert.equal(answer.headers['fn-outcome'], 'failed')
      assert.match(answer.text, /container (killed by signal|exit code|was removed)|error receiving function response/)
      answers.push(answer)
    }
    for (const name of ['hot', 'other', COLD[0]]) await served(name)
    await checkLedger(answers, 'F44')
    await endWithoutTrace()
  })
})

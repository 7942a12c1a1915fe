// What functions print, read by people (`fnd logs`) and by collectors (StreamLogs): from a runner, a
// full node, and a load balancer of several runners.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import http2 from 'node:http2'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { APP, ApiNode } from './lib/api.mjs'
import { appsYaml, fnId, startCluster, startLb, startRunner } from './lib/cluster.mjs'
import { docker, driver, noEngine } from './lib/docker.mjs'
import { fields, frame, message, messagesOf } from './lib/grpc.mjs'
import { invoke } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

const functions = { one: { image: 'misbehave' }, two: { image: 'misbehave' }, quiet: { image: 'hello' } }
const config = (node) => path.join(node.dir, 'fn.yaml')

// `fnd logs` to its end: { code, rows (of --json), out, err }.
const logs = (node, ...args) => new Promise((resolve) => {
  execFile(path.join(build, 'fnd'), ['logs', '--config', config(node), ...args], { encoding: 'utf8', maxBuffer: 64 << 20 }, (e, out, err) => {
    const rows = args.includes('--json') ? out.split('\n').filter(Boolean).map((l) => JSON.parse(l)) : []
    resolve({ code: e ? e.code : 0, out, err, rows })
  })
})

// `fnd logs -f`, whose lines come in `rows`.
class Follow {
  constructor(node, ...args) {
    Object.assign(this, { rows: [], err: '', code: null, part: '' })
    this.child = spawn(path.join(build, 'fnd'), ['logs', '-f', '--json', '--config', config(node), ...args])
    this.child.stdout.on('data', (d) => {
      const lines = (this.part + d).split('\n')
      this.part = lines.pop()
      this.rows.push(...lines.map((l) => JSON.parse(l)))
    })
    this.child.stderr.on('data', (d) => { this.err += d })
    this.ended = new Promise((resolve) => this.child.once('close', (code) => resolve(this.code = code)))
  }

  lines() {
    return this.rows.map((r) => r.line)
  }

  async stop() {
    this.child.kill()
    await this.ended
  }
}

// A collector over gRPC.
class Collector {
  constructor(node, keys) {
    Object.assign(this, { bytes: Buffer.alloc(0), head: {}, over: false })
    this.session = http2.connect(`http://127.0.0.1:${node.grpcPort}`)
    this.session.on('error', () => {})
    this.stream = this.session.request({ ':method': 'POST', ':path': '/RunnerProtocol/StreamLogs', 'content-type': 'application/grpc', te: 'trailers' })
    this.stream.on('response', (h) => Object.assign(this.head, h))
    this.stream.on('trailers', (h) => Object.assign(this.head, h))
    this.stream.on('data', (d) => { this.bytes = Buffer.concat([this.bytes, d]) })
    this.stream.on('error', () => {})
    this.stream.on('close', () => { this.over = true })
    this.stream.write(frame(message([1, message(...Object.entries(keys).map(([k, v]) => [1, message([1, k], [2, v])]))])))
  }

  ack() {
    this.stream.write(frame(message([2, Buffer.alloc(0)])))
  }

  // [{ app, fn, container, call, stderr, line, lost }] of all messages that came.
  lines() {
    const one = (bytes, no) => fields(bytes).filter(([n]) => n === no).map(([, v]) => v)
    const text = (bytes, no) => one(bytes, no)[0]?.toString() ?? ''
    return messagesOf(this.bytes).flatMap((m) => one(m, 1)).flatMap((c) => one(c, 4).flatMap((rq) => one(rq, 2).map((l) => ({
      app: text(c, 1), fn: text(c, 2), container: text(c, 3), call: text(rq, 1),
      ms: Number(one(l, 1)[0]), stderr: Number(one(l, 2)[0] ?? 0) === 1, line: one(l, 3)[0]?.toString('latin1') ?? '', lost: Number(one(l, 100)[0] ?? 0),
    }))))
  }

  messages() {
    return messagesOf(this.bytes).length
  }

  close() {
    this.session.destroy()
  }
}

const flood = (node, name, n) => invoke(node, fnId(name), `log-flood ${n}`)

// The order of the two streams of a container is the engine's.
const numbered = (rows) => rows.map((r) => Number(/^line (\d+)/.exec(r.line)?.[1])).sort((a, b) => a - b)
const upTo = (n) => Array.from({ length: n }, (_, i) => i)

function describeAll(what, options, start) {
  describe(what, options, () => {
    let node
    let front
    let stop
    before(async () => ({ node, front, stop } = await start()))
    after(() => stop?.())

    it('the lines of one function, with call, stream and time', async () => {
      const before = Date.now()
      const [a] = [await flood(front, 'one', 6), await flood(front, 'two', 4)]
      assert.equal(a.status, 200, a.text)
      let answer
      await until('six lines came', async () => (answer = await logs(node, '--json', fnId('one'))).rows.length === 6)
      assert.equal(answer.code, 0, answer.err)
      assert.deepEqual(numbered(answer.rows), upTo(6))
      for (const r of answer.rows) {
        assert.equal(r.call_id, a.headers['fn-call-id'])
        assert.equal(r.fn_id, fnId('one'))
        assert.match(r.line, /^line \d \u0001\ufffd\u009b of a flood$/)
        assert.equal(r.stream, Number(r.line[5]) % 2 ? 'stdout' : 'stderr')
        assert.ok(r.time_ms >= before - 1 && r.time_ms <= Date.now() + 1)
      }
      const plain = await logs(node, '-n', '2', fnId('one'))
      assert.equal(plain.out.trim().split('\n').length, 2)
      assert.match(plain.out, new RegExp(`^20\\d\\d-\\d\\d-\\d\\dT[\\d:.]+Z  ${a.headers['fn-call-id'].slice(-8)}  (out|err)  line \\d \\?\ufffd\\? of a flood$`, 'm'))
    })

    it('nothing was printed', async () => {
      assert.equal((await invoke(front, fnId('quiet'))).status, 200)
      const answer = await logs(node, fnId('quiet'))
      assert.deepEqual([answer.code, answer.out], [0, ''])
      assert.match(answer.err, /no output of \S+ is kept/)
    })

    it('-f shows what is there, then what comes', async () => {
      const follow = new Follow(node, '-n', '3', fnId('one'))
      await until('the history', () => follow.rows.length === 3)
      await flood(front, 'two', 5)
      await flood(front, 'one', 5)
      await until('what came', () => follow.rows.length === 8)
      assert.deepEqual(numbered(follow.rows.slice(3)), upTo(5))
      await follow.stop()
      assert.equal(follow.err, '')
    })

    it('bad questions', async () => {
      for (const [args, text] of [[['a b'], /function, got "a b"/], [['-n', 'x', 'f'], /-n, got "x"/], [['a/b/c'], /function, got "a\/b\/c"; expected APP\/FUNCTION/]]) {
        const answer = await logs(node, ...args)
        assert.ok(answer.code > 0)
        assert.match(answer.err, text)
      }
    })
  })
}

describeAll('a pure runner', {}, async () => {
  const cluster = await startCluster({ functions })
  return { node: cluster.runners[0], front: cluster.lb, stop: () => cluster.stop() }
})

describeAll('a load balancer', {}, async () => {
  const cluster = await startCluster({ functions, runners: 2 })
  return { node: cluster.lb, front: cluster.lb, stop: () => cluster.stop() }
})

async function startFull(plugins, more = '') {
  const port = await freePort()
  const node = await Fnd.start('full', port, `
node: full
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins:
  ${plugins}
runner: { iofs_path: ${tempDir()}, writable_root: ${!plugins.includes('docker')}${more} }
${appsYaml(plugins.includes('docker') ? Object.fromEntries(Object.entries(functions).map(([k, f]) => [k, { image: `fnd/${f.image}:latest`, memory: 64 }])) : functions)}`)
  return { node, front: node, stop: () => node.stop() }
}

describeAll('a full node', {}, () => startFull(`driver: { use: process, root: ${path.join(build, 'functions')} }`))

describeAll('a full node with containers', { skip: noEngine }, async () => {
  const owner = `e2e-logs-${process.pid}`
  const full = await startFull(driver(), `, owner: ${owner}`)
  return { ...full, stop: async () => {
    await full.stop()
    assert.equal(docker('ps', '-aq', '--filter', `label=io.fnd.owner=${owner}`), '')
  } }
})

describe('who is meant', () => {
  let cluster
  before(async () => { cluster = await startCluster({ functions }) })
  after(() => cluster.stop())

  it('names are for load balancers', async () => {
    await flood(cluster.lb, 'one', 2)
    await until('lines by name', async () => (await logs(cluster.lb, '--json', 'demo/one')).rows.length === 2)
    const unknown = await logs(cluster.lb, 'demo/three')
    assert.equal(unknown.code, 69)
    assert.match(unknown.err, /no function demo\/three in this node's fn.yaml/)
    const byId = await logs(cluster.lb, 'NOSUCHFUNCTION')
    assert.equal(byId.code, 69)
    assert.match(byId.err, /function NOSUCHFUNCTION: Fn not found/)
    const runner = await logs(cluster.runners[0], 'demo/one')
    assert.equal(runner.code, 69)
    assert.match(runner.err, /this pure-runner node knows functions by id alone: ask a load balancer for demo\/one/)
  })

  it('names of an API node', async () => {
    const api = await ApiNode.start()
    const lb = await startLb({ addresses: [cluster.runners[0].address], lb: `api_url: "http://127.0.0.1:${api.port}"\napi_timeout: 1s` })
    await until('it is connected', async () => (await lb.metric('fn_lb_runners_up')) === 1)
    const ask = async (what) => { const { code, err } = await logs(lb, what); return { code, err } }
    assert.match((await ask('demo/hello')).err, /no output of demo\/hello is kept/)
    assert.deepEqual(Object.keys(api.counts()).filter((url) => url.includes('name=')), ['/v2/apps?name=demo', `/v2/fns?app_id=${APP}&name=hello`])
    assert.deepEqual(await ask('demo/none'), { code: 69, err: 'fnd: no function demo/none: the API node knows none\n' })
    assert.deepEqual(await ask('none/hello'), { code: 69, err: 'fnd: no app none: the API node knows none\n' })
    api.fault = 'hang'
    const asked = ask('demo/hello')
    await until('it is asked', () => api.asked.includes('/v2/apps?name=demo'))
    assert.match((await asked).err, /the API node cannot say which function this is/)
    await lb.stop()
    await api.stop()
  })

  it('no runner can say', async () => {
    const lb = await startLb({ addresses: ['127.0.0.1:1'], functions })
    const answer = await logs(lb, 'demo/one')
    assert.equal(answer.code, 69)
    assert.match(answer.err, /runner 127.0.0.1:1: it is not connected/)
    await lb.stop()
  })

  it('one of two runners is asked for nothing', async () => {
    const off = await startRunner({ name: 'off', runner: 'log_streams_max: 0' })
    const lb = await startLb({ addresses: [cluster.runners[0].address, off.address], functions })
    await until('both are connected', async () => (await lb.metric('fn_lb_runners_up')) === 2)
    const answer = await logs(lb, '--json', 'demo/one')
    assert.equal(answer.code, 0)
    assert.equal(answer.rows.length, 2)
    assert.match(answer.err, new RegExp(`runner ${off.address}: runner not configured with logStreamer`))
    await lb.stop()
    await off.stop()
  })
})

describe('several runners', () => {
  it('are merged; one that is killed is told, and read again when it is back', async () => {
    const runners = [await startRunner({ name: 'a' }), await startRunner({ name: 'b' })]
    const [a, b] = runners
    const lbs = await Promise.all(runners.map((r) => startLb({ addresses: [r.address], functions })))
    const lb = await startLb({ addresses: runners.map((r) => r.address), functions })
    await until('both are connected', async () => (await lb.metric('fn_lb_runners_up')) === 2)
    await flood(lbs[0], 'one', 2)
    await flood(lbs[1], 'one', 3)
    const follow = new Follow(lb, 'demo/one')
    await until('lines of both', () => follow.rows.length === 5)
    assert.deepEqual(new Set(follow.rows.map((r) => r.runner)), new Set([a.address, b.address]))
    assert.deepEqual(follow.rows.map((r) => r.time_ms), follow.rows.map((r) => r.time_ms).sort((x, y) => x - y))
    await a.kill()
    await until('it is told', () => follow.err.includes(`runner ${a.address}: `))
    await flood(lbs[1], 'one', 1)
    await until('the other one goes on', () => follow.rows.length === 6)
    await a.start()
    await until('it is back', async () => (await lb.metric('fn_lb_runners_up')) === 2)
    await until('it takes calls', async () => (await flood(lbs[0], 'one', 4)).status === 200)
    await until('its lines come', () => follow.rows.filter((r) => r.runner === a.address).length >= 6, 20_000)
    await lb.stop()
    assert.equal(await follow.ended, 69)
    assert.match(follow.err, /the node has ended its answer/)
    await Promise.all([...lbs, ...runners].map((n) => n.stop()))
  })
})

it('the operator\'s plugin gets all lines, to the last one', async () => {
  const file = path.join(tempDir(), 'functions.log')
  const cluster = await startCluster({ functions, runnerOptions: { plugins: `operator: { use: file, log_file: ${file} }` } })
  const a = await flood(cluster.lb, 'one', 300)
  await flood(cluster.lb, 'two', 5)
  await cluster.stop()
  const lines = readFileSync(file, 'latin1').split('\n').filter(Boolean)
  const one = lines.filter((l) => l.includes(` ${fnId('one')} `) && l.includes(` ${a.headers['fn-call-id']} `))
  assert.deepEqual(one.map((l) => Number(/ (?:out|err) line (\d+) /.exec(l)[1])).sort((x, y) => x - y), upTo(300))
  assert.equal(lines.length, 305)
})

// What the plugin keeps, a restart of the runner does not forget.
it('readers get the lines of the operator\'s plugin, if it is the source', async () => {
  const file = path.join(tempDir(), 'functions.log')
  writeFileSync(file, '1795593675214 app1 fun1 container1 101 out made elsewhere\nno line\n')
  const cluster = await startCluster({ functions, runnerOptions: { plugins: `operator: { use: file, log_file: ${file} }`, runner: 'log_source: operator' } })
  const [runner] = cluster.runners
  const c = new Collector(runner, {})
  c.ack()
  await until('the first line', () => c.messages() === 1)
  assert.deepEqual(c.lines(), [{ app: 'app1', fn: 'fun1', container: 'container1', call: '101', ms: 1795593675214, stderr: false, line: 'made elsewhere', lost: 0 }])
  c.ack()
  const follow = new Follow(cluster.lb, fnId('two'), '-n', '0')
  await until('two readers', async () => (await runner.metric('fn_runner_log_streams')) === 2) // the plugin is none
  await flood(cluster.lb, 'one', 300)
  await flood(cluster.lb, 'two', 5)
  await until('the collector has a new one', () => c.messages() === 2)
  await until('those of one function', () => follow.rows.length === 5)
  assert.ok(follow.rows.every((r) => r.fn_id === fnId('two')))
  await follow.stop()
  await runner.kill()
  await runner.start()
  await until('it is back', async () => (await cluster.lb.metric('fn_lb_runners_up')) === 1)
  assert.deepEqual(numbered((await logs(cluster.lb, '--json', fnId('one'))).rows), upTo(300))
  assert.equal((await logs(cluster.lb, '--json', '-n', '7', fnId('one'))).rows.length, 7)
  await cluster.stop()
})

describe('a collector', () => {
  let cluster
  let runner
  before(async () => {
    cluster = await startCluster({ functions, runnerOptions: { runner: 'log_ring: 4KiB\nlog_streams_max: 2' } })
    runner = cluster.runners[0]
  })
  after(() => cluster.stop())

  it('gets one message for each Ack, framed by container and call', async () => {
    const a = await flood(cluster.lb, 'one', 4)
    await until('all lines are there', async () => (await logs(runner, '--json', fnId('one'))).rows.length === 4)
    const c = new Collector(runner, { fn_id: fnId('one'), follow: 'false' })
    await until('the stream is open', async () => (await runner.metric('fn_runner_log_streams')) === 1)
    assert.equal(c.messages(), 0)
    c.ack()
    await until('a message', () => c.messages() === 1)
    for (const l of c.lines()) assert.deepEqual([l.app.length > 0, l.fn, l.call], [true, fnId('one'), a.headers['fn-call-id']])
    while (!c.over) {
      const before = c.messages()
      c.ack()
      await until('the next, or the end', () => c.over || c.messages() > before)
    }
    assert.equal(c.head['grpc-status'], '0')
    assert.deepEqual(numbered(c.lines()), upTo(4))
    c.close()
  })

  it('that is slow holds nobody up, and is told what it missed', async () => {
    const c = new Collector(runner, { fn_id: fnId('one'), tail: '0' })
    c.ack()
    await until('the stream is open', async () => (await runner.metric('fn_runner_log_streams')) === 1)
    await flood(cluster.lb, 'one', 1)
    await until('the first line', () => c.lines().length === 1)
    const begun = Date.now()
    const answer = await flood(cluster.lb, 'one', 30_000)
    assert.equal(answer.status, 200, answer.text)
    assert.ok(Date.now() - begun < 10_000)
    const fast = new Follow(runner, fnId('one'))
    await until('the last line is there', () => fast.lines().some((l) => l.startsWith('line 29999')))
    await fast.stop()
    const lostOf = () => c.lines().reduce((n, l) => n + l.lost, 0)
    const told = () => lostOf() + c.lines().filter((l) => !l.lost).length
    while (told() < 30_001) {
      const before = c.messages()
      c.ack()
      await until('a message', () => c.messages() > before)
    }
    const lost = lostOf()
    assert.equal(told(), 30_001)
    assert.ok(lost > 20_000, `${lost} lines`)
    assert.match(c.lines().find((l) => l.lost).line, /^\d+ lines are missing here/)
    assert.ok(await runner.metric('fn_runner_log_lines_lost_total') >= lost)
    c.close()
    await until('the stream is gone', async () => (await runner.metric('fn_runner_log_streams')) === 0)
  })

  it('beyond the limit is refused', async () => {
    const all = [0, 1].map(() => new Collector(runner, {}))
    await until('both are open', async () => (await runner.metric('fn_runner_log_streams')) === 2)
    const third = new Collector(runner, {})
    await until('it is refused', () => third.over)
    assert.equal(third.head['grpc-status'], '8')
    assert.match(decodeURIComponent(third.head['grpc-message']), /^RUN416 2 log streams/)
    const bad = new Collector(runner, { colour: 'red' })
    await until('it is refused', () => bad.over)
    assert.equal(bad.head['grpc-status'], '8')
    for (const c of [...all, third, bad]) c.close()
  })

  it('reads to the end of a runner that stops', async () => {
    await until('places are free', async () => (await runner.metric('fn_runner_log_streams')) === 0)
    const c = new Collector(runner, { tail: '0' })
    c.ack()
    await until('the stream is open', async () => (await runner.metric('fn_runner_log_streams')) === 1)
    assert.deepEqual(await runner.stop(), { code: 0, signal: null })
    await until('it has ended', () => c.over)
    assert.equal(c.head['grpc-status'], '14')
    c.close()
  })
})

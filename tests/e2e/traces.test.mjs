// Traces of calls: their trees at a collector, whose they are, and what a collector that fails costs.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Ledger, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { Collector, tree } from './lib/collector.mjs'
import { invoke, request } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const CALLER = 'b7ad6b7169203331'
const traceparent = (flags = '01', trace = TRACE) => `00-${trace}-${CALLER}-${flags}`
const traces = (url, more = '') => `traces: { endpoint: "${url}", ${more} }`

const functions = {
  echo: {},
  hello: { triggers: ['/hello'] },
  misbehave: { timeout: 2 },
  sleeper: {},
}

describe('a call over two nodes', () => {
  let collector
  let runner
  let lb
  before(async () => {
    collector = await Collector.start()
    const more = traces(collector.url, 'sample_permille: 0, slow: 400ms, headers: "X-Key: sesame"')
    runner = await startRunner({ runner: 'memory_total: 512MiB\nqueue_wait: 0s', more })
    lb = await startLb({ addresses: [runner.address], functions, more, lb: 'placement_timeout: 1s' })
    await until('the runner is up', async () => (await lb.metric('fn_lb_runners_up')) === 1)
  })
  after(async () => {
    await lb?.stop()
    await runner?.stop()
    await collector?.stop()
  })

  // The spans of a call once both nodes have told theirs.
  const spansOfCall = (id, of = (all) => all.some((s) => s.name === 'engage') && all.some((s) => s.name.includes('/'))) =>
    until(`the spans of ${id} are there`, () => { const all = collector.of(id); return of(all) && all })

  it('that starts a container is one tree, and the function sees its parent', async () => {
    const answer = await invoke(lb, fnId('echo'), '', { 'Echo-Headers': 'any', traceparent: traceparent(), tracestate: 'a=1, b@c=2' })
    assert.equal(answer.status, 200, answer.text)
    const spans = await spansOfCall(answer.headers['fn-call-id'])
    assert.deepEqual(tree(spans), [
      'fnd-lb POST /invoke/{fn}',
      '  fnd-lb lookup',
      '  fnd-lb placement',
      '  fnd-lb attempt',
      '    fnd-pure-runner engage',
      '      fnd-pure-runner queue',
      ...tree(spans).filter((l) => /image|prepare|create|init$/.test(l)),
      '      fnd-pure-runner function',
    ])
    const by = Object.fromEntries(spans.map((s) => [s.name, s]))
    const root = by['POST /invoke/{fn}']
    assert.equal(root.traceId, TRACE)
    assert.equal(root.parent, CALLER)
    assert.deepEqual([root.kind, by.attempt.kind, by.engage.kind, by.function.kind, by.queue.kind], [2, 3, 2, 3, 1])
    for (const s of spans) {
      assert.ok(s.start <= s.end && s.start >= root.start, `${s.name} has its place`)
      assert.equal(s.state, 'a=1,b@c=2')
      assert.equal(s.by.name, 'fnd')
      assert.match(s.resource['service.instance.id'], /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    }
    assert.ok(tree(spans).some((l) => l.endsWith('create')), 'the phases of the start') // a quick function is ready with it: no init
    assert.equal(by.engage.attributes['faas.coldstart'], true)
    assert.equal(root.attributes['http.request.method'], 'POST')
    assert.equal(root.attributes['http.response.status_code'], 200)
    assert.equal(root.attributes['fnd.outcome'], 'ok')
    assert.equal(root.attributes['fnd.sampled'], 'parent')
    assert.equal(by.attempt.attributes['server.address'], runner.address)
    assert.equal(by.function.attributes['container.image.name'], 'echo')
    assert.equal(by.placement.attributes['fnd.placer'], 'naive')
    assert.deepEqual(JSON.parse(answer.text).traceparent ?? JSON.parse(answer.text).Traceparent, [`00-${TRACE}-${by.function.id}-01`])
    assert.deepEqual(JSON.parse(answer.text).Tracestate, ['a=1,b@c=2'])
    assert.equal(collector.requests[0].headers['x-key'], 'sesame')
    assert.equal(collector.requests[0].headers['content-type'], 'application/x-protobuf')
    const why = spawnSync(path.join(build, 'fnd'), ['why', '--config', path.join(lb.dir, 'fn.yaml'), answer.headers['fn-call-id']], { encoding: 'utf8', env: { PATH: process.env.PATH } })
    assert.match(why.stdout, new RegExp(`^trace +${TRACE}$`, 'm'))
  })

  it('that finds a container, by a trigger, has no start in it', async () => {
    const url = lb.url('/t/demo/hello')
    await request(url)
    const answer = await request(url, { headers: { traceparent: traceparent('01', 'cd'.repeat(16)) } })
    assert.equal(answer.status, 200, answer.text)
    const spans = await spansOfCall(answer.headers['fn-call-id'])
    const mine = spans.find((s) => s.name === 'GET /t/{app}/{source}')
    assert.equal(mine.attributes['url.path'], '/t/demo/hello')
    assert.equal(spans.find((s) => s.name === 'engage').attributes['faas.coldstart'], false)
  })


  it('that fails is kept though nobody asked for it, at both nodes, with the error', async () => {
    const answer = await invoke(lb, fnId('misbehave'), 'crash')
    assert.equal(answer.status, 502)
    const spans = await spansOfCall(answer.headers['fn-call-id'])
    const lines = tree(spans)
    assert.equal(lines[0], 'fnd-lb POST /invoke/{fn}!502')
    assert.ok(lines.includes('  fnd-lb attempt!function-error'), lines.join('\n'))
    assert.ok(lines.includes('    fnd-pure-runner engage!502'))
    assert.ok(lines.some((l) => /function!connection$/.test(l)), lines.join('\n'))
    assert.equal(spans[0].attributes['fnd.sampled'] ?? 'error', 'error')
    assert.equal(spans.find((s) => s.name === 'engage').flags ?? 0, 0, 'it says that it was not sampled')
    assert.match(runner.log, new RegExp(`call failed.*trace_id=${spans[0].traceId}`))
  })

  it('that is slow is kept, one that is neither is not', async () => {
    const quick = await invoke(lb, fnId('echo'), 'x')
    const unsampled = await invoke(lb, fnId('echo'), 'x', { traceparent: traceparent('00', 'ab'.repeat(16)) })
    const slow = await invoke(lb, fnId('sleeper'), '500')
    const spans = await spansOfCall(slow.headers['fn-call-id'])
    assert.equal(spans.find((s) => s.name.startsWith('POST')).attributes['fnd.sampled'], 'slow')
    assert.deepEqual([collector.of(quick.headers['fn-call-id']), collector.of(unsampled.headers['fn-call-id'])], [[], []])
  })

  it('with a traceparent that is none gets a trace of its own', async () => {
    for (const [i, bad] of ['00-0-1-01', `00-${'0'.repeat(32)}-${CALLER}-01`, `ff-${TRACE}-${CALLER}-01`, `00-${TRACE.toUpperCase()}-${CALLER}-01`].entries()) {
      const answer = await invoke(lb, fnId('echo'), '', { 'Echo-Headers': 'any', traceparent: bad, tracestate: 'a=1' })
      const seen = JSON.parse(answer.text)
      assert.match(seen.Traceparent[0], /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/, `row ${i}`)
      assert.notEqual(seen.Traceparent[0].slice(3, 35), TRACE)
      assert.equal(seen.Tracestate, undefined)
    }
  })
})

describe('a call that two of three runners do not take', () => {
  const ledger = new Ledger()
  let collector
  let runners = []
  let lb
  before(async () => {
    collector = await Collector.start()
    const more = traces(collector.url, 'sample_permille: 1000')
    runners = await Promise.all([0, 1].map((i) => startRunner({ name: `runner${i}`, runner: 'memory_total: 256MiB\nqueue_wait: 0s\nqueue_factor: 1', more })))
    lb = await startLb({ addresses: ['127.0.0.1:1', ...runners.map((r) => r.address)], placer: '{ use: first }', more,
      functions: { ledger: { memory: 200, timeout: 60, config: { LEDGER_FILE: ledger.file } } }, lb: 'why_calls: 0' })
    await until('both runners are up', async () => (await lb.metric('fn_lb_runners_up')) === 2)
  })
  after(async () => {
    await lb?.stop()
    await Promise.all(runners.map((r) => r.stop()))
    await collector?.stop()
  })

  it('shows one that was not asked and the refusal of the other, without fnd why', async () => {
    const holder = invoke(lb, fnId('ledger'), '1500 holder')
    await until('the holder runs', () => ledger.read().size === 1)
    const answer = await invoke(lb, fnId('ledger'), '0 second')
    assert.equal(answer.status, 200, answer.text)
    const id = answer.headers['fn-call-id']
    const spans = await until('all spans are there', () => { const all = collector.of(id); return all.filter((s) => s.name === 'engage').length === 2 && all.some((s) => s.name.startsWith('POST')) && all })
    const [busy, took] = spans.filter((s) => s.name === 'attempt')
    assert.deepEqual(tree(spans).filter((l) => !/image|prepare|create|init/.test(l)), [
      'fnd-lb POST /invoke/{fn}',
      '  fnd-lb lookup',
      '  fnd-lb placement',
      '  fnd-lb attempt!busy',
      '    fnd-pure-runner engage!busy',
      '      fnd-pure-runner queue',
      '  fnd-lb placement',
      '  fnd-lb attempt',
      '    fnd-pure-runner engage',
      '      fnd-pure-runner queue',
      '      fnd-pure-runner function',
    ])
    assert.deepEqual([busy, took].map((s) => s.attributes['server.address']), runners.map((r) => r.address))
    assert.ok(busy.status.message.length > 0, 'the runner gave a reason')
    // The one that is down was refused when the call before looked for a runner, and is not asked about again so soon.
    const held = await holder
    assert.equal(held.status, 200)
    const before = await until('the placement of the call before', () => collector.of(held.headers['fn-call-id']).find((s) => s.name === 'placement'))
    assert.deepEqual(before.events.map((e) => [e.name, e.attributes['server.address'], e.attributes['fnd.reason']]), [['refused', '127.0.0.1:1', 'down']])
    assert.deepEqual(spans.find((s) => s.name === 'placement').events, [])
  })
})

// A full node; what it traces goes where `env` or `more` say.
async function startFull(more, env) {
  const port = await freePort()
  return Fnd.start('full', port, `
node: full
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins:
  driver: { use: process, root: "${path.join(build, 'functions')}" }
${more}
apps:
  - name: demo
    functions:
      - { name: echo, id: ${fnId('echo')}, image: echo, memory: 64 }
`, { env })
}

const spansOf = async (node, result) => (await node.metrics()).get(`fn_trace_spans{result="${result}"}`)

describe('a collector', () => {
  let collector
  before(async () => { collector = await Collector.start() })
  after(() => collector?.stop())

  it('that is away for a moment gets all of it later, and the last of it when the node ends', async () => {
    const secret = path.join(tempDir(), 'headers')
    writeFileSync(secret, 'X-Key: sesame\nX-Other: 1\n')
    const node = await startFull('traces: { sample_permille: 1000, service: shop }', { FND_TRACES_ENDPOINT: collector.url, FND_TRACES_HEADERS_FILE: secret })
    collector.status = 503
    const first = await invoke(node, fnId('echo'), 'x')
    await until('it was refused', () => collector.requests.length > 0)
    assert.deepEqual([collector.requests[0].headers['x-key'], collector.requests[0].headers['x-other']], ['sesame', '1'])
    assert.equal(collector.spans.length, 0)
    collector.status = 200
    await until('the trace is there', () => collector.of(first.headers['fn-call-id']).some((s) => s.name === 'function'))
    assert.match(node.log, /the collector does not take traces.*status=503/)
    await until('it is counted', async () => (await spansOf(node, 'exported')) > 0)
    const last = await invoke(node, fnId('echo'), 'x')
    assert.deepEqual(await node.stop(), { code: 0, signal: null })
    const spans = collector.of(last.headers['fn-call-id'])
    assert.deepEqual(tree(spans).filter((l) => !/queue/.test(l)), ['shop POST /invoke/{fn}', '  shop lookup', '  shop placement', '  shop attempt', '    shop engage', '      shop function'])
  })

  it('that never answers slows no call and holds the end up for a bounded time; a reload turns traces off', async () => {
    const sockets = new Set()
    const silent = net.createServer((socket) => sockets.add(socket.on('error', () => {})))
    await new Promise((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const [plain, traced] = await Promise.all([startFull(''), startFull(traces(`http://127.0.0.1:${silent.address().port}/v1/traces`, 'sample_permille: 1000, queue: 20'))])
    const took = { plain: [], traced: [] }
    for (let i = 0; i < 400; i++) {
      for (const [name, node] of [['plain', plain], ['traced', traced]]) {
        const begun = process.hrtime.bigint()
        assert.equal((await invoke(node, fnId('echo'), 'x')).status, 200)
        took[name].push(Number(process.hrtime.bigint() - begun) / 1e6)
      }
    }
    const median = (list) => list.sort((a, b) => a - b)[list.length >> 1]
    assert.ok(median(took.traced) < median(took.plain) * 1.5 + 0.5, `median ${median(took.plain)} ms without traces, ${median(took.traced)} ms with`)
    await until('what does not fit is counted', async () => { await invoke(traced, fnId('echo'), 'x'); return (await spansOf(traced, 'dropped')) > 0 })
    await until('the queue is full', async () => { await invoke(traced, fnId('echo'), 'x'); return await traced.metric('fn_trace_queue') === 20 })
    const file = path.join(traced.dir, 'fn.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^traces:.*$/m, ''))
    assert.equal(spawnSync(path.join(build, 'fnd'), ['reload', '--config', file], { env: { PATH: process.env.PATH } }).status, 0)
    const dropped = await spansOf(traced, 'dropped')
    const seen = JSON.parse((await invoke(traced, fnId('echo'), '', { 'Echo-Headers': 'any', traceparent: traceparent() })).text)
    assert.deepEqual(seen.Traceparent, [traceparent()], 'off, the header is passed on as it came')
    assert.equal(await spansOf(traced, 'dropped'), dropped)
    const begun = Date.now()
    assert.deepEqual(await traced.stop(), { code: 0, signal: null })
    assert.ok(Date.now() - begun < 6000, `the end took ${Date.now() - begun} ms`)
    await plain.stop()
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => silent.close(resolve))
  })
})

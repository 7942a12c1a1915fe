// What plugins may read of a call, and listeners that may be slow: samples/placer-pin places by an
// annotation, samples/listener-lines writes ends of calls to a file, tests/plugins/late.c takes its time.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { build, tempDir, until } from './lib/node.mjs'
import { buildSample } from './lib/samples.mjs'

const dir = tempDir()
const late = path.join(build, 'tests/plugins/late.so')
after(() => rmSync(dir, { recursive: true, force: true }))

const reload = (lb) => execFileSync(path.join(build, 'fnd'), ['reload', '--config', path.join(lb.dir, 'fn.yaml')], { encoding: 'utf8', stdio: 'pipe' })
const ends = async (node, result) => (await node.metrics()).get(`fn_listener_ends{listener="late",result="${result}"}`) ?? 0
const waiting = (node) => node.metric('fn_listener_waiting')

describe('what plugins read of a call', () => {
  const runners = []
  let lb
  const file = path.join(dir, 'calls')
  const lines = () => (existsSync(file) ? readFileSync(file, 'utf8') : '').split('\n').filter(Boolean).map((l) => JSON.parse(l))

  before(async () => {
    for (const name of ['a', 'b']) runners.push(await startRunner({ name }))
    const pin = buildSample(dir, 'placer-pin')
    lb = await startLb({
      addresses: runners.map((r) => r.address),
      placer: `{ use: pin, file: ${pin} }`,
      plugins: `shadow: { use: pin, file: ${pin}, name: other }\nlisteners:\n  - { use: lines, file: ${buildSample(dir, 'listener-lines')}, path: ${file} }`,
      functions: {
        a: { image: 'hello', annotations: { 'acme.example/runner': runners[0].address } },
        b: { image: 'hello', annotations: { 'acme.example/runner': runners[1].address } },
        c: { image: 'hello', app: 'other' },
      },
      lb: 'shadow_permille: 1000',
    })
  })
  after(async () => {
    await lb?.stop()
    await Promise.all(runners.map((r) => r.stop()))
  })

  const ran = async () => Promise.all(runners.map((r) => r.metric('fn_runner_calls_received_total')))
  const call = async (name, n) => {
    for (let i = 0; i < n; i++) {
      const answer = await invoke(lb, fnId(name))
      assert.equal(answer.status, 200, answer.text)
    }
  }

  it('a placer keeps functions to the runner that an annotation names', async () => {
    const [a, b] = await ran()
    await call('a', 10)
    assert.deepEqual(await ran(), [a + 10, b])
    await call('b', 10)
    assert.deepEqual(await ran(), [a + 10, b + 10])
    await call('c', 40) // one side only: twice in 2^40
    const [c, d] = await ran()
    assert.equal(c + d, a + b + 60)
    assert.ok(c > a + 10 && d > b + 10, `${c} and ${d}`)
  })

  it('a listener reads the call behind its end, on a worker', async () => {
    await until('all lines are there', () => lines().length === 60)
    const told = lines()
    assert.deepEqual(new Set(told.map((l) => `${l.app} ${l.fn} ${l.image} ${l.outcome} ${l.status}`)), new Set([
      `demo ${fnId('a')} hello ok 200`, `demo ${fnId('b')} hello ok 200`, `other ${fnId('c')} hello ok 200`]))
    assert.equal(new Set(told.map((l) => l.call)).size, 60)
    assert.equal((await lb.metrics()).get('fn_listener_ends{listener="lines",result="told"}'), 60)
  })

  it('the shadow and the placers of a reload read the same', async () => {
    const same = (await lb.metrics()).get('fn_lb_shadow_answers{serving="try",shadow="try",runner="same"}')
    assert.ok(same >= 20, `${same} of the 20 pinned calls and some others`)
    const [a, b] = await ran()
    reload(lb)
    await call('a', 5)
    await call('b', 5)
    assert.deepEqual(await ran(), [a + 5, b + 5])
    await until('the generation before has told its ends and is gone', async () => await lb.metric('fn_config_generations') === 1)
    await until('the lines of both', () => lines().length === 70)
  })

  it('the same placer reads the annotations of a simulated cluster', () => {
    const scenario = path.join(dir, 'pin.yaml')
    const used = (annotations) => {
      writeFileSync(scenario, `duration: 10s\nrunners: { count: 4 }\nfunctions: { annotations: [ ${annotations} ] }\n`)
      const out = execFileSync(path.join(build, 'fnkit'), ['sim', '--scenario', scenario, path.join(dir, 'placer-pin.so')], { encoding: 'utf8' })
      return Number(/^runners used +(\d+)/m.exec(out)[1])
    }
    assert.equal(used(`'acme.example/runner="10.0.0.2:9190"'`), 1)
    assert.equal(used(`'acme.example/runner="10.0.0.2:9190"', ''`), 4)
  })

  it('what ended before a shutdown is told', async () => {
    await call('a', 20)
    assert.equal((await lb.stop()).code, 0)
    assert.equal(lines().length, 90)
    lb = undefined
  })
})

describe('a listener that takes two seconds for each call', () => {
  let runner
  before(async () => { runner = await startRunner({ name: 'runner' }) })
  after(() => runner?.stop())
  const start = (options) => startLb({
    addresses: [runner.address],
    functions: { hello: {} },
    plugins: `listeners:\n  - { use: late, file: ${late}${options} }`,
  })

  it('delays no call', async () => {
    const lb = await start('')
    const began = Date.now()
    const workers = Array.from({ length: 8 }, async () => {
      for (let i = 0; i < 25; i++) {
        const answer = await invoke(lb, fnId('hello'))
        assert.equal(answer.status, 200, answer.text)
      }
    })
    await Promise.all(workers)
    // It alone needs 400 s for them.
    assert.ok(Date.now() - began < 60_000, `${Date.now() - began} ms for 200 calls`)
    const held = await waiting(lb)
    assert.ok(held > 100 && held <= 200, `${held} wait`)
    await until('one was told', async () => await ends(lb, 'told') >= 1)
    await lb.kill()
  })

  it('is replaced by a reload, and ends with the node, within its bound', async () => {
    const lb = await start('')
    for (let i = 0; i < 20; i++) await invoke(lb, fnId('hello'))
    reload(lb) // the same again: both generations have a listener of that name
    for (let i = 0; i < 20; i++) assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    // 10 s from the reload, in which the old one told five.
    await until('the old one is gone', async () => await lb.metric('fn_config_generations') === 1, 15_000)
    assert.ok(await ends(lb, 'dropped') >= 10)
    const began = Date.now()
    assert.equal((await lb.stop()).code, 0)
    assert.ok(Date.now() - began < 15_000, `${Date.now() - began} ms`)
    assert.match(lb.log, /left out: the listener is too slow" listener=late/)
  })

  it('leaves the node when it hears nothing', async () => {
    const lb = await start(', time: 1h, deaf: true')
    for (let i = 0; i < 5; i++) assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    assert.equal(await waiting(lb), 5)
    const began = Date.now()
    assert.equal((await lb.stop()).code, 0)
    assert.ok(Date.now() - began < 18_000, `${Date.now() - began} ms`)
  })
})

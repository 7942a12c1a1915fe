// A shadow placer beside the serving one in a real load balancer: asked, compared, swapped in under
// load without a failed call, and set back by a reload.
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { build, until } from './lib/node.mjs'

const fnd = (node, ...args) => spawnSync(path.join(build, 'fnd'), [...args, '--config', path.join(node.dir, 'fn.yaml')],
  { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH } })
const shadow = (node, word = 'status') => {
  const result = fnd(node, 'shadow', '--json', word)
  assert.equal(result.status, 0, result.stderr)
  return JSON.parse(result.stdout)
}
// Beside the load of this process.
const swap = async (node, word) => JSON.parse((await promisify(execFile)(path.join(build, 'fnd'),
  ['shadow', '--json', word, '--config', path.join(node.dir, 'fn.yaml')])).stdout)
const CLIENTS = 8
const SWAPS = 20

describe('a shadow placer', () => {
  const runners = []
  let lb
  before(async () => {
    for (let i = 0; i < 3; i++) runners.push(await startRunner({ name: `runner${i}` }))
    lb = await startLb({
      addresses: runners.map((r) => `127.0.0.1:${r.grpcPort}`),
      placer: '{ use: ch }',
      plugins: 'shadow: { use: p2c, name: next }',
      functions: { hello: {}, echo: {} },
    })
    await until('all runners are up', async () => (await lb.metric('fn_lb_runners_up')) === 3)
  })
  after(async () => {
    await lb?.stop()
    await Promise.all(runners.map((r) => r.stop()))
  })

  it('is asked about every call and decides none', async () => {
    const seen = new Set()
    for (let i = 0; i < 30; i++) {
      const answer = await invoke(lb, fnId(i % 2 ? 'hello' : 'echo'))
      assert.equal(answer.status, 200, answer.text)
      const why = JSON.parse(fnd(lb, 'why', '--json', answer.headers['fn-call-id']).stdout)
      assert.equal(why.placer, 'ch')
      if (i % 2) seen.add(why.tries[0].runner)
    }
    assert.equal(seen.size, 1, 'ch keeps a function at its home')
    const s = shadow(lb)
    assert.equal(s.serving, 'ch')
    assert.equal(s.shadow, 'next')
    assert.equal(s.state, 'on')
    assert.equal(s.asked, 30)
    assert.equal(s.agree + s.disagree, 30)
    assert.equal(s.serving_role.homes.moved, 0)
    assert.ok(s.shadow_role.homes.moved > 0, 'two choices have no home')
    assert.equal(await lb.metric('fn_lb_shadow_asked'), 30)
    assert.equal(s.waits.measured, 30, 'runners report the execution of each call')
    assert.ok(s.waits.measured_ms > 0)
    assert.ok(s.waits.predicted > 0 && s.waits.predicted < 30, 'all but those before anything was known')
    assert.ok(s.waits.serving_ms > 0 && s.waits.shadow_ms > 0)
    const metrics = await lb.metrics()
    for (const role of ['serving', 'shadow']) {
      assert.equal(metrics.get(`fn_lb_shadow_predicted_wait_milliseconds_count{role="${role}"}`), s.waits.predicted)
    }
    assert.equal(await lb.metric('fn_lb_shadow_measured_wait_milliseconds_count'), 30)
    const text = fnd(lb, 'shadow', 'status').stdout
    assert.match(text, /predicted wait ch +\d+\.\d\d ms on average, over \d+ questions\n +next +\d+\.\d\d ms on average\nmeasured wait +\d+\.\d\d ms on average, over 30 calls/)
    assert.match(text, /shadow +next, asked about 1000 of 1000 calls/)
    assert.match(text, /homes +ch +new 2 .*moved 0 \(0\.0 %\)/)
  })

  it('is swapped in and back under load, and no call fails', async () => {
    const statuses = new Map()
    let done = false
    const clients = Array.from({ length: CLIENTS }, async () => {
      while (!done) {
        const { status } = await invoke(lb, fnId('hello'))
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
    })
    for (let i = 0; i < SWAPS; i++) {
      const before = statuses.get(200) ?? 0
      const s = await swap(lb, i % 2 ? 'back' : 'swap')
      assert.equal(s.serving, i % 2 ? 'ch' : 'next')
      assert.equal(s.swapped, i % 2 === 0)
      await until('calls go on', () => (statuses.get(200) ?? 0) > before + CLIENTS)
    }
    done = true
    await Promise.all(clients)
    assert.deepEqual([...statuses.keys()], [200])
    assert.ok(statuses.get(200) > SWAPS * CLIENTS)
  })

  it('serves once swapped in, until a reload', async () => {
    assert.equal(fnd(lb, 'shadow', 'swap').status, 0)
    const answer = await invoke(lb, fnId('hello'))
    assert.equal(JSON.parse(fnd(lb, 'why', '--json', answer.headers['fn-call-id']).stdout).placer, 'next')
    assert.equal(await lb.metric('fn_lb_shadow_swapped'), 1)
    const again = fnd(lb, 'shadow', 'swap')
    assert.equal(again.status, 69)
    assert.match(again.stderr, /LB309 swapped already: next serves; expected `back` or a reload/)
    assert.equal(fnd(lb, 'reload').status, 0)
    const s = shadow(lb)
    assert.equal(s.serving, 'ch')
    assert.equal(s.swapped, false)
    assert.match(fnd(lb, 'shadow', 'back').stderr, /LB309 nothing to take back: ch serves/)
    assert.match(lb.log, /the placers were swapped.*serving=next.*shadow=ch/)
  })

  it('is refused where there is none', async (t) => {
    const strange = fnd(lb, 'shadow', 'swop')
    assert.equal(strange.status, 64)
    assert.match(strange.stderr, /shadow, got "swop"; expected status, swap or back/)
    assert.match(fnd(runners[0], 'shadow', 'status').stderr, /a pure-runner places no calls/)
    const plain = await startLb({ addresses: ['127.0.0.1:1'] })
    t.after(() => plain.stop())
    assert.equal(shadow(plain).state, 'none')
    assert.match(fnd(plain, 'shadow', 'swap').stderr, /LB308 no shadow placer; expected plugins\.shadow in fn\.yaml/)
  })
})

describe('a shadow placer that misbehaves', () => {
  let runner
  before(async () => { runner = await startRunner() })
  after(() => runner?.stop())

  for (const [name, why] of [['e15_wait', 'an answer that cannot be used'], ['e07_call_sleeps', 'over its budget']]) {
    it(`${name}: is turned off, and every call is answered`, async (t) => {
      const lb = await startLb({
        addresses: [`127.0.0.1:${runner.grpcPort}`],
        plugins: `shadow: { use: ${name.slice(0, 3)}, file: ${path.join(build, 'tests/plugins/evil', `${name}.so`)} }`,
        functions: { evil: { image: 'hello' } },
      })
      t.after(() => lb.stop())
      await until('the runner is up', async () => (await lb.metric('fn_lb_runners_up')) === 1)
      for (let i = 0; i < 6; i++) {
        const answer = await invoke(lb, fnId('evil'))
        assert.equal(answer.status, 200, answer.text)
      }
      const s = shadow(lb)
      assert.equal(s.state, 'off')
      assert.equal(s.off_why, why)
      assert.equal(s.asked, 3)
      assert.equal(await lb.metric('fn_lb_shadow_on'), 0)
      assert.equal(await lb.metric('fn_lb_shadow_strikes'), 3)
      assert.match(lb.log, /level=warn\w* msg="the shadow placer is off until it is set again"/)
      assert.match(fnd(lb, 'shadow', 'swap').stderr, /LB310 shadow placer e\d+ was turned off/)
      assert.match(fnd(lb, 'shadow', 'status').stdout, new RegExp(`turned off: ${why}`))
      assert.equal(fnd(lb, 'reload').status, 0)
      assert.equal(shadow(lb).state, 'on')
    })
  }
})

describe('every placer that is shipped', () => {
  const runners = []
  before(async () => {
    for (let i = 0; i < 2; i++) runners.push(await startRunner({ name: `runner${i}` }))
  })
  after(() => Promise.all(runners.map((r) => r.stop())))

  const shadows = ['ch', 'p2c', 'chbl', 'first', 'hybrid', '[p2c, { use: slowstart, inner: p2c }]']
  for (const use of shadows) {
    it(`is a shadow and then serves: ${use}`, async (t) => {
      const lb = await startLb({
        addresses: runners.map((r) => `127.0.0.1:${r.grpcPort}`),
        plugins: `shadow: ${use}`,
        functions: { hello: {} },
      })
      t.after(() => lb.stop())
      await until('both runners are up', async () => (await lb.metric('fn_lb_runners_up')) === 2)
      const calls = async (n) => {
        for (let i = 0; i < n; i++) assert.equal((await invoke(lb, fnId('hello'))).status, 200)
      }
      await calls(40)
      const s = shadow(lb)
      assert.equal(s.state, 'on')
      assert.equal(s.asked, 40)
      assert.equal(s.agree + s.disagree, 40)
      assert.equal(s.answers.find((a) => a.shadow === 'try')?.n, 40)
      const swapped = shadow(lb, 'swap')
      assert.equal(swapped.serving, s.shadow)
      await calls(40)
      const answer = await invoke(lb, fnId('hello'))
      const why = JSON.parse(fnd(lb, 'why', '--json', answer.headers['fn-call-id']).stdout)
      assert.equal(why.placer, s.shadow)
      assert.ok(why.tries[0].note, 'it says why in its note')
      assert.equal(shadow(lb).asked, 41)
    })
  }
})

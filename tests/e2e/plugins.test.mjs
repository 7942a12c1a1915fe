// The example plugins as a chain: an overrider of the load balancer gives calls an extension, the
// runner's outer driver makes an environment variable of it. And plugins that say no.
import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke, request } from './lib/http.mjs'
import { build, until } from './lib/node.mjs'

const functions = { echo: { triggers: ['/echo'] }, hello: {}, misbehave: {}, sleeper: {} }
const driver = `driver:
  - { use: process, root: ${path.join(build, 'functions')} }
  - { use: env, inner: process, extension: colour, variable: FN_COLOUR }`
const veto = path.join(build, 'tests/plugins/veto.so')

// -> { container, value } of the environment variable that the function sees.
async function seen(lb, headers = {}) {
  const answer = await invoke(lb, fnId('echo'), '', { 'Echo-Env': 'FN_COLOUR', ...headers })
  assert.equal(answer.status, 200, answer.text)
  const [container, value] = answer.text.trim().split(' ')
  return { container, value }
}

describe('overrider, driver and listener of the examples', () => {
  let runner
  let lb
  before(async () => {
    runner = await startRunner({ driver, runner: 'freeze_idle: never' })
    lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions, plugins: `
overriders:
  - { use: tag, key: colour, header: Colour }
listeners: [count]` })
  })
  after(async () => {
    await lb?.stop()
    await runner?.stop()
  })

  it('the function sees the value, through invoke and trigger', async () => {
    assert.equal((await seen(lb, { Colour: 'green' })).value, 'green')
    assert.equal((await seen(lb)).value, '-', 'a call without the header has no variable')
    const answer = await request(lb.url('/t/demo/echo'), { method: 'POST', body: 'x', headers: { 'Echo-Env': 'FN_COLOUR', Colour: 'green' } })
    assert.equal(answer.status, 200, answer.text)
  })

  it('calls with different values never share a container, those with the same do', async () => {
    const colours = ['red', 'blue', undefined, 'a=b;c', 'red ']
    const containers = new Map()
    for (let round = 0; round < 3; round++) {
      const all = await Promise.all(colours.flatMap((colour) => [1, 2, 3].map(async () => {
        const got = await seen(lb, colour === undefined ? {} : { Colour: colour })
        return { ...got, colour }
      })))
      for (const { container, value, colour } of all) {
        assert.equal(value, colour?.trim() ?? '-')
        assert.equal(containers.get(container) ?? value, value, `container ${container} met two values`)
        containers.set(container, value)
      }
    }
    const first = await seen(lb, { Colour: 'violet' })
    assert.deepEqual(await seen(lb, { Colour: 'violet' }), first, 'a hot container is used again')
  })

  it('the listener counts every call once', async () => {
    const read = () => Promise.all(['started', 'ok', 'failed'].map((n) => lb.metric(`fn_plugin_listener_count_${n}`)))
    const [started, ok, failed] = await read()
    await Promise.all(Array.from({ length: 10 }, () => invoke(lb, fnId('hello'))))
    await Promise.all(Array.from({ length: 3 }, () => invoke(lb, fnId('misbehave'), 'crash')))
    await invoke(lb, 'nope')
    assert.deepEqual(await read(), [started + 13, ok + 10, failed + 3])
  })
})

describe('plugins that say no', () => {
  let runner
  let lb
  before(async () => {
    runner = await startRunner()
    lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions, plugins: `
overriders:
  - { use: tag, key: tag, value: always }
  - { use: veto, file: ${veto} }
listeners:
  - count
  - { use: veto, file: ${veto}, fn_id: ${fnId('sleeper')} }` })
  })
  after(async () => {
    await lb?.stop()
    await runner?.stop()
  })

  for (const status of [403, 409, 429, 503]) {
    it(`an overrider's ${status} reaches the client with its sentence, and nothing ran`, async () => {
      const calls = await runner.metric('fn_runner_calls_received_total')
      const answer = await invoke(lb, fnId('hello'), '', { Veto: String(status) })
      assert.equal(answer.status, status, answer.text)
      assert.match(answer.text, new RegExp(`vetoed with ${status}`))
      assert.equal(answer.headers['fn-outcome'], 'not-executed')
      assert.equal(await runner.metric('fn_runner_calls_received_total'), calls)
      assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    })
  }

  it('an impossible status of a plugin becomes an error of the platform', async () => {
    for (const status of ['200', '7', '100000', '-1']) {
      const answer = await invoke(lb, fnId('hello'), '', { Veto: status })
      assert.ok(answer.status >= 400 && answer.status <= 599, `${status} became ${answer.status}`)
    }
  })

  it('a listener refuses a call before anything ran; those before it hear of the end', async () => {
    const failed = await lb.metric('fn_plugin_listener_count_failed')
    const answer = await invoke(lb, fnId('sleeper'), '0')
    assert.equal(answer.status, 403, answer.text)
    assert.match(answer.text, /not on my watch/)
    assert.equal(answer.headers['fn-outcome'], 'not-executed')
    assert.equal(await lb.metric('fn_plugin_listener_count_failed'), failed + 1)
  })
})

describe('placer ch', () => {
  it('keeps one function on one runner', async () => {
    const runners = [await startRunner(), await startRunner(), await startRunner()]
    const lb = await startLb({ addresses: runners.map((r) => `127.0.0.1:${r.grpcPort}`), functions, placer: '{ use: ch }' })
    await until('all are connected', async () => (await lb.metric('fn_lb_runners_up')) === 3)
    for (const name of ['hello', 'echo', 'sleeper']) {
      const before = await Promise.all(runners.map((r) => r.metric('fn_runner_calls_received_total')))
      for (let i = 0; i < 10; i++) assert.equal((await invoke(lb, fnId(name), '0')).status, 200)
      const now = await Promise.all(runners.map((r) => r.metric('fn_runner_calls_received_total')))
      assert.deepEqual(now.map((n, i) => n - before[i]).sort((a, b) => a - b), [0, 0, 10], name)
    }
    await lb.stop()
    await Promise.all(runners.map((r) => r.stop()))
  })
})

// What plugins of every kind answer is looked at before it is believed (E15): each wrong answer is
// counted, the first is told with the name of the plugin and of the call, and the node goes on.
import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { Fnd, build, freePort, until } from './lib/node.mjs'

const functions = { hello: {} }
const evil = (kind) => `{ use: e15, file: ${path.join(build, `tests/plugins/evil/e15_${kind}.so`)} }`
const started = []
let runner

const keep = (node) => (started.push(node), node)
const statuses = async (lb, n) => {
  const out = []
  for (let i = 0; i < n; i++) out.push((await invoke(lb, fnId('hello'))).status)
  return out
}

// All of them are counted, the first is told, the node still answers and ends as it should.
async function counted(node, kind, n, first) {
  const count = async () => (await node.metrics()).get(`fn_plugin_bad_answers{plugin="e15",kind="${kind}"}`) ?? 0
  await until(`${n} bad answers`, async () => await count() >= n, 20_000)
  assert.equal(await count(), n)
  assert.match(node.log, new RegExp(`level=warning msg="plugin gave a bad answer" plugin=e15 kind=${kind} what="${first}"`))
  assert.deepEqual(await node.stop(), { code: 0, signal: null })
}

before(async () => { runner = await startRunner() })
after(() => Promise.all([...started, runner].map((n) => n?.exit ?? n?.stop())))

describe('bad answers', { concurrency: false }, () => {
  for (const [section, kind, first] of [
    ['overriders', 'overrider', 'apply: result, got 2; expected 0, a documented outcome or FN_E_\\*'],
    ['listeners', 'listener', 'before: result, got 2; expected 0 or FN_E_\\*']]) {
    const plugins = `${section}: [${evil(kind === 'overrider' ? 'override' : kind)}]`

    it(`${kind} of a load balancer`, async () => {
      const lb = keep(await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions, plugins }))
      assert.deepEqual(await statuses(lb, 4), [500, 500, 400, 200])
      await counted(lb, kind, 6, first)
    })

    it(`${kind} of a runner`, async () => {
      const mine = keep(await startRunner({ plugins }))
      const lb = keep(await startLb({ addresses: [`127.0.0.1:${mine.grpcPort}`], functions }))
      assert.deepEqual(await statuses(lb, 4), [500, 500, 400, 200])
      await lb.stop()
      await counted(mine, kind, 6, first)
    })
  }

  it('driver', async () => {
    const driver = `driver:\n  - { use: process, root: ${path.join(build, 'functions')} }\n  - ${evil('driver')}`
    const mine = keep(await startRunner({ driver }))
    // With an overrider no slot hash id is sent, so that the driver is asked for its part of the key.
    const plugins = `overriders: [{ use: veto, file: ${path.join(build, 'tests/plugins/veto.so')} }]`
    const lb = keep(await startLb({ addresses: [`127.0.0.1:${mine.grpcPort}`], functions, plugins, lb: 'placement_timeout: 500ms' }))
    const told = await statuses(lb, 7)
    assert.equal(told.pop(), 200, `at last it works: ${told}`)
    assert.deepEqual(told.filter((s) => s < 400), [], 'what failed is no success')
    assert.doesNotMatch(mine.log, /v{64}/, 'a version without end is none')
    await lb.stop()
    await counted(mine, 'driver', 12, 'probe: its text has no end within 64 bytes')
  })

  it('pool', async () => {
    const lb = keep(await startLb({ functions, pool: evil('pool'), lb: 'placement_timeout: 50ms' }))
    assert.deepEqual(await statuses(lb, 3), [503, 503, 503])
    assert.equal(await lb.metric('fn_lb_runners'), 1)
    await counted(lb, 'pool', 12, 'fn.snap.begin: no group name')
  })

  const startNpm = async (plugins, npm) => {
    const port = await freePort()
    return keep(await Fnd.start('npm', port, `
node: npm
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${await freePort()}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { ${plugins} }
npm: { settle: 0s, poll: 50ms, backoff_max: 1s, ${npm} }
`))
  }
  it('control plane', async () => {
    const npm = await startNpm(`control_plane: ${evil('cplane')}`, 'runners_min: 3')
    await counted(npm, 'control-plane', 18, 'list: not a machine of ABI 1\\.0')
    assert.match(npm.log, /a machine that cannot be used.*id=bad-state/)
    assert.match(npm.log, /the control plane failed.*call=provision.*error="accepted 3 of 2 machines"/)
  })

  it('predictor', async () => {
    const npm = await startNpm(`control_plane: { use: fixed, addresses: ["127.0.0.1:1"] }, predictor: ${evil('predictor')}`, 'runners_min: 1')
    await counted(npm, 'predictor', 4, 'predict: got 18446744073709551615 MB; expected at most 17592186044416')
  })
})

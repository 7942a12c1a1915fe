// Elastic pools: no runners at the start; calls make the node pool manager rent them, silence makes
// it give them back. The ledger proves that no call is lost and none runs twice.
import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, readlinkSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { Ledger, fnId } from './lib/cluster.mjs'
import { Elastic } from './lib/elastic.mjs'
import { invoke } from './lib/http.mjs'
import { build, tempDir, until } from './lib/node.mjs'

const ROUNDS = process.env.FND_LONG ? 50 : 2

function withLedger(config = {}) {
  const ledger = new Ledger()
  return { ledger, functions: { ledger: { memory: 128, config: { LEDGER_FILE: ledger.file, ...config } }, hello: { memory: 128, config } } }
}

function assertOnce(ledger, answers) {
  for (const a of answers) assert.equal(a.status, 200, a.text)
  const calls = [...ledger.read().values()]
  assert.equal(calls.length, answers.length)
  for (const c of calls) assert.deepEqual([c.starts, c.ends], [1, 1])
}

test('elastic pools', async (t) => {
  await t.test(`${ROUNDS} rounds from nothing to runners and back: 0 calls lost, 0 doubled`, async () => {
    const { ledger, functions } = withLedger()
    const e = await Elastic.start({ lbs: 2, functions })
    try {
      const answers = []
      for (let round = 0; round < ROUNDS; round++) {
        assert.deepEqual(await e.states(), {})
        // 5 calls of 128 MB at a time need 3 runners of 256 MB.
        const calls = Array.from({ length: 5 }, (_, i) => invoke(e.lbs[i % 2], fnId('ledger'), `1500 ${round}-${i}`))
        await until('three runners are active', async () => (await e.states()).active === 3, 20_000)
        answers.push(...await Promise.all(calls))
        await until('all runners are given back', async () => Object.keys(await e.states()).length === 0, 30_000)
      }
      assertOnce(ledger, answers)
      assert.equal(await e.npm.metric('fn_npm_drain_losses'), 0)
      assert.doesNotMatch(e.npm.log, /runner connected/, 'a line for each of its questions to a runner')
      assert.ok(await e.npm.metric('fn_npm_provision_latency_count') >= 3 * ROUNDS)
      const waits = await Promise.all(e.lbs.map((lb) => lb.metric('fn_lb_new_runner_latency_count')))
      assert.deepEqual(waits, waits.map(() => ROUNDS))
    } finally {
      await e.stop()
    }
  })

  await t.test('F21, F24: a manager that dies under load costs no call, and buys no second fleet when it is back', async () => {
    const { ledger, functions } = withLedger()
    const e = await Elastic.start({ functions })
    try {
      const answers = [await invoke(e.lbs[0], fnId('ledger'), '0 first')]
      const before = e.pids()
      await e.npm.kill()
      const end = Date.now() + 3000
      while (Date.now() < end) answers.push(await invoke(e.lbs[0], fnId('ledger'), '20 alone'))
      await e.npm.start()
      const back = Date.now() + 3000
      while (Date.now() < back) answers.push(await invoke(e.lbs[0], fnId('ledger'), '20 back'))
      assertOnce(ledger, answers)
      assert.deepEqual(e.pids(), before)
      assert.equal((await e.states()).active, 1)
    } finally {
      await e.stop()
    }
  })

  await t.test('a manager whose program was replaced starts runners of the new one', async () => {
    const { functions } = withLedger()
    const program = path.join(tempDir(), 'fnd')
    copyFileSync(path.join(build, 'fnd'), program)
    symlinkSync(path.join(build, 'transports'), path.join(path.dirname(program), 'transports')) // for FND_TRANSPORT
    copyFileSync(path.join(build, 'fnd-plugprobe'), path.join(path.dirname(program), 'fnd-plugprobe'))
    const cplane = (e) => `{ use: process, state: ${e.state}, base: ${e.base}, capacity: 256 }`
    const e = await Elastic.start({ functions, program, cplane })
    try {
      copyFileSync(path.join(build, 'fnd'), `${program}.new`)
      renameSync(`${program}.new`, program)
      assert.match(readlinkSync(`/proc/${e.npm.pid}/exe`), / \(deleted\)$/)
      assert.equal((await invoke(e.lbs[0], fnId('hello'), '{}')).status, 200)
      assert.equal(readlinkSync(`/proc/${e.pids()[0]}/exe`), program)
    } finally {
      await e.stop()
    }
  })

  await t.test('a runner that dies is replaced', async () => {
    const { functions } = withLedger()
    const e = await Elastic.start({ functions, npm: '  runners_min: 1' })
    try {
      await until('the smallest pool is there', async () => (await e.states()).active === 1, 20_000)
      const [pid] = e.pids()
      process.kill(pid, 'SIGKILL')
      await until('another one came', async () => e.pids().some((p) => p !== pid) && (await e.states()).active === 1, 20_000)
      assert.equal((await invoke(e.lbs[0], fnId('hello'), '{}')).status, 200)
    } finally {
      await e.stop()
    }
  })

  await t.test('a reload changes what the manager goes by; what it has memory for is refused', async () => {
    const { functions } = withLedger()
    const e = await Elastic.start({ functions, npm: '  runners_min: 0' })
    try {
      assert.deepEqual(await e.states(), {})
      const edit = (from, to) => writeFileSync(`${e.npm.dir}/fn.yaml`, readFileSync(`${e.npm.dir}/fn.yaml`, 'utf8').replace(from, to))
      edit('runners_min: 0', 'runners_min: 2')
      await e.cli('reload')
      await until('the new minimum is there', async () => (await e.states()).active === 2, 20_000)
      edit('group_runners_max: 4', 'group_runners_max: 5')
      await assert.rejects(e.cli('reload'), (x) => x.code === 78 && /npm.group_runners_max cannot change/.test(x.stdout + x.stderr))
    } finally {
      await e.stop()
    }
  })

  await t.test('an operator drains a runner, sees it empty, and takes it back', async () => {
    const { functions } = withLedger()
    const e = await Elastic.start({ functions, npm: '  runners_min: 1' })
    try {
      await until('the smallest pool is there', async () => (await e.states()).active === 1, 20_000)
      const [{ id }] = (await e.runners()).runners
      const running = invoke(e.lbs[0], fnId('ledger'), '1500 running')
      await until('it runs', async () => (await e.lbs[0].metric('fn_lb_placer_placed_ok_count')) === 0 && (await e.lbs[0].metric('fn_lb_runners_up')) > 0)
      await e.cli('runners', 'drain', id)
      assert.equal((await running).status, 200)
      await until('it is empty and replaced', async () => {
        const { runners } = await e.runners()
        const drained = runners.find((r) => r.id === id)
        return drained.operator_drain && drained.empty && drained.active === 0 && runners.some((r) => r.state === 'active')
      }, 20_000)
      assert.match(await e.npm.ask('runners', 'list'), /drained, empty/)
      await e.cli('runners', 'undrain', id)
      assert.equal((await e.runners()).runners.find((r) => r.id === id).state, 'active')
      await assert.rejects(e.cli('runners', 'drain', 'nobody'), /runner, got \\?"nobody\\?"; expected the id of a runner/)
    } finally {
      await e.stop()
    }
  })

  await t.test('groups do not share runners; an unknown group allocates nothing', async () => {
    const ledger = new Ledger()
    const functions = {
      hello: { memory: 128 },
      other: { image: 'hello', memory: 128, config: { FN_LB_GROUP_ID: 'blue' } },
      stray: { image: 'hello', memory: 128, config: { FN_LB_GROUP_ID: 'nobody-knows' } },
    }
    const e = await Elastic.start({ functions, groups: ['default', 'blue'] })
    try {
      assert.equal((await invoke(e.lbs[0], fnId('hello'), '{}')).status, 200)
      const stray = invoke(e.lbs[0], fnId('stray'), '{}').catch(() => {})
      await until('the manager objects', () => e.lbs[0].log.includes('NPM502'))
      // A group behind the unknown one gets its runners too.
      assert.equal((await invoke(e.lbs[0], fnId('other'), '{}')).status, 200)
      const { runners, groups } = await e.runners()
      assert.deepEqual(groups.map((g) => g.name), ['default', 'blue'])
      assert.equal(new Set(runners.map((r) => `${r.group} ${r.address}`)).size, runners.length)
      for (const g of ['default', 'blue']) assert.ok(runners.some((r) => r.group === g))
      assert.equal((await e.runners()).groups.length, 2)
      assert.ok(!e.lbs[0].log.includes('the pool failed'), e.lbs[0].log)
      // Told once, not with each word about demand.
      assert.equal(e.lbs[0].log.match(/NPM502/g).length, 1)
      await e.lbs[0].stop()
      await stray
    } finally {
      await e.stop()
    }
    assert.equal(ledger.read().size, 0)
  })

  await t.test('the protocol of 2018 does as well', async () => {
    const { functions } = withLedger()
    const e = await Elastic.start({ functions, pool: ', protocol: historic' })
    try {
      assert.equal((await invoke(e.lbs[0], fnId('hello'), '{}')).status, 200)
    } finally {
      await e.stop()
    }
  })
})

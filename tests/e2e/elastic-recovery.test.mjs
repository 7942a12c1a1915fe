// Recovery is as good as running: load balancers and managers that start anew, runners that do not live,
// what an operator wants of a runner, and a roll to a new version under load.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { test } from 'node:test'
import { Ledger, fnId, startLb } from './lib/cluster.mjs'
import { Elastic } from './lib/elastic.mjs'
import { invoke } from './lib/http.mjs'
import { build, until } from './lib/node.mjs'

function withLedger() {
  const ledger = new Ledger()
  return { ledger, functions: { ledger: { memory: 128, config: { LEDGER_FILE: ledger.file } }, hello: { memory: 128 } } }
}

const fnd = (...args) => promisify(execFile)(path.join(build, 'fnd'), args)
const pause = (ms) => new Promise((r) => setTimeout(r, ms))
const listed = async (e, id) => (await e.runners()).runners.find((r) => r.id === id)

test('recovery of elastic pools', async (t) => {
  await t.test('F28: of two managers of one group and one control plane one acts; the other says which, and takes over when it dies', async () => {
    const { functions } = withLedger()
    const e = await Elastic.start({ functions })
    const rival = await e.rival(functions)
    const says = (node, of) => new RegExp(`this manager stands by" group=default reason="another manager \\(pid ${of.pid}\\) has group default`).test(node.log)
    try {
      await until('the second says who acts', () => says(rival.npm, e.npm))
      const call = invoke(rival.lb, fnId('hello'), '{}')
      await until('its load balancer hears why it waits', () => /calls wait for runners; .*another manager acts for this group/.test(rival.lb.log))
      assert.equal(e.pids().length, 0)
      for (let i = 0; i < 8; i++) { // beyond the cool-down: what the first one needs is not surplus to the second
        assert.equal((await invoke(e.lbs[0], fnId('hello'), '{}')).status, 200)
        await pause(300)
      }
      assert.equal((await call).status, 200) // by the runner that the first one has made
      assert.equal((await invoke(rival.lb, fnId('hello'), '{}')).status, 200)
      assert.equal(e.pids().length, 1)
      assert.equal(await rival.npm.metric('fn_npm_standby{group="default"}'), 1)
      const [{ id }] = (await rival.runners()).runners
      await assert.rejects(rival.cli('runners', 'drain', id), /another manager acts for it/)
      await e.npm.kill()
      await until('the second acts', () => rival.npm.log.includes('this manager acts: no other one does any more'))
      await until('it removes what nobody needs', () => e.pids().length === 0, 30_000)
      assert.equal((await invoke(rival.lb, fnId('hello'), '{}')).status, 200)
      await e.npm.start()
      await until('the first one says who acts now', () => says(e.npm, rival.npm))
    } finally {
      await rival.stop()
      await e.stop()
    }
  })

  await t.test('F120: a load balancer that starts anew under its lb_id is heard at once', async () => {
    const { functions } = withLedger()
    const e = await Elastic.start({ functions, npm: '  demand_life: 120s', pool: ', lb_id: lb-1' })
    try {
      assert.equal((await invoke(e.lbs[0], fnId('hello'), '{}')).status, 200)
      await until('the pool is at zero', async () => (await e.runners()).runners.length === 0, 30_000)
      await e.lbs[0].kill()
      await e.lbs[0].start()
      assert.equal((await invoke(e.lbs[0], fnId('hello'), '{}')).status, 200) // 503 after 30 s otherwise
    } finally {
      await e.stop()
    }
  })

  await t.test('F120: a load balancer whose pool is made anew by a reload is heard at once', async () => {
    const { functions } = withLedger()
    const e = await Elastic.start({ functions, npm: '  demand_life: 120s', pool: ', lb_id: lb-1' })
    try {
      assert.equal((await invoke(e.lbs[0], fnId('hello'), '{}')).status, 200)
      await until('the pool is at zero', async () => (await e.runners()).runners.length === 0, 30_000)
      const file = path.join(e.lbs[0].dir, 'fn.yaml')
      // So that its words are not as many as the last pool's within the test.
      writeFileSync(file, readFileSync(file, 'utf8').replace('interval: 200ms', 'interval: 5s'))
      await fnd('reload', '--config', file)
      assert.equal((await invoke(e.lbs[0], fnId('hello'), '{}')).status, 200) // 503 after 30 s otherwise
    } finally {
      await e.stop()
    }
  })

  await t.test('F121: two load balancers with one lb_id are told, and both get runners', async () => {
    const { functions } = withLedger()
    const e = await Elastic.start({ lbs: 2, functions, pool: ', lb_id: lb-1' })
    try {
      await until('the manager tells', () => /load balancers with the same lb_id: each must have its own.*id=lb-1 lbs=2/.test(e.npm.log))
      for (const lb of e.lbs) await until('each of them is told', () => lb.log.includes('NPM508 lb_id'))
      await until('the metric tells', async () => (await e.npm.metric('fn_npm_lbs_twice{group="default"}')) === 1)
      for (const lb of e.lbs) assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200)
    } finally {
      await e.stop()
    }
  })

  await t.test('F122: runners that end before they are listed are told with their last line, and stall nothing', async () => {
    const { functions } = withLedger()
    const e = await Elastic.start({ functions })
    try {
      const good = readFileSync(e.base, 'utf8')
      writeFileSync(e.base, good.replace('memory_total', 'memory_totl'))
      const call = invoke(e.lbs[0], fnId('hello'), '{}')
      await until('the manager tells why', () => /ended by itself; the last line of its log: .*memory_totl/.test(e.npm.log), 20_000)
      await until('it pauses', () => e.npm.log.includes('new runner did not live: a pause before more are asked for'))
      writeFileSync(e.base, good)
      assert.equal((await call).status, 200) // 503 and five minutes of nothing otherwise
      assert.match(e.lbs[0].log, /calls wait for runners; the manager says of group: default: \d+ MB wanted by 1 load balancer, 0 MB active/)
      assert.match(e.npm.log, /asking for runners" group=default runners=1 request=[0-9a-f]+ wanted_mb=\d+ desired_mb=\d+/)
      assert.ok(!/ value=/.test(e.npm.log), e.npm.log)
    } finally {
      await e.stop()
    }
  })

  await t.test('F123: what an operator drained stays drained when the manager is killed, until the operator says otherwise', async () => {
    const { functions } = withLedger()
    const e = await Elastic.start({ functions, npm: '  runners_min: 1' })
    try {
      await until('the smallest pool is there', async () => (await e.states()).active === 1, 20_000)
      const [{ id }] = (await e.runners()).runners
      await e.cli('runners', 'drain', id)
      await until('it is replaced', async () => (await e.states()).active === 1, 20_000)
      await e.npm.kill()
      await e.npm.start()
      await until('the manager has learnt', async () => (await e.runners()).groups.every((g) => g.settled))
      assert.equal((await listed(e, id)).operator_drain, true)
      assert.equal((await listed(e, id)).state, 'draining')
      const other = (await e.runners()).runners.find((r) => r.id !== id)
      await assert.rejects(e.cli('runners', 'undrain', other.id), /is not drained, it is/)
      await e.cli('runners', 'remove', id)
      await until('it is gone', async () => !(await listed(e, id)), 20_000)
      assert.equal((await invoke(e.lbs[0], fnId('hello'), '{}')).status, 200)
    } finally {
      await e.stop()
    }
  })

  await t.test('F124: a runner with calls is not removed, unless the operator insists', async () => {
    const { functions } = withLedger()
    const e = await Elastic.start({ functions, npm: '  runners_min: 1' })
    try {
      await until('the smallest pool is there', async () => (await e.states()).active === 1, 20_000)
      const [{ id }] = (await e.runners()).runners
      const running = invoke(e.lbs[0], fnId('ledger'), '4000 running')
      await e.cli('runners', 'drain', id) // the manager asks a draining one each second
      await until('its call is known', async () => (await listed(e, id)).active === 1)
      await assert.rejects(e.cli('runners', 'remove', id), /runs 1 calls; drain it first, or say --force/)
      await e.cli('runners', 'remove', '--force', id)
      await until('it is gone', async () => !(await listed(e, id)), 20_000)
      assert.match(e.npm.log, /runner removed with running calls.*calls=1/)
      await running
    } finally {
      await e.stop()
    }
  })

  await t.test('F125: ids are of one group only; a load balancer says where runners are listed', async () => {
    const functions = { hello: { memory: 128 }, other: { image: 'hello', memory: 128, config: { FN_LB_GROUP_ID: 'blue' } } }
    const e = await Elastic.start({ functions, groups: ['default', 'blue'], npm: '  runners_min: 1' })
    try {
      await until('both have a runner', async () => (await e.states()).active === 1 && (await e.states('blue')).active === 1, 20_000)
      const { runners, groups } = await e.runners()
      assert.equal(new Set(runners.map((r) => r.id)).size, runners.length)
      assert.match(groups[0].says, /MB wanted by \d load balancers?, 256 MB active/)
      const blue = runners.find((r) => r.group === 'blue')
      await e.cli('runners', 'drain', `blue/${blue.id}`)
      assert.deepEqual((await e.runners()).runners.filter((r) => r.operator_drain).map((r) => r.id), [blue.id])
    } finally {
      await e.stop()
    }
  })

  await t.test('F126: a roll replaces every runner under load, one at a time, and no call is lost', async () => {
    const { ledger, functions } = withLedger()
    const e = await Elastic.start({ functions, npm: '  runners_min: 2' })
    try {
      await until('the smallest pool is there', async () => (await e.states()).active === 2, 20_000)
      const before = (await e.runners()).runners.map((r) => r.id)
      const answers = []
      let rolling = true
      const clients = Array.from({ length: 4 }, async () => {
        while (rolling) answers.push(await invoke(e.lbs[0], fnId('ledger'), '30 rolling'))
      })
      let least = 2
      const watch = (async () => { while (rolling) least = Math.min(least, (await e.states()).active ?? 0) })()
      await assert.rejects(e.cli('runners', 'roll', '--group', 'defalt'), (x) => x.code === 69 &&
        x.stderr === 'fnd: group, got "defalt"; expected one of `fnd runners list`; did you mean "default"?\n')
      const { stdout } = await e.cli('runners', 'roll', '--at-most', '1')
      rolling = false
      await Promise.all([...clients, watch])
      assert.equal(JSON.parse(stdout).replaced, before.length)
      const after = (await e.runners()).runners
      assert.ok(after.filter((r) => r.state === 'active').length >= 2)
      assert.ok(!after.some((r) => before.includes(r.id)))
      assert.equal(least, 2)
      assert.ok(answers.length > 20)
      for (const a of answers) assert.equal(a.status, 200, a.text)
      const calls = [...ledger.read().values()]
      assert.equal(calls.length, answers.length)
      for (const c of calls) assert.deepEqual([c.starts, c.ends], [1, 1])
    } finally {
      await e.stop()
    }
  })
})

// A runner that said "empty" as soon as its caller was gone was taken away with the call on it.
test('a detached call whose load balancer died is work: its runner is not removed before it ended', async () => {
  const { ledger, functions } = withLedger()
  const e = await Elastic.start({ functions })
  try {
    assert.equal((await invoke(e.lbs[0], fnId('ledger'), '5000 detached', { 'Fn-Invoke-Type': 'detached' })).status, 202)
    await until('it runs', () => ledger.read().size === 1)
    const [{ id }] = (await e.runners()).runners
    await e.lbs[0].kill()
    await e.cli('runners', 'remove', id)
    let early = false
    await until('the runner goes', async () => {
      const runner = await listed(e, id)
      early ||= runner?.state !== 'draining' && [...ledger.read().values()][0].ends === 0
      return !runner
    }, 20_000)
    assert.ok(!early, 'its removal was not ordered before the function ended')
    const [call] = [...ledger.read().values()]
    assert.deepEqual([call.starts, call.ends], [1, 1])
    assert.equal(await e.npm.metric('fn_npm_drain_losses'), 0)
  } finally {
    await e.stop()
  }
})

test('a node that is no manager says where runners are', async () => {
  const lb = await startLb({ functions: { hello: { memory: 128 } }, addresses: ['127.0.0.1:1'] })
  try {
    await assert.rejects(fnd('runners', '--config', `${lb.dir}/fn.yaml`, 'list'),
      /this node is of type lb, and a node pool manager has the list of runners/)
  } finally {
    await lb.stop()
  }
})

// Faults of elastic pools: a manager that fails, hangs or lies, a control plane that does, and a load
// balancer that is cut off. What must hold stands in docs/elastic-pools.md.
import assert from 'node:assert/strict'
import { readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { Ledger, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { Scripted } from './lib/cplane.mjs'
import { Elastic } from './lib/elastic.mjs'
import { Client, FakeManager, demand, membership, message } from './lib/grpc.mjs'
import { invoke } from './lib/http.mjs'
import { build, tempDir, until } from './lib/node.mjs'
import { Proxy } from './lib/proxy.mjs'

const functions = { hello: { memory: 128 } }
const fds = (node) => readdirSync(`/proc/${node.pid}/fd`).length
const pause = (ms) => new Promise((r) => setTimeout(r, ms))

// Calls one after the other while cond() is not yet true; the number of those that failed.
async function failedUntil(lb, what, cond, timeoutMs = 10_000) {
  let failed = 0
  let done = false
  const load = (async () => {
    while (!done) failed += (await invoke(lb, fnId('hello'), '{}')).status !== 200
  })()
  try {
    await until(what, cond, timeoutMs)
  } finally {
    done = true
    await load
  }
  return failed
}

test('a manager that fails, hangs or lies', async (t) => {
  let runner, fake, lb
  const one = () => ({ id: 'r-1', address: `127.0.0.1:${runner.grpcPort}` })
  const ok = async () => assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200)
  const epochs = () => lb.log.match(/runners published/g)?.length ?? 0

  before(async () => {
    runner = await startRunner()
    fake = await FakeManager.start()
    lb = await startLb({ functions, pool: `{ use: npm, address: "127.0.0.1:${fake.port}", interval: 50ms, timeout: 500ms }` })
    fake.publish(membership({ epoch: 50, version: 10, members: [one()] }))
    await until('the runner is there', async () => (await lb.metric('fn_lb_runners_up')) === 1)
  })
  after(async () => {
    await lb.stop()
    await fake.stop()
    await runner.stop()
  })

  await t.test('F22: an error to the membership call leaves the list as it is', async () => {
    fake.refuseWatch = 13
    fake.cut()
    assert.equal(await failedUntil(lb, 'it asked three times', () => fake.refused >= 3), 0)
    fake.refuseWatch = 0
    await until('it watches again', () => fake.watches.size === 1)
    await ok()
  })

  await t.test('F26: older epochs and versions are dropped', async () => {
    fake.publish(membership({ epoch: 50, version: 10, members: [one()] }), { keep: false })
    const known = epochs()
    for (const [epoch, version] of [[50, 9], [50, 10], [49, 99], [0, 0]]) {
      fake.publish(membership({ epoch, version, members: [] }), { keep: false })
    }
    // What comes after them on the same stream says that they were read.
    fake.publish(membership({ epoch: 50, version: 11, members: [one()] }))
    await until('the newer list is there', () => epochs() > known)
    assert.equal(epochs(), known + 1)
    await ok()
  })

  await t.test('garbage, broken and wrong lists change nothing, usable members of bad ones are used', async () => {
    const known = epochs()
    const good = membership({ epoch: 50, version: 20, members: [one()] })
    const bad = [
      Buffer.from('\xff\xff\xff\xff\xff', 'latin1'), good.subarray(0, good.length - 3), Buffer.alloc(100_000, 0x22),
      membership({ epoch: 50, version: 21, group: 'g'.repeat(300), members: [] }),
      membership({ epoch: 50, version: 21, group: 'nobody', members: [] }),
      membership({ epoch: 50, version: 21, members: [{ id: '', address: '127.0.0.1:1' }] }),
      membership({ epoch: 50, version: 21, members: [{ id: 'x'.repeat(300), address: '127.0.0.1:1' }] }),
    ]
    for (const b of bad) fake.publish(b, { keep: false })
    fake.publish(membership({ epoch: 50, version: 22, members: [
      { id: 'bad', address: 'a b:1' },
      one(), one(), { id: 'twin', address: one().address, mb: 2n ** 64n - 1n },
    ] }))
    await until('the last list is there', () => epochs() > known)
    await ok()
    assert.ok(!lb.exit)
  })

  await t.test('F25: an empty list after a full one costs no call', async () => {
    const members = [one(), { ...one(), id: 'r-2' }, { ...one(), id: 'r-3' }]
    fake.publish(membership({ epoch: 60, version: 1, members }))
    await until('three runners', async () => (await lb.metric('fn_lb_runners_up')) === 3)
    const known = epochs()
    fake.publish(membership({ epoch: 60, version: 2, members: [] }))
    fake.publish(membership({ epoch: 60, version: 3, members: [one()] }))
    assert.equal(await failedUntil(lb, 'both were read', () => epochs() >= known + 2), 0)
    assert.equal(await lb.metric('fn_lb_runners_up'), 3)
  })

  await t.test('a list of 5 000 members and one beyond the size of a message', async () => {
    const many = Array.from({ length: 5_000 }, (_, i) => ({ id: `m${i}`, address: `127.0.0.1:${runner.grpcPort}` }))
    fake.publish(membership({ epoch: 70, version: 1, members: [one(), ...many] }), { keep: false })
    await until('the stream is given up or the list taken', () => fake.watches.size === 1)
    fake.publish(membership({ epoch: 70, version: 2, members: [one()] }))
    await ok()
    const before = fake.watches.values().next().value
    fake.publish(Buffer.alloc(8 << 20, 0x22), { keep: false })
    await until('it watches anew', () => fake.watches.size === 1 && fake.watches.values().next().value !== before)
    await ok()
  })
})

test('F23: a manager that hangs for a while piles up nothing, no call fails', async () => {
  const e = await Elastic.start({ functions, pool: ', timeout: 300ms', npm: '  runners_min: 1\n  demand_life: 2s' })
  const [lb] = e.lbs
  try {
    assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200)
    await pause(500)
    const before = { fds: fds(lb), rss: lb.rssKiB() }
    e.npm.signal('SIGSTOP')
    const end = Date.now() + 4000
    let most = 0
    const failed = await failedUntil(lb, 'four seconds', () => {
      most = Math.max(most, fds(lb))
      return Date.now() > end
    })
    assert.equal(failed, 0)
    assert.ok(most <= before.fds + 8, `${before.fds} file descriptors, then ${most}`)
    assert.ok(lb.rssKiB() < before.rss + 8192, `${before.rss} KiB, then ${lb.rssKiB()}`)
    e.npm.signal('SIGCONT')
    // It learns again; its runner lives on.
    await until('demand is told again', async () => (await e.npm.metric('fn_npm_lbs')) === 1 && (await e.states()).active >= 1)
    assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200)
    assert.equal(await e.npm.metric('fn_npm_drain_losses'), 0)
  } finally {
    await e.stop()
  }
})

test('F27: a load balancer that is cut off from the manager loses no running call', async () => {
  const ledger = new Ledger()
  const e = await Elastic.start({ lbs: 0, npm: '  demand_life: 1s' })
  const proxy = await Proxy.start({ port: e.grpc, host: '127.0.0.1' })
  const lb = await startLb({ functions: { ledger: { memory: 128, config: { LEDGER_FILE: ledger.file } } },
    pool: `{ use: npm, address: "127.0.0.1:${proxy.port}", interval: 100ms, timeout: 300ms }` })
  e.lbs.push(lb)
  try {
    const running = invoke(lb, fnId('ledger'), '6000 long')
    await until('it runs', () => ledger.read().size === 1, 20_000)
    proxy.fault = { kind: 'refuse' }
    proxy.reset()
    await until('its demand is forgotten and the runner drains', async () => (await e.states()).draining === 1, 20_000)
    assert.equal((await running).status, 200)
    const [call] = [...ledger.read().values()]
    assert.deepEqual([call.starts, call.ends], [1, 1])
    await until('the runner goes when it is empty', async () => Object.keys(await e.states()).length === 0, 20_000)
    assert.equal(await e.npm.metric('fn_npm_drain_losses'), 0)
  } finally {
    await proxy.stop()
    await e.stop()
  }
})

test('demand that no honest load balancer has', async () => {
  const e = await Scripted.start({ npm: { lbs_max: 20 } })
  const client = new Client(`http://127.0.0.1:${e.grpc}`)
  const advertise = async (...words) => {
    const a = await client.call('/fnd.Pool/Advertise', demand(...words))
    return { ...a, note: a.messages[0]?.toString('latin1') ?? '' }
  }
  const other = new Client(`http://127.0.0.1:${e.grpc}`)
  try {
    e.list()
    assert.equal((await advertise('honest', 1, ['default', 256])).status, 0)
    await until('one runner is asked for', () => e.asked('provision').length > 0)
    assert.equal(e.asked('provision')[0].words[1], '1')

    for (const [i, mb] of [0n, 2n ** 31n, 2n ** 63n, 2n ** 64n - 1n].entries()) {
      const a = await advertise('greedy', i + 1, ['default', mb, 2n ** 64n - 1n])
      assert.equal(a.status, 0)
      assert.equal(/NPM501 demand above group cap 1024 MB, clamped/.test(a.note), mb > 1024n, `${mb}: ${a.note}`)
      assert.equal((await e.group()).wanted_mb, mb > 1024n ? 256 + 1024 : 256)
    }
    await advertise('greedy', 9, ['default', 0])

    for (const group of ['nobody', '', 'x'.repeat(10_000), '\x01\xc3\xa9', '../etc']) {
      const a = await advertise('honest', 100, [group, 99])
      assert.match(a.note, /NPM502 group/, group.slice(0, 20))
      assert.ok(a.note.length < 300 + group.length)
    }
    for (const lb of ['', 'x'.repeat(40), 'x'.repeat(10_000)]) assert.match((await advertise(lb, 1, ['default', 99])).note, /NPM504/)
    // No UTF-8, a NUL inside: somebody's id at most.
    await client.call('/fnd.Pool/Advertise', demand(Buffer.from([0xff, 0xfe, 0x80]), 1, ['default', 0]))
    await client.call('/fnd.Pool/Advertise', demand('nul\0honest', 1000, ['default', 0]))

    for (const bytes of [Buffer.from([0xff, 0xff]), Buffer.alloc(64, 0x1a), demand('a', 1, ['default', 5]).subarray(0, 8)]) {
      for (const path of ['/fnd.Pool/Advertise', '/fnd.Pool/Watch', '/NodePoolScaler/AdvertiseCapacity', '/RunnerManager/GetLBGroup']) {
        const a = await client.call(path, bytes)
        assert.ok([3, 5].includes(a.status) || (a.status === 0 && !a.note), `${path}: ${a.status} ${a.text}`)
      }
    }
    const names = Array.from({ length: 1001 }, () => ['default', 0])
    for (const a of [await advertise('honest', 200, ...names), await client.call('/fnd.Pool/Watch', message([1, 'w'], ...names.map(([g]) => [2, g])))]) {
      assert.equal(a.status, 3)
      assert.match(a.text, /NPM507 the message names 1001 groups; expected at most 1000/)
    }
    assert.equal((await client.call('/fnd.Pool/Nothing', Buffer.alloc(0))).status, 12)
    assert.notEqual((await other.call('/fnd.Pool/Advertise', demand('b'.repeat(8 << 20), 1, ['default', 1]))).status, 0)

    const invented = (round) => Promise.all(Array.from({ length: 2000 }, (_, i) => advertise(`lb-${round}-${i}`, 1, ['default', 0])))
    await invented(0) // what gRPC keeps for so many streams at once
    const rss = e.npm.rssKiB()
    await invented(1)
    const many = await invented(2)
    assert.ok(many.every((a) => a.status === 0))
    assert.match(many.at(-1).note, /NPM506 load balancers of the group, got more than 20; expected at most npm.lbs_max/)
    assert.ok(e.npm.log.match(/too many load balancers/g).length <= 3)
    assert.match((await advertise('one-too-many', 1, ['default', 512])).note, /NPM506/)
    const refused = await e.npm.metrics()
    for (const code of ['NPM501', 'NPM502', 'NPM504', 'NPM506', 'NPM507']) assert.ok(refused.get(`fn_npm_demand_refused{code="${code}"}`) > 0, code)
    const g = await e.group()
    assert.equal(g.lbs, 20)
    assert.equal(g.wanted_mb, 256)
    assert.equal((await advertise('honest', 2000, ['default', 300])).status, 0)
    assert.equal((await e.group()).wanted_mb, 300)
    assert.equal((await e.runners()).groups.length, 1)
    assert.ok(e.npm.rssKiB() < rss + 8 * 1024, `${rss} KiB, then ${e.npm.rssKiB()}`)
    assert.ok(!e.npm.exit)
  } finally {
    client.close()
    other.close()
    await e.stop()
  }
})

const YEAR_S = 365.25 * 86400
const jumps = { 'an hour ahead': 3600, 'an hour back': -3600, 'ten years ahead': 10 * YEAR_S, 'ten years back': -10 * YEAR_S, 'a leap second back': -1, 'where it was': 0 }

test('F89: a wall clock that jumps moves nothing', async () => {
  const file = path.join(tempDir(), 'clock')
  const jump = (s) => {
    const ns = Buffer.alloc(8)
    ns.writeBigInt64LE(BigInt(s) * 1_000_000_000n)
    writeFileSync(file, ns, { flag: 'r+' })
  }
  writeFileSync(file, Buffer.alloc(8))
  const e = await Elastic.start({ functions, npm: '  runners_min: 2\n  demand_life: 1s', cooldown: '1s',
    env: { LD_PRELOAD: path.join(build, 'tests/test-clock.so'), FND_TEST_CLOCK: file,
      ASAN_OPTIONS: `${process.env.ASAN_OPTIONS ?? ''}:verify_asan_link_order=0` } })
  const lb = e.lbs[0]
  const lines = () => e.npm.log.split('\n').filter((l) => /runner|provision|load balancer|stood still|machine/.test(l))
  try {
    await until('two runners', async () => (await e.states()).active === 2 && (await lb.metric('fn_lb_runners_up')) === 2, 20_000)
    const pids = e.pids()
    const version = (await e.runners()).groups[0].version
    const told = lines().length
    for (const [what, s] of Object.entries(jumps)) {
      jump(s)
      for (const node of [e.npm, lb]) {
        await until(`${what} at ${node.name}`, async () => {
          const date = Date.parse((await fetch(node.url('/metrics'))).headers.get('date'))
          return Math.abs(date - Date.now() - s * 1000) < 30_000
        })
      }
      const end = Date.now() + 1500 // longer than demand_life, cooldown and loss_brake
      while (Date.now() < end) {
        const answer = await invoke(lb, fnId('hello'), '{}')
        assert.equal(answer.status, 200, `${what}: ${answer.text}`)
      }
      assert.deepEqual(e.pids(), pids, what)
      const [g] = (await e.runners()).groups
      assert.deepEqual([g.version, g.lbs], [version, 1], what)
      assert.deepEqual(lines().slice(told), [], what)
    }
  } finally {
    await e.stop()
  }
})

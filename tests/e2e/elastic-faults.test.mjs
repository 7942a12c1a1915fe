// Faults of elastic pools: a manager that fails, hangs or lies, a control plane that does, and a load
// balancer that is cut off. What must hold stands in docs/elastic-pools.md.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { Ledger, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { Scripted } from './lib/cplane.mjs'
import { Elastic } from './lib/elastic.mjs'
import { Client, FakeManager, demand, membership } from './lib/grpc.mjs'
import { invoke } from './lib/http.mjs'
import { until } from './lib/node.mjs'
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
    lb = await startLb({ functions, lb: 'placement_timeout: 1s', pool: `{ use: npm, address: "127.0.0.1:${fake.port}", interval: 50ms, timeout: 500ms }` })
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

  await t.test('a list of 60 000 members and one beyond the size of a message', async () => {
    const many = Array.from({ length: 60_000 }, (_, i) => ({ id: `m${i}`, address: `127.0.0.1:${runner.grpcPort}` }))
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

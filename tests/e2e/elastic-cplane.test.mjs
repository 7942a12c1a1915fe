// A control plane that hangs, fails, lies and forgets: F29 to F38, F90, F91. No machine behind the lists
// is real unless a test says so; what counts is what the manager asks for and believes.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { Ledger, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { Scripted } from './lib/cplane.mjs'
import { Client, demand } from './lib/grpc.mjs'
import { invoke } from './lib/http.mjs'
import { tempDir, until } from './lib/node.mjs'

const pause = (ms) => new Promise((r) => setTimeout(r, ms))

// name: a test that gets the manager and want(mb), which tells a load balancer's demand.
function faulty(name, options, body) {
  test(name, async () => {
    const e = await Scripted.start(options)
    const client = new Client(`http://127.0.0.1:${e.grpc}`)
    let seq = 0
    const want = async (mb) => assert.equal((await client.call('/fnd.Pool/Advertise', demand('lb', ++seq, ['default', mb]))).status, 0)
    try {
      e.list()
      await until('it has learnt', async () => (await e.group()).settled)
      await body(e, want)
      assert.equal(e.npm.exit, null)
    } finally {
      client.close()
      await e.stop()
    }
  })
}

describe('a control plane that fails', { concurrency: 3 }, () => {
faulty('F29: a provision that hangs holds up nothing and is not doubled', { npm: { cplane_timeout: '2s' } }, async (e, want) => {
  e.answer('provision.sh', 'exec sleep 600\n')
  await want(512)
  await until('it was asked', () => e.asked('provision').length === 1)
  const end = Date.now() + 1500
  for (let worst = 0; Date.now() < end; await pause(20)) {
    const t = Date.now()
    await want(512)
    await e.runners()
    worst = Math.max(worst, Date.now() - t)
    assert.ok(worst < 1000, `an answer took ${worst} ms`)
  }
  assert.equal(e.asked('provision').length, 1)
  e.answer('provision.sh', 'echo $3\n')
  await until('it is asked again, under the same id', () => e.asked('provision').length === 2)
  const [first, second] = e.asked('provision').map((c) => c.words)
  assert.deepEqual(second, first)
  assert.match(e.npm.log, /the control plane failed.*call=provision/)
})

faulty('F30: errors make it wait longer each time; the pool stays', {}, async (e, want) => {
  e.answer('provision.sh', 'echo quota exceeded >&2; exit 3\n')
  await want(256)
  await until('three tries', () => e.asked('provision').length === 3, 20_000)
  const at = e.asked('provision').map((c) => Number(c.ns / 1_000_000n))
  assert.ok(at[1] - at[0] >= 900, `${at[1] - at[0]} ms`)
  assert.ok(at[2] - at[1] >= 1800, `${at[2] - at[1]} ms`)
  assert.match(e.npm.log, /the control plane failed.*quota exceeded/)
  e.answer('list.sh', 'echo 503 >&2; exit 1\n')
  const lists = e.asked('list').length
  await pause(1500)
  assert.ok(e.asked('list').length <= lists + 3)
})

faulty('F31: runners that never come are asked for again, three times, then it says so', { npm: { request_life: '1s', backoff_max: '2s' } }, async (e, want) => {
  e.answer('provision.sh', 'echo $3\n')
  await want(512)
  await until('the alarm', () => e.npm.log.includes('takes requests and delivers nothing'), 20_000)
  const calls = e.asked('provision')
  assert.equal(calls.length, 3)
  assert.equal(new Set(calls.map((c) => c.words[2])).size, 3)
  for (const c of calls) assert.equal(c.words[1], '2') // pending came back to the truth each time
})

faulty('F32: more machines than asked for are used up to the maximum, the others left alone', { npm: { boot_timeout: '1h' } }, async (e, want) => {
  e.list(...Array.from({ length: 7 }, (_, i) => [`m-${i}`, `127.0.0.1:${i + 1}`]))
  await until('they are known', async () => (await e.states()).foreign === 3)
  await want(4096)
  assert.equal((await e.states()).booting, 4)
  await pause(500)
  assert.equal(e.asked('provision').length, 0)
  assert.ok(e.asked('remove').every((c) => !['m-4', 'm-5', 'm-6'].includes(c.words[1])))
})

faulty('F34: a list that is empty for a while takes nobody away', { npm: { boot_timeout: '1h', loss_brake: '5s' } }, async (e, want) => {
  e.list(...Array.from({ length: 4 }, (_, i) => [`m-${i}`, `127.0.0.1:${i + 1}`]))
  await until('they are known', async () => (await e.states()).booting === 4)
  await want(1024)
  e.list()
  const asked = e.asked('list').length
  await until('ten empty lists', () => e.asked('list').length > asked + 10)
  assert.equal((await e.states()).booting, 4)
  assert.match(e.npm.log, /most runners left the list at once/)
  assert.equal(e.asked('provision').length, 0)
})

faulty('F35: a removal that fails is tried until the machine is gone', { npm: { boot_timeout: '1s', loss_brake: '0s' } }, async (e) => {
  e.answer('remove.sh', 'echo busy >&2; exit 1\n')
  e.list(['m-1', '127.0.0.1:1']) // nobody answers there: it is removed after boot_timeout
  await until('three tries', () => e.asked('remove').length >= 3, 20_000)
  assert.equal((await e.states()).removing, 1)
  assert.ok(e.asked('remove').every((c) => c.words[1] === 'm-1'))
  e.answer('remove.sh', 'exit 0\n')
  const tries = e.asked('remove').length
  await until('it is tried on', () => e.asked('remove').length > tries, 20_000)
  assert.equal((await e.states()).removing, 1) // taken, yet still listed
  e.list()
  await until('it is gone', async () => Object.keys(await e.states()).length === 0)
})

test('an error that is no UTF-8 is told, and hides nothing', async () => {
  const e = await Scripted.start()
  try {
    e.answer('list.sh', "printf 'caf\\351 is shut' >&2; exit 1\n")
    await until('it fails', async () => /^caf\? is shut/.test((await e.group())?.cplane_error.replace(/.*caf/, 'caf')))
  } finally {
    await e.stop()
  }
})

test('what was drained stays so with wishes_file, also where there is no admin socket', async () => {
  const runner = await startRunner()
  const e = await Scripted.start({ npm: { wishes_file: path.join(tempDir(), 'wishes'), runners_min: 1 } })
  const drained = async () => [...await e.npm.metrics()].some(([key, n]) => n === 1 && /^fn_npm_runners\{.*state="draining"/.test(key))
  try {
    e.list(['m-1', `127.0.0.1:${runner.grpcPort}`])
    await until('it is active', async () => (await e.states()).active === 1)
    await e.cli('runners', 'drain', 'm-1')
    await until('it is drained', drained)
    await e.npm.kill()
    const file = path.join(e.npm.dir, 'fn.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^admin:.*$/m, 'admin: { socket: off }'))
    await e.npm.start()
    await until('it is drained again', drained)
  } finally {
    await e.stop()
    await runner.stop()
  }
})

test('a drain that a restart would forget is told to who asks for it', async () => {
  const runner = await startRunner()
  const e = await Scripted.start({ npm: { wishes_file: path.join(tempDir(), 'none', 'wishes'), runners_min: 1 } })
  try {
    e.list(['m-1', `127.0.0.1:${runner.grpcPort}`])
    await until('it is active', async () => (await e.states()).active === 1)
    const { stderr } = await e.cli('runners', 'drain', 'm-1')
    assert.match(stderr, /^fnd: done, but a restart of the manager would forget it: \S+none\/wishes\.new: No such file or directory\n$/)
    assert.equal((await e.runners()).runners[0].operator_drain, true)
  } finally {
    await e.stop()
    await runner.stop()
  }
})

test('F36: a busy runner that is taken away costs its calls only, and is told', async () => {
  const ledger = new Ledger()
  const runner = await startRunner()
  const e = await Scripted.start()
  const lb = await startLb({ functions: { hello: { memory: 128 }, ledger: { memory: 128, config: { LEDGER_FILE: ledger.file } } },
    pool: `{ use: npm, address: "127.0.0.1:${e.grpc}", interval: 100ms }` })
  try {
    e.list(['m-1', `127.0.0.1:${runner.grpcPort}`])
    const running = invoke(lb, fnId('ledger'), '30000 long')
    await until('it runs', () => ledger.read().size === 1)
    await e.cli('runners', 'drain', 'm-1') // which is asked for its load each second
    await until('the manager knows', async () => (await e.runners()).runners[0].active === 1)
    e.list()
    await runner.kill()
    assert.equal((await running).status, 502)
    await until('the manager tells', () => e.npm.log.includes('runner with running calls was taken away'))
    assert.equal([...ledger.read().values()][0].starts, 1)
  } finally {
    await lb.stop()
    await e.stop()
    await runner.stop()
  }
})

faulty('F37, F38: moved, doubled and impossible machines', { npm: { boot_timeout: '1h' } }, async (e, want) => {
  await want(1024)
  e.list(['m-1', '127.0.0.1:1'], ['m-2', '127.0.0.1:1'], ['m-1', '127.0.0.1:9'], ['m-3', '127.0.0.1:3', '18446744073709551615'],
    ['m-4', '127.0.0.1:4', '9223372036854775808'], ['m-5', '127.0.0.1:5', '-1'], ['m-6', '-'], ['m-7', '127.0.0.1:7', '0'])
  await until('the good one is known', async () => (await e.runners()).runners.some((r) => r.id === 'm-7'))
  const { runners } = await e.runners()
  assert.deepEqual(runners.filter((r) => r.address).map((r) => `${r.id} ${r.address} ${r.capacity_mb}`), ['m-1 127.0.0.1:1 256', 'm-7 127.0.0.1:7 256'])
  assert.match(e.npm.log, /a machine that cannot be used.*id=m-2/)
  assert.match(e.npm.log, /a machine that cannot be used.*id=m-3/)
  e.list(['m-1', '127.0.0.1:2'])
  await until('it moved', async () => (await e.runners()).runners.some((r) => r.id === 'm-1' && r.address === '127.0.0.1:2'))
  assert.match(e.npm.log, /runner has a new address.*id=m-1/)
  // Text where a number should be: the list is an error, and nothing of it is believed.
  e.answer('list', 'm-1 ready 127.0.0.1:2 256\nm-9 ready 127.0.0.1:9 lots\n')
  await until('it says so', () => /the control plane failed.*call=list.*ID STATE ADDRESS MB/.test(e.npm.log))
  assert.ok(!(await e.runners()).runners.some((r) => r.id === 'm-9'))
})

faulty('F90, F91: a manager that stood still learns again before it takes anything away', { npm: { boot_timeout: '1h', demand_life: '2s', loss_brake: '3s' } }, async (e, want) => {
  const runner = await startRunner()
  try {
    e.list(['m-1', `127.0.0.1:${runner.grpcPort}`])
    await want(256)
    await until('it is active', async () => (await e.states()).active === 1)
    e.npm.signal('SIGSTOP')
    await pause(11_000)
    e.npm.signal('SIGCONT')
    await until('it noticed', () => e.npm.log.includes('the node stood still'))
    const end = Date.now() + 2000
    for (; Date.now() < end; await pause(100)) assert.equal((await e.states()).active, 1)
    assert.equal(e.asked('remove').length, 0)
    assert.ok(e.asked('list').length < 200) // ticks are not made up for
  } finally {
    await runner.stop()
  }
})
})

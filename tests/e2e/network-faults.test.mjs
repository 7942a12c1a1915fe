// Networks that lose packets: a runner in a namespace of its own, behind a firewall that drops (F98 to F101), and a
// narrow link (F102). Root only. The ledger proves that no call ran twice.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { Ledger, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke, raw } from './lib/http.mjs'
import { until } from './lib/node.mjs'
import { Proxy } from './lib/proxy.mjs'

const sh = (...argv) => execFileSync(argv[0], argv.slice(1), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 30_000 })
const name = `fnd-n${process.pid % 100000}`
const net = `10.${150 + (process.pid >> 8) % 50}.${process.pid % 256}`
const inside = (...argv) => sh('nsenter', `--net=/run/netns/${name}`, ...argv)

// '' when packets can be dropped here.
function impossible() {
  if (process.getuid() !== 0) return 'only root can make namespaces'
  try {
    sh('ip', 'netns', 'add', name)
    inside('iptables', '-F')
    return ''
  } catch (error) {
    spawnSync('ip', ['netns', 'delete', name])
    return `no namespace with a firewall: ${error.message.split('\n')[1] ?? error.message}`
  }
}
const why = impossible()

// A firewall that drops some packets only is a part of its own.
function chance() {
  const rule = ['INPUT', '-m', 'statistic', '--mode', 'random', '--probability', '0', '-j', 'DROP']
  return spawnSync('nsenter', [`--net=/run/netns/${name}`, 'iptables', '-A', ...rule]).status === 0
}

describe('networks that lose packets', () => {
  if (why) {
    it(`is not possible here: ${why}`, () => {})
    return
  }
  const percentages = chance() ? [1, 5, 20] : []
  const ledger = new Ledger()
  const functions = { ledger: { config: { LEDGER_FILE: ledger.file }, timeout: 60 }, big: { timeout: 60 } }
  let far
  let near
  let lb

  const drop = (...chains) => chains.forEach((chain) => inside('iptables', '-A', chain, '!', chain === 'INPUT' ? '-i' : '-o', 'lo', '-j', 'DROP'))
  const heal = () => inside('iptables', '-F')
  const running = () => [...ledger.read().values()].filter((c) => c.starts > c.ends).length
  // What the runner says of itself, also while nothing comes through.
  const farInside = (metric) => {
    const text = inside(process.execPath, '-e', `fetch('${far.url('/metrics')}').then((r) => r.text()).then(console.log)`)
    return Number(new RegExp(`^${metric} (.*)$`, 'm').exec(text)[1])
  }
  const used = (runner) => until('the runner is used', async () => {
    const was = await runner.metric('fn_runner_calls_received_total')
    await Promise.all([1, 2, 3, 4].map(() => invoke(lb, fnId('ledger'), '20 used')))
    return (await runner.metric('fn_runner_calls_received_total')) > was
  }, 30_000)

  // Calls on both runners while `fault` acts on the far one: those there are unknown in time, the others end well.
  async function partition(what, fault) {
    far ??= await startRunner({ name: 'far', host: `${net}.2`, within: ['nsenter', `--net=/run/netns/${name}`] })
    near ??= await startRunner({ name: 'near' })
    lb ??= await startLb({ addresses: [far.address, near.address], functions })
    await used(far)
    await used(near)
    const answers = []
    const before = running() // those that were cut off have not written their end
    const calls = []
    let there = 0
    while (there < 2 || calls.length - there < 2) {
      calls.push(invoke(lb, fnId('ledger'), `9000 ${what} ${calls.length}`).then((a) => answers.push(a)))
      await until('it runs', () => running() - before === calls.length)
      there = await far.metric('fn_runner_calls_in_flight')
      assert.ok(calls.length < 50, `${there} of ${calls.length} calls are there`)
    }
    const begin = Date.now()
    await fault()
    await until('those there have ended', () => answers.length >= there, 15_000)
    const ms = Date.now() - begin
    assert.ok(ms < 8500, `${what}: ended after ${ms} ms`)
    assert.equal(answers.length, there, 'only those there')
    for (const a of answers) assert.deepEqual([a.status, a.headers['fn-outcome']], [502, 'unknown'], a.text)
    for (let i = 0; i < 6; i++) {
      const answer = await invoke(lb, fnId('ledger'), `0 ${what} beside`)
      assert.equal(answer.status, 200, 'the lost runner is left out')
      answers.push(answer)
    }
    await Promise.all(calls)
    assert.equal(answers.filter((a) => a.status === 200).length, calls.length + 6 - there, 'calls on the other one were not disturbed')
    return answers
  }

  before(async () => {
    sh('ip', 'link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
    sh('ip', 'addr', 'add', `${net}.1/24`, 'dev', name)
    sh('ip', 'link', 'set', name, 'up')
    inside('ip', 'addr', 'add', `${net}.2/24`, 'dev', 'eth0')
    heal()
    for (const device of ['lo', 'eth0']) inside('ip', 'link', 'set', device, 'up')
  })
  after(() => spawnSync('ip', ['netns', 'delete', name]))

  it('F98 cut off both ways: its calls are unknown, the others go on, it is used again when the network is back', async () => {
    const answers = await partition('F98', () => drop('INPUT', 'OUTPUT'))
    await until('its calls were cancelled', () => farInside('fn_runner_calls_in_flight') === 0, 20_000)
    heal()
    await used(far)
    for (const a of answers) ledger.check(a, 'F98')
  })

  it('F99 one way, from runner to load balancer: both ends give up', async () => {
    const answers = await partition('F99', () => drop('OUTPUT'))
    await until('its calls were cancelled', () => farInside('fn_runner_calls_in_flight') === 0, 20_000)
    heal()
    await used(far)
    for (const a of answers) ledger.check(a, 'F99')
  })

  it('F100 power lost: no reset ever comes, and no call waits for one', async () => {
    const answers = await partition('F100', async () => {
      drop('INPUT', 'OUTPUT')
      await far.kill()
    })
    for (const a of answers) ledger.check(a, 'F100')
    heal()
    await far.start()
    await used(far)
  })

  if (percentages.length === 0) it('F101 is not possible here: the firewall knows no chance', () => {})
  for (const percent of percentages) {
    it(`F101 ${percent} % of the packets are lost: slower, never wrong`, async () => {
      const only = await startLb({ name: 'only', addresses: [far.address], functions })
      assert.equal((await invoke(only, fnId('ledger'), '0 first')).status, 200)
      for (const chain of ['INPUT', 'OUTPUT']) inside('iptables', '-A', chain, '-m', 'statistic', '--mode', 'random', '--probability', String(percent / 100), '-j', 'DROP')
      const answers = []
      await Promise.all([1, 2, 3, 4].map(async () => {
        for (let i = 0; i < 15; i++) answers.push(await invoke(only, fnId('ledger'), `5 ${'x'.repeat(4000)}`))
      }))
      heal()
      for (const a of answers) {
        ledger.check(a, `F101 ${percent} %`)
        if (percent <= 5) assert.equal(a.status, 200, a.text)
        else assert.ok(a.status === 200 || a.headers['fn-outcome'], a.text)
      }
      await only.stop()
    })
  }

  it('F102 a link of 1 Mbit/s and 400 ms: what does not pass is not heaped up', async () => {
    const runner = await startRunner({ runner: 'max_response_size: 0' })
    const proxy = await Proxy.start({ port: runner.grpcPort, host: '127.0.0.1' })
    const only = await startLb({ name: 'only', addresses: [`127.0.0.1:${proxy.port}`], functions, lb: 'response_max: 0' })
    assert.equal((await invoke(only, fnId('big'), '10')).status, 200)
    const before = { runner: runner.rssKiB(), only: only.rssKiB() }
    proxy.fault = { kind: 'narrow', bytesPerS: 125_000, delayMs: 200 }
    const passed = proxy.passed.server
    const answer = raw(only.port, `POST /invoke/${fnId('big')} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n900000000`, { waitMs: 6000 })
    await until('a part has passed', () => proxy.passed.server - passed > 300_000, 20_000)
    assert.ok(runner.rssKiB() - before.runner < 8192, `the runner grew by ${runner.rssKiB() - before.runner} KiB`)
    assert.ok(only.rssKiB() - before.only < 8192, `the load balancer grew by ${only.rssKiB() - before.only} KiB`)
    assert.equal((await answer).status, 200)
    proxy.fault = null
    proxy.reset()
    await until('it is over', async () => (await runner.metric('fn_runner_calls_in_flight')) === 0, 20_000)
    await only.stop()
    await proxy.stop()
    for (const node of [lb, far, near, runner]) assert.equal((await node.stop()).code, 0)
  })
})

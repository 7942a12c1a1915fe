// Status of a runner that has a status image: a real container, over gRPC; and what load
// balancers and managers make of it.
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it, test } from 'node:test'
import { promisify } from 'node:util'
import { fnId, startCluster, startLb, startRunner } from './lib/cluster.mjs'
import { docker, driver, noEngine as skip } from './lib/docker.mjs'
import { Elastic } from './lib/elastic.mjs'
import { Client, fields, message } from './lib/grpc.mjs'
import { invoke, request } from './lib/http.mjs'
import { build, tempDir, until } from './lib/node.mjs'

const owner = `e2e-status-${process.pid}`
const containers = () => docker('ps', '-aq', '--filter', `label=io.fnd.owner=${owner}`).split('\n').filter(Boolean)
const names = { 18: 'custom', 2: 'active', 3: 'failed', 4: 'id', 5: 'details', 6: 'code', 7: 'text', 8: 'created', 9: 'started', 10: 'completed', 11: 'cached', 16: 'execution', 17: 'offline', 21: 'create' }
const text = (v) => (typeof v === 'bigint' ? Number(v) : v.toString())

describe('the status of a runner with a status image', { skip }, () => {
  const file = path.join(tempDir(), 'network-is-up')
  const down = path.join(tempDir(), 'down')
  let cluster
  let client
  const ask = async (method = 'Status', body = Buffer.alloc(0)) => {
    const answer = await client.call(`/RunnerProtocol/${method}`, body)
    assert.equal(answer.status, 0, answer.text)
    return Object.fromEntries(fields(answer.messages[0]).map(([no, v]) => [names[no] ?? no, text(v)]))
  }
  // The next answer that no earlier run gave.
  const fresh = async (...how) => {
    let status
    await until('the cached answer is old', async () => !(status = await ask(...how)).cached, 30_000)
    return status
  }

  before(async () => {
    writeFileSync(file, '')
    cluster = await startCluster({
      functions: { echo: { image: 'fnd/echo:latest', memory: 64 }, hello: { image: 'fnd/hello:latest', memory: 64 } },
      runnerOptions: { driver: driver(), plugins: `operator: { use: file, down_file: ${down}, down_code: 450, words: [custom=works] }`, runner: `owner: ${owner}\nstatus_image: "fnd/echo:latest"\nstatus_network_file: ${file}` },
    })
    client = new Client(`http://127.0.0.1:${cluster.runners[0].grpcPort}`)
  })
  after(async () => {
    client?.close()
    await cluster?.stop()
    assert.deepEqual(containers(), [])
  })

  it('runs a container for all who ask at a time, and a new one later', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => ask()))
    for (const a of answers) {
      assert.equal(a.failed, undefined, a.text)
      assert.equal(a.id, answers[0].id)
      assert.equal(a.details, '{}')
      assert.ok(a.execution > 0 && a.create > 0)
      for (const time of ['created', 'started', 'completed']) assert.match(a[time], /^20\d\d-.*Z$/)
    }
    assert.equal(answers.filter((a) => !a.cached).length, 1)
    assert.notEqual((await fresh()).id, answers[0].id)
    assert.equal((await ask()).cached, 1)
  })

  it('gives the request of Status2 to the function', async () => {
    const entry = message([1, 'deep'], [2, message([4, 1])])
    assert.equal((await fresh('Status2', message([1, entry]))).details, '{"deep":true}')
  })

  it('has no network without its file', async () => {
    rmSync(file)
    const status = await fresh()
    assert.equal(status.offline, 1)
    assert.equal(status.failed, undefined, status.text)
    writeFileSync(file, '')
    assert.equal((await fresh()).offline, undefined)
  })

  it('has what the operator adds, and fails when he says so', async () => {
    assert.equal((await fresh()).custom, message([1, 'custom'], [2, 'works']).toString())
    writeFileSync(down, 'disk is to be changed\n')
    const status = await fresh()
    assert.deepEqual([status.failed, status.code, status.text, status.details], [1, 450, 'disk is to be changed', undefined])
    rmSync(down)
    assert.equal((await fresh()).failed, undefined)
  })

  it('is no function, and counts as none', async () => {
    const answer = await invoke(cluster.lb, fnId('echo'), 'x')
    assert.equal(answer.status, 400, answer.text)
    assert.match(answer.text, /Invalid Fn image/)
    assert.equal((await invoke(cluster.lb, fnId('hello'))).status, 200)
    const { text: page } = await request(cluster.runners[0].url('/metrics'))
    assert.match(page, /fn_status_call\{cached="false",success="true",network="true"\} [1-9]/)
    assert.match(page, /fn_runner_calls_received_total 2\n/)
  })
})

describe('a runner whose status fails', () => {
  let bad
  let good
  let lb
  const peers = () => JSON.parse(execFileSync(path.join(build, 'fnd'), ['peers', '--json', '--config', path.join(lb.dir, 'fn.yaml')], { encoding: 'utf8' })).peers
  const received = () => bad.metric('fn_runner_calls_received_total')

  before(async () => {
    bad = await startRunner({ name: 'bad', runner: 'status_image: absent' })
    good = await startRunner({ name: 'good' })
    lb = await startLb({ addresses: [bad.address, good.address], functions: { hello: {} }, more: 'grpc: { status_interval: 100ms }' })
  })
  after(() => Promise.all([lb, bad, good].map((n) => n?.stop())))

  it('gets no calls, and is told with its reason', async () => {
    await until('its status was asked', async () => (await lb.metric('fn_lb_runners_failing')) === 1)
    const before = await received()
    for (let i = 0; i < 10; i++) assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    assert.equal(await received(), before)
    const row = peers().find((p) => p.address === bad.address)
    assert.equal(row.state, 'up')
    assert.match(row.why, /absent/)
    assert.match(lb.log, /the status of a runner fails/)
    assert.match(bad.log, /the status of this runner fails/)
  })

  it('gets calls again when it is good again', async () => {
    const file = path.join(bad.dir, 'fn.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace('status_image: absent', 'status_image: echo'))
    bad.signal('SIGHUP')
    await until('it is good again', async () => (await lb.metric('fn_lb_runners_failing')) === 0)
    const before = await received()
    for (let i = 0; i < 10; i++) assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    assert.ok(await received() > before)
    assert.equal(peers().find((p) => p.address === bad.address).why ?? null, null)
  })
})

test('a manager tells which runner fails, and why; a group of which most fail goes on', async () => {
  const e = await Elastic.start({ functions: { hello: { memory: 128 } } })
  try {
    writeFileSync(e.base, readFileSync(e.base, 'utf8').replace('runner: {', 'runner: { status_image: absent,'))
    await until('a runner is there', async () => (await invoke(e.lbs[0], fnId('hello'))).status === 200, 20_000)
    await until('the manager has heard', async () => (await e.runners()).runners.some((r) => /absent/.test(r.fault)))
    const { stdout } = await promisify(execFile)(path.join(build, 'fnd'), ['runners', '--socket', e.socket, 'list'])
    assert.match(stdout, /^\S+ +default +failing .*absent/m)
    assert.match(stdout, /^group default: .*the status of [12] fails/m)
    assert.match(e.npm.log, /the status of a runner fails/)
    assert.ok(await e.npm.metric('fn_npm_runners_failing') >= 1)
    assert.equal((await invoke(e.lbs[0], fnId('hello'))).status, 200)
  } finally {
    await e.stop()
  }
})

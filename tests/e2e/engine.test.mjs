// A container engine under stress: it hangs, many containers are needed at once, images break the
// contract, a runner with containers hangs (F12, F40, F54, F61).
import assert from 'node:assert/strict'
import path from 'node:path'
import { after, describe, it } from 'node:test'
import { fnId, startCluster, startLb, startRunner } from './lib/cluster.mjs'
import { docker, driver, noEngine as skip, socketPath } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { Proxy } from './lib/proxy.mjs'
import { tempDir, until } from './lib/node.mjs'

const functions = {
  hello: { image: 'fnd/hello:latest', memory: 64 },
  echo: { image: 'fnd/echo:latest', memory: 64 },
  sleeper: { image: 'fnd/sleeper:latest', memory: 64 },
  swapper: { image: 'fnd/symlink-swapper:latest', memory: 64 },
  silent: { image: 'fnd/never-listens:latest', memory: 64 },
}

// Runners that live at the same time must not share an owner: each removes what it thinks is left over.
const owner = `e2e-engine-${process.pid}`
const runnerOf = (n, more = '') => `owner: ${owner}-${n}\n${more}`
const containers = (n) => docker('ps', '-aq', '--filter', `label=io.fnd.owner=${owner}-${n}`).split('\n').filter(Boolean)

describe('a container engine under stress', { skip }, () => {
  after(() => {
    for (let n = 0; n < 6; n++) for (const id of containers(n)) docker('rm', '-f', id)
  })

  it('F40 hangs: hot calls go on, cold ones end with 503 in time, it recovers', async () => {
    const dir = tempDir()
    const proxy = await Proxy.start({ path: socketPath }, { path: path.join(dir, 'docker.sock') })
    const runner = await startRunner({ driver: driver(path.join(dir, 'docker.sock')), runner: runnerOf(0, 'freeze_idle: never') })
    const lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions, lb: 'placement_timeout: 2s' })
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    proxy.fault = { kind: 'stall', from: 'client', after: 0 }
    const begin = Date.now()
    const cold = invoke(lb, fnId('echo'), 'x').then((answer) => ({ answer, ms: Date.now() - begin }))
    for (let i = 0; i < 20; i++) {
      const hot = Date.now()
      assert.equal((await invoke(lb, fnId('hello'))).status, 200, 'a hot container needs no engine')
      assert.ok(Date.now() - hot < 500)
    }
    const { answer, ms } = await cold
    assert.equal(answer.status, 503, answer.text)
    assert.equal(answer.headers['fn-outcome'], 'not-executed')
    assert.ok(ms < 3000, `the cold call ended after ${ms} ms`)
    proxy.fault = null
    proxy.reset()
    await until('it recovers', async () => (await invoke(lb, fnId('echo'), 'x')).status === 200, 30_000)
    await lb.stop()
    await runner.stop()
    await proxy.stop()
    assert.deepEqual(containers(0), [])
  })

  it('a cold burst of 8 calls starts what it needs, and each call runs', async () => {
    const cluster = await startCluster({ functions, runnerOptions: { driver: driver(), runner: runnerOf(1) } })
    const answers = await Promise.all(Array.from({ length: 8 }, () => invoke(cluster.lb, fnId('sleeper'), '1500')))
    for (const answer of answers) {
      assert.equal(answer.status, 200, answer.text)
      assert.match(answer.text, /slept 1500/)
    }
    assert.ok(containers(1).length <= 8)
    await cluster.stop()
    assert.deepEqual(containers(1), [])
  })

  it('F61 a socket that leaves its directory is never followed', async () => {
    const cluster = await startCluster({ functions, runnerOptions: { driver: driver(), runner: runnerOf(2, 'start_timeout: 2s') }, lbOptions: { lb: 'placement_timeout: 4s' } })
    const answers = []
    for (let i = 0; i < 3; i++) answers.push(await invoke(cluster.lb, fnId('swapper'), 'x'))
    for (const answer of answers) assert.ok(answer.status === 200 || answer.status >= 500, `${answer.status} ${answer.text}`)
    assert.match(cluster.runners[0].log, /socket leaves its directory|FN604/)
    for (const answer of answers) assert.doesNotMatch(answer.text, /Api-Version|docker|page not found/i)
    assert.equal((await invoke(cluster.lb, fnId('hello'))).status, 200)
    await cluster.stop()
    assert.deepEqual(containers(2), [])
  })

  it('F54 a function that never listens: an error at the start limit, its containers are removed', async () => {
    const cluster = await startCluster({ functions, runnerOptions: { driver: driver(), runner: runnerOf(3, 'start_timeout: 1s') } })
    const begin = Date.now()
    const answers = await Promise.all([1, 2, 3].map(() => invoke(cluster.lb, fnId('silent'))))
    for (const answer of answers) assert.ok([503, 504].includes(answer.status), `${answer.status} ${answer.text}`)
    assert.ok(answers.some((a) => /initialization timed out/.test(a.text)), answers[0].text)
    assert.ok(Date.now() - begin < 12_000)
    await until('its containers are gone', () => containers(3).length === 0)
    assert.equal((await invoke(cluster.lb, fnId('hello'))).status, 200)
    await cluster.stop()
    assert.deepEqual(containers(3), [])
  })

  it('F12 a runner with containers hangs: the other one goes on, it serves again after SIGCONT', async () => {
    const runners = [await startRunner({ driver: driver(), runner: runnerOf(4) }), await startRunner({ driver: driver(), runner: runnerOf(5) })]
    const lb = await startLb({ addresses: runners.map((r) => `127.0.0.1:${r.grpcPort}`), functions })
    const received = (r) => r.metric('fn_runner_calls_received_total')
    await until('both runners have a container', async () => {
      await Promise.all([1, 2, 3, 4].map(() => invoke(lb, fnId('hello'))))
      return containers(4).length > 0 && containers(5).length > 0
    }, 20_000)
    runners[0].signal('SIGSTOP')
    const answers = await Promise.all(Array.from({ length: 6 }, () => invoke(lb, fnId('hello'))))
    for (const answer of answers) assert.ok(answer.status === 200 || answer.headers['fn-outcome'] === 'unknown', `${answer.status} ${answer.text}`)
    assert.ok(answers.some((a) => a.status === 200))
    for (let i = 0; i < 6; i++) assert.equal((await invoke(lb, fnId('hello'))).status, 200, 'the hung one is left out')
    runners[0].signal('SIGCONT')
    await until('it answers', async () => (await runners[0].metric('fn_calls').catch(() => -1)) >= 0)
    const before = await received(runners[0])
    await until('it is used again', async () => {
      await Promise.all([1, 2, 3, 4].map(() => invoke(lb, fnId('hello'))))
      return (await received(runners[0])) > before
    })
    await lb.stop()
    for (const { code } of await Promise.all(runners.map((r) => r.stop()))) assert.equal(code, 0)
    for (const n of [4, 5]) assert.deepEqual(containers(n), [], runners[n - 4].log)
  })
})

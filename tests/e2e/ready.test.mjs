// GET /ready: what a proxy in front or Kubernetes asks each kind of node before it sends calls.
import assert from 'node:assert/strict'
import path from 'node:path'
import { describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { Scripted } from './lib/cplane.mjs'
import { driver, noEngine, socketPath } from './lib/docker.mjs'
import { Elastic } from './lib/elastic.mjs'
import { invoke, request } from './lib/http.mjs'
import { freePort, tempDir, until } from './lib/node.mjs'
import { Proxy } from './lib/proxy.mjs'

const ask = (node) => request(node.url('/ready'), { keepAlive: false })

// The page says this, sooner or later.
async function says(node, status, pattern) {
  const answer = await until(`${node.name} is ${status}`, async () => {
    const a = await ask(node)
    return a.status === status && pattern.test(a.text) && a
  }, 30_000)
  assert.match(answer.headers['content-type'], /^text\/plain/)
}

describe('readiness', () => {
  it('a load balancer: with a runner that is connected', async () => {
    const grpcPort = await freePort()
    const lb = await startLb({ addresses: [`127.0.0.1:${grpcPort}`], functions: { hello: {} } })
    await says(lb, 503, /^no runner is connected, of 1 that the pool lists\n$/)
    let runner = await startRunner({ grpcPort })
    await says(runner, 200, /^ready\n$/)
    await says(lb, 200, /^ready\n$/)
    await runner.kill()
    await says(lb, 503, /no runner is connected/)
    runner = await startRunner({ grpcPort })
    await says(lb, 200, /^ready\n$/)
    await Promise.all([lb.stop(), runner.stop()])
  })

  it('a load balancer whose runner is down: not, though a call named a group that nobody knows', async () => {
    const runner = await startRunner({ runner: 'memory_total: 256MiB' })
    const functions = { hello: { memory: 128 }, stray: { image: 'hello', memory: 128, config: { FN_LB_GROUP_ID: 'nobody-knows' } } }
    const e = await Elastic.start({ functions, npm: '  runners_min: 1', cplane: `{ use: fixed, addresses: ["${runner.address}"], adopted: all }` })
    const [lb] = e.lbs
    assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200)
    await says(lb, 200, /ready/)
    await runner.kill()
    await says(lb, 503, /^no runner is connected, of 1 that the pool lists\n$/)
    const stray = invoke(lb, fnId('stray'), '{}').catch(() => {})
    await until('its group is there', async () => /groups 2/.test(await lb.ask('status')))
    assert.equal((await ask(lb)).status, 503)
    await lb.kill() // the call waits for half a minute
    await e.stop()
    await stray
  })

  it('while it drains: not', async () => {
    const runner = await startRunner()
    const lb = await startLb({ addresses: [runner.address], functions: { slow: { image: 'sleeper' } } })
    await says(lb, 200, /ready/)
    const running = invoke(lb, fnId('slow'), '3000')
    await until('the call runs', async () => await lb.metric('fn_running') === 1)
    const connection = await request(lb.url('/ready')) // stays open
    assert.equal(connection.status, 200)
    lb.signal('SIGTERM')
    await until('it drains', () => lb.log.includes('draining'))
    const answer = await request(lb.url('/ready'))
    assert.equal(answer.status, 503)
    assert.match(answer.text, /^draining: /)
    assert.equal((await running).status, 200)
    await Promise.all([lb.stop(), runner.stop()])
  })

  it('a pool at zero is ready while its manager is there, and not when neither it nor a runner is', async () => {
    const e = await Elastic.start({ functions: { hello: {}, stray: { image: 'hello', config: { FN_LB_GROUP_ID: 'nobody-knows' } } } })
    await says(e.npm, 200, /ready/)
    await says(e.lbs[0], 200, /ready/)
    e.npm.signal('SIGSTOP')
    const waiting = invoke(e.lbs[0], fnId('hello')) // names the group
    const stray = invoke(e.lbs[0], fnId('stray')).catch(() => {}) // and one that the manager has not
    await e.npm.kill()
    await says(e.lbs[0], 503, /the pool cannot tell which runners there are/)
    assert.match(await e.lbs[0].ask('status'), /not ready: the pool cannot tell which runners there are\ndegraded pool-stale\n[^]*groups_stale [1-9]/)
    assert.ok(await e.lbs[0].metric('fn_lb_groups_stale') >= 1)
    await e.npm.start()
    await says(e.lbs[0], 200, /ready/)
    await until('its list is no old one', async () => await e.lbs[0].metric('fn_lb_groups_stale') === 0)
    assert.doesNotMatch(await e.lbs[0].ask('status'), /degraded|not ready/)
    assert.match(await e.npm.ask('status'), /^npm +wanted_mb \d+, .*hosts \d+$/m)
    assert.equal((await waiting).status, 200)
    await e.lbs[0].kill()
    await e.stop()
    await stray
  })

  it('a manager: not when its control plane fails again and again', async () => {
    const e = await Scripted.start({ npm: { backoff_max: '1s' } })
    e.list()
    await says(e.npm, 200, /ready/)
    e.answer('list.sh', 'echo 503 >&2; exit 1\n')
    await says(e.npm, 503, /the control plane fails: \d+ calls for group default in a row/)
    e.answer('list.sh', 'exec true\n')
    await says(e.npm, 200, /ready/)
    await e.stop()
  })

  it('a manager whose control plane has no more machines: it answers', async () => {
    const runner = await startRunner()
    const e = await Elastic.start({ functions: { hello: {} }, npm: '  runners_min: 2\n  backoff_max: 1s', cplane: `{ use: fixed, addresses: ["${runner.address}"] }` })
    await until('it refused again and again', async () => await e.npm.metric('fn_npm_cplane_failures') > 3, 20_000)
    assert.equal((await ask(e.npm)).status, 200)
    await e.stop()
    await runner.stop()
  })

  it('a runner: not while its engine does not answer', { skip: noEngine }, async () => {
    const socket = path.join(tempDir(), 'docker.sock')
    const proxy = await Proxy.start({ path: socketPath }, { path: socket })
    const runner = await startRunner({ driver: driver(socket), runner: `owner: ready-${process.pid}` })
    await says(runner, 200, /ready/)
    proxy.fault = { kind: 'refuse' }
    proxy.reset()
    await says(runner, 503, /the container engine does not answer/)
    proxy.fault = null
    await says(runner, 200, /ready/)
    await runner.stop()
    await proxy.stop()
  })
})

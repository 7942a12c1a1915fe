// The same path with a real container engine: C and Node functions, engine faults, leftovers.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { ApiNode } from './lib/api.mjs'
import { fnId, startCluster, startLb, startRunner } from './lib/cluster.mjs'
import { docker, driver, noEngine as skip, socketPath } from './lib/docker.mjs'
import { invoke, request } from './lib/http.mjs'
import { Proxy } from './lib/proxy.mjs'
import { Fnd, freePort, root, tempDir, until } from './lib/node.mjs'

const functions = {
  hello: { image: 'fnd/hello:latest', memory: 64 },
  echo: { image: 'fnd/echo:latest', memory: 64 },
  big: { image: 'fnd/big:latest', memory: 64 },
  node: { image: 'fnd/node-hello:latest', memory: 128 },
  misbehave: { image: 'fnd/misbehave:latest', memory: 64, timeout: 3 },
  missing: { image: 'fnd/not-there:latest' },
  frozen: { image: 'fnd/hello:latest', memory: 65 },
}

const owner = `e2e-${process.pid}`
const containers = (who = owner) => docker('ps', '-aq', '--filter', `label=io.fnd.owner=${who}`).split('\n').filter(Boolean)

describe('functions in containers', { skip }, () => {
  let cluster
  let lb
  before(async () => {
    // F45 removes a container itself, which an engine cannot do with a frozen one under cgroup v1.
    cluster = await startCluster({ functions, runnerOptions: { driver: driver(), runner: `owner: ${owner}\nfreeze_idle: 2s` } })
    lb = cluster.lb
  })
  after(() => cluster?.stop())

  it('runs a C function', async () => {
    const answer = await invoke(lb, fnId('hello'), '{"name":"C"}')
    assert.equal(answer.status, 200, answer.text)
    assert.match(answer.text, /Hello C/)
  })

  it('runs a function of the Node FDK', async () => {
    const answer = await invoke(lb, fnId('node'), '{"name":"Node"}', { 'Content-Type': 'application/json' })
    assert.equal(answer.status, 200, answer.text)
    assert.match(answer.text, /Node/)
  })

  it('carries large bodies', async () => {
    const body = Buffer.alloc(3_000_000, 'x')
    assert.ok((await invoke(lb, fnId('echo'), body)).body.equals(body))
  })

  it('contains what it starts', () => {
    const [spec] = JSON.parse(docker('inspect', containers()[0]))
    assert.equal(spec.HostConfig.Privileged, false)
    assert.equal(spec.HostConfig.ReadonlyRootfs, true)
    assert.deepEqual(spec.HostConfig.CapDrop.map((c) => c.toLowerCase()), ['all'])
    assert.ok(spec.HostConfig.SecurityOpt.some((o) => o.startsWith('no-new-privileges')))
    assert.equal(spec.Config.User, '1000:1000')
    assert.ok(spec.HostConfig.PidsLimit > 0)
    assert.equal(spec.HostConfig.Memory, spec.HostConfig.MemorySwap)
    assert.equal(spec.HostConfig.Binds, null)
    assert.equal(spec.HostConfig.Mounts.length, 1)
  })

  it('counts what containers use and what the engine is asked, under Go Fn\'s names', async () => {
    const runner = cluster.runners[0]
    const before = await runner.metrics()
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    await until('two samples', async () => (await runner.metric('fn_docker_stats_mem_usage_count')) >= (before.get('fn_docker_stats_mem_usage_count') ?? 0) + 2)
    const m = await runner.metrics()
    const mean = (name) => m.get(`fn_docker_stats_${name}_sum`) / m.get(`fn_docker_stats_${name}_count`)
    assert.ok(mean('mem_limit') >= 64 << 20, `${mean('mem_limit')}`)
    assert.ok(mean('mem_usage') > 64 << 10 && mean('mem_usage') < mean('mem_limit'), `${mean('mem_usage')}`)
    for (const name of ['net_rx', 'net_tx', 'disk_read', 'disk_write', 'cpu_user', 'cpu_total', 'cpu_kernel']) assert.ok(mean(name) >= 0, name)
    for (const name of ['create_container', 'start_container', 'inspect_image']) {
      assert.ok(m.get(`fn_docker_api_latency_count{api_name="docker_${name}",api_status="ok"}`) > 0, name)
    }
  })

  it('F46 names memory as the cause of a kill', async () => {
    const answer = await invoke(lb, fnId('misbehave'), 'oom 512')
    assert.equal(answer.status, 502)
    assert.match(answer.text, /out of memory/)
  })

  it('F45 a container removed while idle costs the caller nothing', async () => {
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    for (const id of docker('ps', '-aq', '--filter', 'ancestor=fnd/hello:latest').split('\n').filter(Boolean)) docker('rm', '-f', id)
    const answer = await invoke(lb, fnId('hello'))
    assert.equal(answer.status, 200, answer.text)
  })

  it('freezes an idle container and thaws it for the next call', async () => {
    assert.equal((await invoke(lb, fnId('frozen'))).status, 200)
    await until('it is frozen', async () => {
      const m = await cluster.runners[0].metrics()
      return [...m].some(([k, v]) => k.startsWith('fn_container_paused_total') && v > 0)
    })
    assert.equal((await invoke(lb, fnId('frozen'))).status, 200)
  })

  it('F49 an image that is not there: its own error, no credentials, no 200', async () => {
    const answer = await invoke(lb, fnId('missing'))
    assert.ok(answer.status >= 400, answer.text)
    assert.match(answer.text, /Failed to pull image 'fnd\/not-there:latest'/)
  })
})

describe('nodes as an operator puts them up', { skip }, () => {
  const start = async (name, env, args = []) => {
    const port = await freePort()
    return Fnd.start(name, port, null, { env: { FN_PORT: String(port), DOCKER_HOST: `unix://${socketPath}`, ...env }, args })
  }

  it('from Go\'s variables alone: a load balancer and a runner for the functions of an API node', async () => {
    const api = await ApiNode.start()
    const grpcPort = String(await freePort())
    const runner = await start('runner', { FN_NODE_TYPE: 'pure-runner', FN_GRPC_PORT: grpcPort, FN_MAX_TOTAL_MEMORY_BYTES: String(1 << 30) })
    const lb = await start('lb', { FN_NODE_TYPE: 'lb', FN_RUNNER_API_URL: `http://127.0.0.1:${api.port}`,
      FN_RUNNER_ADDRESSES: `127.0.0.1:${grpcPort}`, FN_PLACER: 'ch', FN_MAX_REQUEST_SIZE: '1000' })
    const answer = await invoke(lb, fnId('hello'), '{"name":"Go"}')
    assert.equal(answer.status, 200, answer.text)
    assert.match(answer.text, /Hello Go/)
    assert.equal((await request(lb.url('/t/demo/hello'), { method: 'POST', body: '{}' })).status, 200)
    assert.equal((await invoke(lb, fnId('echo'), 'x'.repeat(1001))).status, 413)
    for (const node of [lb, runner]) assert.equal((await node.stop()).code, 0, node.log)
    await api.stop()
  })

  it('from the files in etc/: one of three runners is killed, every call after it is answered', async () => {
    const ports = [await freePort(), await freePort(), await freePort()].map(String)
    const runners = []
    for (const port of ports) runners.push(await start('runner', { FN_GRPC_PORT: port }, ['--config', path.join(root, 'etc/runner.yaml')]))
    const lb = await start('lb', { FN_RUNNER_ADDRESSES: ports.map((p) => `127.0.0.1:${p}`).join(',') }, ['--config', path.join(root, 'etc/lb.yaml')])
    const call = async () => {
      const answer = await request(lb.url('/t/demo/hello'), { method: 'POST', body: '{}' })
      assert.equal(answer.status, 200, answer.text)
    }
    await call()
    const busy = await until('one has run it', async () => {
      for (const runner of runners) if (await runner.metric('fn_runner_calls_total{outcome="ok"}') > 0) return runner
    })
    const owner = docker('ps', '--format', '{{.Label "io.fnd.owner"}}').split('\n').find((o) => o.endsWith(`-${ports[runners.indexOf(busy)]}`))
    const [left] = containers(owner)
    await busy.kill()
    for (let i = 0; i < 10; i++) await call()
    await busy.start()
    await until('what it left is gone', () => !containers(owner).includes(left), 20_000)
    await call()
    for (const node of [lb, ...runners]) assert.equal((await node.stop()).code, 0, node.log)
  })
})

describe('a container engine that fails', { skip }, () => {
  it('F39 stopped: hot calls go on, new starts are refused, it recovers', async () => {
    const dir = tempDir()
    const proxy = await Proxy.start({ path: socketPath }, { path: path.join(dir, 'docker.sock') })
    const runner = await startRunner({ driver: driver(path.join(dir, 'docker.sock')), runner: `owner: ${owner}\nfreeze_idle: -1` })
    const lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions, lb: 'placement_timeout: 1s' })
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    proxy.fault = { kind: 'refuse' }
    proxy.reset()
    assert.equal((await invoke(lb, fnId('hello'))).status, 200, 'the hot container needs no engine')
    const cold = await invoke(lb, fnId('echo'), 'x')
    assert.equal(cold.status, 503, cold.text)
    assert.equal(cold.headers['fn-outcome'], 'not-executed')
    proxy.fault = null
    await until('it recovers', async () => (await invoke(lb, fnId('echo'), 'x')).status === 200, 8000)
    await lb.stop()
    await runner.stop()
    await proxy.stop()
  })

  it('F13 leftovers of a killed runner are removed by the next one, others are not touched', async () => {
    const other = await startRunner({ driver: driver(), runner: 'owner: somebody-else' })
    const otherLb = await startLb({ addresses: [`127.0.0.1:${other.grpcPort}`], functions })
    assert.equal((await invoke(otherLb, fnId('hello'))).status, 200)
    const victim = await startRunner({ driver: driver(), runner: 'owner: the-victim' })
    const iofs = /iofs_path: (.*)/.exec(readFileSync(path.join(victim.dir, 'fn.yaml'), 'utf8'))[1]
    const lb = await startLb({ addresses: [`127.0.0.1:${victim.grpcPort}`], functions })
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    await victim.kill()
    assert.ok(containers('the-victim').length > 0)
    await victim.start()
    await until('leftovers are gone', () => containers('the-victim').length === 0, 20_000)
    assert.equal(readdirSync(iofs).filter((f) => f.startsWith('fnd-iofs-')).length, 1, 'its socket directories too')
    assert.equal((await invoke(otherLb, fnId('hello'))).status, 200)
    for (const node of [lb, otherLb, victim, other]) await node.stop()
  })

  it('load_file is in the engine before the first call', async () => {
    const name = `fnd-e2e/loaded:${process.pid}`
    const file = path.join(tempDir(), 'images.tar')
    docker('tag', 'fnd/hello:latest', name)
    docker('save', '-o', file, name)
    docker('rmi', name)
    const runner = await startRunner({ driver: driver(socketPath, `, load_file: ${file}`), runner: `owner: ${owner}` })
    await until('it says so', () => runner.log.includes(`load_file ${file}: its images are there`))
    assert.ok(docker('images', '-q', name))
    const lb = await startLb({ addresses: [runner.address], functions: { loaded: { image: name, memory: 64 } } })
    assert.equal((await invoke(lb, fnId('loaded'))).status, 200)
    for (const node of [lb, runner]) await node.stop()
    docker('rmi', '-f', name)
  })

  it('leaves no container behind', async () => {
    await until('none left', () => containers().length === 0, 10_000)
  })
})

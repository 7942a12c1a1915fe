// Control plane swarm on a real Docker Swarm: runners are services, one for each.
// Alone: it makes the engine that all files share a member of a swarm.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId } from './lib/cluster.mjs'
import { docker, socketPath } from './lib/docker.mjs'
import { Elastic } from './lib/elastic.mjs'
import { Fleet } from './lib/engines.mjs'
import { invoke, request } from './lib/http.mjs'
import { Fnd, build, freePort, root, tempDir, until } from './lib/node.mjs'
import { Gate, borrow, buildImage, impossible, services } from './lib/swarm.mjs'

const functions = { hello: { memory: 128 }, sleeper: { memory: 128 } }
const owner = `e2e-${process.pid}`
let image

const cplane = (socket = socketPath, more = '') =>
  `{ use: swarm, docker_host: "unix://${socket}", image: "${image}", owner: ${owner}, capacity: 256, stop_grace: 5s${more} }`

const start = (options = {}) => Elastic.start({ functions, cplane: cplane(options.socket, options.more), ...options })

const hello = async (e) => {
  const answer = await invoke(e.lbs[0], fnId('hello'), '{"name":"Swarm"}')
  assert.equal(answer.status, 200, answer.text)
  assert.match(answer.text, /Hello Swarm/)
}

const given = (e) => until('all runners are given back', async () => Object.keys(await e.states()).length === 0 && services(owner).length === 0, 30_000)

const why = impossible() || false // '' would skip

describe('runners in a Docker Swarm', { skip: why }, () => {
  let giveBack = () => {}
  before(() => { image = buildImage() })
  after(() => giveBack())

  it('an engine outside of a Swarm: one sentence that says what to do', async () => {
    const port = await freePort()
    const npm = await Fnd.start('npm', port, `
node: npm
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${await freePort()}" }
admin: { socket: "off" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { control_plane: ${cplane()} }
`)
    try {
      await until('it is said', () => /is no manager of a Swarm; run `docker swarm init`/.test(npm.log))
    } finally {
      await npm.stop()
    }
    giveBack = await borrow()
  })

  it('a call makes a service appear, is answered by it, and silence takes it away; others stay', async () => {
    docker('service', 'create', '--detach', '--quiet', '--name', 'fnd-other', '--label', 'fnd.owner=somebody', '--label', 'fnd.group=default',
      '--replicas', '0', image)
    const e = await start()
    try {
      assert.deepEqual(services(owner), [])
      await hello(e)
      const [name, ...rest] = services(owner)
      assert.deepEqual(rest, [])
      const [service] = JSON.parse(docker('service', 'inspect', name))
      assert.equal(service.Spec.Labels['fnd.group'], 'default')
      assert.equal(service.Spec.Mode.Replicated.Replicas, 1)
      assert.equal(service.Spec.TaskTemplate.Resources.Limits.MemoryBytes, (256 + 256) << 20)
      const { runners } = await e.runners()
      assert.deepEqual(runners.map((r) => r.id), [name])
      assert.match(runners[0].address, /^127\.0\.0\.1:\d+$/)
      await given(e)
      assert.equal(await e.npm.metric('fn_npm_drain_losses'), 0)
      assert.deepEqual(services('somebody'), ['fnd-other'])
    } finally {
      await e.stop()
    }
  })

  it('answers that are lost buy nothing twice; an engine that is away costs no call', async () => {
    const gate = await Gate.start()
    const e = await start({ socket: gate.path })
    try {
      gate.lose(1)
      await hello(e)
      assert.equal(new Set(gate.orders).size, 1)
      assert.ok(gate.orders.length >= 1)
      const before = services(owner)
      assert.equal(before.length, 1)
      gate.away = true
      const end = Date.now() + 1000
      while (Date.now() < end) await hello(e)
      gate.away = false
      await hello(e)
      assert.deepEqual(services(owner), before)
      await given(e)
    } finally {
      await e.stop()
      await gate.stop()
    }
  })

  it("a runner that ends is replaced, and its service is taken away; on its node's network", async () => {
    const grpc = await freePort()
    const e = await start({ npm: '  runners_min: 1', more: `, network: host, grpc_port: ${grpc}, env: ["FN_PORT=${await freePort()}"]` })
    try {
      await until('the smallest pool is there', async () => (await e.states()).active === 1, 20_000)
      const [name] = services(owner)
      assert.equal((await e.runners()).runners[0].address, `127.0.0.1:${grpc}`)
      const born = Date.parse(JSON.parse(docker('service', 'inspect', name))[0].CreatedAt)
      await until('it is none that ended as soon as it began', () => Date.now() - born > 6000)
      docker('kill', docker('ps', '-q', '--filter', `label=com.docker.swarm.service.name=${name}`))
      await until('another one came', async () => {
        const now = services(owner)
        return now.length === 1 && now[0] !== name && (await e.states()).active === 1
      }, 30_000)
      await hello(e)
    } finally {
      await e.stop()
      for (const s of services(owner)) docker('service', 'rm', s)
    }
  })

  it('the stack of deploy/ is a cluster that answers', async () => {
    const stack = `fnd-stack-${process.pid}`
    const ports = { 8080: await freePort(), 8081: await freePort() }
    const file = path.join(tempDir(), 'stack.yaml')
    writeFileSync(file, readFileSync(path.join(root, 'deploy/stack.yaml'), 'utf8').replace(/published: (\d+)/g, (_, port) => `published: ${ports[port]}`))
    const apps = path.join(path.dirname(file), 'apps.yaml')
    writeFileSync(apps, 'apps: [{ name: demo, functions: [{ name: hello, image: fnd/hello, memory: 64, triggers: [{ name: hello, source: /hello }] }] }]')
    execFileSync(path.join(root, 'images/build'), ['api', 'runner', 'lb'], { stdio: ['ignore', 'ignore', 'inherit'] })
    docker('stack', 'deploy', '--detach=true', '--resolve-image', 'never', '-c', file, stack)
    try {
      await until('the API takes the function', () => spawnSync(path.join(build, 'fnd'),
        ['api', '--url', `http://127.0.0.1:${ports[8081]}`, 'import', apps]).status === 0, 40_000)
      const answer = await until('a call is answered', async () => {
        const a = await request(`http://127.0.0.1:${ports[8080]}/t/demo/hello`, { method: 'POST', body: '{"name":"stack"}' }).catch(() => null)
        return a?.status === 200 && a
      }, 40_000)
      assert.match(answer.text, /Hello stack/)
    } finally {
      const label = `label=com.docker.stack.namespace=${stack}`
      docker('stack', 'rm', stack)
      await until('its containers are gone', () => docker('ps', '-aq', '--filter', label) === '', 40_000)
      docker('volume', 'rm', `${stack}_functions`)
      await until('its network is gone', () => docker('network', 'ls', '-q', '--filter', label) === '', 20_000)
    }
  })

  it("keeps its contract: fnkit's cases over a real Swarm", () => {
    const out = execFileSync(path.join(build, 'fnkit'), ['check', '--world', '--verbose',
      '--set', `docker_host=unix://${socketPath}`, '--set', `image=${image}`, '--set', 'stop_grace=1s',
      path.join(build, 'plugins/cp-swarm.so')], { encoding: 'utf8', timeout: 120_000 })
    assert.doesNotMatch(out, /not in this world/)
  })
})

// Two engines in network namespaces; a minute, most of it the Swarm's patience with a silent node.
describe('runners on two nodes of a Swarm', { skip: why || (!process.env.FND_LONG && 'it takes a minute: FND_LONG=1') }, () => {
  it('they are spread; a node that is cut off is replaced by the other', async () => {
    image ??= buildImage()
    const fleet = await Fleet.start(2)
    const [manager, worker] = fleet.engines
    let e
    try {
      fleet.join()
      fleet.load(image)
      e = await start({ socket: manager.socket, npm: '  runners_min: 2' })
      const hosts = async () => (await e.runners()).runners.filter((r) => r.state === 'active').map((r) => r.address.split(':')[0]).sort()
      await until('there is one on each', async () => (await hosts()).join() === [manager.address, worker.address].sort().join(), 30_000)
      // 3 calls of 128 MB are more than one runner of 256 MB takes.
      const answers = await Promise.all([1, 2, 3].map(() => invoke(e.lbs[0], fnId('sleeper'), '500')))
      assert.deepEqual(answers.map((a) => a.status), [200, 200, 200])
      worker.unplug()
      await until('both are on the node that is left', async () => (await hosts()).join() === [manager.address, manager.address].join(), 90_000)
      await hello(e)
    } finally {
      await e?.stop()
      await fleet.stop()
    }
  })
})

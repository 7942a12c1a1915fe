// Containers that are kept ready (runner.warm_max), with real ones: what is kept, started again and given up, and who gets it.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { docker, driver, noEngine } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { build, root, tempDir, until } from './lib/node.mjs'

const functions = {
  hello: { image: 'fnd/hello:latest', memory: 64, idle_timeout: 1 },
  other: { image: 'fnd/hello:latest', memory: 65, idle_timeout: 1 },
}
const processes = { hello: { image: 'hello', memory: 64, idle_timeout: 1 }, other: { image: 'hello', memory: 65, idle_timeout: 1 } }
const store = path.join(tempDir(), 'store')
const fillStore = () => execFileSync(path.join(root, 'scripts/build-images'), ['hello'],
  { env: { ...process.env, FND_BUILD: build, FND_OCI_STORE: store } })
const noOci = process.getuid() !== 0 ? 'only root can make containers'
  : spawnSync('crun', ['--version']).status !== 0 && 'no crun on this machine'

const ask = (node, what) => JSON.parse(execFileSync(path.join(build, 'fnd'), [what, '--json', '--config', path.join(node.dir, 'fn.yaml')],
  { encoding: 'utf8' }))
const warm = (node) => ask(node, 'status').runner.warm
const containers = (node) => ask(node, 'containers').containers.filter((c) => c.state !== 'close')
const isWarm = (node, n = 1) => until(`${n} kept ready`, () => containers(node).filter((c) => c.warm).length === n && containers(node).length === n)
const hello = async (lb, name = 'hello') => {
  const answer = await invoke(lb, fnId(name), '{"name":"x"}')
  assert.equal(answer.status, 200, answer.text)
  return answer
}

const drivers = [
  { name: 'process', functions: processes, skip: false },
  { name: 'docker', functions, skip: noEngine, yaml: driver(), end: (id) => docker('kill', id) }, // from outside
  { name: 'oci', functions, skip: noOci, setup: fillStore, yaml: `driver: { use: oci, store: ${store}, state: ${path.join(tempDir(), 'state')}, runtime: crun }` },
]

for (const { name, functions: fns, skip, yaml, setup, end } of drivers) {
  describe(`containers of driver ${name} that are kept ready`, { skip }, () => {
    let runner
    let lb
    before(async () => {
      setup?.()
      runner = await startRunner({ ...(yaml ? { driver: yaml } : {}), runner: `owner: warm-${name}-${process.pid}\nwarm_max: 3\nwarm_hold: 1h` })
      lb = await startLb({ addresses: [runner.address], functions: fns })
    })
    after(async () => { for (const node of [lb, runner]) await node?.stop() })

    it('one that a call waited for stays beyond its idle timeout, and the next call gets it', async () => {
      await hello(lb)
      await isWarm(runner)
      const [kept] = containers(runner)
      assert.equal(kept.waits_for, 'a call; it is kept ready')
      await hello(lb)
      assert.deepEqual({ ...warm(runner), containers: 0 }, { containers: 0, hits: 1, misses: 1, started: 0, failed: 0, expired: 0, evicted: 0 })
      await isWarm(runner)
      assert.equal(containers(runner)[0].container_id, kept.container_id)
      assert.equal(await runner.metric('fn_runner_warm_hits_total'), 1)
      assert.equal(await runner.metric('fn_runner_warm_containers'), 1)
    })

    it('as many as a burst needed are there for the next one', async () => {
      await Promise.all([1, 2, 3].map(() => hello(lb, 'other')))
      const { misses } = warm(runner)
      await until('its idle timeout is over', () => containers(runner).every((c) => c.warm))
      await Promise.all(containers(runner).filter((c) => c.fn_id === fnId('other')).map(() => hello(lb, 'other')))
      assert.equal(warm(runner).misses, misses)
    })

    if (end) it('one that ended is started again, before a call comes', async () => {
      const { started } = warm(runner)
      const [lost] = containers(runner).filter((c) => c.fn_id === fnId('hello'))
      end(lost.container_id)
      await until('another one is ready', () => containers(runner).some((c) => c.fn_id === fnId('hello') && c.warm && c.state === 'idle' && c.container_id !== lost.container_id))
      assert.equal(warm(runner).started, started + 1)
      const before = warm(runner)
      await hello(lb)
      assert.equal(warm(runner).hits, before.hits + 1)
      assert.equal(warm(runner).misses, before.misses)
    })

    it('a reload without it gives them back', async () => {
      const file = path.join(runner.dir, 'fn.yaml')
      writeFileSync(file, readFileSync(file, 'utf8').replace('warm_max: 3', 'warm_max: 0'))
      runner.signal('SIGHUP')
      await until('none is left', () => containers(runner).length === 0)
      assert.equal(warm(runner).containers, 0)
      await hello(lb)
      await until('it goes after its idle timeout', () => containers(runner).length === 0)
    })
  })
}

describe('a plugin that says how many containers are kept', () => {
  it('has its number started, and no more than runner.warm_max', async () => {
    const runner = await startRunner({ plugins: 'warm: { use: spare, spare: 5, window: 1h }', runner: 'warm_max: 3' })
    const lb = await startLb({ addresses: [runner.address], functions: processes })
    await hello(lb)
    await isWarm(runner, 3)
    assert.equal(warm(runner).started, 2)
    await lb.stop()
    await runner.stop()
    assert.equal(runner.exit.code, 0)
  })

  it('is refused when it does not say that', () => {
    const file = path.join(tempDir(), 'fn.yaml')
    writeFileSync(file, `node: pure-runner\nplugin_dir: ${path.join(build, 'plugins')}\nplugins: { driver: { use: process, root: ${path.join(build, 'functions')} }, warm: { use: window } }\nrunner: { warm_max: 1 }\n`)
    const r = spawnSync(path.join(build, 'fnd'), ['check', '--config', file], { encoding: 'utf8' })
    assert.notEqual(r.status, 0)
    assert.match(r.stderr, /CFG712 .*fn.yaml:3:.*plugins.warm, got "window", which has no containers\(\)/)
  })

  it('is told to have no effect without runner.warm_max', () => {
    const file = path.join(tempDir(), 'fn.yaml')
    writeFileSync(file, `node: pure-runner\nplugin_dir: ${path.join(build, 'plugins')}\nplugins: { driver: { use: process, root: ${path.join(build, 'functions')} }, warm: { use: spare } }\n`)
    const r = spawnSync(path.join(build, 'fnd'), ['check', '--config', file], { encoding: 'utf8' })
    assert.equal(r.status, 0, r.stderr)
    assert.match(r.stderr, /CFG710 .*warm: has no effect: runner.warm_max is 0/)
  })
})

describe('a function that says how long its starts may take', () => {
  const slow = { never: { image: 'misbehave', memory: 64, config: { FN_MODE: 'never-listens' }, annotations: { 'fnd/start-timeout': '700ms' } },
    wrong: { image: 'hello', memory: 64, annotations: { 'fnd/start-timeout': '1h' } } }
  let runner
  let lb
  before(async () => {
    runner = await startRunner({})
    lb = await startLb({ addresses: [runner.address], functions: slow })
  })
  after(async () => { for (const node of [lb, runner]) await node?.stop() })

  it('gets that time, and the sentence says so', async () => {
    const answer = await invoke(lb, fnId('never'))
    assert.equal(answer.status, 504, answer.text)
    assert.match(answer.text, /Container initialization timed out, .*: no socket within 700 ms/)
  })

  it('gets no more than the operator allows', async () => {
    const answer = await invoke(lb, fnId('wrong'))
    assert.equal(answer.status, 400, answer.text)
    assert.match(answer.text, /RUN405 annotation fnd\/start-timeout, got \\"1h\\"; expected a time such as \\"30s\\", from 100 ms to 120000 ms/)
  })
})

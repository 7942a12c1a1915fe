// Images that change behind the runner, and the image cleaner with an engine that belongs to this file alone.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { Ledger, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { docker, driver, noEngine } from './lib/docker.mjs'
import { impossible, startEngine } from './lib/engines.mjs'
import { invoke } from './lib/http.mjs'
import { tempDir, until } from './lib/node.mjs'
import { Podman, noPodman } from './lib/podman.mjs'

const skip = impossible() || false
const MIB = 1 << 20

// Each call is the first one of its function, and so needs a container.
const engines = {
  'the engine': [noEngine, () => ({ docker })],
  Podman: [noPodman, () => Podman.start(['hello', 'echo'])],
}
for (const [name, [without, startIt]] of Object.entries(engines)) {
  describe(`an image that changes behind the runner, at ${name}`, { skip: without }, () => {
    const image = `fnd-test/changes-${process.pid}:1`
    const functions = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`f${i}x`, { image, memory: 64, timeout: 60 }]))
    let engine
    let runner
    let lb
    let called = 0

    before(async () => {
      engine = await startIt()
      engine.docker('tag', 'fnd/hello:latest', image)
      runner = await startRunner({ driver: driver(engine.socket), runner: `owner: changes-${process.pid}` })
      lb = await startLb({ addresses: [runner.address], functions })
    })
    after(async () => {
      for (const node of [lb, runner]) await node?.stop()
      engine?.docker('rmi', image)
      engine?.remove?.()
    })

    const coldCall = () => invoke(lb, fnId(`f${called++}x`), '{"name":"a"}')
    const asked = async () => [...await runner.metrics()]
      .filter(([k]) => /^fn_docker_api_latency_count.*docker_inspect_image/.test(k)).reduce((n, [, v]) => n + v, 0)
    // Events of the moments before the runner came are told, too.
    const untilKnown = () => until('the engine is not asked for the image', async () => {
      const before = await asked()
      const answer = await coldCall()
      assert.equal(answer.status, 200, answer.text)
      return await asked() === before
    })

    it('is not asked for while nothing changes', async () => {
      await untilKnown()
    })

    it('is missed by the next cold call when it was removed, and found when it is there again', async () => {
      engine.docker('rmi', image)
      assert.match((await coldCall()).text, /Failed to pull image 'fnd-test\/changes-/)
      engine.docker('tag', 'fnd/hello:latest', image)
      assert.match((await coldCall()).text, /Hello a/)
      await untilKnown()
    })

    it('is another one when its name was given to another, which is asked for', async () => {
      const before = await asked()
      engine.docker('tag', 'fnd/echo:latest', image)
      assert.equal((await coldCall()).text, '{"name":"a"}')
      await until('it is asked for', async () => (await coldCall()).status === 200 && await asked() > before)
    })
  })
}

describe('images_max', { skip }, () => {
  const ledger = new Ledger()
  let engine
  let runner

  const images = () => engine.docker('images', '--format', '{{.Repository}}:{{.Tag}}').split('\n').filter(Boolean).sort()
  const usage = () => new Promise((resolve, reject) => {
    http.get({ socketPath: engine.socket, path: '/system/df' }, (answer) => {
      let text = ''
      answer.on('data', (d) => { text += d })
      answer.on('end', () => resolve(JSON.parse(text)))
    }).on('error', reject)
  })
  // An engine refuses to count for two at a time: what waits for the cleaner does not ask it this.
  const layersSize = () => until('the engine counts', async () => (await usage()).LayersSize)
  const untilLeft = (left) => until(`${left} are left`, () => images().join() === left.join())
  // An image of a layer of its own.
  function make(name, bytes = 3 * MIB) {
    const dir = tempDir()
    mkdirSync(path.join(dir, 'root'))
    writeFileSync(path.join(dir, 'root/data'), randomBytes(bytes))
    execFileSync('tar', ['-C', path.join(dir, 'root'), '-cf', path.join(dir, 'tar'), '.'])
    engine.docker('import', path.join(dir, 'tar'), name)
  }
  // Several of one layer.
  function derive(name, base) {
    const dir = tempDir()
    writeFileSync(path.join(dir, 'Dockerfile'), `FROM ${base}\nLABEL name=${name}\n`)
    engine.docker('build', '-q', '-t', name, dir)
  }
  async function start(max) {
    runner = await startRunner({
      driver: driver(engine.socket, `, images_max: ${max}, images_exempt: [kept:1]`),
      runner: `owner: images-${process.pid}`,
    })
  }

  before(async () => {
    engine = await startEngine({ images: ['fnd/hello:latest'], ledger })
    engine.docker('create', '--name', 'user', 'fnd/hello:latest')
    make('old:1')
    engine.docker('tag', 'old:1', 'old:again')
    const second = Math.floor(Date.now() / 1000) // in which an engine tells ages
    await until('old:1 is older than the others', () => Math.floor(Date.now() / 1000) > second)
    for (const name of ['kept:1', 'old:2', 'base:1']) make(name)
    derive('derived:1', 'base:1')
    derive('derived:2', 'base:1')
  })
  afterEach(() => runner?.stop())
  after(() => engine?.stop())

  it('removes the oldest, with all its names, and no more than is needed', async () => {
    const max = await layersSize() - MIB
    await start(max)
    const left = ['base:1', 'derived:1', 'derived:2', 'fnd/hello:latest', 'kept:1', 'old:2']
    await untilLeft(left)
    assert.ok(await layersSize() <= max)
    assert.deepEqual(images(), left)
  })

  it('frees the layers that several images share with the last of them', async () => {
    const max = await layersSize() - 4 * MIB // old:2 is not enough
    await start(max)
    await untilLeft(['fnd/hello:latest', 'kept:1'])
    assert.ok(await layersSize() <= max)
  })

  it('says that none of the rest may go', async () => {
    await start(1)
    await until('it says so', () => /images take \d+ bytes, more than images_max, and none may go/.test(runner.log))
    assert.deepEqual(images(), ['fnd/hello:latest', 'kept:1'])
  })
})

// Labels of runners, from fn.yaml and from control planes to load balancers and to those who look.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { startLb, startRunner } from './lib/cluster.mjs'
import { Elastic } from './lib/elastic.mjs'
import { build, tempDir, until } from './lib/node.mjs'

const fnd = path.join(build, 'fnd')
const peersOf = (lb) => JSON.parse(execFileSync(fnd, ['peers', '--json', '--config', path.join(lb.dir, 'fn.yaml')], { encoding: 'utf8' })).peers
const count = (list) => list.reduce((n, l) => ({ ...n, [l]: (n[l] ?? 0) + 1 }), {})

describe('labels in a static list', () => {
  it('are told of each peer', async () => {
    const runners = await Promise.all(['a', 'b'].map((name) => startRunner({ name })))
    const lb = await startLb({ addresses: [`${runners[0].address} zone=a class=gpu`, runners[1].address] })
    try {
      const peers = peersOf(lb)
      assert.equal(peers.find((p) => p.address === runners[0].address).labels, 'class=gpu,zone=a')
      assert.equal(peers.find((p) => p.address === runners[1].address).labels, undefined)
      const table = execFileSync(fnd, ['peers', '--config', path.join(lb.dir, 'fn.yaml')], { encoding: 'utf8' })
      assert.match(table, /PEER .* LABELS\n/)
      assert.match(table, /class=gpu,zone=a/)
    } finally {
      await lb.stop()
      await Promise.all(runners.map((r) => r.stop()))
    }
  })

  it('that are none are refused with file and line', () => {
    const file = path.join(tempDir(), 'fn.yaml')
    writeFileSync(file, `node: lb\nplugin_dir: ${path.join(build, 'plugins')}\nplugins:\n  placer: { use: naive }\n  pool:\n    use: static\n    runners:\n      - "127.0.0.1:9190 zone"\napps: [{ name: a }]\n`)
    const said = spawnSync(fnd, ['run', '--config', file], { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH } })
    assert.notEqual(said.status, 0)
    assert.match(said.stdout + said.stderr, /fn\.yaml:\d+:\d+: .*runners\[0\]: got "127\.0\.0\.1:9190 zone"; expected labels such as zone=a: a key and a value of 1 to 63 letters/)
  })
})

describe('labels of a control plane', () => {
  it('reach the load balancers and those who look', async () => {
    const e = await Elastic.start({
      functions: { hello: { memory: 128 } },
      npm: '  runners_min: 2',
      cplane: (e) => `{ use: process, state: ${e.state}, program: ${fnd}, base: ${e.base}, capacity: 256, labels: ["zone=a class=gpu", zone=b] }`,
    })
    try {
      await until('two runners are active', async () => (await e.states()).active === 2, 20_000)
      const { runners } = await e.runners()
      assert.deepEqual(count(runners.map((r) => r.labels)), { 'class=gpu,zone=a': 1, 'zone=b': 1 })
      const text = execFileSync(fnd, ['runners', '--socket', e.socket, 'list'], { encoding: 'utf8' })
      assert.match(text, /grpc\.sock  class=gpu,zone=a/)
      const of = (list, key) => Object.fromEntries(list.map((x) => [x.address, x[key]]))
      await until('the load balancer has them', () => peersOf(e.lbs[0]).length === 2)
      assert.deepEqual(of(peersOf(e.lbs[0]), 'labels'), of(runners, 'labels'))
    } finally {
      await e.stop()
    }
  })
})

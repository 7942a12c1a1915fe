// Labels of runners, from fn.yaml and from control planes to load balancers and to those who look.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { Elastic } from './lib/elastic.mjs'
import { invoke } from './lib/http.mjs'
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

// ---- placer-labels

const functions = {
  anywhere: { image: 'hello', memory: 128 },
  inb: { image: 'hello', memory: 128, annotations: { 'fnd/runner-labels': { zone: 'b' } } },
  gpu: { image: 'hello', memory: 128, annotations: { 'fnd/runner-labels': 'class=gpu zone=a' } },
  moon: { image: 'hello', memory: 128, annotations: { 'fnd/runner-labels': { zone: 'moon' } } },
  wrong: { image: 'hello', memory: 128, annotations: { 'fnd/runner-labels': 7 } },
}
const placer = (more = '') => `[{ use: chbl }, { use: labels, inner: chbl${more} }]`
const why = (lb, id) => JSON.parse(execFileSync(fnd, ['why', '--json', '--config', path.join(lb.dir, 'fn.yaml'), id], { encoding: 'utf8' }))

// { address: calls } of n calls, which all end well.
async function placed(lb, name, n = 12) {
  const answers = await Promise.all(Array.from({ length: n }, () => invoke(lb, fnId(name), '{}')))
  assert.deepEqual(answers.filter((a) => a.status !== 200).map((a) => a.text), [])
  return count(answers.map((a) => why(lb, a.headers['fn-call-id']).tries.at(-1).runner))
}

describe('placer-labels over a static list', () => {
  const runners = []
  const labels = ['zone=a class=cpu', 'zone=a class=gpu', 'zone=b']
  before(async () => {
    for (const name of ['one', 'two', 'three']) runners.push(await startRunner({ name }))
  })
  after(() => Promise.all(runners.map((r) => r.stop())))
  const start = (more) => startLb({ addresses: runners.map((r, i) => `${r.address} ${labels[i]}`), functions, placer: placer(more), lb: 'placement_timeout: 2s' })

  it('calls go to runners that have the labels which their function asks for', async () => {
    const lb = await start()
    try {
      assert.deepEqual(await placed(lb, 'inb'), { [runners[2].address]: 12 })
      assert.deepEqual(await placed(lb, 'gpu'), { [runners[1].address]: 12 })
      await placed(lb, 'anywhere')
    } finally {
      await lb.stop()
    }
  })

  it('a call that no runner is good for waits, and says why', async () => {
    const lb = await start()
    try {
      const late = await invoke(lb, fnId('moon'), '{}')
      assert.equal(late.status, 503)
      assert.match(late.text, /the placer tried none of 3: no runner has its labels/)
      assert.match(JSON.stringify(why(lb, late.headers['fn-call-id'])), /no runner has its labels/)
      const wrong = await invoke(lb, fnId('wrong'), '{}')
      assert.equal(wrong.status, 503)
      assert.match(wrong.text, /its labels are not readable/)
    } finally {
      await lb.stop()
    }
  })

  it('or is refused at once', async () => {
    const lb = await start(', none: give-up')
    try {
      const began = Date.now()
      const answer = await invoke(lb, fnId('moon'), '{}')
      assert.equal(answer.status, 503)
      assert.match(answer.text, /no runner has its labels/)
      assert.ok(Date.now() - began < 1500)
      assert.deepEqual(await placed(lb, 'inb'), { [runners[2].address]: 12 })
    } finally {
      await lb.stop()
    }
  })
})

describe('placer-labels over an elastic pool', () => {
  it('keeps calls to their zone', async () => {
    const e = await Elastic.start({
      groups: ['g'], // short, so that `fnd why` has room for what tells the sockets of runners apart
      functions: { inb: { ...functions.inb, config: { FN_LB_GROUP_ID: 'g' } } },
      npm: '  runners_min: 3',
      placer: placer(),
      cplane: (e) => `{ use: process, state: ${e.state}, program: ${fnd}, base: ${e.base}, capacity: 256, labels: [zone=a, zone=b] }`,
    })
    try {
      await until('three runners are active', async () => (await e.states('g')).active === 3, 20_000)
      const { runners } = await e.runners()
      const inB = runners.filter((r) => r.labels === 'zone=b').map((r) => r.address)
      assert.ok(inB.length >= 1 && inB.length <= 2)
      for (const shown of Object.keys(await placed(e.lbs[0], 'inb'))) {
        assert.equal(runners.filter((r) => r.address.startsWith(shown)).length, 1, shown)
        assert.ok(inB.some((address) => address.startsWith(shown)), shown)
      }
    } finally {
      await e.stop()
    }
  })
})

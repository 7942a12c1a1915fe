// Every placer places calls of a real load balancer, alone and under slowstart; a stack that does not fit
// together is refused with a sentence.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { build, tempDir } from './lib/node.mjs'
import { ReloadLb, lbYaml } from './lib/reload.mjs'

const functions = { hello: {}, echo: {} }
const placers = {
  naive: '{ use: naive }',
  ch: '{ use: ch }',
  p2c: '{ use: p2c, tries: 2 }',
  first: '{ use: first, cap: 2 }',
  chbl: '{ use: chbl, bound: 150 }',
  hybrid: '{ use: hybrid, cap: 2, high: 50 }',
  'slowstart of chbl': '[{ use: chbl, name: homes }, { use: slowstart, inner: homes, window: 1h, floor: 0 }]',
}

describe('placers', () => {
  const runners = []
  before(async () => {
    for (const name of ['one', 'two']) runners.push(await startRunner({ name }))
  })
  after(() => Promise.all(runners.map((r) => r.stop())))

  for (const [name, placer] of Object.entries(placers)) {
    it(`${name} places all calls`, async () => {
      const lb = await startLb({ addresses: runners.map((r) => `127.0.0.1:${r.grpcPort}`), functions, placer })
      try {
        const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => invoke(lb, fnId(i % 2 ? 'hello' : 'echo'))))
        assert.deepEqual(answers.filter((a) => a.status !== 200).map((a) => a.text), [])
        assert.equal(await lb.metric('fn_lb_placer_placed_ok_count'), 40)
      } finally {
        await lb.stop()
      }
    })
  }
})

describe('a stack and reload', () => {
  it('a wrapper finds the placer of its own configuration, and a stack that does not fit changes nothing', async () => {
    const runner = await startRunner()
    const lb = await ReloadLb.start({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions, overriders: '[]' })
    const calls = async () => {
      for (const a of await Promise.all(Array.from({ length: 20 }, () => invoke(lb.node, fnId('hello'))))) assert.equal(a.status, 200, a.text)
    }
    const reload = (placer) => {
      lb.write(lbYaml(lb.options).replace('placer: { use: naive }', `placer: ${placer}`))
      return lb.command('reload')
    }
    try {
      await calls()
      for (const placer of ['[{ use: chbl, name: homes }, { use: slowstart, inner: homes }]', '[{ use: p2c, name: homes }, { use: slowstart, inner: homes }]']) {
        const said = await reload(placer)
        assert.equal(said.code, 0, said.err + said.out)
        await calls()
      }
      const refused = await reload('[chbl, { use: slowstart, inner: homes }]') // a name of the generation that serves
      assert.notEqual(refused.code, 0)
      assert.match(refused.err + refused.out, /inner placer, got "homes"; expected the name of a placer above it/)
      await calls()
      assert.equal((await reload('{ use: naive }')).code, 0)
      await calls()
      assert.equal(await lb.node.metric('fn_lb_placer_placed_ok_count'), 100)
    } finally {
      await lb.node.stop()
      await runner.stop()
    }
  })
})

describe('stacks that do not fit together', () => {
  const rows = [
    ['no inner one', '[p2c, slowstart]', /slowstart: key "inner" is missing/],
    ['unknown inner one', '[p2c, { use: slowstart, inner: chbl }]', /PLG915 \S+fn\.yaml:4:42: slowstart: placer\/slowstart: inner placer, got "chbl"; expected the name of a placer above it/],
    ['inner one below', '[{ use: slowstart, inner: p2c }, p2c]', /inner placer, got "p2c"; expected the name of a placer above it/],
    ['two of one name', '[p2c, { use: slowstart, inner: p2c }, { use: slowstart, inner: p2c }]', /placer "slowstart" is defined twice, first at .*expected a name: of its own/],
    ['a slow start of a slow start', '[p2c, { use: slowstart, inner: p2c }, { use: slowstart, name: twice, inner: slowstart }]', /inner placer "slowstart" keeps 256 bytes per call; expected at most 184/],
    ['nothing', '[]', /placer, got an empty list; expected \{use: <name>, its options\} or a list of them/],
    ['bound', '{ use: chbl, bound: 1.25 }', /bound, got "1\.25"; expected whole percent 100\.\.400/],
  ]
  for (const [what, placer, sentence] of rows) {
    it(what, () => {
      const file = path.join(tempDir(), 'fn.yaml')
      writeFileSync(file, `node: lb\nplugin_dir: ${path.join(build, 'plugins')}\nplugins:\n  placer: ${placer}\n  pool: { use: static, runners: ["127.0.0.1:9190"] }\napps: [{ name: a }]\n`)
      // check binds options; who wraps whom shows when instances are made
      const said = spawnSync(path.join(build, 'fnd'), [/inner placer/.test(sentence) ? 'run' : 'check', '--config', file], { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH } })
      assert.notEqual(said.status, 0)
      assert.match(said.stdout + said.stderr, sentence)
    })
  }
})

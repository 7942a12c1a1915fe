// fnkit sim as a vendor uses it: the table, JSON, mistakes in scenarios and options, plugins that break
// the rules of the simulated host, wrapped placers, two runs with equal traces.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { build, root, tempDir } from './lib/node.mjs'

const scenario = name => path.join(root, 'tests/scenario', `${name}.yaml`)
const placer = name => path.join(build, 'plugins', `placer-${name}.so`)
const bad = name => path.join(build, 'tests/plugins/sim', `${name}.so`)
const sim = (...args) => spawnSync(path.join(build, 'fnkit'), ['sim', ...args],
  { encoding: 'utf8', timeout: 60_000 })
const short = ['--scenario', scenario('burst'), '--set', 'calls_max=3000']

describe('fnkit sim', () => {
  it('compares placers in a table and as JSON with the same traces', () => {
    const table = sim('--scenario', scenario('churn'), '--seed', '7', '--set', 'duration=40s',
      placer('naive'), placer('ch'))
    assert.equal(table.status, 0, table.stderr)
    assert.match(table.stdout, /naive \d.* ch \d/)
    assert.match(table.stdout, /collateral moves +- +\d+\.\d\d %/)
    const json = sim('--scenario', scenario('churn'), '--seed', '7', '--set', 'duration=40s', '--json',
      placer('naive'), placer('ch'))
    const runs = JSON.parse(json.stdout).runs
    assert.equal(runs.length, 2)
    for (const run of runs) {
      assert.match(table.stdout, new RegExp(run.trace))
      assert.equal(run.same_twice, true)
      const value = name => run.rows.find(r => r.name === name).value
      assert.ok(value('calls') > 10000)
      assert.ok(value('placed') <= value('calls'))
      assert.ok(value('wait p99') >= value('wait p50'))
    }
  })

  it('gives another trace for another seed', () => {
    const trace = seed => JSON.parse(sim(...short, '--json', '--seed', seed, placer('naive')).stdout).runs[0].trace
    assert.equal(trace('1'), trace('1'))
    assert.notEqual(trace('1'), trace('2'))
  })

  it('simulates a placer that wraps another', () => {
    const r = sim(...short, '--inner', placer('p2c'), '--set', 'placer.inner=p2c', '--set',
      'placer.window=10s', placer('slowstart'))
    assert.equal(r.status, 0, r.stderr)
    assert.match(r.stdout, /slowstart/)
  })

  it('simulates labels: functions that all ask for a GPU use no other runner', () => {
    const file = path.join(tempDir(), 'gpu.yaml')
    writeFileSync(file, readFileSync(scenario('labels'), 'utf8').replace(", '']", ']').replace('duration: 60s', 'duration: 20s'))
    const used = (...args) => {
      const r = sim('--scenario', file, '--json', ...args)
      assert.equal(r.status, 0, r.stderr)
      return JSON.parse(r.stdout).runs[0].rows.find((row) => row.name === 'runners used').value
    }
    assert.equal(used('--inner', placer('chbl'), '--set', 'placer.inner=chbl', placer('labels')), 5)
    const wrong = path.join(tempDir(), 'wrong.yaml')
    writeFileSync(wrong, 'runners: { labels: ["zone=a", zone] }\n')
    const r = sim('--scenario', wrong, placer('naive'))
    assert.equal(r.status, 78)
    assert.match(r.stderr, /runners\.labels, got "zone"; expected labels such as zone=a/)
  })

  it('tells all mistakes of a scenario with their places', () => {
    const file = path.join(tempDir(), 'wrong.yaml')
    writeFileSync(file, 'duraton: 5s\nrunners:\n  count: lots\n')
    const r = sim('--scenario', file, placer('naive'))
    assert.equal(r.status, 78)
    assert.match(r.stderr, /wrong\.yaml:1:1: unknown key "duraton"; did you mean "duration"\?/)
    assert.match(r.stderr, /wrong\.yaml:3:10: count, got "lots"; expected 1\.\.10000/)
    assert.equal(r.stdout, '')
  })

  // [what, args, exit code, sentence]
  const rows = [
    ['no scenario', [placer('naive')], 64, /--scenario is missing/],
    ['no plugin', ['--scenario', scenario('burst')], 64, /a plugin file is missing/],
    ['a seed in words', [...short, '--seed', 'seven', placer('naive')], 64, /--seed, got "seven"; expected a whole number/],
    ['an unknown option', [...short, '--sed', '7', placer('naive')], 64, /usage: fnkit sim/],
    ['an unknown key in --set', [...short, '--set', 'runners.cuont=3', placer('naive')], 78, /--set runners\.cuont: no such key/],
    ['a missing scenario', ['--scenario', '/nowhere.yaml', placer('naive')], 78, /\/nowhere\.yaml/],
    ['a missing plugin', [...short, '/nowhere.so'], 78, /\/nowhere\.so.*No such file/],
    ['an option that the placer lacks', [...short, '--set', 'placer.colour=red', placer('naive')], 78, /colour/],
    ['a budget that is not kept', [...short, '--budget-ns', '1', placer('ch')], 1, /SIM106 .*placer-ch\.so: a decision took \d+ ns; expected at most 1/],
    ['no placer', [...short, bad('worker')], 78, /SIM102 .*has 0 placers; expected one/],
    ['threads', [...short, bad('threads')], 78, /SIM101 .*starts threads/],
    ['real chance', [...short, bad('rand')], 1, /SIM103 placer outside: decide\(\) called rand\(\)/],
    ['the real clock in create()', [...short, bad('time-create')], 1, /SIM103 placer outside: create\(\) called time\(\)/],
    ['a crash', [...short, bad('crashes')], 1, /SIM104 .*crashes\.so: crashed while it was simulated/],
    ['an endless loop', [...short, bad('loops')], 1, /SIM109 placer outside: decide\(\) did not come back within 5 s/],
    ['time that stands still', [...short, bad('stands-still')], 1, /SIM110 placer outside: time stands still at 0\.\d+ s of the run, the last call was timer\(\): 10000000 events within 100 ms/],
    ['a wait until it is woken', [...short, '--once', bad('waits-for-ever')], 0, /^$/],
    ['an endless loop while it is loaded', [...short, path.join(build, 'tests/plugins/evil/e02_ctor_loops.so')], 78, /PLG912 .*did not come back/],
    ['uninitialised memory', [...short, bad('reads-memory')], 1, /SIM105 .*the same seed gave two traces/],
    ['addresses', [...short, bad('reads-address')], 1, /SIM105 .*the same seed gave two traces/],
    ['bad answers', [...short, bad('index-beyond')], 1, /SIM107 .*gave \d+ answers that the host cannot use; expected none\. The first: decide: index, got \d+; expected less than \d+, the runners of the snapshot/],
  ]
  for (const [what, args, code, sentence] of rows) {
    it(`says what is wrong: ${what}`, () => {
      const r = sim(...args)
      assert.match(r.stderr, sentence)
      assert.equal(r.status, code, r.stderr)
    })
  }

  it('tells which expectation was not kept', () => {
    const file = path.join(tempDir(), 'mine.yaml')
    const yaml = limits => writeFileSync(file, `duration: 10s\nfunctions: {count: 50}\nruns: 1\n`
      .replace('runs: 1', `events:\n- {at: 5s, what: leave, runner: 0}\nexpect:\n${limits}`))
    yaml('  cold_max: 1\n  refused_max: 0\n  collateral_max: 10\n  wait_p99_max: 1ms\n')
    let r = sim('--scenario', file, placer('ch'))
    assert.equal(r.status, 1, r.stderr)
    assert.match(r.stderr, /SIM108 .*placer-ch\.so: seed 1 did not bring/)
    assert.match(r.stderr, /mine\.yaml:6:13: cold_max, got \d+\.\d\d percent; expected at most 1\.00 percent\n/)
    assert.match(r.stderr, /mine\.yaml:8:19: collateral_max, got \d+\.\d\d percent; expected at most 10\.00 percent\n/)
    assert.match(r.stderr, /mine\.yaml:9:17: wait_p99_max, got \d+\.\d\d ms; expected at most 1\.00 ms\n/)
    assert.doesNotMatch(r.stderr, /refused_max/)
    assert.match(r.stdout, /collateral moves/)
    assert.match(sim('--scenario', file, placer('naive')).stderr, /collateral_max, got a placer without homes/)
    yaml('  cold_max: 100\n  collateral_max: 100\n')
    r = sim('--scenario', file, placer('ch'))
    assert.equal(r.status, 0, r.stderr)
  })

  it('goes on with the other plugins after a bad one', () => {
    const r = sim(...short, bad('rand'), placer('naive'))
    assert.equal(r.status, 1)
    assert.match(r.stderr, /SIM103/)
    assert.match(r.stdout, /naive/)
  })
})

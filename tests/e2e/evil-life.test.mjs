// Plugins that misbehave while they serve (E3 late, E7 to E26): what each must earn. In-process means
// attribution, not survival: a crash ends the node and names the plugin.
import assert from 'node:assert/strict'
import { readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { build, until } from './lib/node.mjs'

const functions = { hello: {}, evil: { image: 'hello' } }
const so = (name) => path.join(build, `tests/plugins/evil/${name}.so`)
const sanitized = readFileSync(path.join(build, 'CMakeCache.txt'), 'utf8').match(/FND_SANITIZE:\w+=(\w*)/)?.[1] ?? ''
const fast = 'watchdog: 100ms\naudit: 100ms\n'
const started = []
let runner

// A load balancer whose placer is file `name`; its factory bears the first word of it.
async function lbWith(name, { factory = name.split('_')[0], more = '', plugins = '', args, env, wait } = {}) {
  const lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions, plugins: fast + plugins, args, env, more, wait,
    placer: `{ use: ${factory}, file: ${so(name)} }` })
  started.push(lb)
  return lb
}

const evil = (lb) => invoke(lb, fnId('evil')).catch((e) => ({ status: 0, text: e.message }))
const hello = (lb) => invoke(lb, fnId('hello'))

before(async () => { runner = await startRunner() })
after(async () => {
  await Promise.all(started.map((lb) => lb.exit ?? lb.kill()))
  await runner?.stop()
})

describe('crashes are attributed', () => {
  const dies = [
    ['e09_null', 'SIGSEGV', /fnd crashed: SIGSEGV in plugin e09, decide\(\)/],
    ['e10_stack', 'SIGSEGV', /fnd crashed: SIGSEGV in plugin e10, decide\(\); the stack overflowed/],
    ['e11_abort', 'SIGABRT', /fnd crashed: SIGABRT in plugin e11, decide\(\)/],
    ['e11_assert', 'SIGABRT', /4711[^]*fnd crashed: SIGABRT in plugin e11, decide\(\)/],
    ['e12_double_free', 'SIGABRT', /fnd crashed: SIGABRT in plugin e12, decide\(\)/],
    ['e22_jumps', 'SIGABRT', /longjmp causes uninitialized stack frame[^]*fnd crashed: SIGABRT in plugin e22, decide\(\)/],
    ['e22_throws', 'SIGABRT', /terminate called after throwing an instance of 'std::runtime_error'\n +what\(\): +out of the plugin[^]*fnd crashed: SIGABRT in plugin e22, decide\(\)/],
  ]
  for (const [name, signal, sentence] of dies) {
    it(`${name} ends by ${signal}`, async () => {
      const lb = await lbWith(name, { env: { MALLOC_PERTURB_: '91' } }) // no word of the heap is good by chance
      assert.equal((await hello(lb)).status, 200)
      const answer = await evil(lb)
      assert.equal(answer.status, 0, 'the connection is cut')
      const exit = await lb.ended
      if (sanitized) {
        assert.match(lb.log, new RegExp(`fnd crashed: .*plugin ${name.split('_')[0]}, decide\\(\\)`))
        return
      }
      assert.equal(exit.signal, signal, lb.log)
      assert.match(lb.log, sentence)
      assert.match(lb.log, new RegExp(`plugin: ${name.split('_')[0]} \\(placer/${name.split('_')[0]} 6\\.6\\.6\\), in decide\\(\\) \\[loop\\]`))
      assert.match(lb.log, /version: fnd \d/)
      assert.match(lb.log, new RegExp(`plugins: .*${name}\\.so 6\\.6\\.6 placer/`))
      if (name === 'e09_null') {
        assert.match(lb.log, /at: 0x[0-9a-f]+ \(.*\/e09_null\.so\+0x[0-9a-f]+\)/)
        assert.match(lb.log, /address 0x0\n/)
      }
    })
  }

  for (const name of ['e22_jumps_over', 'e22_throws_over']) {
    it(`${name}: jumps over the host into another call of a plugin; the node ends before it goes on with lost work`, async () => {
      const file = so(name)
      const lb = await startLb({ addresses: [], functions, plugins: fast, placer: `{ use: e22, file: ${file} }`,
        pool: `{ use: e22, file: ${file} }`, lb: 'placement_timeout: 50ms' })
      started.push(lb)
      assert.equal((await hello(lb)).status, 503, 'nobody is where the pool points to')
      assert.equal((await evil(lb)).status, 0, 'the connection is cut')
      assert.equal((await lb.ended).signal, 'SIGABRT', lb.log)
      assert.match(lb.log, /level=error msg="a plugin left its call by longjmp or an exception; the node cannot go on" plugin=e22 kind=placer method=index_build/)
      assert.match(lb.log, /fnd crashed: SIGABRT in plugin e22, index_build\(\)/)
    })
  }

  it('exit() of a plugin is named and is no clean end', async () => {
    const lb = await lbWith('e03_exits_later', { factory: 'e03-later' })
    assert.equal((await evil(lb)).status, 0)
    assert.equal((await lb.ended).code, 70)
    assert.match(lb.log, /exit\(\) was called in plugin e03-later, decide\(\); a plugin must not end the process/)
  })
})

describe('the fallback placer', () => {
  const fallback = 'fallback: { use: naive }'
  const opened = /out of use after bad or slow decisions; the fallback placer decides.*plugin=(e\d+) fallback=naive last="decide/

  for (const name of ['e07_call_sleeps', 'e15_index', 'e15_wait', 'e15_verdict', 'e15_code', 'e15_give_up', 'e25_random']) {
    it(`takes over from ${name}; no call fails`, async () => {
      const lb = await lbWith(name, { plugins: fallback })
      for (let i = 0; i < 12; i++) assert.equal((await evil(lb)).status, 200)
      assert.match(lb.log, opened)
      assert.equal(await lb.metric('fn_placer_breaker'), 1)
      assert.equal((await lb.metrics()).get('fn_node_degraded{reason="placer-fallback"}'), 1)
      assert.equal(await lb.metric('fn_placer_breaker_opened'), 1)
    })
  }

  it('without one a bad answer fails its call and no other', async () => {
    const lb = await lbWith('e15_index')
    for (let i = 0; i < 4; i++) {
      const answer = await evil(lb)
      assert.equal(answer.status, 500, answer.text)
      assert.equal(answer.headers['fn-outcome'], 'not-executed')
      assert.equal((await hello(lb)).status, 200)
    }
    assert.match(lb.log, /plugin gave a bad answer.*plugin=e15 kind=placer what="decide: index, got \d+; expected less than \d+, the runners of the snapshot"/)
    assert.equal((await lb.metrics()).get('fn_plugin_bad_answers{plugin="e15",kind="placer"}'), 4)
  })

  // Its slow decisions take 50 us. One that took a millisecond waited for a processor, and three of
  // those are strikes: such a round says nothing about the placer, and there is another.
  it('stays away from a placer that is only sometimes slower (E26)', async () => {
    for (let round = 0; round < 5; round++) {
      const lb = await lbWith('e26_slow_sometimes', { plugins: fallback })
      for (let i = 0; i < 60; i++) assert.equal((await evil(lb)).status, 200)
      const metrics = await lb.metrics()
      const quick = metrics.get('fn_plugin_call_seconds_bucket{plugin="e26",kind="placer",method="decide",le="1.6e-05"}')
      assert.ok(quick <= 60 - 6, `the slow ones show: ${quick}`)
      const late = metrics.get('fn_plugin_budget_misses{plugin="e26",kind="placer",method="decide"}') ?? 0
      if (late < 3) return assert.equal(await lb.metric('fn_placer_breaker_opened'), 0)
    }
    assert.fail('three decisions of each round waited for a processor')
  })
})

describe('the watchdog', () => {
  for (const name of ['e07_call_sleeps', 'e08_call_spins']) {
    it(`names the plugin of a stuck loop: ${name}`, async () => {
      const lb = await lbWith(name)
      const use = name.split('_')[0]
      const answer = await evil(lb)
      assert.equal(answer.status, 200, answer.text)
      assert.match(lb.log, new RegExp(`loop stuck: a plugin has not returned.*plugin=${use} kind=placer method=decide for_ms=\\d+`))
      await until('it moves again', () => /the event loop runs again.*plugin=e0/.test(lb.log))
      assert.ok(await lb.metric('fn_loop_stuck') >= 1) // a loaded machine holds it up too
      const metrics = await lb.metrics()
      assert.equal(metrics.get('fn_node_degraded{reason="loop-stuck"}'), 1)
      assert.ok(metrics.get(`fn_plugin_budget_misses{plugin="${use}",kind="placer",method="decide"}`) >= 1) // so does it a decision
      assert.ok(metrics.get(`fn_plugin_call_seconds_count{plugin="${use}",kind="placer",method="decide"}`) >= 1)
      assert.equal((await lb.stop()).code, 0)
    })
  }
})

describe('the audit names what a plugin did to the process', () => {
  const alarm = (lb, what, plugin) => until(`an alarm: ${what}`, () =>
    new RegExp(`changed what belongs to the process" what="?${what}"?.*suspects="?[^"]*\\b${plugin}`).test(lb.log))

  it('working directory, umask, locale, signals, rounding mode, and puts them back (E19)', async () => {
    const lb = await lbWith('e19_process_state')
    const cwd = readlinkSync(`/proc/${lb.pid}/cwd`)
    const status = () => readFileSync(`/proc/${lb.pid}/status`, 'utf8')
    const field = (name) => new RegExp(`^${name}:\\s+(\\w+)`, 'm').exec(status())[1]
    const before = ['Umask', 'SigBlk', 'SigIgn', 'SigCgt'].map(field)
    assert.equal((await evil(lb)).status, 200)
    for (const what of ['working-directory', 'umask', 'signal-handler', 'signal-mask', 'locale', 'floating-point-mode']) {
      await alarm(lb, what, 'e19')
    }
    assert.equal(readlinkSync(`/proc/${lb.pid}/cwd`), cwd)
    assert.deepEqual(['Umask', 'SigBlk', 'SigIgn', 'SigCgt'].map(field), before)
    assert.equal((await hello(lb)).status, 200)
    assert.ok(await lb.metric('fn_plugin_audit_alarms') >= 6)
  })

  for (const [name, what, calls] of [
    ['e16_leaks', 'memory-kib', 40], ['e17_leaks', 'open-files', 3],
    ['e18_threads', 'threads', 1], ['e20_fork', 'fork', 1], ['e20_fork', 'environment', 1]]) {
    it(`${what} (${name})`, async () => {
      const lb = await lbWith(name)
      for (let i = 0; i < calls; i++) assert.equal((await evil(lb)).status, 200)
      await alarm(lb, what, name.split('_')[0])
      assert.equal((await hello(lb)).status, 200)
      const exit = await lb.stop()
      if (!sanitized) assert.equal(exit.code, 0) // a leak is told at the end there
    })
  }

  it('closed descriptors: the node uses none below 64 (E17)', async () => {
    const lb = await lbWith('e17_closes')
    assert.equal((await evil(lb)).status, 200)
    await alarm(lb, 'standard-descriptor', 'e17')
    assert.equal((await hello(lb)).status, 200)
    assert.equal((await lb.stop()).code, 0)
  })

  it('all descriptors closed in a call: the node ends with a sentence (E17)', async () => {
    const lb = await lbWith('e17_closes_all')
    assert.equal((await evil(lb)).status, 0)
    assert.equal((await lb.ended).signal, 'SIGABRT')
    assert.match(lb.log, /the loop cannot wait for events any more: somebody closed its descriptors/)
    assert.match(lb.log, /the last plugin call on it was e17 \(placer\), decide\(\)/)
  })

  it('all descriptors closed in create(): exit status 69 and a sentence (E17)', async () => {
    const lb = await lbWith('e17_create', { wait: false })
    assert.equal((await lb.ended).code, 69)
    assert.match(lb.log, /cannot watch descriptor \d+: Bad file descriptor/)
  })

  it('nothing when nothing happened, and handlers at the end are no harm (E23)', async () => {
    const lb = await lbWith('e23_atexit')
    for (let i = 0; i < 3; i++) assert.equal((await evil(lb)).status, 200)
    await new Promise((r) => setTimeout(r, 250)) // two looks
    assert.doesNotMatch(lb.log, /belongs to the process/)
    assert.deepEqual(await lb.stop(), { code: 0, signal: null })
  })
})

describe('other contracts', () => {
  it('timers armed by a thread of the plugin are refused and counted (E21)', async () => {
    const lb = await lbWith('e21_foreign_thread')
    for (let i = 0; i < 3; i++) assert.equal((await evil(lb)).status, 200)
    assert.match(lb.log, /plugin gave a bad answer.*plugin=e21.*what="fn.timer.arm from a thread that is not the loop"/)
    // Two for each time that it was asked, which is more than once for a call that finds its runner not connected yet.
    const bad = await lb.metric('fn_plugin_bad_answers')
    assert.ok(bad >= 6 && bad % 2 === 0, `${bad}`)
  })

  const lbWithPool = async (name) => {
    const lb = await startLb({ addresses: [], functions, pool: `{ use: ${name.split('_')[0]}, file: ${so(name)} }`,
      lb: 'placement_timeout: 50ms' })
    started.push(lb)
    return lb
  }
  it('pools: entries that are none, the same runner twice, runners that do not exist (E24)', async () => {
    const lb = await lbWithPool('e24_lists')
    assert.match(lb.log, /the pool listed runners twice; each counts once.*listed=2 runners=1/)
    assert.match(lb.log, /bad answer.*plugin=e24.*fn\.snap\.add/)
    assert.equal(await lb.metric('fn_lb_runners'), 1)
    assert.equal((await hello(lb)).status, 503)
  })
  it('pools: a million runners end at the limit (E24)', async () => {
    const lb = await lbWithPool('e24_million')
    assert.match(lb.log, /bad answer.*plugin=e24.*more than 65536 runners/)
    assert.equal((await hello(lb)).status, 503)
  })
  it('pools: a group name without end is no group (E14)', async () => {
    const lb = await lbWithPool('e14_unterminated')
    assert.equal((await hello(lb)).status, 503)
    await until('it is told', () => /bad answer.*plugin=e14.*what="route: no group name"/.test(lb.log))
  })
})

describe('supervision', () => {
  it('brings the port back after a crash, and ends when asked', async () => {
    const lb = await lbWith('e09_null', { args: ['--supervise'] })
    for (let i = 1; i <= 2; i++) {
      assert.equal((await evil(lb)).status, 0)
      await lb.ready()
      assert.equal((await hello(lb)).status, 200)
      assert.equal(await lb.metric('fn_node_restarts'), i)
    }
    assert.match(lb.log, /the node crashed and is started again; calls in flight were cut.*by="(signal 11|exit code 1)/)
    assert.deepEqual(await lb.stop(), { code: 0, signal: null })
  })

  it('gives up after five crashes in a minute', async () => {
    const lb = await lbWith('e11_abort', { args: ['--supervise'] })
    for (let i = 0; i < 5; i++) {
      await lb.ready()
      await evil(lb)
    }
    assert.deepEqual(await lb.ended, { code: 70, signal: null })
    assert.match(lb.log, /the node crashed 5 times within 60 s and is not started again/)
  })

  it('goes back to the configuration before a reload that crashes', async () => {
    const lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions, args: ['--supervise'] })
    started.push(lb)
    const file = path.join(lb.dir, 'fn.yaml')
    const good = readFileSync(file, 'utf8')
    writeFileSync(file, good.replace('{ use: naive }', `{ use: e09, file: ${so('e09_null')} }`))
    lb.signal('SIGHUP')
    await until('the reload is done', async () => await lb.metric('fn_config_generation') === 2)
    assert.equal((await evil(lb)).status, 0)
    await lb.ready()
    assert.match(lb.log, /it crashed soon after a reload: the configuration before that serves/)
    assert.equal((await evil(lb)).status, 200)
    writeFileSync(file, good)
    lb.signal('SIGHUP')
    await until('the next reload reads the file again', async () => await lb.metric('fn_config_generation') === 2)
    assert.equal((await evil(lb)).status, 200)
    assert.equal((await lb.stop()).code, 0)
  })

  it('passes on what a restart by systemd sends', async () => {
    const lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions, args: ['--supervise'] })
    started.push(lb)
    lb.signal('SIGUSR2')
    assert.deepEqual(await lb.ended, { code: 0, signal: null })
    assert.match(lb.log, /drained: no work is left, the node ends/)
  })

  it('takes the node with it when it is killed', async () => {
    const lb = await lbWith('e09_null', { args: ['--supervise'] })
    await lb.kill()
    await until('nobody answers', () => hello(lb).then(() => false, () => true))
  })
})

describe('a driver that does not return (E27)', () => {
  it('start() for ever: its calls end with a true outcome, the line names plugin and method, others are served', async () => {
    const mine = await startRunner({ driver: `driver:\n  - { use: process, root: ${path.join(build, 'functions')} }\n  - { use: e27, file: ${so('e27_driver_hangs')} }`,
      runner: 'engine_timeout: 500ms\nstart_wait: 1s' })
    started.push(mine)
    const lb = await startLb({ addresses: [mine.address], functions: { ...functions, evil: { image: 'hello', config: { HANG: 'yes' } } }, lb: 'placement_timeout: 1500ms' })
    started.push(lb)
    const answers = await Promise.all([evil(lb), evil(lb), hello(lb)])
    assert.deepEqual(answers.map((a) => a.status), [503, 503, 200], answers[0].text)
    assert.equal(answers[0].headers['fn-outcome'], 'not-executed')
    assert.match(answers[0].text, /LB302 .*no container within runner\.start_wait/)
    await until('the line', () => /driver does not return from a method.*plugin=e27 method=start /.test(mine.log))
    assert.equal((await evil(lb)).status, 503)
    assert.equal((await hello(lb)).status, 200)
    assert.equal(await mine.metric('fn_runner_calls_in_flight'), 0)
    await mine.kill() // it would wait for its thread
  })
})

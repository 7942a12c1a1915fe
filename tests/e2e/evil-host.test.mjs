// Plugins that would keep the node from serving, from ending, or from saying why it ended (E28).
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { build, tempDir, until } from './lib/node.mjs'

const functions = { hello: {}, evil: { image: 'hello' } }
const so = (name) => path.join(build, `tests/plugins/evil/${name}.so`)
const sanitized = readFileSync(path.join(build, 'CMakeCache.txt'), 'utf8').match(/FND_SANITIZE:\w+=(\w*)/)?.[1] ?? ''
const started = []
let runner

async function lbWith(name, more = {}) {
  const lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions,
    plugins: 'watchdog: 100ms\naudit: 100ms\n', placer: `{ use: e28, file: ${so(name)} }`, ...more })
  started.push(lb)
  return lb
}

// Names of its programs.
const children = (pid) => readdirSync('/proc').filter((p) => /^\d/.test(p)).flatMap((p) => {
  try {
    const [, name, parent] = /\((.*)\) . (\d+)/.exec(readFileSync(`/proc/${p}/stat`, 'utf8'))
    return Number(parent) === pid ? [name] : []
  } catch { return [] } // it has ended meanwhile
})

const evil = (lb) => invoke(lb, fnId('evil')).catch((e) => ({ status: 0, text: e.message }))
const hello = (lb) => invoke(lb, fnId('hello'))

before(async () => { runner = await startRunner() })
after(async () => {
  await Promise.all(started.map((lb) => lb.exit ?? lb.kill()))
  await runner?.stop()
})

describe('no answer and no timer of a plugin keeps the node', () => {
  it('the longest wait there is ends at the deadline; others are served meanwhile', async () => {
    const lb = await lbWith('e28_waits', { lb: 'placement_timeout: 1s' })
    const waits = evil(lb)
    for (let i = 0; i < 5; i++) assert.equal((await hello(lb)).status, 200)
    assert.equal((await waits).status, 503)
    assert.deepEqual(await lb.stop(), { code: 0, signal: null })
  })

  it('a timer that sets itself for now burns a processor, and that is all', async () => {
    const lb = await lbWith('e28_timers')
    assert.equal((await evil(lb)).status, 200)
    for (let i = 0; i < 5; i++) assert.equal((await hello(lb)).status, 200)
    assert.ok(await lb.metric('fn_loop_turn_seconds_count') > 1000, 'turns end')
    assert.deepEqual(await lb.stop(), { code: 0, signal: null })
  })
})

describe('the node ends when it is told to', () => {
  it('at a second signal, though a plugin has the loop for ever', async () => {
    const lb = await lbWith('e28_spins')
    evil(lb)
    await until('it is stuck', () => /loop stuck.*plugin=e28/.test(lb.log))
    lb.signal('SIGTERM')
    await new Promise((r) => setTimeout(r, 50)) // else the two may be one
    lb.signal('SIGTERM')
    assert.deepEqual(await lb.ended, { code: 143, signal: null })
    assert.match(lb.log, /a second signal, and the loop is stuck: ending at once, calls are cut" plugin=e28 kind=placer method=decide/)
  })

  it('though an exit handler of a plugin never returns', async () => {
    const lb = await lbWith('e28_atexit')
    assert.equal((await evil(lb)).status, 200)
    assert.deepEqual(await lb.stop(), { code: 0, signal: null })
    assert.match(lb.log, /does not come to its end: destroy\(\) or an exit handler of a plugin hangs/)
  })

  it('and destroy() that never returns is told at a reload', async () => {
    const lb = await lbWith('e28_destroy', { more: 'drain_timeout: 2s\n' })
    assert.equal((await evil(lb)).status, 200)
    const file = path.join(lb.dir, 'fn.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace(/placer: .*e28_destroy.*\n/, 'placer: { use: naive }\n'))
    lb.signal('SIGHUP')
    await until('the line', () => /a plugin does not go: its destroy\(\) has not returned.*plugin=e28 kind=placer method=destroy/.test(lb.log), 20_000)
    assert.equal((await hello(lb)).status, 200)
    assert.equal(await lb.metric('fn_plugin_end_stuck'), 1)
    assert.equal((await lb.metrics()).get('fn_node_degraded{reason="plugin-end"}'), 1)
    assert.equal((await lb.stop()).code, 0)
  })
})

// See e30_callbacks.c: it has a child that sleeps.
describe('children and streams of an instance', () => {
  const callbacks = (name) => lbWith(name, { placer: '{ use: naive }', plugins: `watchdog: 100ms\nlisteners: [ { use: e30, file: ${so(name)} } ]\n` })

  it('a child that is left at a reload ends before its instance is freed, which is told', async () => {
    const lb = await callbacks('e30_frees')
    assert.equal((await evil(lb)).status, 200)
    await until('the child', () => children(lb.pid).includes('sleep'))
    const file = path.join(lb.dir, 'fn.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace(/listeners: .*\n/, '\n'))
    lb.signal('SIGHUP')
    await until('its end', () => /its child has ended" plugin=e30 kind=listener/.test(lb.log))
    assert.ok(!children(lb.pid).includes('sleep'))
    assert.equal((await hello(lb)).status, 200)
    assert.deepEqual(await lb.stop(), { code: 0, signal: null })
  })

  it('a callback that does not return names its plugin', async () => {
    const lb = await callbacks('e30_hangs')
    assert.equal((await evil(lb)).status, 200)
    await until('the line', () => /a callback of a plugin has not returned.*plugin=e30 kind=listener method="process callback"/.test(lb.log), 20_000)
    assert.equal((await hello(lb)).status, 200)
    assert.equal((await lb.metrics()).get('fn_node_degraded{reason="worker-lost"}'), 1)
    await lb.kill() // it would wait for its thread
  })

  if (!sanitized) {
    it('a crash in a callback, and in uid() of a driver, names its plugin', async () => {
      const lb = await callbacks('e30_crashes')
      await evil(lb)
      assert.equal((await lb.ended).signal, 'SIGSEGV')
      assert.match(lb.log, /fnd crashed: SIGSEGV in plugin e30, process callback\(\)/)
      const mine = await startRunner({ driver: `driver:\n  - { use: process, root: ${path.join(build, 'functions')} }\n  - { use: e30, file: ${so('e30_uid')} }` })
      started.push(mine)
      const other = await lbWith('e28_waits', { addresses: [mine.address], lb: 'placement_timeout: 1s', placer: '{ use: naive }' })
      await hello(other)
      assert.equal((await mine.ended).signal, 'SIGSEGV')
      assert.match(mine.log, /fnd crashed: SIGSEGV in plugin e30, uid\(\)/)
    })
  }
})

describe('no end without a word', () => {
  it('signals without meaning have no effect and name their sender', async () => {
    const lb = await lbWith('e28_signals')
    assert.equal((await evil(lb)).status, 200)
    await until('its own', () => new RegExp(`no effect; a plugin.*signal=USR1 from_pid=${lb.pid}`).test(lb.log))
    await until('its alarm', () => /no effect; a plugin, or a limit of this process" signal=ALRM/.test(lb.log))
    lb.signal('SIGUSR1')
    await until('ours', () => new RegExp(`signal without meaning has no effect" signal=USR1 from_pid=${process.pid}`).test(lb.log))
    assert.equal((await hello(lb)).status, 200)
    assert.equal((await lb.stop()).code, 0)
  })

  it('a child that a plugin forks is no second node', async () => {
    const lb = await lbWith('e28_forks')
    assert.equal((await evil(lb)).status, 200)
    await until('its line', () => /plugin e28 forked in decide\(\): its child would be a second node and ends/.test(lb.log))
    assert.equal((await hello(lb)).status, 200)
    assert.match(lb.log, /changed what belongs to the process" what=fork/)
  })

  it('the floating point mode that flushes small numbers to zero is put back', { skip: process.arch !== 'x64' }, async () => {
    const lb = await lbWith('e28_flush')
    assert.equal((await evil(lb)).status, 200)
    await until('an alarm', () => /changed what belongs to the process" what=floating-point-mode.*suspects="?[^"]*e28/.test(lb.log))
  })

  if (!sanitized) {
    it('a crash of a plugin\'s own thread shows where it was', async () => {
      const lb = await lbWith('e28_thread_crashes')
      assert.equal((await evil(lb)).status, 0)
      assert.equal((await lb.ended).signal, 'SIGSEGV')
      assert.match(lb.log, /at: 0x[0-9a-f]+ \(\S*e28_thread_crashes\.so\+0x/)
      assert.match(lb.log, /addresses of plugins on the stack, also of calls that are over:\n/)
    })

    it('_exit() of a plugin is told and is no clean end', async () => {
      const lb = await lbWith('e28_exits_hard')
      assert.equal((await evil(lb)).status, 0)
      assert.deepEqual(await lb.ended, { code: 70, signal: null })
      assert.match(lb.log, /_exit\(\) was called in plugin e28, decide\(\); a plugin must not end the process/)
    })

    for (const [name, sentence, status, signal] of [
      ['e28_ctor_exits', /_exit\(\) was called while plugin file \S+e28_ctor_exits\.so was loaded, in its constructors/, 78, null],
      ['e28_ctor_crashes', /fnd crashed: SIGSEGV while plugin file \S+e28_ctor_crashes\.so was loaded, in its constructors/, null, 'SIGSEGV']]) {
      for (const command of ['check', 'run']) {
        it(`right in the trial, wrong in fnd ${command}: ${name}`, () => {
          const file = path.join(tempDir(), 'fn.yaml')
          writeFileSync(file, `node: lb\nhttp: { listen: "127.0.0.1:0" }\nadmin: { socket: "off" }\nplugin_dir: ${path.join(build, 'plugins')}\n` +
            `apps: [{ name: a, functions: [{ name: f, image: x }] }]\nplugins:\n  pool: { use: static, runners: ["127.0.0.1:1"] }\n  placer: { use: e28, file: ${so(name)} }\n`)
          const r = spawnSync(path.join(build, 'fnd'), [command, '--config', file], { encoding: 'utf8', timeout: 30_000 })
          assert.match(r.stderr, sentence)
          assert.equal(r.status, command === 'check' ? 70 : status)
          assert.equal(r.signal, command === 'check' ? null : signal)
        })
      }
    }
  }
})

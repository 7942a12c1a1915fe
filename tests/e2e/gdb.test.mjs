// tools/gdb/fnd.py on real nodes and on core files of them, that have a call which runs and one which waits.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Ledger, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { build, root, tempDir, until } from './lib/node.mjs'

const GDB_TIMEOUT_MS = 120_000
const program = path.join(build, 'fnd')
const sanitized = /__[at]san_init/.test(spawnSync('nm', ['-D', program], { encoding: 'utf8', maxBuffer: 64 << 20 }).stdout)
const skip = sanitized && 'a core file of a sanitizer holds terabytes of its shadow'

// Where only a parent may look into a process (Yama), root may all the same.
function looksIntoOthers() {
  try {
    return process.getuid() === 0 || readFileSync('/proc/sys/kernel/yama/ptrace_scope', 'utf8').trim() === '0'
  } catch {
    return true
  }
}
const attached = looksIntoOthers() ? ['gdb'] : ['sudo', '-n', 'gdb']

function gdb(args, commands, [command, ...first] = ['gdb']) {
  const result = spawnSync(command, [...first, '-nx', '-batch', ...args, ...commands.flatMap((c) => ['-ex', c])],
    { encoding: 'utf8', timeout: GDB_TIMEOUT_MS, env: { ...process.env, DEBUGINFOD_URLS: '' } })
  assert.equal(result.status, 0, result.stdout + result.stderr)
  return result.stdout
}

const script = ['-x', path.join(root, 'tools/gdb/fnd.py')]
const onCore = (core, ...commands) => gdb([...script, program, core], commands)

// The process goes on; what the tables say of it while it does is kept too.
function makeCore(node) {
  const core = path.join(tempDir(), `core.${node.name}`)
  const live = gdb([...script, '-p', String(node.pid)], ['fnd-calls', 'fnd-queues', `generate-core-file ${core}`], attached)
  assert.match(live, /^(load balancer|runner), calls: [12]$/m)
  assert.match(live, /^loop: \d+ tasks, \d+ timers$/m)
  assert.ok(statSync(core).size > 0)
  return core
}

describe('tools/gdb/fnd.py on core files', { skip }, () => {
  const ledger = new Ledger()
  const cores = {}
  let runner
  let lb
  before(async () => {
    runner = await startRunner({ name: 'runner', runner: 'memory_total: 256MiB\nqueue_wait: 0s\nqueue_factor: 1' })
    lb = await startLb({
      addresses: [`127.0.0.1:${runner.grpcPort}`],
      functions: { ledger: { memory: 200, timeout: 60, config: { LEDGER_FILE: ledger.file } } },
      lb: 'retry_min: 10s\nretry_max: 1m', // what is parked is parked while gdb looks
    })
    const runs = invoke(lb, fnId('ledger'), '60000 runs').catch(() => 'cut off with its nodes')
    await until('it runs', () => ledger.read().size === 1)
    const waits = invoke(lb, fnId('ledger'), '0 waits').catch(() => 'cut off with its nodes')
    await until('the other is parked', async () => (await lb.metric('fn_lb_waiting')) === 1)
    cores.lb = makeCore(lb)
    cores.runner = makeCore(runner)
    await Promise.all([lb.kill(), runner.kill()])
    await Promise.all([runs, waits])
  })
  after(() => Object.values(cores).forEach((core) => rmSync(core, { force: true })))

  it('fnd-calls: one started, one without a runner, and the one that the runner has', () => {
    const here = onCore(cores.lb, 'fnd-calls')
    assert.match(here, /^load balancer, calls: 2$/m)
    const row = (state, at) => new RegExp(`^ +([0-9A-Z]{26}) +${state} +[0-9.]+s +${at} +\\d+ +${fnId('ledger')} `, 'm')
    assert.match(here, row('placing', '-'))
    const there = onCore(cores.runner, 'fnd-calls')
    assert.match(there, /^runner, calls: 1$/m)
    const [, id] = row('(?:offered|started)', `127\\.0\\.0\\.1:${runner.grpcPort}`).exec(here)
    assert.match(there, new RegExp(`^ +${id} +run `, 'm'))
  })

  it('fnd-containers and fnd-queues: the busy one, its queue, the group with a call that waits', () => {
    const text = onCore(cores.runner, 'fnd-containers', 'fnd-queues')
    assert.match(text, /^containers: 1$/m)
    assert.match(text, new RegExp(`^ +\\S+ +busy +[0-9.]+s +[0-9A-Z]{26} +none +${fnId('ledger')} `, 'm'))
    assert.match(text, new RegExp(`^ +${fnId('ledger')} +\\S+ +0 +0 +0 +1 `, 'm'))
    assert.match(text, /^lanes: 5$/m)
    assert.match(onCore(cores.lb, 'fnd-queues'), /^ +default +1 +1 +1 +0 /m)
    assert.match(onCore(cores.lb, 'fnd-queues'), /^loop: \d+ tasks, \d+ timers$/m)
  })

  it('fnd-arena and the printers: of the objects that a table names', () => {
    const [, call] = /(\(\(struct lb_call \*\)0x[0-9a-f]+\))/.exec(onCore(cores.lb, 'fnd-calls'))
    const text = onCore(cores.lb, `fnd-arena ${call}->arena`, `print *${call}`, `print ${call}->arena`)
    assert.match(text, /^chunks of \d+ bytes: \d+$/m)
    assert.match(text, /^\$1 = lb call [0-9A-Z]{26} \w+$/m)
    assert.match(text, /^\$2 = arena of \d+ bytes in \d+ chunks$/m)
  })

  it('a node without a runner says so', () => {
    const result = spawnSync('gdb', ['-nx', '-batch', ...script, program, cores.lb, '-ex', 'fnd-containers'], { encoding: 'utf8' })
    assert.match(result.stderr, /this node has no runner/)
  })
})

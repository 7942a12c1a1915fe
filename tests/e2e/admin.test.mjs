// The admin socket of real nodes: `fnd status`, and `fnd why` telling what a call met.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Ledger, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

const fnd = path.join(build, 'fnd')
const run = (args, env = {}) => spawnSync(fnd, args, { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH, ...env } })
const ask = (node, ...args) => run([...args, '--config', path.join(node.dir, 'fn.yaml')])
const askJson = (node, ...args) => {
  const result = ask(node, args[0], '--json', ...args.slice(1))
  assert.equal(result.status, 0, result.stderr)
  return JSON.parse(result.stdout)
}

describe('fnd calls, containers, peers', () => {
  const ledger = new Ledger()
  let runner
  let lb
  before(async () => {
    runner = await startRunner({ name: 'runner', runner: 'memory_total: 256MiB' })
    lb = await startLb({
      addresses: [`127.0.0.1:${runner.grpcPort}`, '127.0.0.1:1'],
      functions: { ledger: { memory: 200, timeout: 60, config: { LEDGER_FILE: ledger.file } } },
    })
    await until('the runner is up', async () => (await lb.metric('fn_lb_runners_up')) === 1)
  })
  after(async () => {
    await lb?.stop()
    await runner?.stop()
  })

  it('tell what runs, where, and what waits for what', async () => {
    const runs = invoke(lb, fnId('ledger'), '1500 runs')
    await until('it runs', () => ledger.read().size === 1)
    const waits = invoke(lb, fnId('ledger'), '0 waits')
    await until('the other waits', async () => askJson(lb, 'calls').calls.length === 2)
    const [first, second] = askJson(lb, 'calls').calls
    assert.deepEqual([first.side, first.fn_id, first.runner], ['lb', fnId('ledger'), `127.0.0.1:${runner.grpcPort}`])
    assert.ok(first.age_ms >= second.age_ms, 'oldest first')
    const here = askJson(runner, 'calls').calls.find((c) => c.call_id === first.call_id)
    assert.deepEqual([here.state, here.waits_for], ['run', 'the function'])
    const { containers } = askJson(runner, 'containers')
    assert.deepEqual(containers.map((c) => [c.state, c.call_id, c.container_id]), [['busy', first.call_id, here.container_id]])
    const table = ask(lb, 'calls').stdout.split('\n')
    assert.match(table[0], /^CALL +SIDE +STATE +AGE +AT +FUNCTION +APP +WAITS FOR$/)
    assert.match(table[1], new RegExp(`^${first.call_id}  lb  `))
    assert.equal(ask(lb, 'calls', '--at-most', '1').stdout.split('\n')[2], 'and more: --at-most, up to 10000')
    for (const answer of await Promise.all([runs, waits])) assert.equal(answer.status, 200)
    await until('both are over', async () => ask(lb, 'calls').stdout === 'no calls\n')
  })

  it('tell which runner is not connected, and why', async () => {
    await until('it was dialled', async () => askJson(lb, 'peers').peers.some((p) => p.state === 'down'))
    const { peers } = askJson(lb, 'peers')
    const dead = peers.find((p) => p.address === '127.0.0.1:1')
    assert.match(dead.why, /refused/)
    assert.equal(peers.find((p) => p !== dead).state, 'up')
  })

  it('say what a node has not, and which numbers they take', () => {
    const none = ask(lb, 'containers')
    assert.deepEqual([none.status, none.stderr], [69, 'fnd: this lb node has no containers\n'])
    for (const n of ['0', '10001', '-1', 'all', '']) {
      const refused = ask(lb, 'calls', '--at-most', n)
      assert.deepEqual([refused.status, refused.stderr], [64, `fnd: --at-most, got "${n}"; expected 1 to 10000\n`])
    }
  })
})

describe('fnd why', () => {
  const ledger = new Ledger()
  const runners = []
  let lb
  before(async () => {
    for (let i = 0; i < 3; i++) {
      runners.push(await startRunner({ name: `runner${i}`, runner: 'memory_total: 256MiB\nqueue_wait: 0s\nqueue_factor: 1' }))
    }
    lb = await startLb({
      addresses: runners.map((r) => `127.0.0.1:${r.grpcPort}`),
      placer: '{ use: ch }',
      functions: { ledger: { memory: 200, timeout: 60, config: { LEDGER_FILE: ledger.file } } },
      lb: 'why_calls: 50',
    })
    await until('all runners are up', async () => (await lb.metric('fn_lb_runners_up')) === 3)
  })
  after(async () => {
    await lb?.stop()
    await Promise.all(runners.map((r) => r.stop()))
  })

  it('tells of two runners that refused and the third that ran the call', async () => {
    const holders = []
    for (let i = 0; i < 2; i++) {
      holders.push(invoke(lb, fnId('ledger'), `1500 holder ${i}`))
      await until('the holder runs', () => ledger.read().size === i + 1)
    }
    const answer = await invoke(lb, fnId('ledger'), '0 third')
    assert.equal(answer.status, 200, answer.text)
    const id = answer.headers['fn-call-id']
    const why = askJson(lb, 'why', id)
    assert.equal(why.call_id, id)
    assert.equal(why.fn_id, fnId('ledger'))
    assert.equal(why.outcome, 'ok')
    assert.equal(why.placer, 'ch')
    assert.equal(why.runners, 3)
    assert.equal(why.tries_made, 3)
    assert.match(why.tries.map((t) => t.how).join(' '), /^(busy|told-before) busy ok$/) // the first told the second holder when
    assert.deepEqual(why.tries.map((t) => t.note), ['home', 'after home, 1', 'after home, 2'])
    assert.equal(new Set(why.tries.map((t) => t.runner)).size, 3)
    for (const t of why.tries.filter((t) => t.how === 'busy')) {
      assert.equal(t.code, 503)
      assert.ok(t.said.length > 0, 'the runner gave a reason')
    }
    const { phases } = why
    assert.ok(phases.placement <= phases.total && phases.attempt <= phases.total, JSON.stringify(phases))
    assert.ok(phases.execution > 0)
    assert.ok(phases.create > 0, JSON.stringify(phases)) // the third had no container
    const started = (phases.pull ?? 0) + (phases.prepare ?? 0) + phases.create + (phases.init ?? 0)
    assert.ok(started <= phases.runner_wait, JSON.stringify(phases))

    const text = ask(lb, 'why', id)
    assert.equal(text.status, 0, text.stderr)
    assert.match(text.stdout, new RegExp(`call +${id}`))
    assert.match(text.stdout, /2 +127\.0\.0\.1:\d+ .* busy +503 +after home, 1 +\w/)
    assert.match(text.stdout, /3 +127\.0\.0\.1:\d+ .* ok +- +after home, 2/)
    assert.match(text.stdout, /\n +create +[\d.]+ (us|ms|s) +of that: /)

    const all = JSON.stringify(why) + text.stdout
    assert.ok(!all.includes('third'), 'no byte of the body')
    for (const h of await Promise.all(holders)) assert.equal(h.status, 200)
  })

  it('tells of a call that waits', async () => {
    const holders = []
    const before = ledger.read().size
    for (let i = 0; i < 3; i++) {
      holders.push(invoke(lb, fnId('ledger'), `1500 wait ${i}`))
      await until('the holder runs', () => ledger.read().size === before + i + 1)
    }
    const answer = await invoke(lb, fnId('ledger'), '0 last')
    const why = askJson(lb, 'why', answer.headers['fn-call-id'])
    assert.ok(why.waits >= 1)
    assert.ok(why.tries_made >= 4)
    assert.equal(why.tries.at(-1).how, 'ok')
    assert.equal(why.last_refusal_note, 'all were asked')
    assert.ok(why.phases.queue > 0 && why.phases.queue <= why.phases.placement, JSON.stringify(why.phases))
    await Promise.all(holders)
  })

  it('says where to look when the pool named no runner', async (t) => {
    const alone = await startLb({ name: 'alone', addresses: [], functions: { hello: {} }, lb: 'placement_timeout: 100ms',
      pool: `{ use: npm, address: "127.0.0.1:${await freePort()}" }` })
    t.after(() => alone.stop())
    const answer = await invoke(alone, fnId('hello'))
    assert.equal(answer.status, 503)
    const text = ask(alone, 'why', answer.headers['fn-call-id'])
    assert.match(text.stdout, /the pool named no runner: .*this node's log .*`fnd runners list` there/)
    assert.match(ask(alone, 'runners', 'list').stderr, /this node is of type lb, and a node pool manager has the list of runners/)
  })

  it('says why it does not know a call', async () => {
    const unknown = ask(lb, 'why', '01M7Y437YSR00040GZYG999999')
    assert.equal(unknown.status, 69)
    assert.match(unknown.stderr, /LB307 unknown call 01M7Y\w+: .* among the last \d+ that ended, the oldest of them \d+\.\d{3} s ago \(lb\.why_calls keeps 50\)/)
    const strange = ask(lb, 'why', '../status')
    assert.equal(strange.status, 64)
    assert.match(strange.stderr, /call id, got "\.\.\/status"; expected/)
    assert.equal(ask(lb, 'why').status, 64)
    const runner = ask(runners[0], 'why', '01M7Y437YSR00040GZYG999999')
    assert.equal(runner.status, 69)
    assert.match(runner.stderr, /a pure-runner places no calls: ask the load balancer/)
  })
})

describe('the admin socket', () => {
  const full = async (admin = '') => {
    const port = await freePort()
    return Fnd.start('full', port, `
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins:
  driver: { use: process, root: ${path.join(build, 'functions')} }
runner: { iofs_path: ${tempDir()}, writable_root: true }
${admin}
apps:
  - name: demo
    functions: [{ name: hello, id: ${fnId('hello')}, image: hello }]
`)
  }

  it('of a full node tells its state and its calls', async (t) => {
    const node = await full()
    t.after(() => node.stop())
    const answer = await invoke(node, fnId('hello'))
    assert.equal(answer.status, 200, answer.text)
    const status = askJson(node, 'status')
    assert.equal(status.node, 'full')
    assert.equal(status.state, 'serving')
    assert.equal(status.pid, node.pid)
    assert.equal(status.lb.ok, 1)
    assert.equal(status.runner.ok, 1)
    assert.ok(status.plugins.some((p) => p.kind === 'placer' && p.calls > 0))
    assert.match(ask(node, 'status').stdout, /node +full, fnd .* serving/)
    assert.equal(ask(node, 'peers').stdout, 'no peers: this node connects to no other one\n')
    const why = askJson(node, 'why', answer.headers['fn-call-id'])
    assert.deepEqual(why.tries.map((t) => [t.runner, t.how]), [['local:', 'ok']])
    const gone = ask(node, 'status', '--socket', '/nowhere.sock')
    assert.equal(gone.status, 69)
    assert.match(gone.stderr, /no node answers at \/nowhere\.sock: No such file/)
  })

  it('of a manager sends those who ask for calls to a load balancer', async (t) => {
    const [port, grpc] = [await freePort(), await freePort()]
    const node = await Fnd.start('manager', port, `
node: npm
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${grpc}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { control_plane: { use: fixed, addresses: ["127.0.0.1:1"] } }
`)
    t.after(() => node.stop())
    assert.match(ask(node, 'why', '01M7Y437YSR00040GZYG999999').stderr, /a npm places no calls: ask the load balancer/)
    assert.match(ask(node, 'shadow', 'swap').stderr, /a npm places no calls/)
    assert.equal(ask(node, 'runners', 'list').status, 0)
  })

  it('is taken over from a killed node and not from a living one', async (t) => {
    const dir = tempDir()
    const admin = `admin: { socket: ${dir}/admin.sock }`
    const node = await full(admin)
    t.after(() => node.stop())
    assert.equal(statSync(`${dir}/admin.sock`).mode & 0o777, 0o600)
    await node.kill()
    assert.match(ask(node, 'status').stderr, /no node answers at .*: Connection refused/)
    await node.start()
    assert.equal(ask(node, 'status').status, 0)

    const port = await freePort()
    const file = path.join(tempDir(), 'fn.yaml')
    const second = (socket) => {
      writeFileSync(file, `node: lb\nhttp: { listen: "127.0.0.1:${port}" }\nplugin_dir: ${path.join(build, 'plugins')}\nadmin: { socket: ${socket} }\nplugins: { pool: { use: static, runners: ["127.0.0.1:1"] } }\n`)
      return run(['run', '--config', file])
    }
    const inUse = second(`${dir}/admin.sock`)
    assert.equal(inUse.status, 69)
    assert.match(inUse.stderr, /CFG707 unix:.*admin\.sock is in use/)
    chmodSync(dir, 0o777)
    const open = second(`${dir}/other.sock`)
    assert.equal(open.status, 69)
    assert.match(open.stderr, /CFG713 admin\.socket .*has mode 0777; expected/)
    assert.equal(second('relative.sock').status, 78)
    assert.equal(ask(node, 'status').status, 0, 'the first one is not disturbed')
  })
})

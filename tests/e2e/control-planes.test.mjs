// Control planes in a real manager: machines of a list, and VirtualBox machines whose programs are
// scripts (tests/vbox) that start real runners.
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { fnId, startRunner } from './lib/cluster.mjs'
import { Elastic } from './lib/elastic.mjs'
import { invoke } from './lib/http.mjs'
import { build, freePort, root, until } from './lib/node.mjs'

const functions = { hello: { memory: 128 }, sleep: { image: 'ledger', memory: 128, config: { LEDGER_FILE: '/dev/null' } } }
const FOREIGN = ['Windows "10" {test}', 'template']

async function hello(e) {
  const answer = await invoke(e.lbs[0], fnId('hello'), '{}')
  assert.equal(answer.status, 200, answer.text)
}

const told = (e, text) => until(`the log says: ${text}`, () => e.npm.log.includes(text), 15_000)
const states = (e, text) => until(`runners are ${text}`, async () => JSON.stringify(await e.states()) === text, 20_000)

// ---- machines that exist already

async function fixed(n, options, more = {}) {
  const runners = []
  for (let i = 0; i < n; i++) runners.push(await startRunner({ name: `runner${i}`, runner: 'memory_total: 256MiB' }))
  const addresses = runners.map((r) => `"127.0.0.1:${r.grpcPort}"`)
  const e = await Elastic.start({ functions, cplane: () => `{ use: fixed, addresses: [${addresses.join(', ')}], ${options} }`, ...more })
  const stop = async () => {
    await e.stop()
    await Promise.all(runners.map((r) => r.stop()))
  }
  return { e, runners, stop }
}

test('cp-fixed', { concurrency: 2 }, async (t) => {
  const all = []
  all.push(t.test('an address is given out once, after the delay, and comes back', async () => {
    const { e, runners, stop } = await fixed(2, 'adopted: none, delay: 300ms')
    try {
      assert.deepEqual(await e.states(), {})
      await hello(e)
      const list = (await e.runners()).runners
      assert.deepEqual(list.map((r) => [r.id, r.address]), [[`127.0.0.1:${runners[0].grpcPort}`, `127.0.0.1:${runners[0].grpcPort}`]])
      await states(e, '{}')
      await hello(e)
      assert.deepEqual((await e.runners()).runners.map((r) => r.id), [`127.0.0.1:${runners[1].grpcPort}`], 'the one that rested longest')
    } finally {
      await stop()
    }
  }))

  all.push(t.test('more is wanted than there is: one sentence, and the calls wait', async () => {
    const { e, stop } = await fixed(1, 'adopted: none')
    try {
      const calls = Array.from({ length: 4 }, (_, i) => invoke(e.lbs[0], fnId('sleep'), `700 ${i}`))
      await told(e, 'all 1 addresses are given out')
      for (const c of calls) assert.equal((await c).status, 200, (await c).text)
      assert.equal((await e.states()).active, 1)
    } finally {
      await stop()
    }
  }))

  all.push(t.test('a restarted manager has lost no runner', async () => {
    const { e, stop } = await fixed(2, 'adopted: all', { npm: '  runners_min: 2' })
    try {
      await states(e, '{"active":2}')
      await e.npm.kill()
      await hello(e)
      await e.npm.start()
      await states(e, '{"active":2}')
      await hello(e)
    } finally {
      await stop()
    }
  }))
  all.push(t.test('a roll is over when it ends: the address that it took comes back as a new runner', async () => {
    const { e, stop } = await fixed(2, 'adopted: none', { npm: '  runners_min: 1' })
    try {
      await states(e, '{"active":1}')
      const [{ id: first }] = (await e.runners()).runners
      for (let i = 0; i < 2; i++) assert.equal(JSON.parse((await e.cli('runners', 'roll')).stdout).replaced, 1)
      assert.deepEqual((await e.runners()).runners.map((r) => [r.id, r.state, r.wish]), [[first, 'active', undefined]])
      await hello(e)
    } finally {
      await stop()
    }
  }))
  await Promise.all(all)
})

// ---- VirtualBox machines

class Vbox {
  static async start({ mode = 'clone', npm, cooldown, options = '', files = {} } = {}) {
    const v = new Vbox()
    const port = await freePort()
    v.e = await Elastic.start({ functions, npm, cooldown, cplane: (e) => v.plane(e, mode, port, options, files) })
    return v
  }

  plane(e, mode, port, options, files) {
    const tools = path.join(root, 'tests/vbox')
    this.home = path.join(e.state, 'home')
    this.dir = path.join(this.home, 'vbox')
    this.work = path.join(this.home, 'work')
    mkdirSync(this.dir, { recursive: true })
    mkdirSync(path.join(this.home, 'template'))
    writeFileSync(path.join(this.home, 'template/Vagrantfile'), 'Vagrant.configure("2") {}\n')
    this.boot = path.join(this.dir, 'boot')
    writeFileSync(this.boot, `#!/bin/sh
d=${e.state}/$2
mkdir -p $d
{ printf 'node: pure-runner\\nadmin: { socket: "off" }\\nhttp: { listen: "unix:%s/http.sock" }\\n' $d
  printf 'grpc: { listen: "%s:${port}" }\\n' $2
  cat ${e.base}; } >$d/fn.yaml
exec ${path.join(build, 'fnd')} run --config $d/fn.yaml
`)
    chmodSync(this.boot, 0o755)
    for (const [name, text] of Object.entries(files)) writeFileSync(path.join(this.dir, name), text)
    const template = mode === 'vagrant' ? path.join(this.home, 'template') : 'template'
    return `{ use: vbox, mode: ${mode}, template: ${template}, work: ${this.work}, home: ${this.home}, port: ${port}, capacity: 256, vboxmanage: ${tools}/VBoxManage, vagrant: ${tools}/vagrant${options} }`
  }

  set(command, mode) {
    const file = path.join(this.dir, `mode-${command}`)
    if (mode) writeFileSync(file, mode)
    else rmSync(file, { force: true })
  }

  machines() {
    return readdirSync(path.join(this.dir, 'vms')).sort()
  }

  // Machines beside those that are nobody's business.
  ours() {
    const all = this.machines()
    for (const name of FOREIGN) assert.ok(all.includes(name), `${name} is gone`)
    return all.filter((name) => !FOREIGN.includes(name))
  }

  log() {
    return readFileSync(path.join(this.dir, 'log'), 'utf8')
  }

  async stop() {
    await this.e.npm.stop()
    for (const name of this.machines()) {
      try { process.kill(Number(readFileSync(path.join(this.dir, 'vms', name, 'pid'), 'utf8')), 'SIGKILL') } catch { /* off */ }
    }
    await this.e.stop()
  }
}

async function withVbox(options, body) {
  const v = await Vbox.start(options)
  try {
    await body(v, v.e)
  } finally {
    await v.stop()
  }
}

test('cp-vbox', { concurrency: 3 }, async (t) => {
  const all = []
  all.push(t.test('machines are cloned by need, survive the manager, and are deleted', () => withVbox({ cooldown: '3s' }, async (v, e) => {
    await hello(e)
    const before = v.ours()
    assert.equal(before.length, 1)
    assert.match(before[0], /^fnd-default-[0-9a-f]+-0$/)
    const [runner] = (await e.runners()).runners
    assert.equal(runner.id, before[0])
    assert.match(runner.address, /^127\.0\.77\.\d+:\d+$/)
    await e.npm.kill()
    await hello(e)
    await e.npm.start()
    await states(e, '{"active":1}')
    assert.deepEqual(v.ours(), before)
    await states(e, '{}')
    assert.deepEqual(v.ours(), [])
    assert.doesNotMatch(v.log(), /(controlvm|unregistervm|startvm) (template|Windows)/)
    assert.ok(existsSync(path.join(v.dir, 'vms', FOREIGN[0], 'on')), 'a foreign machine was switched off')
  })))

  all.push(t.test('a machine that takes no notice of the button is switched off', () => withVbox({ options: ', stop_timeout: 600ms', files: { deaf: '' } }, async (v, e) => {
    await hello(e)
    await states(e, '{}')
    assert.match(v.log(), /acpipowerbutton[^]*poweroff[^]*unregistervm/)
  })))

  all.push(t.test('one of two cannot be started: the other one works, the rest is asked again', () => withVbox({ files: { 'mode-startvm': 'once' } }, async (v, e) => {
    const calls = Array.from({ length: 3 }, (_, i) => invoke(e.lbs[0], fnId('sleep'), `1000 ${i}`))
    await told(e, 'VBoxManage startvm: ended with 1: The object is not ready')
    for (const c of calls) assert.equal((await c).status, 200, (await c).text)
    assert.equal(v.ours().length, 2)
    assert.match(v.log(), /unregistervm fnd-default/)
  })))

  all.push(t.test('a start that hangs: the request comes again and makes no second machine', () => withVbox({ npm: '  cplane_timeout: 500ms\n  backoff_max: 1s', files: { 'mode-startvm': 'hang' } }, async (v, e) => {
    const call = hello(e)
    await told(e, 'VBoxManage startvm: fn.exec:')
    v.set('startvm')
    await call
    assert.equal(v.ours().length, 1)
    assert.equal(v.log().match(/^clonevm/gm).length, 1)
  })))

  all.push(t.test('a machine that goes off is replaced, and deleted', () => withVbox({ npm: '  runners_min: 1' }, async (v, e) => {
    await states(e, '{"active":1}')
    const [first] = v.ours()
    process.kill(Number(readFileSync(path.join(v.dir, 'vms', first, 'pid'), 'utf8')), 'SIGKILL')
    rmSync(path.join(v.dir, 'vms', first, 'on'))
    await until('another one took its place', () => v.ours().length === 1 && v.ours()[0] !== first, 20_000)
    await states(e, '{"active":1}')
    await hello(e)
  })))

  all.push(t.test('VBoxManage fails in five ways: one sentence each, runners stay, later all is well', () => withVbox({ npm: '  cplane_timeout: 500ms\n  backoff_max: 1s', cooldown: '60s' }, async (v, e) => {
    await hello(e)
    const before = v.ours()
    for (const [mode, sentence] of [
      ['fail', 'VBoxManage list: ended with 1: Failed to create the VirtualBox object!'],
      ['quiet', 'VBoxManage list: ended with 0: Failed to create the VirtualBox object!'],
      ['garbage', 'got \\"??{{\\"\\" %s\\"; expected \\"name\\" {uuid} in each line'],
      ['cut', 'VBoxManage list: got \\"\\"half a name\\"; expected'],
      ['hang', 'VBoxManage list: fn.exec: \\"'],
    ]) {
      v.set('list', mode)
      await told(e, sentence).catch((error) => { throw new Error(`${error.message}\n${e.npm.log}`) })
      await hello(e)
      assert.equal((await e.states()).active, 1)
      v.set('list')
      await until('the control plane works again', async () => await e.npm.metric('fn_npm_cplane_failures') === 0)
      assert.deepEqual(v.ours(), before)
    }
    await hello(e)
  })))

  all.push(t.test('Vagrant: a folder per machine, deleted with it', () => withVbox({ mode: 'vagrant' }, async (v, e) => {
    await hello(e)
    const [id] = readdirSync(v.work)
    assert.match(id, /^fnd-default-[0-9a-f]+-0$/)
    assert.ok(v.ours()[0].startsWith(`${id}_default_`))
    assert.equal((await e.runners()).runners[0].id, id)
    await states(e, '{}')
    assert.deepEqual(v.ours(), [])
    assert.deepEqual(readdirSync(v.work), [])
  })))
  await Promise.all(all)
})

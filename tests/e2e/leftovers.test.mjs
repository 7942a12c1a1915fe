// What a runner leaves that was killed, and whose address never comes back: whoever is alive removes it.
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { appsYaml, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { docker, driver, noEngine } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

const WITHIN_MS = 30_000
const notRoot = process.getuid() === 0 ? false : 'functions have no cgroups without root'
const containers = (owner) => docker('ps', '-aq', '--filter', `label=io.fnd.owner=${owner}-${process.pid}`).split('\n').filter(Boolean)
const hierarchies = ['/sys/fs/cgroup/fnd', ...['freezer', 'memory', 'pids', 'cpu'].map((c) => `/sys/fs/cgroup/${c}/fnd`)]

const processes = (program) => readdirSync('/proc').filter((pid) => {
  try { return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0] === program } catch { return false }
})
// Of nodes that run at the root of the hierarchies, as in a test machine.
const cgroups = (owner) => hierarchies.filter((dir) => existsSync(dir)).flatMap((dir) => readdirSync(dir)).filter((name) => name.startsWith(`${owner}--`))
const iofsOf = (node) => /iofs_path: (.*)/.exec(readFileSync(path.join(node.dir, 'fn.yaml'), 'utf8'))[1]
const mounts = (dir) => readFileSync('/proc/self/mountinfo', 'utf8').split('\n').filter((line) => line.includes(dir))
const frozen = (pid) => /^State:\s+[DT]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))

describe('what a killed runner leaves', () => {
  it('process driver: frozen functions, cgroups, mounts and directories go while another runner lives', { skip: notRoot }, async () => {
    const functions = tempDir()
    copyFileSync(path.join(build, 'functions/hello'), path.join(functions, 'hello'))
    const options = (owner) => ({ driver: `driver: { use: process, root: ${functions} }`, runner: `owner: ${owner}-${process.pid}` })
    const victim = await startRunner(options('victim'))
    const living = await startRunner(options('living'))
    const lbs = await Promise.all([victim, living].map((r) => startLb({ addresses: [r.address], functions: { hello: {} } })))
    for (const lb of lbs) assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    const program = path.join(functions, 'hello')
    assert.equal(processes(program).length, 2)
    await until('they are frozen', () => processes(program).every(frozen))
    // A successor sweeps the directory of sockets only where it shares it.
    const successor = await startRunner({ ...options('next'), iofs: iofsOf(victim) })
    await victim.kill()
    await until('the function of the killed one is gone', () => processes(program).length === 1, WITHIN_MS)
    await until('its cgroups are gone', () => cgroups(`victim-${process.pid}`).length === 0, WITHIN_MS)
    await until('its directory is gone', () => readdirSync(iofsOf(victim)).length === 1, WITHIN_MS)
    assert.equal(mounts(iofsOf(victim)).length, 0)
    assert.equal((await invoke(lbs[1], fnId('hello'))).status, 200)
    assert.equal(processes(program).length, 1, 'the function of the living one served it')
    for (const node of [...lbs, living, successor]) await node.stop()
    assert.deepEqual(cgroups(`living-${process.pid}`), [], 'a runner that ends in order leaves no mark either')
  })

  it('docker driver: frozen containers go while another runner of that engine lives', { skip: noEngine }, async () => {
    const options = (owner) => ({ driver: driver(), runner: `owner: ${owner}-${process.pid}` })
    const functions = { hello: { image: 'fnd/hello:latest', memory: 64 } }
    const victim = await startRunner(options('victim'))
    const living = await startRunner(options('living'))
    const stopped = await startRunner(options('stopped'))
    const lbs = await Promise.all([victim, living, stopped].map((r) => startLb({ addresses: [r.address], functions })))
    for (const lb of lbs) assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    stopped.signal('SIGSTOP') // it cannot say that it lives, and does
    await victim.kill()
    await until('the container of the killed one is gone', () => containers('victim').length === 0, WITHIN_MS)
    assert.equal(containers('living').length, 1)
    assert.equal(containers('stopped').length, 1)
    stopped.signal('SIGCONT')
    for (const lb of lbs.slice(1)) assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    for (const node of [...lbs, living, stopped]) await node.stop()
    for (const owner of ['living', 'stopped']) assert.deepEqual(containers(owner), [])
  })
})

describe('what a living node has is not left over', () => {
  it('a runner without a name, beside one with the same port at another address', { skip: notRoot }, async () => {
    const functions = tempDir()
    copyFileSync(path.join(build, 'functions/hello'), path.join(functions, 'hello'))
    const program = path.join(functions, 'hello')
    const options = { driver: `driver: { use: process, root: ${functions} }`, grpcPort: await freePort() }
    const first = await startRunner(options)
    const lb = await startLb({ addresses: [first.address], functions: { hello: {} } })
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    const before = processes(program)
    const second = await startRunner({ ...options, host: '127.0.0.2' })
    await second.stop() // behind its sweep
    assert.deepEqual(processes(program), before)
    for (const node of [lb, first]) await node.stop()
  })

  const full = (port, functions) => `
node: full
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins:
  driver: { use: process, root: ${functions} }
runner: { iofs_path: ${tempDir()} }
${appsYaml({ hello: {} })}`

  it('a second start of its configuration ends, and a neighbour on another port serves, beside its function', async () => {
    const functions = tempDir()
    copyFileSync(path.join(build, 'functions/hello'), path.join(functions, 'hello'))
    const program = path.join(functions, 'hello')
    const port = await freePort()
    const node = await Fnd.start('first', port, full(port, functions))
    assert.equal((await invoke(node, fnId('hello'))).status, 200)
    const [function_] = processes(program)
    const double = await Fnd.start('double', port, full(port, functions), { wait: false })
    assert.equal((await double.ended).code, 69, double.log)
    assert.match(double.log, /CFG707/)
    const other = await freePort()
    const neighbour = await Fnd.start('neighbour', other, full(other, functions))
    assert.equal((await invoke(neighbour, fnId('hello'))).status, 200)
    assert.ok(processes(program).includes(function_), 'the function of the first node lives')
    assert.doesNotMatch(node.log, /hot function terminated/)
    for (const one of [neighbour, node]) await one.stop()
  })
})

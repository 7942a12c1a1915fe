// What a node gives up at its start, by what the kernel says of the process and what a plugin gets
// that asks for more. Each promise of docs/security.md about it has its test here.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, readFileSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { docker, driver, noEngine } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

const functions = { hello: {}, evil: { image: 'hello' } }
const e29 = `{ use: e29, file: ${path.join(build, 'tests/plugins/evil/e29_syscalls.so')} }`
const sanitized = /FND_SANITIZE:\w+=\w/.test(readFileSync(path.join(build, 'CMakeCache.txt'), 'utf8'))
const notRoot = process.getuid() !== 0 && 'only root has rights to give up'
const nobody = 65534
const started = []
let runner

async function lbWith(more = '', options = {}) {
  const lb = await startLb({ addresses: [runner.address], functions, placer: e29, more, ...options })
  started.push(lb)
  return lb
}

const kernel = (pid) => Object.fromEntries(readFileSync(`/proc/${pid}/status`, 'utf8').split('\n').map((l) => l.split(/:\s+/)))
const caps = (hex) => Array.from({ length: 41 }, (_, i) => i).filter((i) => BigInt(`0x${hex}`) >> BigInt(i) & 1n)
const [DAC_OVERRIDE, FOWNER, NET_BIND_SERVICE, SYS_ADMIN] = [1, 3, 10, 21]
const status = async (node) => JSON.parse(await node.ask('status', '--json'))

// What the plugin got from the kernel: { ptrace: 'EPERM', ... }.
async function asked(lb) {
  assert.equal((await invoke(lb, fnId('evil'))).status, 200)
  const line = await until('the plugin told', () => /msg=" (ptrace=[^"]*)"/.exec(lb.log))
  assert.equal((await invoke(lb, fnId('hello'))).status, 200, 'the node lives')
  return Object.fromEntries(line[1].split(' ').map((w) => w.split('=')))
}

before(async () => { runner = await startRunner() })
after(async () => {
  await Promise.all(started.map((node) => node.exit ?? node.kill()))
  rmSync(`/tmp/fnd-${nobody}`, { recursive: true, force: true }) // its admin sockets; killed nodes leave theirs
  await runner?.stop()
})

describe('basic, the default', { skip: notRoot }, () => {
  let lb
  before(async () => { lb = await lbWith() })

  it('leaves a load balancer one capability, and what it starts no more', () => {
    const now = kernel(lb.pid)
    assert.equal(now.NoNewPrivs, '1')
    assert.equal(now.Seccomp, '2')
    for (const set of ['CapEff', 'CapPrm', 'CapBnd']) assert.deepEqual(caps(now[set]), [DAC_OVERRIDE], set)
    assert.deepEqual(caps(now.CapInh), [])
  })

  it('holds for every thread', () => {
    const threads = execFileSync('sh', ['-c', `grep -h -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/${lb.pid}/task/*/status | sort | uniq -c`], { encoding: 'utf8' })
    const lines = threads.trim().split('\n')
    assert.equal(lines.length, 3, threads)
    assert.ok(Number(lines[0].trim().split(' ')[0]) > 3, threads)
  })

  it('refuses a plugin what it does not need', async () => {
    const got = await asked(lb)
    for (const call of ['process_vm_readv', 'bpf', 'keyctl', 'perf_event_open', 'userfaultfd', 'kexec_load', 'init_module', 'mount', 'unshare', 'clone', 'setns']) {
      assert.equal(got[call], 'EPERM', call)
    }
    if (!sanitized) assert.equal(got.ptrace, 'EPERM') // a sanitizer traces its own process
    assert.equal(got.clone3, 'ENOSYS')
    assert.notEqual(got.alg, 'EPERM')
    assert.equal(got.write, 'done')
  })

  it('is told in the status and in one line of the log', async () => {
    const { hardening } = await status(lb)
    assert.equal(hardening.mode, 'basic')
    assert.equal(hardening.uid, 0)
    assert.deepEqual(hardening.capabilities, ['dac_override'])
    assert.deepEqual(hardening.applied, ['capabilities', 'no_new_privs', ...(sanitized ? [] : ['private_memory']), 'seccomp'])
    assert.match(hardening.missing.user, /process\.user is not set/)
    assert.match(hardening.missing.landlock, /only with process\.hardening: strict/)
    assert.match(lb.log, /msg="rights dropped" hardening=basic uid=0 capabilities=dac_override applied="capabilities no_new_privs [^"]*seccomp" missing="user \(/)
    const text = await lb.ask('status')
    assert.match(text, /^rights +basic, uid 0, capabilities: dac_override; applied: capabilities no_new_privs/m)
    assert.match(text, /^ +without landlock: only with/m)
  })

  it('outlives a reload, which starts a trial process and loads plugins', async () => {
    lb.signal('SIGHUP')
    await until('the reload is done', async () => await lb.metric('fn_config_generation') === 2)
    assert.equal((await asked(lb)).bpf, 'EPERM')
    assert.doesNotMatch(lb.log, /changed what belongs to the process/)
  })

  it('keeps the memory from others of its user, unless core files are wanted', { skip: sanitized && 'a sanitizer traces its own process' }, async () => {
    const open = await lbWith('process: { user: nobody, core_files: true }')
    const shut = await lbWith('process: { user: nobody }')
    const look = (pid) => spawnSync('head', ['-c', '1', `/proc/${pid}/environ`], { uid: nobody, gid: nobody }).status
    assert.equal(look(open.pid), 0)
    assert.equal(look(shut.pid), 1)
    assert.match((await status(open)).hardening.missing.private_memory, /process\.core_files/)
  })
})

describe('the other words', { skip: notRoot }, () => {
  it('off: nothing is taken, and the kernel itself answers', async () => {
    const lb = await lbWith('process: { hardening: off }')
    const [now, own] = [kernel(lb.pid), kernel(process.pid)]
    for (const field of ['NoNewPrivs', 'Seccomp', 'CapEff', 'CapBnd']) assert.equal(now[field], own[field], field)
    const got = await asked(lb)
    for (const call of ['ptrace', 'bpf', 'keyctl', 'userfaultfd', 'clone', 'clone3', 'setns']) {
      assert.ok(!['EPERM', 'ENOSYS'].includes(got[call]), `${call}: ${got[call]}`)
    }
    assert.deepEqual((await status(lb)).hardening.applied, [])
  })

  it('strict: no capability, no odd sockets, and writing only where the options say', async () => {
    const lb = await lbWith('process: { hardening: strict }')
    assert.deepEqual(caps(kernel(lb.pid).CapEff), [])
    const got = await asked(lb)
    assert.equal(got.bpf, 'EPERM')
    assert.equal(got.alg, 'EPERM')
    assert.equal(got.write_tmp, 'done')
    const { hardening } = await status(lb)
    if (hardening.applied.includes('landlock')) assert.equal(got.write, 'EACCES')
    else assert.match(hardening.missing.landlock, /kernel does not have it/)
    lb.signal('SIGHUP')
    await until('a reload', async () => await lb.metric('fn_config_generation') === 2)
    assert.equal((await lb.stop()).code, 0)
  })

  it('strict, writable: another directory', async () => {
    const lb = await lbWith('process: { hardening: strict, writable: [/var/tmp] }')
    assert.equal((await asked(lb)).write, 'done')
  })

  it('strict: an API node keeps its store and its log', async () => {
    const port = await freePort()
    const dir = execFileSync('mktemp', ['-d', '/var/tmp/fnd-strict-XXXXXX'], { encoding: 'utf8' }).trim()
    const api = await Fnd.start('api', port, `
node: api
http: { listen: "127.0.0.1:${port}" }
log: { dest: "file://${dir}/log" }
store: { url: "sqlite3://${dir}/data/fn.db" }
process: { hardening: strict }
`)
    started.push(api)
    const made = await fetch(api.url('/v2/apps'), { method: 'POST', body: '{"name":"a"}', headers: { 'Content-Type': 'application/json' } })
    assert.equal(made.status, 200, await made.text())
    assert.equal((await api.stop()).code, 0)
    assert.match(readFileSync(`${dir}/log`, 'utf8'), /hardening=strict/)
    execFileSync('rm', ['-r', dir])
  })
})

describe('another user', { skip: notRoot }, () => {
  it('serves, and reads its configuration as that user', async () => {
    const lb = await startLb({ addresses: [runner.address], functions, placer: e29, more: 'process: { user: nobody }' })
    started.push(lb)
    const now = kernel(lb.pid)
    assert.deepEqual([now.Uid, now.Gid].map((ids) => ids.split('\t')), Array(2).fill(Array(4).fill(String(nobody))))
    assert.deepEqual(caps(now.CapEff), [])
    assert.equal((await asked(lb)).unshare, 'EPERM')
    assert.equal((await status(lb)).hardening.uid, nobody)
    lb.signal('SIGHUP') // its file is root's
    await until('the reload is refused', () => /the configuration was not taken/.test(lb.log))
    chmodSync(lb.dir, 0o755)
    chmodSync(path.join(lb.dir, 'fn.yaml'), 0o644)
    lb.signal('SIGHUP')
    await until('a reload', async () => await lb.metric('fn_config_generation') === 2)
    assert.equal((await lb.stop()).code, 0)
  })

  it('keeps the right to a low port, and no other', async () => {
    const port = 1023
    const node = await Fnd.start('low', port, `
node: lb
http: { listen: "127.0.0.1:${port}" }
process: { user: "${nobody}", hardening: strict }
plugins: { pool: { use: static, runners: ["${runner.address}"] } }
`)
    started.push(node)
    assert.deepEqual(caps(kernel(node.pid).CapEff), [NET_BIND_SERVICE])
    assert.equal((await node.stop()).code, 0)
  })

  it('holds again after a crash, and goes with its parent', async () => {
    const lb = await lbWith('process: { user: nobody }', { args: ['--supervise'] })
    const child = () => Number(execFileSync('pgrep', ['-P', String(lb.pid)], { encoding: 'utf8' }))
    const first = child()
    assert.equal(kernel(first).Uid.split('\t')[0], String(nobody))
    process.kill(first, 'SIGSEGV')
    await until('the next one', () => { try { return child() !== first } catch { return false } })
    await lb.ready()
    const second = child()
    assert.equal(kernel(second).Uid.split('\t')[0], String(nobody))
    assert.equal(kernel(second).Seccomp, '2')
    await lb.kill()
    await until('the node is gone', () => invoke(lb, fnId('hello')).then(() => false, () => true))
  })

  it('is refused if there is none of that name', async () => {
    const lb = await lbWith('process: { user: no-such-user }', { wait: false })
    assert.equal((await lb.ended).code, 78)
    assert.match(lb.log, /user, got "no-such-user"; expected a user of this machine, or a number/)
  })
})

describe('runners', { skip: notRoot }, () => {
  it('driver process: functions get users, namespaces and cgroups as before', async () => {
    const got = kernel(runner.pid)
    assert.equal(got.NoNewPrivs, '1')
    assert.equal(got.Seccomp, '2')
    const lb = await lbWith()
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    const child = Number(execFileSync('pgrep', ['-P', String(runner.pid)], { encoding: 'utf8' }).split('\n')[0])
    assert.notEqual(kernel(child).Uid.split('\t')[0], '0')
    assert.deepEqual(caps(kernel(child).CapEff), [])
  })

  // What every user of the machine can read tells where the socket is.
  const places = {
    'that gets it mounted': { mode: 0o700, path: (iofs) => new RegExp(`^tmpfs (${iofs}\\S*/iofs\\S*) `, 'm').exec(readFileSync('/proc/mounts', 'utf8')) },
    'that reaches it by its path': {
      mode: 0o711,
      within: ['setpriv', '--bounding-set', '-sys_admin', '--inh-caps', '-sys_admin'],
      path: (iofs) => new RegExp(` (${iofs}\\S*/iofs[^/]*)/\\S*$`, 'm').exec(readFileSync('/proc/net/unix', 'utf8')),
    },
  }
  for (const [what, { within, path: find, mode }] of Object.entries(places)) {
    it(`driver process: nobody takes the socket of a function ${what}`, async () => {
      const iofs = tempDir()
      chmodSync(iofs, 0o755)
      const mine = await startRunner({ within, iofs })
      started.push(mine)
      const lb = await lbWith('', { addresses: [mine.address] })
      assert.equal((await invoke(lb, fnId('hello'))).status, 200)
      const dir = (await until('it is told where', () => find(iofs)))[1]
      assert.equal(statSync(path.dirname(dir)).mode & 0o7777, mode)
      const taken = spawnSync('setpriv', ['--reuid', '1', '--regid', '1', '--clear-groups', 'mv', `${dir}/lsnr.sock`, `${dir}/taken`], { encoding: 'utf8' })
      assert.match(taken.stderr, /Permission denied/)
      assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    })
  }

  it('driver docker: sockets in a tmpfs, calls, an end without leftovers, with three capabilities', { skip: noEngine }, async () => {
    const owner = `e2e-hardening-${process.pid}`
    const mine = await startRunner({ driver: driver(), runner: `owner: ${owner}`, more: 'process: { hardening: strict }' })
    started.push(mine)
    const lb = await lbWith('', { addresses: [mine.address], functions: { hello: { image: 'fnd/hello:latest', memory: 64 } } })
    assert.deepEqual(caps(kernel(mine.pid).CapEff), [DAC_OVERRIDE, FOWNER, SYS_ADMIN])
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    assert.match(readFileSync(`/proc/${mine.pid}/mounts`, 'utf8'), /^tmpfs \S*iofs\S* tmpfs /m)
    assert.match((await status(mine)).hardening.missing.landlock, /a runner mounts/)
    assert.equal((await mine.stop()).code, 0)
    assert.equal(docker('ps', '-aq', '--filter', `label=io.fnd.owner=${owner}`), '')
  })
})

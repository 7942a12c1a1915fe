// The broker of the container engine: what it refuses, what it relays, and a runner without rights
// that runs its functions through it.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { docker, driver, noEngine, socketPath } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { build, tempDir, until } from './lib/node.mjs'

const program = path.join(build, 'fnd-docker-broker')
const notRoot = process.getuid() !== 0 && 'only root can mount, and be another user'
const nobody = 65534
const ID = 'ab'.repeat(32)
const MIB = 1 << 20

class Broker {
  constructor(dir, ...args) {
    Object.assign(this, { socket: path.join(dir, 'broker.sock'), args, log: '' })
  }

  async start() {
    this.child = spawn(program, ['--listen', this.socket, ...this.args], { stdio: ['ignore', 'ignore', 'pipe'] })
    this.ended = new Promise((resolve) => this.child.once('error', resolve).once('close', resolve))
    this.child.stderr.on('data', (data) => { this.log += data })
    const from = this.log.length
    await until('the broker listens', () => {
      assert.equal(this.child.exitCode, null, this.log)
      return this.log.slice(from).includes('broker of the container engine')
    })
    return this
  }

  async stop(signal = 'SIGTERM') {
    this.child.kill(signal)
    return this.ended
  }

  status = () => readFileSync(`/proc/${this.child.pid}/status`, 'latin1')

  rssKiB() {
    return Number(/VmRSS:\s+(\d+)/.exec(this.status())[1])
  }
}

// Sends bytes and returns what comes until the end.
function say(socket, bytes) {
  return new Promise((resolve, reject) => {
    let text = ''
    const s = net.connect(socket, () => s.write(bytes))
    s.on('data', (data) => { text += data.toString('latin1') })
    s.on('error', (e) => (text ? undefined : reject(e)))
    s.on('close', () => resolve({ status: Number(text.slice(9, 12)), text }))
  })
}

const request = (line, body = '', more = '') => `${line} HTTP/1.1\r\nHost: d\r\n${body ? `Content-Length: ${Buffer.byteLength(body)}\r\n` : ''}${more}\r\n${body}`

const mount = (source) => ({ Type: 'bind', Source: source, Target: '/tmp/iofs' })

const createBody = (iofs, owner, change = {}, host = {}) => JSON.stringify({
  Image: 'fnd/hello:latest', User: '1000:1000', AttachStdout: false, AttachStderr: false, Env: [], Labels: { 'io.fnd.owner': owner },
  HostConfig: { Mounts: [mount(`${iofs}/a`)], CapDrop: ['ALL'], SecurityOpt: ['no-new-privileges'], Init: true, ReadonlyRootfs: true, LogConfig: { Type: 'none' }, NetworkMode: 'none', ...host },
  ...change,
})

describe('the broker before an engine of the test', () => {
  const dir = tempDir()
  const seen = []
  let engine
  let broker
  let answer // what the engine does with a request: (socket, head) => ...

  before(async () => {
    engine = net.createServer((s) => {
      s.on('error', () => {})
      let text = ''
      const taken = (data) => {
        text += data.toString('latin1')
        if (!text.includes('\r\n\r\n')) return
        s.off('data', taken)
        seen.push(text)
        answer(s, text)
      }
      s.on('data', taken)
    })
    await new Promise((resolve) => engine.listen(path.join(dir, 'engine.sock'), resolve))
    broker = await new Broker(dir, '--engine', path.join(dir, 'engine.sock'), '--iofs', dir, '--owner', 'me', '--user', String(process.getuid()), '--load').start()
  })
  after(async () => {
    engine.close()
    await broker?.stop()
  })

  const ok = (body = '{}') => (s) => s.end(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${body}`)
  const inspected = (owner, then = ok()) => (s, head) => (head.includes('/json HTTP/1.0') ? ok(JSON.stringify({ Id: ID, Config: { Labels: { 'io.fnd.owner': owner } } }))(s) : then(s, head))

  it('refuses what is no request of the driver, and the engine does not see it', async () => {
    seen.length = 0
    answer = ok()
    const create = (...args) => request('POST /containers/create?name=x', createBody(dir, 'me', ...args))
    const rows = {
      privileged: create({}, { Privileged: true }),
      'a bind of /': create({}, { Mounts: [mount('/')] }),
      'a bind of the directory itself': create({}, { Mounts: [mount(dir)] }),
      'a bind that the engine makes': create({}, { Binds: [`${dir}/a:/tmp/iofs`] }),
      'the network of the host': create({}, { NetworkMode: 'host' }),
      'another owner': create({ Labels: { 'io.fnd.owner': 'other' } }),
      exec: request('POST /containers/x/exec', '{"Cmd":["sh"]}'),
      prune: request('POST /images/prune'),
      'every container': request('GET /containers/json?all=1'),
      'an encoded path': request('POST /containers/x%2Fexec/start'),
      'an absolute target': request('GET http://x/containers/json'),
      'a body where none belongs': request('GET /version', 'x'),
      'a body in chunks': `POST /containers/create?name=x HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      'two lengths': `POST /containers/create?name=x HTTP/1.1\r\nHost: d\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
      'a length and chunks': `POST /containers/create?name=x HTTP/1.1\r\nHost: d\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}`,
      'a bare line feed': 'GET /version HTTP/1.1\nHost: d\n\n',
      'a folded line': 'GET /version HTTP/1.1\r\nHost: d\r\nA: b\r\n c\r\n\r\n',
      'two requests': request('GET /version') + request('POST /images/prune'),
      'a huge head': `GET /version HTTP/1.1\r\nHost: d\r\nA: ${'x'.repeat(70_000)}\r\n\r\n`,
      'a thousand fields': `GET /version HTTP/1.1\r\nHost: d\r\n${'A: b\r\n'.repeat(1000)}\r\n`,
      'a huge body': `POST /containers/create?name=x HTTP/1.1\r\nHost: d\r\nContent-Length: 99999999999\r\n\r\n{}`,
      'no HTTP': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n',
    }
    for (const [what, bytes] of Object.entries(rows)) {
      const { status, text } = await say(broker.socket, bytes)
      assert.ok(status >= 400 && status < 500, `${what}: ${text}`)
      assert.match(text, /\{"message":"[^"]+"\}$/, what)
    }
    assert.deepEqual(seen, [])
    assert.match(broker.log, /msg="request refused" status=403 reason="create: HostConfig\.Privileged is no member/)
  })

  it('a second request on a connection ends it, also when it comes late', async () => {
    seen.length = 0
    answer = (s) => { // the first is answered when the second is gone
      s.on('close', () => seen.push('closed'))
    }
    const s = net.connect(broker.socket, () => s.write(request('GET /version')))
    s.on('error', () => {})
    await until('the engine has it', () => seen.length === 1)
    s.write(request('POST /images/prune'))
    await new Promise((resolve) => s.once('close', resolve))
    await until('its connection ends', () => seen.length === 2)
    assert.match(seen[0], /^GET \/version HTTP\/1\.1\r\nHost: docker\r\nConnection: close\r\n\r\n$/)
  })

  it('asks whose container it is, and names it by its id from then on', async () => {
    seen.length = 0
    answer = inspected('other')
    const { status, text } = await say(broker.socket, request('DELETE /containers/theirs?force=1&v=1'))
    assert.equal(status, 403)
    assert.match(text, /container theirs is of another owner/)
    assert.equal(seen.length, 1)
    answer = inspected('me')
    assert.equal((await say(broker.socket, request('POST /containers/mine/start'))).status, 200)
    assert.equal((await say(broker.socket, request('DELETE /containers/mine?force=1&v=1'))).status, 200)
    assert.deepEqual(seen.slice(1).map((head) => head.split('\r\n')[0]), [
      'GET /containers/mine/json HTTP/1.0', `POST /containers/${ID}/start HTTP/1.1`, `DELETE /containers/${ID}?force=1&v=1 HTTP/1.1`])
    answer = (s) => s.end('HTTP/1.1 404 Not Found\r\n\r\n{}')
    assert.equal((await say(broker.socket, request('GET /containers/gone/json'))).status, 404)
  })

  it('what was created through it needs no question', async () => {
    seen.length = 0
    const id = 'cd'.repeat(32)
    answer = (s) => s.end(`HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n{"Id":"${id}","Warnings":[]}`)
    assert.equal((await say(broker.socket, request('POST /containers/create?name=new', createBody(dir, 'me')))).status, 201)
    answer = ok()
    assert.equal((await say(broker.socket, request(`POST /containers/${id}/start`))).status, 200)
    assert.equal((await say(broker.socket, request('DELETE /containers/new?force=1&v=1'))).status, 200)
    assert.deepEqual(seen.map((head) => head.split(' ')[1]), ['/containers/create?name=new', `/containers/${id}/start`, `/containers/${id}?force=1&v=1`])
  })

  it('relays an answer of any length to a slow reader, with bounded memory', async () => {
    const piece = Buffer.alloc(MIB, 'x')
    answer = (s) => { s.write('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n'); for (let i = 0; i < 32; i++) s.write(piece); s.end() }
    let n = 0
    const s = net.connect(broker.socket, () => s.write(request('GET /info')))
    s.on('data', (data) => {
      n += data.length
      if (n === data.length) { // the first: wait until nothing moves
        s.pause()
        setTimeout(() => {
          assert.ok(broker.rssKiB() < 16 * 1024, `${broker.rssKiB()} KiB`)
          s.resume()
        }, 200)
      }
    })
    await new Promise((resolve) => s.once('close', resolve))
    assert.equal(n, 32 * MIB + 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n'.length)
  })

  it('relays an archive to an engine that takes its time', async () => {
    const bytes = 5 * MIB + 17
    let n = 0
    answer = (s, text) => {
      n = text.length - text.indexOf('\r\n\r\n') - 4
      const more = (data) => {
        n += data.length
        if (n === bytes) ok('loaded')(s)
      }
      s.on('data', more)
    }
    const { text } = await say(broker.socket, Buffer.concat([
      Buffer.from(`POST /images/load?quiet=1 HTTP/1.1\r\nHost: d\r\nExpect: 100-continue\r\nContent-Length: ${bytes}\r\n\r\n`), Buffer.alloc(bytes, 'y')]))
    assert.match(text, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK[^]*loaded$/)
    assert.equal(n, bytes)
  })

  it('who is gone is gone for the engine too: a pull ends with its caller', async () => {
    let closed = false
    answer = (s) => s.on('close', () => { closed = true })
    seen.length = 0
    const s = net.connect(broker.socket, () => s.write(request('POST /images/create?fromImage=a&tag=b')))
    await until('the engine has it', () => seen.length === 1)
    s.destroy()
    await until('it is told', () => closed)
  })

  it('with as many connections as it has descriptors for, one more is closed, and then there is room again', async () => {
    answer = ok()
    const few = spawn('prlimit', ['--nofile=64:64', program, '--listen', path.join(dir, 'few.sock'), ...broker.args], { stdio: 'ignore' })
    const at = path.join(dir, 'few.sock')
    await until('it listens', () => say(at, request('GET /version')).then(({ status }) => status === 200, () => false))
    let closed = 0
    const idle = Array.from({ length: 40 }, () => net.connect(at).on('error', () => {}).on('close', () => { closed += 1 }))
    await until('those beyond 16 are closed', () => closed === 24)
    idle.forEach((s) => s.destroy())
    await until('there is room', () => say(at, request('GET /version')).then(({ status }) => status === 200, () => false))
    few.kill()
    await new Promise((resolve) => few.once('close', resolve))
  })

  it('has no rights left, and turns other users away', { skip: notRoot }, async () => {
    assert.match(broker.status(), /CapEff:\t0{16}\n[^]*NoNewPrivs:\t1/)
    chmodSync(dir, 0o755)
    chmodSync(broker.socket, 0o666) // else the kernel does it
    const script = `const s = require('net').connect(${JSON.stringify(broker.socket)}, () => s.write('GET /version HTTP/1.1\\r\\nHost: d\\r\\n\\r\\n')); s.on('data', () => process.exit(3)); s.on('error', () => {}); s.on('close', () => process.exit(0))`
    assert.equal(spawnSync(process.execPath, ['-e', script], { uid: nobody, gid: nobody }).status, 0)
    await until('the log says so', () => /msg="a user that may not connect" uid=65534/.test(broker.log))
  })

  it('does not start where a runner could place links', { skip: notRoot }, () => {
    const { status, stderr } = spawnSync(program, ['--listen', path.join(dir, 'b.sock'), '--iofs', dir, '--user', 'nobody'], { encoding: 'utf8' })
    assert.equal(status, 78)
    assert.match(stderr, /expected a file system that was mounted with nosymfollow/)
  })
})

describe('a runner without rights', { skip: notRoot || noEngine }, () => {
  const owner = `e2e-broker-${process.pid}`
  const dir = tempDir()
  const iofs = path.join(dir, 'iofs', 'runner')
  const functions = { hello: { image: 'fnd/hello:latest', memory: 64 }, echo: { image: 'fnd/echo:latest', memory: 64 } }
  const containers = () => docker('ps', '-aq', '--filter', `label=io.fnd.owner=${owner}`).split('\n').filter(Boolean)
  let broker
  let runner
  let lb

  before(async () => {
    mkdirSync(path.dirname(iofs))
    assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', 'nosymfollow,nosuid,nodev,noexec,size=16m,mode=0755', 'tmpfs', path.dirname(iofs)]).status, 0)
    for (const own of [iofs, path.join(dir, 'run')]) {
      mkdirSync(own)
      chownSync(own, nobody, nobody)
    }
    chmodSync(dir, 0o711)
    broker = await new Broker(dir, '--engine', socketPath, '--iofs', iofs, '--owner', owner, '--user', 'nobody', '--group', 'nogroup').start()
    runner = await startRunner({ driver: driver(broker.socket), iofs, runner: `owner: ${owner}`, more: 'process: { user: nobody }', env: { XDG_RUNTIME_DIR: path.join(dir, 'run') } })
    lb = await startLb({ addresses: [runner.address], functions, lb: 'placement_timeout: 10s' })
  })
  after(async () => {
    await lb?.stop()
    await runner?.stop()
    const left = containers()
    await broker?.stop()
    for (const id of left) docker('rm', '-f', id)
    assert.deepEqual(left, [])
  })

  it('answers calls, cold and warm', async () => {
    assert.match(readFileSync(`/proc/${runner.pid}/status`, 'latin1'), /Uid:\t65534\t65534\t65534[^]*CapEff:\t0{16}/)
    for (let i = 0; i < 3; i++) {
      const answer = await invoke(lb, fnId('hello'))
      assert.equal(answer.status, 200, `${answer.text}\n${runner.log}\n${broker.log}`)
    }
    assert.equal(containers().length, 1)
    assert.doesNotMatch(broker.log, /refused/)
  })

  it('goes on when the broker is killed under load and comes back', async () => {
    let stop = false
    const callers = Array.from({ length: 4 }, async (_, i) => {
      for (let n = 0; !stop; n++) {
        const { status } = await invoke(lb, fnId(i % 2 ? 'hello' : 'echo'), `${n}`)
        assert.ok(status === 200 || status === 503, `${status}`)
      }
    })
    await until('calls are under way', () => containers().length >= 2)
    await broker.stop('SIGKILL')
    await broker.start()
    await until('a cold call is answered', async () => (await invoke(lb, fnId('echo'), 'x')).status === 200)
    stop = true
    await Promise.all(callers)
    for (const id of containers()) {
      try {
        docker('rm', '-f', id)
      } catch (e) {
        if (!/is already in progress|No such container/.test(e.message)) throw e // the runner was faster
      }
    }
    await until('containers that are gone are started anew', async () => (await invoke(lb, fnId('echo'), 'x')).status === 200)
  })

  it('cannot lead the engine out of its directory by a link', async () => {
    symlinkSync('/', path.join(iofs, 'a'))
    const asNobody = (bytes) => JSON.parse(spawnSync(process.execPath, ['-e', `let t = ''; const s = require('net').connect(${JSON.stringify(broker.socket)}, () => s.write(${JSON.stringify(bytes)})); s.on('data', (d) => { t += d }); s.on('close', () => console.log(JSON.stringify(t)))`],
      { uid: nobody, gid: nobody, encoding: 'utf8' }).stdout)
    const created = asNobody(request(`POST /containers/create?name=${owner}-link`, createBody(iofs, owner)))
    const started = created.startsWith('HTTP/1.1 201') ? asNobody(request(`POST /containers/${owner}-link/start`)) : created
    assert.match(started, /^HTTP\/1\.1 [45]\d\d /)
    assert.match(started, /too many levels of symbolic links|symbolic link|file exists/i)
    asNobody(request(`DELETE /containers/${owner}-link?force=1&v=1`))
    assert.ok(!containers().some((id) => docker('inspect', '-f', '{{.Name}}', id) === `/${owner}-link`))
  })
})

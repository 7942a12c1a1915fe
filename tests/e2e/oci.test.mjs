// driver-oci: functions in containers of runc and crun, with images of a store of the test's own and no engine.
import assert from 'node:assert/strict'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { Fnd, build, freePort, root, tempDir, until } from './lib/node.mjs'
import { Registry } from './lib/registry.mjs'

const WITHIN_MS = 30_000
const functions = {
  hello: { image: 'fnd/hello:latest', memory: 64 },
  echo: { image: 'fnd/echo', memory: 64 },
  misbehave: { image: 'fnd/misbehave', memory: 64 },
  oom: { image: 'fnd/oom', memory: 64, timeout: 10 },
  absent: { image: 'fnd/absent:1' },
}
const store = path.join(tempDir(), 'store')
const images = () => execFileSync(path.join(root, 'scripts/build-images'), ['hello', 'echo', 'misbehave', 'oom'],
  { env: { ...process.env, FND_BUILD: build, FND_OCI_STORE: store } })
const hasNot = (runtime) => process.getuid() !== 0 ? 'only root can make containers'
  : spawnSync(runtime, ['--version']).status !== 0 && `no ${runtime} on this machine`

const hierarchies = ['/sys/fs/cgroup/fnd-oci', ...['freezer', 'memory', 'pids', 'cpu'].map((c) => `/sys/fs/cgroup/${c}/fnd-oci`)]
// Their names begin with their owner.
const cgroups = (owner) => hierarchies.filter((dir) => existsSync(dir)).flatMap((dir) => readdirSync(dir, { withFileTypes: true }))
  .filter((entry) => entry.isDirectory() && entry.name.startsWith(`${owner}--`))
const shims = (state) => readdirSync('/proc').filter((pid) => {
  try { return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(state) } catch { return false }
})
const mounts = (dir) => readFileSync('/proc/self/mountinfo', 'utf8').split('\n').filter((line) => line.includes(dir))
const folders = (state) => existsSync(state) ? readdirSync(state) : []
const frozen = (state) => folders(state).some((name) => [`freezer/fnd-oci/${name}/freezer.state`, `fnd-oci/${name}/cgroup.freeze`]
  .some((file) => { try { return /FROZEN|^1/.test(readFileSync(path.join('/sys/fs/cgroup', file), 'utf8')) } catch { return false } }))

for (const runtime of ['runc', 'crun']) {
  describe(`functions in containers of ${runtime}`, { skip: hasNot(runtime) }, () => {
    const state = path.join(tempDir(), 'state')
    const owner = `oci-${runtime}-${process.pid}`
    const options = { driver: `driver: { use: oci, store: ${store}, state: ${state}, runtime: ${runtime} }`, runner: `owner: ${owner}` }
    let runner
    let lb
    before(async () => {
      images()
      runner = await startRunner(options)
      lb = await startLb({ addresses: [runner.address], functions })
    })
    after(async () => { for (const node of [lb, runner]) await node?.stop() })

    it('a call starts one, which serves the next call too, frozen in between', async () => {
      assert.equal((await invoke(lb, fnId('hello'), '{"name":"a"}')).status, 200)
      const [name] = folders(state)
      await until('it is frozen', () => frozen(state))
      const answer = await invoke(lb, fnId('hello'), '{"name":"b"}')
      assert.equal(answer.status, 200)
      assert.match(answer.text, /Hello b/)
      assert.deepEqual(folders(state), [name])
    })

    it('a large body goes in and comes back', async () => {
      const body = Buffer.alloc(3_000_000, 'x')
      const answer = await invoke(lb, fnId('echo'), body)
      assert.equal(answer.status, 200, answer.text?.slice(0, 200))
      assert.equal(Buffer.from(answer.text).length, body.length)
    })

    it('beyond its memory a function ends, and the next call has a new container', async () => {
      const answer = await invoke(lb, fnId('oom'))
      assert.equal(answer.status, 502, answer.text)
      assert.match(answer.text, /container out of memory.*limit 64 MB, exit 137/)
      assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    })

    it('its own end is told with its exit code', async () => {
      const answer = await invoke(lb, fnId('misbehave'), 'exit 3')
      assert.equal(answer.status, 502)
      assert.match(answer.text, /container exit code 3/)
    })

    it('passes the contract suite of the kit in this world', () => {
      const out = execFileSync(path.join(build, 'fnkit'), ['check', '--world', '--verbose', '--image', 'fnd/hello', '--set', `store=${store}`,
        '--set', `state=${path.join(tempDir(), 'state')}`, '--set', `runtime=${runtime}`, path.join(build, 'plugins/driver-oci.so')], { encoding: 'utf8' })
      assert.doesNotMatch(out, /not in this world/)
      assert.match(out, /7 cases, 0 failed, 1 skipped/)
    })

    it('an image that is not in the store is refused with what to do', async () => {
      const answer = await invoke(lb, fnId('absent'))
      assert.equal(answer.status, 404, answer.text)
      assert.match(answer.text, /Failed to pull image 'fnd\/absent:1': it is not in this node's store/)
    })

    it('after kill -9 nothing runs and nothing is mounted, and the next start removes the rest', async () => {
      assert.equal((await invoke(lb, fnId('hello'))).status, 200)
      await until('it is frozen', () => frozen(state))
      await runner.kill()
      const successor = await startRunner({ ...options, grpcPort: runner.grpcPort })
      runner = successor
      await until('folders and cgroups are gone', () => folders(state).length === 0 && cgroups(owner).length === 0, WITHIN_MS)
      assert.deepEqual(shims(state), [])
      assert.deepEqual(mounts(state), [])
      await until('calls are served again', async () => (await invoke(lb, fnId('hello'))).status === 200)
    })

    it('a stop leaves nothing', async () => {
      await runner.stop()
      assert.deepEqual(folders(state), [])
      assert.deepEqual(cgroups(owner), [])
      assert.deepEqual(shims(state), [])
      assert.deepEqual(mounts(state), [])
    })
  })
}

// One image, as `docker save` writes it.
function archive() {
  const dir = tempDir()
  const file = path.join(tempDir(), 'images.tar')
  mkdirSync(path.join(dir, 'root/tmp'), { recursive: true })
  copyFileSync(path.join(build, 'functions/hello'), path.join(dir, 'root/function'))
  execFileSync('tar', ['-C', path.join(dir, 'root'), '-cf', path.join(dir, 'layer.tar'), '.'])
  const diff = createHash('sha256').update(readFileSync(path.join(dir, 'layer.tar'))).digest('hex')
  writeFileSync(path.join(dir, 'config.json'), JSON.stringify({ config: { Entrypoint: ['/function'] }, rootfs: { type: 'layers', diff_ids: [`sha256:${diff}`] } }))
  writeFileSync(path.join(dir, 'manifest.json'), JSON.stringify([{ Config: 'config.json', RepoTags: ['site/hello:1'], Layers: ['layer.tar'] }]))
  execFileSync('tar', ['-C', dir, '-czf', file, 'config.json', 'layer.tar', 'manifest.json'])
  return file
}

// A layout of two compressed layers: the upper one has the function, and hides a file of the lower one.
function layout() {
  const dir = tempDir()
  const blobs = path.join(dir, 'blobs/sha256')
  mkdirSync(blobs, { recursive: true })
  const sha256 = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  const blob = (bytes) => {
    writeFileSync(path.join(blobs, sha256(bytes).slice(7)), bytes)
    return { digest: sha256(bytes), size: bytes.length }
  }
  const layer = (files) => {
    const from = tempDir()
    mkdirSync(path.join(from, 'tmp'))
    for (const [name, bytes] of Object.entries(files)) writeFileSync(path.join(from, name), bytes, { mode: 0o755 })
    const tar = execFileSync('tar', ['-C', from, '-c', '.'], { maxBuffer: 1 << 28 })
    return { diff: sha256(tar), blob: blob(gzipSync(tar)) }
  }
  const layers = [layer({ function: 'no program', hidden: 'x' }), layer({ function: readFileSync(path.join(build, 'functions/hello')), '.wh.hidden': '' })]
  const config = blob(Buffer.from(JSON.stringify({ config: { Entrypoint: ['/function'] }, rootfs: { type: 'layers', diff_ids: layers.map((l) => l.diff) } })))
  const manifest = blob(Buffer.from(JSON.stringify({ schemaVersion: 2, config, layers: layers.map((l) => l.blob) })))
  writeFileSync(path.join(dir, 'index.json'), JSON.stringify({ manifests: [{ ...manifest, annotations: { 'org.opencontainers.image.ref.name': '1.0' } }] }))
  return dir
}

describe('the options of driver-oci', { skip: hasNot('runc') }, () => {
  it('load_file fills the store before the first call', async () => {
    const runner = await startRunner({ driver: `driver: { use: oci, store: ${path.join(tempDir(), 's')}, state: ${path.join(tempDir(), 's')}, load_file: ${archive()} }` })
    await until('it says so', () => /load_file \S+: its images are there/.test(runner.log))
    const lb = await startLb({ addresses: [runner.address], functions: { hello: { image: 'site/hello:1', memory: 64 } } })
    const answer = await invoke(lb, fnId('hello'), '{"name":"c"}')
    assert.equal(answer.status, 200, answer.text)
    assert.match(answer.text, /Hello c/)
    for (const node of [lb, runner]) await node.stop()
  })

  it('an OCI layout of several layers is loaded by a name, and its upper layer wins', async () => {
    const own = path.join(tempDir(), 'store')
    const state = path.join(tempDir(), 's')
    const loaded = (...name) => spawnSync(path.join(build, 'fnd-oci'), ['load', '--store', own, ...name, layout()], { encoding: 'utf8' })
    assert.match(loaded().stderr, /the layout has no name for an image; name it with --name/)
    assert.match(loaded('--name', 'site/two').stdout, /^site\/two:latest sha256:[0-9a-f]{64}\n$/)
    const runner = await startRunner({ driver: `driver: { use: oci, store: ${own}, state: ${state} }`, runner: 'freeze_idle: never' })
    const lb = await startLb({ addresses: [runner.address], functions: { two: { image: 'site/two', memory: 64 } } })
    const answer = await invoke(lb, fnId('two'), '{"name":"d"}')
    assert.equal(answer.status, 200, answer.text)
    const files = shims(state).flatMap((pid) => readdirSync(`/proc/${pid}/root${state}/${folders(state)[0]}/fs/root`))
    assert.ok(files.includes('function') && !files.includes('hidden'), files.join())
    for (const node of [lb, runner]) await node.stop()
  })

  it('a start that somebody kills is nobody\'s failure: the call may go elsewhere', async () => {
    const slow = path.join(tempDir(), 'slow')
    const state = path.join(tempDir(), 's')
    writeFileSync(slow, '#!/bin/sh\ncase "$*" in *run*) exec sleep 60 ;; esac\nexec runc "$@"\n', { mode: 0o755 })
    images()
    const runner = await startRunner({ driver: `driver: { use: oci, store: ${store}, state: ${state}, runtime: ${slow} }` })
    const lb = await startLb({ addresses: [runner.address], functions: { hello: functions.hello }, lb: 'placement_timeout: 1s' })
    const isShim = (pid) => { try { return readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(path.join(build, 'fnd-oci-shim')) } catch { return false } }
    let answer
    invoke(lb, fnId('hello')).then((a) => { answer = a })
    await until('the call is answered', () => {
      for (const pid of shims(state).filter(isShim)) spawnSync('kill', ['-9', pid])
      return answer
    })
    assert.equal(answer.status, 503, answer.text)
    assert.equal(answer.headers['fn-outcome'], 'not-executed')
    for (const node of [lb, runner]) await node.stop()
  })

  // As docs/drivers.md has it, but for TLS: a registry of this machine.
  it('an image of a registry comes by way of skopeo', { skip: spawnSync('skopeo', ['--version']).status !== 0 && 'no skopeo on this machine' }, async (t) => {
    const registry = await Registry.start({ auth: 'basic', users: { fn: 'secret' } })
    const door = net.createServer((socket) => {
      const inside = net.connect(registry.socket)
      for (const [one, other] of [[socket, inside], [inside, socket]]) one.pipe(other).on('error', () => {})
    })
    t.after(() => { door.close(); registry.stop() })
    await new Promise((resolve) => door.listen(0, '127.0.0.1', resolve))
    const host = `127.0.0.1:${door.address().port}`
    const auth = path.join(tempDir(), 'auth.json')
    const own = path.join(tempDir(), 'store')
    registry.put('team/price', path.join(build, 'functions/hello'), '1.0')
    const pull = () => new Promise((resolve) => execFile('bash', ['-o', 'pipefail', '-c',
      `skopeo copy --quiet --insecure-policy --src-tls-verify=false --authfile ${auth} docker://${host}/team/price:1.0 docker-archive:/dev/stdout |
        ${build}/fnd-oci load --store ${own} --name ${host}/team/price:1.0 -`], (error, out, err) => resolve({ code: error?.code ?? 0, out, err })))
    writeFileSync(auth, JSON.stringify({ auths: { [host]: { auth: Buffer.from('fn:wrong').toString('base64') } } }))
    const refused = await pull()
    assert.notEqual(refused.code, 0)
    assert.match(refused.err, /authentication required|unauthorized/i)
    writeFileSync(auth, JSON.stringify({ auths: { [host]: { auth: Buffer.from('fn:secret').toString('base64') } } }))
    const pulled = await pull()
    assert.equal(pulled.code, 0, pulled.err)
    const runner = await startRunner({ driver: `driver: { use: oci, store: ${own}, state: ${path.join(tempDir(), 's')}, runtime: runc }` })
    const lb = await startLb({ addresses: [runner.address], functions: { price: { image: `${host}/team/price:1.0`, memory: 64 } } })
    const answer = await invoke(lb, fnId('price'), '{"name":"e"}')
    assert.equal(answer.status, 200, answer.text)
    assert.match(answer.text, /Hello e/)
    for (const node of [lb, runner]) await node.stop()
  })

  it('an unknown runtime ends the start with a sentence', async () => {
    const port = await freePort()
    const node = await Fnd.start('runner', port, `
node: pure-runner
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${await freePort()}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { driver: { use: oci, store: ${store}, runtime: no-such-runtime } }
`, { wait: false })
    assert.equal((await node.ended).code, 78, node.log)
    assert.match(node.log, /runtime, got \\?"no-such-runtime\\?"; expected runc, crun or another one in PATH/)
  })
})

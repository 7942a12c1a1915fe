// driver-docker on Podman's Docker API: the life of functions, the service's restart, what a dead runner left, a full
// disk.
import assert from 'node:assert/strict'
import { closeSync, mkdirSync, openSync, readFileSync, readdirSync, rmSync, writeSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { driver } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { until } from './lib/node.mjs'
import { Podman, noPodman as skip } from './lib/podman.mjs'

const functions = {
  hello: { image: 'fnd/hello:latest', memory: 64 },
  echo: { image: 'fnd/echo:latest', memory: 64 },
  misbehave: { image: 'fnd/misbehave:latest', memory: 64, timeout: 1 },
  later: { image: 'fnd/hello:latest', memory: 65 },
  syslog: { image: 'fnd/hello:latest', app: 'logged' },
}
const apps = { logged: 'syslog_url: tcp://198.51.100.1:514' }

describe('functions on Podman', { skip }, () => {
  const owner = `podman-${process.pid}`
  let podman
  let runner
  let lb
  before(async () => {
    podman = await Podman.start(['hello', 'echo', 'misbehave'])
    runner = await startRunner({ driver: driver(podman.socket), runner: `owner: ${owner}\nfreeze_idle: 2s\nexit_wait: 5s` })
    lb = await startLb({ addresses: [runner.address], functions, apps })
  })
  after(async () => {
    for (const node of [lb, runner]) await node?.stop()
    podman?.remove()
  })

  const interfaces = (who) => {
    const [id] = podman.containers(who)
    const lines = readFileSync(`/proc/${podman.docker('inspect', '-f', '{{.State.Pid}}', id)}/net/dev`, 'utf8').split('\n').slice(2)
    return lines.map((line) => line.split(':')[0].trim()).filter(Boolean).sort()
  }

  it('a call starts one on the network of functions, which serves the next call too, frozen in between', async () => {
    const first = await invoke(lb, fnId('hello'), '{"name":"a"}')
    assert.equal(first.status, 200, first.text)
    assert.deepEqual(interfaces(owner), ['eth0', 'lo'])
    assert.match(podman.docker('network', 'inspect', 'fnd'), /"io.fnd.bridge": "fnd0"/)
    assert.match(runner.log, /cannot keep containers apart \(it does not know the option com\.docker\.network\.bridge\.enable_icc\)/)
    await until('it is frozen', async () => [...await runner.metrics()].some(([k, v]) => k.startsWith('fn_container_paused_total') && v > 0))
    const next = await invoke(lb, fnId('hello'), '{"name":"b"}')
    assert.match(next.text, /Hello b/)
    assert.equal(podman.containers(owner).length, 1)
  })

  it('carries large bodies', async () => {
    const body = Buffer.alloc(3_000_000, 'x')
    assert.ok((await invoke(lb, fnId('echo'), body)).body.equals(body))
  })

  it('names what a function died of: a signal, memory, time', async () => {
    for (const [mode, status, text] of [['crash', 502, /exit/], ['oom 512', 502, /out of memory/], ['slow-head', 504, /timed out/i]]) {
      const answer = await invoke(lb, fnId('misbehave'), mode)
      assert.equal(answer.status, status, `${mode}: ${answer.text}`)
      assert.match(answer.text, text)
      assert.equal((await invoke(lb, fnId('misbehave'), 'ok')).status, 200)
    }
  })

  it('names the log driver that Podman has not', async () => {
    const answer = await invoke(lb, fnId('syslog'))
    assert.equal(answer.status, 400)
    assert.match(answer.text, /the container engine has no log driver syslog/)
  })

  it('serves hot calls while the service is away, and starts and watches containers when it is back', async () => {
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    podman.kill()
    assert.equal((await invoke(lb, fnId('hello'))).status, 200, 'the hot container needs no engine')
    await until('it is noticed', () => runner.log.includes('container engine: '))
    podman.serve()
    await until('it starts containers', async () => (await invoke(lb, fnId('later'))).status === 200)
    assert.match((await invoke(lb, fnId('misbehave'), 'oom 512')).text, /out of memory/)
  })

  it('keeps functions without a network off it', async () => {
    const options = { driver: driver(podman.socket), runner: `owner: ${owner}-none\nno_network: true` }
    const alone = await startRunner(options)
    const before = await startLb({ addresses: [alone.address], functions })
    assert.equal((await invoke(before, fnId('hello'))).status, 200)
    assert.deepEqual(interfaces(`${owner}-none`), ['lo'])
    for (const node of [before, alone]) assert.equal((await node.stop()).code, 0, node.log)
  })

  it('removes what a killed runner left, frozen or not, and its own at its end', async () => {
    const left = podman.containers(owner)
    assert.ok(left.length >= 2)
    await runner.kill()
    await runner.start()
    await until('they are gone', () => !podman.containers(owner).some((id) => left.includes(id)))
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    assert.doesNotMatch(runner.log, /made with another bridge/)
    assert.equal((await runner.stop()).code, 0, runner.log)
    assert.deepEqual(podman.containers(owner), [])
  })
})

// Bytes, and then folders, of which each needs a block of its own.
function fill(disk) {
  const file = openSync(path.join(disk, 'bytes'), 'w')
  untilFull(() => writeSync(file, Buffer.alloc(1 << 20)))
  closeSync(file)
  let folders = 0
  untilFull(() => mkdirSync(path.join(disk, `folder${folders++}`)))
}

function untilFull(add) {
  try {
    for (;;) add()
  } catch (error) {
    assert.equal(error.code, 'ENOSPC')
  }
}

describe('an engine whose disk is full', { skip }, () => {
  const functions = {
    hello: { image: 'fnd/hello:latest', memory: 64, idle_timeout: 120 },
    again: { image: 'fnd/hello:latest', memory: 64 },
    missing: { image: '127.0.0.1:1/missing:1', memory: 64 },
  }
  let podman
  let runner
  let lb
  const call = (name) => invoke(lb, fnId(name), '{"name":"a"}')

  before(async () => {
    podman = await Podman.start(['hello'], { diskMiB: 64 })
    runner = await startRunner({ driver: driver(podman.socket), runner: `owner: full-${process.pid}\nfreeze_idle: never` })
    lb = await startLb({ addresses: [runner.address], functions, lb: 'placement_timeout: 3s' })
  })
  after(async () => {
    for (const node of [lb, runner]) await node?.stop()
    podman?.remove()
  })

  it('F43 pulls nothing for a while, says so once, and goes on with what is there', async () => {
    assert.equal((await call('hello')).status, 200)
    assert.match((await call('missing')).text, /Failed to pull image/)
    fill(podman.disk)
    const lines = (part) => runner.log.split('\n').filter((line) => line.includes(part)).length
    const full = () => runner.metric('fn_plugin_driver_docker_disk_full')
    assert.equal((await call('again')).status, 503)
    await until('its disk is known to be full', async () => await full() === 1) // the call may have waited for less
    const missing = await Promise.all([call('missing'), call('missing')])
    assert.deepEqual(missing.map((answer) => answer.status), [503, 503])
    assert.ok(lines("image '127.0.0.1:1/missing:1' is not pulled: the engine's disk is full; tried again in") > 0)
    assert.equal(lines('pulling image 127.0.0.1:1/missing:1'), 1)
    assert.equal(lines("the container engine's disk is full; no image is pulled for 30 s: create:"), 1)
    assert.match((await call('hello')).text, /Hello a/)
    for (const name of readdirSync(podman.disk).filter((entry) => /^(bytes|folder)/.test(entry))) rmSync(path.join(podman.disk, name), { recursive: true })
    assert.match((await call('again')).text, /Hello a/)
    await until('images are pulled again', async () => await full() === 0, 40_000)
    assert.match((await call('missing')).text, /Failed to pull image/)
  })
})

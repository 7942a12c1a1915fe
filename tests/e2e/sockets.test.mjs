// What a function may do with the directory of its socket: nothing that its neighbours notice.
import assert from 'node:assert/strict'
import { closeSync, existsSync, openSync, readFileSync, readdirSync, statfsSync, writeSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { fnId, startCluster } from './lib/cluster.mjs'
import { docker, driver, noEngine } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { until } from './lib/node.mjs'

const TMPFS_MAGIC = 0x01021994
const notRoot = process.getuid() === 0 ? false : 'only root may mount'

const functions = { hello: {}, misbehave: { timeout: 60, idle_timeout: 1 } }

// Directories of containers below a runner's iofs path.
function socketDirs(runner) {
  const iofs = /iofs_path: (.*)/.exec(readFileSync(path.join(runner.dir, 'fn.yaml'), 'utf8'))[1]
  const instances = readdirSync(iofs).map((name) => path.join(iofs, name)).filter((dir) => existsSync(dir))
  return instances.flatMap((dir) => readdirSync(dir).filter((name) => name.startsWith('iofs')).map((name) => path.join(dir, name)))
}

describe('the directory of a socket', () => {
  it('is a tmpfs of one MiB and 64 files, gone with its container', { skip: notRoot }, async () => {
    const { lb, runners: [runner], stop } = await startCluster({ functions })
    const answer = await invoke(lb, fnId('misbehave'), 'fragments')
    assert.equal(answer.status, 200, answer.text)
    assert.ok(parseInt(answer.text) <= 256, `${answer.text} of 4 KiB each`)
    const dirs = socketDirs(runner)
    assert.equal(dirs.length, 1)
    assert.equal(statfsSync(dirs[0]).type, TMPFS_MAGIC)
    assert.equal(statfsSync(dirs[0]).files, 64)
    await until('the directory is gone', () => socketDirs(runner).length === 0)
    await stop()
    assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(path.dirname(dirs[0])), 'no mount is left')
  })

  it('without a tmpfs: 30 000 fragments hold up nobody when they are removed', async () => {
    const { lb, runners: [runner], stop } = await startCluster({ functions, runnerOptions: { runner: 'iofs_tmpfs: false\niofs_size: 1GiB' } })
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    assert.equal((await invoke(lb, fnId('misbehave'), 'fragments 30000')).text, '30000 fragments\n')
    let worst = 0
    await until('its container and its directory are gone', async () => {
      const begin = Date.now()
      const answer = await invoke(lb, fnId('hello'))
      assert.equal(answer.status, 200, answer.text)
      worst = Math.max(worst, Date.now() - begin)
      return socketDirs(runner).length === 1
    }, 60_000)
    assert.ok(worst < 1500, `a neighbour waited ${worst} ms`)
    assert.ok(await runner.metric('fn_loop_longest_turn_seconds') < 1)
    await stop()
  })

  it('without a tmpfs: a function that fills it is ended', async () => {
    const { lb, runners: [runner], stop } = await startCluster({ functions, runnerOptions: { runner: 'iofs_tmpfs: false' } })
    const answer = await invoke(lb, fnId('misbehave'), 'fragments 20000')
    assert.ok([200, 502].includes(answer.status), answer.text)
    await until('it is told', () => /container is ended.*socket directory is full: more than 1048576 bytes or 64 files/.test(runner.log))
    assert.equal((await invoke(lb, fnId('misbehave'), 'ok')).status, 200, 'another container serves it')
    await stop()
  })

  it('holds no programs: what a function writes there cannot be run, with a tmpfs or without', { skip: notRoot }, async () => {
    for (const runner of ['', 'iofs_tmpfs: false']) {
      const { lb, stop } = await startCluster({ functions, runnerOptions: { runner } })
      assert.equal((await invoke(lb, fnId('misbehave'), 'run-beside')).text, 'refused: Permission denied\n', runner)
      await stop()
    }
  })

  it('is a tmpfs in containers of the engine too', { skip: noEngine || notRoot }, async () => {
    const owner = `e2e-sockets-${process.pid}`
    const { lb, runners: [runner], stop } = await startCluster({ functions: { hello: { image: 'fnd/hello:latest', memory: 64 } },
      runnerOptions: { driver: driver(), runner: `owner: ${owner}` } })
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    assert.equal(statfsSync(socketDirs(runner)[0]).type, TMPFS_MAGIC)
    const pid = docker('inspect', '-f', '{{.State.Pid}}', docker('ps', '-q', '--filter', `label=io.fnd.owner=${owner}`))
    assert.match(readFileSync(`/proc/${pid}/mountinfo`, 'utf8'), / \/tmp\/iofs \S*noexec/)
    const fd = openSync(`/proc/${pid}/root/tmp/iofs/full`, 'w')
    const piece = Buffer.alloc(65536)
    assert.throws(() => { for (let i = 0; i < 64; i++) writeSync(fd, piece) }, { code: 'ENOSPC' })
    closeSync(fd)
    await stop()
  })
})

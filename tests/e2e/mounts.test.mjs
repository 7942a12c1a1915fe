// The mount that samples/driver-site, a driver that wraps another one, gives the functions of one app.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { fnId, startCluster } from './lib/cluster.mjs'
import { docker, noEngine as skip, socketPath } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { root, tempDir, until } from './lib/node.mjs'

const owner = `e2e-mounts-${process.pid}`
const image = 'fnd/hello:latest'
const dir = tempDir()
const build = (name, source) => {
  const file = path.join(dir, `${name}.so`)
  execFileSync('cc', ['-std=c11', '-shared', '-fPIC', '-fvisibility=hidden', '-O2', '-I', path.join(root, 'include'), path.join(root, 'samples', name, source), '-o', file])
  chmodSync(file, 0o755)
  return file
}
// What the engine says of the containers of a function.
const containers = (fn) => docker('ps', '-aq', '--filter', `label=io.fnd.owner=${owner}`, '--filter', `label=io.fnd.fn_id=${fnId(fn)}`)
  .split('\n').filter(Boolean).map((id) => JSON.parse(docker('inspect', id))[0])

describe('a directory for the functions of one app', { skip }, () => {
  const data = tempDir()
  const gold = '01APPGOLD00000000000000000'
  const nodes = (allow) => startCluster({
    functions: { gold: { image, memory: 64, app: 'gold' }, plain: { image, memory: 64 } },
    runnerOptions: {
      driver: `driver:\n  - { use: docker, name: engine, docker_host: "unix://${socketPath}"${allow} }\n  - { use: site, file: ${build('driver-site', 'driver.c')}, inner: engine, directory: ${data}, app: ${gold} }`,
      runner: `owner: ${owner}`,
    },
    lbOptions: { apps: { gold: `id: ${gold}` } },
  })
  const mounts = (fn) => containers(fn).map((c) => c.Mounts.filter((m) => m.Destination === '/site').map((m) => [m.Type, m.Source, m.RW]))

  it('is mounted for reading where the operator allows it', async () => {
    const cluster = await nodes(`, allow_mounts: ["${data}:ro"]`)
    try {
      for (const fn of ['gold', 'plain']) assert.equal((await invoke(cluster.lb, fnId(fn))).status, 200)
      assert.deepEqual(mounts('gold'), [[['bind', data, false]]])
      assert.deepEqual(mounts('plain'), [[]])
    } finally {
      await cluster.stop()
    }
  })

  it('is refused with a sentence where nobody allowed it', async () => {
    const cluster = await nodes('')
    try {
      const answer = await invoke(cluster.lb, fnId('gold'))
      assert.equal(answer.status, 500, answer.text)
      assert.doesNotMatch(answer.text, new RegExp(data), 'callers learn no paths')
      assert.deepEqual(mounts('gold'), [])
      await until('the reason in the log', () => /DOC1003 fn_task\.mounts, got HostConfig\.Mounts .*expected what allow_mounts names/.test(cluster.runners[0].log))
      assert.equal((await invoke(cluster.lb, fnId('plain'))).status, 200)
    } finally {
      await cluster.stop()
    }
  })
})

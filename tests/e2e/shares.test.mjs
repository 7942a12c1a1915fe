// samples/override-shares and samples/driver-shares, after Go Fn's example of an overrider and a driver.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { fnId, startCluster } from './lib/cluster.mjs'
import { docker, noEngine as skip, socketPath } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { tempDir } from './lib/node.mjs'
import { buildSample } from './lib/samples.mjs'

const owner = `e2e-shares-${process.pid}`
const image = 'fnd/hello:latest'

describe('CPU shares for the functions of one app', { skip }, () => {
  const dir = tempDir()
  let cluster
  const shares = (fn) => docker('ps', '-aq', '--filter', `label=io.fnd.owner=${owner}`, '--filter', `label=io.fnd.fn_id=${fnId(fn)}`)
    .split('\n').filter(Boolean).map((id) => JSON.parse(docker('inspect', id))[0].HostConfig.CpuShares)

  before(async () => {
    cluster = await startCluster({
      functions: { gold: { image, memory: 64, app: 'gold' }, plain: { image, memory: 64 } },
      runnerOptions: {
        driver: `driver:\n  - { use: docker, name: engine, docker_host: "unix://${socketPath}" }\n  - { use: shares, file: ${buildSample(dir, 'driver-shares')}, inner: engine }`,
        runner: `owner: ${owner}`,
      },
      lbOptions: { plugins: `overriders:\n  - { use: shares, file: ${buildSample(dir, 'override-shares')}, app: gold, shares: 512 }` },
    })
  })
  after(() => cluster?.stop())

  it('gives them to the containers of that app alone', async () => {
    for (const fn of ['gold', 'plain']) {
      const answer = await invoke(cluster.lb, fnId(fn))
      assert.equal(answer.status, 200, answer.text)
    }
    assert.deepEqual(shares('gold'), [512])
    assert.deepEqual(shares('plain'), [0])
  })
})

// Torture of a node pool manager: memory fails at each place of what it does for a load balancer, for its operator and
// for a first call. It goes on, loses no runner, and the pool follows.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Elastic } from './lib/elastic.mjs'
import { fnId } from './lib/cluster.mjs'
import { invoke, request } from './lib/http.mjs'
import { until } from './lib/node.mjs'
import { Torture, endsWell } from './lib/torture.mjs'

const AGAIN_MS = 15_000
const EMPTY_MS = 30_000
const LOOKS = 3

describe('torture of a node pool manager', () => {
  const torture = new Torture()
  let e
  before(async () => {
    e = await Elastic.start({ functions: { echo: { memory: 64 } }, env: torture.env, lbEnv: {} })
    await until('a first call', called, AGAIN_MS)
  })
  after(async () => {
    torture.close()
    await e?.stop()
    endsWell(e?.npm)
  })

  const called = async () => (await invoke(e.lbs[0], fnId('echo'), 'x')).status === 200
  const page = () => request(e.npm.url('/metrics'), { keepAlive: false }).catch(() => null)

  async function check(what) {
    assert.equal(e.npm.exit, null, `${what}: ended\n${e.npm.log.slice(-2000)}`)
    await until(`${what}: calls are answered\n${e.npm.log.slice(-1000)}`, called, AGAIN_MS)
    await until(`${what}: the list and the processes agree, one to four\n${e.npm.log.slice(-1000)}`, async () => {
      const { runners } = JSON.parse((await e.cli('runners', 'list')).stdout)
      return runners.length >= 1 && runners.length <= 4 && e.pids().length === runners.length
    }, AGAIN_MS)
  }

  for (const row of [['malloc', 'ENOMEM', 1, 61], ['spawn', 'EAGAIN', 2, 1]]) {
    it(`while a first call waits for a runner: ${row[0]}`, async () => {
      const empty = () => until('the pool is empty', async () => JSON.parse((await e.cli('runners', 'list')).stdout).runners.length === 0, EMPTY_MS)
      await empty()
      const failed = await torture.each(row, () => called(), async (what) => {
        await check(what)
        await empty()
      })
      assert.ok(failed > 0)
    })
  }

  it('while its pool serves', async () => {
    // Meanwhile the load balancer reports, each 200 ms.
    const failed = await torture.each(['malloc', 'ENOMEM', 40, 13], async () => {
      for (let i = 0; i < LOOKS; i++) {
        await e.cli('runners', 'list').catch(() => {})
        await page()
      }
    }, check)
    assert.ok(failed > 0)
  })
})

// A change at the API node is used by load balancers at once: with a cache of an hour, what they hear
// of it is all that they go by.
import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { startLb, startRunner } from './lib/cluster.mjs'
import { invoke, request } from './lib/http.mjs'
import { Fnd, freePort, tempDir, until } from './lib/node.mjs'

const HEARD_MS = 1000 // what is promised is 50 ms; a busy machine of tests gets more

async function startApi(store, port) {
  port ??= await freePort()
  return Fnd.start('api', port, `
node: api
http: { listen: "127.0.0.1:${port}" }
store: { url: "sqlite3://${store}" }
`)
}

describe('changes at the API node', () => {
  const store = path.join(tempDir(), 'fn.db')
  let api, runner, lbs, app, fn

  const ask = async (method, at, body) => {
    const answer = await request(api.url(at), { method, body: body && JSON.stringify(body) })
    return { status: answer.status, ...(answer.text ? JSON.parse(answer.text) : {}) }
  }
  // What the function sees of its configuration, or the status.
  const value = async (lb, id) => {
    const answer = await invoke(lb, id ?? fn.id, '', { 'Echo-Env': 'K' })
    return answer.status === 200 ? answer.text.trim().split(' ')[1] : answer.status
  }
  const everywhere = (what, expected, of = value) =>
    Promise.all(lbs.map(async (lb) => {
      let last
      await until(what, async () => (last = await of(lb)) === expected, HEARD_MS).catch((e) => assert.fail(`${e.message}: ${last}\n${lb.log}`))
    }))

  before(async () => {
    [api, runner] = await Promise.all([startApi(store), startRunner()])
    app = await ask('POST', '/v2/apps', { name: 'shop', config: { K: 'one' } })
    fn = await ask('POST', '/v2/fns', { app_id: app.id, name: 'echo', image: 'fnd/echo', memory: 64 })
    const lb = () => startLb({ addresses: [runner.address], lb: `api_url: "${api.url('')}"\ncache_ttl: 1h` })
    lbs = await Promise.all([lb(), lb()])
    await everywhere('the first value', 'one')
  })

  after(() => Promise.all([...(lbs ?? []), runner, api].map((node) => node?.stop())))

  test('of a function, and of its app', async () => {
    await ask('PUT', `/v2/fns/${fn.id}`, { config: { K: 'two' } })
    await everywhere('the function\'s', 'two')
    await ask('PUT', `/v2/fns/${fn.id}`, { config: { K: '' } })
    await everywhere('the app\'s again', 'one')
    await ask('PUT', `/v2/apps/${app.id}`, { config: { K: 'three' } })
    await everywhere('the app\'s new one', 'three')
  })

  test('triggers that come, move and go', async () => {
    const call = (source) => async (lb) => (await request(lb.url(`/t/shop${source}`))).status
    await everywhere('not there yet', 404, call('/a'))
    const trigger = await ask('POST', '/v2/triggers', { app_id: app.id, fn_id: fn.id, name: 't', type: 'http', source: '/a' })
    await everywhere('there', 200, call('/a'))
    await ask('PUT', `/v2/triggers/${trigger.id}`, { source: '/b' })
    await everywhere('moved away', 404, call('/a'))
    await everywhere('moved to', 200, call('/b'))
    await ask('DELETE', `/v2/triggers/${trigger.id}`)
    await everywhere('gone', 404, call('/b'))
  })

  test('a function that goes with its app', async () => {
    const gone = await ask('POST', '/v2/apps', { name: 'gone', config: { K: 'x' } })
    const its = await ask('POST', '/v2/fns', { app_id: gone.id, name: 'f', image: 'fnd/echo', memory: 64 })
    await everywhere('there', 'x', (lb) => value(lb, its.id))
    await ask('DELETE', `/v2/apps/${gone.id}`)
    await everywhere('gone', 404, (lb) => value(lb, its.id))
  })

  test('a function that did not change is not asked for again', async () => {
    const others = await ask('POST', '/v2/apps', { name: 'others' })
    await everywhere('the same', 'three')
    const asked = async () => [...await api.metrics()].filter(([name]) => /^fn_api_request_count{.*"\/v2\/fns\/:fn_id"/.test(name) && /"GET"/.test(name)).reduce((n, [, v]) => n + v, 0)
    const before = await asked()
    assert.ok(before > 0)
    for (let i = 0; i < 20; i++) await ask('PUT', `/v2/apps/${others.id}`, { config: { [`X${i}`]: '1' } })
    await everywhere('the same', 'three')
    assert.equal(await asked(), before)
    await ask('PUT', `/v2/fns/${fn.id}`, { config: { Y: '1' } })
    await until('it is asked for', async () => { await everywhere('the same', 'three'); return await asked() > before + 1 })
  })

  test('what changed while the API node was away is heard when it is back', async () => {
    const { port } = api
    await api.kill()
    await everywhere('the old one serves', 'three')
    api = await startApi(store, port)
    await ask('PUT', `/v2/fns/${fn.id}`, { config: { K: 'four' } })
    await Promise.all(lbs.map((lb) => until('the new one', async () => await value(lb) === 'four', 10_000)))
  })

  test('who asks wrongly gets everything, who waits gets nothing new after a while', async () => {
    const first = await ask('GET', '/v2/runner/changes')
    assert.equal(first.all, true)
    const same = await ask('GET', `/v2/runner/changes?after=${first.cursor}&wait_ms=50`)
    assert.deepEqual(same, { status: 200, cursor: first.cursor, ids: [] })
    for (const after of ['x', `${first.cursor}9`, first.cursor.replace(/-.*/, '-'), '%00']) {
      assert.equal((await ask('GET', `/v2/runner/changes?after=${after}&wait_ms=20000`)).all, true)
    }
    for (let i = 0; i < 1030; i++) await ask('PUT', `/v2/apps/${app.id}`, { config: { N: String(i) } })
    assert.equal((await ask('GET', `/v2/runner/changes?after=${first.cursor}`)).all, true)
  })

  test('an API node that ends lets go of those who wait', async () => {
    const { cursor } = await ask('GET', '/v2/runner/changes')
    const waiting = ask('GET', `/v2/runner/changes?after=${cursor}&wait_ms=25000`)
    const began = Date.now()
    api.signal('SIGTERM')
    assert.equal((await waiting).cursor, cursor)
    await api.ended
    assert.ok(Date.now() - began < 10_000)
  })
})

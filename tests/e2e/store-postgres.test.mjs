// PostgreSQL as the store of API nodes: several nodes with one database, and what happens when that
// is restarted, locked, of another version, or not there.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startLb, startRunner } from './lib/cluster.mjs'
import { invoke, request } from './lib/http.mjs'
import { Fnd, freePort, until } from './lib/node.mjs'
import { noPostgres, Postgres } from './lib/postgres.mjs'

async function ask(node, method, path, body) {
  const answer = await request(node.url(path), { method, body: body && JSON.stringify(body) })
  return { status: answer.status, ...(answer.text ? JSON.parse(answer.text) : {}) }
}

async function startApi(name, url, options = {}) {
  const port = await freePort()
  return Fnd.start(name, port, `node: api\nhttp: { listen: "127.0.0.1:${port}" }\nstore: { url: "${url}" }\n`, options)
}

describe('API nodes with one PostgreSQL database', { skip: noPostgres }, () => {
  let pg, a, b

  before(async () => {
    pg = await Postgres.start()
    ;[a, b] = await Promise.all([startApi('api-a', pg.url), startApi('api-b', pg.url)]) // both make the tables
  })

  after(async () => {
    await Promise.all([a?.stop(), b?.stop()])
    await pg?.crash()
  })

  test('what one node changed, the other one has', async () => {
    const app = await ask(a, 'POST', '/v2/apps', { name: 'shared', config: { K: 'ä"\\' } })
    assert.equal(app.status, 200)
    const fn = await ask(b, 'POST', '/v2/fns', { app_id: app.id, name: 'f', image: 'fnd/hello', memory: 128 })
    assert.equal(fn.status, 200)
    const trigger = await ask(a, 'POST', '/v2/triggers', { app_id: app.id, fn_id: fn.id, name: 't', type: 'http', source: '/t' })
    assert.equal(trigger.status, 200)
    assert.equal((await ask(b, 'GET', `/v2/apps/${app.id}`)).config.K, 'ä"\\')
    assert.equal((await ask(a, 'GET', `/v2/fns/${fn.id}`)).memory, 128)
    assert.equal((await ask(b, 'GET', `/v2/triggers?app_id=${app.id}`)).items.length, 1)
    assert.equal((await ask(b, 'GET', `/v2/runner/apps/${app.id}/triggerBySource/http//t`)).id, trigger.id)
    assert.equal((await ask(b, 'POST', '/v2/apps', { name: 'shared' })).status, 409)
    assert.equal((await ask(b, 'DELETE', `/v2/apps/${app.id}`)).status, 204)
    assert.equal((await ask(a, 'GET', `/v2/fns/${fn.id}`)).status, 404)
    assert.equal(pg.sql('SELECT count(*) FROM triggers'), '0')
  })

  test('two nodes that change one app at once lose no change', async () => {
    const KEYS = 100
    const app = await ask(a, 'POST', '/v2/apps', { name: 'busy' })
    const put = async (node, key) => {
      const { status } = await ask(node, 'PUT', `/v2/apps/${app.id}`, { config: { [key]: '1' } })
      assert.equal(status, 200)
    }
    await Promise.all(Array.from({ length: KEYS }, (_, i) => put(i % 2 ? a : b, `K${i}`)))
    assert.equal(Object.keys((await ask(b, 'GET', `/v2/apps/${app.id}`)).config).length, KEYS)
  })

  test('of two nodes that make the same one succeeds', async () => {
    const made = await Promise.all(Array.from({ length: 40 }, (_, i) => ask(i % 2 ? a : b, 'POST', '/v2/apps', { name: `same${i >> 1}` })))
    assert.deepEqual(made.map((m) => m.status).sort(), [...Array(20).fill(200), ...Array(20).fill(409)])
  })

  for (const way of ['crash', 'stop']) test(`a restart after a ${way} is told, and every change that was told as done is there`, async () => {
    const done = []
    let stop = false
    const client = async (node, name) => {
      for (let i = 0; !stop; i++) {
        const { status, message } = await ask(node, 'POST', '/v2/apps', { name: `${way}-${name}${i}` })
        if (status === 200) done.push(`${way}-${name}${i}`)
        else assert.match(`${status} ${message}`, /^503 API1103 the store /)
      }
    }
    const clients = [client(a, 'ra'), client(b, 'rb'), client(a, 'rc')]
    await until('some changes are done', () => done.length > 100)
    await pg[way]()
    const before = done.length
    await until('the store is missed', async () => (await ask(a, 'GET', '/v2/apps')).status === 503)
    await pg.run()
    await until('changes are done again', () => done.length > before + 100)
    stop = true
    await Promise.all(clients)
    const there = new Set(pg.sql(`SELECT name FROM apps WHERE name LIKE '${way}-%'`).split('\n'))
    assert.deepEqual(done.filter((name) => !there.has(name)), [])
  })

  test('who holds the database is waited for, and for too long is told', async () => {
    const other = pg.session()
    await other.say('BEGIN; LOCK TABLE schema_migrations IN EXCLUSIVE MODE')
    const waits = ask(a, 'POST', '/v2/apps', { name: 'waits' })
    await until('a node waits', () => pg.sql('SELECT count(*) FROM pg_locks WHERE NOT granted') === '1')
    await other.say('ROLLBACK')
    assert.equal((await waits).status, 200)
    await other.say('BEGIN; LOCK TABLE schema_migrations IN EXCLUSIVE MODE')
    const refused = await ask(b, 'POST', '/v2/apps', { name: 'refused' })
    assert.deepEqual(refused, { status: 503, message: 'API1103 the store is locked by another process' })
    assert.equal((await ask(b, 'GET', '/v2/apps?name=refused')).items.length, 0)
    await other.say('ROLLBACK')
    other.end()
    assert.equal((await ask(b, 'POST', '/v2/apps', { name: 'refused' })).status, 200)
  })

  test('what another program changes at once is not overwritten', async () => {
    const app = await ask(a, 'POST', '/v2/apps', { name: 'theirs', config: { K: 'old' } })
    const other = pg.session()
    await other.say(`BEGIN; UPDATE apps SET config = '{"K":"theirs"}' WHERE id = '${app.id}'`)
    const ours = ask(a, 'PUT', `/v2/apps/${app.id}`, { config: { OURS: '1' } })
    await until('the node waits for the row', () => pg.sql('SELECT count(*) FROM pg_locks WHERE NOT granted') === '1')
    await other.say('COMMIT')
    other.end()
    assert.deepEqual(await ours, { status: 503, message: 'API1103 another process changed the same in the store' })
    assert.deepEqual((await ask(b, 'PUT', `/v2/apps/${app.id}`, { config: { OURS: '1' } })).config, { K: 'theirs', OURS: '1' })
  })

  // The load balancers' cache is an hour: what they hear of a change is all that they go by.
  test('a change through one node is used at once by the load balancer of the other one, also after a restart', async (t) => {
    const HEARD_MS = 2000 // a busy machine of tests gets more than the 50 ms that are promised
    const app = await ask(a, 'POST', '/v2/apps', { name: 'heard', config: { K: 'one' } })
    const fn = await ask(b, 'POST', '/v2/fns', { app_id: app.id, name: 'echo', image: 'fnd/echo', memory: 64 })
    const runner = await startRunner()
    const lb = await startLb({ addresses: [runner.address], lb: `api_url: "${a.url('')}"\ncache_ttl: 1h` })
    t.after(() => Promise.all([lb.stop(), runner.stop()]))
    const used = (value, ms) => until(`${value} is used`, async () =>
      (await invoke(lb, fn.id, '', { 'Echo-Env': 'K' })).text.trim().split(' ')[1] === value, ms)
    const put = async (node, value) => (await ask(node, 'PUT', `/v2/fns/${fn.id}`, { config: { K: value } })).status
    await used('one')
    for (const [node, value] of [[b, 'two'], [a, 'three'], [b, 'four']]) {
      assert.equal(await put(node, value), 200)
      await used(value, HEARD_MS)
    }
    await pg.crash()
    await until('it is told', () => /changes by other API nodes are not heard of/.test(a.log))
    await pg.run()
    await until('a change is done', async () => await put(b, 'five') === 200) // perhaps before A listens again
    await used('five', 10_000)
    assert.equal(await put(b, 'six'), 200)
    await used('six', HEARD_MS)
  })

  test('who makes a change has it told once', async () => {
    const { cursor } = await ask(a, 'GET', '/v2/runner/changes')
    const app = await ask(a, 'POST', '/v2/apps', { name: 'once' })
    const other = await ask(b, 'POST', '/v2/apps', { name: 'once-more' })
    let told
    await until('both are told', async () => {
      told = (await ask(a, 'GET', `/v2/runner/changes?after=${cursor}`)).ids
      return told.includes(other.id)
    })
    assert.deepEqual(told, [app.id, other.id])
  })

  test('what the database refuses of one read, other reads do not notice', async () => {
    const app = await ask(a, 'POST', '/v2/apps', { name: 'read' })
    const good = () => Array.from({ length: 50 }, () => ask(a, 'GET', `/v2/apps/${app.id}`))
    for (const bad of ['/v2/apps/%ff', '/v2/apps?name=%ff', '/v2/apps?cursor=_w']) {
      const all = await Promise.all([...good(), ask(a, 'GET', bad), ...good()])
      assert.equal(all.splice(50, 1)[0].status, 400, bad)
      assert.deepEqual(all.filter(({ status }) => status !== 200), [], bad)
    }
    const other = pg.session()
    await other.say('BEGIN; LOCK TABLE triggers;')
    const all = await Promise.all([...good(), ask(a, 'GET', `/v2/triggers?app_id=${app.id}`), ...good()])
    await other.end()
    assert.equal(all.splice(50, 1)[0].status, 503)
    assert.deepEqual(all.filter(({ status }) => status !== 200), [])
  })

  test('a text that the columns do not hold is the client\'s mistake', async () => {
    const app = await ask(a, 'POST', '/v2/apps', { name: 'long' })
    const fn = await ask(a, 'POST', '/v2/fns', { app_id: app.id, name: 'f', image: `x/${'y'.repeat(300)}` })
    assert.equal(fn.status, 400)
    assert.match(fn.message, /longer than the store keeps/)
  })

  test('passwords are in no log and on no page', async () => {
    assert.match(a.log, /store=\S*127\.0\.0\.1/)
    assert.doesNotMatch(a.log + b.log, /geheim/)
  })

  test('a newer database, and one that is not there, are refused with a sentence', async () => {
    pg.sql('UPDATE schema_migrations SET version = 27')
    const newer = await startApi('newer', pg.url, { wait: false })
    assert.notEqual((await newer.ended).code, 0)
    assert.match(newer.log, /API1104 store \S+ has schema 27, which is newer than this program/)
    pg.sql('UPDATE schema_migrations SET version = 26')
    const gone = await startApi('gone', pg.url.replace('/postgres?', '/nothing?'), { wait: false })
    assert.notEqual((await gone.ended).code, 0)
    assert.match(gone.log, /API1105 store: the database cannot be used: .*nothing.* does not exist/)
    assert.doesNotMatch(newer.log + gone.log, /geheim/)
  })
})

// Torture of an API node: memory fails at each place of changes. The node goes on; each request has an answer, or its
// connection is cut; what is told as done is done, whole, and nothing is left that cannot be removed.
import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { request } from '../e2e/lib/http.mjs'
import { Fnd, freePort, tempDir } from '../e2e/lib/node.mjs'
import { Torture, endsWell } from '../e2e/lib/torture.mjs'

const ANSWER_MS = 10_000
const APP = { name: 'torn', config: { A: '1' }, annotations: { 'a/b': [1, 'two'] } }

describe('torture of an API node', () => {
  const torture = new Torture()
  let node
  const ask = async (method, at, body) => {
    const answer = await request(node.url(`/v2/${at}`), { method, body: body && JSON.stringify(body), headers: { 'content-type': 'application/json' }, timeoutMs: ANSWER_MS })
      .catch((e) => ({ status: 0, text: e.message }))
    assert.doesNotMatch(answer.text, /no answer within/, `${method} ${at}: ${node.log.slice(-1000)}`)
    return { status: answer.status, json: answer.status === 200 ? JSON.parse(answer.text) : null, text: answer.text }
  }

  before(async () => {
    const port = await freePort()
    node = await Fnd.start('api', port, `node: api
http: { listen: "127.0.0.1:${port}" }
store: { url: "sqlite3://${path.join(tempDir(), 'fn.db')}" }
log: { level: error }`, { env: torture.env })
    const told = await round()
    assert.deepEqual(told.filter(([, answer]) => answer.status < 200 || answer.status > 204), [])
    assert.equal(told.length, 6)
    await check('before', told)
  })
  after(async () => {
    torture.close()
    await node?.stop()
    endsWell(node)
  })

  // -> [what was asked, answer], as far as the one before gave what is needed.
  async function round() {
    const told = []
    const tell = async (name, ...args) => told[told.push([name, await ask(...args)]) - 1][1]
    const app = await tell('create app', 'POST', 'apps', APP)
    if (app.status !== 200) return told
    const fn = await tell('create fn', 'POST', 'fns', { name: 'f', app_id: app.json.id, image: 'echo', config: { B: '2' } })
    if (fn.status === 200) await tell('create trigger', 'POST', 'triggers', { name: 't', app_id: app.json.id, fn_id: fn.json.id, type: 'http', source: '/t' })
    await tell('update app', 'PUT', `apps/${app.json.id}`, { config: { A: '3' } })
    await tell('list', 'GET', 'apps')
    if (fn.status === 200) await tell('delete fn', 'DELETE', `fns/${fn.json.id}`)
    // The database's files are open; those of the page's figures are opened for it.
    await request(node.url('/metrics'), { timeoutMs: ANSWER_MS }).catch(() => null)
    return told
  }

  const listed = async (at) => {
    const answer = await ask('GET', at)
    assert.equal(answer.status, 200, `${at}: ${answer.text}`)
    return answer.json.items
  }

  async function check(what, told) {
    assert.equal(node.exit, null, `${what}: ended\n${node.log.slice(-2000)}`)
    const done = Object.fromEntries(told.map(([name, answer]) => [name, answer.status >= 200 && answer.status < 300]))
    const apps = await listed('apps')
    if (done['create app']) assert.equal(apps.length, 1, `${what}: an app that was made is not there`)
    for (const { id } of apps) {
      const app = (await ask('GET', `apps/${id}`)).json
      assert.deepEqual(app.annotations, APP.annotations, `${what}: half an app`)
      assert.ok(app.config.A === '3' || (app.config.A === '1' && !done['update app']), `${what}: ${JSON.stringify(app)}`)
      const fns = await listed(`fns?app_id=${id}`)
      const triggers = await listed(`triggers?app_id=${id}`)
      if (done['create fn'] && !told.some(([name]) => name === 'delete fn')) assert.equal(fns.length, 1, what)
      if (done['delete fn']) assert.deepEqual([fns, triggers], [[], []], `${what}: a function that was removed is there`)
      if (done['create trigger'] && fns.length > 0) assert.equal(triggers.length, 1, `${what}: half a function`)
      assert.equal((await ask('DELETE', `apps/${id}`)).status, 204, what)
    }
    assert.deepEqual(await listed('apps'), [], what)
  }

  for (const row of [['malloc', 'ENOMEM', 50, 1], ['read', 'EINTR', 20, 1], ['recv', 'short', 20, 1], ['sendmsg', 'short', 20, 1],
    ['fsync', 'EIO', 20, 1], ['pwrite', 'EIO', 40, 1], ['pwrite', 'ENOSPC', 40, 1], ['pwrite', 'short', 40, 1], ['open', 'EMFILE', 20, 1]]) {
    it(`${row[0]}: ${row[1]}`, async () => {
      const failed = await torture.each(row, round, check)
      assert.ok(failed > 0, 'none of them failed')
    })
  }
})

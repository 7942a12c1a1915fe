// A token that is bound to apps, over every path of docs/openapi.json: what is of other apps is answered, word for
// word, as what is not there, and none of it appears anywhere. A path that is added later is asked here by itself.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { request } from './lib/http.mjs'
import { Fnd, freePort, root, tempDir } from './lib/node.mjs'

const doc = JSON.parse(readFileSync(path.join(root, 'docs/openapi.json'), 'utf8'))
const METHODS = ['get', 'post', 'put', 'delete']
const hash = (token) => createHash('sha256').update(token).digest('hex')
const NONE = { app_id: 'none', fn_id: 'none', trigger_id: 'none', call_id: 'none', trigger_type: 'http', trigger_source: '/s' }

describe('a token that is bound to apps', () => {
  let node
  let hidden
  let own

  async function ask(token, method, target, body) {
    const { status, text } = await request(node.url(target), { method: method.toUpperCase(), headers: { Authorization: `Bearer ${token}` }, body: body && JSON.stringify(body) })
    return { status, text }
  }
  const made = async (target, body) => {
    const answer = await ask('of-ops', 'post', target, body)
    assert.equal(answer.status, 200, answer.text)
    return JSON.parse(answer.text).id
  }
  async function family(name) {
    const app_id = await made('/v2/apps', { name })
    const fn_id = await made('/v2/fns', { app_id, name: `${name}-fn`, image: 'i' })
    const trigger_id = await made('/v2/triggers', { app_id, fn_id, name: `${name}-trigger`, type: 'http', source: '/s' })
    return { ...NONE, app_id, fn_id, trigger_id }
  }

  before(async () => {
    const port = await freePort()
    node = await Fnd.start('api', port, `
node: api
http: { listen: "127.0.0.1:${port}" }
store: { url: "sqlite3://${path.join(tempDir(), 'fn.db')}" }
api:
  tokens: ["ops admin ${hash('of-ops')}", "team admin ${hash('of-team')} shop shop-*"]
  read_without_token: false
`)
    hidden = await family('bank')
    own = await family('shop')
  })
  after(() => node?.stop())

  const filled = (pattern, ids) => pattern.replace(/{(\w+)}/g, (_, key) => ids[key])
  // With a query and a body that name everything that there may be to name.
  const asked = (method, pattern, ids) => ask('of-team', method,
    `${filled(pattern, ids)}?app_id=${ids.app_id}&fn_id=${ids.fn_id}&trigger_id=${ids.trigger_id}`,
    ['post', 'put'].includes(method) ? { app_id: ids.app_id, fn_id: ids.fn_id, name: 'x', image: 'i', type: 'http', source: '/x' } : undefined)

  for (const [pattern, item] of Object.entries(doc.paths)) {
    for (const method of METHODS.filter((m) => item[m])) {
      test(`${method} ${pattern}`, async () => {
        const said = await asked(method, pattern, hidden)
        assert.deepEqual(said, await asked(method, pattern, NONE))
        for (const secret of ['bank', hidden.app_id, hidden.fn_id, hidden.trigger_id]) {
          assert.ok(!said.text.includes(secret), `${secret} in ${said.text}`)
        }
        if (pattern.includes('{') && !item[method].deprecated) assert.equal(said.status, 404, said.text)
      })
    }
  }

  test('what is of others is as it was, and its own is at hand', async () => {
    for (const [ids, token] of [[hidden, 'of-ops'], [own, 'of-team']]) {
      for (const at of [`apps/${ids.app_id}`, `fns/${ids.fn_id}`, `triggers/${ids.trigger_id}`]) {
        assert.equal((await ask(token, 'get', `/v2/${at}`)).status, 200)
      }
    }
    const apps = async (token) => JSON.parse((await ask(token, 'get', '/v2/apps')).text).items.map((a) => a.name)
    assert.deepEqual(await apps('of-team'), ['shop'])
    assert.deepEqual(await apps('of-ops'), ['bank', 'shop'])
    assert.equal((await ask('of-team', 'post', '/v2/apps', { name: 'shop-2' })).status, 200)
    const refused = await ask('of-team', 'post', '/v2/apps', { name: 'bank' })
    assert.equal(refused.status, 403)
    assert.match(JSON.parse(refused.text).message, /^API1110 the token team /)
    assert.equal((await ask('of-team', 'get', '/v2/runner/changes')).status, 403)
  })
})

// The management API, by a table of requests (lib/api-table.mjs), against a node of ours and, where FN_GO_API is the
// URL of a Go API node with an empty database, against that.
import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { rows } from './lib/api-table.mjs'
import { request } from './lib/http.mjs'
import { Fnd, freePort, tempDir } from './lib/node.mjs'

const ID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/
const DATE = /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const JSON_TYPE = 'application/json; charset=utf-8'

const fill = (text, kept) => text.replace(/<(\w+)>/g, (all, name) => kept[name] ?? all)

// Compares what was said with what a row expects, where places may stand.
function compare(got, expected, kept, where) {
  if (typeof expected === 'string') {
    if (expected === '<id>') return assert.match(got, ID, where)
    if (expected === '<date>') return assert.match(got, DATE, where)
    return assert.equal(got, fill(expected, kept), where)
  }
  if (expected === null || typeof expected !== 'object') return assert.equal(got, expected, where)
  assert.deepEqual(Object.keys(got), Object.keys(expected), `${where}: members in their order`)
  for (const key of Object.keys(expected)) compare(got[key], expected[key], kept, `${where}.${key}`)
}

async function ask(base, what, body, kept) {
  const [method, target] = fill(what, kept).split(/ (.*)/)
  const text = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : fill(JSON.stringify(body), kept)
  return request(base + target, { method, body: text, timeoutMs: 10_000 }).catch((e) => { throw new Error(`${what}: ${e.message}`) })
}

function check(what, answer, status, expected, kept, more = {}) {
  const where = `${what} -> ${answer.status} ${answer.text.slice(0, 300)}`
  assert.equal(answer.status, status, where)
  if (more.location) assert.equal(answer.headers.location, more.location, where)
  if (expected === undefined) {
    if (status !== 301 && status !== 307) assert.equal(answer.text, '', where)
    return
  }
  const said = JSON.parse(answer.text)
  for (const [name, member] of Object.entries(more.keep ?? {})) kept[name] = kept.kept = said[member]
  if (expected instanceof RegExp) return assert.match(said.message, expected, where)
  if (typeof expected !== 'string') return compare(said, expected, kept, where)
  assert.equal(said.message, fill(expected, kept), where)
  if (more.exact) assert.deepEqual(Object.keys(said), expected === 'Invalid JSON' ? ['message', 'fields'] : ['message'], where)
  assert.ok(answer.text.endsWith('}\n'), `${where}: an error ends its line`)
}

describe('the management API', () => {
  let node
  before(async () => {
    const port = await freePort()
    node = await Fnd.start('api', port, null, {
      env: { FN_NODE_TYPE: 'api', FN_PORT: String(port), FN_DB_URL: `sqlite3://${path.join(tempDir(), 'sub/fn.db')}` },
    })
  })
  after(() => node?.stop())

  it('answers each request of the table', async () => {
    const kept = { url: `http://127.0.0.1:${node.port}` }
    for (const [what, body, status, expected, more] of rows) {
      const answer = await ask(kept.url, what, body, kept)
      check(what, answer, status, expected, kept, { exact: true, ...more })
      if (expected !== undefined) assert.equal(answer.headers['content-type'], JSON_TYPE, what)
      if (status === 204) assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8')
    }
    assert.deepEqual(JSON.parse((await request(node.url('/v2/apps'))).text), { items: [] })
  })

  it('says what is wrong with JSON beside the message that clients know', async () => {
    const answer = await request(node.url('/v2/apps'), { method: 'POST', body: '{"name":\n 7}' })
    assert.deepEqual(JSON.parse(answer.text), { message: 'Invalid JSON', fields: '2:2 expected a text' })
  })

  it('counts requests by their route', async () => {
    const metrics = await node.metrics()
    assert.ok(metrics.get('fn_api_request_count{path="/v2/apps/:app_id",method="PUT"}') > 0)
    assert.ok(metrics.get('fn_api_response_count{path="/v2/triggers",method="POST",status="409"}') > 0)
  })
})

describe('the table of requests and Go Fn', { skip: !process.env.FN_GO_API && 'FN_GO_API names no Go API node' }, () => {
  it('is what a Go API node answers, but for the rows that say otherwise', async () => {
    const kept = { url: process.env.FN_GO_API }
    for (const [what, body, status, expected, more = {}] of rows) {
      if (more.skip) continue
      const answer = await ask(kept.url, what, body, kept)
      if (typeof more.go === 'string') {
        for (const [name, member] of Object.entries(more.keep ?? {})) kept[name] = JSON.parse(answer.text)[member]
      } else if (more.go) {
        check(what, answer, more.go[0], more.go[1], kept)
      } else {
        check(what, answer, status, expected, kept, more)
      }
    }
  })
})

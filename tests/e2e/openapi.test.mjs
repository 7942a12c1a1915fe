// docs/openapi.json against the node: every route of the program is in it and the other way round, every
// answer has a status and a body that it names, and every model of it comes out of the node.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { request } from './lib/http.mjs'
import { Fnd, freePort, root, tempDir } from './lib/node.mjs'

const doc = JSON.parse(readFileSync(path.join(root, 'docs/openapi.json'), 'utf8'))
const METHODS = ['get', 'post', 'put', 'delete']

const schemaOf = ({ $ref, ...schema }) => ($ref ? doc.components.schemas[$ref.split('/').at(-1)] : schema)

// What is wrong with a value, as "items[0].name: …", or nothing. Only what the file uses is known here.
function wrong(schema, value, at = 'body') {
  const s = schemaOf(schema)
  const type = Array.isArray(value) ? 'array' : Number.isInteger(value) ? 'integer' : value === null ? 'null' : typeof value
  if (s.type && s.type !== type) return `${at}: ${type} for ${s.type}`
  if (s.enum && !s.enum.includes(value)) return `${at}: ${value}`
  if (s.minimum > value || s.maximum < value || s.maxLength < value.length) return `${at}: ${value} is out of bounds`
  if (s.type === 'array') return value.map((v, i) => wrong(s.items, v, `${at}[${i}]`)).find(Boolean)
  if (s.type !== 'object') return undefined
  const missing = (s.required ?? []).find((key) => !(key in value))
  if (missing) return `${at}: ${missing} is missing`
  return Object.entries(value).map(([key, v]) => {
    const of = s.properties?.[key] ?? s.additionalProperties
    return of ? wrong(of, v, `${at}.${key}`) : `${at}.${key}: no such member`
  }).find(Boolean)
}

describe('docs/openapi.json', () => {
  let node
  const used = new Set()

  // Asks, and holds status and body against the file.
  async function ask(method, pattern, values = {}, { query = '', body } = {}) {
    const at = pattern.replace(/{(\w+)}/g, (_, key) => values[key])
    const operation = doc.paths[pattern][method]
    const answer = await request(node.url(at + query), { method: method.toUpperCase(), body: body && JSON.stringify(body) })
    const said = operation.responses[answer.status]
    assert.ok(said, `${method} ${pattern}: ${answer.status} ${answer.text}`)
    if (said.headers?.['Fn-Request-Id']) assert.ok(answer.headers['fn-request-id'], `${method} ${pattern}: ${answer.status} without an id`)
    used.add(`${method} ${pattern}`)
    const schema = said.content?.['application/json']?.schema
    if (!schema) return {}
    const value = JSON.parse(answer.text)
    assert.equal(wrong(schema, value), undefined, `${method} ${pattern}: ${answer.text}`)
    return value
  }

  before(async () => {
    const port = await freePort()
    node = await Fnd.start('api', port, `node: api\nhttp: { listen: "127.0.0.1:${port}" }\nstore: { url: "sqlite3://${path.join(tempDir(), 'fn.db')}" }\n`)
  })
  after(() => node?.stop())

  test('has every route of the program, and no other', () => {
    const source = readFileSync(path.join(root, 'core/api/routes.c'), 'utf8')
    const routes = [...source.matchAll(/\{ "([A-Z]+)", "([^"]+)",/g)].map(([, method, pattern]) => `${method.toLowerCase()} ${pattern.replace(/[:*](\w+)/g, '{$1}')}`)
    const named = Object.entries(doc.paths).flatMap(([at, item]) => METHODS.filter((m) => item[m]).map((m) => `${m} ${at}`))
    assert.ok(routes.length >= 20)
    assert.deepEqual(named.sort(), routes.sort())
  })

  test('says what every route answers', async () => {
    const app = await ask('post', '/v2/apps', {}, { body: { name: 'shop', config: { A: '1' }, annotations: { a: { b: [1, null] } }, syslog_url: 'udp://h:1' } })
    await ask('post', '/v2/apps', {}, { body: { name: 'shop' } })
    await ask('post', '/v2/apps', {}, { body: { name: 7 } })
    const fn = await ask('post', '/v2/fns', {}, { body: { app_id: app.id, name: 'f', image: 'i', config: { B: '2' } } })
    await ask('post', '/v2/fns', {}, { body: { app_id: 'none', name: 'f', image: 'i' } })
    const trigger = await ask('post', '/v2/triggers', {}, { body: { app_id: app.id, fn_id: fn.id, name: 't', type: 'http', source: '/t' } })
    const ids = { app_id: app.id, fn_id: fn.id, trigger_id: trigger.id, call_id: 'c', trigger_type: 'http', trigger_source: '/t' }
    const none = { app_id: 'none', fn_id: 'none', trigger_id: 'none', trigger_type: 'http', trigger_source: '/none' }
    const filters = { '/v2/apps': '?per_page=1', '/v2/fns': `?app_id=${app.id}`, '/v2/triggers': `?app_id=${app.id}&fn_id=${fn.id}` }
    for (const [pattern, item] of Object.entries(doc.paths)) {
      if (item.get) await ask('get', pattern, ids, { query: filters[pattern] })
      if (item.get && pattern.includes('{') && !item.get.deprecated) await ask('get', pattern, none)
    }
    await ask('get', '/v2/fns')
    await ask('put', '/v2/apps/{app_id}', ids, { body: { config: { C: '3' } } })
    await ask('put', '/v2/apps/{app_id}', ids, { body: { name: 'other' } })
    await ask('put', '/v2/fns/{fn_id}', ids, { body: { memory: 256 } })
    await ask('put', '/v2/fns/{fn_id}', none, { body: { memory: 256 } })
    await ask('put', '/v2/triggers/{trigger_id}', ids, { body: { source: '/u' } })
    for (const [pattern, key] of [['/v2/triggers/{trigger_id}', 'trigger_id'], ['/v2/fns/{fn_id}', 'fn_id'], ['/v2/apps/{app_id}', 'app_id']]) {
      await ask('delete', pattern, { [key]: ids[key] })
      await ask('delete', pattern, { [key]: ids[key] })
    }
    const all = Object.entries(doc.paths).flatMap(([at, item]) => METHODS.filter((m) => item[m]).map((m) => `${m} ${at}`))
    assert.deepEqual(all.filter((o) => !used.has(o)), [])
  })

  test('refuses what the checker should refuse', () => {
    assert.match(wrong({ $ref: '#/components/schemas/App' }, { id: 'x' }), /name is missing/)
    assert.match(wrong({ $ref: '#/components/schemas/App' }, { name: 'x', more: 1 }), /more: no such member/)
    assert.match(wrong({ $ref: '#/components/schemas/FnList' }, { items: [{ name: 'f', app_id: 'a', image: 'i', memory: 0 }] }), /items\[0\].memory: 0 is out of bounds/)
  })
})

// Bodies and names that no client of good will sends, at every route of the management API that takes them: the exact
// answer, nothing of it happens, and the node lives.
import assert from 'node:assert/strict'
import http from 'node:http'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { raw, request } from './lib/http.mjs'
import { Fnd, freePort, tempDir } from './lib/node.mjs'

const JSON_TYPE = 'application/json; charset=utf-8'
const DEEP = 10_000
const TEN_MB = 10 * 1000 * 1000

describe('the management API and odd input', () => {
  let node, app, fn, trigger, before_

  const ask = async (method, target, body, headers) => {
    const answer = await request(node.url(target), { method, headers, body: body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body) })
    return { status: answer.status, text: answer.text, headers: answer.headers, said: answer.text && JSON.parse(answer.text) }
  }
  const done = async (...args) => {
    const answer = await ask(...args)
    assert.equal(answer.status, 200, `${args[0]} ${args[1]}: ${answer.text}`)
    return answer.said
  }
  const everything = async () => ({
    apps: await done('GET', '/v2/apps'), fns: await done('GET', `/v2/fns?app_id=${app.id}`), triggers: await done('GET', `/v2/triggers?app_id=${app.id}`),
  })

  function expectError(answer, status, message, what) {
    assert.equal(`${answer.status} ${answer.text}`, `${status} ${JSON.stringify({ message })}\n`, what)
    assert.equal(answer.headers['content-type'], JSON_TYPE, what)
  }
  function expectNotJson(answer, what) {
    assert.equal(answer.status, 400, `${what}: ${answer.text}`)
    assert.equal(answer.headers['content-type'], JSON_TYPE, what)
    assert.deepEqual(Object.keys(answer.said), ['message', 'fields'], what)
    assert.equal(answer.said.message, 'Invalid JSON', what)
    assert.match(answer.said.fields, /^\d+:\d+ [^\n]{1,200}$/, what)
  }

  before(async () => {
    const port = await freePort()
    node = await Fnd.start('api', port, `node: api\nhttp: { listen: "127.0.0.1:${port}" }\nstore: { url: "sqlite3://${path.join(tempDir(), 'fn.db')}" }\n`)
    app = await done('POST', '/v2/apps', { name: 'there', config: { K: 'v' } })
    fn = await done('POST', '/v2/fns', { app_id: app.id, name: 'there', image: 'i' })
    trigger = await done('POST', '/v2/triggers', { app_id: app.id, fn_id: fn.id, name: 'there', type: 'http', source: '/there' })
    before_ = await everything()
  })
  after(() => node?.stop())

  // What takes bodies: the kind, and a body that it would take.
  const routes = () => ({
    app: [['POST', '/v2/apps'], ['PUT', `/v2/apps/${app.id}`], { name: 'there' }],
    fn: [['POST', '/v2/fns'], ['PUT', `/v2/fns/${fn.id}`], { name: 'there', app_id: app.id, image: 'i' }],
    trigger: [['POST', '/v2/triggers'], ['PUT', `/v2/triggers/${trigger.id}`], { name: 'there', app_id: app.id, fn_id: fn.id, type: 'http', source: '/there' }],
  })
  const everyRoute = async (what) => {
    for (const [kind, [post, put, body]] of Object.entries(routes())) {
      for (const [method, target] of [post, put]) await what(method, target, { ...body, ...(method === 'PUT' && { name: undefined }) }, kind)
    }
    assert.deepEqual(await everything(), before_, 'nothing of it has happened')
  }

  // A body made of one that would be taken.
  const bodies = {
    'nothing': () => '',
    'blanks': () => ' \r\n\t',
    'no JSON': () => 'name=there',
    'a page': () => '<html>',
    'a text': (text) => JSON.stringify(text),
    'a list': (text) => `[${text}]`,
    'a number': () => '7',
    'null': () => 'null',
    'half of it': (text) => text.slice(0, -1),
    'two documents': (text) => `${text} ${text}`,
    'something behind it': (text) => `${text},`,
    'a comma too much': (text) => text.replace(/}$/, ',}'),
    'a duplicate key': (text) => text.replace(/}$/, ',"annotations":{},"annotations":{}}'),
    'a duplicate key below': (text) => text.replace(/}$/, ',"annotations":{"a":"1","a":"2"}}'),
    'the same key in capitals': (text) => text.replace(/}$/, ',"annotations":{},"ANNOTATIONS":{}}'),
    'lists, deep': (text) => text.replace(/}$/, `,"annotations":{"a":${'['.repeat(DEEP)}${']'.repeat(DEEP)}}}`),
    'objects, deep': (text) => text.replace(/}$/, `,"odd":${'{"a":'.repeat(DEEP)}1${'}'.repeat(DEEP)}}`),
    'an open end, deep': () => '['.repeat(DEEP),
    'NUL': (text) => `${text}\0`,
    'NUL in a text': (text) => text.replace(/}$/, ',"id":"b\\u0000c"}'),
    'NUL in a key': (text) => text.replace(/}$/, ',"annotations":{"b\\u0000c":"a"}}'),
    'a control byte in a text': (text) => text.replace(/}$/, ',"annotations":{"a":"b\nc"}}'),
    'bytes that are no UTF-8': (text) => Buffer.from(text.replace(/}$/, ',"annotations":{"a":"\xff"}}'), 'latin1'),
    'overlong UTF-8': (text) => Buffer.from(text.replace(/}$/, ',"annotations":{"a":"\xc0\xaf"}}'), 'latin1'),
    'a surrogate in UTF-8': (text) => Buffer.from(text.replace(/}$/, ',"annotations":{"a":"\xed\xa0\x80"}}'), 'latin1'),
    'UTF-16': (text) => Buffer.from(text, 'utf16le'),
    'a byte order mark': (text) => `\ufeff${text}`,
    'gzip': () => Buffer.from('1f8b0800000000000003', 'hex'),
    'NaN': (text) => text.replace(/}$/, ',"annotations":{"a":NaN}}'),
  }
  for (const [what, make] of Object.entries(bodies)) {
    it(`is told that ${what} is no JSON`, () => everyRoute(async (method, target, body) => {
      expectNotJson(await ask(method, target, make(JSON.stringify(body))), `${method} ${target}`)
    }))
  }

  const types = {
    app: { id: 'text', name: 'text', config: 'texts', annotations: 'object', syslog_url: 'text', created_at: 'date', updated_at: 'date', shape: 'text' },
    fn: { id: 'text', name: 'text', app_id: 'text', image: 'text', memory: 'number', timeout: 'number', idle_timeout: 'number', config: 'texts',
      annotations: 'object', created_at: 'date', updated_at: 'date' },
    trigger: { id: 'text', name: 'text', app_id: 'text', fn_id: 'text', type: 'text', source: 'text', annotations: 'object', created_at: 'date', updated_at: 'date' },
  }
  const wrong = {
    text: ['7', 'true', '[]', '{}'],
    texts: ['7', '"x"', '[]', '{"a":1}', '{"a":[]}', '{"a":{}}', '{"a":true}'],
    object: ['7', '"x"', '[]', 'true'],
    number: ['"7"', '-1', '1.5', '1e3', '[]', '{}', 'true', '18446744073709551616'],
    date: ['7', '"yesterday"', '"2020-13-01T00:00:00Z"', '"2020-01-01"', '[]', '{}'],
  }
  it('is told which member has a wrong type', () => everyRoute(async (method, target, body, kind) => {
    for (const [member, type] of Object.entries(types[kind])) {
      for (const value of wrong[type]) {
        const text = JSON.stringify({ ...body, [member]: '@' }).replace('"@"', value)
        const answer = await ask(method, target, text)
        const what = `${method} ${target} ${text}`
        // Numbers of the right type have limits with sentences of their own.
        if (answer.said.message?.includes('out of range')) assert.ok(type === 'number' && ['-1', '18446744073709551616'].includes(value), what)
        else expectNotJson(answer, what)
      }
    }
  }))

  it('does not read bodies of 10 MB', () => everyRoute(async (method, target) => {
    const body = JSON.stringify({ name: 'large', config: { a: 'x'.repeat(TEN_MB) } })
    expectError(await ask(method, target, body), 413, 'HTTP110 body > 6291456 bytes', `${method} ${target}`)
    const smaller = body.slice(TEN_MB / 2)
    expectError(await ask(method, target, smaller), 413, `Content-Length too large for this server, ${smaller.length} > max 1048576`, `${method} ${target}`)
  }))

  it('does not read bodies of 10 MB whose length is not told', () => everyRoute(async (method, target) => {
    const answer = await new Promise((resolve, reject) => {
      const req = http.request(node.url(target), { method, agent: false }, (res) => {
        let text = ''
        res.on('data', (d) => { text += d }).on('end', () => resolve({ status: res.statusCode, text, headers: res.headers })).on('error', reject)
      })
      req.on('error', (e) => { if (!['EPIPE', 'ECONNRESET'].includes(e.code)) reject(e) }) // it answers before all is sent
      for (let i = 0; i < 10; i++) req.write(Buffer.alloc(TEN_MB / 10, ' '))
      req.end()
    })
    assert.equal(answer.status, 413, answer.text)
    assert.equal(answer.headers['content-type'], JSON_TYPE)
    assert.deepEqual(Object.keys(JSON.parse(answer.text)), ['message'])
  }))

  it('takes half a surrogate for a character that is none, and keeps long numbers, as Go Fn does', async () => {
    const said = await done('POST', '/v2/apps', `{"name":"odd","config":{"a":"\\ud800"},"annotations":{"n":1e400,"o":{"big":${'9'.repeat(100)}}}}`)
    assert.equal(said.config.a, '\ufffd')
    const { text } = await ask('GET', `/v2/apps/${said.id}`)
    assert.match(text, new RegExp(`"n":1e400,"o":{"big":${'9'.repeat(100)}}`))
    assert.equal((await ask('DELETE', `/v2/apps/${said.id}`)).status, 204)
  })

  it('keeps nothing that each call would be refused for', () => everyRoute(async (method, target, body, kind) => {
    for (const key of kind === 'trigger' ? [] : ['', '=', 'A=B']) {
      expectError(await ask(method, target, { ...body, name: method === 'POST' ? 'odd' : undefined, config: { [key]: 'v' } }), 400, `config key, got "${key}"; expected a name without "="`)
    }
    for (const image of kind === 'fn' ? ['a b', '../../x'] : []) {
      expectError(await ask(method, target, { ...body, name: method === 'POST' ? 'odd' : undefined, image }), 400, `RUN406 image name, got "${image}"; expected registry/name:tag`)
    }
  }))

  it('ignores members that it does not know', async () => {
    const odd = { '': 1, twice: 1, TWICE: 2, odd: { deep: [null, true, 1.5] }, ['__proto__']: 'x', 'ü': 'ä' }
    for (const [, [method, target], body] of Object.values(routes())) {
      const said = await done(method, target, { ...body, ...odd, name: undefined })
      assert.ok(!('odd' in said))
    }
  })

  // ---- names ------------------------------------------------------------------------------------

  const NAMES = {
    'a': [200, 200, 200],
    [`${'n'.repeat(255)}`]: [200, 200, 200],
    [`${'n'.repeat(256)}`]: ['App name must be 255 characters or less', 'Fn name must be 255 characters or less', 'Trigger name must be 255 characters or less'],
    [`${'ü'.repeat(127)}n`]: [200, 'name must be a valid string', 200],
    [`${'ü'.repeat(128)}`]: ['App name must be 255 characters or less', 'Fn name must be 255 characters or less', 'Trigger name must be 255 characters or less'],
    '.': ['Invalid app name', 200, 'Invalid name for Trigger'],
    '..': ['Invalid app name', 200, 'Invalid name for Trigger'],
    'a/b': ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
    '../a': ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
    'a\\b': ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
    '%2f': ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
    '%00': ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
    ' a': ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
    'a\n': ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
    'a\u200bb': ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
    'a\u202eb': ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
    '\u{1f600}': [200, 'name must be a valid string', 200],
    'a\u0085b': ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
    'a\u00a0b': ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
    '日本-語_1': [200, 'name must be a valid string', 200],
    "a'; DROP TABLE apps; --": ['Invalid app name', 'name must be a valid string', 'Invalid name for Trigger'],
  }
  for (const [name, expected] of Object.entries(NAMES)) {
    it(`takes the name ${JSON.stringify(name.length > 30 ? `${name.slice(0, 2)}... of ${Buffer.byteLength(name)} bytes` : name)}, or says why not`, async () => {
      const bodies = [['/v2/apps', { name }], ['/v2/fns', { name, app_id: app.id, image: 'i' }],
        ['/v2/triggers', { name, app_id: app.id, fn_id: fn.id, type: 'http', source: `/names/${Math.random()}` }]]
      for (const [i, [target, body]] of bodies.entries()) {
        const answer = await ask('POST', target, body)
        if (expected[i] !== 200) {
          expectError(answer, 400, expected[i], target)
          continue
        }
        assert.equal(answer.status, 200, answer.text)
        const found = await done('GET', `${target}?${target === '/v2/apps' ? '' : `app_id=${app.id}&`}name=${encodeURIComponent(name)}`)
        assert.deepEqual(found.items.map((item) => item.name), [name])
        assert.equal((await done('GET', `${target}/${answer.said.id}`)).name, name)
        assert.equal((await ask('DELETE', `${target}/${answer.said.id}`)).status, 204)
      }
    })
  }

  const PATHS = [
    ['/v2/apps/%2e%2e', 404, 'App not found'], ['/v2/apps/..%2f..%2fetc', 404, 'Path not found: GET /v2/apps/..%2f..%2fetc'],
    ['/v2/apps/%', 400, undefined], ['/v2/apps/%zz', 400, undefined], ['/v2/apps/a%00b', 400, 'Path malformed'], [`/v2/apps/${'a'.repeat(256)}`, 404, 'App not found'],
    ['/v2/fns/%c0%ae', 400, 'Path malformed'], ['/v2/triggers/%ff', 400, 'Path malformed'], ['/v2/apps?name=%ff', 400, 'Query malformed'], ["/v2/fns/'%20OR%20'1'='1", 404, 'Fn not found'],
    ['/v2/apps?per_page=-1', 200], ['/v2/apps?per_page=99999999999999999999', 200], ['/v2/apps?per_page=x', 200], ['/v2/apps?name=%00', 200],
    ['/v2/apps?cursor=!', 400, 'Invalid cursor'], ['/v2/apps?cursor=%', 200], ['/v2/apps?cursor=' + 'A'.repeat(2000), 200],
  ]
  for (const [target, status, message] of PATHS) {
    it(`answers GET ${target.slice(0, 40)}`, async () => {
      const { text } = await raw(node.port, `GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
      const [head, body] = text.split('\r\n\r\n')
      assert.match(head, new RegExp(`^HTTP/1\\.1 ${status} `), text)
      assert.match(head, new RegExp(`content-type: ${JSON_TYPE}`, 'i'))
      const said = JSON.parse(body)
      if (status !== 200) assert.deepEqual(Object.keys(said), ['message'])
      if (message) assert.equal(said.message, message)
    })
  }

  it('lives, and has what it had', async () => {
    assert.deepEqual((await everything()).apps, before_.apps)
    assert.equal(node.exit, null)
    assert.doesNotMatch(node.log, /level=error/)
  })
})

// How often the API may be asked and tokens be guessed, over HTTP: the answer, whose address counts, the metric, the
// log, a reload. What passes when is tests/unit/api/test_limit.c, on a fake clock.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { request } from './lib/http.mjs'
import { Fnd, freePort, tempDir, until } from './lib/node.mjs'

const hash = (token) => createHash('sha256').update(token).digest('hex')
const ROUNDS = 5 // less than failures_max: a bucket of its own would still have something
const MANY = 100

describe('limits of the API', () => {
  const store = path.join(tempDir(), 'fn.db')
  let node
  let port

  const yaml = (limits) => `
node: api
http: { listen: "127.0.0.1:${port}", proxies: ["127.0.0.1"], client_from: x-forwarded-for }
store: { url: "sqlite3://${store}" }
api: { tokens: ["ops admin ${hash('of-ops')}", "ci deploy ${hash('of-ci')}"], ${limits} }
`
  const ask = (from, token, { method = 'POST', target = '/v2/fns', body = '[' } = {}) => request(node.url(target), {
    method, body, headers: { 'X-Forwarded-For': from, ...(token && { Authorization: `Bearer ${token}` }) },
  })
  // Guesses until there are no failures left, and -> how many were told 401, and what came then.
  async function drain(from) {
    for (let n = 0; n < MANY; n++) {
      const answer = await ask(from, 'guess')
      if (answer.status === 429) return { n, answer }
      assert.equal(answer.status, 401)
    }
    return assert.fail(`${MANY} guesses are let pass`)
  }
  // What is refused while another one has no failures left: a second may pass in between, so it is tried again.
  async function refusedBeside(other, ...asked) {
    for (let i = 0; i < ROUNDS; i++) {
      await drain(other)
      const answer = await ask(...asked)
      if (answer.status === 429) return true
    }
    return false
  }

  before(async () => {
    port = await freePort()
    node = await Fnd.start('api', port, yaml('failures_max: 10'))
  })
  after(() => node?.stop())

  test('who guesses tokens is told 429', async () => {
    const { n, answer } = await drain('192.0.2.1')
    assert.ok(n >= 10)
    assert.deepEqual(JSON.parse(answer.text), {
      message: 'API1112 too many wrong tokens from your address; expected at most 10, then one a second (api.failures_max)',
    })
    assert.equal(answer.headers['retry-after'], '1')
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
    assert.ok(answer.headers['fn-request-id'])
    assert.ok(await node.metric('fn_api_limited{reason="failures"}') >= 1)
    await until('the log names it', () => /too many wrong tokens of the API from one address.* client=192\.0\.2\.1 /.test(node.log))
  })

  test('it is the address that http.client_from finds, of IPv6 a /64', async () => {
    assert.ok(await refusedBeside('2001:db8::1', '2001:db8::ffff', 'of-ops'))
    assert.ok(!await refusedBeside('2001:db8::1', '2001:db8:0:1::1', 'guess'))
    assert.ok(!await refusedBeside('192.0.2.1', '192.0.2.2', 'guess'))
  })

  test('who has worked from there goes on', async () => {
    assert.equal((await ask('192.0.2.7', 'of-ops')).status, 400)
    for (let i = 0; i < ROUNDS; i++) {
      await drain('192.0.2.7')
      assert.equal((await ask('192.0.2.7', 'of-ops')).status, 400)
      assert.equal((await ask('192.0.2.7', undefined, { method: 'GET', target: '/v2/apps', body: '' })).status, 200)
    }
    assert.ok(await refusedBeside('192.0.2.7', '192.0.2.7', 'of-ci'))
  })

  test('a reload limits changes of a token, not what others do', async () => {
    const generation = await node.metric('fn_config_generation')
    writeFileSync(path.join(node.dir, 'fn.yaml'), yaml('changes_max: 3, failures_max: 0'), { mode: 0o600 })
    node.signal('SIGHUP')
    await until('the reload', async () => await node.metric('fn_config_generation') > generation)
    const answers = await Promise.all(Array.from({ length: MANY }, (_, i) => ask(`198.51.100.${i}`, 'of-ci')))
    const refused = answers.filter((a) => a.status === 429)
    assert.ok(refused.length > 0 && refused.length <= MANY - 3)
    assert.match(refused[0].text, /"API1111 too many changes of the token ci; expected at most 3 a second \(api\.changes_max\)"/)
    assert.ok(answers.every((a) => [400, 429].includes(a.status)))
    assert.equal(await node.metric('fn_api_limited{reason="changes"}'), refused.length)
    assert.equal((await ask('198.51.100.1', 'of-ops')).status, 400)
    for (let i = 0; i < MANY; i++) assert.equal((await ask('192.0.2.1', 'guess', { method: 'GET', body: '' })).status, 400)
  })
})

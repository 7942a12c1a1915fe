// Functions and triggers from an API node.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { APP, ApiNode } from './lib/api.mjs'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke, request } from './lib/http.mjs'
import { freePort, until } from './lib/node.mjs'

const text = (body, status = 200) => (req, res) => { res.writeHead(status); res.end(body) }

describe('functions of an API node', () => {
  let api
  let runner
  const lbs = []
  const balancer = async (lb = 'cache_ttl: 1h') => {
    const node = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], lb: `api_url: "http://127.0.0.1:${api.port}"\napi_timeout: 1s\n${lb}` })
    lbs.push(node)
    return node
  }
  before(async () => {
    api = await ApiNode.start()
    runner = await startRunner()
  })
  afterEach(async () => {
    api.heal()
    await Promise.all(lbs.splice(0).map((n) => n.stop()))
    api.counts()
  })
  after(async () => {
    await runner?.stop()
    await api?.stop()
  })

  it('invoke asks for function and app, a trigger for app, trigger and function, each once', async () => {
    const lb = await balancer()
    for (let i = 0; i < 3; i++) {
      const answer = await invoke(lb, fnId('hello'), '{"name":"api"}')
      assert.equal(answer.status, 200, answer.text)
      assert.match(answer.text, /Hello api/)
    }
    assert.deepEqual(api.counts(), { [`/v2/fns/${fnId('hello')}`]: 1, [`/v2/apps/${APP}`]: 1 })
    for (let i = 0; i < 3; i++) {
      const answer = await request(lb.url('/t/demo/hello'), { method: 'POST', body: '{"name":"t"}' })
      assert.equal(answer.status, 200, answer.text)
      assert.match(answer.text, /Hello t/)
    }
    assert.deepEqual(api.counts(), { '/v2/apps?name=demo': 1,
      [`/v2/runner/apps/${APP}/triggerBySource/http//hello`]: 1, [`/v2/fns/${fnId('hello')}`]: 1 })
  })

  it('single flight: 50 first calls at a time ask once', async () => {
    const lb = await balancer()
    const answers = await Promise.all(Array.from({ length: 50 }, () => invoke(lb, fnId('hello'))))
    for (const answer of answers) assert.equal(answer.status, 200, answer.text)
    assert.deepEqual(api.counts(), { [`/v2/fns/${fnId('hello')}`]: 1, [`/v2/apps/${APP}`]: 1 })
  })

  it('what is not there: 404 with Go Fn\'s texts, asked once for a burst', async () => {
    const lb = await balancer()
    const sayings = [['/invoke/nope', /"message":"Fn not found"/], ['/t/nope/hello', /"message":"App not found"/],
      ['/t/demo/nope', /"message":"Trigger not found"/]]
    for (const [url, sentence] of sayings) {
      api.counts()
      const answers = await Promise.all(Array.from({ length: 20 }, () => request(lb.url(url), { method: 'POST', body: 'x' })))
      for (const answer of answers) {
        assert.equal(answer.status, 404, answer.text)
        assert.match(answer.text, sentence)
      }
      for (const [asked, n] of Object.entries(api.counts())) assert.equal(n, 1, asked)
    }
  })

  it('a path that needs encoding reaches the API node as one segment', async () => {
    const lb = await balancer()
    const answer = await request(lb.url('/invoke/a%2F..%2Fb'), { method: 'POST', body: 'x' })
    assert.ok([400, 404].includes(answer.status), answer.text)
    for (const asked of Object.keys(api.counts())) assert.match(asked, /^\/v2\/fns\/[^/]+$/)
  })

  it('a change becomes visible once the cached value is old', async () => {
    const lb = await balancer('cache_ttl: 100ms')
    const call = (id) => invoke(lb, fnId(id), 'plain', { 'Content-Type': 'text/plain' })
    assert.equal((await call('echo')).text, 'plain')
    api.fns[fnId('echo')].image = 'hello'
    await until('the new image runs', async () => /Hello World/.test((await call('echo')).text), 5000)
    delete api.fns[fnId('echo')]
    await until('the removed function is gone', async () => (await call('echo')).status === 404, 5000)
    api.fns[fnId('echo')] = { id: fnId('echo'), app_id: APP, name: 'echo', image: 'echo', memory: 128, timeout: 30, idle_timeout: 30 }
    await until('it is back', async () => (await call('echo')).text === 'plain', 5000)
  })

  it('down: known functions go on with the last value, unknown ones get 503 LB306, and it recovers', async () => {
    const lb = await balancer('cache_ttl: 1ms')
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    const { port } = api
    await api.stop()
    for (let i = 0; i < 5; i++) assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    const stranger = await invoke(lb, fnId('echo'), 'x')
    assert.equal(stranger.status, 503, stranger.text)
    assert.match(stranger.text, /LB306/)
    assert.equal(stranger.headers['fn-outcome'], 'not-executed')
    assert.ok(Number(stranger.headers['retry-after']) > 0)
    api = await ApiNode.start(port)
    await until('it recovers', async () => (await invoke(lb, fnId('echo'), 'x')).status === 200)
  })

  it('down for longer than cache_stale: 503', async () => {
    const lb = await balancer('cache_ttl: 1ms\ncache_stale: 50ms')
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    api.fault = 'cut'
    await until('the old value is given up', async () => {
      const answer = await invoke(lb, fnId('hello'))
      return answer.status === 503 && /LB306/.test(answer.text)
    })
    api.heal()
    await until('it recovers', async () => (await invoke(lb, fnId('hello'))).status === 200)
  })

  const deep = '['.repeat(100_000)
  const faults = [
    ['500', text('{"message":"broken"}', 500)],
    ['500 without a body', text('', 500)],
    ['401', text('{"message":"who are you"}', 401)],
    ['a redirect', (req, res) => { res.writeHead(302, { Location: 'file:///etc/passwd' }); res.end() }],
    ['200 without a body', text('')],
    ['text', text('<html>hello</html>')],
    ['half of a JSON text', text('{"id":"x","app_id":')],
    ['JSON of another shape', text('[1,2,3]')],
    ['null', text('null')],
    ['deep nesting', text(deep)],
    ['fields of wrong types', text('{"id":7,"app_id":[],"image":{},"memory":"much","items":[{"id":7}]}')],
    ['values out of range', text(`{"id":"x","app_id":"${APP}","fn_id":"x","image":"hello","memory":-1,"timeout":1e300,"items":[{"id":"${APP}","name":"demo"}]}`)],
    ['bytes that are no text', text(Buffer.from([0xff, 0xfe, 0, 1, 2]))],
    ['a body beyond every limit', (req, res) => {
      res.writeHead(200)
      const piece = Buffer.alloc(64 * 1024, ' ')
      let left = 512
      const more = () => { while (left-- > 0) if (!res.write(piece)) return res.once('drain', more); res.end() }
      res.on('error', () => {})
      more()
    }],
    ['a body that stops', (req, res) => { res.writeHead(200, { 'Content-Length': 100 }); res.write('{'); api.hanging.add(res) }],
    ['no HTTP', (req) => { req.socket.end('SSH-2.0-x\r\n') }],
    ['a cut connection', 'cut'],
    ['nothing at all', 'hang'],
  ]
  it('whatever it answers: a clear 503, known functions go on, the node lives', async () => {
    const lb = await balancer('cache_ttl: 1ms')
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    for (const [what, fault] of faults) {
      api.fault = fault
      const begin = Date.now()
      const [known, stranger, trigger] = await Promise.all([invoke(lb, fnId('hello')), invoke(lb, fnId('echo'), 'x'),
        request(lb.url('/t/demo/echo'), { method: 'POST', body: 'x' })])
      assert.ok(Date.now() - begin < 4000, `${what}: answered after ${Date.now() - begin} ms`)
      assert.equal(known.status, 200, `${what}: known: ${known.text}`)
      for (const answer of [stranger, trigger]) {
        assert.equal(answer.status, 503, `${what}: ${answer.text}`)
        assert.match(answer.text, /LB306/, what)
        assert.equal(answer.headers['fn-outcome'], 'not-executed', what)
      }
      api.heal()
      assert.equal(lb.exit, null, what)
    }
    await until('it recovers', async () => (await invoke(lb, fnId('echo'), 'x')).status === 200)
  })

  it('a client that goes away while the API node hangs leaves nothing behind', async () => {
    const lb = await balancer()
    api.fault = 'hang'
    const gone = request(lb.url(`/invoke/${fnId('echo')}`), { method: 'POST', body: 'x', timeoutMs: 200 })
    await assert.rejects(gone)
    api.heal()
    await until('no call is left', async () => (await lb.metric('fn_calls_in_flight')) === 0)
    assert.equal((await invoke(lb, fnId('echo'), 'x')).status, 200)
  })

  it('an API node that is not there at the start is found later', async () => {
    const port = await freePort()
    const lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], lb: `api_url: "http://127.0.0.1:${port}"\napi_timeout: 500ms` })
    lbs.push(lb)
    assert.equal((await invoke(lb, fnId('hello'))).status, 503)
    const late = await ApiNode.start(port)
    await until('it is found', async () => (await invoke(lb, fnId('hello'))).status === 200)
    await late.stop()
  })
})

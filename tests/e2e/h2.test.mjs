// HTTP/2 at an HTTPS port, with the clients that people have: Node's and curl's.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync, utimesSync, writeFileSync, renameSync } from 'node:fs'
import http2 from 'node:http2'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import tls from 'node:tls'
import { fnId } from './lib/cluster.mjs'
import { ca, leaf, pki, startHttps } from './lib/https.mjs'
import { build, until } from './lib/node.mjs'

const MANY = 100
const BIG_BYTES = 3_000_000
const STREAM_BYTES = 30_000_000

// A connection, on which many requests run.
class Session {
  static async open(node, options = {}) {
    const s = new Session()
    s.h2 = http2.connect(`https://127.0.0.1:${node.port}`, { ca, ...options })
    s.goaway = null
    s.h2.on('goaway', (code) => { s.goaway ??= code })
    s.h2.on('error', (e) => { s.error = e })
    s.closed = new Promise((resolve) => s.h2.on('close', resolve))
    await new Promise((resolve, reject) => s.h2.on('connect', resolve).on('error', reject))
    return s
  }

  start(p, { method = 'GET', headers = {} } = {}, body = false) {
    return this.h2.request({ ':method': method, ':path': p, ...headers }, { endStream: !body })
  }

  // -> { status, headers, text, body, code }
  ask(p, { body, ...options } = {}) {
    return new Promise((resolve) => {
      const req = this.start(p, { method: body === undefined ? 'GET' : 'POST', ...options }, body !== undefined)
      const chunks = []
      const got = { status: 0, headers: {} }
      req.on('response', (headers) => Object.assign(got, { status: headers[':status'], headers }))
      req.on('data', (d) => chunks.push(d))
      req.on('error', (e) => { got.error = e.code })
      req.on('close', () => resolve({ ...got, code: req.rstCode, body: Buffer.concat(chunks), text: Buffer.concat(chunks).toString() }))
      if (body !== undefined) req.end(body)
    })
  }

  call(name, body = '', options = {}) {
    return this.ask(`/invoke/${fnId(name)}`, { body, ...options })
  }

  close() {
    this.h2.close()
    return this.closed
  }
}

const curl = (node, ...args) => new Promise((resolve, reject) => {
  execFile('curl', ['-sS', '--cacert', pki.ca.cert, ...args.map((a) => a.replace('URL', `https://127.0.0.1:${node.port}`))],
    { encoding: 'buffer', maxBuffer: 64 << 20 }, (error, out, err) => (error ? reject(new Error(`${error}\n${err}`)) : resolve(out)))
})

// By rename, and old enough to be read at once.
async function rewrite(node, change) {
  writeFileSync(`${node.yaml}.new`, change(readFileSync(node.yaml, 'utf8')), { mode: 0o600 })
  utimesSync(`${node.yaml}.new`, 1, 1)
  renameSync(`${node.yaml}.new`, node.yaml)
  await new Promise((resolve, reject) => {
    execFile(path.join(build, 'fnd'), ['reload', '--config', node.yaml], (error, out, err) => (error ? reject(new Error(err)) : resolve()))
  })
}

// The text of one metric's line; there is no plain port to ask.
const metric = async (session, line) => Number(new RegExp(`^${line.replace(/[{}"./]/g, '\\$&')} (\\d+)`, 'm').exec((await session.ask('/metrics')).text)?.[1] ?? 0)

const functions = { hello: {}, echo: { triggers: ['/echo'] }, big: { memory: 256 }, sleeper: { timeout: 30 } }

describe('HTTP/2', () => {
  let node
  let s
  before(async () => {
    node = await startHttps({ functions, runner: ', max_response_size: 0', more: 'lb: { response_max: 0 }' })
    s = await Session.open(node)
  })
  after(async () => {
    await s?.close()
    await node?.stop()
  })

  it('calls functions, by id and by trigger', async () => {
    const got = await s.call('hello', '{"name":"Ada"}', { headers: { 'content-type': 'application/json' } })
    assert.equal(got.status, 200)
    assert.match(got.text, /Hello,? Ada/)
    assert.match(got.headers['fn-call-id'], /^\w{26}$/)
    const trigger = await s.ask('/t/demo/echo?q=1', { body: 'x', headers: { 'echo-headers': 'all', 'x-mine': 'yes', cookie: 'a=b' } })
    assert.equal(trigger.status, 200, trigger.text)
    const seen = JSON.parse(trigger.text)
    const header = (name) => Object.entries(seen).find(([n]) => n.toLowerCase() === name)?.[1][0]
    assert.equal(header('fn-http-request-url'), `https://127.0.0.1:${node.port}/t/demo/echo?q=1`)
    assert.equal(header('fn-http-method'), 'POST')
    assert.equal(header('fn-http-h-x-mine'), 'yes')
    assert.equal(header('fn-http-h-cookie'), 'a=b')
    assert.equal(Object.keys(seen).find((n) => n.includes(':')), undefined, 'no pseudo-header field')
    assert.equal((await s.ask('/nowhere')).status, 404)
    assert.equal((await s.ask('/version', { method: 'HEAD' })).status, 200)
    assert.ok(await metric(s, 'fn_http_protocol_requests{protocol="HTTP/2"}') > 0)
  })

  it('says the same as HTTP/1.1', async () => {
    for (const args of [['URL/version'], ['URL/nowhere'], ['-d', 'abc', `URL/invoke/${fnId('echo')}`], ['-d', 'abc', 'URL/t/demo/echo'],
      ['-d', 'abc', '-H', 'echo-status: 418', 'URL/t/demo/echo'], ['-d', 'abc', '-H', 'echo-fail: no', `URL/invoke/${fnId('echo')}`], ['-I', 'URL/version'], ['-X', 'BREW', 'URL/']]) {
      const texts = await Promise.all(['--http1.1', '--http2'].map(async (v) => {
        const text = (await curl(node, v, '-i', ...args)).toString()
        const [head, body] = text.split('\r\n\r\n')
        const [status, ...lines] = head.split('\r\n')
        const fields = lines.map((l) => l.replace(/^[^:]*/, (n) => n.toLowerCase())).filter((l) => !/^(date|fn-call-id|connection|transfer-encoding|fn-fdk-.*):/.test(l)).sort()
        return { status: status.split(' ')[1], fields, body: body.replace(/\w{26}/, 'ID') }
      }))
      assert.deepEqual(texts[1], texts[0], args.join(' '))
    }
  })

  it('carries megabytes both ways', async () => {
    const body = Buffer.alloc(BIG_BYTES, 'abcdefghij')
    const got = await s.call('echo', body)
    assert.equal(got.status, 200)
    assert.ok(got.body.equals(body))
    assert.ok((await curl(node, '--http2', '-d', String(BIG_BYTES), `URL/invoke/${fnId('big')}`)).length === BIG_BYTES)
    const file = path.join(node.dir, 'body')
    writeFileSync(file, body)
    assert.ok((await curl(node, '--http2', '--data-binary', `@${file}`, `URL/invoke/${fnId('echo')}`)).equals(body))
    assert.equal((await s.call('echo', Buffer.alloc(7 << 20))).status, 413)
  })

  it('streams, and waits for a slow reader', async () => {
    const req = s.start(`/invoke/${fnId('big')}`, { method: 'POST' }, true)
    let bytes = 0
    req.end(String(STREAM_BYTES))
    req.on('data', (d) => {
      bytes += d.length
      req.pause()
      setImmediate(() => req.resume())
    })
    await new Promise((resolve) => req.on('close', resolve))
    assert.equal(req.rstCode, 0)
    assert.equal(bytes, STREAM_BYTES)
  })

  it(`runs ${MANY} requests at a time on a connection`, async () => {
    const all = await Promise.all(Array.from({ length: MANY }, (_, i) => s.call('echo', `n${i}`)))
    all.forEach((got, i) => assert.equal(got.text, `n${i}`, JSON.stringify(got)))
  })

  it('a client that cancels ends its call', async () => {
    const gone = () => metric(s, 'fn_api_response_count{path="/invoke/:fn_id",method="POST",status="444"}')
    const before = await gone()
    const req = s.start(`/invoke/${fnId('sleeper')}`, { method: 'POST' }, true)
    req.on('error', () => {})
    req.end('20000')
    await until('it runs', async () => await metric(s, 'fn_runner_running') > 0)
    req.close(http2.constants.NGHTTP2_CANCEL)
    await until('the call is over', async () => await gone() > before)
    assert.equal((await s.call('hello')).status, 200, 'the connection lives')
  })

  it('a reset flood ends its connection and slows no neighbour', async () => {
    const times = []
    let attacking = true
    const neighbour = (async () => {
      while (attacking) {
        const begun = performance.now()
        assert.equal((await s.call('hello')).status, 200)
        times.push(performance.now() - begun)
      }
    })()
    let ended = 0
    for (let round = 0; round < 10; round++) ended += await rapidReset(node.port)
    attacking = false
    await neighbour
    assert.equal(ended, 10, 'each attack got GOAWAY')
    assert.ok(times.length >= 3)
    assert.ok(Math.max(...times) < 2000, `${times}`)
    assert.match(node.log, /an HTTP\/2 client was told to be calm/)
  })

  it('open connections outlive a renewal and a reload', async () => {
    const next = leaf('web-2')
    const name = (session) => session.h2.socket.getPeerCertificate().subject.CN
    node.replace('key.pem', readFileSync(next.key))
    node.replace('cert.pem', readFileSync(next.cert))
    node.signal('SIGHUP')
    await until('it has them', () => node.log.includes('certificates renewed'))
    const fresh = await Session.open(node)
    assert.equal(name(fresh), 'web-2')
    await fresh.close()
    const calls = Array.from({ length: 20 }, () => s.call('sleeper', '300'))
    await rewrite(node, (text) => text.replace('tls: web', 'tls: web, h2: false'))
    for (const got of await Promise.all(calls)) assert.equal(got.status, 200)
    assert.equal((await s.call('hello')).status, 200)
    assert.equal(await alpn(node), 'http/1.1')
    await rewrite(node, (text) => text.replace(', h2: false', ''))
    assert.equal(await alpn(node), 'h2')
  })

  it('a node that ends answers what runs, and says that it leaves', async () => {
    const calls = Array.from({ length: 20 }, () => s.call('sleeper', '500'))
    await until('they run', async () => (await s.ask('/version')).status === 200)
    const ended = node.stop()
    const late = []
    while (!s.h2.closed && !s.h2.destroyed && late.length < 200) {
      late.push(await s.call('hello').catch(() => ({ status: 0 }))) // not begun: the session is leaving
    }
    for (const got of await Promise.all(calls)) assert.equal(got.status, 200, JSON.stringify(got))
    for (const got of late) assert.ok(got.status === 200 || got.status === 0 || got.status === 503, JSON.stringify(got))
    assert.deepEqual(await ended, { code: 0, signal: null })
    assert.equal(s.goaway, 0)
  })

  for (const signal of ['SIGTERM', 'SIGUSR2']) it(`F16 at a second signal every stream has its answer before the node is gone: ${signal}`, async () => {
    const own = await startHttps({ functions, more: 'drain_timeout: 60s' })
    const client = await Session.open(own)
    const calls = Array.from({ length: 5 }, () => client.call('sleeper', '20000'))
    await until('they run', async () => await metric(client, 'fn_runner_running') === 5)
    own.signal('SIGTERM')
    await until('it drains', () => own.log.includes('draining: new calls are refused'))
    own.signal(signal)
    for (const got of await Promise.all(calls)) {
      assert.deepEqual([got.status, got.headers['fn-outcome'], got.code], [502, 'unknown', 0], JSON.stringify(got))
      assert.match(got.text, /LB313 this load balancer stopped before the call ended/)
    }
    assert.deepEqual(await own.ended, { code: 143, signal: null }, own.log)
  })
})

function alpn(node) {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ port: node.port, host: '127.0.0.1', ca, ALPNProtocols: ['h2', 'http/1.1'] })
    socket.on('error', reject)
    socket.on('secureConnect', () => {
      resolve(socket.alpnProtocol)
      socket.destroy()
    })
  })
}

function frame(type, flags, id, payload) {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(id, 5)
  return Buffer.concat([head, payload])
}

// CVE-2023-44487: thousands of calls, each reset at once. -> 1 when the server said ENHANCE_YOUR_CALM.
function rapidReset(port) {
  const target = `/invoke/${fnId('hello')}`
  const block = Buffer.concat([Buffer.from([0x83, 0x87, 0x04, target.length]), Buffer.from(target), Buffer.from([0x01, 1]), Buffer.from('a')])
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ port, host: '127.0.0.1', ca, ALPNProtocols: ['h2'] })
    let seen = Buffer.alloc(0)
    socket.on('error', () => {})
    socket.on('data', (d) => { seen = Buffer.concat([seen, d]) })
    socket.on('close', () => resolve(calm(seen)))
    socket.setTimeout(20_000, () => reject(new Error('it lets go on')))
    socket.on('secureConnect', () => {
      const all = [Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0, Buffer.alloc(0))]
      for (let id = 1; id < 10_000; id += 2) all.push(frame(1, 5, id, block), frame(3, 0, id, Buffer.from([0, 0, 0, 8])))
      socket.write(Buffer.concat(all))
    })
  })
}

function calm(text) {
  for (let at = 0; at + 9 <= text.length; at += 9 + text.readUIntBE(at, 3)) {
    if (text[at + 3] === 7 && text.readUInt32BE(at + 13) === http2.constants.NGHTTP2_ENHANCE_YOUR_CALM) return 1
  }
  return 0
}

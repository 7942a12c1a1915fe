// HTTPS on the web port: who believes whom, plain text at that port, renewed and revoked certificates.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import path from 'node:path'
import { test } from 'node:test'
import tls from 'node:tls'
import { fnId } from './lib/cluster.mjs'
import { raw } from './lib/http.mjs'
import { ca, files, leaf, pki, startHttps } from './lib/https.mjs'
import { tempDir, until } from './lib/node.mjs'

function ask(node, { p = '/version', method = 'GET', body, ...options } = {}) {
  return new Promise((resolve, reject) => {
    const req = https.request({ port: node.port, host: '127.0.0.1', path: p, method, ca, agent: false, ...options }, (res) => {
      let text = ''
      res.on('data', (d) => { text += d })
      res.on('end', () => resolve({ status: res.statusCode, text, peer: req.socket.peer ?? '' }))
    })
    req.on('socket', (s) => s.on('secureConnect', () => { s.peer ??= s.getPeerCertificate().subject?.CN }))
    req.on('error', reject)
    req.end(body)
  })
}
const call = (node, options) => ask(node, { p: `/invoke/${fnId('hello')}`, method: 'POST', body: '{"name":"Ada"}', ...options })

test('HTTPS', async (t) => {
  await t.test('a function is called; strangers are not believed, plain text is told so', async () => {
    const node = await startHttps()
    try {
      assert.equal((await call(node)).status, 200)
      await assert.rejects(call(node, { ca: readFileSync(pki.other.cert) }), /certificate|signature/)
      await assert.rejects(ask(node, { servername: 'elsewhere.test', checkServerIdentity: tls.checkServerIdentity }), /elsewhere/)
      for (const maxVersion of ['TLSv1', 'TLSv1.1']) await assert.rejects(ask(node, { minVersion: maxVersion, maxVersion, ciphers: 'DEFAULT@SECLEVEL=0' }))
      for (const [offered, chosen] of [[['http/1.1', 'h2'], 'h2'], [['h2'], 'h2'], [['http/1.1'], 'http/1.1'], [['spdy/3'], false], [undefined, false]]) {
        const s = tls.connect({ port: node.port, host: '127.0.0.1', ca, ALPNProtocols: offered })
        await new Promise((resolve, reject) => s.on('secureConnect', resolve).on('error', reject))
        assert.equal(s.alpnProtocol, chosen)
        s.destroy()
      }
      const plain = await raw(node.port, 'GET /version HTTP/1.1\r\nHost: a\r\n\r\n')
      assert.equal(plain.status, 400)
      assert.match(plain.text, /HTTP119 this port speaks HTTPS/)
      assert.equal((await raw(node.port, `${'x'.repeat(100)}\r\n`)).status, 0)
      assert.equal((await call(node)).status, 200)
      assert.match(node.log, /a handshake failed/)
      assert.doesNotMatch(node.log, /level=error/)
    } finally {
      await node.stop()
    }
  })

  await t.test('TLSWebServer needs no mention; with ca clients show certificates, with peers the right ones', async () => {
    const node = await startHttps({ name: 'TLSWebServer', http: '', entry: [`ca: ${pki.ca.cert}`, 'peers: ["spiffe://fnd/client-*"]'] })
    try {
      assert.equal((await call(node, files(leaf('client-1')))).status, 200)
      await assert.rejects(call(node))
      await assert.rejects(call(node, files(leaf('client-1', { by: pki.other }))))
      const stranger = await call(node, files(leaf('runner-1')))
      assert.equal(stranger.status, 403)
      assert.match(stranger.text, /TLS805/)
    } finally {
      await node.stop()
    }
  })

  await t.test('the management API asks for a certificate and a token', async () => {
    const token = 'of-ops'
    const node = await startHttps({
      entry: [`ca: ${pki.ca.cert}`, 'peers: ["spiffe://fnd/client-*"]'],
      more: `store: { url: "sqlite3://${path.join(tempDir(), 'fn.db')}" }
api: { tokens: ["ops admin ${createHash('sha256').update(token).digest('hex')}"], read_without_token: false }`,
    })
    const make = (headers, options) => ask(node, { p: '/v2/apps', method: 'POST', body: '{"name":"made"}', headers, ...options })
    const bearer = { Authorization: `Bearer ${token}` }
    try {
      await assert.rejects(make(bearer))
      await assert.rejects(make(bearer, files(leaf('client-1', { by: pki.other }))))
      const stranger = await make(bearer, files(leaf('runner-1')))
      assert.equal(stranger.status, 403)
      assert.match(stranger.text, /TLS805/)
      const nameless = await make({}, files(leaf('client-1')))
      assert.equal(nameless.status, 401)
      assert.match(nameless.text, /API1108/)
      const client = files(leaf('client-1'))
      const list = async () => JSON.parse((await ask(node, { p: '/v2/apps', headers: bearer, ...client })).text).items.map((a) => a.name)
      assert.deepEqual(await list(), [])
      assert.equal((await make(bearer, client)).status, 200)
      assert.deepEqual(await list(), ['made'])
    } finally {
      await node.stop()
    }
  })

  await t.test('renewed certificates are for new connections, the old ones live on', async () => {
    const node = await startHttps()
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 })
    try {
      assert.equal((await call(node, { agent })).peer, 'web-1')
      const next = leaf('web-2', { key: pki.newKey('next', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256') })
      node.replace('cert.pem', readFileSync(next.cert)) // without its key: changes nothing
      node.signal('SIGHUP')
      await until('it says so', () => /renewed certificates cannot be used.*TLS802/.test(node.log))
      assert.equal((await ask(node)).peer, 'web-1')
      node.replace('key.pem', readFileSync(next.key))
      node.signal('SIGHUP')
      await until('it has them', () => node.log.includes('certificates renewed'))
      assert.equal((await ask(node)).peer, 'web-2')
      assert.equal((await call(node, { agent })).peer, 'web-1')
    } finally {
      agent.destroy()
      await node.stop()
    }
  })

  await t.test('the revoked are refused from the next list on', async () => {
    const good = leaf('client-1')
    const bad = leaf('client-2')
    const crl = path.join(tempDir(), 'crl.pem')
    writeFileSync(crl, pki.list())
    const node = await startHttps({ entry: [`ca: ${pki.ca.cert}`, `crl: ${crl}`] })
    try {
      for (const c of [good, bad]) assert.equal((await call(node, files(c))).status, 200)
      writeFileSync(crl, pki.list(pki.ca, [], -1))
      node.signal('SIGHUP')
      await until('an old list changes nothing', () => /renewed certificates cannot be used.*TLS807/.test(node.log))
      assert.equal((await call(node, files(good))).status, 200)
      writeFileSync(crl, pki.list(pki.ca, [bad]))
      node.signal('SIGHUP')
      await until('it has the list', () => node.log.includes('revocation lists renewed'))
      await assert.rejects(call(node, files(bad)))
      assert.equal((await call(node, files(good))).status, 200)
      assert.match(node.log, /a handshake failed.*certificate revoked/)
    } finally {
      await node.stop()
    }
  })

  await t.test('an entry that is not there, a list that has ended: the node does not start', async () => {
    const old = path.join(tempDir(), 'crl.pem')
    writeFileSync(old, pki.list(pki.ca, [], -1))
    for (const [options, text] of [
      [{ http: 'tls: wed' }, /tls, got "wed"; expected the name of an entry of tls:, such as web/],
      [{ entry: [`ca: ${pki.ca.cert}`, `crl: ${old}`] }, /TLS807 .*ended 2025-01-02/],
    ]) {
      const node = await startHttps({ ...options, wait: false })
      await node.ended
      assert.equal(node.exit.code, 78, node.log)
      assert.match(node.log, text)
      await node.stop()
    }
  })
})

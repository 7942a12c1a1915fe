// HTTPS on the web port: who believes whom, plain text at that port, renewed and revoked certificates.
import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import path from 'node:path'
import { test } from 'node:test'
import tls from 'node:tls'
import { Pki } from './lib/certs.mjs'
import { appsYaml, fnId } from './lib/cluster.mjs'
import { raw } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

const pki = new Pki()
const ca = readFileSync(pki.ca.cert)
const leaf = (cn, { by = pki.ca, key } = {}) => pki.issue({ cn, by, key, ext: [`subjectAltName=URI:spiffe://fnd/${cn},DNS:localhost,IP:127.0.0.1`] })
const files = (c) => ({ cert: readFileSync(c.cert), key: readFileSync(c.key) })

// entry: further lines of the entry of tls:; the files are the node's own, to be replaced.
async function start({ name = 'web', entry = [], http = `tls: ${name}`, wait = true } = {}) {
  const dir = tempDir()
  const port = await freePort()
  const own = leaf('web-1')
  copyFileSync(own.cert, path.join(dir, 'cert.pem'))
  copyFileSync(own.key, path.join(dir, 'key.pem'))
  const node = await Fnd.start('full', port, `
http: { listen: "127.0.0.1:${port}"${http ? `, ${http}` : ''} }
admin: { socket: ${dir}/admin.sock }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { driver: { use: process, root: ${path.join(build, 'functions')} } }
runner: { iofs_path: ${tempDir()}, writable_root: true }
tls:
  ${name}:
    cert: ${dir}/cert.pem
    key: ${dir}/key.pem
${entry.map((l) => `    ${l.replace('DIR', dir)}`).join('\n')}
${appsYaml({ hello: {} })}`, { wait: false, env: wait ? {} : { ASAN_OPTIONS: 'detect_leaks=0' } }) // one that does not start frees nothing
  node.files = dir
  node.replace = (file, text) => {
    writeFileSync(path.join(dir, `${file}.new`), text, { mode: 0o600 })
    renameSync(path.join(dir, `${file}.new`), path.join(dir, file))
  }
  if (wait) {
    const listening = () => new Promise((resolve) => {
      const s = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false })
      s.on('error', () => resolve(!!node.exit))
      s.on('secureConnect', () => { s.destroy(); resolve(true) })
    })
    await until('the node listens', listening, 20_000)
    assert.equal(node.exit, null, node.log)
  }
  return node
}

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
    const node = await start()
    try {
      assert.equal((await call(node)).status, 200)
      await assert.rejects(call(node, { ca: readFileSync(pki.other.cert) }), /certificate|signature/)
      await assert.rejects(ask(node, { servername: 'elsewhere.test', checkServerIdentity: tls.checkServerIdentity }), /elsewhere/)
      for (const maxVersion of ['TLSv1', 'TLSv1.1']) await assert.rejects(ask(node, { minVersion: maxVersion, maxVersion, ciphers: 'DEFAULT@SECLEVEL=0' }))
      for (const [offered, chosen] of [[['h2', 'http/1.1'], 'http/1.1'], [['h2'], false], [undefined, false]]) {
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
    const node = await start({ name: 'TLSWebServer', http: '', entry: [`ca: ${pki.ca.cert}`, 'peers: ["spiffe://fnd/client-*"]'] })
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

  await t.test('renewed certificates are for new connections, the old ones live on', async () => {
    const node = await start()
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
    const node = await start({ entry: [`ca: ${pki.ca.cert}`, `crl: ${crl}`] })
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
      const node = await start({ ...options, wait: false })
      await node.ended
      assert.equal(node.exit.code, 78, node.log)
      assert.match(node.log, text)
      await node.stop()
    }
  })
})

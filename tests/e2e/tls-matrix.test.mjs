// Every kind of certificate at every gRPC port and from every dialling side (docs/tls.md, the table).
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import http2 from 'node:http2'
import path from 'node:path'
import { test } from 'node:test'
import tls from 'node:tls'
import { Pki } from './lib/certs.mjs'
import { startLb } from './lib/cluster.mjs'
import { Scripted } from './lib/cplane.mjs'
import { Client, demand } from './lib/grpc.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

// port: as a client at our ports; dial: as a server that we dial. The manager also asks whose demand it is.
const TABLE = {
  'valid': { port: true, dial: true },
  'expired': {},
  'not yet valid': {},
  'another authority of the same name': {},
  'self-signed': {},
  'right authority, wrong role': {},
  'right role, wrong id': { port: true, demand: false },
  'wildcard': {},
  'NUL in the name': {},
  'another case': {},
  'common name only': { port: true },
  'alternative names only': { port: true, dial: true },
  'two URIs': { port: true, dial: true },
  'not for clients': { dial: true },
  'not for servers': { port: true },
  'an authority itself': { port: true, dial: true },
  'path too long': {},
  'intermediate missing': {},
  'intermediate sent along': { port: true, dial: true },
  'RSA of 1024 bits': {},
  'signed with SHA-1': {},
  'revoked': {},
  'none': {},
}
const NAME = 'peer.test'
const WEAK = 'DEFAULT@SECLEVEL=0' // what the peer shows is ours to refuse, not its library's

const pki = new Pki()
const ca = readFileSync(pki.ca.cert)
const ours = (role) => pki.issue({ cn: `${role}-1`, by: pki.ca, ext: [`subjectAltName=URI:spiffe://fnd/${role}-1,DNS:${NAME}`] })
const files = (c) => (c ? { cert: readFileSync(c.cert), key: readFileSync(c.key) } : {})
// lists: "" for who knows nothing of revoked ones.
const tlsYaml = (own, role, lists = `crl: ${pki.lists()}`) => `tls:
  node:
    cert: ${own.cert}
    key: ${own.key}
    ca: ${pki.ca.cert}
    ${lists}
    server_name: ${NAME}
    peers: ["spiffe://fnd/${role}-*", "${role}-*"]
`

async function ask(port, cert, call) {
  const client = new Client(`https://127.0.0.1:${port}`, { ...files(cert), ca, servername: NAME, ciphers: WEAK })
  try {
    return await call(client)
  } finally {
    client.close()
  }
}

test('a runner\'s port', async (t) => {
  const certs = pki.cases('lb', NAME)
  const grpc = await freePort()
  const port = await freePort()
  const runner = await Fnd.start('runner', port, `
node: pure-runner
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${grpc}", tls: node }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { driver: { use: process, root: ${path.join(build, 'functions')} } }
runner: { iofs_path: ${tempDir()}, writable_root: true }
${tlsYaml(ours('runner'), 'lb')}`)
  t.after(() => runner.stop())
  for (const [what, expected] of Object.entries(TABLE)) {
    const a = await ask(grpc, certs[what], (c) => c.call('/RunnerProtocol/Status', Buffer.alloc(0)))
    assert.equal(a.status === 0, !!expected.port, `${what}: ${a.status} ${a.text}`)
  }
  assert.match(runner.log, /TLS805 peer spiffe:\/\/fnd\/stranger-1 may not use this port/)
  assert.equal((await ask(grpc, certs.valid, (c) => c.call('/RunnerProtocol/Status', Buffer.alloc(0)))).status, 0)

  // Old protocols, and TLS without HTTP/2.
  const refused = (options) => new Promise((resolve) => {
    const s = tls.connect({ port: grpc, host: '127.0.0.1', servername: NAME, ca, ...files(certs.valid), ciphers: WEAK, ...options })
    s.on('error', () => resolve(true))
    s.on('close', () => resolve(true))
    s.on('data', () => { s.destroy(); resolve(false) }) // the server's SETTINGS
  })
  assert.equal(await refused({ ALPNProtocols: ['h2'] }), false)
  for (const version of ['TLSv1', 'TLSv1.1']) assert.ok(await refused({ ALPNProtocols: ['h2'], minVersion: version, maxVersion: version }))
  assert.ok(await refused({ ALPNProtocols: ['http/1.1'] }))
  assert.ok(await refused({}))
})

// A server per case; `seen` when somebody speaks HTTP/2 to it, `dials` when somebody tried.
async function fakes() {
  const certs = pki.cases('runner', NAME)
  const out = {}
  for (const what of Object.keys(TABLE)) {
    const f = { seen: 0, dials: 0 }
    f.server = certs[what]
      ? http2.createSecureServer({ ...files(certs[what]), ca, requestCert: true, rejectUnauthorized: false, ciphers: WEAK })
      : http2.createServer()
    f.server.on('session', (s) => {
      s.on('error', () => {})
      s.on('remoteSettings', () => { f.seen++ })
    })
    f.server.on('stream', (s) => {
      s.on('error', () => {})
      s.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '12' }, { endStream: true })
    })
    f.server.on('connection', () => { f.dials++ })
    f.server.on('sessionError', () => {})
    await new Promise((r) => f.server.listen(0, '127.0.0.1', r))
    f.address = `127.0.0.1:${f.server.address().port}`
    out[what] = f
  }
  return out
}

async function checkDials(all, table = TABLE) {
  await until('all were dialled twice, the good ones reached', () => Object.entries(all).every(([what, f]) => (table[what].dial ? f.seen > 0 : f.dials >= 2)), 20_000)
  for (const [what, f] of Object.entries(all)) assert.equal(f.seen > 0, !!table[what].dial, what)
}

test('servers that a load balancer dials', async () => {
  const all = await fakes()
  const lb = await startLb({ addresses: Object.values(all).map((f) => f.address), functions: { hello: {} },
    more: `grpc: { tls: node, reconnect_max: 100ms }\n${tlsYaml(ours('lb'), 'runner')}` })
  try {
    await checkDials(all)
    assert.equal(await lb.metric('fn_lb_runners_up'), Object.values(TABLE).filter((x) => x.dial).length)
    assert.match(lb.log, /TLS805 a server's certificate names none of the peers/)
  } finally {
    await lb.stop()
    for (const f of Object.values(all)) f.server.close()
  }
})

test('a manager\'s port, and the runners that it dials', async () => {
  const certs = pki.cases('lb', NAME)
  const all = await fakes()
  const e = await Scripted.start({ npm: { group_runners_max: 100, boot_timeout: '1h' }, grpc: ', server_tls: node, client_tls: runners',
    more: `${tlsYaml(ours('npm'), 'lb')}${tlsYaml(ours('npm'), 'runner', '').split('\n').slice(1).join('\n').replace('node:', 'runners:')}` })
  try {
    e.list(...Object.values(all).map((f, i) => [`m-${i}`, f.address]))
    for (const [what, expected] of Object.entries(TABLE)) {
      const a = await ask(e.grpc, certs[what], (c) => c.call('/fnd.Pool/Advertise', demand('lb-1', 1, ['default', 1])))
      assert.equal(a.status === 0, !!expected.port && expected.demand !== false, `${what}: ${a.status} ${a.text}`)
      if (expected.demand === false) assert.match(a.text, /NPM503/)
    }
    // 2018's protocol has the same door.
    for (const [what, status] of [['valid', 0], ['right authority, wrong role', 7]]) {
      const a = await ask(e.grpc, certs[what], (c) => c.call('/NodePoolScaler/AdvertiseCapacity', Buffer.concat([Buffer.from([0x12, 4]), Buffer.from('lb-1')])))
      assert.equal(a.status, status, `${what}: ${a.text}`)
    }
    assert.match(e.npm.log, /TLS805 peer spiffe:\/\/fnd\/stranger-1 may not use this port/)
    // A certificate that proves no single name speaks for nobody.
    const nameless = pki.issue({ cn: '', by: pki.ca, ext: ['subjectAltName=DNS:lb-9.test'] })
    const a = await ask(e.grpc, nameless, (c) => c.call('/fnd.Pool/Advertise', demand('lb-1', 2, ['default', 1])))
    assert.equal(a.status, 7, a.text)
    await checkDials(all, { ...TABLE, revoked: { dial: true } })
  } finally {
    await e.stop()
    for (const f of Object.values(all)) f.server.close()
  }
})

// Ways in which TLS becomes weaker after a good handshake: renegotiation, sessions that outlive what was believed when they
// began, data before the end of a handshake. No port of a node goes along.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import tls from 'node:tls'
import { fnId } from './lib/cluster.mjs'
import { ca, files, leaf, pki, startHttps } from './lib/https.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

const noOpenssl = spawnSync('openssl', ['version']).status !== 0 && 'the command openssl is not installed'
const dir = tempDir()
const client = leaf('lb-1')
let web, runner

async function startRunner() {
  const [port, grpc] = [await freePort(), await freePort()]
  const own = leaf('runner-1')
  runner = await Fnd.start('runner', port, `
node: pure-runner
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${grpc}", tls: node }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { driver: { use: process, root: ${path.join(build, 'functions')} } }
runner: { iofs_path: ${tempDir()}, writable_root: true }
tls:
  node: { cert: ${own.cert}, key: ${own.key}, ca: ${pki.ca.cert} }
`)
  runner.grpcPort = grpc
}

before(async () => {
  web = await startHttps()
  await startRunner()
})
after(() => Promise.all([web, runner].map((node) => node?.stop())))

// Each port, with what a client needs there.
const ports = [
  ['HTTPS', () => web.port, 'http/1.1'],
  ['gRPC', () => runner.grpcPort, 'h2'],
]
const dial = (port, alpn, options) => new Promise((resolve, reject) => {
  const s = tls.connect({ host: '127.0.0.1', port, ca, ...files(client), ALPNProtocols: [alpn], checkServerIdentity: () => undefined, ...options })
  s.sessions = []
  s.on('session', (session) => s.sessions.push(session))
  s.on('secureConnect', () => resolve(s)).on('error', reject)
})

for (const [name, port, alpn] of ports) {
  describe(`the port for ${name}`, () => {
    it('does not renegotiate', async () => {
      const s = await dial(port(), alpn, { maxVersion: 'TLSv1.2' })
      const error = await new Promise((resolve) => {
        s.on('error', resolve)
        s.renegotiate({ rejectUnauthorized: false }, (e) => resolve(e))
      })
      assert.match(String(error), /no.renegotiation/i)
      s.destroy()
    })

    for (const version of ['TLSv1.2', 'TLSv1.3']) {
      it(`resumes no session of ${version}, and gives no ticket`, async () => {
        const s = await dial(port(), alpn, { minVersion: version, maxVersion: version })
        assert.equal(s.getProtocol(), version)
        // What it says first comes behind any ticket: the answer to a request, or the settings of HTTP/2.
        s.write(alpn === 'h2' ? 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0' : 'GET /version HTTP/1.1\r\nHost: a\r\n\r\n')
        await new Promise((resolve, reject) => s.once('data', resolve).once('error', reject))
        if (version === 'TLSv1.3') assert.equal(s.sessions.length, 0)
        assert.equal(s.getTLSTicket(), undefined)
        const again = await dial(port(), alpn, { minVersion: version, maxVersion: version, session: s.getSession() })
        assert.equal(again.isSessionReused(), false)
        for (const socket of [s, again]) socket.destroy()
      })
    }
  })
}

// What a port itself gives, which should be nothing; it comes before the first word of whoever answers.
async function sessionOf(port, alpn, file, words) {
  const s = spawn('openssl', ['s_client', '-connect', `127.0.0.1:${port}`, '-tls1_3', '-alpn', alpn, '-cert', client.cert, '-key', client.key, '-sess_out', file])
  let said = ''
  s.stdout.on('data', (data) => { said += data })
  await until('the handshake is over', () => said.includes('Verify return code'))
  s.stdin.write(words)
  await until('it answers', () => said.length > said.indexOf('---', said.indexOf('Verify return code')) + '---\n'.length)
  s.kill()
  await new Promise((resolve) => s.once('close', resolve))
}

// A session that allows early data, from a server that gives such ones under the same certificate.
async function sessionOfAnother(alpn, file) {
  const port = await freePort()
  const own = leaf('runner-1')
  const server = spawn('openssl', ['s_server', '-accept', `127.0.0.1:${port}`, '-cert', own.cert, '-key', own.key, '-tls1_3', '-early_data', '-alpn', alpn])
  let said = ''
  server.stdout.on('data', (data) => { said += data })
  try {
    await until('openssl listens', () => said.includes('ACCEPT'))
    const s = spawn('openssl', ['s_client', '-connect', `127.0.0.1:${port}`, '-tls1_3', '-alpn', alpn, '-sess_out', file])
    await until('it has a session', () => existsSync(file))
    s.kill()
    await new Promise((resolve) => s.once('close', resolve))
  } finally {
    server.kill()
  }
}

describe('early data', { skip: noOpenssl }, () => {
  for (const [name, port, alpn] of ports) {
    it(`the port for ${name} takes none`, async () => {
      const [session, data] = [`${alpn.slice(0, 2)}.session`, `${alpn.slice(0, 2)}.data`].map((file) => path.join(dir, file))
      const call = `POST /invoke/${fnId('hello')} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}`
      const words = alpn === 'h2' ? 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0' : call
      writeFileSync(data, words)
      await sessionOf(port(), alpn, session, words)
      assert.ok(!existsSync(session), 'no session that could bring any')
      await sessionOfAnother(alpn, session)
      const s = spawn('openssl', ['s_client', '-connect', `127.0.0.1:${port()}`, '-tls1_3', '-alpn', alpn, '-cert', client.cert, '-key', client.key,
        '-sess_in', session, '-early_data', data])
      let said = ''
      s.stdout.on('data', (bytes) => { said += bytes })
      s.stderr.on('data', (bytes) => { said += bytes })
      await until('the handshake is over', () => /Early data was/.test(said))
      s.kill()
      await new Promise((resolve) => s.once('close', resolve))
      assert.match(said, /Early data was rejected/)
      assert.match(said, /New, TLSv1\.3/)
      assert.doesNotMatch(said, /HTTP\/1\.1 200/)
    })
  }
})

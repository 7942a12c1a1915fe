// A container engine at tcp:// behind TLS, as Docker's own programs reach it: the tests' engine behind a proxy that
// asks for certificates.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import tls from 'node:tls'
import { Pki } from './lib/certs.mjs'
import { fnId, startCluster } from './lib/cluster.mjs'
import { noEngine as skip, socketPath } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { build, Fnd, freePort, tempDir, until } from './lib/node.mjs'

const image = 'fnd/hello:latest'

// What lets a connection through to the engine and remembers who came.
class Proxy {
  names = []
  sockets = new Set()

  async start(options) {
    const serve = (socket) => {
      const up = net.connect(socketPath)
      this.names.push(socket.getPeerCertificate?.()?.subject?.CN ?? '')
      for (const [one, other] of [[socket, up], [up, socket]]) {
        this.sockets.add(one)
        one.pipe(other)
        one.on('error', () => other.destroy())
        one.on('close', () => { this.sockets.delete(one); other.destroy() })
      }
    }
    this.server = options ? tls.createServer(options, serve) : net.createServer(serve)
    this.server.on('tlsClientError', () => {})
    await new Promise((done) => this.server.listen(0, '127.0.0.1', done))
    this.port = this.server.address().port
    return this
  }

  cut() {
    for (const socket of this.sockets) socket.destroy()
  }

  stop() {
    this.cut()
    this.server.close()
  }
}

describe('an engine behind TLS', { skip }, () => {
  const pki = new Pki()
  const server = pki.issue({ cn: 'engine', by: pki.ca, ext: ['subjectAltName=DNS:localhost,IP:127.0.0.1'] })
  const elsewhere = pki.issue({ cn: 'engine', by: pki.ca, ext: ['subjectAltName=DNS:elsewhere.test'] })
  const client = pki.issue({ cn: 'runner-1', by: pki.ca, ext: ['extendedKeyUsage=clientAuth'] })
  const renewed = pki.issue({ cn: 'runner-1 again', by: pki.ca, ext: ['extendedKeyUsage=clientAuth'] })
  const stranger = pki.issue({ cn: 'stranger', by: pki.other })
  const asks = (cert) => ({ cert: readFileSync(cert.cert), key: readFileSync(cert.key), ca: readFileSync(pki.ca.own), requestCert: true, rejectUnauthorized: true })
  const proxies = []
  const proxy = async (options) => {
    const p = await new Proxy().start(options)
    proxies.push(p)
    return p
  }
  // A server that says by an alert whom it does not accept, as engines do.
  const openssl = async (cert) => {
    const port = await freePort()
    const child = spawn('openssl', ['s_server', '-accept', `127.0.0.1:${port}`, '-cert', cert.cert, '-key', cert.key, '-CAfile', pki.ca.own,
      '-Verify', '1', '-verify_return_error', '-www'], { stdio: ['ignore', 'pipe', 'ignore'] })
    let said = ''
    child.stdout.on('data', (piece) => { said += piece })
    proxies.push({ stop: () => child.kill() })
    await until('openssl listens', () => said.includes('ACCEPT'))
    return { port }
  }
  // A directory as DOCKER_CERT_PATH names it.
  const certPath = (ca, own) => {
    const dir = path.join(tempDir(), 'docker')
    mkdirSync(dir)
    copyFileSync(ca.own, path.join(dir, 'ca.pem'))
    copyFileSync(own.cert, path.join(dir, 'cert.pem'))
    copyFileSync(own.key, path.join(dir, 'key.pem'))
    return dir
  }
  const driver = (port, dir, host = '127.0.0.1') => `driver: { use: docker, docker_host: "tcp://${host}:${port}", tls_verify: true, cert_path: ${dir} }`
  const cluster = (options) => startCluster({ functions: { hello: { image, memory: 64 } }, runnerOptions: { runner: `owner: e2e-tls-${process.pid}`, ...options } })
  // The log of a runner that ends because it cannot reach its engine.
  const refused = async (text, code = 69) => {
    const port = await freePort()
    const runner = await Fnd.start('runner', port, `
node: pure-runner
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${await freePort()}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { ${text} }
runner: { iofs_path: ${tempDir()} }
`, { wait: false })
    assert.deepEqual(await runner.ended, { code, signal: null }, runner.log)
    return runner.log
  }
  let engine

  before(async () => { engine = await proxy(asks(server)) })
  after(() => proxies.forEach((p) => p.stop()))

  it('runs functions, and takes renewed files for new connections', async () => {
    const dir = certPath(pki.ca, client)
    const nodes = await cluster({ driver: driver(engine.port, dir) })
    try {
      assert.equal((await invoke(nodes.lb, fnId('hello'))).status, 200)
      assert.ok(engine.names.length > 0 && engine.names.every((n) => n === 'runner-1'), engine.names.join())
      copyFileSync(renewed.cert, path.join(dir, 'cert.pem'))
      engine.cut()
      await until('a connection with the new certificate', () => engine.names.includes('runner-1 again'))
    } finally {
      await nodes.stop()
    }
  })

  it('is found by Docker\'s own variables', async () => {
    engine.names.length = 0
    const nodes = await cluster({
      driver: 'driver: { use: docker }',
      env: { DOCKER_HOST: `tcp://localhost:${engine.port}`, DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: certPath(pki.ca, client) },
    })
    try {
      assert.equal((await invoke(nodes.lb, fnId('hello'))).status, 200)
      assert.ok(engine.names.includes('runner-1'))
    } finally {
      await nodes.stop()
    }
  })

  it('is refused with one sentence for each reason', async () => {
    const plain = await proxy()
    const other = await proxy(asks(elsewhere))
    const strict = await openssl(server)
    const good = certPath(pki.ca, client)
    const missing = certPath(pki.ca, client)
    rmSync(path.join(missing, 'key.pem'))
    const before_ = engine.names.length
    const reasons = [
      [driver(engine.port, certPath(pki.other, client)), /DOC1001 https:\/\/127\.0\.0\.1:\d+\/_ping: its certificate is not trusted by \S*ca\.pem: /],
      [driver(other.port, good), /DOC1001 https:\/\/\S+: its certificate does not have that name: /],
      [driver(plain.port, good), /DOC1001 https:\/\/\S+: (nobody speaks TLS there|no TLS connection)/],
      [driver(engine.port, certPath(pki.ca, stranger)), /DOC1001 https:\/\/\S+: ended the connection without a word; does it accept \S*cert\.pem\?/],
      [driver(strict.port, certPath(pki.ca, stranger)), /DOC1001 https:\/\/\S+: does not accept this node's certificate: .*alert/],
    ]
    for (const [text, sentence] of reasons) assert.match(await refused(text), sentence)
    assert.match(await refused(driver(engine.port, missing), 78), /cert_path, got no \S*key\.pem: No such file or directory; expected ca\.pem, cert\.pem and key\.pem/)
    assert.equal(engine.names.length, before_, 'nobody came through')
  })
})

// A container registry (HTTP API V2) of our own making, which does wrong when it is told to. It listens on a
// socket; Engine.forward() makes it a port of an engine's own machine.
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { tempDir } from './node.mjs'

const MANIFEST = 'application/vnd.docker.distribution.manifest.v2+json'
const CONFIG = 'application/vnd.docker.container.image.v1+json'
const LAYER = 'application/vnd.docker.image.rootfs.diff.tar.gzip'
const PADDING = 64 << 10 // of a layer, which cannot be compressed

const digestOf = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

// ---- images -----------------------------------------------------------------------------------

// One layer with a static executable, and with bytes that no other image has, so that it is always pulled.
function layerOf(executable) {
  const dir = path.join(tempDir(), 'root')
  mkdirSync(path.join(dir, 'tmp'), { recursive: true })
  chmodSync(path.join(dir, 'tmp'), 0o1777)
  copyFileSync(executable, path.join(dir, 'function'))
  writeFileSync(path.join(dir, 'padding'), randomBytes(PADDING))
  const tar = execFileSync('tar', ['-C', dir, '--owner=0', '--group=0', '-cf', '-', '.'], { maxBuffer: 1 << 30 })
  return { diff: digestOf(tar), blob: gzipSync(tar) }
}

function imageOf(executable) {
  const layer = layerOf(executable)
  const config = Buffer.from(JSON.stringify({
    architecture: process.arch === 'x64' ? 'amd64' : process.arch, os: 'linux', config: { Entrypoint: ['/function'] },
    rootfs: { type: 'layers', diff_ids: [layer.diff] },
  }))
  const manifest = Buffer.from(JSON.stringify({
    schemaVersion: 2, mediaType: MANIFEST,
    config: { mediaType: CONFIG, size: config.length, digest: digestOf(config) },
    layers: [{ mediaType: LAYER, size: layer.blob.length, digest: digestOf(layer.blob) }],
  }))
  return { manifest, blobs: [config, layer.blob] }
}

// ---- what may go wrong ------------------------------------------------------------------------

// Each is given the answer { res, bytes, type } in the place of being sent.
export const faults = {
  status: (code, error, headers = {}) => ({ res }) => {
    res.writeHead(code, { 'content-type': 'application/json', ...headers })
    res.end(error === undefined ? '' : JSON.stringify({ errors: [error] }))
  },
  // Bytes that are none of the API's.
  garbage: (code, text) => ({ res }) => res.writeHead(code, { 'content-type': 'text/html' }).end(text),
  // No head ever.
  silent: () => () => {},
  // The head, and then a byte a second.
  drip: () => ({ res, bytes, type }) => {
    res.writeHead(200, { 'content-type': type, 'content-length': bytes.length })
    let at = 0
    const timer = setInterval(() => res.write(bytes.subarray(at, ++at)), 1000)
    res.on('close', () => clearInterval(timer))
  },
  truncated: () => ({ res, bytes, type }) => {
    res.writeHead(200, { 'content-type': type, 'content-length': bytes.length })
    res.write(bytes.subarray(0, bytes.length / 2), () => res.destroy())
  },
  // As many other bytes.
  otherBytes: () => ({ res, bytes, type }) => {
    res.writeHead(200, { 'content-type': type, 'content-length': bytes.length }).end(Buffer.alloc(bytes.length, 'x'))
  },
  // Of one kind of blob: 'config' or 'layer'.
  only: (kind, fault) => (answer) => ((answer.bytes[0] === 0x7b) === (kind === 'config') ? fault(answer) : answer.send()),
  // Nothing until open() is called, and everything from then on.
  closed: () => {
    const waiting = []
    let isOpen = false
    const fault = (answer) => (isOpen ? answer.send() : waiting.push(answer))
    fault.open = () => {
      isOpen = true
      for (const answer of waiting) answer.send()
    }
    return fault
  },
}

// ---- the registry -----------------------------------------------------------------------------

// users: { name: password }; tokens: what it accepts as bearer. auth: 'basic', 'bearer', or nothing for everybody.
export class Registry {
  static async start({ auth, users = {}, tokens = [], tls } = {}) {
    const registry = new Registry()
    Object.assign(registry, { auth, users, tokens: new Set(tokens), scheme: tls ? 'https' : 'http', images: new Map(), blobs: new Map(), faults: new Map(), asked: [] })
    registry.socket = path.join(tempDir(), 'registry.sock')
    const serve = (req, res) => registry.#serve(req, res)
    registry.server = tls ? https.createServer(tls, serve) : http.createServer(serve)
    registry.server.on('tlsClientError', () => {})
    await new Promise((resolve) => registry.server.listen(registry.socket, resolve))
    return registry
  }

  // The digest by which it can be pulled.
  put(repository, executable, tag = 'latest') {
    const { manifest, blobs } = imageOf(executable)
    const digest = digestOf(manifest)
    for (const ref of [tag, digest]) this.images.set(`${repository}:${ref}`, manifest)
    for (const blob of blobs) this.blobs.set(digestOf(blob), blob)
    return digest
  }

  // what: 'manifests' or 'blobs'.
  fail(repository, what, fault) {
    this.faults.set(`${repository} ${what}`, fault)
    return fault
  }

  // How often something of a repository was asked for.
  count(repository, what) {
    return this.asked.filter((a) => a.repository === repository && a.what === what).length
  }

  #serve(req, res) {
    const chunks = []
    req.on('data', (c) => chunks.push(c))
    req.on('end', () => {
      const { pathname } = new URL(req.url, 'http://registry')
      if (pathname === '/token') return this.#token(req, res, new URLSearchParams(Buffer.concat(chunks).toString()))
      const [, repository, what, ref] = /^\/v2\/(.+)\/(manifests|blobs)\/([^/]+)$/.exec(pathname) ?? []
      this.asked.push({ repository, what, ref, authorization: req.headers.authorization })
      if (!this.#admits(req)) return this.#challenge(req, res, repository)
      if (pathname === '/v2/') return res.writeHead(200, { 'docker-distribution-api-version': 'registry/2.0' }).end('{}')
      return this.#give(req, res, repository, what, ref)
    })
  }

  #give(req, res, repository, what, ref) {
    const bytes = what === 'manifests' ? this.images.get(`${repository}:${ref}`) : this.blobs.get(ref)
    const type = what === 'manifests' ? MANIFEST : 'application/octet-stream'
    const send = () => {
      if (!bytes) return faults.status(404, { code: what === 'manifests' ? 'MANIFEST_UNKNOWN' : 'BLOB_UNKNOWN', message: 'not here' })({ res })
      res.writeHead(200, { 'content-type': type, 'content-length': bytes.length, 'docker-content-digest': digestOf(bytes) })
      return res.end(req.method === 'HEAD' ? undefined : bytes)
    }
    const fault = this.faults.get(`${repository} ${what}`)
    return fault ? fault({ res, bytes, type, send }) : send()
  }

  // ---- who may -------------------------------------------------------------------------------

  #isUser(authorization) {
    const [user, ...password] = Buffer.from(/^Basic (.*)$/.exec(authorization ?? '')?.[1] ?? '', 'base64').toString().split(':')
    return Object.hasOwn(this.users, user) && this.users[user] === password.join(':')
  }

  #admits(req) {
    if (!this.auth) return true
    if (this.auth === 'basic') return this.#isUser(req.headers.authorization)
    return this.tokens.has(/^Bearer (.*)$/.exec(req.headers.authorization ?? '')?.[1])
  }

  #challenge(req, res, repository) {
    const realm = this.auth === 'basic' ? 'Basic realm="registry"'
      : `Bearer realm="${this.scheme}://${req.headers.host}/token",service="registry"${repository ? `,scope="repository:${repository}:pull"` : ''}`
    faults.status(401, { code: 'UNAUTHORIZED', message: 'authentication required' }, { 'www-authenticate': realm })({ res })
  }

  // A password, or a refresh token (Docker's identity token), becomes a token.
  #token(req, res, form) {
    this.asked.push({ what: 'token', authorization: req.headers.authorization })
    const known = form.get('grant_type') === 'refresh_token' ? this.users['<refresh>'] === form.get('refresh_token') : this.#isUser(req.headers.authorization)
    if (!known) return faults.status(401, { code: 'UNAUTHORIZED', message: 'incorrect username or password' })({ res })
    const token = randomBytes(16).toString('hex')
    this.tokens.add(token)
    return res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ token, access_token: token, expires_in: 300 }))
  }

  stop() {
    this.server.close()
    this.server.closeAllConnections?.()
  }
}

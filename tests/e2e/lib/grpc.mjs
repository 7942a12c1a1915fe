// gRPC and protobuf by hand, for peers that misbehave: a unary or streaming call to a real node, and a
// server that answers whatever a test wants.
import http2 from 'node:http2'

// ---- protobuf ---------------------------------------------------------------------------------

export function varint(value) {
  const bytes = []
  for (let v = BigInt.asUintN(64, BigInt(value)); ; v >>= 7n) {
    if (v < 128n) return Buffer.from([...bytes, Number(v)])
    bytes.push(Number(v & 127n) | 128)
  }
}

// [number, value] pairs: a text or Buffer is length-delimited, a number or BigInt a varint.
export function message(...fields) {
  return Buffer.concat(fields.flatMap(([no, value]) => {
    if (typeof value === 'number' || typeof value === 'bigint') return [varint(no << 3), varint(value)]
    const bytes = Buffer.from(value)
    return [varint((no << 3) | 2), varint(bytes.length), bytes]
  }))
}

// The fields of a message: [[number, BigInt or Buffer]].
export function fields(bytes) {
  const out = []
  let at = 0
  const next = () => {
    let v = 0n
    for (let shift = 0n; ; shift += 7n) {
      const b = bytes[at++]
      v |= BigInt(b & 127) << shift
      if (b < 128) return v
    }
  }
  while (at < bytes.length) {
    const key = Number(next())
    if ((key & 7) === 0) out.push([key >> 3, next()])
    else {
      const len = Number(next())
      out.push([key >> 3, bytes.subarray(at, at += len)])
    }
  }
  return out
}

export const demand = (lb, seq, ...groups) => message([1, lb], [2, seq],
  ...groups.map(([group, mb, waiting = 0]) => [3, message([1, group], [2, mb], [3, waiting])]))

export const membership = ({ epoch, version, group = 'default', members = [] }) => message([1, epoch], [2, version], [3, group],
  ...members.map((m) => [4, message([1, m.id], [2, m.address], [3, m.mb ?? 256], [4, m.draining ? 1 : 0])]))

export const frame = (bytes) => Buffer.concat([Buffer.from([0, bytes.length >>> 24, (bytes.length >> 16) & 255, (bytes.length >> 8) & 255, bytes.length & 255]), bytes])

// ---- client -----------------------------------------------------------------------------------

export class Client {
  constructor(target, options = {}) {
    this.session = http2.connect(target, { ALPNProtocols: ['h2'], ...options })
    this.failed = new Promise((resolve) => {
      this.session.once('error', resolve)
      this.session.once('close', () => resolve(new Error('closed')))
    })
  }

  // { status, text, messages }; status -1: the connection failed.
  call(path, bytes, { raw = false } = {}) {
    const answer = new Promise((resolve) => {
      const stream = this.session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' })
      const parts = []
      let head = {}
      stream.on('response', (h) => { head = h })
      stream.on('trailers', (h) => { head = { ...head, ...h } })
      stream.on('data', (d) => parts.push(d))
      stream.on('error', (e) => resolve({ status: -1, text: e.message, messages: [] }))
      stream.on('close', () => resolve({
        status: Number(head['grpc-status'] ?? -1),
        text: decodeURIComponent(head['grpc-message'] ?? ''),
        messages: messagesOf(Buffer.concat(parts)),
      }))
      stream.end(raw ? bytes : frame(bytes))
    })
    return Promise.race([answer, this.failed.then((e) => ({ status: -1, text: e.message, messages: [] }))])
  }

  close() {
    this.session.destroy()
  }
}

export function messagesOf(bytes) {
  const out = []
  for (let at = 0; at + 5 <= bytes.length;) {
    const len = bytes.readUInt32BE(at + 1)
    out.push(bytes.subarray(at + 5, at + 5 + len))
    at += 5 + len
  }
  return out
}

// ---- server -----------------------------------------------------------------------------------

// A manager that says what it is told. `watches` are the open streams of /fnd.Pool/Watch.
export class FakeManager {
  static async start({ tls } = {}) {
    const m = new FakeManager()
    Object.assign(m, { watches: new Set(), sessions: new Set(), demands: 0, refuseWatch: 0, last: null })
    m.server = tls ? http2.createSecureServer({ ALPNProtocols: ['h2'], ...tls }) : http2.createServer()
    m.server.on('session', (s) => {
      m.sessions.add(s)
      s.on('error', () => {})
      s.on('close', () => m.sessions.delete(s))
    })
    m.server.on('stream', (stream, headers) => m.#stream(stream, headers[':path']))
    await new Promise((resolve) => m.server.listen(0, '127.0.0.1', resolve))
    m.port = m.server.address().port
    return m
  }

  #stream(stream, path) {
    const end = (status) => {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': String(status) }, { endStream: true })
    }
    stream.on('error', () => {})
    stream.resume()
    if (path === '/fnd.Pool/Advertise') {
      this.demands++
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
      stream.end(frame(Buffer.alloc(0)))
    } else if (path !== '/fnd.Pool/Watch') {
      end(12)
    } else if (this.refuseWatch) {
      this.refused = (this.refused ?? 0) + 1
      end(this.refuseWatch)
    } else {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' })
      this.watches.add(stream)
      stream.on('close', () => this.watches.delete(stream))
      if (this.last) stream.write(frame(this.last))
    }
  }

  // To every watcher, and first thing to those that come later.
  publish(bytes, { keep = true } = {}) {
    if (keep) this.last = bytes
    for (const w of this.watches) w.write(frame(bytes))
  }

  cut() {
    for (const s of this.sessions) s.destroy()
  }

  async stop() {
    this.cut()
    await new Promise((r) => this.server.close(r))
  }
}

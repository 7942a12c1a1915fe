// A collector of traces: takes OTLP over HTTP in protobuf, reads it with a decoder of its own, by the
// field numbers of OpenTelemetry's definition, and draws what it got as trees.
import http from 'node:http'

// ---- protobuf: [field, value] pairs; values are numbers, BigInts of 8 bytes, or Buffers
function* fields(buf) {
  let at = 0
  const varint = () => {
    let n = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = buf[at++]
      n |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return n
    }
  }
  while (at < buf.length) {
    const tag = Number(varint())
    const [field, type] = [tag >> 3, tag & 7]
    if (type === 0) yield [field, varint()]
    else if (type === 1) yield [field, buf.readBigUInt64LE((at += 8) - 8)]
    else if (type === 5) yield [field, buf.readUInt32LE((at += 4) - 4)]
    else if (type === 2) {
      const len = Number(varint())
      yield [field, buf.subarray(at, at += len)]
    } else throw new Error(`wire type ${type}`)
  }
}

// A message by its table: { field: ['name', read, 'many'?] }.
const message = (table) => (buf) => {
  const to = {}
  for (const [field, value] of fields(buf)) {
    if (!table[field]) throw new Error(`field ${field} is none of ${Object.values(table).map(([n]) => n)}`)
    const [name, read, many] = table[field]
    if (many) (to[name] ??= []).push(read(value))
    else to[name] = read(value)
  }
  return to
}

const text = (b) => new TextDecoder('utf-8', { fatal: true }).decode(b)
const hex = (b) => b.toString('hex')
const same = (v) => v
const anyValue = (buf) => {
  const [[field, value]] = fields(buf)
  return field === 1 ? text(value) : field === 2 ? value === 1n : field === 3 ? Number(value) : undefined
}
const keyValue = (buf) => {
  const parts = Object.fromEntries(fields(buf))
  return [text(parts[1]), parts[2] ? anyValue(parts[2]) : undefined]
}
const event = message({ 1: ['at', same], 2: ['name', text], 3: ['attributes', keyValue, true] })
const status = message({ 2: ['message', text], 3: ['code', Number] })
const span = message({
  1: ['traceId', hex], 2: ['id', hex], 3: ['state', text], 4: ['parent', hex], 5: ['name', text], 6: ['kind', Number], 7: ['start', same], 8: ['end', same],
  9: ['attributes', keyValue, true], 11: ['events', event, true], 15: ['status', status], 16: ['flags', same] })
const scope = message({ 1: ['name', text], 2: ['version', text] })
const scopeSpans = message({ 1: ['scope', scope], 2: ['spans', span, true] })
const resource = message({ 1: ['attributes', keyValue, true] })
const resourceSpans = message({ 1: ['resource', resource], 2: ['scopes', scopeSpans, true] })
const request = message({ 1: ['resources', resourceSpans, true] })

export class Collector {
  constructor() {
    this.spans = []
    this.requests = []
    this.status = 200
    this.answer = Buffer.alloc(0)
    this.silent = false
  }

  static async start() {
    const c = new Collector()
    c.server = http.createServer((req, res) => c.#take(req, res))
    await new Promise((resolve) => c.server.listen(0, '127.0.0.1', resolve))
    c.url = `http://127.0.0.1:${c.server.address().port}/v1/traces`
    return c
  }

  async #take(req, res) {
    const parts = []
    for await (const part of req) parts.push(part)
    this.requests.push({ url: req.url, method: req.method, headers: req.headers, status: this.status })
    if (this.silent) return
    if (this.status === 200) this.#read(Buffer.concat(parts))
    res.writeHead(this.status, { 'Content-Type': 'application/x-protobuf' })
    res.end(this.answer)
  }

  #read(body) {
    for (const { resource: of, scopes } of request(body).resources) {
      for (const { scope: by, spans } of scopes) {
        for (const s of spans) {
          this.spans.push({ ...s, by, resource: Object.fromEntries(of.attributes), attributes: Object.fromEntries(s.attributes ?? []),
            events: (s.events ?? []).map((e) => ({ ...e, attributes: Object.fromEntries(e.attributes ?? []) })), us: Number(s.end - s.start) / 1000 })
        }
      }
    }
  }

  // All spans of a call, by Fn-Call-Id.
  of(callId) {
    const ids = new Set(this.spans.filter((s) => s.attributes['faas.invocation_id'] === callId).map((s) => s.traceId))
    return this.spans.filter((s) => ids.has(s.traceId))
  }

  stop() {
    this.server.closeAllConnections?.()
    return new Promise((resolve) => this.server.close(resolve))
  }
}

// "service name[!error]" of each span, children indented, in the order of their begin.
export function tree(spans, from = undefined, depth = 0) {
  const known = new Set(spans.map((s) => s.id))
  const children = spans.filter((s) => (from ? s.parent === from.id : !known.has(s.parent)))
    .sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : spans.indexOf(a) - spans.indexOf(b)))
  return children.flatMap((s) => [
    `${'  '.repeat(depth)}${s.resource['service.name']} ${s.name}${s.status ? `!${s.attributes['error.type']}` : ''}`, ...tree(spans, s, depth + 1)])
}

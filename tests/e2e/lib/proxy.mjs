// A scripted fault proxy for TCP and unix sockets.
//
// Each direction counts the bytes that passed on a connection; a fault acts at a byte offset:
//   cut     reset both sides once `after` bytes went `from` a side ('client' or 'server')
//   stall   stop forwarding there, keep the connection
//   flip    change a bit of the next byte, and go on
//   refuse  close new connections at once
//   delay   hold every chunk for delayMs
//   narrow  let bytesPerS pass in each direction, delayMs late
// match: { text, fault } makes a fault of the moment when a client sends text; `matched` counts.
import net from 'node:net'

// A unix socket knows no reset.
function reset(socket) {
  if (socket.remotePort) socket.resetAndDestroy()
  else socket.destroy()
}

export class Proxy {
  constructor(target) {
    Object.assign(this, { target, fault: null, match: null, matched: 0, sockets: new Set(), connections: 0 })
    this.passed = { client: 0, server: 0 }
    this.server = net.createServer((client) => this.#accept(client))
  }

  // target: { port } or { path }; listen likewise.
  static async start(target, listen = { port: 0, host: '127.0.0.1' }) {
    const proxy = new Proxy(target)
    await new Promise((resolve, reject) => {
      proxy.server.once('error', reject)
      proxy.server.listen(listen, resolve)
    })
    proxy.port = proxy.server.address().port
    proxy.path = listen.path
    return proxy
  }

  #accept(client) {
    this.connections++
    if (this.fault?.kind === 'refuse') return client.destroy()
    const server = net.connect(this.target)
    for (const [from, to, side] of [[client, server, 'client'], [server, client, 'server']]) {
      this.sockets.add(from)
      from.bytesPassed = 0
      from.on('data', (data) => this.#forward(from, to, side, data))
      from.on('end', () => to.end())
      from.on('error', () => to.destroy())
      from.on('close', () => { this.sockets.delete(from); to.destroy() })
    }
  }

  #forward(from, to, side, data) {
    if (this.match && side === 'client' && data.includes(this.match.text)) {
      this.matched++
      this.fault = this.match.fault
    }
    const f = this.fault
    if (f?.kind === 'flip' && f.from === side) this.#flip(f, data, f.after - from.bytesPassed)
    const room = f && f.kind !== 'flip' && f.from === side && f.after !== undefined
      ? Math.max(0, f.after - from.bytesPassed) : Infinity
    const part = data.subarray(0, Math.min(room, data.length))
    from.bytesPassed += part.length
    this.passed[side] += part.length
    const write = () => { if (part.length) to.write(part) }
    if (f?.kind === 'delay') setTimeout(write, f.delayMs)
    else if (f?.kind === 'narrow') this.#narrow(f, from, write, part.length)
    else write()
    if (part.length < data.length) this.#act(f, from, to)
  }

  #flip(f, data, at) {
    if (at < 0 || at >= data.length || f.hit) return
    data[at] ^= f.bit ?? 0x10
    f.hit = true
  }

  // The sender is held back, as by a link that takes no more.
  #narrow(f, from, write, length) {
    from.pause()
    setTimeout(() => from.resume(), 1000 * length / f.bytesPerS)
    setTimeout(write, f.delayMs)
  }

  #act(f, from, to) {
    if (f.kind === 'cut') {
      // The bytes before the cut must arrive, then both ends see a reset.
      to.end(() => { reset(from); to.destroy() })
    } else if (f.kind === 'stall') {
      from.pause()
    }
    f.hit = true
  }

  reset() {
    for (const s of this.sockets) reset(s)
  }

  async stop() {
    for (const s of this.sockets) s.destroy()
    await new Promise((r) => this.server.close(r))
  }
}

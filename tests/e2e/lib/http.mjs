// Small HTTP helpers: one request with a buffered answer, and raw bytes for bad input.
import http from 'node:http'
import net from 'node:net'

export const agent = new http.Agent({ keepAlive: true, maxSockets: 1024 })

// What this process keeps open to a node and does not use.
export function closeIdle(port) {
  for (const [name, sockets] of Object.entries(agent.freeSockets)) {
    if (name.split(':')[1] === String(port)) sockets.forEach((s) => s.destroy())
  }
}

// -> { status, headers, body (Buffer), text, complete }; rejects when no head came.
export function request(url, { method = 'GET', headers = {}, body, timeoutMs = 60_000, keepAlive = true } = {}) {
  return new Promise((resolve, reject) => {
    const req = http.request(url, { method, headers, agent: keepAlive ? agent : false }, (res) => {
      const chunks = []
      const done = (complete) => {
        const all = Buffer.concat(chunks)
        resolve({ status: res.statusCode, headers: res.headers, rawHeaders: res.rawHeaders,
          body: all, text: all.toString(), complete })
      }
      res.on('data', (c) => chunks.push(c))
      res.on('end', () => done(res.complete))
      res.on('error', () => done(false))
    })
    req.setTimeout(timeoutMs, () => req.destroy(new Error(`no answer within ${timeoutMs} ms`)))
    req.once('error', reject)
    req.end(body)
  })
}

export function invoke(node, fnId, body = '', headers = {}) {
  return request(node.url(`/invoke/${fnId}`), { method: 'POST', body, headers })
}

// Sends bytes on a fresh connection and returns everything until the peer closes or `waitMs` passed.
export function raw(port, bytes, { waitMs = 15_000, host = '127.0.0.1' } = {}) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, host)
    let text = ''
    const finish = (closed) => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ text, closed, status: Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0) })
    }
    const timer = setTimeout(() => finish(false), waitMs)
    socket.on('data', (d) => { text += d.toString('latin1') })
    socket.on('close', () => finish(true))
    socket.on('error', (e) => (text ? finish(true) : reject(e)))
    socket.write(bytes)
  })
}

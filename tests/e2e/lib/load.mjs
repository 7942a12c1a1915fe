// A program: calls one URL without a pause, on connections that are kept and on new ones, until its
// standard input ends; prints how the calls ended as JSON, { <status or error>: count }.
//
//   node load.mjs URL KEPT NEW
import http from 'node:http'

const [url, kept, fresh] = process.argv.slice(2)
const ends = {}
let going = true
process.stdin.resume().on('end', () => { going = false })

function call(agent) {
  return new Promise((resolve) => {
    const req = http.request(url, { method: 'POST', agent, headers: { 'content-type': 'application/json' } }, (res) => {
      res.resume()
      res.on('end', () => resolve(res.statusCode))
      res.on('error', (e) => resolve(`answer ${e.code}`))
    })
    req.on('error', (e) => resolve(e.code))
    req.end('{"name":"load"}')
  })
}

async function caller(agent) {
  while (going) {
    const end = await call(agent)
    ends[end] = (ends[end] ?? 0) + 1
    if (ends[end] === 1) process.stderr.write(`${end}\n`)
  }
}

const agent = new http.Agent({ keepAlive: true })
const none = new http.Agent({ keepAlive: false })
await Promise.all([...Array(Number(kept)).fill(agent), ...Array(Number(fresh)).fill(none)].map(caller))
process.stdout.write(JSON.stringify(ends))
agent.destroy()

// Torture of what is between a client and a full node: TLS, HTTP/2 and HTTP/1.1. Each connection is a new one.
import assert from 'node:assert/strict'
import http2 from 'node:http2'
import https from 'node:https'
import { after, before, describe, it } from 'node:test'
import { fnId } from '../e2e/lib/cluster.mjs'
import { ca, startHttps } from '../e2e/lib/https.mjs'
import { until } from '../e2e/lib/node.mjs'
import { Torture, endsWell } from '../e2e/lib/torture.mjs'

const BIG = Buffer.alloc(100_000, 'x')
const END_MS = 10_000
const AGAIN_MS = 8_000
const lost = (error) => ({ status: 0, body: Buffer.alloc(0), text: error?.code ?? 'closed' })

// Resolves when the request is over, however it ends; an answer that is cut has no status.
function over(req, chunks, status) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(null), END_MS)
    let error
    req.on('error', (e) => { error = e })
    req.on('close', () => {
      clearTimeout(timer)
      const body = Buffer.concat(chunks)
      resolve(error || !status() ? lost(error) : { status: status(), body, text: body.toString().slice(0, 200) })
    })
  })
}

function h1(node, fn, body) {
  const chunks = []
  let status
  const req = https.request(node.url(`/invoke/${fnId(fn)}`).replace('http:', 'https:'), { method: 'POST', ca, agent: false }, (res) => {
    res.on('data', (d) => chunks.push(d))
    res.on('end', () => { status = res.complete ? res.statusCode : 0 })
    res.on('error', () => {})
  })
  const end = over(req, chunks, () => status)
  req.end(body)
  return end
}

function h2(node, requests) {
  return new Promise((resolve) => {
    const s = http2.connect(node.url('').replace('http:', 'https:'), { ca })
    const timer = setTimeout(() => resolve(requests.map(() => null)), END_MS)
    const none = (e) => {
      clearTimeout(timer)
      resolve(requests.map(() => lost(e)))
    }
    s.on('error', none)
    s.on('close', none)
    s.on('connect', async () => {
      const all = await Promise.all(requests.map(([fn, body]) => {
        const chunks = []
        let status
        const req = s.request({ ':method': 'POST', ':path': `/invoke/${fnId(fn)}` }, { endStream: false })
        req.on('response', (headers) => { status = headers[':status'] })
        req.on('data', (d) => chunks.push(d))
        const end = over(req, chunks, () => (req.rstCode ? 0 : status))
        req.end(body)
        return end
      }))
      clearTimeout(timer)
      s.destroy()
      resolve(all)
    })
  })
}

const rows = [['malloc', 'ENOMEM', 40, 7], ['recv', 'EINTR', 60, 1], ['recv', 'EAGAIN', 60, 1], ['recv', 'short', 60, 1], ['recv', 'ECONNRESET', 60, 1],
  ['send', 'EINTR', 60, 1], ['send', 'EAGAIN', 60, 1], ['send', 'short', 60, 1], ['send', 'ENOBUFS', 60, 1], ['send', 'EPIPE', 60, 1],
  ['sendmsg', 'EAGAIN', 60, 1], ['sendmsg', 'short', 60, 1], ['accept', 'EMFILE', 20, 1], ['epoll_ctl', 'ENOSPC', 20, 1]]

describe('torture: https', () => {
  const torture = new Torture()
  let node
  before(async () => {
    node = await startHttps({ functions: { hello: {}, echo: { timeout: 4 } }, more: 'log: { level: warn }', env: torture.env })
    for (let i = 0; i < 3; i++) await everything()
  })
  after(async () => {
    torture.close()
    await node?.stop()
    endsWell(node)
  })

  const plain = async () => [await h1(node, 'hello', 'a'), await h1(node, 'echo', BIG)]
  const everything = async () => [...await h2(node, [['hello', 'a'], ['echo', BIG]]), ...await plain()]

  for (const row of rows) {
    it(`${row[0]}: ${row[1]}`, async () => {
      const failed = await torture.each(row, everything, async (what, answers) => {
        for (const [i, answer] of answers.entries()) {
          assert.ok(answer, `${what}, request ${i}: no end within ${END_MS} ms\n${node.log.slice(-1000)}`)
          if (i % 2 && answer.status === 200) assert.ok(answer.body.equals(BIG), `${what}: another answer`)
        }
        await until(`${what}: it serves again\n${node.log.slice(-1000)}`, async () => {
          assert.equal(node.exit, null, `${what}: ended\n${node.log.slice(-2000)}`)
          return (await h1(node, 'hello', 'b'))?.status === 200
        }, AGAIN_MS)
      })
      assert.ok(failed > 0, 'none of them failed')
    })
  }
})

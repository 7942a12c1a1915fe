// Bad requests get their code and sentence, and the node lives.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { fnId, startCluster } from './lib/cluster.mjs'
import { invoke, raw } from './lib/http.mjs'

const fn = fnId('hello')
const post = (headers, body = '') => `POST /invoke/${fn} HTTP/1.1\r\nHost: x\r\n${headers}\r\n${body}`
const big = 'x'.repeat(9 * 1024)

// [what, bytes, status, sentence]
const rows = [
  ['length and chunked', post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', 'hello'), 400, /HTTP101 both Content-Length and Transfer-Encoding/],
  ['two lengths', post('Content-Length: 5\r\nContent-Length: 6\r\n', 'hello'), 400, /HTTP102/],
  ['list of lengths', post('Content-Length: 5, 5\r\n', 'hello'), 400, /HTTP102/],
  ['signed length', post('Content-Length: +5\r\n', 'hello'), 400, /HTTP102/],
  ['hex length', post('Content-Length: 0x5\r\n', 'hello'), 400, /HTTP102/],
  ['empty length', post('Content-Length: \r\n'), 400, /HTTP102/],
  ['underscore in length', post('Content-Length: 1_0\r\n', 'hello'), 400, /HTTP102/],
  ['length of 2^64', post('Content-Length: 18446744073709551616\r\n'), 400, /HTTP102/],
  ['gzip, chunked', post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'), 501, /HTTP103/],
  ['empty coding', post('Transfer-Encoding: ,chunked\r\n', '0\r\n\r\n'), 501, /HTTP103/],
  ['unknown coding', post('Transfer-Encoding: chunked, cow\r\n', '0\r\n\r\n'), 501, /HTTP103/],
  ['twice', post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'), 501, /HTTP103/],
  ['negative chunk', post('Transfer-Encoding: chunked\r\n', '-1\r\nx\r\n0\r\n\r\n'), 400, /HTTP104/],
  ['0x chunk', post('Transfer-Encoding: chunked\r\n', '0x10\r\nx\r\n0\r\n\r\n'), 400, /HTTP104/],
  ['empty chunk size', post('Transfer-Encoding: chunked\r\n', '\r\nx\r\n0\r\n\r\n'), 400, /HTTP104/],
  ['17 digits', post('Transfer-Encoding: chunked\r\n', '00000000000000001\r\nx\r\n0\r\n\r\n'), 400, /HTTP104/],
  ['bare LF', post('Transfer-Encoding: chunked\r\n', '1\nx\r\n0\r\n\r\n'), 400, /HTTP104/],
  ['no CRLF after data', post('Transfer-Encoding: chunked\r\n', '1\r\nxx0\r\n\r\n'), 400, /HTTP104/],
  ['space before colon', post('X : y\r\n'), 400, /HTTP105/],
  ['folding', post('X: y\r\n z\r\n'), 400, /HTTP105/],
  ['NUL in name', post('X\0Y: y\r\n'), 400, /HTTP105/],
  ['high byte in name', post('X\x80: y\r\n'), 400, /HTTP105/],
  ['parenthesis in name', post('X(: y\r\n'), 400, /HTTP105/],
  ['empty name', post(': y\r\n'), 400, /HTTP105/],
  ['NUL in value', post('X: a\0b\r\n'), 400, /HTTP106 control byte in header/],
  ['CR in value', post('X: a\rb\r\n'), 400, /HTTP106/],
  ['no Host', `POST /invoke/${fn} HTTP/1.1\r\n\r\n`, 400, /HTTP107/],
  ['two Hosts', post('Host: y\r\n'), 400, /HTTP107/],
  ['bad Host', `POST /invoke/${fn} HTTP/1.1\r\nHost: a b\r\n\r\n`, 400, /HTTP107/],
  ['bad target', 'GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n', 400, /HTTP108/],
  ['blank in target', 'GET /a b HTTP/1.1\r\nHost: x\r\n\r\n', 400, /HTTP108/],
  ['version 1.10', 'GET / HTTP/1.10\r\nHost: x\r\n\r\n', [400, 505], /HTTP108/],
  ['version 9.9', 'GET / HTTP/9.9\r\nHost: x\r\n\r\n', 505, /HTTP108/],
  ['TLS hello', Buffer.from('16030100c8010000c40303', 'hex'), 400, /HTTP108/],
  ['33 KiB of headers', post(`X: ${'y'.repeat(33 * 1024)}\r\n`), 431, /HTTP109/],
  ['101 fields', post(Array.from({ length: 101 }, (_, i) => `X-${i}: y\r\n`).join('')), 431, /HTTP109/],
  ['long URI', `GET /${big} HTTP/1.1\r\nHost: x\r\n\r\n`, 414, /HTTP109/],
  ['declared 6 MiB + 1', post('Content-Length: 6291457\r\n'), 413, /HTTP110 body > 6291456 bytes/],
  ['header too slow', 'POST /invoke', 408, /HTTP111 header not complete in 1 s/],
  ['odd expectation', post('Expect: 200-ok\r\nContent-Length: 0\r\n'), 417, /HTTP112/],
  ['CONNECT', 'CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n', 405, /HTTP113/],
  ['TRACE', 'TRACE / HTTP/1.1\r\nHost: x\r\n\r\n', 405, /HTTP113/],
  ['dots in id', 'POST /invoke/..%2f..%2fetc HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n', 404, /Fn not found/],
  ['long id', `POST /invoke/${'a'.repeat(300)} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`, 404, /Fn not found/],
  ['dots alone', 'POST /invoke/.. HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n', 404, /Fn not found/],
  ['dots in a trigger', 'GET /t/demo/../../x HTTP/1.1\r\nHost: x\r\n\r\n', 404, /Trigger not found/],
  ['overlong UTF-8', 'POST /invoke/%c0%ae HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n', 404, /Fn not found/],
  ['odd invoke type', post('Fn-Invoke-Type: sometimes\r\nContent-Length: 0\r\n'), 400, /FN202 invoke type, got \\"sometimes\\"; expected sync or detached/],
]

describe('bad requests', () => {
  let cluster
  before(async () => {
    cluster = await startCluster({ functions: { hello: {} }, lbOptions: { http: 'header_timeout: 1s' } })
  })
  after(() => cluster?.stop())

  for (const [what, bytes, status, sentence] of rows) {
    it(what, async () => {
      const answer = await raw(cluster.lb.port, bytes, { waitMs: 4000 })
      assert.ok([status].flat().includes(answer.status), `status ${answer.status}\n${answer.text}`)
      assert.match(answer.text, sentence)
      assert.match(answer.text, /\{"message":".+"/, 'in Fn\'s shape')
    })
  }

  it('chunked body over the limit', async () => {
    const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`
    const answer = await raw(cluster.lb.port, post('Transfer-Encoding: chunked\r\n', chunk.repeat(97)), { waitMs: 5000 })
    assert.equal(answer.status, 413)
  })

  it('Upgrade is ignored', async () => {
    const answer = await invoke(cluster.lb, fn, '{}', { Upgrade: 'h2c', Connection: 'Upgrade' })
    assert.equal(answer.status, 200)
  })

  it('reserved headers are dropped and counted', async () => {
    const answer = await invoke(cluster.lb, fn, '{}', { 'Fn-Call-Id': 'mine', 'Fn-Deadline': 'never' })
    assert.equal(answer.status, 200)
    assert.notEqual(answer.headers['fn-call-id'], 'mine')
    assert.ok(await cluster.lb.metric('fn_reserved_header_dropped') >= 2)
  })

  it('lives and serves after all that', async () => {
    assert.equal((await invoke(cluster.lb, fn, '{}')).status, 200)
  })
})

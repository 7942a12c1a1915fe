// What nodes write about themselves: one event per line, as JSON or key=value text, whatever bytes
// clients and functions send.
import assert from 'node:assert/strict'
import dgram from 'node:dgram'
import { appendFileSync, existsSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { Elastic } from './lib/elastic.mjs'
import { closeIdle, invoke, raw } from './lib/http.mjs'
import { tempDir, until } from './lib/node.mjs'

const functions = { hello: {}, misbehave: { timeout: 2 }, gone: { image: 'not-there' }, early: { image: 'misbehave', config: { FN_MODE: 'exits-early' } } }

// Log lines are one JSON object each: members may not repeat, else one of them is invisible.
function parse(line) {
  const value = JSON.parse(line)
  assert.equal(typeof value, 'object', line)
  const keys = [...line.matchAll(/[{,]"([^"]+)":/g)].map((m) => m[1])
  assert.equal(new Set(keys).size, keys.length, `a key stands twice: ${line}`)
  return value
}

async function mischief(format) {
  const options = { plugins: '', env: { FN_LOG_FORMAT: format, FN_LOG_LEVEL: 'debug' } }
  const runner = await startRunner(options)
  const lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions, lb: 'placement_timeout: 1s\nrid_header: X-Rid', more: 'npm: {}\n', env: options.env })
  const nasty = 'a"b\\c=d\u00e9'
  const ids = []
  for (const [name, body] of [['hello', ''], ['misbehave', 'crash'], ['misbehave', 'garbage'], ['misbehave', 'log-flood 200'],
    ['misbehave', 'fail tell "me" \\ why\u001b[31m'], ['gone', ''], ['early', '']]) {
    const answer = await invoke(lb, fnId(name), body, { 'X-Rid': Buffer.from(nasty).toString('latin1') })
    if (answer.status >= 500 && name !== 'gone') ids.push(answer.headers['fn-call-id'])
  }
  await raw(lb.port, `POST /invoke/%1b%5b31m%0aforged=line HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`)
  await raw(lb.port, Buffer.from('POST /t/\xff\xfe/\x01 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n', 'latin1'))
  await raw(lb.port, `POST /invoke/${fnId('hello')} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nX-Rid: \t"\\ \x7f\r\nConnection: close\r\n\r\n`)
  await until('failed calls are in a log', () => ids.every((id) => (lb.log + runner.log).includes(id)))
  await runner.stop()
  await invoke(lb, fnId('hello'))
  await lb.stop()
  return { lb, runner, ids }
}

describe('logs', () => {
  it('to syslog over udp: every line, under its tag, and none on standard error', async () => {
    const server = dgram.createSocket('udp4')
    const lines = []
    server.on('message', (m) => lines.push(m.toString()))
    await new Promise((done) => server.bind(0, '127.0.0.1', done))
    const lb = await startLb({ addresses: ['127.0.0.1:1'], functions: { hello: {} },
      env: { FN_LOG_DEST: `udp://127.0.0.1:${server.address().port}`, FN_LOG_PREFIX: 'fn-lb' } })
    const answer = await invoke(lb, 'NOSUCH')
    await until('the failed call is told', () => lines.some((l) => l.includes(answer.headers['fn-call-id'])))
    await lb.stop()
    for (const line of lines) assert.match(line, /^<[3467]>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \S+ fn-lb\[\d+\]: time="[^"]+" level=\w+ msg="[^]*\n$/)
    assert.equal(lb.log, '')
    server.close()
  })

  it('as JSON: every line parses, has its level and message, failed calls are named', async () => {
    const { lb, runner, ids } = await mischief('json')
    const seen = new Set()
    for (const node of [lb, runner]) {
      const lines = node.log.split('\n').filter(Boolean)
      assert.ok(lines.length > 3)
      assert.ok(node.log.endsWith('\n'), 'the last line is whole')
      for (const line of lines) {
        const value = parse(line)
        assert.ok(value.level && value.msg && value.time, line)
        if (value.call_id) seen.add(value.call_id)
      }
    }
    for (const id of ids) assert.ok(seen.has(id), `call ${id} has a line`)
    assert.match(lb.log, /"level":"warning","msg":"CFG710 \S+fn\.yaml:\d+:1: warning: npm: has no effect, got node: lb/)
    for (const node of [lb, runner]) assert.match(node.log, /"msg":"drained: no work is left, the node ends","took_ms":\S+\n$/, 'a clean end has a last line')
  })

  it('as text: no foreign control byte, every line begins as a line', async () => {
    const { lb, runner } = await mischief('text')
    for (const node of [lb, runner]) {
      // eslint-disable-next-line no-control-regex
      assert.doesNotMatch(node.log, /[\x00-\x09\x0b-\x1f\x7f]/)
      for (const line of node.log.split('\n').filter(Boolean)) assert.match(line, /^time=\S+ level=\w+ msg=/, line)
    }
  })

  // At debug level each call is a line: the pipe is full after some 300.
  it('a reader of stderr that stands still stops no call, and not the end of the node', async () => {
    const runner = await startRunner()
    const lb = await startLb({ addresses: [runner.address], functions: { hello: {} }, env: { FN_LOG_LEVEL: 'debug' } })
    const exited = new Promise((done) => { lb.child.once('exit', (code) => done(code)) })
    lb.child.stderr.pause()
    for (let i = 0; i < 1000; i++) assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    closeIdle(lb.port)
    lb.signal('SIGTERM')
    assert.equal(await exited, 0)
    lb.child.stderr.resume()
    await lb.ended
    await Promise.all([lb.stop(), runner.stop()])
  })

  it('a thousand strangers who ask for what is not there are a hundred lines, and a number', async () => {
    const lb = await startLb({ addresses: ['127.0.0.1:1'], functions: {} })
    const begin = Date.now()
    for (let i = 0; i < 1000; i++) assert.equal((await invoke(lb, `NOSUCH${i}`)).status, 404)
    const windows = 2 + Math.floor((Date.now() - begin) / 10_000)
    const left_out = await lb.metric('fn_log_suppressed_lines')
    await lb.stop()
    const lines = lb.log.split('\n').filter((l) => l.includes('call ended'))
    assert.equal(lines.length + left_out, 1000)
    assert.ok(lines.length <= 100 * windows, `${lines.length} lines`)
  })

  it('mv and SIGHUP: no line is lost, and each file has its own', async () => {
    const dir = tempDir()
    const file = path.join(dir, 'lb.log')
    const lb = await startLb({ addresses: ['127.0.0.1:1'], functions: { hello: {} }, env: { FN_LOG_DEST: `file://${file}` } })
    const ids = []
    const call = async () => ids.push((await invoke(lb, 'NOSUCH')).headers['fn-call-id'])
    for (let i = 0; i < 10; i++) await call()
    renameSync(file, `${file}.1`)
    await call()
    lb.signal('SIGHUP')
    await until('the file is there again', () => existsSync(file))
    for (let i = 0; i < 10; i++) await call()
    await until('the configuration was read', () => readFileSync(file, 'utf8').includes('the configuration was taken'))
    await lb.stop()
    const texts = [`${file}.1`, file].map((f) => readFileSync(f, 'utf8'))
    for (const id of ids) assert.equal(texts.filter((t) => t.includes(id)).length, 1, `call ${id} is in one file`)
    assert.match(texts[0], /fnd serving/)
    assert.equal(lb.log, '')
    rmSync(dir, { recursive: true })
  })

  it('the log of a runner that a manager started begins anew at 8 MiB, and the runner goes on writing to it', async () => {
    const e = await Elastic.start({ functions: { hello: {} } })
    assert.equal((await invoke(e.lbs[0], fnId('hello'))).status, 200)
    const [id] = (await e.runners()).runners.map((r) => r.id)
    const log = path.join(e.state, 'default', id, 'log')
    appendFileSync(log, `${'x'.repeat(99)}\n`.repeat(90_000))
    await until('it began anew', () => existsSync(`${log}.1`) && statSync(log).size < 1024 * 1024)
    process.kill(Number(readFileSync(path.join(path.dirname(log), 'pid'), 'utf8')), 'SIGHUP')
    await until('the runner writes there', () => /^time=.*the configuration was taken/m.test(readFileSync(log, 'utf8')))
    await e.stop()
  })
})

// listener-usage: a record of each call, on a disk that fills, to a reader that vanishes, by a node that is killed.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { build, Fnd, freePort, tempDir, until } from './lib/node.mjs'

const fnd = path.join(build, 'fnd')
const FILE_BYTES = 16384

async function start(options) {
  const port = await freePort()
  return Fnd.start('full', port, `
node: full
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins:
  driver: { use: process, root: "${path.join(build, 'functions')}" }
  listeners: [{ use: usage, ${options} }]
apps:
  - name: shop
    functions:
      - { name: hello, id: ${fnId('hello')}, image: hello, memory: 64 }
      - { name: echo, id: ${fnId('echo')}, image: echo, memory: 64 }
`)
}

const parse = (text) => text.split('\n').filter(Boolean).map((l) => JSON.parse(l))
const read = (file) => parse(readFileSync(file, 'utf8'))

// { stream: records in their order, without copies }; each number up to the last one is there unless `gaps`.
function streams(records, { gaps = false } = {}) {
  const all = {}
  for (const r of records) (all[r.stream] ??= new Map()).set(r.seq, r)
  for (const [name, of] of Object.entries(all)) {
    const seqs = [...of.keys()].sort((a, b) => a - b)
    if (!gaps) assert.deepEqual(seqs, seqs.map((_, i) => i + 1), `stream ${name}`)
    all[name] = seqs.map((s) => of.get(s))
  }
  return all
}

function reload(node) {
  const run = spawnSync(fnd, ['reload', '--config', path.join(node.dir, 'fn.yaml')], { encoding: 'utf8', env: { PATH: process.env.PATH } })
  assert.equal(run.status, 0, run.stderr)
}

async function call(node, n, name = 'hello') {
  const answers = await Promise.all(Array.from({ length: n }, () => invoke(node, fnId(name), '{}')))
  assert.deepEqual(answers.filter((a) => a.status !== 200).map((a) => a.text), [])
  return answers.map((a) => a.headers['fn-call-id'])
}

describe('records in a file', () => {
  it('one for each call, through a reload and a restart, and the end is told', async () => {
    const file = path.join(tempDir(), 'calls.log')
    const node = await start(`path: "${file}"`)
    const ids = await call(node, 20)
    const fails = await invoke(node, fnId('echo'), '', { 'Echo-Fail': 'no' })
    const yaml = path.join(node.dir, 'fn.yaml')
    reload(node)
    ids.push(...await call(node, 20))
    writeFileSync(yaml, readFileSync(yaml, 'utf8').replace('use: usage,', 'use: usage, keep: 7,'))
    reload(node)
    ids.push(...await call(node, 20))
    node.signal('SIGTERM')
    await node.ended
    await node.start()
    ids.push(...await call(node, 20))
    await node.stop()
    const records = read(file)
    const all = Object.values(streams(records))
    assert.equal(all.length, 3, 'a stream for each start and each change of its options')
    for (const s of all) assert.deepEqual({ end: s.at(-1).end, dropped: s.at(-1).dropped }, { end: true, dropped: 0 })
    const calls = records.filter((r) => !r.end)
    assert.deepEqual(calls.map((r) => r.call).sort(), [...ids, fails.headers['fn-call-id']].sort())
    const { stream, seq, time_ms: time, duration_us: took, ...rest } = calls.find((r) => r.call === ids[0])
    assert.ok(stream && seq >= 1 && Math.abs(time - Date.now()) < 60_000 && took > 0)
    const { app, ...others } = rest
    assert.ok(app)
    assert.deepEqual(others, { call: ids[0], fn: fnId('hello'), app_name: 'shop', group: 'default', type: 'sync', outcome: 'ok', memory_mb: 64, cpu_milli: 0, status: 200, code: 0 })
    const failed = calls.find((r) => r.call === fails.headers['fn-call-id'])
    assert.equal(failed.outcome, fails.headers['fn-outcome'])
    assert.equal(failed.status, fails.status)
    assert.ok(failed.code < 0)
    assert.equal(statSync(file).mode & 0o777, 0o640)
  })

  it('files are renamed at their size, and lines stay whole', async () => {
    const dir = tempDir()
    const node = await start(`path: "${path.join(dir, 'calls.log')}", rotate_size: 64KiB, keep: 3`)
    for (let i = 0; i < 12; i++) await call(node, 50)
    await node.stop()
    const files = readdirSync(dir)
    assert.ok(files.includes('calls.log.1'), files.join())
    for (const f of files) assert.ok(statSync(path.join(dir, f)).size <= 65536)
    const [all] = Object.values(streams(files.flatMap((f) => read(path.join(dir, f)))))
    assert.equal(all.length, 601)
  })

  it('kill -9 under load: what is there is whole and without a gap, and the next node goes on', async () => {
    const file = path.join(tempDir(), 'calls.log')
    const node = await start(`path: "${file}"`)
    let answered = 0
    let on = true
    const clients = Array.from({ length: 8 }, async () => {
      while (on) {
        const a = await invoke(node, fnId('hello'), '{}').catch(() => null)
        on = on && a !== null
        answered += a?.status === 200
      }
    })
    await until('enough calls', () => answered > 300)
    await node.kill()
    await Promise.all(clients)
    await node.start()
    const [id] = await call(node, 1)
    await node.stop()
    const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean)
    const whole = lines.filter((l) => l.endsWith('}'))
    assert.ok(lines.length - whole.length <= 1, 'at most the line that was being written is torn')
    const [killed, next] = Object.values(streams(whole.map((l) => JSON.parse(l))))
    assert.equal(killed.some((r) => r.end), false, 'a stream without an end says that the node died')
    assert.ok(killed.length > 100, `${killed.length} of ${answered}`)
    assert.deepEqual(next.map((r) => r.call ?? 'end'), [id, 'end'])
  })

  it('a file that is as large as it may be: calls go on, records wait and come when there is room', async () => {
    const file = path.join(tempDir(), 'calls.log')
    const node = await start(`path: "${file}"`)
    const ids = []
    execFileSync('prlimit', ['--pid', String(node.pid), `--fsize=${FILE_BYTES}:unlimited`])
    try {
      for (let i = 0; i < 6; i++) ids.push(...await call(node, 20))
      await until('records wait', async () => await node.metric('fn_plugin_listener_usage_waiting') > 20)
      assert.ok(await node.metric('fn_plugin_listener_usage_failed') > 0)
      assert.match(node.log, /records wait/)
      execFileSync('prlimit', ['--pid', String(node.pid), '--fsize=unlimited'])
      await until('they are written', async () => {
        ids.push(...await call(node, 1))
        return await node.metric('fn_plugin_listener_usage_waiting') === 0
      })
    } finally {
      await node.stop()
    }
    const records = []
    for (const l of readFileSync(file, 'utf8').split('\n')) {
      if (l.endsWith('}')) records.push(JSON.parse(l))
    }
    const [all] = Object.values(streams(records))
    assert.deepEqual(all.filter((r) => !r.end).map((r) => r.call).sort(), ids.sort())
  })
})

describe('records to a reader on a Unix socket', () => {
  const socket = path.join(tempDir(), 'reader.sock')
  const queue = 1000 // far more than the calls that allThere() makes in the second between two tries
  let node
  let server
  let got = []
  let status = 200
  const listen = async () => {
    server = http.createServer((req, res) => {
      let text = ''
      req.on('data', (d) => { text += d })
      req.on('end', () => {
        assert.equal(req.headers['content-type'], 'application/x-ndjson')
        got.push(...parse(text))
        res.writeHead(status).end()
      })
    }).listen(socket)
    await once(server, 'listening')
  }
  const vanish = async () => {
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  const allThere = (ids) => until('all are there', async () => {
    ids.push(...await call(node, 1))
    const there = new Set(got.map((r) => r.call))
    return ids.slice(0, -1).every((id) => there.has(id))
  })
  before(async () => {
    await listen()
    node = await start(`url: "http://usage/calls", socket: "${socket}", queue: ${queue}`)
  })
  after(async () => {
    await node.stop()
    await vanish()
  })

  it('who refuses them gets them again, and so does who comes back', async () => {
    const ids = await call(node, 10)
    await allThere(ids)
    status = 500
    ids.push(...await call(node, 10))
    await until('some were refused', async () => await node.metric('fn_plugin_listener_usage_failed') > 0)
    status = 200
    await allThere(ids)
    await vanish()
    ids.push(...await call(node, 10))
    await listen()
    await allThere(ids)
    const [all] = Object.values(streams(got))
    assert.ok(got.length > all.length, 'those of the refusal came twice')
  })

  it('a reload that does not change its options drops none that wait', async () => {
    await vanish()
    const ids = await call(node, 10)
    reload(node)
    ids.push(...await call(node, 10))
    reload(node)
    await listen()
    await allThere(ids)
    assert.equal(await node.metric('fn_plugin_listener_usage_dropped'), 0)
    assert.doesNotMatch(node.log, /were not written/)
    assert.equal(Object.keys(streams(got)).length, 1)
  })

  it('what has no place is dropped and counted, calls go on, and the gap is seen', async () => {
    got = []
    await vanish()
    for (let i = 0; i < queue + 60; i += 20) await call(node, 20)
    const dropped = await node.metric('fn_plugin_listener_usage_dropped')
    assert.ok(dropped >= 60, `${dropped}`)
    assert.match(node.log, /records of calls are dropped: the queue is full/)
    await listen()
    await until('the rest is there', async () => {
      await call(node, 1)
      return await node.metric('fn_plugin_listener_usage_waiting') === 0
    })
    const [last] = await call(node, 1)
    await until('one behind the gap is there', () => got.some((r) => r.call === last))
    const [all] = Object.values(streams(got, { gaps: true }))
    const missing = all.at(-1).seq - all[0].seq + 1 - all.length
    assert.equal(missing, await node.metric('fn_plugin_listener_usage_dropped'))
  })

  it('who is back after the last call gets what waits when the node ends', async () => {
    await vanish()
    const failed = await node.metric('fn_plugin_listener_usage_failed')
    const ids = await call(node, 10)
    await until('they were tried', async () => await node.metric('fn_plugin_listener_usage_failed') > failed)
    await listen()
    node.signal('SIGTERM')
    await node.ended
    const there = new Set(got.map((r) => r.call))
    assert.deepEqual(ids.filter((id) => !there.has(id)), [])
    assert.doesNotMatch(node.log, /were not written/)
    await node.start()
  })
})

it('wrong options are told, and the refused start leaves nothing behind', () => {
  const dir = tempDir()
  const file = path.join(dir, 'fn.yaml')
  for (const [options, said] of [
    ['', /got neither path nor url; expected path or url/],
    [', path: calls.log', /path: got "calls\.log"; expected an absolute path/],
    [', path: /nowhere/x', /path: got "\/nowhere\/x": No such file or directory; expected a file that this node may write/],
    [', path: /tmp/x, socket: /tmp/y', /socket: got "\/tmp\/y"; expected an absolute path, beside url/],
  ]) {
    writeFileSync(file, `node: full\nplugin_dir: ${path.join(build, 'plugins')}\nplugins:\n  listeners:\n    - { use: usage${options} }\n`)
    const run = spawnSync(fnd, ['run', '--config', file], { encoding: 'utf8', timeout: 20_000, env: { PATH: process.env.PATH, TMPDIR: dir } })
    assert.equal(run.status, 78, run.stderr)
    assert.match(run.stderr + run.stdout, said)
    assert.deepEqual(readdirSync(dir), ['fn.yaml'])
  }
})

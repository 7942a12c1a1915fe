// An API node whose SQLite file has no room, is held by another process or shared with another node: what is
// answered, what is there afterwards, and that the node goes on by itself.
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { request } from './lib/http.mjs'
import { Fnd, freePort, tempDir, until } from './lib/node.mjs'

const noSqlite = spawnSync('sqlite3', ['-version']).status === 0 ? false : 'sqlite3 is not installed'
const noRoot = process.getuid() === 0 ? false : 'it takes root'
const DISK = 1 << 20
const WRITERS = 8
const FULL_MS = 60_000

async function ask(node, method, target, body) {
  const answer = await request(node.url(target), { method, body: body && JSON.stringify(body) })
  return { status: answer.status, text: answer.text, headers: answer.headers, said: answer.text && JSON.parse(answer.text) }
}

async function start(file, options) {
  const port = await freePort()
  return Fnd.start('api', port, `node: api\nhttp: { listen: "127.0.0.1:${port}" }\nstore: { url: "sqlite3://${file}" }\n`, options)
}

function expectUnavailable(answer, message, what) {
  assert.equal(`${answer.status} ${answer.text}`, `503 ${JSON.stringify({ message })}\n`, what)
  assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
  assert.equal(answer.headers['retry-after'], '1')
}

async function appNames(node) {
  const names = []
  for (let cursor = ''; cursor !== undefined;) {
    const { status, said } = await ask(node, 'GET', `/v2/apps?per_page=100&cursor=${cursor}`)
    assert.equal(status, 200)
    names.push(...said.items.map((app) => app.name))
    cursor = said.next_cursor
  }
  return names
}

// Several clients make apps until until() says that it is enough; the names that were told as done.
async function makeApps(node, prefix, isOver, refused) {
  const done = []
  await Promise.all(Array.from({ length: WRITERS }, async (_, w) => {
    for (let i = 0; !isOver(done); i++) {
      const answer = await ask(node, 'POST', '/v2/apps', { name: `${prefix}${w}-${i}`, config: { FILL: 'x'.repeat(2000) } })
      if (answer.status === 200) done.push(answer.said.name)
      else refused(answer)
    }
  }))
  return done
}

const full = (n) => (done) => done.length >= n

// message: of a refusal; room(): what makes room again.
async function fillsAndGoesOn(node, file, message, room) {
  const end = Date.now() + FULL_MS
  let refusals = 0
  const done = await makeApps(node, 'a', () => refusals >= 3 * WRITERS || Date.now() > end, (answer) => {
    refusals++
    expectUnavailable(answer, message)
  })
  assert.ok(refusals >= 3 * WRITERS && done.length > 10, `${refusals} of ${done.length} refused`)
  const among = (names) => assert.deepEqual(done.filter((name) => !names.includes(name)), [], 'all that was told as done')
  among(await appNames(node)) // it reads although it cannot write
  room()
  const later = await makeApps(node, 'b', full(50), (answer) => assert.fail(`there is room: ${answer.text}`))
  await node.kill()
  await node.start()
  const names = await appNames(node)
  among(names)
  assert.deepEqual(later.filter((name) => !names.includes(name)), [])
  assert.equal(new Set(names).size, names.length)
  assert.equal(names.length, done.length + later.length, 'and nothing that was refused')
  assert.equal(execFileSync('sqlite3', [file, 'PRAGMA integrity_check'], { encoding: 'utf8' }).trim(), 'ok')
}

describe('a store without room', { skip: noSqlite }, () => {
  let node, dir
  afterEach(async () => {
    await node?.stop()
    spawnSync('umount', [dir])
  })

  it('a full disk: refused, nothing lost, and it goes on when there is room', { skip: noRoot }, async () => {
    dir = tempDir()
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${8 * DISK}`, 'tmpfs', dir])
    writeFileSync(path.join(dir, 'filler'), Buffer.alloc(7 * DISK)) // the log of 50 changes one by one takes more than one
    const file = path.join(dir, 'fn.db')
    node = await start(file)
    await fillsAndGoesOn(node, file, 'API1103 the store has no room: database or disk is full', () => rmSync(path.join(dir, 'filler')))
  })

  it('the limit of the process on its files: the same', async () => {
    dir = tempDir()
    const file = path.join(dir, 'fn.db')
    node = await start(file, { within: ['prlimit', `--fsize=${DISK}:unlimited`] })
    await fillsAndGoesOn(node, file, 'API1103 the store cannot be written: disk I/O error (778)', () => execFileSync('prlimit', ['--pid', String(node.pid), '--fsize=unlimited']))
  })
})

// A process with a transaction that keeps others from changing the file.
class Holder {
  static async start(file) {
    const holder = new Holder()
    holder.child = spawn('sqlite3', [file], { stdio: ['pipe', 'pipe', 'inherit'] })
    holder.child.stdin.write('.timeout 5000\nBEGIN EXCLUSIVE;\nSELECT \'held\';\n')
    await once(holder.child.stdout, 'data')
    return holder
  }

  async end() {
    this.child.stdin.end('ROLLBACK;\n')
    await once(this.child, 'close')
  }
}

describe('a store that another process holds', { skip: noSqlite }, () => {
  const LOCKED = 'API1103 the store is locked by another process'
  let node, file
  beforeEach(async () => {
    file = path.join(tempDir(), 'fn.db')
    node = await start(file)
  })
  afterEach(() => node?.stop())

  it('for a short time: changes wait, reads do not', async () => {
    const holder = await Holder.start(file)
    const changes = Array.from({ length: 20 }, (_, i) => ask(node, 'POST', '/v2/apps', { name: `waits${i}` }))
    const first = Promise.race(changes)
    for (let i = 0; i < 20; i++) assert.deepEqual((await ask(node, 'GET', '/v2/apps')).said, { items: [] })
    assert.equal(await Promise.race([first, Promise.resolve('waits')]), 'waits')
    await holder.end()
    for (const answer of await Promise.all(changes)) assert.equal(answer.status, 200, answer.text)
    assert.equal((await appNames(node)).length, 20)
  })

  it('for too long: changes are refused and have not happened, and the next ones are taken', async () => {
    const app = (await ask(node, 'POST', '/v2/apps', { name: 'there', config: { K: 'old' } })).said
    const holder = await Holder.start(file)
    const changes = [['POST', '/v2/apps', { name: 'refused' }], ['PUT', `/v2/apps/${app.id}`, { config: { K: 'new' } }], ['DELETE', `/v2/apps/${app.id}`]]
    const answers = await Promise.all(changes.map((change) => ask(node, ...change)))
    for (const [i, answer] of answers.entries()) expectUnavailable(answer, LOCKED, changes[i][0])
    assert.deepEqual((await ask(node, 'GET', `/v2/apps/${app.id}`)).said, app)
    await holder.end()
    assert.deepEqual(await appNames(node), ['there'])
    for (const change of changes) assert.ok([200, 204].includes((await ask(node, ...change)).status), change[0])
    assert.deepEqual(await appNames(node), ['refused'])
  })

  it('at the start: a node waits for it, and goes when it takes too long', async () => {
    await node.stop()
    const holder = await Holder.start(file)
    const port = await freePort()
    const yaml = `node: api\nhttp: { listen: "127.0.0.1:${port}" }\nstore: { url: "sqlite3://${file}" }\n`
    const gone = await Fnd.start('gone', port, yaml, { wait: false })
    assert.notEqual((await gone.ended).code, 0)
    assert.match(gone.log, /API1105 store: .*the store is locked by another process/)
    const waits = await Fnd.start('waits', port, yaml, { wait: false })
    await holder.end()
    await waits.ready()
    assert.equal((await waits.stop()).code, 0)
  })
})

describe('two nodes with one file', () => {
  const KEYS = 100
  let a, b
  beforeEach(async () => {
    const file = path.join(tempDir(), 'fn.db')
    a = await start(file)
    b = await start(file)
  })
  afterEach(() => Promise.all([a?.stop(), b?.stop()]))

  it('that change one app at once lose no change', async () => {
    const app = (await ask(a, 'POST', '/v2/apps', { name: 'busy' })).said
    await Promise.all(Array.from({ length: KEYS }, async (_, i) => {
      const answer = await ask(i % 2 ? a : b, 'PUT', `/v2/apps/${app.id}`, { config: { [`K${i}`]: '1' } })
      assert.equal(answer.status, 200, answer.text)
    }))
    for (const node of [a, b]) assert.equal(Object.keys((await ask(node, 'GET', `/v2/apps/${app.id}`)).said.config).length, KEYS)
  })

  it('that make the same: one does, and the other is told', async () => {
    const made = await Promise.all(Array.from({ length: 40 }, (_, i) => ask(i % 2 ? a : b, 'POST', '/v2/apps', { name: `same${i >> 1}` })))
    assert.deepEqual(made.map((m) => m.status).sort(), [...Array(20).fill(200), ...Array(20).fill(409)])
  })

  it('one removes what the other one changes: it is there with the change, or it is gone', async () => {
    for (let i = 0; i < 20; i++) {
      const app = (await ask(a, 'POST', '/v2/apps', { name: `short${i}` })).said
      const fn = (await ask(a, 'POST', '/v2/fns', { app_id: app.id, name: 'f', image: 'i' })).said
      const [gone, changed] = await Promise.all([ask(a, 'DELETE', `/v2/apps/${app.id}`), ask(b, 'PUT', `/v2/fns/${fn.id}`, { memory: 256 })])
      assert.equal(gone.status, 204)
      assert.ok([200, 404].includes(changed.status), changed.text)
      assert.equal((await ask(b, 'GET', `/v2/fns/${fn.id}`)).status, 404)
    }
  })
})

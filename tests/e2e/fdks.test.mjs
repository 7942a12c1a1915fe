// Functions of four languages in containers: the C and Node FDKs, Go and Python with their standard libraries, and with the
// official FDKs where FN_FDK_GO and FN_FDK_PYTHON name folders with the sources of those. Each of ours closes a connection
// that was idle for a second, frozen in between or not.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { driver, noEngine as skip } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { build, root, until } from './lib/node.mjs'

const LARGE = 3_000_000
const OVER_IDLE_MS = 1300 // the limit of the functions, and a bit
const ROUNDS = 3

// What asks for a greeting that names the container, and what for an error.
const ours = { hello: { Case: 'hello' }, error: { Case: 'error' }, instance: (text) => {
  const { message, instance } = JSON.parse(text)
  assert.equal(message, 'Hello you')
  return instance
} }
const languages = {
  c: { image: 'echo', hello: { 'Echo-Env': 'FN_FORMAT' }, error: { 'Echo-Fail': 'went wrong' }, instance: (text) => /^(\S+) http-stream\n$/.exec(text)[1] },
  node: { image: 'node-cases', ...ours },
  go: { image: 'go-hello', ...ours },
  python: { image: 'python-hello', ...ours },
  // Go's has no word for an error: a function that panics closes its connection, and its container is not used again.
  'go-fdk': { image: 'go-fdk', sources: 'FN_FDK_GO', ...ours, ends: true },
  'python-fdk': { image: 'python-fdk', sources: 'FN_FDK_PYTHON', ...ours },
}
const missing = ({ sources }) => sources && !process.env[sources] && `${sources} names no folder with the sources of the FDK`
const there = Object.keys(languages).filter((name) => !missing(languages[name]))
const functions = Object.fromEntries(there.map((name) => [name, languages[name]]).map(([name, { image }]) => [name, { image: `fnd/${image}:latest`, memory: 128 }]))

describe('functions of four languages', { skip }, () => {
  const nodes = []
  let lb
  const start = async (freezeIdle) => {
    const runner = await startRunner({ driver: driver(), runner: `owner: fdks-${freezeIdle}-${process.pid}\nfreeze_idle: ${freezeIdle}` })
    lb = await startLb({ addresses: [runner.address], functions })
    nodes.unshift(lb, runner)
    return runner
  }
  const greet = async (name) => {
    const { hello, instance } = languages[name]
    const answer = await invoke(lb, fnId(name), '{"name":"you"}', { 'Content-Type': 'application/json', ...hello })
    assert.equal(answer.status, 200, `${name}: ${answer.text}`)
    return instance(answer.text)
  }
  const greetAll = () => Promise.all(there.map(greet))

  before(async () => {
    execFileSync(path.join(root, 'scripts/build-images'), there.map((name) => languages[name].image), { env: { ...process.env, FND_BUILD: build } })
    await start('never')
  })
  after(async () => { for (const node of nodes) await node.stop() })

  for (const [name, { error, ends }] of Object.entries(languages)) {
    it(`${name}: greets, carries large bodies, fails, and goes on`, { skip: missing(languages[name]) }, async () => {
      const instance = await greet(name)
      const body = randomBytes(LARGE)
      const answer = await invoke(lb, fnId(name), body, { 'Content-Type': 'application/octet-stream' })
      assert.equal(answer.status, 200)
      assert.ok(answer.body.equals(body), `${answer.body.length} bytes`)
      assert.equal(answer.headers['content-type'], 'application/octet-stream')
      const failed = await invoke(lb, fnId(name), '{}', error)
      assert.equal(failed.status, 502, failed.text)
      assert.equal(failed.headers['fn-outcome'], 'failed')
      const next = await greet(name)
      assert.equal(next === instance, !ends, 'in the container that was there, or in another one')
    })
  }

  it('each goes on after a connection was idle for longer than it lets one', async () => {
    const first = await greetAll()
    await wait(OVER_IDLE_MS)
    assert.deepEqual(await greetAll(), first)
  })

  it('each goes on when it was frozen before that limit, and thawed after it', async () => {
    const runner = await start('100ms')
    const first = await greetAll()
    for (let i = 0; i < ROUNDS; i++) {
      await until('all are frozen', async () => {
        const paused = [...await runner.metrics()].filter(([key]) => key.startsWith('fn_container_paused_total'))
        return paused.reduce((sum, [, n]) => sum + n, 0) === first.length
      })
      await wait(OVER_IDLE_MS)
      assert.deepEqual(await greetAll(), first)
    }
  })
})

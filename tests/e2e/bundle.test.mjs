// `fnd bundle`: a report of everything that answers, with a sentence for what does not, and no secret.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { build, tempDir } from './lib/node.mjs'

const SECRET = 'hunter2hunter2'

function bundle(file) {
  const said = spawnSync(path.join(build, 'fnd'), ['bundle', '--config', file], { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH } })
  assert.equal(said.status, 0, said.stderr)
  assert.doesNotMatch(said.stdout, new RegExp(SECRET))
  const parts = said.stdout.split(/^==== (.*)\n\n/m)
  return { head: parts[0], of: (title) => parts[parts.indexOf(title) + 1], titles: parts.filter((_, i) => i % 2 === 1) }
}

describe('fnd bundle', () => {
  const log = path.join(tempDir(), 'lb.log')
  let runner, lb, file

  before(async () => {
    runner = await startRunner()
    lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions: { hello: { config: { PASSWORD: SECRET } } },
      more: `log: { level: debug, dest: "file://${log}" }` })
    file = path.join(lb.dir, 'fn.yaml')
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
  })
  after(async () => {
    await lb?.stop()
    await runner?.stop()
  })

  it('has what a node says of itself', () => {
    const b = bundle(file)
    assert.match(b.head, /^fnd bundle of 20\d\d-.*Z\nfnd \d/)
    assert.match(b.of('machine'), /^Linux .*\n\d+ processors, memory \d+ MiB/)
    assert.match(b.of('the effective configuration, or its mistakes'), /^node: lb /)
    assert.equal(JSON.parse(b.of('GET /status')).pid, lb.pid)
    assert.equal(JSON.parse(b.of('GET /peers')).peers[0].state, 'up')
    assert.match(b.of('GET /containers'), /"message"/, 'a load balancer has none, and says so')
    assert.match(b.of('GET /metrics'), /^fn_calls 1$/m)
    assert.match(b.of(`/proc/${lb.pid}/limits`), /^Max open files/m)
    assert.match(b.of('the end of the log'), new RegExp(fnId('hello')))
  })

  it('of a node that is gone has the rest', async () => {
    await lb.kill()
    const b = bundle(file)
    assert.match(b.of('GET /status'), /no node answers at /)
    assert.deepEqual(b.titles, ['machine', 'the effective configuration, or its mistakes', 'GET /status', 'the end of the log'])
  })

  it('of a configuration with a mistake has the mistake', () => {
    const wrong = path.join(tempDir(), 'fn.yaml')
    writeFileSync(wrong, 'node: lb\nhtpp: { listen: ":1" }\n')
    assert.match(bundle(wrong).of('the effective configuration, or its mistakes'), /fn\.yaml:2:1: .*htpp/)
  })
})

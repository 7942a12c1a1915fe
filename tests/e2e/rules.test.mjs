// override-rules at a load balancer and at a runner, and what is said of wrong rules.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { invoke, request } from './lib/http.mjs'
import { build, root, tempDir, until } from './lib/node.mjs'

const fnd = path.join(build, 'fnd')
const rules = (list) => `overriders:\n  - use: rules\n    rules:\n${list.map((r) => `      - ${JSON.stringify(r)}\n`).join('')}`
const functions = {
  echo: { image: 'echo', memory: 256, triggers: ['/echo'], config: { PLAN: 'none' } },
  free: { image: 'echo', memory: 256, app: 'internal' },
  gone: { image: 'echo', memory: 64, app: 'retired-1' },
}

describe('rules', () => {
  let runner
  let lb
  before(async () => {
    runner = await startRunner({ plugins: rules(['extension:plan=gold -> config:SEEN=gold']) })
    lb = await startLb({
      addresses: [runner.address],
      functions,
      plugins: rules([
        'app=retired-* -> refuse=410 This app has moved',
        'header:X-Late=* -> refuse=503 Closed for today',
        'app=internal -> stop',
        '-> memory<=128',
        "header:X-Plan=gold -> extension:plan=gold config:PLAN='gold plus'",
      ]),
    })
  })
  after(async () => {
    await lb.stop()
    await runner.stop()
  })
  // A variable of the function that gets the call.
  const variable = async (fn, name, headers = {}) => (await invoke(lb, fnId(fn), '', { 'Echo-Env': name, ...headers })).text.slice(9, -1)

  it('set numbers, variables and extensions of the calls that they are for', async () => {
    assert.equal(await variable('echo', 'FN_MEMORY'), '128')
    assert.equal(await variable('echo', 'PLAN'), 'none')
    assert.equal(await variable('echo', 'SEEN'), '-')
    assert.equal(await variable('echo', 'PLAN', { 'X-Plan': 'gold' }), 'gold plus')
    assert.equal(await variable('echo', 'SEEN', { 'X-Plan': 'gold' }), 'gold', 'a rule of the runner sees what the load balancer set')
    assert.equal(await variable('free', 'FN_MEMORY', { 'X-Plan': 'gold' }), '256', 'nothing behind stop')
  })

  it('see the headers of a trigger by the client\'s names', async () => {
    const answer = await request(lb.url('/t/demo/echo'), { method: 'POST', headers: { 'X-Plan': 'gold', 'Echo-Env': 'PLAN' } })
    assert.equal(answer.text.slice(9), 'gold plus\n')
  })

  it('refuse with status and sentence, before anything ran, and it is counted', async () => {
    const before = await lb.metric('fn_plugin_overrider_rules_refused')
    const gone = await invoke(lb, fnId('gone'))
    assert.equal(gone.status, 410)
    assert.equal(gone.headers['fn-outcome'], 'not-executed')
    assert.deepEqual(JSON.parse(gone.text), { message: 'This app has moved' })
    const late = await invoke(lb, fnId('free'), '', { 'X-Late': 'yes' })
    assert.equal(late.status, 503)
    assert.equal(late.headers['retry-after'], '1')
    assert.equal(await lb.metric('fn_plugin_overrider_rules_refused'), before + 2)
    const why = execFileSync(fnd, ['why', '--config', path.join(lb.dir, 'fn.yaml'), gone.headers['fn-call-id']], { encoding: 'utf8' })
    assert.match(why, /This app has moved/)
  })

  it('are other ones after a reload, or the same when those are wrong', async () => {
    const file = path.join(lb.dir, 'fn.yaml')
    const text = readFileSync(file, 'utf8')
    const reload = (t) => {
      writeFileSync(file, t)
      return spawnSync(fnd, ['reload', '--config', file], { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH } })
    }
    const refused = reload(text.replace('memory<=128', 'memory<=lots'))
    assert.notEqual(refused.status, 0)
    assert.match(refused.stdout + refused.stderr, /rules\[3\]: got "memory<=lots"; expected megabytes/)
    assert.equal(await variable('echo', 'FN_MEMORY'), '128')
    assert.equal(reload(text.replace('memory<=128', 'memory<=64')).status, 0)
    await until('the log has both', () => / method=POST path=\/reload status=4\d\d\n.* method=POST path=\/reload status=200\n/s.test(lb.log))
    await until('the new rules are used', async () => await variable('echo', 'FN_MEMORY') === '64')
  })
})

it('a wrong rule is told with its line and what was expected', () => {
  const file = path.join(tempDir(), 'fn.yaml')
  const text = readFileSync(path.join(root, 'etc/lb-rules.yaml'), 'utf8').replace('timeout<=60s', 'timeout<=1h')
  const line = text.split('\n').findIndex((l) => l.includes('1h')) + 1
  writeFileSync(file, `plugin_dir: ${path.join(build, 'plugins')}\n${text}`)
  for (const command of ['check', 'run']) {
    const said = spawnSync(fnd, [command, '--config', file], { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH } })
    assert.equal(said.status, 78)
    assert.match(said.stdout + said.stderr, new RegExp(`fn\\.yaml:${line + 1}:11: .*rules\\[2\\]: got "timeout<=1h"; expected seconds from 1 to 300`))
  }
})

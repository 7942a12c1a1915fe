// Functions that break the contract: each gets its status, sentence and outcome, nobody else notices,
// and the next call gets a sound container (F45, F46, F53 to F64).
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startCluster, startLb, startRunner } from './lib/cluster.mjs'
import { invoke, request } from './lib/http.mjs'
import { tempDir, until } from './lib/node.mjs'

const functions = {
  hello: {},
  misbehave: { timeout: 3, memory: 64, triggers: ['/m'] },
  'never-listens': { image: 'misbehave', config: { FN_MODE: 'never-listens' } },
  'exits-early': { image: 'misbehave', config: { FN_MODE: 'exits-early' } },
  'early-answer': { image: 'misbehave', config: { FN_MODE: 'early-answer' } },
  'not-reading': { image: 'misbehave', timeout: 2, config: { FN_MODE: 'not-reading' } },
  'no-answer': { image: 'misbehave', timeout: 2, config: { FN_MODE: 'no-answer' } },
}

// [mode in the body, status, sentence]
const rows = [
  ['close', 502, /error receiving function response|FN601/],
  ['half-line', 502, /error receiving function response|FN601/],
  ['no-head-end', 502, /error receiving function response|FN601/],
  ['garbage', 502, /error receiving function response|invalid function response/],
  ['version', 502, /./],
  ['header-name', 502, /./],
  ['header-nul', 502, /./],
  ['negative-chunk', 502, /./],
  ['two-cl', 502, /./],
  ['cl-te', 502, /./],
  ['bad-cl', 502, /./],
  ['huge-cl', 502, /./],
  ['status 99', 502, /./],
  ['status 1000', 502, /./],
  ['status 201', 502, /invalid function response|FN602/],
  ['status 204', 502, /./],
  ['fail sorry', 502, /function failed/],
  ['status 504', 504, /Timed out/],
  ['head-flood', 502, /function response header too large/],
  ['exit 3', 502, /./],
  ['slow-drip 100', [200, 504], /./],
  ['slow-head 100', 504, /Timed out/],
]

describe('functions that break the contract', () => {
  let cluster
  let lb
  before(async () => {
    cluster = await startCluster({ functions, runnerOptions: { runner: 'start_timeout: 1s' } })
    lb = cluster.lb
    await invoke(lb, fnId('hello'))
  })
  after(() => cluster?.stop())

  for (const [mode, status, sentence] of rows) {
    it(mode, async () => {
      const answer = await invoke(lb, fnId('misbehave'), mode)
      assert.ok([status].flat().includes(answer.status), `status ${answer.status}: ${answer.text}`)
      assert.match(answer.text || '.', sentence)
      if (answer.status !== 200) assert.equal(answer.headers['fn-outcome'], 'failed')
      const next = await invoke(lb, fnId('misbehave'), 'ok')
      assert.equal(next.status, 200, `the next call: ${next.text}`)
    })
  }

  for (const mode of ['short-body', 'short-chunk', 'no-last-chunk']) {
    it(`${mode} never looks whole`, async () => {
      const answer = await invoke(lb, fnId('misbehave'), mode).catch(() => ({ complete: false }))
      assert.ok(!answer.complete || answer.status === 502, `${answer.status} ${answer.text}`)
    })
  }

  for (const mode of ['until-close', 'http-1.0', 'chunked', 'continue']) {
    it(`${mode} is unusual, yet proper`, async () => {
      const answer = await invoke(lb, fnId('misbehave'), mode)
      assert.equal(answer.status, 200, answer.text)
      assert.match(answer.text, /hello|first/)
    })
  }

  it('never delivers the bytes of a second answer', async () => {
    for (const mode of ['two-answers', 'extra-bytes']) {
      assert.equal((await invoke(lb, fnId('misbehave'), mode)).text, 'first')
      assert.equal((await invoke(lb, fnId('misbehave'), 'ok')).text, 'ok\n')
    }
  })

  it('never-listens: 504 at the init limit, for all who wait', async () => {
    const begin = Date.now()
    const answers = await Promise.all([1, 2, 3].map(() => invoke(lb, fnId('never-listens'))))
    for (const answer of answers) {
      assert.equal(answer.status, 504, answer.text)
      assert.match(answer.text, /initialization timed out/)
    }
    assert.ok(Date.now() - begin < 8000)
  })

  it('exits-early: 502 with the cause in the log', async () => {
    const answer = await invoke(lb, fnId('exits-early'))
    assert.equal(answer.status, 502)
    assert.match(answer.text, /failed to initialize/)
    await until('the log has its last words', () => /this was meant to happen/.test(cluster.runners[0].log))
  })

  it('early-answer: an answer that overtakes its request is refused, or whole', async () => {
    const answer = await invoke(lb, fnId('early-answer'), Buffer.alloc(3_000_000, 'x'))
    assert.ok(answer.status === 502 || answer.text === 'first', `${answer.status} ${answer.text}`)
  })

  for (const name of ['not-reading', 'no-answer']) {
    it(`${name}: 504 at the time limit`, async () => {
      const answer = await invoke(lb, fnId(name), Buffer.alloc(1_000_000, 'x'))
      assert.equal(answer.status, 504, answer.text)
      assert.equal(answer.headers['fn-outcome'], 'failed')
    })
  }

  it('a socket that leaves its directory is never followed', async () => {
    assert.equal((await invoke(lb, fnId('misbehave'), 'symlink-swap /run/docker.sock')).status, 200)
    const answer = await invoke(lb, fnId('misbehave'), 'ok')
    assert.equal(answer.status, 502, answer.text)
    assert.match(answer.text, /FN604 socket leaves its directory/)
    await until('the log names it', () => /socket leaves its directory|FN604/.test(cluster.runners[0].log))
    assert.equal((await invoke(lb, fnId('misbehave'), 'ok')).status, 200)
  })

  it('memory beyond the limit: 502 that names the cause, and the others go on', async () => {
    const answer = await invoke(lb, fnId('misbehave'), 'oom 512')
    assert.equal(answer.status, 502, answer.text)
    assert.match(answer.text, /out of memory|killed|exit/)
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
  })

  it('a flood of output does not slow the call nor grow the runner', async () => {
    const before = cluster.runners[0].rssKiB()
    assert.equal((await invoke(lb, fnId('misbehave'), 'log-flood 100000')).status, 200)
    assert.ok(cluster.runners[0].rssKiB() - before < 16 * 1024)
  })

  it('headers of a function cannot break the answer to a trigger', async () => {
    for (const header of ['Fn-Http-H-Transfer-Encoding: chunked', 'Fn-Http-H-Content-Length: 1',
      'Fn-Http-H-Connection: close', 'Fn-Http-Status: 99', 'Fn-Http-Status: abc', 'Fn-Http-Status: 1000']) {
      const answer = await request(lb.url('/t/demo/m'), { method: 'POST', body: `header ${header}` })
      assert.ok([200, 502].includes(answer.status), `${header}: ${answer.status}`)
      if (answer.status === 200) assert.equal(answer.text, 'hello', header)
    }
    const answer = await request(lb.url('/t/demo/m'), { method: 'POST', body: 'header Fn-Http-Status: 404' })
    assert.equal(answer.status, 404)
  })

  it('leaves nothing behind: no call, no container in use', async () => {
    await until('the runner is idle', async () => (await cluster.runners[0].metric('fn_running')) === 0)
  })
})

describe('a program that cannot run at all', () => {
  it('is the function\'s failure: said at once, tried nowhere else', async () => {
    const root = path.join(tempDir(), 'functions')
    mkdirSync(root)
    for (const [name, text] of [['no-program', 'neither ELF nor #!\n'], ['no-interpreter', '#!/no/such/interpreter\n']]) {
      writeFileSync(path.join(root, name), text)
      chmodSync(path.join(root, name), 0o755)
    }
    const runners = []
    for (let i = 0; i < 2; i++) runners.push(await startRunner({ driver: `driver: { use: process, root: ${root} }` }))
    const lb = await startLb({ addresses: runners.map((r) => `127.0.0.1:${r.grpcPort}`), functions: { 'no-program': {}, 'no-interpreter': {} } })
    for (const name of ['no-program', 'no-interpreter']) {
      const answer = await invoke(lb, fnId(name))
      assert.equal(answer.status, 502, answer.text)
      assert.match(answer.text, new RegExp(`Container failed to initialize: the program of image '${name}' could not be started`))
      assert.doesNotMatch(answer.text, /\/tmp/)
      assert.equal(answer.headers['fn-outcome'], 'failed')
    }
    assert.equal(await runners[0].metric('fn_runner_calls_received_total') + await runners[1].metric('fn_runner_calls_received_total'), 2)
    for (const node of [lb, ...runners]) assert.equal((await node.stop()).code, 0)
  })
})

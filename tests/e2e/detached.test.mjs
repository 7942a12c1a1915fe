// Detached calls: accepted with 202, executed once whatever the client does, refused where they are
// switched off.
import assert from 'node:assert/strict'
import net from 'node:net'
import { afterEach, describe, it } from 'node:test'
import { Ledger, fnId, startCluster } from './lib/cluster.mjs'
import { invoke, request } from './lib/http.mjs'
import { until } from './lib/node.mjs'

const DETACHED = { 'Fn-Invoke-Type': 'detached' }

describe('detached calls', () => {
  let cluster
  let ledger
  const start = async (options = {}) => {
    ledger = new Ledger()
    cluster = await startCluster({ functions: { ledger: { config: { LEDGER_FILE: ledger.file }, triggers: ['/ledger'] }, misbehave: {} }, ...options })
    return cluster.lb
  }
  const ended = (id) => until(`call ${id} ended`, () => ledger.read().get(id)?.ends > 0)
  const booksClosed = () => until('no call is left', async () => (await cluster.lb.metric('fn_calls_in_flight')) === 0 &&
    (await cluster.runners[0].metric('fn_runner_calls_in_flight')) === 0)
  afterEach(() => cluster?.stop())

  it('202 with the call\'s id and no body, before the function has ended; executed once', async () => {
    const lb = await start()
    await invoke(lb, fnId('ledger'), '0 warm')
    const answer = await invoke(lb, fnId('ledger'), '400 work', DETACHED)
    assert.equal(answer.status, 202, answer.text)
    assert.equal(answer.body.length, 0)
    const id = answer.headers['fn-call-id']
    assert.match(id, /^[0-9A-HJKMNP-TV-Z]{26}$/)
    assert.ok(!ledger.read().get(id)?.ends, 'the answer did not wait for the function')
    await ended(id)
    await booksClosed()
    assert.deepEqual({ ...ledger.read().get(id), containers: undefined }, { starts: 1, ends: 1, containers: undefined })
  })

  it('many at a time, each once', async () => {
    const lb = await start()
    const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => invoke(lb, fnId('ledger'), `20 ${i}`, DETACHED)))
    for (const answer of answers) assert.equal(answer.status, 202, answer.text)
    for (const answer of answers) await ended(answer.headers['fn-call-id'])
    await booksClosed()
    const calls = ledger.read()
    assert.equal(calls.size, 30)
    for (const [id, entry] of calls) assert.equal(entry.starts, 1, id)
  })

  it('a client that is gone right after its 202: the call runs to its end', async () => {
    const lb = await start()
    await invoke(lb, fnId('ledger'), '0 warm')
    const id = await new Promise((resolve, reject) => {
      const socket = net.connect(lb.port, '127.0.0.1')
      let text = ''
      socket.on('error', reject)
      socket.on('data', (data) => {
        text += data
        if (!text.includes('\r\n\r\n')) return
        socket.resetAndDestroy()
        resolve(/^HTTP\/1\.1 202 /.test(text) && /^fn-call-id: (\w+)/im.exec(text)?.[1])
      })
      socket.write(`POST /invoke/${fnId('ledger')} HTTP/1.1\r\nHost: x\r\nFn-Invoke-Type: detached\r\nContent-Length: 3\r\n\r\n300`)
    })
    assert.ok(id, 'a 202 with an id')
    await ended(id)
    await booksClosed()
    assert.equal(ledger.read().get(id).starts, 1)
    assert.equal(await lb.metric('fn_canceled'), 0)
  })

  it('a function that fails after the 202 is counted and in the log', async () => {
    const lb = await start()
    const answer = await invoke(lb, fnId('misbehave'), 'crash', DETACHED)
    assert.equal(answer.status, 202)
    await until('it is counted', async () => (await lb.metric('fn_detached_broken')) === 1 ||
      (await cluster.runners[0].metric('fn_errors')) === 1)
    await until('the log names it', () => (lb.log + cluster.runners[0].log).includes(answer.headers['fn-call-id']))
    await booksClosed()
  })

  it('stopping the nodes waits for accepted calls', async () => {
    const lb = await start()
    await invoke(lb, fnId('ledger'), '0 warm')
    const answer = await invoke(lb, fnId('ledger'), '500 last', DETACHED)
    assert.equal(answer.status, 202)
    assert.equal((await lb.stop()).code, 0)
    assert.equal((await cluster.runners[0].stop()).code, 0)
    assert.equal(ledger.read().get(answer.headers['fn-call-id'])?.ends, 1)
  })

  it('a trigger is never detached, whatever its client asks', async () => {
    const lb = await start()
    const answer = await request(lb.url('/t/demo/ledger'), { method: 'POST', body: '0 t', headers: DETACHED })
    assert.equal(answer.status, 200, answer.text)
    assert.equal(ledger.read().get(answer.headers['fn-call-id']).ends, 1)
  })

  it('lb.detached false: 501, nothing runs', async () => {
    const lb = await start({ lbOptions: { lb: 'detached: false' } })
    const answer = await invoke(lb, fnId('ledger'), '0 x', DETACHED)
    assert.equal(answer.status, 501, answer.text)
    assert.match(answer.text, /Detach call functions are not supported on this server/)
    assert.equal(answer.headers['fn-outcome'], 'not-executed')
    assert.equal(ledger.read().size, 0)
    assert.equal((await invoke(lb, fnId('ledger'), '0 x')).status, 200, 'others are served')
  })

  it('runner.detached false: refused, nothing runs', async () => {
    const lb = await start({ runnerOptions: { runner: 'detached: false' }, lbOptions: { lb: 'detached_placement_timeout: 1s' } })
    const answer = await invoke(lb, fnId('ledger'), '0 x', DETACHED)
    assert.ok([501, 503].includes(answer.status), `${answer.status} ${answer.text}`)
    assert.equal(ledger.read().size, 0)
  })

  it('no runner at all: 503 at the detached placement deadline', async () => {
    const lb = await start({ lbOptions: { lb: 'detached_placement_timeout: 300ms' } })
    await cluster.runners[0].kill()
    const answer = await invoke(lb, fnId('ledger'), '0 x', DETACHED)
    assert.equal(answer.status, 503, answer.text)
    assert.equal(answer.headers['fn-outcome'], 'not-executed')
  })

  it('an unknown invoke type is refused', async () => {
    const lb = await start()
    assert.equal((await invoke(lb, fnId('ledger'), '0 x', { 'Fn-Invoke-Type': 'tomorrow' })).status, 400)
    assert.equal(ledger.read().size, 0)
  })
})

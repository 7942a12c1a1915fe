// Torture: memory and system calls of a node fail, one after the other, at each place that a few calls
// reach. The node goes on, every request has an end, what it says is true, and the next call is answered.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { Ledger, fnId, startLb, startRunner } from '../e2e/lib/cluster.mjs'
import { request } from '../e2e/lib/http.mjs'
import { until } from '../e2e/lib/node.mjs'
import { Torture, endsWell } from '../e2e/lib/torture.mjs'

const BIG = Buffer.alloc(100_000, 'x')
const ANSWER_MS = 12_000 // above the limits of a call
const AGAIN_MS = 10_000

// [call, error, how many in a row, then each so-manieth]. What one does with a descriptor that is none of its own, and
// what the kernel cannot answer there, is left out.
const rows = {
  lb: [['malloc', 'ENOMEM', 400, 1], ['read', 'EINTR', 50, 1], ['read', 'EAGAIN', 50, 1],
    ['recv', 'EINTR', 50, 1], ['recv', 'EAGAIN', 50, 1], ['recv', 'short', 50, 1], ['recv', 'ECONNRESET', 50, 1], ['recv', 'ENOMEM', 50, 1],
    ['sendmsg', 'EINTR', 50, 1], ['sendmsg', 'EAGAIN', 50, 1], ['sendmsg', 'short', 50, 1], ['sendmsg', 'ENOBUFS', 50, 1], ['sendmsg', 'EPIPE', 50, 1],
    ['accept', 'EMFILE', 10, 1], ['accept', 'ENFILE', 10, 1], ['accept', 'ENOMEM', 10, 1], ['accept', 'ECONNABORTED', 10, 1], ['accept', 'EINTR', 10, 1],
    ['accept', 'EAGAIN', 10, 1], ['epoll_ctl', 'ENOSPC', 50, 1], ['epoll_ctl', 'ENOMEM', 50, 1], ['epoll_wait', 'EINTR', 50, 1],
    ['open', 'EMFILE', 20, 1], ['open', 'ENFILE', 20, 1]],
  runner: [['malloc', 'ENOMEM', 60, 9], ['read', 'EINTR', 20, 9], ['read', 'EAGAIN', 20, 29], ['write', 'EINTR', 20, 9], ['write', 'ENOSPC', 10, 9],
    ['recv', 'EINTR', 50, 1], ['recv', 'EAGAIN', 50, 1], ['recv', 'short', 50, 1], ['recv', 'ECONNRESET', 50, 1], ['recv', 'ENOMEM', 50, 1],
    ['sendmsg', 'EINTR', 50, 1], ['sendmsg', 'EAGAIN', 50, 1], ['sendmsg', 'short', 50, 1], ['sendmsg', 'ENOBUFS', 50, 1], ['sendmsg', 'EPIPE', 50, 1],
    ['socket', 'EMFILE', 10, 1], ['socket', 'ENOMEM', 10, 1], ['connect', 'ECONNREFUSED', 10, 1], ['connect', 'EAGAIN', 10, 1], ['connect', 'EINTR', 10, 1],
    ['epoll_ctl', 'ENOSPC', 50, 1], ['epoll_ctl', 'ENOMEM', 50, 1], ['epoll_wait', 'EINTR', 20, 5], ['open', 'EMFILE', 10, 19],
    ['opendir', 'EMFILE', 10, 1], ['pipe', 'EMFILE', 10, 1], ['mkdir', 'ENOSPC', 10, 1], ['mount', 'ENOMEM', 10, 1], ['mmap', 'ENOMEM', 10, 1],
    ['inotify', 'ENOSPC', 10, 1]],
}

for (const side of Object.keys(rows)) {
  describe(`torture: ${side}`, () => {
    const torture = new Torture()
    const ledger = new Ledger()
    let lb
    let runner
    let tortured
    let descriptors
    const open = () => readdirSync(`/proc/${tortured.pid}/fd`).length
    const call = (fn, body, headers = {}, keepAlive = true) => request(lb.url(`/invoke/${fnId(fn)}`), { method: 'POST', body, headers, keepAlive, timeoutMs: ANSWER_MS })
      .catch((e) => ({ status: 0, headers: {}, text: e.message }))

    before(async () => {
      const env = (name) => (name === side ? torture.env : {})
      const config = { LEDGER_FILE: ledger.file }
      // Two of three functions find room: each round ends a container and starts one.
      runner = await startRunner({ runner: 'memory_total: 128MiB', env: env('runner'), more: 'log: { level: warn }' })
      lb = await startLb({ addresses: [runner.address], lb: 'placement_timeout: 3s', env: env('lb'), more: 'log: { level: warn }',
        functions: { one: { image: 'ledger', memory: 64, timeout: 5, config }, two: { image: 'ledger', memory: 64, timeout: 5, config }, echo: { memory: 64, timeout: 5 } } })
      tortured = side === 'lb' ? lb : runner
      for (let i = 0; i < 3; i++) await round()
      descriptors = open()
    })
    after(async () => {
      torture.close()
      await lb?.stop()
      await runner?.stop()
      endsWell(tortured)
    })

    // -> [what, answer]; a connection that was cut has status 0.
    async function round() {
      return [['one', await call('one', '0 a')], ['two', await call('two', '0 b', {}, false)], ['echo', await call('echo', BIG)],
        ['detached', await call('one', '0 c', { 'fn-invoke-type': 'detached' })],
        ['page', await request(tortured.url('/metrics'), { timeoutMs: ANSWER_MS }).catch((e) => ({ status: 0, headers: {}, text: e.message }))]]
    }

    function check(what, name, answer) {
      assert.doesNotMatch(answer.text, /no answer within/, `${what}, ${name}: ${tortured.log.slice(-1000)}`)
      assert.ok(answer.status > 0 || side === 'lb' || name === 'page', `${what}, ${name}: the load balancer did not answer: ${answer.text}`)
      if (name === 'echo' && answer.status === 200 && answer.complete) assert.ok(answer.body.equals(BIG), `${what}: another answer`)
      assert.ok(!/fn|function/i.test(answer.text) || !/memory/i.test(answer.text) || answer.headers['fn-outcome'] !== 'failed', `${what}: the function is blamed: ${answer.text}`)
    }

    async function servesAgain(what) {
      await until(`${what}: it serves again\n${tortured.log.slice(-1000)}`, async () => {
        assert.equal(tortured.exit, null, `${what}: ended\n${tortured.log.slice(-2000)}`)
        return (await call('one', '0 again', {}, false)).status === 200
      }, AGAIN_MS)
    }

    for (const row of rows[side]) {
      it(`${row[0]}: ${row[1]}`, async () => {
        const answers = []
        const failed = await torture.each(row, round, async (what, all) => {
          for (const [name, answer] of all) check(what, name, answer)
          answers.push(...all.map(([name, answer]) => [what, name, answer]))
          await servesAgain(what)
        })
        assert.ok(failed > 0, 'none of them failed')
        const calls = ledger.read()
        for (const [what, name, answer] of answers) if (['one', 'two'].includes(name) && answer.headers['fn-call-id']) ledger.check(answer, what, calls)
      })
    }

    it('what it counts adds up, and it gives back what it opened', async () => {
      await until('no call runs', async () => await tortured.metric('fn_calls_in_flight') === 0)
      if (side === 'lb') assert.equal(await lb.metric('fn_calls'), await lb.metric('fn_call_outcomes'))
      await until('descriptors', () => open() <= descriptors + 2)
    })
  })
}

// GET /metrics on real nodes: scrapes share pages, and hold nobody up.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { closeIdle, invoke, request } from './lib/http.mjs'

describe('metrics', () => {
  it('256 scrapes at once: each gets a whole page, and pages do not add up', async () => {
    const lb = await startLb({ addresses: ['127.0.0.1:1'], functions: {}, http: 'connections_per_ip_max: 1000' })
    await lb.metrics()
    const before = lb.rssKiB()
    const answers = await Promise.all(Array.from({ length: 256 }, () => request(lb.url('/metrics'))))
    for (const answer of answers) {
      assert.equal(answer.status, 200)
      assert.match(answer.headers['content-type'], /^text\/plain; version=0\.0\.4/)
      assert.equal(Number(answer.headers['content-length']), Buffer.byteLength(answer.text))
      assert.match(answer.text, /\nfn_calls 0\n/)
    }
    assert.ok(lb.rssKiB() < before + 64 * 1024, `resident: ${before} KiB before, ${lb.rssKiB()} KiB after`)
    const head = await request(lb.url('/metrics'), { method: 'HEAD' })
    assert.equal(head.status, 200)
    assert.equal(head.text, '')
    closeIdle(lb.port)
    await lb.stop()
  })

  it('what counts rare events is there at zero, so that the first of them is an increase', async () => {
    const lb = await startLb({ addresses: ['127.0.0.1:1'], functions: {} })
    const { text } = await request(lb.url('/metrics'))
    for (const name of ['fn_placer_breaker', 'fn_placer_breaker_opened', 'fn_plugin_bad_answers', 'fn_plugin_lost', 'fn_loop_stuck',
      'fn_lane_lost_total', 'fn_config_reloads', 'fn_config_reload_failed', 'fn_node_degraded', 'fn_log_lost_lines', 'fn_log_diverted_lines',
      'fn_log_suppressed_lines', 'fn_lb_runner_strikes', 'fn_call_outcomes', 'fn_detached_broken']) {
      assert.match(text, new RegExp(`^${name}(\\{.*\\})? 0$`, 'm'))
    }
    closeIdle(lb.port)
    await lb.stop()
  })

  it('functions beyond runner.metrics_functions_max are one, and the page adds up', async () => {
    const names = ['one', 'two', 'three', 'four']
    const runner = await startRunner({ runner: 'metrics_functions_max: 2' })
    const lb = await startLb({ addresses: [runner.address], functions: Object.fromEntries(names.map((n) => [n, { image: 'hello' }])) })
    for (const [i, name] of names.entries()) {
      for (let n = 0; n <= i; n++) assert.equal((await invoke(lb, fnId(name))).status, 200)
    }
    const text = (await request(runner.url('/metrics'))).text
    const sum = (pattern) => [...text.matchAll(pattern)].reduce((all, m) => all + Number(m[1]), 0)
    const ids = new Set([...text.matchAll(/^fn_container_busy_duration_seconds_count\{.*fn_id="([^"]+)"/gm)].map((m) => m[1]))
    assert.deepEqual([...ids].sort(), [fnId('four'), fnId('three'), 'other'].sort())
    assert.equal(sum(/^fn_container_uds_init_latency_count\{.*\} (\d+)$/gm), 4)
    assert.match(text, /^fn_metrics_folded_series [1-9]/m)
    await Promise.all([lb.stop(), runner.stop()])
  })
})

// GET /metrics on real nodes: scrapes share pages, and hold nobody up.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { fnId, startCluster, startLb, startRunner } from './lib/cluster.mjs'
import { Elastic } from './lib/elastic.mjs'
import { closeIdle, invoke, request } from './lib/http.mjs'
import { Fnd, build, freePort, root, tempDir } from './lib/node.mjs'

// The rows of docs/metrics.md that speak of a type of node. That the page is what the sources declare is
// metrics_reference_current of ctest.
function reference(node) {
  const rows = readFileSync(path.join(root, 'docs/metrics.md'), 'utf8').matchAll(/^\| `(fn_.*)$/gm)
  return [...rows].map((m) => m[1].split(/(?<!\\)\|/).map((cell) => cell.trim())).map(([name, kinds, , labels, nodes, help]) => ({
    name: name.slice(0, -1), kinds: kinds.split(' or '), labels: [...labels.matchAll(/\w+/g)].map(String).sort(), nodes, help: help.replaceAll('\\|', '|'),
  })).filter(({ nodes }) => nodes === 'all' || nodes.split(', ').includes(node))
}

// Those of a page, as a scraper reads them.
function shown(text) {
  return text.split(/^# HELP /m).slice(1).map((family) => {
    const [, name, help, kind, samples] = /^(\S+) ([^\n]*)\n# TYPE \S+ (\w+)\n([^]*)$/.exec(family)
    const labels = new Set([...samples.matchAll(/[{,](\w+)="/g)].map((m) => m[1]))
    labels.delete('le')
    return { name, help, kind, labels: [...labels].sort() }
  })
}

function assertKnown(node, text) {
  const rows = reference(node)
  const families = shown(text)
  assert.ok(rows.length > 30 && families.length > 30, `${node}: ${rows.length} in the reference, ${families.length} on the page`)
  for (const { name, help, kind, labels } of families) {
    const row = rows.find((r) => r.name === name) ??
      rows.find((r) => r.name.includes('<') && r.help === help && new RegExp(`^${r.name.replaceAll(/<\w+>/g, '\\w+')}$`).test(name))
    assert.ok(row, `docs/metrics.md does not know that ${node} shows ${name}`)
    assert.ok(row.kinds.includes(kind), `${name} is a ${kind}`)
    assert.equal(help, row.help, name)
    if (labels.length > 0 || row.labels.length === 0) assert.deepEqual(labels, row.labels, name)
  }
}

// What promtool may say: names that are Go Fn's, or follow its style, and the units of five of our own.
const LINTS = [
  /^fn_\w+ counter metrics should have "_total" suffix$/,
  /^fn_(api_request|api_response|lb_placer_\w+)_count non-histogram and non-summary metrics should not have "_count" suffix$/,
  /^fn_container_\w+_total non-counter metrics should not have "_total" suffix$/,
  /^fn_lb_shadow_\w+_milliseconds use base unit "seconds" instead of "milliseconds"$/,
  /^fn_npm_\w+_mb metric names should not contain abbreviated units$/,
]

function promtool(text) {
  const { status, stdout, stderr, error } = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' })
  assert.ifError(error)
  return { status, stdout, stderr }
}

function assertClean(node, text) {
  const { status, stdout, stderr } = promtool(text)
  assert.ok(status === 0 || status === 3, `${node}: promtool: ${stderr}`) // 3: it dislikes names
  const said = `${stdout}${stderr}`.split('\n').filter(Boolean)
  assert.deepEqual(said.filter((line) => !LINTS.some((l) => l.test(line))), [], node)
}

// Go Fn's names (docs/fn-metrics.md) that docs/metrics.md has for this type of node are on its page. What only an engine,
// a status image or an eviction brings is not here.
function assertGo(node, text) {
  const go = readFileSync(path.join(root, 'tests/arrows/go-metrics.txt'), 'utf8').split('\n').filter((l) => l.startsWith('fn_')).map((l) => l.split(' ')[0])
  const names = reference(node).map((r) => r.name).filter((n) => go.includes(n) && !/^fn_(docker_(api|stats|exits)|status_call|container_evictions)/.test(n))
  const families = shown(text).map((f) => f.name)
  assert.ok(names.length >= 7, `${names}`)
  assert.deepEqual(names.filter((n) => !families.includes(n)), [], node)
}

function assertPage(node, text) {
  assertKnown(node, text)
  assertGo(node, text)
  assertClean(node, text)
}

const page = async (node) => (await request(node.url('/metrics'))).text

// As Prometheus asks.
const ACCEPT = 'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1'

// A strict parser takes its OpenMetrics, in which no sample is called otherwise than in text: `text` is older, and may lack some.
async function openMetrics(node, text) {
  const answer = await request(node.url('/metrics'), { headers: { accept: ACCEPT } })
  assert.equal(answer.headers['content-type'], 'application/openmetrics-text; version=1.0.0; charset=utf-8')
  assert.equal(answer.headers.vary, 'Accept')
  const said = spawnSync('/usr/bin/python3', [path.join(root, 'tests/e2e/lib/openmetrics.py')], { input: answer.text, encoding: 'utf8' })
  assert.equal(said.status, 0, said.stderr)
  const names = (page) => new Set([...page.matchAll(/^\w+/gm)].map(String))
  const [older, its, newer] = [text, answer.text, await page(node)].map(names)
  assert.deepEqual([...older].filter((n) => !its.has(n)), [])
  assert.deepEqual([...its].filter((n) => !newer.has(n)), [])
  return JSON.parse(said.stdout)
}

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
      'fn_log_suppressed_lines', 'fn_trace_spans', 'fn_lb_runner_strikes', 'fn_call_outcomes', 'fn_detached_broken']) {
      assert.match(text, new RegExp(`^${name}(\\{.*\\})? 0$`, 'm'))
    }
    closeIdle(lb.port)
    await lb.stop()
  })

  it('latencies have buckets between 1 s and 10 s, or those of fn.yaml', async () => {
    const bounds = (text, name) => [...new Set([...text.matchAll(new RegExp(`^${name}_bucket\\{.*le="([^"]+)"`, 'gm'))].map((m) => m[1]))].join(' ')
    const standard = await startLb({ addresses: ['127.0.0.1:1'], functions: {} })
    const chosen = await startLb({ addresses: ['127.0.0.1:1'], functions: {},
      more: 'metrics: { latency_buckets: [5, 50], buckets: ["fn_lb_placer_latency=1,2.5,10000"] }' })
    const text = await page(standard)
    assert.equal(bounds(text, 'fn_lb_placer_latency'),
      '1 10 50 100 250 500 1000 1500 2000 2500 3000 5000 7500 10000 60000 120000 +Inf')
    assert.equal(bounds(text, 'fn_lb_call_latency'), bounds(text, 'fn_lb_placer_latency'))
    const own = await page(chosen)
    assert.equal(bounds(own, 'fn_lb_call_latency'), '5 50 +Inf')
    assert.equal(bounds(own, 'fn_lb_placer_latency'), '1 2.5 10000 +Inf')
    assert.equal(bounds(own, 'fn_lb_placer_attempt_count'), '0 2 3 4 8 16 32 64 128 256 +Inf')
    closeIdle(standard.port)
    closeIdle(chosen.port)
    await Promise.all([standard.stop(), chosen.stop()])
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

  it('a load balancer and a runner show what docs/metrics.md says of them', async () => {
    const c = await startCluster({
      functions: { hello: { image: 'hello' } },
      lbOptions: { plugins: `shadow: { use: ch }\nlisteners: [count]` },
    })
    assert.equal((await invoke(c.lb, fnId('hello'))).status, 200)
    assert.equal((await invoke(c.lb, fnId('none'))).status, 404)
    const text = await page(c.lb)
    assert.match(text, /^fn_lb_shadow_asked 1$/m)
    assert.match(text, /^fn_plugin_listener_count_\w+\{instance=/m)
    assertPage('lb', text)
    const { families } = await openMetrics(c.lb, text)
    assert.deepEqual(families.fn_calls, { type: 'unknown', unit: '' })
    assert.deepEqual(families.fn_process_cpu_seconds, { type: 'counter', unit: 'seconds' })
    assert.deepEqual([families.fn_lane_lost.type, families.fn_lane_lost_total.type], ['gauge', 'unknown'])
    const ofRunner = await page(c.runners[0])
    assertPage('pure-runner', ofRunner)
    const { families: its } = await openMetrics(c.runners[0], ofRunner)
    assert.deepEqual(its.fn_container_busy_duration_seconds, { type: 'histogram', unit: '' }) // milliseconds
    assert.deepEqual(its.fn_runner_container_busy_seconds, { type: 'histogram', unit: 'seconds' })
    await c.stop()
  })

  it('a full node shows what docs/metrics.md says of it', async () => {
    const port = await freePort()
    const node = await Fnd.start('full', port, `
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { driver: { use: process, root: ${path.join(build, 'functions')} } }
runner: { iofs_path: ${tempDir()}, writable_root: true }
apps: [{ name: demo, functions: [{ name: hello, id: ${fnId('hello')}, image: hello }] }]
`)
    assert.equal((await invoke(node, fnId('hello'))).status, 200)
    const text = await page(node)
    assertPage('full', text)
    await openMetrics(node, text)
    await node.stop()
  })

  it('an api node shows what docs/metrics.md says of it', async () => {
    const port = await freePort()
    const node = await Fnd.start('api', port, `node: api\nhttp: { listen: "127.0.0.1:${port}" }\nstore: { url: "sqlite3://${tempDir()}/fn.db" }\n`)
    assert.equal((await request(node.url('/v2/apps'))).status, 200)
    const text = await page(node)
    assertClean('api', text)
    await openMetrics(node, text)
    assert.ok(shown(text).some(({ name }) => name === 'fn_api_response_count'))
    closeIdle(node.port)
    await node.stop()
  })

  it('a node pool manager shows what docs/metrics.md says of it', async () => {
    const e = await Elastic.start({ functions: { hello: { memory: 128 } } })
    try {
      assert.equal((await invoke(e.lbs[0], fnId('hello'))).status, 200)
      const text = await page(e.npm)
      assertPage('npm', text)
      await openMetrics(e.npm, text)
    } finally {
      await e.stop()
    }
  })

  it('with Prometheus\' names promtool has nothing to say, at any type of node', async () => {
    const more = 'metrics: { names: prometheus }'
    const spotless = (node, text) => {
      assert.deepEqual(promtool(text), { status: 0, stdout: '', stderr: '' }, node)
      const names = shown(text).map(({ name }) => name)
      assert.equal(new Set(names).size, names.length, `${node}: two metrics have one name`)
    }
    const c = await startCluster({ functions: { hello: { image: 'hello' } }, runnerOptions: { more }, lbOptions: { plugins: 'shadow: { use: ch }\nlisteners: [count]', more } })
    assert.equal((await invoke(c.lb, fnId('hello'))).status, 200)
    const text = await page(c.lb)
    assert.match(text, /^fn_calls_total 1$/m)
    assert.match(text, /^fn_lb_shadow_predicted_wait_seconds_bucket\{.*le="0.001"\} /m)
    spotless('lb', text)
    assert.equal((await openMetrics(c.lb, text)).families.fn_calls.type, 'counter')
    spotless('pure-runner', await page(c.runners[0]))
    await c.stop()
    const e = await Elastic.start({ functions: { hello: { memory: 128 } }, npm: more })
    try {
      assert.equal((await invoke(e.lbs[0], fnId('hello'))).status, 200)
      spotless('npm', await page(e.npm))
    } finally {
      await e.stop()
    }
    const [port, apiPort] = [await freePort(), await freePort()]
    const full = await Fnd.start('full', port, `
${more}
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { driver: { use: process, root: ${path.join(build, 'functions')} } }
runner: { iofs_path: ${tempDir()}, writable_root: true }
apps: [{ name: demo, functions: [{ name: hello, id: ${fnId('hello')}, image: hello }] }]
`)
    assert.equal((await invoke(full, fnId('hello'))).status, 200)
    const ofFull = await page(full)
    spotless('full', ofFull)
    await openMetrics(full, ofFull)
    const api = await Fnd.start('api', apiPort, `node: api\n${more}\nhttp: { listen: "127.0.0.1:${apiPort}" }\nstore: { url: "sqlite3://${tempDir()}/fn.db" }\n`)
    assert.equal((await request(api.url('/v2/apps'))).status, 200)
    spotless('api', await page(api))
    closeIdle(api.port)
    await Promise.all([full.stop(), api.stop()])
  })
})

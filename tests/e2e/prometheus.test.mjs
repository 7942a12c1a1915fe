// deploy/prometheus and deploy/grafana: each alert fires for its fault and for nothing else, each query is of metrics
// that there are, and in front of a real Prometheus that reads a cluster every one has an answer. It reads OpenMetrics, with
// the traces of calls as exemplars.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startCluster } from './lib/cluster.mjs'
import { Collector } from './lib/collector.mjs'
import { invoke, request } from './lib/http.mjs'
import { freePort, root, tempDir, until } from './lib/node.mjs'

const deploy = path.join(root, 'deploy')
const rules = ['recording.yaml', 'alerts.yaml'].map((name) => path.join(deploy, 'prometheus', name))
const read = (name) => readFileSync(path.join(deploy, name), 'utf8')
const dashboards = ['fleet', 'function'].map((name) => JSON.parse(read(`grafana/${name}.json`)))
const queries = dashboards.flatMap((d) => d.panels.flatMap((p) => (p.targets ?? []).map((t) => [`${d.title}, ${p.title}, ${t.legendFormat}`, t.expr])))

// A healthy cluster, a sample a minute; and for each alert the series that is another one, or there too.
const HEALTHY = {
  'up{job="fnd",instance="lb"}': '1x60',
  'fn_call_outcomes{job="fnd",instance="lb",outcome="ok"}': '0+6000x60',
  'fn_call_outcomes{job="fnd",instance="lb",outcome="failed"}': '0+60x60',
  'fn_call_outcomes{job="fnd",instance="lb",outcome="not-executed"}': '0+60x60',
  'fn_call_outcomes{job="fnd",instance="lb",outcome="unknown"}': '0x60',
  'fn_lb_waiting{job="fnd",instance="lb"}': '0 5 0 7x2 0x60',
  'fn_lb_runners{job="fnd",instance="lb"}': '4x60',
  'fn_lb_runners_up{job="fnd",instance="lb"}': '4x10 3x2 4x60',
  'fn_node_degraded{job="fnd",instance="lb",reason="loop-stuck"}': '0x60',
  'fn_tls_days_left{job="fnd",instance="lb",tls="grpc"}': '90x60',
  'fn_runner_engine_up{job="fnd",instance="runner"}': '1x60',
  'fn_npm_cplane_failures{job="fnd",instance="npm",group="default"}': '0x10 2x3 0x60',
}
const BROKEN = {
  FndCallsFailUnknown: ['fn_call_outcomes{job="fnd",instance="lb",outcome="unknown"}', '0+30x60'],
  FndCallsRefused: ['fn_call_outcomes{job="fnd",instance="lb",outcome="not-executed"}', '0+600x60'],
  FndCallsFail: ['fn_call_outcomes{job="fnd",instance="lb",outcome="failed"}', '0+600x60'],
  FndCallsWait: ['fn_lb_waiting{job="fnd",instance="lb"}', '3x60'],
  FndDetachedLost: ['fn_detached_broken{job="fnd",instance="lb"}', '0x20 1x40'],
  FndNodeDown: ['up{job="fnd",instance="lb"}', '1x20 0x40'],
  FndNodeCrashed: ['fn_node_restarts{job="fnd",instance="lb"}', '0x20 1x40'],
  FndNodeDegraded: ['fn_node_degraded{job="fnd",instance="lb",reason="loop-stuck"}', '0x20 1x40'],
  FndLoopStuck: ['fn_loop_stuck{job="fnd",instance="lb",plugin="p",kind="placer",method="decide"}', '_x20 1x40'] /* nobody knows the plugin before */,
  FndReloadRefused: ['fn_config_reload_failed{job="fnd",instance="lb"}', '0x20 1x40'],
  FndCertificateEnds: ['fn_tls_days_left{job="fnd",instance="lb",tls="grpc"}', '22x20 20x40'],
  FndLogLost: ['fn_log_lost_lines{job="fnd",instance="lb"}', '0x20 9x40'],
  FndPluginHangs: ['fn_plugin_lost{job="fnd",instance="lb"}', '0x20 1x40'],
  FndPluginMeddles: ['fn_plugin_audit_alarms{job="fnd",instance="lb",what="umask"}', '0x20 1x40'],
  FndNoRunner: ['fn_lb_runners_up{job="fnd",instance="lb"}', '4x26 0x40'] /* before FndRunnersAway, which wants 5 minutes */,
  FndRunnersAway: ['fn_lb_runners_up{job="fnd",instance="lb"}', '4x20 3x40'],
  FndRunnerUnwell: ['fn_lb_runners_failing{job="fnd",instance="lb",code="504"}', '0x20 1x40'],
  FndRunnerBreaksProtocol: ['fn_lb_runner_strikes{job="fnd",instance="lb"}', '0x20 1x40'],
  FndEngineDown: ['fn_runner_engine_up{job="fnd",instance="runner"}', '1x20 0x40'],
  FndContainersStay: ['fn_runner_remove_failures_total{job="fnd",instance="runner"}', '0x15 0+1x40'],
  FndCallSentTwice: ['fn_runner_replays_total{job="fnd",instance="runner"}', '0x20 1x40'],
  FndPoolAtMaximum: ['fn_npm_at_max{job="fnd",instance="npm",group="default"}', '0x10 1x40'],
  FndControlPlaneFails: ['fn_npm_cplane_failures{job="fnd",instance="npm",group="default"}', '0x20 3x40'],
  FndRunnersStillborn: ['fn_npm_stillborn{job="fnd",instance="npm",group="default"}', '0x20 1x40'],
}
const FIRES_AT = '29m'

const series = (of) => Object.entries(of).map(([name, values]) => ({ series: name, values }))
const firing = (names) => [{ expr: 'count by (alertname) (ALERTS{alertstate="firing"})', eval_time: FIRES_AT,
  exp_samples: names.map((name) => ({ labels: `{alertname="${name}"}`, value: 1 })) }]

it('each alert fires for its fault, and none in a healthy cluster', () => {
  const declared = [...read('prometheus/alerts.yaml').matchAll(/^ +- alert: (\w+)$/gm)].map((m) => m[1])
  assert.deepEqual(Object.keys(BROKEN), declared, 'each alert has its fault here')
  const tests = [{ name: 'healthy', interval: '1m', input_series: series(HEALTHY), promql_expr_test: firing([]) }]
  for (const [alert, [name, values]] of Object.entries(BROKEN)) {
    tests.push({ name: alert, interval: '1m', input_series: series({ ...HEALTHY, [name]: values }), promql_expr_test: firing([alert]) })
  }
  const file = path.join(tempDir(), 'test.yaml')
  writeFileSync(file, JSON.stringify({ rule_files: rules, evaluation_interval: '1m', tests })) // which is YAML too
  const said = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' })
  assert.equal(said.status, 0, `${said.stdout}${said.stderr}`)
})

it('every metric that they name is one of docs/metrics.md, every page there', () => {
  const known = new Set([...readFileSync(path.join(root, 'docs/metrics.md'), 'utf8').matchAll(/^\| `(fn_\w+)` \| (\w+)/gm)]
    .flatMap(([, name, type]) => (type === 'histogram' ? ['_bucket', '_sum', '_count'].map((end) => name + end) : [name])))
  const texts = [...queries.map(([, expr]) => expr), ...['recording', 'alerts'].map((name) => read(`prometheus/${name}.yaml`).replaceAll(/record: .*|\w+:fn_\w+:\w+/g, ''))]
  const named = texts.flatMap((text) => text.match(/\bfn_(?!id\b)\w+/g) ?? [])
  assert.ok(named.length > 60, `${named.length} names`)
  assert.deepEqual([...new Set(named)].filter((name) => !known.has(name)), [])
  for (const [, page] of read('prometheus/alerts.yaml').matchAll(/^ +page: (\S+)$/gm)) readFileSync(path.join(root, page))
})

it('the dashboards are what their table says', () => {
  const said = spawnSync(process.execPath, [path.join(deploy, 'grafana/dashboards.mjs'), '--check'], { encoding: 'utf8' })
  assert.equal(said.status, 0, said.stderr)
})

describe('in front of a real Prometheus', () => {
  let cluster, collector, child, ended, ask, get

  before(async () => {
    const dir = tempDir()
    const port = await freePort()
    collector = await Collector.start()
    const more = `traces: { endpoint: "${collector.url}", sample_permille: 0 }`
    cluster = await startCluster({ functions: { nap: { image: 'sleeper' } }, lbOptions: { more }, runnerOptions: { more } })
    const targets = [cluster.lb, ...cluster.runners].map((node) => `127.0.0.1:${node.port}`)
    const file = path.join(dir, 'prometheus.yml')
    writeFileSync(file, JSON.stringify({ global: { scrape_interval: '200ms', evaluation_interval: '500ms' }, rule_files: rules,
      scrape_configs: [{ job_name: 'fnd', static_configs: [{ targets }] }] }))
    child = spawn('prometheus', [`--config.file=${file}`, `--storage.tsdb.path=${path.join(dir, 'data')}`, `--web.listen-address=127.0.0.1:${port}`, '--enable-feature=exemplar-storage'], { stdio: ['ignore', 'ignore', 'pipe'] })
    let log = ''
    child.stderr.on('data', (data) => { log += data })
    ended = new Promise((resolve) => child.once('close', resolve))
    get = async (what) => {
      const answer = await request(`http://127.0.0.1:${port}/api/v1/${what}`).catch(() => null)
      assert.equal(child.exitCode, null, log)
      return answer && (answer.status === 200 || answer.status === 400) ? JSON.parse(answer.text) : null
    }
    ask = (expr) => get(`query?query=${encodeURIComponent(expr)}`)
  })

  after(async () => {
    child?.kill()
    await ended
    await cluster?.stop()
    await collector?.stop()
  })

  it('every query of the dashboards and each recorded series has an answer', async () => {
    const recorded = [...read('prometheus/recording.yaml').matchAll(/record: (\S+)$/gm)].map(([, name]) => [name, name])
    const wanted = [...queries, ...recorded]
    let silent = wanted
    const began = Date.now()
    await until('all are answered', async () => {
      // One more at a time each second, so that containers go on being started.
      const calls = Array.from({ length: 1 + (Date.now() - began) / 1000 }, () => invoke(cluster.lb, fnId('nap'), '100'))
      for (const answer of await Promise.all(calls)) assert.equal(answer.status, 200)
      const answers = await Promise.all(silent.map(([, expr]) => ask(expr.replaceAll('$job', 'fnd').replaceAll('$fn', fnId('nap')).replaceAll('$__rate_interval', '2s'))))
      for (const [i, answer] of answers.entries()) assert.notEqual(answer?.status, 'error', `${silent[i][0]}: ${answer?.error}`)
      silent = silent.filter((_, i) => !answers[i]?.data.result.some(({ value }) => value[1] !== 'NaN'))
      return silent.length === 0
    }, 20_000).catch((e) => { throw new Error(`${e.message}: ${silent.map(([what]) => what)}`) })
    assert.ok(wanted.length > 30)
  })

  it('has the trace of a sampled call with each of its latencies', async () => {
    const trace = '0af7651916cd43dd8448eb211c80319c'
    const traceparent = `00-${trace}-b7ad6b7169203331-01`
    assert.equal((await invoke(cluster.lb, fnId('nap'), '30', { traceparent })).status, 200)
    for (const name of ['fn_lb_call_latency', 'fn_lb_runner_exec_latency', 'fn_lb_function_seconds', 'fn_runner_container_busy_seconds', 'fn_container_busy_duration_seconds']) {
      const found = await until(`an exemplar of ${name}`, async () => {
        const now = Date.now() / 1000
        const answer = await get(`query_exemplars?query=${name}_bucket&start=${now - 60}&end=${now + 60}`)
        return answer?.data?.flatMap(({ seriesLabels, exemplars }) => exemplars.map((e) => ({ ...e, seriesLabels })))
          .find(({ labels }) => labels.trace_id === trace)
      })
      assert.ok(found.seriesLabels.le === '+Inf' || Number(found.value) <= Number(found.seriesLabels.le), JSON.stringify(found))
      assert.ok(Math.abs(found.timestamp - Date.now() / 1000) < 60)
    }
    await until('the collector has it', () => collector.spans.some((s) => s.traceId === trace))
  })

  it('sees all targets up, and an alert for a runner that is gone', async () => {
    await until('both are up', async () => (await ask('count(up == 1)'))?.data.result[0]?.value[1] === '2')
    await cluster.runners[0].kill()
    const pending = async (name) => (await ask(`ALERTS{alertname="${name}"}`))?.data.result[0]
    await until('FndNodeDown and FndNoRunner', async () => await pending('FndNodeDown') && pending('FndNoRunner'))
  })
})

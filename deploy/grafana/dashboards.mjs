#!/usr/bin/env node
// Writes the dashboards beside it: fleet.json and function.json, for Grafana 9 and later. Panels are a table
// here, since what Grafana wants of each is the same forty lines.
//   dashboards.mjs [--check]     --check: ends with 1 if the files are not what it would write
import { readFileSync, writeFileSync } from 'node:fs'

const WIDTH = 24
const HEIGHT = 7
const datasource = { type: 'prometheus', uid: '${source}' }

// [title, unit, { legend: query }, columns of 24]
const fleet = {
  'Calls': [
    ['Calls by outcome', 'reqps', { '{{outcome}}': 'sum by (outcome) (rate(fn_call_outcomes{job="$job"}[$__rate_interval]))' }, 8],
    ['What fnd adds to a call', 'ms', {
      p50: 'histogram_quantile(0.5, sum by (le) (rate(fn_lb_call_latency_bucket{job="$job"}[$__rate_interval])))',
      p99: 'histogram_quantile(0.99, sum by (le) (rate(fn_lb_call_latency_bucket{job="$job"}[$__rate_interval])))',
    }, 8],
    ['Calls that wait, calls at runners', 'short', { waiting: 'sum(fn_lb_waiting{job="$job"})', running: 'sum(fn_calls_in_flight{job="$job"})' }, 8],
  ],
  'Placement': [
    ['Refusals by reason', 'reqps', { '{{reason}}': 'sum by (reason) (rate(fn_lb_placer_refusals_total{job="$job"}[$__rate_interval]))' }, 8],
    ['Runners', 'short', { listed: 'max(fn_lb_runners{job="$job"})', connected: 'min(fn_lb_runners_up{job="$job"})', failing: 'max(fn_lb_runners_failing{job="$job"}) or vector(0)' }, 8],
    ['Placement', 'ms', { 'p99 of {{instance}}': 'histogram_quantile(0.99, sum by (instance, le) (rate(fn_lb_placer_latency_bucket{job="$job"}[$__rate_interval])))' }, 8],
  ],
  'Runners': [
    ['Memory that containers take', 'percentunit', { '{{instance}}': 'fn_util_mem_used{job="$job"} / (fn_util_mem_used{job="$job"} + fn_util_mem_avail{job="$job"})' }, 8],
    ['Calls by outcome', 'reqps', { '{{outcome}}': 'sum by (outcome) (rate(fn_runner_calls_total{job="$job"}[$__rate_interval]))' }, 8],
    ['Phases of a start, p95', 's', { '{{phase}}': 'histogram_quantile(0.95, sum by (phase, le) (rate(fn_runner_start_phase_seconds_bucket{job="$job"}[$__rate_interval])))' }, 8],
  ],
  'Ports': [
    ['Connections', 'short', { '{{instance}} {{port}}': 'fn_port_connections{job="$job"}' }, 8],
    ['Turned away', 'reqps', { '{{instance}} {{port}}': 'rate(fn_port_turned_away{job="$job"}[$__rate_interval])' }, 8],
    ['Received', 'Bps', { '{{instance}} {{port}}': 'rate(fn_port_received_bytes{job="$job"}[$__rate_interval])' }, 8],
    ['Sent', 'Bps', { '{{instance}} {{port}}': 'rate(fn_port_sent_bytes{job="$job"}[$__rate_interval])' }, 8],
    ['Handshakes that failed', 'reqps', { '{{instance}} {{port}}': 'rate(fn_port_handshakes_failed{job="$job"}[$__rate_interval])' }, 8],
  ],
  'Nodes': [
    ['Processor', 'short', { '{{instance}}': 'rate(fn_process_cpu_seconds_total{job="$job"}[$__rate_interval])' }, 6],
    ['Memory', 'bytes', { '{{instance}}': 'fn_process_resident_memory_bytes{job="$job"}' }, 6],
    ['Longest turn of the loop', 's', { '{{instance}}': 'fn_loop_longest_turn_seconds{job="$job"}' }, 6],
    ['Degraded', 'short', { '{{instance}} {{reason}}': 'fn_node_degraded{job="$job"}' }, 6],
  ],
}

const busy = (name) => `fn_runner_container_${name}{job="$job",fn_id="$fn"}`
const perFunction = {
  'Calls': [
    ['Runs', 'reqps', { '{{instance}}': `sum by (instance) (rate(${busy('busy_seconds_count')}[$__rate_interval]))` }, 12],
    ['Time of a run', 's', {
      p50: `histogram_quantile(0.5, sum by (le) (rate(${busy('busy_seconds_bucket')}[$__rate_interval])))`,
      p95: `histogram_quantile(0.95, sum by (le) (rate(${busy('busy_seconds_bucket')}[$__rate_interval])))`,
      p99: `histogram_quantile(0.99, sum by (le) (rate(${busy('busy_seconds_bucket')}[$__rate_interval])))`,
    }, 12],
  ],
  'Containers': [
    ['Cold starts', 'reqps', { '{{instance}}': `sum by (instance) (rate(${busy('start_seconds_count')}[$__rate_interval]))` }, 8],
    ['Time of a start, p95', 's', { '{{instance}}': `histogram_quantile(0.95, sum by (instance, le) (rate(${busy('start_seconds_bucket')}[$__rate_interval])))` }, 8],
    ['Containers by state', 'short', Object.fromEntries(['wait', 'start', 'idle', 'paused', 'busy'].map((state) => [state, `sum(fn_container_${state}_total{job="$job",fn_id="$fn"})`])), 8],
  ],
}

const query = (name, label, definition, more = {}) => ({ name, label, type: 'query', datasource, definition, query: { query: definition, refId: name }, refresh: 2, sort: 1, ...more })
const source = { name: 'source', label: 'Prometheus', type: 'datasource', query: 'prometheus' }
const job = query('job', 'Job', 'label_values(fn_process_start_time_seconds, job)')
const fn = query('fn', 'Function', 'label_values(fn_runner_container_busy_seconds_count{job="$job"}, fn_id)')

function panelsOf(rows) {
  const panels = []
  let y = 0
  for (const [row, list] of Object.entries(rows)) {
    panels.push({ id: panels.length + 1, type: 'row', title: row, collapsed: false, panels: [], gridPos: { x: 0, y, w: WIDTH, h: 1 } })
    let x = 0
    for (const [title, unit, queries, w] of list) {
      panels.push({
        id: panels.length + 1, type: 'timeseries', title, datasource, gridPos: { x, y: y + 1, w, h: HEIGHT },
        fieldConfig: { defaults: { unit, min: 0, custom: { lineWidth: 1, fillOpacity: 10, showPoints: 'never' } }, overrides: [] },
        options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi' } },
        targets: Object.entries(queries).map(([legendFormat, expr], i) => ({ refId: String.fromCharCode(65 + i), datasource, expr, legendFormat })),
      })
      x += w
    }
    y += 1 + HEIGHT
  }
  return panels
}

const dashboard = (uid, title, rows, variables) => ({
  uid, title, tags: ['fnd'], schemaVersion: 37, version: 1, editable: true, graphTooltip: 1, refresh: '10s', timezone: '',
  time: { from: 'now-1h', to: 'now' }, templating: { list: [source, ...variables] }, annotations: { list: [] }, panels: panelsOf(rows),
})

const files = {
  'fleet.json': dashboard('fnd-fleet', 'fnd: fleet', fleet, [job]),
  'function.json': dashboard('fnd-function', 'fnd: one function', perFunction, [job, fn]),
}
for (const [name, content] of Object.entries(files)) {
  const at = new URL(name, import.meta.url)
  const text = `${JSON.stringify(content, null, 2)}\n`
  if (process.argv[2] !== '--check') writeFileSync(at, text)
  else if (readFileSync(at, 'utf8') !== text) {
    console.error(`deploy/grafana/${name} is not what deploy/grafana/dashboards.mjs writes`)
    process.exitCode = 1
  }
}

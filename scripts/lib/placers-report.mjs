// Runs fnkit sim for every placer and scenario, writes tables into docs/placers.md between
// `<!-- table: name -->` and `<!-- end -->`, and draws docs/img/placers-*.svg. See scripts/placers-report.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { barPanels, lineChart } from './svg.mjs'

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..')
const build = path.resolve(root, process.env.FND_BUILD ?? 'build')
const SEEDS = [1, 2, 3, 4, 5] // medians over these
const SCENARIOS = ['steady', 'burst', 'azure-like', 'churn']
const SWEEP = [200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800, 2000] // calls/s of the steady scenario
const SWEEP_SEEDS = [1, 2, 3]

const plugin = (name) => path.join(build, 'plugins', `placer-${name}.so`)
const PLACERS = {
  naive: [plugin('naive')],
  ch: [plugin('ch')],
  p2c: [plugin('p2c')],
  first: [plugin('first')],
  chbl: [plugin('chbl')],
  hybrid: [plugin('hybrid')],
  slowstart: ['--inner', plugin('chbl'), '--set', 'placer.inner=chbl', plugin('slowstart')],
}
const LABELS = { slowstart: 'slowstart of chbl' }
const label = (name) => LABELS[name] ?? name

// ---- runs -------------------------------------------------------------------------------------

function simulate(scenario, placer, seed, set = []) {
  const out = execFileSync(path.join(build, 'fnkit'), ['sim', '--json', '--once', '--seed', String(seed),
    '--scenario', path.join(root, 'tests/scenario', `${scenario}.yaml`), ...set.flatMap((s) => ['--set', s]), ...PLACERS[placer]],
  { maxBuffer: 1 << 26 }).toString()
  return Object.fromEntries(JSON.parse(out).runs[0].rows.map((r) => [r.name, r.value]))
}

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]

// -> { row name: median }; a row that a run lacks is absent.
function medians(scenario, placer, set, seeds = SEEDS) {
  const runs = seeds.map((seed) => simulate(scenario, placer, seed, set))
  return Object.fromEntries(Object.keys(runs[0]).map((name) => [name, median(runs.map((r) => r[name]))]))
}

const results = {}
for (const scenario of SCENARIOS) {
  results[scenario] = {}
  for (const placer of Object.keys(PLACERS)) results[scenario][placer] = medians(scenario, placer)
}
const sweep = {}
for (const placer of Object.keys(PLACERS)) {
  if (placer !== 'slowstart') sweep[placer] = SWEEP.map((rate) => medians('steady', placer, [`arrivals.rate=${rate}`, 'duration=60s'], SWEEP_SEEDS))
}

// ---- tables -----------------------------------------------------------------------------------

const ms = (v) => (v >= 100 ? `${v.toFixed(0)} ms` : `${v.toFixed(1)} ms`)
const times = (v) => (v >= 100 ? `${v.toFixed(0)} x` : `${v.toFixed(2)} x`)
const percent = (v) => `${v.toFixed(2)} %`
const ROWS = [
  ['wait p99', 'wait p99', ms],
  ['slowdown p99', 'slowdown p99', times],
  ['cold starts', 'cold starts', percent],
  ['attempts per call', 'attempts per call', (v) => v.toFixed(2)],
  ['runners used', 'runners used', (v) => v.toFixed(0), ['azure-like']],
  ['lost with a runner', 'calls lost with their runner', (v) => v.toFixed(0), ['churn']],
  ['collateral moves', 'collateral moves', percent, ['churn']],
]

function table(placers) {
  const lines = [`| scenario | | ${placers.map(label).join(' | ')} |`, `|---|---|${placers.map(() => '---:').join('|')}|`]
  for (const scenario of SCENARIOS) {
    let first = scenario
    for (const [key, text, format, only] of ROWS) {
      if (only && !only.includes(scenario)) continue
      const cells = placers.map((p) => { const v = results[scenario][p][key]; return v === undefined ? 'no homes' : format(v) })
      lines.push(`| ${first} | ${text} | ${cells.join(' | ')} |`)
      first = ''
    }
  }
  return lines.join('\n')
}

// hybrid knows its own containers only: what it does when all of them are its own, and it is told how many.
const ALONE = [['ch', 'ch', []], ['chbl', 'chbl', []], ['hybrid, cap: 8', 'hybrid', []], ['hybrid, cap: 16', 'hybrid', ['placer.cap=16']]]
function aloneTable() {
  const runs = ALONE.map(([, placer, set]) => [1200, 1600, 2000].map((rate) => medians('steady', placer, ['lbs=1', `arrivals.rate=${rate}`, ...set])))
  const lines = [`| calls/s | | ${ALONE.map(([name]) => name).join(' | ')} |`, `|---|---|${ALONE.map(() => '---:').join('|')}|`]
  ;[1200, 1600, 2000].forEach((rate, i) => {
    lines.push(`| ${rate} | cold starts | ${runs.map((r) => percent(r[i]['cold starts'])).join(' | ')} |`)
    lines.push(`| | slowdown p99 | ${runs.map((r) => times(r[i]['slowdown p99'])).join(' | ')} |`)
  })
  return lines.join('\n')
}

const tables = { 'hybrid alone': aloneTable(), 'naive and ch': table(['naive', 'ch']) }
for (const name of ['p2c', 'first', 'chbl', 'hybrid']) tables[name] = table(['naive', 'ch', name])
tables.slowstart = table(['naive', 'ch', 'chbl', 'slowstart'])

const page = path.join(root, 'docs/placers.md')
let text = readFileSync(page, 'utf8')
for (const [name, body] of Object.entries(tables)) {
  const [begin, end] = [`<!-- table: ${name} -->`, '<!-- end -->']
  const at = text.indexOf(begin)
  const to = text.indexOf(end, at)
  if (at < 0 || to < 0) throw new Error(`docs/placers.md: no ${begin} ... ${end}`)
  text = `${text.slice(0, at + begin.length)}\n${body}\n${text.slice(to)}`
}
writeFileSync(page, text)

// ---- pictures ---------------------------------------------------------------------------------

const COLORS = { naive: '#8a8f98', ch: '#5b6270', p2c: '#2f7ed8', first: '#c77d0a', chbl: '#1a9c5b', hybrid: '#8e44ad', slowstart: '#7bc8a0' }
const draw = (name, svg) => writeFileSync(path.join(root, `docs/img/placers-${name}.svg`), svg)
const bars = (scenario, key) => Object.keys(PLACERS).filter((p) => results[scenario][p][key] !== undefined)
  .map((p) => ({ label: label(p), value: results[scenario][p][key], color: COLORS[p] }))
const TITLES = {
  steady: 'Steady load: 20 runners at 40 %, 200 functions, two load balancers',
  burst: 'Bursts: 10 runners, eight times the mean rate for 1 s every 20 s',
  'azure-like': 'Azure-like: heavy-tailed popularity and run times, 24 runners, 400 functions',
  churn: 'Churn: runners crash, vanish, drain, leave and join',
}
for (const scenario of SCENARIOS) {
  draw(scenario, barPanels(TITLES[scenario], [
    { title: 'cold starts, % of calls', bars: bars(scenario, 'cold starts'), format: percent },
    { title: 'slowdown p99', bars: bars(scenario, 'slowdown p99'), format: times },
    { title: 'wait p99', bars: bars(scenario, 'wait p99'), format: ms },
  ]))
}
draw('moves', barPanels('Churn: functions whose runner changes when membership does', [
  { title: 'all moves, % of functions per change', bars: bars('churn', 'moved per change'), format: percent },
  { title: 'collateral: their runner stayed', bars: bars('churn', 'collateral moves'), format: percent },
]))
const swept = (key) => Object.keys(sweep).map((p) => ({ label: label(p), color: COLORS[p], values: sweep[p].map((r) => r[key]) }))
const x = { title: 'calls per second, two load balancers, 20 runners with 16 containers each', values: SWEEP }
draw('load-cold', lineChart('Steady scenario: cold starts as load grows', { x, y: { title: 'cold starts, % of calls' }, lines: swept('cold starts') }))
draw('load-slowdown', lineChart('Steady scenario: slowdown as load grows', { x, y: { title: 'slowdown p99, log scale', log: true }, lines: swept('slowdown p99') }))
console.log('docs/placers.md and docs/img/placers-*.svg are written')

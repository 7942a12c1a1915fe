// scripts/bench plugins: the speed of the plugin platform against its limits, one table.
//
// Needs nothing but the build. The machine must be quiet: the limits are nanoseconds.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '..')
const build = path.resolve(process.env.FND_BUILD ?? path.join(root, 'build'))
const RUNS = 3 // of the simulator; the best one counts: it runs on one core and others may disturb it

const rows = []
let missed = 0

// limit: { text, met(value) } or null for a row that only informs
function row(what, limit, value, text) {
  const met = value === undefined ? 'not measured' : limit ? (limit.met(value) ? 'met' : 'not met') : ''
  missed += limit && met !== 'met' ? 1 : 0
  rows.push([what, limit?.text ?? '', text, met])
}
const most = (n, unit) => ({ text: `<= ${n} ${unit}`, met: (v) => v <= n })
const least = (n, text) => ({ text: `>= ${text}`, met: (v) => v >= n })

// ---- decisions --------------------------------------------------------------------------------

function measureDecisions() {
  const ns = {}
  for (const line of execFileSync(path.join(build, 'bench/bench_decide')).toString().trim().split('\n')) {
    const [name, value] = line.trim().split(/\s+/)
    ns[name] = Number(value)
  }
  const show = (what, name, limit) => row(what, limit, ns[name], ns[name] < 1000 ? `${ns[name]} ns` : `${(ns[name] / 1000).toFixed(1)} us`)
  const at = 'decide(), 10 000 runners'
  show('host -> plugin call, breadcrumb and budget included', 'call', most(40, 'ns'))
  show(`${at}: p2c`, 'decide-p2c', most(200, 'ns'))
  show(`${at}: chbl, index built`, 'decide-chbl', most(500, 'ns'))
  show(`${at}: chbl, half of the homes over the bound`, 'decide-chbl-over', most(500, 'ns'))
  show(`${at}: first, half of the runners at their cap`, 'decide-first', most(500, 'ns'))
  show(`${at}: chbl, a function's first ask after a change`, 'first-ask-chbl', { text: '<= 50 us', met: (v) => v <= 50_000 })
  show(`${at}: hybrid, packed`, 'decide-hybrid')
  show(`${at}: hybrid, spread`, 'decide-hybrid-high')
  show(`${at}: slowstart of chbl`, 'decide-slow-chbl')
  show(`${at}: naive`, 'decide-naive')
  show(`${at}: ch`, 'decide-ch')
  show('index of 10 000 runners: chbl', 'index-chbl')
}

// ---- simulator --------------------------------------------------------------------------------

// -> { name: value } of one placer in one scenario.
function simulate(scenario, placer, args = []) {
  const out = execFileSync(path.join(build, 'fnkit'), ['sim', '--json', '--once', '--scenario',
    path.join(root, 'tests/scenario', `${scenario}.yaml`), ...args, path.join(build, 'plugins', `placer-${placer}.so`)],
  { maxBuffer: 1 << 26 }).toString()
  return Object.fromEntries(JSON.parse(out).runs[0].rows.map((r) => [r.name, r.value]))
}

function measureSimulator() {
  const speed = least(500_000, '500 000 /s')
  if (!existsSync(path.join(root, 'tests/scenario/scale.yaml'))) {
    row('simulator, 1 LB x 1 000 runners x 100 functions, naive', speed, undefined, 'no simulator')
    return
  }
  const rates = Array.from({ length: RUNS }, () => simulate('scale', 'naive')['placed per real second'])
  const best = Math.max(...rates)
  row('simulator, 1 LB x 1 000 runners x 100 functions, naive', speed, best, `${Math.round(best).toLocaleString('en').replaceAll(',', ' ')} calls placed/s`)
  const share = (placer) => simulate('churn', placer)['collateral moves']
  const chbl = share('chbl')
  row('collateral moves when runners go: chbl', { text: '0 %', met: (v) => v === 0 }, chbl, `${chbl} %`)
  const ch = share('ch')
  row('the same: ch', null, ch, `${ch?.toFixed(1)} %`)
}

// ---- reload -----------------------------------------------------------------------------------

// bench/reload.mjs prints { "before_p99_us", "during_p99_us", "failed" } as its last line.
function measureReload() {
  const script = path.join(root, 'bench/reload.mjs')
  const limit = most(2, 'x p99 before')
  if (!existsSync(script)) {
    row('p99 during a reload under 10 000 calls/s', limit, undefined, 'no measurement')
    return
  }
  const r = JSON.parse(execFileSync('node', [script, '--json'], { env: { ...process.env, FND_BUILD: build } }).toString().trim().split('\n').at(-1))
  const factor = r.during_p99_us / r.before_p99_us
  row('p99 during a reload under 10 000 calls/s', limit, factor,
    `${factor.toFixed(2)} x (${r.before_p99_us} -> ${r.during_p99_us} us), ${r.failed} failed`)
}

measureDecisions()
measureSimulator()
measureReload()
console.log('| what | must reach | fnd | |\n|---|---|---|---|')
for (const r of rows) console.log(`| ${r.join(' | ')} |`)
process.exit(missed > 0 ? 1 : 0)

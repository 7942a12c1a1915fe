// scripts/bench npm: a node pool manager with many load balancers and runners, against its limits; what
// its absence costs and how soon a runner is there; the speed of its simulator.
//
// The load balancers and the runners' answers run beside the manager; its own CPU time is what counts.
import { spawn, execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { fnId } from '../tests/e2e/lib/cluster.mjs'
import { Elastic } from '../tests/e2e/lib/elastic.mjs'
import { invoke } from '../tests/e2e/lib/http.mjs'
import { until } from '../tests/e2e/lib/node.mjs'

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '..')
const build = path.resolve(process.env.FND_BUILD ?? path.join(root, 'build'))
const LBS = Number(process.env.FND_BENCH_LBS ?? 1000)
const GROUPS = 100
const PER_GROUP = 100
const SECONDS = Number(process.env.FND_BENCH_SECONDS ?? 40)
const RUNNER_PORT = 19191
const MANAGER_PORT = 19291
const FIRST_CALLS = 3
const ABSENT_S = Number(process.env.FND_BENCH_ABSENT_S ?? 60)
const CALLERS = 4

const dir = mkdtempSync(path.join(tmpdir(), 'fnd-bench-'))
const bench = path.join(build, 'bench/bench_npm')

writeFileSync(path.join(dir, 'fn.yaml'), `
node: npm
http: { listen: "127.0.0.1:18291" }
grpc: { listen: "127.0.0.1:${MANAGER_PORT}", connections_per_ip_max: 2000 } # of all load balancers, which are here
admin: { socket: "off" }
log: { level: warn }
plugin_dir: ${path.join(build, 'plugins')}
npm:
  groups: [${Array.from({ length: GROUPS }, (_, i) => `g${i}`).join(', ')}]
  group_runners_max: ${PER_GROUP}
  runners_min: ${PER_GROUP}
  runners_max: ${GROUPS * PER_GROUP}
  lbs_max: 1000
  settle: 1s
plugins:
  control_plane: { use: many, file: ${path.join(build, 'bench/cp-many.so')}, per_group: ${PER_GROUP}, port: ${RUNNER_PORT} }
`, { mode: 0o600 })

const pause = (ms) => new Promise((r) => setTimeout(r, ms))
const start = (file, args) => spawn(file, args, { stdio: ['ignore', 'inherit', 'inherit'] })
// Lines of a name and a number.
const figures = (text) => Object.fromEntries(text.trim().split('\n').map((l) => l.split(' ')).map(([k, n]) => [k, Number(n)]))

const rows = []
function row(what, limit, value, met) {
  rows.push([what, limit, value, met ? 'met' : 'not met'])
}

// utime + stime in seconds
function cpu(pid) {
  const f = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return (Number(f[11]) + Number(f[12])) / 100
}
const rssMb = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024

async function measureManager() {
  const manager = start(path.join(build, 'fnd'), ['run', '--config', path.join(dir, 'fn.yaml')])
  try {
    await pause(5000)
    const lbs = spawn(bench, ['lbs', `127.0.0.1:${MANAGER_PORT}`, String(LBS), String(GROUPS), String(SECONDS)])
    let out = ''
    lbs.stdout.on('data', (d) => { out += d })
    await pause(15_000) // connections, first lists
    const before = { cpu: cpu(manager.pid), t: Date.now() }
    await pause((SECONDS - 17) * 1000)
    const used = (cpu(manager.pid) - before.cpu) / ((Date.now() - before.t) / 1000)
    const rss = rssMb(manager.pid)
    await new Promise((r) => lbs.once('close', r))
    const v = figures(out)
    row(`CPU of one core, ${LBS} load balancers x ${GROUPS} groups, ${GROUPS * PER_GROUP} runners`, '<= 20 %', `${(used * 100).toFixed(1)} %`, used <= 0.2)
    row('membership answer, p99', '<= 5 ms', `${(v['membership-p99-us'] / 1000).toFixed(2)} ms (p50 ${(v['membership-p50-us'] / 1000).toFixed(2)})`, v['membership-p99-us'] <= 5000)
    row('memory', '<= 64 MB', `${rss.toFixed(1)} MB`, rss <= 64)
    row('words about demand that were not taken', '0', `${v.failed + v.late} of ${v.sent}`, v.failed + v.late === 0)
  } finally {
    manager.kill('SIGKILL')
  }
}

// A load balancer's side: pool-npm takes lists of as many runners and the place publishes them. A call that
// comes meanwhile waits for the running turn of the loop: the longest one is what it can lose.
function measureLists() {
  const list = figures(execFileSync(path.join(build, 'bench/bench_list'),
    [path.join(build, 'plugins'), 'naive', String(GROUPS * PER_GROUP), String(RUNNER_PORT)], { encoding: 'utf8' }))
  const kinds = ['all-new', 'the-same', 'a-tenth-new']
  const ms = (us) => (us / 1000).toFixed(2)
  const most = (stage) => Math.max(...kinds.map((kind) => list[`${kind}-${stage}-us`]))
  const longest = Math.max(...kinds.map((kind) => list[`${kind}-longest-us`]))
  row(`load balancer: a list of ${GROUPS * PER_GROUP} runners published`, '<= 5 ms',
    `${ms(most('published'))} ms (read before ${ms(most('taken'))}, let go of the old one ${ms(most('let-go'))})`, most('published') <= 5000)
  row('load balancer: longest delay of a call by all of this', '<= 1 ms',
    `${ms(longest)} ms (by opening the links ${ms(list['opening-longest-us'])}, by closing ${ms(list['closing-longest-us'])})`, longest <= 1000)
}

function measureSimulator() {
  const out = execFileSync(path.join(build, 'npm_sim'), ['--seed', '1', '--seeds', '10', '--hours', '2', '--lbs', '8', '--runners', '200'], { encoding: 'utf8' })
  const speed = Number(/(\d+) x real time/.exec(out)[1])
  row('npm_sim: 8 load balancers, 200 runners, faults on', '>= 20000', `${speed} x real time`, speed >= 20_000)
}

const functions = { hello: { memory: 128 } }

// From no runner to the answer of a call that waited for one (cp-process).
async function measureFirstCall() {
  const e = await Elastic.start({ functions })
  const waits = []
  try {
    for (let i = 0; i < FIRST_CALLS; i++) {
      const begin = Date.now()
      const answer = await invoke(e.lbs[0], fnId('hello'), '{}')
      if (answer.status !== 200) throw new Error(`first call: ${answer.status} ${answer.text}`)
      waits.push(Date.now() - begin)
      await until('the runner is given back', async () => Object.keys(await e.states()).length === 0, 30_000)
    }
  } finally {
    await e.stop()
  }
  row('first waiting call ran on a runner that did not exist, longest', '<= 3 s', `${(Math.max(...waits) / 1000).toFixed(2)} s (of ${FIRST_CALLS})`, Math.max(...waits) <= 3000)
}

// Callers that never pause while the manager is dead, and some seconds after it is back.
async function measureAbsence() {
  const e = await Elastic.start({ lbs: 2, functions })
  let calls = 0
  let failed = 0
  let over = false
  const caller = async (lb) => {
    while (!over) {
      const answer = await invoke(lb, fnId('hello'), '{}').catch(() => ({ status: 0 }))
      calls++
      if (answer.status !== 200) failed++
    }
  }
  try {
    await invoke(e.lbs[0], fnId('hello'), '{}')
    const callers = Array.from({ length: CALLERS }, (_, i) => caller(e.lbs[i % 2]))
    await e.npm.kill()
    await pause(ABSENT_S * 1000)
    await e.npm.start()
    await pause(5000)
    over = true
    await Promise.all(callers)
  } finally {
    over = true
    await e.stop()
  }
  row(`failed calls, manager killed for ${ABSENT_S} s under load`, '0', `${failed} of ${calls}`, failed === 0 && calls > 0)
}

const runner = start(bench, ['runner', `0.0.0.0:${RUNNER_PORT}`])
try {
  await measureManager()
  await pause(5000) // a thousand connections close
  measureLists()
} finally {
  runner.kill('SIGKILL')
}
measureSimulator()
await measureFirstCall()
await measureAbsence()
for (const [what, limit, value, met] of rows) console.log(`${what.padEnd(72)} ${limit.padStart(8)}  ${value.padStart(22)}  ${met}`)
rmSync(dir, { recursive: true, force: true })

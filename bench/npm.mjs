// scripts/bench npm: a node pool manager with many load balancers and runners, against its limits.
//
// The load balancers and the runners' answers run beside the manager; its own CPU time is what counts.
import { spawn, execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '..')
const build = path.resolve(process.env.FND_BUILD ?? path.join(root, 'build'))
const LBS = Number(process.env.FND_BENCH_LBS ?? 1000)
const GROUPS = 100
const PER_GROUP = 100
const SECONDS = Number(process.env.FND_BENCH_SECONDS ?? 40)
const RUNNER_PORT = 19191
const MANAGER_PORT = 19291

const dir = mkdtempSync(path.join(tmpdir(), 'fnd-bench-'))
const bench = path.join(build, 'bench/bench_npm')

writeFileSync(path.join(dir, 'fn.yaml'), `
node: npm
http: { listen: "127.0.0.1:18291" }
grpc: { listen: "127.0.0.1:${MANAGER_PORT}" }
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

// utime + stime in seconds
function cpu(pid) {
  const f = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return (Number(f[11]) + Number(f[12])) / 100
}
const rssMb = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024

const runner = start(bench, ['runner', `0.0.0.0:${RUNNER_PORT}`])
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
  const v = Object.fromEntries(out.trim().split('\n').map((l) => l.split(' ')).map(([k, n]) => [k, Number(n)]))
  const rows = [
    [`CPU of one core, ${LBS} load balancers x ${GROUPS} groups, ${GROUPS * PER_GROUP} runners`, '<= 20 %', `${(used * 100).toFixed(1)} %`, used <= 0.2],
    ['membership answer, p99', '<= 5 ms', `${(v['membership-p99-us'] / 1000).toFixed(2)} ms (p50 ${(v['membership-p50-us'] / 1000).toFixed(2)})`, v['membership-p99-us'] <= 5000],
    ['memory', '<= 64 MB', `${rss.toFixed(1)} MB`, rss <= 64],
    ['words about demand that were not taken', '0', `${v.failed + v.late} of ${v.sent}`, v.failed + v.late === 0],
  ]
  // A load balancer's side: lists of as many runners.
  const list = Object.fromEntries(execFileSync(path.join(build, 'bench/bench_list'),
    [path.join(build, 'plugins'), 'naive', String(GROUPS * PER_GROUP), String(RUNNER_PORT)], { encoding: 'utf8' })
    .trim().split('\n').map((l) => l.split(' ')).map(([k, n]) => [k, Number(n)]))
  const published = Math.max(list['all-new-us'], list['the-same-us'], list['a-tenth-new-us'])
  rows.push(
    [`load balancer: a list of ${GROUPS * PER_GROUP} runners published`, '<= 5 ms', `${(published / 1000).toFixed(2)} ms`, published <= 5000],
    ['load balancer: loop held by opening links, longest', '<= 1 ms', `${(list['portion-max-us'] / 1000).toFixed(2)} ms (${list['link-us']} us a link)`, list['portion-max-us'] <= 1000])
  for (const [what, limit, value, met] of rows) console.log(`${what.padEnd(72)} ${limit.padStart(8)}  ${value.padStart(22)}  ${met ? 'met' : 'not met'}`)
} finally {
  manager.kill('SIGKILL')
  runner.kill('SIGKILL')
}

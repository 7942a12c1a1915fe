// Simulated years of the node pool manager, in processes side by side.
//   FND_LONG=1 FND_BUILD=build [FND_SIM_SEED=1] [FND_SIM_YEARS=1] [FND_JOBS=2] node tests/long/npm_sim.mjs
// Fails when a seed breaks an invariant, or when a kind of fault or of action was met too seldom.
import { spawn } from 'node:child_process'
import path from 'node:path'

if (!process.env.FND_LONG) {
  console.log('not run: it takes minutes; set FND_LONG=1')
  process.exit(0)
}
const program = path.join(process.env.FND_BUILD ?? 'build', 'npm_sim')
const years = Number(process.env.FND_SIM_YEARS ?? 1)
const HOURS = 6
const BLOCK = 100
const MET_MIN = 100
let seed = Number(process.env.FND_SIM_SEED ?? 1)
let left = Math.ceil(years * 365.25 * 24 / (HOURS + 1) / BLOCK)
const met = new Map()
const broken = []
let simulated = 0

function block() {
  return new Promise((resolve) => {
    const p = spawn(program, ['--seed', String(seed), '--seeds', String(BLOCK), '--hours', String(HOURS)])
    let out = ''
    seed += BLOCK
    p.stdout.on('data', (d) => { out += d })
    p.stderr.on('data', (d) => { out += d })
    p.on('close', (code) => {
      if (code !== 0) broken.push(out.split('\n').filter((l) => /broken after|repeat:/.test(l)).join('\n') || `status ${code}`)
      for (const line of out.split('\n').filter((l) => /^(faults|actions):/.test(l))) {
        for (const [, name, n] of line.matchAll(/([a-z-]+) (\d+)/g)) met.set(name, (met.get(name) ?? 0) + Number(n))
      }
      simulated += Number(/([\d.]+) simulated years/.exec(out)?.[1] ?? 0)
      resolve()
    })
  })
}

const begin = Date.now()
await Promise.all(Array.from({ length: Number(process.env.FND_JOBS ?? 2) }, async () => {
  while (left-- > 0) await block()
}))
for (const text of broken) console.log(`FAILED: ${text}`)
const seldom = [...met].filter(([, n]) => n < MET_MIN).map(([name, n]) => `${name} ${n}`)
if (seldom.length) console.log(`FAILED: met fewer than ${MET_MIN} times: ${seldom.join(', ')}`)
console.log(`${simulated.toFixed(2)} simulated years in ${((Date.now() - begin) / 1000).toFixed(0)} s, ` +
  `${broken.length} blocks of ${BLOCK} seeds broken, next seed ${seed}`)
process.exitCode = broken.length || seldom.length ? 1 : 0

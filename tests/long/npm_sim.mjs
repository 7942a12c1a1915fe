// Simulated years of the node pool manager, in processes side by side.
//   FND_LONG=1 FND_BUILD=build [FND_SIM_SEED=1] [FND_SIM_YEARS=1] [FND_JOBS=2] [FND_SIM_LEDGER=file]
//     node tests/long/npm_sim.mjs
// With a ledger each block of seeds that is done is a line of that file, and blocks that are in it are
// not run again: stop it at any time, start it again to go on, FND_SIM_YEARS=0 only adds it up. A ledger
// is good for one behaviour of the step: its first block is run again at each start and must have the
// same hash.
// Fails when a seed breaks an invariant, or when a kind of fault or of action was met too seldom.
import { spawn } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

if (!process.env.FND_LONG) {
  console.log('not run: it takes minutes; set FND_LONG=1')
  process.exit(0)
}
const program = path.join(process.env.FND_BUILD ?? 'build', 'npm_sim')
const years = Number(process.env.FND_SIM_YEARS ?? 1)
const ledger = process.env.FND_SIM_LEDGER
const HOURS = 6
const BLOCK = 100
const MET_MIN = 100
const running = new Set()

function block(seed) {
  return new Promise((resolve) => {
    const p = spawn(program, ['--seed', String(seed), '--seeds', String(BLOCK), '--hours', String(HOURS)])
    let out = ''
    running.add(p)
    p.stdout.on('data', (d) => { out += d })
    p.stderr.on('data', (d) => { out += d })
    p.on('error', (e) => { out += e.message })
    p.on('close', (code) => {
      const done = { seed, seeds: BLOCK, hours: HOURS, met: {} }
      running.delete(p)
      done.years = Number(/([\d.]+) simulated years/.exec(out)?.[1] ?? 0)
      done.hash = /runs, \d+ broken, hash (\w+)/.exec(out)?.[1] ?? ''
      if (code !== 0) {
        done.broken = out.split('\n').filter((l) => /broken after|repeat:/.test(l)).join('\n') || `status ${code}: ${out.slice(0, 200)}`
      }
      for (const line of out.split('\n').filter((l) => /^(faults|actions):/.test(l))) {
        for (const [, name, n] of line.matchAll(/([a-z-]+) (\d+)/g)) done.met[name] = Number(n)
      }
      resolve(done)
    })
  })
}

// The last line of a run that was killed may be half a one.
function read(file) {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []
  return lines.flatMap((l) => {
    try {
      return l ? [JSON.parse(l)] : []
    } catch {
      return []
    }
  })
}

function end(status) {
  for (const p of running) p.kill('SIGKILL')
  process.exit(status)
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => end(1))

const blocks = ledger ? read(ledger) : []
const begin = Date.now()
const sum = () => blocks.reduce((n, b) => n + b.years, 0)
const broken = () => blocks.filter((b) => b.broken)
let seed = Number(process.env.FND_SIM_SEED ?? 1)

function next() {
  while (blocks.some((b) => b.seed === seed)) seed += BLOCK
  seed += BLOCK
  return seed - BLOCK
}

function expected() { // what the blocks under way will bring
  return running.size * BLOCK * (HOURS + 65 / 60) / (365.25 * 24)
}

if (blocks.length && years > 0) {
  const again = await block(blocks[0].seed)
  if (again.hash !== blocks[0].hash) {
    console.log(`FAILED: ${ledger}: seeds from ${blocks[0].seed} had hash ${blocks[0].hash}, got ${again.hash}: another program wrote it`)
    end(1)
  }
}
if (years > 0) {
  await Promise.all(Array.from({ length: Number(process.env.FND_JOBS ?? 2) }, async () => {
    while (sum() + expected() < years) {
      const done = await block(next())
      blocks.push(done)
      if (ledger) appendFileSync(ledger, `${JSON.stringify(done)}\n`)
      if (!done.years) end(1)
    }
  }))
}

const met = new Map()
for (const b of blocks) for (const [name, n] of Object.entries(b.met)) met.set(name, (met.get(name) ?? 0) + n)
for (const b of broken()) console.log(`FAILED: ${b.broken}`)
const seldom = [...met].filter(([, n]) => n < MET_MIN).map(([name, n]) => `${name} ${n}`)
if (seldom.length) console.log(`FAILED: met fewer than ${MET_MIN} times: ${seldom.join(', ')}`)
const faults = [...met].filter(([name]) => !['list', 'provision', 'remove', 'ask', 'publish', 'note'].includes(name))
console.log(`${sum().toFixed(2)} simulated years, ${faults.reduce((n, [, k]) => n + k, 0)} faults, ${blocks.length} blocks of ${BLOCK} seeds, ` +
  `${broken().length} broken, this time ${((Date.now() - begin) / 1000).toFixed(0)} s`)
process.exitCode = broken().length || seldom.length ? 1 : 0

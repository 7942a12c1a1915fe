// The demo's load, its chart in the terminal and its picture. Usage: demo-elastic.mjs <picture.svg> [--swarm]
import { writeFileSync } from 'node:fs'
import { Elastic } from '../../tests/e2e/lib/elastic.mjs'
import { fnId } from '../../tests/e2e/lib/cluster.mjs'
import { invoke } from '../../tests/e2e/lib/http.mjs'
import { borrow, buildImage, impossible } from '../../tests/e2e/lib/swarm.mjs'
import { socketPath } from '../../tests/e2e/lib/docker.mjs'

const STATES = ['active', 'booting', 'draining', 'removing']
const SAMPLE_MS = 500
const FUNCTION_MB = 64
const CALL_MS = 400
// Seconds and callers at a time.
const LOAD = [[4, 0], [12, 3], [16, 12], [10, 6], [10, 0], [8, 4], [0, 0]]

const count = { made: 0, answered: 0, lost: 0 }
const samples = []
let callers = 0
let firstWait = 0
let firstAnswer = 0

const pause = (ms) => new Promise((r) => setTimeout(r, ms))

async function caller(lb, mine) {
  while (callers >= mine) {
    count.made++
    firstWait ||= Date.now()
    const answer = await invoke(lb, fnId('sleeper'), String(CALL_MS)).catch((e) => ({ status: 0, text: e.message }))
    if (answer.status === 200) {
      count.answered++
      firstAnswer ||= Date.now()
    } else {
      count.lost++
      console.error(`lost: ${answer.status} ${answer.text}`)
    }
  }
}

async function load(lbs) {
  const running = []
  for (const [seconds, n] of LOAD) {
    const before = callers
    callers = n
    for (let i = before + 1; i <= n; i++) running.push(caller(lbs[i % lbs.length], i))
    await pause(seconds * 1000)
  }
  await Promise.all(running)
}

// ---- terminal ------------------------------------------------------------------------------------

const bar = (mb, full, sign) => sign.repeat(Math.round((mb / full) * 40))

function show(s, full) {
  const capacity = STATES.map((state, i) => bar(s[state] * s.runnerMb, full, '#+-x'[i])).join('')
  const runners = STATES.filter((state) => s[state]).map((state) => `${s[state]} ${state}`).join(', ') || 'none'
  console.log(`${String(Math.round(s.t)).padStart(3)} s  wanted   ${bar(s.wanted, full, '=').padEnd(44)} ${s.wanted} MB, ${s.waiting} calls wait`)
  console.log(`       capacity ${capacity.padEnd(44)} ${runners}${s.asked ? `, ${s.asked} asked for` : ''}`)
}

async function sample(e, begin, full) {
  const { groups: [g], runners } = await e.runners()
  const s = { t: (Date.now() - begin) / 1000, wanted: g.wanted_mb, waiting: g.waiting, asked: g.asked, runnerMb: 256 }
  for (const state of STATES) s[state] = runners.filter((r) => r.state === state).length
  samples.push(s)
  if (samples.length % 4 === 1) show(s, full)
  return s
}

// ---- picture -------------------------------------------------------------------------------------

const COLOURS = { active: '#2e7d4f', booting: '#e0a030', draining: '#8aa0b8', removing: '#c8ccd2' }
const W = 960
const H = 420
const BOX = { left: 70, right: 20, top: 70, bottom: 50 }

function picture(full) {
  const end = samples.at(-1).t
  const x = (t) => BOX.left + (t / end) * (W - BOX.left - BOX.right)
  const y = (mb) => H - BOX.bottom - (mb / full) * (H - BOX.top - BOX.bottom)
  const out = [`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${W} ${H}" font-family="sans-serif" font-size="13" fill="#222">`,
    `<rect width="${W}" height="${H}" fill="#fff"/>`,
    `<text x="${BOX.left}" y="26" font-size="17">Elastic pool: memory that calls want, and runners that follow</text>`]
  for (let mb = 0; mb <= full; mb += 256) {
    out.push(`<path d="M${BOX.left} ${y(mb)}H${W - BOX.right}" stroke="#e4e6ea"/><text x="${BOX.left - 8}" y="${y(mb) + 4}" text-anchor="end">${mb}</text>`)
  }
  for (let t = 0; t <= end; t += 10) out.push(`<text x="${x(t)}" y="${H - BOX.bottom + 20}" text-anchor="middle">${t}</text>`)
  out.push(`<text x="${(W + BOX.left) / 2}" y="${H - 10}" text-anchor="middle">seconds</text>`)
  out.push(`<text transform="translate(18 ${H / 2}) rotate(-90)" text-anchor="middle">MB</text>`)
  // Steps, stacked by state.
  const base = samples.map(() => 0)
  for (const state of STATES) {
    const low = [...base]
    samples.forEach((s, i) => { base[i] += s[state] * s.runnerMb })
    const step = (values, order) => order.map((i, k) => `${k ? 'L' : ''}${x(samples[i].t).toFixed(1)} ${y(values[i]).toFixed(1)}`).join('')
    const forth = samples.map((_, i) => i)
    out.push(`<path d="M${step(base, forth)}L${step(low, forth.reverse())}Z" fill="${COLOURS[state]}" fill-opacity=".8"/>`)
  }
  const wanted = samples.map((s) => `${x(s.t).toFixed(1)} ${y(s.wanted).toFixed(1)}`).join('L')
  out.push(`<path d="M${wanted}" fill="none" stroke="#b3261e" stroke-width="2.5"/>`)
  let at = BOX.left
  for (const [name, colour] of [['wanted by calls', '#b3261e'], ...STATES.map((s) => [`${s} runners`, COLOURS[s]])]) {
    out.push(`<rect x="${at}" y="40" width="14" height="14" fill="${colour}"/><text x="${at + 20}" y="52">${name}</text>`)
    at += 36 + name.length * 7.2
  }
  out.push('</svg>')
  return out.join('\n')
}

// ---- the run -------------------------------------------------------------------------------------

// Control plane swarm on this machine's engine; it is out of the Swarm again afterwards.
async function swarm() {
  const why = impossible()
  if (why) {
    console.error(`demo-elastic: ${why}`)
    process.exit(69)
  }
  const giveBack = await borrow()
  try {
    const cplane = `{ use: swarm, docker_host: "unix://${socketPath}", image: "${buildImage()}", owner: demo-${process.pid}, capacity: 256, stop_grace: 5s }`
    return { cplane, giveBack }
  } catch (error) {
    giveBack()
    throw error
  }
}

const full = 1280
const { cplane, giveBack } = process.argv[3] === '--swarm' ? await swarm() : { giveBack: () => {} }
process.on('exit', giveBack)
process.on('SIGINT', () => process.exit(130))
const e = await Elastic.start({ lbs: 2, functions: { sleeper: { memory: FUNCTION_MB } }, cplane })
console.log(`a manager, two load balancers, no runner; runners are ${cplane ? 'services of a Docker Swarm' : 'processes'}. Legend: = wanted, # active, + booting, - draining, x removing`)
const begin = Date.now()
let done = false
const loaded = load(e.lbs).finally(() => { done = true })
for (;;) {
  const s = await sample(e, begin, full)
  if (done && STATES.every((state) => s[state] === 0)) break
  await pause(SAMPLE_MS)
}
await loaded
writeFileSync(process.argv[2], picture(full))
await e.stop()
console.log(`${count.made} calls made, ${count.answered} answered, ${count.lost} lost; first call waited ${firstAnswer - firstWait} ms for a runner that did not exist`)
console.log(`picture: ${process.argv[2]}`)
process.exit(count.lost === 0 && count.made === count.answered ? 0 : 1)

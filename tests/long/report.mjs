// The report of a soak: a page with what was done and what nodes had at rest, hour by hour, and a drawing of their memory.
const WIDTH = 860
const HEIGHT = 300
const LEFT = 60
const RIGHT = 120
const TOP = 20
const BOTTOM = 40
const COLORS = ['#1f77b4', '#ff7f0e', '#2ca02c', '#d62728', '#9467bd', '#8c564b', '#e377c2', '#17becf']

// samples: [{ s, calls, ran, faults, nodes: { name: { rssKiB, fds, threads } } }], one a round, at rest
export function drawMemory(samples) {
  const names = Object.keys(samples[0].nodes)
  const last = samples.at(-1).s || 1
  const most = Math.max(...samples.flatMap((r) => Object.values(r.nodes).map((n) => n.rssKiB))) / 1024 * 1.1
  const x = (s) => LEFT + (s / last) * (WIDTH - LEFT - RIGHT)
  const y = (mib) => HEIGHT - BOTTOM - (mib / most) * (HEIGHT - TOP - BOTTOM)
  const text = (px, py, what, more = '') => `<text x="${px.toFixed(0)}" y="${py.toFixed(0)}" font-family="sans-serif" font-size="12" fill="#444"${more}>${what}</text>`
  const step = last > 7200 ? 3600 : last > 1200 ? 600 : 60
  const parts = []
  for (let s = 0; s <= last; s += step) {
    parts.push(`<line x1="${x(s).toFixed(1)}" y1="${TOP}" x2="${x(s).toFixed(1)}" y2="${HEIGHT - BOTTOM}" stroke="#eee"/>`,
      text(x(s), HEIGHT - BOTTOM + 18, step === 3600 ? `${s / 3600} h` : `${s / 60} min`, ' text-anchor="middle"'))
  }
  for (let i = 0; i <= 4; i++) {
    const mib = (most / 4) * i
    parts.push(`<line x1="${LEFT}" y1="${y(mib).toFixed(1)}" x2="${WIDTH - RIGHT}" y2="${y(mib).toFixed(1)}" stroke="#eee"/>`,
      text(LEFT - 8, y(mib) + 4, `${mib.toFixed(0)} MiB`, ' text-anchor="end"'))
  }
  names.forEach((name, i) => {
    const points = samples.filter((r) => r.nodes[name]).map((r) => `${x(r.s).toFixed(1)},${y(r.nodes[name].rssKiB / 1024).toFixed(1)}`).join(' ')
    const color = COLORS[i % COLORS.length]
    parts.push(`<polyline points="${points}" fill="none" stroke="${color}" stroke-width="1.5"/>`,
      `<rect x="${WIDTH - RIGHT + 16}" y="${TOP + 18 * i}" width="10" height="10" fill="${color}"/>`, text(WIDTH - RIGHT + 32, TOP + 18 * i + 10, name))
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Memory of each node at rest, over time">
<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>
${parts.join('\n')}
</svg>
`
}

const sum = (rows, key) => rows.reduce((n, r) => n + r[key], 0)
const number = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ' ')

// The last round that ended within each hour.
function byHour(samples) {
  const hours = []
  for (const r of samples) hours[Math.floor(r.s / 3600)] = r
  return hours.filter(Boolean)
}

export function page({ samples, tally, acts, problems, seed, build, drawing }) {
  const names = Object.keys(samples[0].nodes)
  const hours = byHour(samples)
  const rows = (pairs) => [...pairs].sort((a, b) => b[1] - a[1])
  const cells = (r) => names.map((n) => { const at = r.nodes[n]; return at ? `${(at.rssKiB / 1024).toFixed(1)}, ${at.fds}, ${at.threads}` : '' }).join(' | ')
  return `# A soak

\`scripts/soak\` ([testing](testing.md#long-runs)) of ${(samples.at(-1).s / 3600).toFixed(1)} hours with seed ${seed}, build \`${build}\`: ${number(sum(samples, 'calls'))} calls,
${number(sum(samples, 'ran'))} of them ran, ${number(sum(samples, 'faults'))} faults, ${problems.length === 0 ? 'no problem: none ran twice, none vanished, nothing was left' : `${problems.length} problems`}.

![Memory of each node at rest, over time](${drawing})

At rest, at the end of each hour: MiB of memory, descriptors, threads.

| hour | ${names.join(' | ')} |
|---|${names.map(() => '---|').join('')}
${hours.map((r) => `| ${(r.s / 3600).toFixed(1)} | ${cells(r)} |`).join('\n')}

What was done:

| times | what |
|---|---|
${rows(acts).map(([what, n]) => `| ${number(n)} | ${what} |`).join('\n')}

How calls ended, but for the rarest:

| times | kind, status, outcome |
|---|---|
${rows(tally).slice(0, 25).map(([what, n]) => `| ${number(n)} | ${what.replace(/\|/g, ' ').trim()} |`).join('\n')}
${problems.length ? `\nProblems:\n\n${problems.slice(0, 20).map((p) => `* ${p.split('\n')[0]}`).join('\n')}\n` : ''}`
}

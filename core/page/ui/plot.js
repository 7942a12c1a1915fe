// Lines over time, as plain SVG that is drawn anew with each snapshot: some hundred points.
import { h } from '/ui/dom.js'

const NS = 'http://www.w3.org/2000/svg'
const LEFT = 44
const BOTTOM = 18
const TOP = 8
const LINES = 3 // of the grid, above zero

function s(name, attributes, ...children) {
  const e = document.createElementNS(NS, name)
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value)
  e.append(...children)
  return e
}

// A number that people read: 1 200 is 1.2k. Fractions only where they matter.
export function short(n) {
  if (n == null || !Number.isFinite(n)) return '–'
  for (const [unit, by] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
    if (Math.abs(n) >= by) return `${(n / by).toPrecision(3).replace(/\.?0+$/, '')}${unit}`
  }
  return Number.isInteger(n) ? String(n) : n.toPrecision(2)
}

// A round number that LINES divide, and that is not below the highest value.
function top(highest) {
  const step = Math.max(highest, LINES) / LINES
  const ten = 10 ** Math.floor(Math.log10(step))
  return LINES * ten * [1, 2, 2.5, 3, 4, 5, 10].find((m) => m * ten >= step)
}

const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })

// plot('Calls', ['ended', 'failed']): a figure; draw([{ at, values: [1, 2] }, …]) fills it.
export class Plot {
  constructor(title, names, unit = '') {
    this.title = title
    this.names = names
    this.unit = unit
    this.keys = names.map((name, i) => h('span', { class: `key k${i}` }, name))
    this.svg = s('svg', { role: 'img' })
    this.figure = h('figure', {}, h('figcaption', {}, h('strong', {}, title), this.keys), this.svg)
  }

  draw(points) {
    const width = this.svg.clientWidth || 400
    const height = this.svg.clientHeight || 140
    const highest = top(Math.max(...points.flatMap((p) => p.values.filter(Number.isFinite)), 0))
    const from = points[0]?.at ?? 0
    const to = Math.max(points.at(-1)?.at ?? 0, from + 60_000)
    const x = (at) => LEFT + (at - from) / (to - from) * (width - LEFT - 4)
    const y = (v) => height - BOTTOM - v / highest * (height - BOTTOM - TOP)
    const grid = []
    for (let i = 0; i <= LINES; i++) {
      const v = highest * i / LINES
      grid.push(s('line', { class: 'grid', x1: LEFT, x2: width, y1: y(v), y2: y(v) }),
        s('text', { x: LEFT - 6, y: y(v) + 4, 'text-anchor': 'end' }, short(v)))
    }
    const lines = this.names.map((_, i) => s('polyline', { class: `s${i}`,
      points: points.filter((p) => Number.isFinite(p.values[i])).map((p) => `${x(p.at).toFixed(1)},${y(p.values[i]).toFixed(1)}`).join(' ') }))
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`)
    this.svg.replaceChildren(...grid, ...lines.reverse(),
      s('text', { x: LEFT, y: height - 3 }, clock(from)),
      s('text', { x: width, y: height - 3, 'text-anchor': 'end' }, clock(to)))
    const last = points.at(-1)?.values ?? []
    const now = this.names.map((name, i) => `${name} ${short(last[i])}${this.unit}`)
    this.keys.forEach((key, i) => { key.textContent = now[i] })
    this.svg.setAttribute('aria-label', `${this.title} over the last minutes; now: ${now.join(', ')}`)
  }
}

// How a time was spent: bars below each other, as long as they took.
export function bars(rows, total) {
  const high = 20
  return s('svg', { role: 'img', class: 'phases', viewBox: `0 0 600 ${rows.length * high}`,
    'aria-label': rows.map(([name, , text]) => `${name} ${text}`).join(', ') },
  ...rows.flatMap(([name, part, text, at], i) => [
    s('text', { x: 0, y: i * high + 14 }, name),
    s('rect', { class: 'bar', x: 130 + at / total * 350, y: i * high + 4, height: high - 8, width: Math.max(part / total * 350, 1), rx: 2 }),
    s('text', { x: 600, y: i * high + 14, 'text-anchor': 'end' }, text)]))
}

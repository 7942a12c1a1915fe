// Charts as SVG text: horizontal bars in panels, and lines. No dependencies; readable on light and dark
// pages because they bring their own background.
const FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"
const INK = '#1f2430'
const FAINT = '#6b7280'
const GRID = '#e5e7eb'

const escape = (text) => String(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;')
const n = (v) => Number(v.toFixed(1))

function text(x, y, content, { size = 13, color = INK, anchor = 'start', weight = 400, rotate } = {}) {
  const turn = rotate ? ` transform='rotate(${rotate} ${n(x)} ${n(y)})'` : ''
  return `<text x='${n(x)}' y='${n(y)}' font-size='${size}' fill='${color}' text-anchor='${anchor}' font-weight='${weight}'${turn}>${escape(content)}</text>`
}

function page(width, height, title, body) {
  return `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 ${width} ${height}' width='${width}' height='${height}' role='img' aria-label='${escape(title).replaceAll("'", '&apos;')}' ${FONT}>
<rect width='100%' height='100%' rx='6' fill='#ffffff'/>
${text(20, 30, title, { size: 16, weight: 600 })}
${body.join('\n')}
</svg>
`
}

// panels: [{ title, bars: [{ label, value, color }], format }]
export function barPanels(title, panels) {
  const [labels, row, top, gap] = [126, 26, 76, 24]
  const width = 960
  const panelWidth = (width - 40 - gap * (panels.length - 1)) / panels.length
  const rows = Math.max(...panels.map((p) => p.bars.length))
  const height = top + rows * row + 20
  const body = []
  panels.forEach((panel, i) => {
    const left = 20 + i * (panelWidth + gap)
    const room = panelWidth - labels - 66 // for the value behind the longest bar
    const max = Math.max(...panel.bars.map((b) => b.value), 1e-9)
    body.push(text(left, top - 16, panel.title, { size: 13, color: FAINT, weight: 600 }))
    body.push(`<line x1='${n(left + labels)}' y1='${top - 6}' x2='${n(left + labels)}' y2='${top + panel.bars.length * row}' stroke='${GRID}' stroke-width='1'/>`)
    panel.bars.forEach((bar, k) => {
      const y = top + k * row
      const length = bar.value > 0 ? Math.max(1.5, (room * bar.value) / max) : 0
      body.push(text(left + labels - 8, y + 14, bar.label, { anchor: 'end' }))
      body.push(`<rect x='${n(left + labels)}' y='${y + 2}' width='${n(length)}' height='${row - 9}' rx='2' fill='${bar.color}'/>`)
      body.push(text(left + labels + length + 6, y + 14, panel.format(bar.value), { size: 12, color: FAINT }))
    })
  })
  return page(width, height, title, body)
}

function ticks(max) {
  const rough = max / 5
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough)
  return Array.from({ length: Math.ceil(max / step) + 1 }, (_, i) => i * step)
}

// { x: { title, values }, y: { title, log? }, lines: [{ label, color, values }] }
export function lineChart(title, { x, y, lines }) {
  const [width, height, left, right, top, bottom] = [960, 420, 70, 130, 60, 56]
  const all = lines.flatMap((l) => l.values)
  const max = Math.max(...all)
  const decades = y.log ? Array.from({ length: Math.ceil(Math.log10(max)) + 1 }, (_, i) => 10 ** i) : ticks(max)
  const high = decades.at(-1)
  const px = (i) => left + ((x.values[i] - x.values[0]) / (x.values.at(-1) - x.values[0])) * (width - left - right)
  const py = (v) => height - bottom - (y.log ? Math.log10(Math.max(v, 1)) / Math.log10(high) : v / high) * (height - top - bottom)
  const body = []
  for (const v of decades) {
    body.push(`<line x1='${left}' y1='${n(py(v))}' x2='${width - right}' y2='${n(py(v))}' stroke='${GRID}'/>`)
    body.push(text(left - 8, py(v) + 4, Number(v.toFixed(2)), { size: 12, color: FAINT, anchor: 'end' }))
  }
  x.values.forEach((v, i) => body.push(text(px(i), height - bottom + 20, v, { size: 12, color: FAINT, anchor: 'middle' })))
  body.push(text((left + width - right) / 2, height - 14, x.title, { size: 13, color: FAINT, anchor: 'middle' }))
  body.push(text(20, (top + height - bottom) / 2, y.title, { size: 13, color: FAINT, anchor: 'middle', rotate: -90 }))
  // Labels at the right ends, moved apart where lines end together.
  const ends = lines.map((l) => ({ l, y: py(l.values.at(-1)) })).sort((a, b) => a.y - b.y)
  for (let i = 1; i < ends.length; i++) ends[i].y = Math.max(ends[i].y, ends[i - 1].y + 17)
  const over = ends.at(-1).y - (height - bottom + 4)
  if (over > 0) ends.forEach((e) => { e.y -= over })
  for (let i = ends.length - 2; i >= 0; i--) ends[i].y = Math.min(ends[i].y, ends[i + 1].y - 17)
  for (const { l, y: at } of ends) {
    const end = px(l.values.length - 1)
    const points = l.values.map((v, i) => `${n(px(i))},${n(py(v))}`).join(' ')
    body.push(`<polyline points='${points}' fill='none' stroke='${l.color}' stroke-width='2.5' stroke-linejoin='round'/>`)
    body.push(`<line x1='${n(end + 2)}' y1='${n(py(l.values.at(-1)))}' x2='${n(end + 14)}' y2='${n(at)}' stroke='${l.color}' stroke-width='1'/>`)
    body.push(text(end + 18, at + 4, l.label, { color: l.color, weight: 600 }))
  }
  return page(width, height, title, body)
}

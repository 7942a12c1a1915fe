#!/usr/bin/env node
// docs/fn-metrics.md against the metrics of Go Fn (go-metrics.txt, written down from running nodes) and against what the
// sources of fnd declare (docs/metrics.md, which is made from them).
//   go-metrics.mjs <root>
import { readFileSync } from 'node:fs'
import path from 'node:path'

const root = process.argv[2]
const read = (name) => readFileSync(path.join(root, name), 'utf8')
const rowsOf = (text) => text.split('\n').filter((l) => l.startsWith('| `')).map((l) => l.split(/(?<!\\)\|/).slice(1, -1).map((c) => c.trim()))
const words = (cell) => [...cell.matchAll(/`([^`]+)`/g)].map((m) => m[1])
const wrong = []

const go = read('tests/arrows/go-metrics.txt').split('\n').filter((l) => l && !l.startsWith('#')).map((l) => l.split('|').map((c) => c.trim()))
const ours = new Map(rowsOf(read('docs/metrics.md')).map(([name, type, , labels]) => [words(name)[0], { type, labels: words(labels) }]))
const table = new Map(rowsOf(read('docs/fn-metrics.md')).map((cells) => [words(cells[0])[0], cells]))

for (const [name, type, labels] of go) {
  const row = table.get(name)
  if (!row) {
    wrong.push(`docs/fn-metrics.md has no row of ${name}`)
    continue
  }
  const [, told, fnd, differs] = row
  const theirs = labels ? labels.split(',').map((l) => l.trim()) : []
  if (words(told).join() !== theirs.join()) wrong.push(`${name}: labels, got ${told}; Go Fn has ${labels || 'none'}`)
  if (words(fnd).length === 0 || words(fnd).some((n) => !ours.has(n))) wrong.push(`${name}: got ${fnd}; expected metrics of docs/metrics.md`)
  if (!differs) wrong.push(`${name}: an empty cell`)
  const same = words(fnd)[0] === name ? ours.get(name) : null
  if (!same) continue
  if (same.type !== type && !differs.includes(same.type)) wrong.push(`${name} is a ${same.type}, and a ${type} in Go Fn; expected the row to say so`)
  for (const label of theirs) {
    if (!same.labels.includes(label) && !/label/.test(differs)) wrong.push(`${name}: no label ${label}; expected the row to say so`)
  }
}
for (const name of table.keys()) {
  if (name.startsWith('fn_') && !go.some(([n]) => n === name)) wrong.push(`docs/fn-metrics.md: Go Fn has no ${name}`)
}
if (go.length < 60) wrong.push(`go-metrics.txt has ${go.length} metrics`)
for (const line of wrong) console.log(line)
console.log(`${go.length} metrics of Go Fn, ${wrong.length} wrong`)
process.exit(wrong.length > 0 ? 1 : 0)

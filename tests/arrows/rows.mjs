// docs/runner.md: each row W1 to W38 and A1 to A26 names tests, and these are there. docs/faults.md: it has each of
// the catalogue's faults.
//   node tests/arrows/rows.mjs ROOT
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'

const ROWS = 38 + 26
const FAULTS = 106
const root = process.argv[2]
const unit = readdirSync(path.join(root, 'tests/unit'), { recursive: true }).filter((f) => f.endsWith('.c'))
  .map((f) => readFileSync(path.join(root, 'tests/unit', f), 'utf8')).join('\n')
const failed = []

function checkUnit(row, names) {
  for (const name of names) if (!unit.includes(`START_TEST(${name})`)) failed.push(`${row}: no unit test ${name}`)
}

function checkEnd(row, name, titles) {
  const file = path.join(root, `tests/e2e/${name}.test.mjs`)
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  for (const title of titles) if (!text.includes(title)) failed.push(`${row}: no test "${title}" in ${name}`)
}

const rows = readFileSync(path.join(root, 'docs/runner.md'), 'utf8').split('\n').filter((line) => /^\| [WA]\d/.test(line))
for (const line of rows) {
  const cells = line.slice(2, -2).split(' | ')
  for (const part of cells.at(-1).split('; ')) {
    const [names, titles] = [/`(\w+)`/g, /"([^"]+)"/g].map((r) => [...part.matchAll(r)].map((m) => m[1]))
    if (names.length + titles.length === 0) failed.push(`${cells[0]}: no test in "${part}"`)
    else if (part.startsWith('unit ')) checkUnit(cells[0], names)
    else checkEnd(cells[0], part.split(':')[0], titles)
  }
}
if (rows.length !== ROWS) failed.push(`${rows.length} rows; expected ${ROWS}`)
const faults = readFileSync(path.join(root, 'docs/faults.md'), 'utf8')
for (let i = 1; i <= FAULTS; i++) {
  const number = `F${String(i).padStart(2, '0')}`
  if (!new RegExp(`\\b${number}\\b`).test(faults)) failed.push(`${number} is not in docs/faults.md`)
}
for (const f of failed) console.log(`FAILED: ${f}`)
console.log(`${rows.length} rows, ${failed.length} failed`)
process.exitCode = failed.length > 0 ? 1 : 0

// Reads what gcov knows of a build and prints a table: room, lines, covered, percent.
// Usage: coverage.mjs [--files] SOURCES BUILD
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'

const GCOV_BYTES_MAX = 256 << 20
const GCOV_FILES = 50 // for one run of gcov

const args = process.argv.slice(2)
const withFiles = args[0] === '--files' && Boolean(args.shift())
const [root, build] = args.map((a) => path.resolve(a))

// Every object of a room, also of one that no test ran: its lines count as not covered.
function notes(dir) {
  return readdirSync(dir, { recursive: true }).filter((f) => f.endsWith('.gcno')).map((f) => path.join(dir, f))
}

// "core/lb/call.c" of a name as gcov tells it, by way of build/rooms/<room>/<room>; null: not ours.
function sourceOf(name, cwd) {
  const full = path.resolve(cwd, name)
  const room = full.match(/\/rooms\/([^/]+)\/\1\/(.*)$/)
  if (room) return `${room[1] === 'npm_sim' ? 'sim/npm' : room[1] === 'sim' ? 'sim' : `core/${room[1]}`}/${room[2]}`
  const inside = path.relative(root, full)
  return /^(core|sim)\//.test(inside) ? inside : null
}

// source -> line -> how often; a line of a header counts once for all who include it.
function collect(files) {
  const counts = new Map()
  for (let i = 0; i < files.length; i += GCOV_FILES) {
    const out = execFileSync('gcov', ['--json-format', '--stdout', ...files.slice(i, i + GCOV_FILES)],
      { cwd: build, encoding: 'utf8', maxBuffer: GCOV_BYTES_MAX, stdio: ['ignore', 'pipe', 'ignore'] })
    for (const object of out.split('\n').filter(Boolean).map((line) => JSON.parse(line))) {
      for (const { file, lines } of object.files) add(counts, sourceOf(file, object.current_working_directory), lines)
    }
  }
  return counts
}

function add(counts, source, lines) {
  if (!source) return
  if (!counts.has(source)) counts.set(source, new Map())
  const of = counts.get(source)
  for (const { line_number: n, count } of lines) of.set(n, (of.get(n) ?? 0) + count)
}

function table(counts, nameOf) {
  const rows = new Map()
  for (const [source, lines] of counts) {
    const row = rows.get(nameOf(source)) ?? { lines: 0, covered: 0 }
    row.lines += lines.size
    row.covered += [...lines.values()].filter((n) => n > 0).length
    rows.set(nameOf(source), row)
  }
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1))
}

function print(name, { lines, covered }) {
  console.log(`${name.padEnd(32)} ${String(lines).padStart(6)} ${String(covered).padStart(8)} ${(100 * covered / lines).toFixed(1).padStart(8)}`)
}

const files = ['core', 'sim'].flatMap((dir) => notes(path.join(build, dir)))
if (files.length === 0) {
  console.error(`${build}: no file of gcov's; expected a build with FND_COVERAGE=ON`)
  process.exit(1)
}
const counts = collect(files)
const rooms = table(counts, (source) => path.dirname(source))
console.log(`${'room'.padEnd(32)} ${'lines'.padStart(6)} ${'covered'.padStart(8)} ${'percent'.padStart(8)}`)
for (const [name, row] of rooms) print(name, row)
if (withFiles) for (const [name, row] of table(counts, (source) => source)) print(name, row)
print('all', rooms.reduce((sum, [, r]) => ({ lines: sum.lines + r.lines, covered: sum.covered + r.covered }), { lines: 0, covered: 0 }))

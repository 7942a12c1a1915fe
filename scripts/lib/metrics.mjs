// The metrics that the sources declare: name, kind, help, labels, room. Reads metric_simple(...), metric_of(...),
// struct metric_def initializers, and functions of the same file that pass a name on to one of them.
// What it does not understand is an error: no metric is left out in silence.
import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'

const KINDS = { METRIC_COUNTER: 'counter', METRIC_GAUGE: 'gauge', METRIC_HISTOGRAM: 'histogram' }
const LEXEMES = /\/\*[^]*?\*\/|\/\/.*|^[ \t]*#(?:\\\n|.)*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\d[\w.+]*|->|[^\s]/gm
const OPEN = { '(': ')', '[': ']', '{': '}' }

const isString = (t) => t?.[0] === '"'
const isName = (t) => /^[A-Za-z_]/.test(t ?? '')

function tokensOf(text) {
  return [...text.matchAll(LEXEMES)].map((m) => m[0]).filter((t) => !/^(\/\*|\/\/|[ \t]*#)/.test(t))
}

// Index after the bracket that closes the one at `at`.
function after(tokens, at) {
  let depth = 0
  for (let i = at; i < tokens.length; i++) {
    if (tokens[i] in OPEN) depth++
    else if (Object.values(OPEN).includes(tokens[i]) && --depth === 0) return i + 1
  }
  return tokens.length
}

// What stands between the brackets at `at`, split at its commas.
function parts(tokens, at) {
  const ret = [[]]
  const end = after(tokens, at) - 1
  for (let i = at + 1; i < end;) {
    const next = tokens[i] in OPEN ? after(tokens, i) : i + 1
    if (tokens[i] === ',') ret.push([])
    else ret.at(-1).push(...tokens.slice(i, next))
    i = next
  }
  return ret.filter((p) => p.length > 0)
}

function functionsOf(tokens) {
  const ret = []
  for (let i = 0; i < tokens.length; i++) {
    if (!(tokens[i] in OPEN)) continue
    const end = after(tokens, i)
    if (tokens[i] === '(' && tokens[end] === '{') {
      ret.push({ name: tokens[i - 1], params: parts(tokens, i).map((p) => p.findLast(isName)), body: tokens.slice(end, after(tokens, end)) })
    }
    i = end - 1
  }
  return ret
}

// `x[] = { "a", "b", NULL }` of a body, or outside of all functions.
function labelArrays(tokens, deep) {
  const ret = new Map()
  for (let i = 0; i < tokens.length; i++) {
    if (isName(tokens[i]) && tokens.slice(i + 1, i + 5).join('') === '[]={') {
      const cells = parts(tokens, i + 4)
      if (cells.at(-1)[0] === 'NULL' && cells.slice(0, -1).every((c) => isString(c[0]))) ret.set(tokens[i], cells.slice(0, -1).map((c) => JSON.parse(c[0])))
    } else if (tokens[i] === '{' && !deep) {
      i = after(tokens, i) - 1
    }
  }
  return ret
}

// `struct { ... } x[...] = { { ... }, ... }`: rows by the names of their fields.
function tablesOf(tokens) {
  const ret = new Map()
  for (let i = 0; i < tokens.length; i++) {
    if (tokens[i] !== 'struct' || tokens[i + 1] !== '{') continue
    const end = after(tokens, i + 1)
    const open = tokens[end + 1] === '[' ? after(tokens, end + 1) + 1 : -1
    if (tokens[open - 1] !== '=') continue
    const fields = tokens.slice(i, end).filter((t, k, all) => isName(t) && [',', ';'].includes(all[k + 1]))
    ret.set(tokens[end], parts(tokens, open).map((row) => Object.fromEntries(parts(row, 0).map((cell, k) => [fields[k], cell]))))
  }
  return ret
}

// `table[...].field` becomes what the rows have there: one list of arguments per row.
function overRows(args, tables) {
  const used = args.flat().find((t, i, all) => tables.has(t) && all[i + 1] === '[')
  if (!used) return [args]
  return tables.get(used).map((row) => args.map((arg) => {
    const ret = []
    for (let i = 0; i < arg.length; i++) {
      const dot = arg[i] === used ? after(arg, i + 1) : 0
      if (dot) ret.push(...row[arg[(i = dot + 1)]])
      else ret.push(arg[i])
    }
    return ret
  }))
}

const text = (tokens) => tokens.filter(isString).map((t) => JSON.parse(t)).join('')

class File {
  constructor(root, file) {
    this.file = file
    this.room = file.split('/')[1]
    const tokens = tokensOf(readFileSync(path.join(root, file), 'utf8'))
    this.functions = functionsOf(tokens)
    this.tables = tablesOf(tokens)
    this.arrays = labelArrays(tokens, false)
    this.outside = { name: 'none', params: [], body: this.outsideOf(tokens) }
    for (const f of [this.outside, ...this.functions]) f.arrays = labelArrays(f.body, true)
  }

  outsideOf(tokens) {
    const inside = new Set(this.functions.map((f) => f.body.join(' ')))
    const ret = []
    for (let i = 0; i < tokens.length; i++) {
      const end = tokens[i] === '{' ? after(tokens, i) : i + 1
      if (tokens[i] !== '{' || !inside.has(tokens.slice(i, end).join(' '))) ret.push(...tokens.slice(i, end))
      i = end - 1
    }
    return ret
  }

  wrong(f, what) {
    return new Error(`${this.file}, ${f.name}(): ${what}; scripts/lib/metrics.mjs must learn it, or the declaration be written as others are`)
  }

  // All declarations in f: lists of arguments name, kind, help, labels; labels are { names }.
  *declarations(f, wrappers) {
    const b = f.body
    for (let i = 0; i < b.length; i++) {
      if (b[i] === 'metric_def' && b[i + 2] === '=' && b[i + 3] === '{') {
        const of = Object.fromEntries(parts(b, i + 3).map((p) => [p[1], p.slice(3)]))
        yield ['name', 'kind', 'help', 'labels'].map((k) => this.seen(f, of[k] ?? []))
      } else if (b[i + 1] === '(' && b[i] === 'metric_simple') {
        const [name, kind, help] = parts(b, i + 1)
        yield* overRows([name, kind, help, []], this.tables)
      } else if (b[i + 1] === '(' && b[i] === 'metric_of') {
        yield parts(b, i + 1).slice(0, 4).map((p) => this.seen(f, p))
      } else if (b[i + 1] === '(' && wrappers.has(b[i]) && f !== this.outside) {
        for (const args of overRows(parts(b, i + 1), this.tables)) yield this.through(wrappers.get(b[i]), args.map((a) => this.seen(f, a)))
      }
    }
  }

  // Names of label arrays that f sees, as the arrays.
  seen(f, tokens) {
    const names = f.arrays.get(tokens[0]) ?? this.arrays.get(tokens[0])
    return tokens.length === 1 && names && !f.params.includes(tokens[0]) ? [{ names }] : tokens
  }

  through(wrapper, args) {
    wrapper.used = true
    return wrapper.passes.map((tokens) => tokens.flatMap((t) => args[wrapper.params.indexOf(t)] ?? [t]))
  }

  // Functions whose parameter is the name, with what they pass on.
  wrappers() {
    const ret = new Map()
    let before = -1
    while (ret.size > before) {
      before = ret.size
      for (const f of this.functions) {
        const passes = [...this.declarations(f, ret)].filter(([name]) => name.length === 1 && f.params.includes(name[0]))
        if (passes.length > 1) throw this.wrong(f, 'passes several names on')
        if (passes.length === 1) ret.set(f.name, Object.assign(f, { passes: passes[0] }))
      }
    }
    return ret
  }

  read() {
    const wrappers = this.wrappers()
    const all = [this.outside, ...this.functions]
    const defined = (f, name) => f.body.some((t, i, b) => t === 'metric_def' && b[i + 1] === name && b[i + 2] === '=')
    for (const f of all) {
      f.body.forEach((t, i, b) => {
        if (t === 'metric_declare' && ![f, this.outside].some((g) => defined(g, b[i + 3]))) throw this.wrong(f, 'declares what no initializer describes')
      })
    }
    const ret = all.filter((f) => !f.passes).flatMap((f) => [...this.declarations(f, wrappers)].flatMap((d) => this.metricsOf(f, d)))
    for (const w of wrappers.values()) if (!w.used) throw this.wrong(w, 'declares a metric for other files')
    return ret
  }

  // A name may be a literal, `own ? "x" : "y"`, or what snprintf() wrote.
  metricsOf(f, [name, kind, help, labels]) {
    const at = f.body.findIndex((t, i, b) => t === 'snprintf' && b[i + 2] === name[0])
    const from = name.length === 1 && isName(name[0]) && at >= 0 ? parts(f.body, at + 1)[2] : name
    const names = from.filter(isString).map((t) => JSON.parse(t))
    const kinds = kind.filter((t) => t in KINDS).map((t) => KINDS[t])
    if (names.length === 0 || names.some((n) => !/^fn_[a-z0-9_%]+$/.test(n))) throw this.wrong(f, `the name ${name.join(' ')} is not understood`)
    if (kinds.length === 0) throw this.wrong(f, `the kind of ${names[0]} is not understood`)
    if (labels.length > 0 && labels[0] !== 'NULL' && !labels[0].names) throw this.wrong(f, `the labels of ${names[0]} are not understood`)
    if (names.length > 1 && from[0] !== 'own') throw this.wrong(f, `it is not known when the name is ${names.join(', when ')}`)
    return names.map((n, i) => ({
      name: n, kind: kinds.join(' or '), help: text(help), labels: labels[0]?.names ?? [], room: this.room,
      shared: names.length > 1 ? i === 1 : undefined, // the process has another who owns the first name
      first: names[0],
    }))
  }
}

export function readMetrics(root) {
  const files = readdirSync(path.join(root, 'core'), { recursive: true }).filter((f) => f.endsWith('.c') && !f.startsWith('base/metric.c'))
  const ret = new Map()
  for (const file of files.sort()) {
    for (const m of new File(root, `core/${file}`).read()) {
      const key = `${m.room} ${m.name}`
      const old = ret.get(key)
      if (old?.help && m.help && old.help !== m.help) throw new Error(`${m.name} has two meanings in core/${m.room}`)
      if (!old || m.help) ret.set(key, m)
    }
  }
  return [...ret.values()]
}

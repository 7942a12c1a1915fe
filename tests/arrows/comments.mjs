#!/usr/bin/env node
// What the opening comments of core say of its functions: each one that they name is there, and each one that moves a
// machine (it calls the function that asks states_next()) is named, where the machine is drawn or where the mover stands.
//   comments.mjs <root>
import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'

const MOVERS_MIN = 70
const root = process.argv[2]
const wrong = []

const sources = (folder) => readdirSync(path.join(root, folder), { recursive: true }).filter((f) => /\.[ch]$/.test(f))
  .map((f) => read(path.join(folder, f)))

function read(file) {
  const text = readFileSync(path.join(root, file), 'utf8')
  const opening = text.match(/^\/\*[^]*?\*\//)?.[0] ?? ''
  const code = text.replace(/\/\*[^]*?\*\//g, ' ').replace(/"(\\.|[^"\\\n])*"/g, '""')
  return { file, code, named: new Set([...opening.matchAll(/\b([A-Za-z_]\w*)\(\)/g)].map((m) => m[1])) }
}

const core = sources('core')
const called = new Set()
for (const { code } of [...core, ...sources('include'), ...sources('plugins')]) {
  for (const [, name] of code.matchAll(/\b([A-Za-z_]\w*)\s*\(/g)) called.add(name)
  for (const [, name] of code.matchAll(/\(\*(?:const )?(\w+)(?:\[\w*\])?\)/g)) called.add(name)
}
for (const { file, named } of core) {
  for (const name of named) if (!called.has(name)) wrong.push(`${file}: its opening comment names ${name}(), which is not there`)
}

const functions = (code) => [...code.matchAll(/^[a-z][^;{}]*?\b(\w+)\([^;{}]*\)\s*^\{([^]*?)^\}/gm)].map((m) => ({ name: m[1], body: m[2] }))
const roomOf = (file) => file.split('/').slice(0, 2).join('/')
let movers = 0
for (const machine of core) {
  for (const enter of functions(machine.code).filter((f) => f.body.includes('states_next(&'))) {
    const drawn = core.filter((s) => s.file.slice(0, -1) === machine.file.slice(0, -1))
    for (const other of core.filter((s) => roomOf(s.file) === roomOf(machine.file))) {
      for (const mover of functions(other.code).filter((f) => new RegExp(`\\b${enter.name}\\(`).test(f.body))) {
        movers += 1
        if (![...drawn, other].some((s) => s.named.has(mover.name))) {
          wrong.push(`${other.file}: ${mover.name}() moves the machine of ${machine.file}; expected its opening comment to say so`)
        }
      }
    }
  }
}
if (movers < MOVERS_MIN) wrong.push(`${movers} functions that move machines; expected at least ${MOVERS_MIN}`)
for (const line of wrong) console.log(`FAILED: ${line}`)
console.log(`${movers} movers, ${wrong.length} failed`)
process.exitCode = wrong.length > 0 ? 1 : 0

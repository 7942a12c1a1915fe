// What modules of the tree import of each other is exported: a script that nobody runs for a month
// breaks in silence. Usage: node imports.mjs <source folder>
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(process.argv[2])
const folders = ['scripts', 'tests', 'bench', 'tools'].map((f) => path.join(root, f)).filter(existsSync)
const files = execFileSync('find', [...folders, '-name', '*.mjs'], { encoding: 'utf8' }).trim().split('\n')
let n = 0
let failed = 0

function complain(text) {
  console.log(`FAILED: ${text}`)
  failed += 1
}

function isExported(text, name) {
  return new RegExp(`^export (async )?(function\\*?|const|let|class) ${name}\\b`, 'm').test(text) ||
    [...text.matchAll(/^export \{([^}]*)\}/gm)].some(([, list]) => list.split(/[\s,]+/).includes(name)) ||
    /^export \* from/m.test(text) || [...text.matchAll(/^export const \{([^}]*)\}/gm)].some(([, list]) => list.split(/[\s,]+/).includes(name))
}

for (const file of files) {
  for (const [, list, from] of readFileSync(file, 'utf8').matchAll(/^import \{([^}]*)\} from '(\.[^']*)'/gm)) {
    const target = path.resolve(path.dirname(file), from)
    if (!existsSync(target)) {
      complain(`${path.relative(root, file)} imports ${from}, which is not there`)
      continue
    }
    const text = readFileSync(target, 'utf8')
    for (const name of list.split(',').map((x) => x.trim().split(' as ')[0]).filter(Boolean)) {
      n += 1
      if (!isExported(text, name)) complain(`${path.relative(root, file)} imports ${name}, which ${path.relative(root, target)} does not export`)
    }
  }
}
console.log(`${n} imports, ${failed} failed`)
process.exit(failed > 0 || n < 50 ? 1 : 0)

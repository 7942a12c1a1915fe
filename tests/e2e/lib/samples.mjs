// Builds a plugin of samples/ as a vendor without the kit would, with nothing but the headers.
import { execFileSync } from 'node:child_process'
import { chmodSync } from 'node:fs'
import path from 'node:path'
import { root } from './node.mjs'

// samples/<kind>-<name>/<kind>.c
export function buildSample(dir, name) {
  const file = path.join(dir, `${name}.so`)
  const source = path.join(root, 'samples', name, `${name.split('-')[0]}.c`)
  execFileSync('cc', ['-std=c11', '-D_GNU_SOURCE', '-shared', '-fPIC', '-fvisibility=hidden', '-O2', '-I', path.join(root, 'include'), source, '-o', file])
  chmodSync(file, 0o755)
  return file
}

// A start that is refused takes down what it had made. Which part of it is used once more after that, or
// never freed, only a build with AddressSanitizer tells, so scripts/test runs this file with that one.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { build, freePort, tempDir } from '../e2e/lib/node.mjs'

const plugins = (text) => `plugins:\n${text}`
const REFUSED = [
  ['the first plugin', plugins('  drivers:\n    - { use: nothing }\n'), 78],
  ['an option of a pool', plugins('  runner_pool: { use: static, runners: nowhere }\n'), 78],
  ['an inner placer', plugins('  placers:\n    - { use: slowstart, inner: { use: nothing } }\n'), 78],
  ['the last plugin', plugins('  listeners:\n    - { use: usage }\n'), 78],
]

for (const [what, text, code] of REFUSED) {
  test(`refused by ${what}`, async () => {
    const dir = tempDir()
    const file = path.join(dir, 'fn.yaml')
    const port = await freePort()
    writeFileSync(file, `node: full\nplugin_dir: ${path.join(build, 'plugins')}\nhttp: { listen: "127.0.0.1:${port}" }\n${text}`)
    const run = spawnSync(path.join(build, 'fnd'), ['run', '--config', file],
      { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH, TMPDIR: dir, ASAN_OPTIONS: 'detect_leaks=1' } })
    assert.doesNotMatch(run.stderr, /Sanitizer/)
    assert.equal(run.status, code, run.stderr)
    assert.deepEqual(readdirSync(dir), ['fn.yaml'])
  })
}

// `fnd top` in a terminal of its own (script(1)): figures, tables by their keys, and a node that goes away.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startCluster } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { build, until } from './lib/node.mjs'

const fnd = path.join(build, 'fnd')
const file = (node) => path.join(node.dir, 'fn.yaml')

// What was written to the screen since the last look, without what moves the cursor.
class Top {
  constructor(node) {
    this.out = ''
    this.child = spawn('script', ['-qec', `stty cols 120 rows 24; exec ${fnd} top --config ${file(node)}`, '/dev/null'],
      { env: { PATH: process.env.PATH, TERM: 'vt100' }, stdio: ['pipe', 'pipe', 'inherit'] })
    this.child.stdout.on('data', (data) => { this.out += data })
    this.ended = new Promise((resolve) => this.child.once('close', resolve))
  }

  press(key) {
    this.out = ''
    this.child.stdin.write(key)
  }

  pid() {
    const { pid } = this.child
    return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8'))
  }

  async shows(what) {
    // eslint-disable-next-line no-control-regex
    await until(`the screen shows ${what}`, () => what.test(this.out.replaceAll(/\x1b[[(][0-9;?]*[A-Za-z]/g, ''))).catch((e) => { throw new Error(`${e.message}: ${this.out}`) })
  }
}

describe('fnd top', () => {
  let cluster
  const shown = []
  const top = (node) => { shown.push(new Top(node)); return shown.at(-1) }

  before(async () => { cluster = await startCluster({ functions: { hello: {} } }) })
  after(async () => {
    for (const t of shown) t.child.kill()
    await cluster?.stop()
  })

  it('shows figures and the table of a key, and ends with q', async () => {
    for (let i = 0; i < 3; i++) assert.equal((await invoke(cluster.lb, fnId('hello'))).status, 200)
    const t = top(cluster.lb)
    await t.shows(/fnd lb 127\.0\.0\.1:\d+ +serving for /)
    await t.shows(/FUNCTION[^]*demo\/hello[^]*calls/)
    t.press('r')
    await t.shows(new RegExp(`RUNNER[^]*127.0.0.1:${cluster.runners[0].grpcPort}`))
    t.press('h')
    await t.shows(/This node has no such table/)
    t.press('q')
    assert.equal(await t.ended, 0)
  })

  it('has the containers of a runner, and goes on when the node is gone', async () => {
    const t = top(cluster.runners[0])
    await t.shows(/fnd pure-runner/)
    t.press('h')
    await t.shows(/CONTAINER[^]*(frozen|idle)/)
    await cluster.runners[0].kill()
    t.press('h')
    await t.shows(/connect|refused/i)
    t.press('q')
    assert.equal(await t.ended, 0)
  })

  it('is ended by Ctrl-C and by a signal, and gives the terminal back', async () => {
    for (const [end, code] of [[(t) => t.press('\x03'), 130], [(t) => process.kill(t.pid(), 'SIGTERM'), 143]]) {
      const t = top(cluster.lb)
      await t.shows(/fnd lb/)
      end(t)
      assert.equal(await t.ended, code)
      assert.match(t.out, /\x1b\[\?1l/, 'keypad mode is left')
    }
  })

  it('says which terminal it does not know', () => {
    for (const term of [undefined, 'no-such']) {
      const result = spawnSync('script', ['-qec', `${fnd} top --config ${file(cluster.lb)}`, '/dev/null'],
        { env: { PATH: process.env.PATH, ...(term && { TERM: term }) }, input: '', encoding: 'utf8' })
      assert.equal(result.status, 69, result.stdout)
      assert.match(result.stdout, /^fnd: top, got the terminal "[^"]*"; expected one that terminfo knows, in TERM\r?$/m)
    }
  })

  it('is for terminals', () => {
    const said = spawnSync(fnd, ['top', '--config', file(cluster.lb)], { encoding: 'utf8' })
    assert.equal(said.status, 64)
    assert.match(said.stderr, /top needs a terminal/)
  })
})

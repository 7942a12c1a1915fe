// Plugins that damage memory (E13, E14): only a build with AddressSanitizer can name what they do, so
// scripts/test runs this file with that build alone.
import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from '../e2e/lib/cluster.mjs'
import { invoke } from '../e2e/lib/http.mjs'
import { build } from '../e2e/lib/node.mjs'

const functions = { evil: { image: 'hello' } }
const so = (name) => path.join(build, `tests/plugins/evil/${name}.so`)
const started = []
let runner

const evil = (lb) => invoke(lb, fnId('evil')).catch((e) => ({ status: 0, text: e.message }))

before(async () => { runner = await startRunner() })
after(async () => {
  await Promise.all(started.map((lb) => lb.exit ?? lb.kill()))
  await runner?.stop()
})

describe('damage to memory is attributed', () => {
  it('a pointer kept beyond its call is read (E13)', async () => {
    const lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions,
      placer: `{ use: e13, file: ${so('e13_keeps_pointer')} }` })
    started.push(lb)
    await evil(lb)
    await evil(lb)
    await lb.ended
    assert.match(lb.log, /heap-use-after-free[^]*fnd crashed: in plugin e13, decide\(\)/)
  })

  it('route() writes behind its buffer (E14)', async () => {
    const lb = await startLb({ addresses: [], functions, pool: `{ use: e14, file: ${so('e14_overruns')} }` })
    started.push(lb)
    await evil(lb)
    await lb.ended
    assert.match(lb.log, /stack-buffer-overflow[^]*fnd crashed: in plugin e14, route\(\)/)
  })
})

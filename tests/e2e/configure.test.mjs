// ConfigureRunner: settings of a runner that a peer changes while it runs.
import assert from 'node:assert/strict'
import { readFileSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { startRunner } from './lib/cluster.mjs'
import { Client, message } from './lib/grpc.mjs'
import { tempDir, until } from './lib/node.mjs'

describe('ConfigureRunner', () => {
  const file = path.join(tempDir(), 'keys')
  let runner
  let client
  const configure = async (keys) => {
    const { status, text } = await client.call('/RunnerProtocol/ConfigureRunner', message(...Object.entries(keys).map(([k, v]) => [1, message([1, k], [2, v])])))
    return { status, text }
  }
  // What runner.log_streams_max says: a setting whose effect is seen from outside.
  const streams = async () => (await client.call('/RunnerProtocol/StreamLogs', message([1, message([1, message([1, 'follow'], [2, 'x'])])]))).text

  before(async () => {
    runner = await startRunner({ plugins: `operator: { use: file, keys_file: ${file} }`, runner: 'configurable: ["runner.log_*", "log.level"]' })
    client = new Client(`http://127.0.0.1:${runner.grpcPort}`)
  })
  after(async () => {
    client.close()
    await runner.stop()
  })

  it('changes settings that may be changed, with a line for each', async () => {
    assert.match(await streams(), /RUN414/)
    assert.deepEqual(await configure({ 'runner.log_streams_max': '0', 'log.level': 'debug' }), { status: 0, text: '' })
    assert.match(await streams(), /runner not configured with logStreamer/)
    await until('the lines', () => /a setting was changed by ConfigureRunner, until the next reload" key="?runner.log_streams_max"? value="?0/.test(runner.log) && /key="?log.level"? value="?debug/.test(runner.log))
  })

  it('refuses others, and then changes nothing', async () => {
    for (const [keys, status, text] of [
      [{ 'runner.log_streams_max': '5', 'runner.pids_max': '7' }, 7, /^RUN417 key "runner.pids_max"/],
      [{ 'runner.log_streams_max': '5', 'runner.log_ring': 'big' }, 3, /^CFG706 runner.log_ring, got "big"; expected a size/],
      [{ 'runner.log_streams_max': '5', 'bad=key': 'x' }, 3, /key bad=key/],
    ]) {
      const answer = await configure(keys)
      assert.equal(answer.status, status, answer.text)
      assert.match(answer.text, text)
      assert.match(await streams(), /runner not configured with logStreamer/)
    }
  })

  it('gives the plugin what is not a setting', async () => {
    assert.deepEqual(await configure({ 'runner.log_streams_max': '5', domain: 'unix' }), { status: 0, text: '' })
    assert.equal(readFileSync(file, 'utf8'), 'domain=unix\n')
    assert.match(await streams(), /RUN414/)
  })

  it('lasts until the next reload', async () => {
    await configure({ 'runner.log_streams_max': '0' })
    assert.match(await streams(), /runner not configured/)
    const yaml = path.join(runner.dir, 'fn.yaml')
    writeFileSync(yaml, readFileSync(yaml))
    utimesSync(yaml, 1, 1)
    runner.signal('SIGHUP')
    await until('it is forgotten', async () => /RUN414/.test(await streams()))
  })
})

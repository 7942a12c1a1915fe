// `fnd run` with nothing else, as `fn start`: a full node whose store is in the working directory, and
// whose first line says how to use it.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { request } from './lib/http.mjs'
import { temporary, socketOfPort } from './lib/leftovers.mjs'
import { Fnd, build, freePort, until } from './lib/node.mjs'

test('a node of nothing but its name takes functions and calls them', async () => {
  const cwd = temporary('/tmp/fnd-e2e-')
  const port = await freePort()
  const node = spawn(path.join(build, 'fnd'), ['run'], { cwd, env: { PATH: process.env.PATH, TMPDIR: cwd, FN_PORT: String(port) }, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = new Promise((resolve) => node.once('close', resolve))
  let out = ''
  let log = ''
  node.stdout.on('data', (data) => { out += data })
  node.stderr.on('data', (data) => { log += data })
  socketOfPort(port)
  const post = async (at, body) => JSON.parse((await request(`http://127.0.0.1:${port}${at}`, { method: 'POST', body: JSON.stringify(body) })).text)
  try {
    await until('it serves', () => { assert.equal(node.exitCode, null, log); return request(`http://127.0.0.1:${port}/version`).catch(() => null) })
    assert.equal(out.split('\n')[0], `fnd: FN_API_URL=http://localhost:${port} fn list apps`)
    const app = await post('/v2/apps', { name: 'first' })
    const fn = await post('/v2/fns', { app_id: app.id, name: 'hello', image: 'fnd/hello:latest' })
    assert.match(fn.annotations['fnproject.io/fn/invokeEndpoint'], new RegExp(`:${port}/invoke/${fn.id}$`))
    // Without an engine at the usual place its functions are those of the build.
    if (!existsSync('/var/run/docker.sock')) {
      assert.match((await request(`http://127.0.0.1:${port}/invoke/${fn.id}`, { method: 'POST', body: '{"name":"Fn"}' })).text, /Hello Fn/)
    }
    assert.ok(existsSync(path.join(cwd, 'data/fn.db')))
  } finally {
    node.kill()
    await ended
  }
})

test('a runner gives away the processors that it may run on', async () => {
  const port = await freePort()
  const runner = await Fnd.start('runner', port, `
node: pure-runner
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${await freePort()}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins:
  driver: { use: process, root: ${path.join(build, 'functions')} }
`, { within: ['taskset', '-c', '0'] })
  assert.equal(await runner.metric('fn_util_cpu_avail'), 1000)
  await runner.stop()
})

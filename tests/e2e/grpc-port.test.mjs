// The gRPC port as functions see it: from inside of a real container.
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import net from 'node:net'
import { networkInterfaces } from 'node:os'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { docker, driver, noEngine as skip } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'

const owner = `e2e-port-${process.pid}`
const functions = { node: { image: 'fnd/node-hello:latest', memory: 256 }, hello: { image: 'fnd/hello:latest', memory: 64 } }

// Inside: what each host:port says to a client of HTTP/2, or to one that waits for a word.
const look = `
const net = require('net')
const one = (at) => new Promise((done) => {
  const cut = at.lastIndexOf(':')
  const s = net.connect(Number(at.slice(cut + 1)), at.slice(0, cut))
  s.setTimeout(1000, () => s.destroy(new Error('silence')))
  s.on('connect', () => s.write('PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0'))
  s.on('data', (d) => { done([at, 'answer']); s.destroy() })
  s.on('error', (e) => done([at, e.code ?? e.message]))
  s.on('close', () => done([at, 'closed']))
})
Promise.all(process.argv.slice(1).map(one)).then((all) => console.log(JSON.stringify(all)))`

describe('functions and the gRPC port', { skip }, () => {
  let runner
  let lb
  let allowed
  let inside
  before(async () => {
    allowed = net.createServer((s) => { s.on('error', () => {}); s.end('here I am') }).listen(0, '0.0.0.0')
    runner = await startRunner({
      driver: driver(), host: '0.0.0.0',
      runner: `owner: ${owner}\nfreeze_idle: never` })
    lb = await startLb({ addresses: [`127.0.0.1:${runner.grpcPort}`], functions })
    assert.equal((await invoke(lb, fnId('node'), '{}', { 'Content-Type': 'application/json' })).status, 200)
    inside = docker('ps', '-q', '--filter', `label=io.fnd.owner=${owner}`)
  })
  after(async () => {
    allowed?.close()
    await lb?.stop()
    await runner?.stop()
  })

  const from = async (container, where) => {
    const { stdout } = await promisify(execFile)('docker', ['exec', container, '/function/node', '-e', look, ...where])
    return new Map(JSON.parse(stdout))
  }

  it('is not there for a function, on any address of this machine; other ports are', async () => {
    const addresses = Object.values(networkInterfaces()).flat().filter((a) => a.family === 'IPv4' && !a.internal).map((a) => a.address)
    const gateway = docker('inspect', '-f', '{{range .NetworkSettings.Networks}}{{.Gateway}}{{end}}', inside)
    assert.ok(addresses.includes(gateway), `${gateway} is none of ${addresses}`)
    const at = (port) => addresses.map((a) => `${a}:${port}`)
    const seen = await from(inside, [...at(runner.grpcPort), ...at(runner.port), ...at(allowed.address().port)])
    for (const there of at(allowed.address().port)) assert.equal(seen.get(there), 'answer', there)
    for (const there of at(runner.grpcPort)) assert.match(seen.get(there), /^(ECONNRESET|EPIPE|closed)$/, there)
    assert.match(runner.log, /turned away.*it came by an interface that is refused/)
    const metrics = [...seen].filter(([there]) => there.endsWith(`:${runner.port}`))
    for (const [there, what] of metrics) assert.ok(what !== 'silence', there) // 403, or the end
    assert.match(runner.log, /came by an interface that is refused/)
  })

  it('in plain text on all addresses is told at the start', () => {
    assert.match(runner.log, /level=warning msg="gRPC is in plain text: whoever reaches it may run any image/)
  })

  it('its network is our own, and functions do not reach each other', async () => {
    assert.equal((await invoke(lb, fnId('hello'))).status, 200)
    const ids = docker('ps', '-q', '--filter', `label=io.fnd.owner=${owner}`).split('\n')
    assert.equal(ids.length, 2)
    for (const id of ids) assert.equal(docker('inspect', '-f', '{{range $name, $n := .NetworkSettings.Networks}}{{$name}}{{end}}', id), 'fnd')
    assert.equal(docker('network', 'inspect', '-f', '{{index .Options "com.docker.network.bridge.name"}}', 'fnd'), 'fnd0')
    const other = ids.find((id) => id !== inside)
    const address = docker('inspect', '-f', '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}', other)
    const seen = await from(inside, [`${address}:1`])
    const filtered = ['nft', 'legacy'].some((kind) => /-i fnd0 -o fnd0 -j DROP/.test(spawnSync(`/usr/sbin/iptables-${kind}`, ['-S', 'FORWARD'], { encoding: 'utf8' }).stdout ?? ''))
    assert.equal(seen.get(`${address}:1`), filtered ? 'silence' : 'ECONNREFUSED') // an engine without packet filters cannot
  })
})

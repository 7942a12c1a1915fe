// Lines of a function arrive at the log server that its app names, by each of the engine's ways.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import dgram from 'node:dgram'
import { existsSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { driver, noEngine as skip } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { tempDir, until } from './lib/node.mjs'

const WAYS = ['udp', 'tcp', 'unix', 'unixgram']
const dir = tempDir()
const received = Object.fromEntries(WAYS.map((way) => [way, '']))
const closers = []

async function streamServer(way, where) {
  const server = net.createServer((socket) => {
    socket.on('data', (bytes) => { received[way] += bytes })
    socket.on('error', () => {})
    closers.push(() => socket.destroy())
  })
  await new Promise((done) => server.listen(where, done))
  closers.push(() => server.close())
  return server.address()
}

async function udpServer() {
  const socket = dgram.createSocket('udp4')
  socket.on('message', (bytes) => { received.udp += bytes })
  await new Promise((done) => socket.bind(0, '127.0.0.1', done))
  closers.push(() => socket.close())
  return socket.address()
}

// Node.js has no datagram sockets with a path.
async function unixgramServer(file) {
  const program = 'use Socket; $| = 1; socket(S, PF_UNIX, SOCK_DGRAM, 0); bind(S, pack_sockaddr_un($ARGV[0])) or die $!;' +
    'while (defined recv(S, my $line, 65536, 0)) { print $line }'
  const child = spawn('perl', ['-e', program, file], { stdio: ['ignore', 'pipe', 'inherit'] })
  child.stdout.on('data', (bytes) => { received.unixgram += bytes })
  closers.push(() => child.kill('SIGKILL'))
  await until('the datagram socket is there', () => existsSync(file))
}

describe('lines of a function at a syslog server', { skip }, () => {
  let runner, strict, lb, strictLb
  before(async () => {
    const udp = await udpServer()
    const tcp = await streamServer('tcp', { port: 0, host: '127.0.0.1' })
    await streamServer('unix', path.join(dir, 'stream'))
    await unixgramServer(path.join(dir, 'datagram'))
    const urls = { udp: `udp://127.0.0.1:${udp.port}`, tcp: `tcp://127.0.0.1:${tcp.port}`,
      unix: `unix://${path.join(dir, 'stream')}`, unixgram: `unixgram://${path.join(dir, 'datagram')}` }
    const functions = Object.fromEntries(WAYS.map((way) => [way, { app: way, image: 'fnd/misbehave:latest', memory: 64 }]))
    const apps = Object.fromEntries(WAYS.map((way) => [way, `syslog_url: "${urls[way]}"`]))
    runner = await startRunner({ driver: driver(), runner: `owner: e2e-syslog-${process.pid}\nsyslog_own_networks: true` })
    strict = await startRunner({ driver: driver(), runner: `owner: e2e-syslog-strict-${process.pid}` })
    lb = await startLb({ addresses: [runner.address], functions, apps })
    strictLb = await startLb({ addresses: [strict.address], functions, apps })
  })
  after(async () => {
    await Promise.all([lb, strictLb].map((node) => node?.stop()))
    await Promise.all([runner, strict].map((node) => node?.stop()))
    for (const close of closers) close()
  })

  for (const way of WAYS) {
    it(`${way}: they arrive with app and function`, async () => {
      const answer = await invoke(lb, fnId(way), 'log-flood 5')
      assert.equal(answer.status, 200, answer.text)
      await until('lines have come', () => received[way].includes(`fn_id=${fnId(way)}`))
      assert.match(received[way], /app_id=/)
    })

    it(`${way}: not in the runner's own networks without its operator's word`, async () => {
      const answer = await invoke(strictLb, fnId(way), 'log-flood 5')
      assert.equal(answer.status, 400, answer.text)
      assert.match(answer.text, /RUN410 syslog_url/)
    })
  }
})

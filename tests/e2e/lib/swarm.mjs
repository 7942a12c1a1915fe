// A Docker Swarm of one node for the tests, and a way to it that can lose answers.
import { execFileSync, spawnSync } from 'node:child_process'
import http from 'node:http'
import path from 'node:path'
import { docker, socketPath } from './docker.mjs'
import { freePort, root, tempDir } from './node.mjs'

const lines = (text) => text.split('\n').filter(Boolean)

const initArgs = ['swarm', 'init', '--advertise-addr', '127.0.0.1', '--listen-addr', `127.0.0.1:${await freePort()}`]
const hasBridge = () => lines(docker('network', 'ls', '--format', '{{.Name}}')).includes('docker_gwbridge')

function undo(bridgeBefore) {
  for (const id of lines(docker('service', 'ls', '-q'))) docker('service', 'rm', id)
  docker('swarm', 'leave', '--force')
  for (const id of lines(docker('ps', '-aq', '--filter', 'label=com.docker.swarm.service.id'))) spawnSync('docker', ['rm', '-f', id])
  if (!bridgeBefore) spawnSync('docker', ['network', 'rm', 'docker_gwbridge'])
}

// '' when a Swarm can be made of the engine, otherwise the reason.
export function impossible() {
  const info = spawnSync('docker', ['info', '-f', '{{.Swarm.LocalNodeState}} {{.LiveRestoreEnabled}}'], { encoding: 'utf8' })
  if (info.status !== 0) return `no container engine: ${info.stderr?.trim().split('\n')[0]}`
  const [state, live] = info.stdout.trim().split(' ')
  if (!socketPath.startsWith('/')) return `DOCKER_HOST is ${process.env.DOCKER_HOST}, and not a unix socket of this machine`
  if (live === 'true') return 'the engine has live-restore, which excludes Swarm'
  if (state !== 'inactive') return `the engine is part of a Swarm already (${state}), which is left alone`
  const bridge = hasBridge()
  const trial = spawnSync('docker', initArgs, { encoding: 'utf8' })
  if (trial.status !== 0) return `the engine cannot be a Swarm: ${trial.stderr.trim().split('\n')[0]}`
  undo(bridge)
  return ''
}

// Makes the engine a Swarm of its own and returns what undoes it. Ports in host mode need neither VXLAN nor
// IP_VS nor iptables.
export async function borrow() {
  const bridge = hasBridge()
  docker(...initArgs)
  return () => undo(bridge)
}

// The image's id: engines do not try to pull what is named so.
export function buildImage() {
  execFileSync(path.join(root, 'images/build-runner'), { stdio: ['ignore', 'ignore', 'inherit'] })
  return docker('image', 'inspect', '-f', '{{.Id}}', 'fnd/runner:latest')
}

export const services = (owner) => lines(docker('service', 'ls', '--filter', `label=fnd.owner=${owner}`, '--format', '{{.Name}}'))

// In front of the engine: `away` refuses, `lose(n)` has n orders of services carried out whose answer
// does not arrive. `orders` are the names asked for, in order.
export class Gate {
  static async start() {
    const gate = Object.assign(new Gate(), { away: false, losing: 0, orders: [] })
    gate.path = path.join(tempDir(), 'engine.sock')
    gate.server = http.createServer((req, res) => gate.#pass(req, res))
    await new Promise((resolve) => { gate.server.listen(gate.path, resolve) })
    return gate
  }

  lose(n) {
    this.losing = n
  }

  async #pass(req, res) {
    const chunks = []
    for await (const c of req) chunks.push(c)
    const body = Buffer.concat(chunks)
    if (this.away) return req.socket.destroy()
    const order = req.url === '/services/create'
    if (order) this.orders.push(JSON.parse(body).Name)
    const up = http.request({ socketPath, path: req.url, method: req.method, headers: req.headers }, (answer) => {
      const parts = []
      answer.on('data', (c) => parts.push(c))
      answer.on('end', () => {
        if (order && this.losing > 0) {
          this.losing--
          return req.socket.destroy()
        }
        const { 'transfer-encoding': _, ...headers } = answer.headers
        res.writeHead(answer.statusCode, { ...headers, 'content-length': Buffer.concat(parts).length })
        res.end(Buffer.concat(parts))
      })
    })
    up.on('error', () => req.socket.destroy())
    up.end(body)
  }

  async stop() {
    this.server.closeAllConnections()
    await new Promise((r) => { this.server.close(r) })
  }
}

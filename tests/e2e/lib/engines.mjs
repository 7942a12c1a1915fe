// Docker engines as machines of their own, each in a network namespace. Root only. Those of a fleet are wired to a
// switch that this machine is wired to as well; the switch has a namespace too, where no firewall of this machine
// applies. Containers are reached through the engines' own proxies, so that no firewall rules are needed.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { engineFolder } from './docker.mjs'
import { until } from './node.mjs'

const sh = (...argv) => execFileSync(argv[0], argv.slice(1), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: COMMAND_TIMEOUT_MS }).trim()
const quietly = (...argv) => spawnSync(argv[0], argv.slice(1), { stdio: 'ignore', timeout: COMMAND_TIMEOUT_MS })
// Not `ip netns exec`, which would hide the cgroups below a /sys of its own.
const inside = (namespace, ...argv) => sh('nsenter', `--net=/run/netns/${namespace}`, ...argv)
const START_TIMEOUT_MS = 60_000
const COMMAND_TIMEOUT_MS = 60_000

class Engine {
  constructor(namespace) {
    this.namespace = namespace
    this.dir = engineFolder('engine')
    this.socket = path.join(this.dir, 'docker.sock')
    this.forwarders = []
    sh('ip', 'netns', 'add', namespace)
    this.inside('ip', 'link', 'set', 'lo', 'up')
  }

  inside(...argv) {
    return inside(this.namespace, ...argv)
  }

  docker(...argv) {
    return sh('docker', '--host', `unix://${this.socket}`, ...argv)
  }

  // Makes a server that listens on a Unix socket a port of this engine's namespace.
  async forward(port, socket, host = '127.0.0.1') {
    const child = spawn('nsenter', [`--net=/run/netns/${this.namespace}`, process.execPath, '-e', FORWARDER, host, port, socket])
    this.forwarders.push(child)
    await once(child.stdout, 'data')
  }

  // Also after kill(). more: further options of dockerd.
  async start(storage, more = []) {
    const log = openSync(path.join(this.dir, 'log'), 'a')
    this.child = spawn('nsenter', [`--net=/run/netns/${this.namespace}`, 'dockerd', '--host', `unix://${this.socket}`,
      '--data-root', path.join(this.dir, 'data'), '--exec-root', path.join(this.dir, 'exec'), '--pidfile', path.join(this.dir, 'pid'),
      '--storage-driver', storage, '--iptables=false', '--ip6tables=false', '--ip-masq=false', ...more],
    { stdio: ['ignore', log, log], detached: true })
    this.ended = new Promise((resolve) => { this.child.once('close', resolve) })
    await until(`engine ${this.namespace} answers`, () => {
      if (this.child.exitCode !== null) throw new Error(readFileSync(path.join(this.dir, 'log'), 'utf8').slice(-2000))
      return quietly('docker', '--host', `unix://${this.socket}`, 'version').status === 0
    }, START_TIMEOUT_MS)
  }

  // The cable, as it were; of a fleet.
  unplug() {
    this.inside('ip', 'link', 'set', 'eth0', 'down')
  }

  alive() {
    return Boolean(this.child) && this.child.exitCode === null && this.child.signalCode === null
  }

  signal(signo) {
    process.kill(this.child.pid, signo)
  }

  // It makes and removes containers, but starts and kills them through another process, which may hang alone.
  signalContainerd(signo) {
    process.kill(Number(readFileSync(this.#containerdPid(), 'utf8')), signo)
  }

  wake() {
    this.signalContainerd('SIGCONT')
    this.signal('SIGCONT')
  }

  #containerdPid() {
    return path.join(this.dir, 'exec/containerd/containerd.pid')
  }

  // Containers go on until the next start(), which ends them unless it was given --live-restore.
  async kill() {
    this.signalContainerd('SIGKILL') // at once, rather than by its parent's death a moment later
    this.signal('SIGKILL')
    await this.ended
    // The next one takes a number of a dead process for a process that lives.
    rmSync(path.join(this.dir, 'pid'), { force: true })
    rmSync(this.#containerdPid(), { force: true })
  }

  async stop() {
    for (const child of [...this.forwarders, this.background]) child?.kill('SIGKILL')
    if (this.alive()) this.wake()
    if (this.child && !this.alive()) await this.restart?.().catch(() => {})
    if (this.alive()) {
      for (const id of spawnSync('docker', ['--host', `unix://${this.socket}`, 'ps', '-aq'], { encoding: 'utf8', timeout: COMMAND_TIMEOUT_MS }).stdout.split('\n').filter(Boolean)) {
        quietly('docker', '--host', `unix://${this.socket}`, 'rm', '-f', id)
      }
      this.child.kill('SIGTERM')
      await this.ended
    }
    // Of containers that were removed while the engine was killed: nobody else ends them.
    const shims = spawnSync('pgrep', ['-f', `containerd-shim.* ${this.dir}/`], { encoding: 'utf8', timeout: COMMAND_TIMEOUT_MS }).stdout.split('\n').filter(Boolean)
    if (shims.length) quietly('kill', '-9', ...shims)
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n').map((l) => l.split(' ')[4]).filter((p) => p?.startsWith(`${this.dir}/`))
    for (const point of mounts.sort().reverse()) quietly('umount', '-l', point)
    quietly('ip', 'netns', 'delete', this.namespace)
    rmSync(this.dir, { recursive: true, force: true })
  }
}

// From the engine of the tests.
function load(engine, image) {
  sh('sh', '-c', 'set -e; docker save "$1" | docker --host "unix://$2" load', 'sh', image, engine.socket)
}

// '' when this machine can have engines of a test's own, otherwise the reason.
export function impossible() {
  if (process.getuid() !== 0) return 'only root can start an engine'
  const info = spawnSync('docker', ['info', '-f', '{{.ServerVersion}}'], { encoding: 'utf8' })
  if (info.status !== 0) return `no container engine: ${info.stderr?.trim().split('\n')[0]}`
  if (quietly('dockerd', '--version').status !== 0) return 'dockerd is not installed'
  return ''
}

// What functions send to a ledger of another machine (LEDGER_ADDR) is appended to a file of this one.
const KEEPER = `
const [file, port] = process.argv.slice(1)
require('net').createServer((s) => {
  let text = ''
  s.on('error', () => {})
  s.on('data', (d) => {
    text += d
    const end = text.lastIndexOf('\\n') + 1
    require('fs').appendFileSync(file, text.slice(0, end))
    text = text.slice(end)
  })
}).listen(Number(port), '0.0.0.0', () => console.log('ready'))`
export const KEEPER_PORT = 7777
const FORWARDER = `
const net = require('net')
const [host, port, path] = process.argv.slice(1)
net.createServer((s) => {
  const up = net.connect(path)
  for (const [one, other] of [[s, up], [up, s]]) {
    one.pipe(other)
    one.on('error', () => {}).on('close', () => other.destroy())
  }
}).listen(Number(port), host, () => console.log('ready'))`
let engines = 0

// One engine for a test to hurt, with images of the engine of the tests. Its containers write to the ledger at
// engine.ledgerAddress.
export async function startEngine({ images, ledger, options = [] }) {
  const engine = new Engine(`fnd-e${process.pid % 100000}-${++engines}`)
  engine.ledgerAddress = `172.17.0.1:${KEEPER_PORT}` // the bridge that every engine makes
  engine.restart = (more = options) => engine.start(sh('docker', 'info', '-f', '{{.Driver}}'), more)
  try {
    await engine.restart()
    for (const image of images) load(engine, image)
    engine.background = spawn('nsenter', [`--net=/run/netns/${engine.namespace}`, process.execPath, '-e', KEEPER, ledger.file, KEEPER_PORT])
    await once(engine.background.stdout, 'data')
  } catch (error) {
    await engine.stop()
    throw error
  }
  return engine
}

export class Fleet {
  static async start(n) {
    const fleet = new Fleet()
    fleet.name = `fnd${process.pid % 100000}`
    fleet.net = `10.${200 + (process.pid >> 8) % 50}.${process.pid % 256}`
    fleet.engines = []
    sh('ip', 'netns', 'add', fleet.name)
    try {
      fleet.inside('ip', 'link', 'add', 'switch', 'up', 'type', 'bridge')
      sh('ip', 'link', 'add', fleet.name, 'type', 'veth', 'peer', 'name', 'port0', 'netns', fleet.name)
      fleet.inside('ip', 'link', 'set', 'port0', 'master', 'switch', 'up')
      sh('ip', 'addr', 'add', `${fleet.net}.1/24`, 'dev', fleet.name)
      sh('ip', 'link', 'set', fleet.name, 'up')
      const storage = sh('docker', 'info', '-f', '{{.Driver}}')
      for (let i = 1; i <= n; i++) {
        const engine = new Engine(`${fleet.name}${i}`)
        fleet.engines.push(engine)
        fleet.#wire(engine, i)
        await engine.start(storage)
      }
    } catch (error) {
      await fleet.stop()
      throw error
    }
    return fleet
  }

  #wire(engine, n) {
    engine.address = `${this.net}.${n + 1}`
    this.inside('ip', 'link', 'add', `port${n}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', engine.namespace)
    this.inside('ip', 'link', 'set', `port${n}`, 'master', 'switch', 'up')
    engine.inside('ip', 'addr', 'add', `${engine.address}/24`, 'dev', 'eth0')
    engine.inside('ip', 'link', 'set', 'eth0', 'up')
    engine.inside('ip', 'route', 'add', 'default', 'via', `${this.net}.1`)
  }

  inside(...argv) {
    return inside(this.name, ...argv)
  }

  // The first one is the manager.
  join() {
    const [manager, ...workers] = this.engines
    manager.docker('swarm', 'init', '--advertise-addr', manager.address)
    const token = manager.docker('swarm', 'join-token', '-q', 'worker')
    for (const w of workers) w.docker('swarm', 'join', '--advertise-addr', w.address, '--token', token, `${manager.address}:2377`)
  }

  load(image) {
    for (const e of this.engines) load(e, image)
  }

  async stop() {
    for (const e of this.engines) await e.stop()
    quietly('ip', 'link', 'delete', this.name)
    quietly('ip', 'netns', 'delete', this.name)
  }
}

// Docker engines as machines of their own: each in a network namespace, wired to a switch that this machine is
// wired to as well. The switch has a namespace too, where no firewall of this machine applies. Root only. Containers are reached through the engines' own proxies, so that no firewall rules are needed.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { until } from './node.mjs'

const sh = (...argv) => execFileSync(argv[0], argv.slice(1), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()
const quietly = (...argv) => spawnSync(argv[0], argv.slice(1), { stdio: 'ignore' })
// Not `ip netns exec`, which would hide the cgroups below a /sys of its own.
const inside = (namespace, ...argv) => sh('nsenter', `--net=/run/netns/${namespace}`, ...argv)
const START_TIMEOUT_MS = 60_000

class Engine {
  constructor(fleet, n) {
    Object.assign(this, { n, namespace: `${fleet.name}${n}`, address: `${fleet.net}.${n + 1}` })
    this.dir = mkdtempSync('/var/lib/fnd-engine-')
    this.socket = path.join(this.dir, 'docker.sock')
    sh('ip', 'netns', 'add', this.namespace)
    fleet.inside('ip', 'link', 'add', `port${n}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', this.namespace)
    fleet.inside('ip', 'link', 'set', `port${n}`, 'master', 'switch', 'up')
    this.inside('ip', 'link', 'set', 'lo', 'up')
    this.inside('ip', 'addr', 'add', `${this.address}/24`, 'dev', 'eth0')
    this.inside('ip', 'link', 'set', 'eth0', 'up')
    this.inside('ip', 'route', 'add', 'default', 'via', `${fleet.net}.1`)
  }

  inside(...argv) {
    return inside(this.namespace, ...argv)
  }

  docker(...argv) {
    return sh('docker', '--host', `unix://${this.socket}`, ...argv)
  }

  async start(storage) {
    const log = openSync(path.join(this.dir, 'log'), 'a')
    this.child = spawn('nsenter', [`--net=/run/netns/${this.namespace}`, 'dockerd', '--host', `unix://${this.socket}`,
      '--data-root', path.join(this.dir, 'data'), '--exec-root', path.join(this.dir, 'exec'), '--pidfile', path.join(this.dir, 'pid'),
      '--storage-driver', storage, '--iptables=false', '--ip6tables=false', '--ip-masq=false'], { stdio: ['ignore', log, log], detached: true })
    this.ended = new Promise((resolve) => { this.child.once('close', resolve) })
    await until(`engine ${this.n} answers`, () => {
      if (this.child.exitCode !== null) throw new Error(readFileSync(path.join(this.dir, 'log'), 'utf8').slice(-2000))
      return quietly('docker', '--host', `unix://${this.socket}`, 'version').status === 0
    }, START_TIMEOUT_MS)
  }

  // The cable, as it were.
  unplug() {
    this.inside('ip', 'link', 'set', 'eth0', 'down')
  }

  async stop() {
    if (this.child) {
      for (const id of spawnSync('docker', ['--host', `unix://${this.socket}`, 'ps', '-aq'], { encoding: 'utf8' }).stdout.split('\n').filter(Boolean)) {
        quietly('docker', '--host', `unix://${this.socket}`, 'rm', '-f', id)
      }
      this.child.kill('SIGTERM')
      await this.ended
    }
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n').map((l) => l.split(' ')[4]).filter((p) => p?.startsWith(`${this.dir}/`))
    for (const point of mounts.sort().reverse()) quietly('umount', '-l', point)
    quietly('ip', 'netns', 'delete', this.namespace)
    rmSync(this.dir, { recursive: true, force: true })
  }
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
        const engine = new Engine(fleet, i)
        fleet.engines.push(engine)
        await engine.start(storage)
      }
    } catch (error) {
      await fleet.stop()
      throw error
    }
    return fleet
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

  // From the engine of the tests.
  load(image) {
    for (const e of this.engines) {
      sh('sh', '-c', 'set -e; docker save "$1" | docker --host "unix://$2" load', 'sh', image, e.socket)
    }
  }

  async stop() {
    for (const e of this.engines) await e.stop()
    quietly('ip', 'link', 'delete', this.name)
    quietly('ip', 'netns', 'delete', this.name)
  }
}

// A node pool manager with local processes as machines, and load balancers that follow it.
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { startLb } from './cluster.mjs'
import { Fnd, build, freePort, tempDir, until } from './node.mjs'

const run = promisify(execFile)
const RUNNER_MB = 256

const processes = (e) => `{ use: process, state: ${e.state}, program: ${path.join(build, 'fnd')}, base: ${e.base}, capacity: ${RUNNER_MB} }`

// Of a manager: its ports, and its admin socket.
const places = async () => ({ port: await freePort(), grpc: await freePort(), socket: path.join(tempDir(), 'admin.sock') })

export class Elastic {
  // groups: names; functions as for startLb; npm: further options of npm:; cplane: another control plane,
  // text or what makes it when everything but the nodes is there; env: of manager and load balancers, lbEnv: of
  // these; program: the manager's.
  static async start({ lbs = 1, groups = ['default'], functions, npm = '', cooldown = '1s', pool = '', placer, cplane = processes, env, lbEnv = env, program }) {
    const e = new Elastic()
    e.state = mkdtempSync('/tmp/fnr-') // short: sockets are in it
    e.base = path.join(tempDir(), 'base.yaml')
    writeFileSync(e.base, `runner: { memory_total: ${RUNNER_MB}MiB, iofs_path: ${e.state}, writable_root: true }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { driver: { use: process, root: ${path.join(build, 'functions')} } }
`)
    e.manager = (at) => `
node: npm
http: { listen: "127.0.0.1:${at.port}" }
grpc: { listen: "127.0.0.1:${at.grpc}" }
admin: { socket: ${at.socket} }
plugin_dir: ${path.join(build, 'plugins')}
npm:
  groups: [${groups.join(', ')}]
  settle: 500ms
  loss_brake: 500ms
  cooldown: ${cooldown}
  poll: 200ms
  drain_settle: 300ms
  runner_mb: ${RUNNER_MB}
  group_runners_max: 4
${npm}
plugins:
  control_plane: ${typeof cplane === 'function' ? cplane(e) : cplane}
`
    const at = await places()
    Object.assign(e, { grpc: at.grpc, socket: at.socket })
    e.npm = await Fnd.start('npm', at.port, e.manager(at), { env, program })
    e.lbs = []
    for (let i = 0; i < lbs; i++) {
      e.lbs.push(await startLb({ name: `lb${i}`, functions, pool: `{ use: npm, address: "127.0.0.1:${e.grpc}", interval: 200ms${pool} }`, placer, env: lbEnv }))
    }
    await until('the manager has learnt', async () => (await e.runners()).groups.every((g) => g.settled))
    return e
  }

  // A second manager of the same groups and machines, with a load balancer.
  async rival(functions) {
    const at = await places()
    const other = Object.assign(new Elastic(), { socket: at.socket })
    other.npm = await Fnd.start('rival', at.port, this.manager(at))
    other.lb = await startLb({ name: 'lb-of-rival', functions, pool: `{ use: npm, address: "127.0.0.1:${at.grpc}", interval: 200ms }` })
    other.stop = async () => {
      await other.lb.stop()
      await other.npm.stop()
    }
    return other
  }

  async cli(...args) {
    return run(path.join(build, 'fnd'), [args[0], '--json', '--socket', this.socket, ...args.slice(1)])
  }

  // { groups, runners } of the manager.
  async runners() {
    return JSON.parse((await this.cli('runners', 'list')).stdout)
  }

  async states(group = 'default') {
    const count = {}
    for (const r of (await this.runners()).runners) {
      if (r.group === group) count[r.state] = (count[r.state] ?? 0) + 1
    }
    return count
  }

  // Runner processes, by their pid files.
  pids() {
    return readdirSync(this.state, { withFileTypes: true }).filter((d) => d.isDirectory()).flatMap((g) => {
      const group = path.join(this.state, g.name)
      return readdirSync(group).map((id) => path.join(group, id, 'pid'))
    }).flatMap((file) => {
      try { return [Number(readFileSync(file, 'utf8'))] } catch { return [] }
    })
  }

  async stop() {
    for (const lb of this.lbs) await lb.stop()
    await this.npm.stop()
    // Kindly: what a runner mounted is gone when it ended by itself.
    const pids = this.pids()
    const signal = (pid, name) => { try { return process.kill(pid, name) } catch { return false /* it is gone */ } }
    for (const pid of pids) signal(pid, 'SIGTERM')
    await until('the runners end', () => !pids.some((pid) => signal(pid, 0)), 20_000).catch(() => {})
    for (const pid of pids) signal(pid, 'SIGKILL')
    for (const [, dir] of readFileSync('/proc/mounts', 'utf8').matchAll(/^\S+ (\S+)/gm)) {
      if (dir.startsWith(`${this.state}/`)) execFileSync('umount', ['--lazy', dir]) // of killed runners
    }
    rmSync(this.state, { recursive: true, force: true })
  }
}

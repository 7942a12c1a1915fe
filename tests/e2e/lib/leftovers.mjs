// What a test file leaves behind, and its removal when the process ends: folders with what is mounted
// in them, admin sockets of killed nodes, and functions whose runner was killed and had no successor.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, rmdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const folders = new Set()
const sockets = new Set()
const MARK = '-alive'

const quietly = (what) => { try { return what() } catch { return undefined } }
const entries = (dir) => quietly(() => readdirSync(dir)) ?? []
const HIERARCHIES = hierarchies()

// Where a runner makes cgroups: one folder with v2; with v1 one a controller, below the cgroup that
// these tests run in themselves.
function hierarchies() {
  const own = readFileSync('/proc/self/cgroup', 'utf8').split('\n').map((line) => line.split(':'))
  const below = (controller) => own.find(([, names]) => names?.split(',').includes(controller))?.[2] ?? '/'
  const v1 = ['freezer', 'memory', 'pids', 'cpu'].map((c) => path.join('/sys/fs/cgroup', c, below(c), 'fnd'))
  return ['/sys/fs/cgroup/fnd', ...v1]
}

// A folder `<prefix>XXXXXX` that goes when this process ends.
export function temporary(prefix) {
  const dir = mkdtempSync(prefix)
  folders.add(dir)
  return dir
}

export function socketOfPort(port) {
  sockets.add(`/run/fnd/127.0.0.1-${port}.sock`)
}

function removeFolder(dir) {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n').map((line) => line.split(' ')[4]).filter((at) => at?.startsWith(`${dir}/`))
  for (const at of mounts) spawnSync('umount', ['-l', at])
  quietly(() => rmSync(dir, { recursive: true, force: true }))
}

// Like a runner's own sweep: a mark that can be locked is of a dead one.
function sweepDead(base, prefix) {
  for (const name of entries(base).filter((entry) => entry.startsWith(prefix))) {
    for (const dir of HIERARCHIES.map((h) => path.join(h, name)).filter((d) => existsSync(d))) {
      const pids = (quietly(() => readFileSync(path.join(dir, 'cgroup.procs'), 'utf8')) ?? '').split('\n').filter(Boolean)
      for (const pid of pids) quietly(() => process.kill(Number(pid), 'SIGKILL'))
      quietly(() => writeFileSync(path.join(dir, 'freezer.state'), 'THAWED'))
      for (let i = 0; i < 200 && existsSync(dir) && quietly(() => { rmdirSync(dir); return true }) !== true; i++) spawnSync('sleep', ['0.01'])
    }
  }
}

process.once('exit', () => {
  for (const base of HIERARCHIES) {
    for (const mark of entries(base).filter((name) => name.endsWith(MARK))) {
      if (spawnSync('flock', ['-n', path.join(base, mark), 'true']).status === 0) sweepDead(base, mark.slice(0, -MARK.length + 1))
    }
  }
  for (const dir of folders) removeFolder(dir)
  // A port that was free again may be that of another file's node, who listens.
  const listening = quietly(() => readFileSync('/proc/net/unix', 'utf8')) ?? ''
  for (const socket of sockets) if (!listening.includes(` ${socket}\n`)) rmSync(socket, { force: true })
})

// The container engine of the tests: the one that DOCKER_HOST leads to, or the default socket.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmdirSync } from 'node:fs'
import path from 'node:path'

export const socketPath = (process.env.DOCKER_HOST ?? 'unix:///var/run/docker.sock').replace('unix://', '')
export const docker = (...args) => execFileSync('docker', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()

// In a runner's plugins. Nodes do not inherit DOCKER_HOST, so it names the engine.
export const driver = (socket = socketPath, more = '') => `driver: { use: docker, docker_host: "unix://${socket}"${more} }`

// Where engines of tests have their state: not a file system in memory, on which overlays of theirs may not lie.
const ENGINES = '/var/lib/fnd-test'

// A folder of its own for an engine that a test starts and removes.
export function engineFolder(prefix) {
  mkdirSync(ENGINES, { recursive: true })
  process.once('exit', () => { try { rmdirSync(ENGINES) } catch { /* others have theirs in it */ } })
  return mkdtempSync(path.join(ENGINES, `${prefix}-`))
}

const engine = spawnSync('docker', ['info', '-f', '{{.ServerVersion}}'], { encoding: 'utf8' })

// For `skip`: false, or why there is none.
export const noEngine = engine.status === 0 ? false : `no container engine: ${engine.stderr?.trim().split('\n')[0]}`

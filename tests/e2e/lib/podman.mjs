// A Podman service of a test's own (scripts/lib/podman.sh), with images of this build.
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { engineFolder } from './docker.mjs'
import { build, root } from './node.mjs'

const TIMEOUT_MS = 90_000

export class Podman {
  // diskMiB: of a file system of its own, for images and containers.
  static async start(images, { diskMiB } = {}) {
    const podman = new Podman()
    podman.dir = engineFolder('podman')
    podman.socket = path.join(podman.dir, 'podman.sock')
    process.once('exit', () => podman.remove())
    if (diskMiB) podman.#mount(diskMiB)
    podman.#run('podman_make')
    await promisify(execFile)(path.join(root, 'scripts/build-images'), images, { timeout: TIMEOUT_MS, env: { ...process.env, FND_BUILD: build, DOCKER_HOST: podman.#host } })
    return podman
  }

  get #host() {
    return `unix://${this.socket}`
  }

  #run(what, ...more) {
    const script = `. ${root}/scripts/lib/podman.sh && ${what} "$@"`
    const ended = spawnSync('bash', ['-c', script, 'bash', this.dir, ...more], { encoding: 'utf8', timeout: TIMEOUT_MS })
    if (ended.status !== 0) throw new Error(`${what}: ${ended.stderr}`)
  }

  // remove() takes it away with all that is mounted below the directory.
  #mount(diskMiB) {
    const image = path.join(this.dir, 'disk')
    this.disk = path.join(this.dir, 'root')
    mkdirSync(this.disk)
    writeFileSync(image, '')
    truncateSync(image, diskMiB << 20)
    for (const argv of [['mkfs.ext4', '-q', '-F', '-m', '0', image], ['mount', '-o', 'loop', image, this.disk]]) {
      execFileSync(argv[0], argv.slice(1), { timeout: TIMEOUT_MS, stdio: 'pipe' })
    }
  }

  // Containers go on.
  kill() {
    this.#run('podman_stop', 'KILL')
  }

  serve() {
    this.#run('podman_serve')
  }

  remove() {
    if (this.dir) this.#run('podman_remove')
    this.dir = undefined
  }

  docker(...argv) {
    return execFileSync('docker', ['--host', this.#host, ...argv], { encoding: 'utf8', timeout: TIMEOUT_MS }).trim()
  }

  containers(owner) {
    return this.docker('ps', '-aq', '--no-trunc', '--filter', `label=io.fnd.owner=${owner}`).split('\n').filter(Boolean)
  }
}

// For `skip`: false, or why there is none.
export const noPodman = process.getuid() !== 0 ? 'only root can start a Podman service'
  : spawnSync('podman', ['--version']).status !== 0 && 'podman is not installed'

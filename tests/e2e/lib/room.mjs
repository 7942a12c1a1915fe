// A root of its own to install packages in: an overlay over this very system, in name spaces of its own,
// without network and without the source tree. Nothing of the machine is changed, and when this process
// ends, however, the mounts are gone.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { root } from './node.mjs'

const setUp = `set -e
layer=$1/layer merged=$1/layer/merged
mount -t tmpfs -o mode=755 tmpfs "$layer"
mkdir "$layer/upper" "$layer/work" "$merged"
mount -t overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" overlay "$merged"
mount -t proc proc "$merged/proc"
mount --rbind /dev "$merged/dev"
for fresh in tmp run; do mount -t tmpfs -o mode=1777 tmpfs "$merged/$fresh"; done
mkdir -p "$merged$1" "$merged$2"
mount --bind "$1" "$merged$1"
mount --bind "$1/nothing" "$merged$2"
ip link set lo up
echo ready
exec cat` // until its standard input ends, with this process at the latest

// Why there can be none here, or undefined: it takes root, and a system that may be laid under an overlay.
export function noRoom() {
  const r = spawnSync('unshare', ['--mount', '--net', '--propagation', 'private', 'sh', '-c', `set -e
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/merged
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/merged`], { encoding: 'utf8' })
  return r.status === 0 ? undefined : `no overlay over this system: ${(r.stderr || String(r.error)).trim()}`
}

export class Room {
  // `dir` is the same inside and outside.
  static async open(dir) {
    const room = new Room()
    room.dir = dir
    for (const name of ['layer', 'nothing']) mkdirSync(path.join(dir, name))
    room.child = spawn('unshare', ['--mount', '--net', '--propagation', 'private', 'sh', '-c', setUp, 'room', dir, root],
      { stdio: ['pipe', 'pipe', 'pipe'] })
    room.ended = once(room.child, 'exit')
    let told = ''
    room.child.stderr.on('data', (d) => { told += d })
    const ready = await Promise.race([once(room.child.stdout, 'data'), room.ended.then(() => null)])
    if (!ready) throw new Error(`no room: ${told}`)
    return room
  }

  // A program inside, in the folder `cwd`.
  run(program, args, { cwd = this.dir, ...more } = {}) {
    return spawnSync('nsenter', ['--target', String(this.child.pid), '--mount', '--net', 'chroot',
      path.join(this.dir, 'layer/merged'), 'env', '-C', cwd, program, ...args], { encoding: 'utf8', ...more })
  }

  async close() {
    this.child.stdin.end()
    await this.ended
  }
}

// A root of its own to install packages in: an overlay over this very system, in name spaces of its own,
// without network and without the source tree. Nothing of the machine is changed, and when this process
// ends, however, the mounts are gone.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { root, until } from './node.mjs'

const layers = `set -e
layer=$1/layer merged=$1/layer/merged
mount -t tmpfs -o mode=755 tmpfs "$layer"
mkdir "$layer/upper" "$layer/work" "$merged"
mount -t overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" overlay "$merged"
read -r self _ </proc/self/stat # as those outside see it
mount -t proc proc "$merged/proc"
mount -t tmpfs -o mode=755 tmpfs "$merged/run"
mount -t tmpfs -o mode=1777 tmpfs "$merged/tmp"
mkdir -p "$merged$1" "$merged$2"
mount --bind "$1" "$merged$1"
mount --bind "$1/nothing" "$merged$2"
ip link set lo up
`
const setUp = `${layers}
mount --rbind /dev "$merged/dev"
echo "$self"
exec cat` // until its standard input ends, with this process at the latest

// With devices and cgroups of its own, so that a systemd there finds all that it may have, and no more.
const bootUp = `${layers}
mount --bind "$merged/proc/sys" "$merged/proc/sys"
mount -o remount,ro,bind "$merged/proc/sys"
mount -t tmpfs -o mode=755 tmpfs "$merged/dev"
for device in null zero full random urandom tty; do
  touch "$merged/dev/$device"
  mount --bind "/dev/$device" "$merged/dev/$device"
done
ln -s /proc/self/fd "$merged/dev/fd"
ln -s pts/ptmx "$merged/dev/ptmx"
mkdir "$merged/dev/shm" "$merged/dev/pts"
mount -t tmpfs -o mode=755 tmpfs "$merged/sys"
mkdir -p "$merged/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$merged/sys/fs/cgroup"
: >"$merged/etc/machine-id"
rm -f "$merged/usr/sbin/policy-rc.d"
printf '[Unit]\\nRequires=dbus.socket systemd-journald.service\\nAfter=dbus.socket systemd-journald.service\\n' \\
  >"$merged/etc/systemd/system/room.target"
echo "$self"
cd "$merged"
mkdir -p .before
pivot_root . .before # a root of its own: units are hidden from parts of it
umount -l /.before
rmdir /.before
exec env -i container=room /lib/systemd/systemd --unit=room.target --log-target=journal >&2 </dev/null`

// Ends with its standard input, and with it all that began in the room.
const keeper = `trap : INT TERM HUP
group=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/fnd-room-$$
mkdir "$group"
sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec unshare --mount --net --pid --cgroup --ipc --uts --fork --kill-child --propagation private sh -c "$@"' \\
  keeper "$group" "$0" room "$@" </dev/null &
cat >/dev/null
kill -9 $!
wait
while grep -qs . $(find "$group" -name cgroup.procs); do sleep 0.02; done
find "$group" -depth -type d -exec rmdir {} +`

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
    return new Room().#begin(dir, ['unshare', '--mount', '--net', '--propagation', 'private', 'sh', '-c', setUp, 'room', dir, root],
      ['--mount', '--net', 'chroot', path.join(dir, 'layer/merged')])
  }

  // With a systemd as its first process, which has come up with no more than a bus and a journal.
  static async boot(dir) {
    const room = await new Room().#begin(dir, ['sh', '-c', keeper, bootUp, dir, root], ['--mount', '--net', '--pid', '--cgroup', '--ipc', '--uts'])
    try {
      await until('systemd is up', () => room.run('systemctl', ['is-active', 'room.target'], { cwd: '/' }).status === 0, 20_000)
    } catch (e) {
      await room.close()
      throw e
    }
    return room
  }

  async #begin(dir, [program, ...args], spaces) {
    const room = this
    room.dir = dir
    for (const name of ['layer', 'nothing']) mkdirSync(path.join(dir, name))
    room.child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    room.ended = once(room.child, 'exit')
    let told = ''
    room.child.stderr.on('data', (d) => { told += d })
    const ready = await Promise.race([once(room.child.stdout, 'data'), room.ended.then(() => null)])
    if (!ready) throw new Error(`no room: ${told}`)
    room.root = `/proc/${String(ready).trim()}/root` // its files, as they are seen from outside
    room.within = ['--target', String(ready).trim(), ...spaces]
    return room
  }

  // A program inside, in the folder `cwd`.
  run(program, args, { cwd = this.dir, ...more } = {}) {
    return spawnSync('nsenter', [...this.within, 'env', '-C', cwd, program, ...args], { encoding: 'utf8', ...more })
  }

  // The same, and this process goes on meanwhile.
  begin(program, args, { cwd = this.dir, ...more } = {}) {
    return spawn('nsenter', [...this.within, 'env', '-C', cwd, program, ...args], more)
  }

  async close() {
    this.child.stdin.end()
    await this.ended
  }
}

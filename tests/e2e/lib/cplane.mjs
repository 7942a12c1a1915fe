// A node pool manager whose control plane is a script that does as a test says: files in a folder are its
// answers, and every question is written down.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Elastic } from './elastic.mjs'
import { Fnd, build, freePort, root, tempDir } from './node.mjs'

let plugin

// The sample of the kit, built once: it runs a program for each question.
function cpExec() {
  if (!plugin) {
    plugin = path.join(tempDir(), 'cp-exec.so')
    execFileSync(process.env.CC ?? 'cc', ['-shared', '-fPIC', '-O1', '-fvisibility=hidden', '-I', path.join(root, 'include'),
      path.join(root, 'samples/cp-exec/cplane.c'), '-o', plugin])
    for (const p of [plugin, path.dirname(plugin)]) chmodSync(p, 0o700)
  }
  return plugin
}

// Answers: file `list`, `provision`, `remove` printed as it is; `X.sh` runs instead of X.
const SCRIPT = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$(date +%s%N) $*" >> calls
[ -f "$1.sh" ] && exec /bin/sh "./$1.sh" "$@"
[ -f "$1" ] && exec cat "$1"
[ "$1" != provision ] || echo 0
`

const OPTIONS = {
  groups: '[default]',
  settle: '0s',
  loss_brake: '1s',
  cooldown: '1s',
  poll: '100ms',
  demand_life: '60s',
  drain_settle: '100ms',
  runner_mb: 256,
  group_runners_max: 4,
}

export class Scripted extends Elastic {
  // npm: options of npm:, instead of those below or beside them.
  static async start({ npm = {}, grpc = '', more = '' } = {}) {
    const s = new Scripted()
    s.lbs = []
    s.state = tempDir() // no runner processes of its own
    s.dir = path.join(tempDir(), 'cloud')
    mkdirSync(s.dir)
    writeFileSync(path.join(s.dir, 'cloud'), SCRIPT, { mode: 0o755 })
    s.grpc = await freePort()
    s.socket = path.join(tempDir(), 'admin.sock')
    const port = await freePort()
    s.npm = await Fnd.start('npm', port, `
node: npm
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${s.grpc}"${grpc} }
admin: { socket: ${s.socket} }
plugin_dir: ${path.join(build, 'plugins')}
npm:
${Object.entries({ ...OPTIONS, ...npm }).map(([k, v]) => `  ${k}: ${v}`).join('\n')}
plugins:
  control_plane: { use: exec, file: ${cpExec()}, program: ${path.join(s.dir, 'cloud')} }
${more}`)
    return s
  }

  // By rename: a question sees the old answer or the new one.
  answer(name, text) {
    const file = path.join(this.dir, name)
    writeFileSync(`${file}.new`, text)
    renameSync(`${file}.new`, file)
  }

  // machines: [id, address, mb?, state?]
  list(...machines) {
    this.answer('list', machines.map(([id, address, mb = 256, state = 'ready']) => `${id} ${state} ${address ?? '-'} ${mb}\n`).join(''))
  }

  // [{ ns, words }] of one kind of question.
  asked(kind) {
    const file = path.join(this.dir, 'calls')
    const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
    return text.split('\n').filter(Boolean).map((l) => l.split(' ')).filter((w) => w[1] === kind)
      .map(([ns, , ...words]) => ({ ns: BigInt(ns), words }))
  }

  async group() {
    return (await this.runners()).groups[0]
  }
}

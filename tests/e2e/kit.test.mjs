// The kit as a vendor has it: the Debian package installed by apt into a root without the source tree and
// without network, samples built there with nothing else, tried with the kit's fnkit, and run in a node.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { appsYaml, fnId } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { Fnd, build, freePort, root, tempDir, until } from './lib/node.mjs'
import { Room, noRoom } from './lib/room.mjs'

const samples = ['placer-p2c', 'cp-exec', 'driver-site', 'override-deadline', 'override-shares', 'driver-shares', 'placer-pin', 'listener-lines']
const dir = tempDir()
const kit = '/usr'
const operator = path.join(dir, 'fnd') // what an operator has: the program and its plugins
let room
let installed
const so = (name) => path.join(dir, 'b', name, `${name}.so`)

// Nothing of this machine's settings leads a compiler to the source tree.
const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: dir, LANG: 'C.UTF-8' }

function run(program, args, more = {}) {
  const r = room.run(program, args, { env, ...more })
  return { code: r.status, out: r.stdout, all: `${r.stdout}${r.stderr}` }
}

function ok(program, args, more) {
  const r = run(program, args, more)
  assert.equal(r.code, 0, `${program} ${args.join(' ')}\n${r.all}`)
  return r.all
}

// On the machine, where the nodes of these tests run.
const outside = (...args) => spawnSync(path.join(build, 'fnd'), args, { encoding: 'utf8', env })

describe('the kit for plugin vendors', { skip: noRoom() }, () => {
  before(async () => {
    const package_ = execFileSync(path.join(root, 'scripts/build-kit'), [build], { encoding: 'utf8' }).trim()
    room = await Room.open(dir)
    cpSync(package_, path.join(dir, path.basename(package_)))
    for (const file of ['fnd', 'fnd-plugprobe', 'plugins', 'functions']) {
      cpSync(path.join(build, file), path.join(operator, file), { recursive: true })
    }
    installed = ok('apt-get', ['install', '-y', '--no-install-recommends', `./${path.basename(package_)}`],
      { env: { ...env, DEBIAN_FRONTEND: 'noninteractive' } })
    ok('cp', ['-r', '/usr/share/fnd-dev/samples', dir])
    for (const name of samples) {
      ok('cmake', ['-S', `samples/${name}`, '-B', `b/${name}`, '-DCMAKE_EXPORT_COMPILE_COMMANDS=ON'])
      ok('cmake', ['--build', `b/${name}`])
    }
  })
  after(async () => {
    await room?.close()
    rmSync(dir, { recursive: true, force: true })
  })

  it('is installed by apt, whole, in a root where the source tree is not', () => {
    assert.match(installed, /Setting up fnd-dev \(/)
    assert.match(ok('dpkg', ['-s', 'fnd-dev']), /^Status: install ok installed$/m)
    assert.equal(ok('dpkg', ['--verify', 'fnd-dev']), '')
    assert.deepEqual(ok('ls', ['-A', root]), '')
    assert.equal(run('test', ['-e', build]).code, 1)
    assert.equal(existsSync('/usr/bin/fnkit'), false, 'nothing of the machine was changed')
    assert.match(ok('fnkit', ['--help']), /usage: fnkit/)
  })

  it('has what it promises and depends on packages of Debian', () => {
    for (const file of ['include/fn/abi.h', 'bin/fnkit', 'libexec/fnd/fnd-plugprobe',
      'lib/cmake/fnd-dev/fnd-devConfig.cmake', 'lib/pkgconfig/fnd-dev.pc', 'share/fnd-dev/scenarios/burst.yaml',
      'share/doc/fnd-dev/abi.md', 'share/doc/fnd-dev/plugin-guide.md', 'share/doc/fnd-dev/copyright']) {
      ok('test', ['-e', path.join(kit, file)])
    }
    const deb = readdirSync(build).find((f) => /^fnd-dev_.*\.deb$/.test(f))
    const control = execFileSync('dpkg-deb', ['-I', path.join(build, deb), 'control'], { encoding: 'utf8' })
    assert.match(control, /^Depends: .*libc6 \(>= /m)
    assert.match(control, /^Depends: .*libyaml-0-2/m)
  })

  it('has pages whose links lead to pages that are there', () => {
    const folder = '/usr/share/doc/fnd-dev'
    const pages = ok('sh', ['-c', `cd ${folder} && ls *.md`]).trim().split('\n')
    assert.ok(pages.length > 15 && !pages.includes('architecture.md'), pages.join(' '))
    for (const page of pages) {
      const text = ok('cat', [path.join(folder, page)]).replace(/^```[^]*?^```$/gm, '')
      for (const [, target] of text.matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)) {
        assert.equal(run('test', ['-e', path.join(folder, target)]).code, 0, `${page}: ${target}`)
      }
    }
  })

  it('each sample is at most 150 lines and was built with the headers of the kit alone', () => {
    for (const name of samples) {
      const files = readdirSync(path.join(dir, 'samples', name))
      const lines = files.reduce((n, f) => n
        + readFileSync(path.join(dir, 'samples', name, f), 'utf8').split('\n').length - 1, 0)
      assert.ok(lines <= 150, `${name}: ${lines} lines`)
      const commands = readFileSync(path.join(dir, 'b', name, 'compile_commands.json'), 'utf8')
      assert.ok(!commands.includes(root), commands)
      assert.doesNotMatch(commands, / -I(?!\/usr\/include )/, 'the headers of /usr/include are enough')
    }
  })

  it('a plugin exports its entry alone; the static variant has an entry of its own', () => {
    for (const name of samples) {
      const names = ok('nm', ['-D', '--defined-only', so(name)]).trim().split('\n').map((l) => l.split(' ').pop())
      assert.deepEqual(names, ['fn_plugin_v1'], name)
    }
    ok('cmake', ['--build', 'b/placer-p2c', '--target', 'placer-p2c_static'])
    assert.match(ok('nm', ['b/placer-p2c/libplacer-p2c_static.a']), / T fn_plugin_v1_placer_p2c$/m)
  })

  it('pkg-config and a bare compiler do as well', () => {
    const words = (text) => text.split(/\s+/).filter(Boolean)
    const flags = [...words(ok('pkg-config', ['--cflags', 'fnd-dev'])), ...words(ok('pkg-config', ['--variable=plugin_flags', 'fnd-dev']))]
    ok('gcc', ['-Wall', '-Wextra', '-Werror', ...flags, 'samples/placer-p2c/placer.c', '-o', 'bare.so'])
    assert.match(ok('nm', ['-D', '--defined-only', 'bare.so']), /^\S+ T fn_plugin_v1$/m)
    ok('fnkit', ['inspect', 'bare.so'])
  })

  it('a kit of a later minor than the installed one is asked for in vain', () => {
    mkdirSync(path.join(dir, 'later'))
    writeFileSync(path.join(dir, 'later/CMakeLists.txt'),
      'cmake_minimum_required(VERSION 3.18)\nproject(later C)\nfind_package(fnd-dev 1.99 REQUIRED)\n')
    const r = run('cmake', ['-S', 'later', '-B', 'b/later'])
    assert.notEqual(r.code, 0)
    assert.match(r.all, /compatible with\s+requested version "1.99"/)
  })

  it('fnkit tells what the samples are', () => {
    for (const name of samples) {
      assert.match(ok('fnkit', ['inspect', so(name)]), /^ +exports +fn_plugin_v1 *$/m)
    }
  })

  it('fnkit check passes the samples', () => {
    for (const name of samples) {
      assert.match(ok('fnkit', ['check', so(name)]), / 0 failed/, name)
    }
  })

  it('fn_check_plugin() makes fnkit check a test of ctest; clang builds as well as gcc', () => {
    mkdirSync(path.join(dir, 'tested'))
    writeFileSync(path.join(dir, 'tested/CMakeLists.txt'), `cmake_minimum_required(VERSION 3.18)
project(tested C)
enable_testing()
find_package(fnd-dev 1.0 REQUIRED)
fn_add_plugin(placer-p2c ../samples/placer-p2c/placer.c)
fn_check_plugin(placer-p2c --set tries=3)
`)
    ok('cmake', ['-S', 'tested', '-B', 'b/tested', '-DCMAKE_C_COMPILER=clang',
      '-DCMAKE_C_FLAGS=-Wall -Wextra -Wconversion -Wpedantic -Werror'])
    ok('cmake', ['--build', 'b/tested'])
    assert.match(ok('ctest', ['--test-dir', 'b/tested']), /fnkit-placer-p2c \.+ +Passed/)
  })

  it('a C++ plugin that uses the C++ library of the system is judged whole', () => {
    ok('cmake', ['-S', 'samples/override-deadline', '-B', 'b/shared', '-DFN_SHARED_CXX=ON'])
    ok('cmake', ['--build', 'b/shared'])
    assert.match(ok('fnkit', ['check', 'b/shared/override-deadline.so']), / 0 failed, 0 skipped/)
  })

  it('fnkit sim runs the sample placer; a seed gives the same trace again', () => {
    const scenario = path.join(kit, 'share/fnd-dev/scenarios/burst.yaml')
    const sim = (seed) => ok('fnkit', ['sim', '--scenario', scenario, '--seed', seed, '--json', so('placer-p2c')])
    const trace = (text) => /"trace": ?"?([0-9a-f]+)/.exec(text)?.[1] ?? assert.fail(text)
    const first = trace(sim('7'))
    assert.equal(trace(sim('7')), first)
    assert.notEqual(trace(sim('8')), first)
  })

  it('the guide is right: its files are written, its commands run, in order, in a clean folder', () => {
    const guide = ok('cat', ['/usr/share/doc/fnd-dev/plugin-guide.md'])
    let script = 'set -eu\n'
    for (const [, language, file, text] of guide.matchAll(/^```(\w*)(?: file=(\S+))?\n([\s\S]*?)^```$/gm)) {
      if (file) script += `cat > ${file} <<'END_OF_FILE'\n${text}END_OF_FILE\n`
      else if (language === 'sh') script += text
    }
    mkdirSync(path.join(dir, 'guide'))
    const told = ok('bash', ['-c', script], { cwd: path.join(dir, 'guide'), timeout: 60_000, env: { ...env, FND: operator } })
    assert.match(told, /placer least \(interface placer 1\./) // inspect
    assert.match(told, /placer-least 1\.0, \d+ cases, 0 failed/) // check
    assert.match(told, /trace +[0-9a-f]{16}/) // sim
    assert.match(told, /\{"message":"Hello Fn"\}/) // the call
    assert.match(told, /placed +by least.*[\s\S]* 0 in flight/) // why
    assert.match(told, /placer\/least: The runner with the fewest calls/) // the static variant
    assert.match(told, /fn_plugin_call_seconds_count\{plugin="least",kind="placer",method="decide"\} 2/)
  })

  it('the control plane rents machines for a node pool manager', async () => {
    const program = path.join(dir, 'machines')
    const state = path.join(dir, 'cloud')
    mkdirSync(state)
    writeFileSync(program, `#!/bin/sh
# A cloud of text files: one with the machines of each group, one for each request that was served.
cd ${state}
echo "$@" >> calls
case $1 in
list)
    cat "group-$2" 2>/dev/null || true ;;
provision)
    if mkdir "request-$4" 2>/dev/null; then
        for i in $(seq "$3"); do echo "m$4-$i starting - 4096" >> "group-$2"; done
    fi
    echo "$3" ;;
remove)
    sed -i "/^$3 /d" "group-$2" ;;
esac
`, { mode: 0o755 })
    const port = await freePort()
    const node = await Fnd.start('npm', port, `
node: npm
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${await freePort()}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins:
  control_plane: { use: exec, file: ${so('cp-exec')}, program: ${program} }
npm: { settle: 0s, runners_min: 2, poll: 50ms }
`)
    const text = (file) => (existsSync(path.join(state, file)) ? readFileSync(path.join(state, file), 'utf8') : '')
    try {
      await until('two machines were rented', () => text('group-default').split('\n').length === 3)
      await until('and are listed', () => (text('calls').split('provision').pop().match(/^list default$/gm) ?? []).length > 1)
      assert.equal((text('calls').match(/^provision default 2 \d+$/gm) ?? []).length, 1, text('calls'))
    } finally {
      await node.stop()
    }
  })

  describe('in a full node', () => {
    let node
    const yaml = (port, more = '') => `
node: full
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins:
  placer: { use: p2c, file: ${so('placer-p2c')}, tries: 2 }
  driver:
    - { use: process, root: ${path.join(build, 'functions')} }
    - { use: site, file: ${so('driver-site')}, inner: process, value: harbour }
  overriders:
    - { use: deadline, file: ${so('override-deadline')}, longest: 30s }
${more}
runner:
  iofs_path: ${dir}
  writable_root: true
${appsYaml({ echo: {} })}`
    before(async () => {
      const port = await freePort()
      node = await Fnd.start('full', port, yaml(port))
    })
    after(async () => node?.stop())

    it('the placer places, the driver adds its variable', async () => {
      for (let i = 0; i < 5; i++) {
        const answer = await invoke(node, fnId('echo'), '', { 'Echo-Env': 'FN_SITE' })
        assert.equal(answer.status, 200, answer.text)
        assert.match(answer.text, / harbour\s*$/)
      }
      assert.match(node.log, /plugin ready.*use=p2c version=1\.0 file=\S+placer-p2c\.so/)
    })

    it('the C++ overrider sets and refuses; its exception ends a call and not the node', async () => {
      const good = await invoke(node, fnId('echo'), '', { 'Fn-Deadline-S': '5' })
      assert.equal(good.status, 200, good.text)
      const long = await invoke(node, fnId('echo'), '', { 'Fn-Deadline-S': '31' })
      assert.equal(long.status, 400)
      assert.match(long.text, /Fn-Deadline-S, got 31; expected 1 to 30 seconds/)
      assert.equal((await invoke(node, fnId('echo'), '', { 'Fn-Deadline-S': 'soon' })).status, 400)
      assert.equal((await invoke(node, fnId('echo'), '')).status, 200)
    })

    it('fnd plugins and fnd check know all four', async () => {
      const told = outside('plugins', ...samples.map(so)).stdout
      for (const word of ['placer p2c', 'control-plane exec', 'driver site', 'overrider deadline']) {
        assert.ok(told.includes(word), told)
      }
      const file = path.join(dir, 'fn.yaml')
      writeFileSync(file, yaml(await freePort()), { mode: 0o600 })
      assert.equal(outside('check', '--config', file).status, 0)
      writeFileSync(file, yaml(await freePort()).replace('tries: 2', 'tries: 0'), { mode: 0o600 })
      assert.match(outside('check', '--config', file).stderr, /tries, got "0"; expected 1\.\.100/)
    })
  })

  it('apt takes it away whole', () => {
    const files = ok('dpkg', ['-L', 'fnd-dev']).trim().split('\n').filter((f) => /fnd|fnkit|\/fn\//.test(f))
    assert.ok(files.length > 20, files.join('\n'))
    ok('apt-get', ['purge', '-y', 'fnd-dev'], { env: { ...env, DEBIAN_FRONTEND: 'noninteractive' } })
    for (const file of files) assert.equal(run('test', ['-e', file]).code, 1, file)
  })
})

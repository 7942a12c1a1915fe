// The Debian packages of the product, as an operator has them: installed into a Debian root without the
// source tree and without network, nodes run by a systemd of its own, upgraded under load, purged.
import assert from 'node:assert/strict'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { cpSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { build, root, tempDir, until } from './lib/node.mjs'
import { Room, noRoom } from './lib/room.mjs'

const dir = tempDir()
const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: dir, LANG: 'C.UTF-8', DEBIAN_FRONTEND: 'noninteractive' }
const nodes = ['api', 'full', 'lb', 'npm', 'runner']

const execute = promisify(execFile)
let room

const run = (...args) => room.run('sh', ['-c', args.join(' ')], { env, timeout: 60_000 })
const ok = (...args) => {
  const r = run(...args)
  assert.equal(r.status, 0, `${args.join(' ')}\n${r.stdout}${r.stderr}\n${r.error ?? ''}`)
  return `${r.stdout}${r.stderr}`
}
const call = (port) => ok(`curl -s -d '{"name":"package"}' http://127.0.0.1:${port}/t/demo/hello`)
const pidOf = (node) => ok(`systemctl show -P MainPID fnd@${node}`).trim()

// What is named after fnd, wherever packages and nodes leave something. The engines of tests come and go in
// the machine's /var/lib/fnd-test, which the room sees.
const traces = () => run(`find $(ls -d ${['/etc', '/etc/systemd/system', '/etc/systemd/system/multi-user.target.wants', '/usr/bin', '/usr/lib', '/usr/libexec', '/usr/lib/debug',
  '/usr/share/doc', '/usr/share/man/man1', '/usr/share/man/man5', '/usr/share/bash-completion/completions', '/lib/systemd/system', '/usr/lib/sysusers.d',
  '/usr/lib/tmpfiles.d', '/run', '/var/lib', '/var/log', '/tmp'].join(' ')} 2>/dev/null) -maxdepth 1 -name 'fn*' ! -name fnd-test ! -path '${dir}' | sort`).stdout

// The same files under another version.
function rebuilt(package_, version) {
  const tree = path.join(dir, 'tree')
  const out = path.join(dir, `fnd_${version}.deb`)
  execFileSync('dpkg-deb', ['-R', package_, tree])
  const control = path.join(tree, 'DEBIAN/control')
  writeFileSync(control, readFileSync(control, 'utf8').replace(/^Version: .*$/m, `Version: ${version}`))
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zgzip', '-z1', '--build', tree, out], { stdio: 'ignore' })
  rmSync(tree, { recursive: true })
  return out
}

describe('the Debian package', { skip: noRoom() }, () => {
  let packages
  let lint
  let others
  before(async () => {
    packages = execFileSync(path.join(root, 'scripts/build-deb'), [build], { encoding: 'utf8' }).trim().split('\n')
      .map((p) => path.resolve(root, p))
    for (const p of packages) cpSync(p, path.join(dir, path.basename(p)))
    rebuilt(packages[0], '99.1')
    cpSync(path.join(root, 'tests/e2e/lib/load.mjs'), path.join(dir, 'load.mjs'))
    // It takes a while, and leaves files in its temporary folder.
    lint = execute('lintian', ['--fail-on', 'error,warning', ...packages], { env: { ...process.env, TMPDIR: dir } })
    lint.catch(() => {}) // it is asked for at the end
    room = await Room.boot(dir)
    others = traces()
    ok('apt-get install -y ./fnd_0*.deb')
  })
  after(async () => {
    await room?.close()
    rmSync(dir, { recursive: true, force: true })
  })

  it('is installed whole, with a user, pages, units and a sound file for each node', () => {
    assert.equal(ok('dpkg --verify fnd'), '')
    assert.match(ok('fnd version'), /^fnd \d/)
    assert.match(ok('getent passwd fnd'), /:\/var\/lib\/fnd:.*nologin/)
    ok(`systemd-analyze verify ${nodes.map((node) => `fnd@${node}.service`).join(' ')}`)
    ok('fnd check --strict --config /usr/share/doc/fnd/examples/etc/lb-labels.yaml')
    ok('test -s /usr/share/doc/fnd/examples/deploy/prometheus/alerts.yaml -a -s /usr/share/doc/fnd/examples/deploy/grafana/fleet.json')
    for (const node of nodes) {
      ok(`fnd check --strict --config /etc/fnd/${node}.yaml`)
      assert.match(ok("dpkg-query -f '${Conffiles}' -W fnd"), new RegExp(`/etc/fnd/${node}.yaml`))
    }
    const score = /: ([\d.]+) OK/.exec(ok('systemd-analyze security --offline=yes fnd@lb.service'))
    assert.ok(Number(score?.[1]) <= 2, 'docs/install.md has the score')
  })

  it('has pages without mistakes and completion for every command', () => {
    const pages = [1, 5].flatMap((n) => readdirSync(path.join(build, 'product/man')).filter((f) => f.endsWith(`.${n}`)).map((f) => `/usr/share/man/man${n}/${f}.gz`))
    assert.equal(pages.length, 4)
    for (const page of pages) {
      const said = spawnSync('mandoc', ['-T', 'lint', '-W', 'warning', path.join(room.root, page)], { encoding: 'utf8' })
      assert.equal(`${said.error ?? ''}${said.stdout}${said.stderr}`, '')
    }
    const help = spawnSync(path.join(build, 'fnd'), ['--help'], { encoding: 'utf8' })
    const commands = [...`${help.stdout}${help.stderr}`.matchAll(/^(?:usage:| {6}) fnd ([a-z|]+)/gm)].flatMap((m) => m[1].split('|'))
    const completed = (...words) => ok(`bash -c '. /usr/share/bash-completion/completions/fnd; COMP_WORDS=(fnd ${words.join(' ')} ""); COMP_CWORD=${words.length + 1}; _fnd; echo "\${COMPREPLY[@]}"'`)
      .trim().split(' ')
    assert.deepEqual(completed(), [...new Set(commands)])
    assert.deepEqual(completed('init'), nodes)
    assert.ok(completed('runners').includes('roll'))
  })

  it('a first cluster as docs/install.md puts it up, with the rights of its units, answers', () => {
    const commands = /^## A first cluster\n(.*?)^## /ms.exec(readFileSync(path.join(root, 'docs/install.md'), 'utf8'))[1].match(/^ {4}.*$/gm)
    assert.ok(commands.length > 5)
    let said = ''
    for (const command of commands) {
      const r = run(command)
      assert.equal(r.status, 0, `${command}\n${r.stderr}\n${run('journalctl -q -b --no-pager').stdout}`)
      said += r.stdout
    }
    assert.match(said, /{"message":"Hello Debian"}/)
    assert.match(ok(`grep ^Uid /proc/${pidOf('lb')}/status`), new RegExp(`\\b${ok('id -u fnd').trim()}\\b`))
    ok('systemctl reload fnd@lb fnd@api fnd@runner')
  })

  it('leaves what nodes keep to whom it belongs, whichever starts', () => {
    ok('mkdir -p /var/lib/fnd/oci && touch /var/lib/fnd/oci/layer && chown 1000 /var/lib/fnd/oci/layer')
    const owners = () => ok('stat -c "%n %u" /var/lib/fnd /var/lib/fnd/fn.db /var/lib/fnd/oci /var/lib/fnd/oci/layer /var/log/fnd')
    const before = owners()
    const fnd = ok('id -u fnd').trim()
    assert.match(before, new RegExp(`^/var/lib/fnd ${fnd}\n.*fn.db ${fnd}\n.*oci 0\n.*layer 1000\n.*log/fnd ${fnd}\n`))
    for (const node of ['runner', 'api', 'lb']) {
      ok(`systemctl restart fnd@${node}`)
      assert.equal(owners(), before, node)
    }
    ok('fnd api --url http://127.0.0.1:8081 import demo.yaml')
  })

  it('is upgraded under load without a lost call, and keeps what an operator changed', async () => {
    const before = Object.fromEntries(['api', 'runner', 'lb'].map((node) => [node, pidOf(node)]))
    const load = room.begin(process.execPath, ['load.mjs', 'http://127.0.0.1:8080/t/demo/hello', '4', '4'], { env, stdio: ['pipe', 'pipe', 'pipe'] })
    let ends = ''
    let first = ''
    load.stdout.on('data', (d) => { ends += d })
    load.stderr.on('data', (d) => { first += d })
    await until('calls are answered', () => /200/.test(first))
    ok('echo "# mine" >> /etc/fnd/lb.yaml && apt-get install -y ./fnd_99.1.deb')
    for (const [node, pid] of Object.entries(before)) assert.notEqual(pidOf(node), pid, node)
    const after = call(8080)
    load.stdin.end()
    await new Promise((r) => { load.once('close', r) })
    const { 200: good, ...lost } = JSON.parse(ends)
    assert.deepEqual(lost, {}, run('journalctl -q -b --no-pager -u fnd@lb | tail -40').stdout)
    assert.ok(good > 100, `${good} calls`)
    assert.match(after, /Hello package/)
    assert.equal(ok('dpkg-query -f "\\${Version}" -W fnd'), '99.1')
    assert.match(ok('cat /etc/fnd/lb.yaml'), /# mine/)
  })

  it('after a crash who connects waits for the next process; after a stop the port refuses', async () => {
    const pid = pidOf('lb')
    ok(`kill -9 ${pid}`)
    assert.match(call(8080), /Hello package/)
    assert.notEqual(pidOf('lb'), pid)
    ok('systemctl stop fnd@lb')
    assert.equal(run('curl -s http://127.0.0.1:8080/version').status, 7)
  })

  it('keeps the rules of Debian', async () => {
    const { stdout } = await lint
    assert.equal(stdout, '')
  })

  it('has a broker before an engine, which takes what the driver asks for from user fnd alone', () => {
    ok('groupadd -f docker')
    ok('systemd-analyze verify fnd-docker-broker.service fnd-docker-broker.socket run-fndiofs.mount')
    ok('systemctl start fnd-docker-broker.service')
    assert.equal(ok('stat -c "%a %U %G" /run/fnd/docker.sock /run/fndiofs/runner').trim(), '660 root fnd\n711 fnd fnd')
    assert.match(ok('findmnt -n -o OPTIONS /run/fndiofs'), /nosymfollow/)
    const asked = (user) => run(`runuser -u ${user} -- curl -s --unix-socket /run/fnd/docker.sock http://d/containers/json`).stdout
    assert.match(asked('fnd'), /"message":"GET \/containers\/json: the query is none that driver-docker makes"/)
    assert.equal(asked('root'), '')
    const score = /: ([\d.]+) OK/.exec(ok('systemd-analyze security --offline=yes fnd-docker-broker.service'))
    assert.ok(Number(score?.[1]) <= 2, `${score}`)
  })

  it('is removed but for its files, and purged without a trace', () => {
    ok('systemctl enable fnd@lb fnd@api && systemctl start fnd@lb')
    ok('dpkg -r fnd && test -e /etc/fnd/lb.yaml && ! test -e /usr/bin/fnd')
    assert.equal(run('pgrep -x fnd').stdout, '')
    ok('apt-get purge -y fnd')
    assert.equal(traces(), others)
    assert.notEqual(run('getent passwd fnd').status, 0)
    assert.notEqual(run('getent passwd fnd-broker').status, 0)
  })
})

// The command line as an operator meets it: mistakes in fn.yaml, variables, ports and plugins get one
// sentence each and the right exit code; the shipped files are sound.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, closeSync, constants, copyFileSync, mkdirSync, openSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { describe, it } from 'node:test'
import { build, root, tempDir } from './lib/node.mjs'

const fnd = path.join(build, 'fnd')
const run = (args, env = {}, options = {}) => spawnSync(fnd, args, { encoding: 'utf8', timeout: 30_000,
  env: { PATH: process.env.PATH, ...env }, ...options })

function check(yaml, env, args = []) {
  const file = path.join(tempDir(), 'fn.yaml')
  writeFileSync(file, yaml)
  return run(['check', '--config', file, ...args], env)
}

const base = `node: lb\nplugin_dir: ${path.join(build, 'plugins')}\nplugins:\n  pool: { use: static, runners: ["127.0.0.1:9190"] }\n`

// [what, fn.yaml, code, sentence]
const rows = [
  ['tab', 'node: lb\nhttp:\n\tlisten: ":1"\n', /CFG701 .*fn\.yaml:3:1: tab in indentation/],
  ['open quote', 'node: "lb\n', /CFG701 .*fn\.yaml:/],
  ['unknown key', `${base}lb: { placement_timeoutt: 3s }\n`, /CFG702 .*fn\.yaml:\d+:\d+: unknown key "placement_timeoutt"; did you mean "placement_timeout"\?/],
  ['duplicate key', `${base}node: lb\n`, /CFG703 .*fn\.yaml:\d+.*key "node" is defined twice, first at line 1; expected it once/],
  ['bad unit', `${base}apps:\n  - name: a\n    functions:\n      - { name: f, image: i, memory: 12GB }\n`, /CFG704 .*memory, got "12GB"; expected/],
  ['negative', `${base}apps:\n  - name: a\n    functions:\n      - { name: f, image: i, timeout: -5 }\n`, /CFG704 .*timeout, got "-5"; expected/],
  ['exponent', `${base}apps:\n  - name: a\n    functions:\n      - { name: f, image: i, timeout: 1e3 }\n`, /CFG704 .*timeout, got "1e3"; expected/],
  ['empty', '', /CFG705 .*empty/],
  ['too large', `# ${'x'.repeat(17 * 1024 * 1024)}\n`, /CFG705 .*larger than|CFG705 .*too large/],
  ['NUL', 'node: l\0b\n', /CFG70[15]/],
  ['UTF-16', Buffer.from('\ufeffnode: lb\n', 'utf16le'), /CFG70[15]/],
  ['alias bomb', 'a: &a [x, x]\nb: [*a, *a]\nnode: lb\n', /CFG70[125].*alias/],
  ['plugin missing', `node: lb\nplugin_dir: ${path.join(build, 'plugins')}\nplugins:\n  placer: { use: nowhere }\n`, /CFG712 .*fn\.yaml:4:18: placer, got "nowhere"; expected the name of a file .*placer-nowhere\.so/],
]

describe('fnd check', () => {
  for (const [what, yaml, sentence] of rows) {
    it(`${what}: exit 78 and a sentence`, () => {
      const result = check(yaml)
      assert.match(result.stderr, sentence)
      assert.equal(result.status, 78)
    })
  }

  it('certificates: a key that others read, of another certificate, no PEM, missing; each has its sentence', () => {
    const dir = tempDir()
    const file = (name) => path.join(dir, name)
    for (const name of ['good', 'other']) {
      execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1',
        '-keyout', file(`${name}.key`), '-out', file(`${name}.crt`), '-subj', '/CN=x'], { stdio: 'ignore' })
      chmodSync(file(`${name}.key`), 0o600)
    }
    writeFileSync(file('text.key'), 'hello\n', { mode: 0o600 })
    copyFileSync(file('good.key'), file('open.key'))
    chmodSync(file('open.key'), 0o644)
    const with_ = (key) => check(`${base}http: { tls: web }\ngrpc: { tls: node }\ntls:\n${['web', 'node'].map((name) =>
      `  ${name}: { cert: ${file('good.crt')}, key: ${file(key)}, ca: ${file('good.crt')} }\n`).join('')}`)
    assert.equal(with_('good.key').status, 0, with_('good.key').stderr)
    for (const [key, sentence] of [['open.key', /^TLS801 \S+fn\.yaml:\d+:\d+: \S+open\.key: mode lets others read it, got 0644; expected 0400 or 0600$/gm],
      ['other.key', /^TLS802 \S+: \S+other\.key: got the key of another certificate; expected that of \S+good\.crt \(subject \/CN=x\)$/gm],
      ['text.key', /^TLS803 \S+: \S+text\.key: got no PEM block; expected a private key$/gm], ['absent.key', /^TLS800 \S+: warning: \S+absent\.key: No such file/gm]]) {
      const result = with_(key)
      assert.equal(result.status, key === 'absent.key' ? 0 : 78, 'where secrets are not, the rest can be checked')
      assert.equal(result.stderr.match(sentence)?.length, 2, `both entries are told: ${result.stderr}`)
    }
  })

  it('shows all mistakes of a file in one run', () => {
    const result = check(`${base}lb: { placement_timeoutt: 3s }\nhttp: { listen: 7, body_max: many }\nloog: {}\n`)
    assert.equal(result.status, 78)
    assert.ok(result.stderr.trim().split('\n').filter((l) => /CFG70/.test(l)).length >= 3, result.stderr)
  })

  it('prints the effective configuration and where each value comes from', () => {
    const result = check(base, { FN_PORT: '8123' })
    assert.equal(result.status, 0, result.stderr)
    assert.match(result.stdout, /FN_PORT/)
    assert.match(result.stdout, /placement_timeout: 30s/)
  })

  it('refuses bad variables', () => {
    for (const port of ['70000', 'http']) {
      const result = check(base, { FN_PORT: port })
      assert.match(result.stderr, new RegExp(`CFG706 FN_PORT, got "?${port}"?; expected 1..65535`))
      assert.equal(result.status, 78)
    }
  })

  it('warns of an unknown variable, refuses it with --strict', () => {
    const env = { FN_MAX_RESPONS_SIZE: '1' }
    const result = check(base, env)
    assert.match(result.stderr, /CFG708 .*FN_MAX_RESPONS_SIZE.*did you mean "?FN_MAX_RESPONSE_SIZE/)
    assert.equal(result.status, 0)
    assert.equal(check(base, env, ['--strict']).status, 78)
  })

  it('refuses unsound plugin files', () => {
    const dir = tempDir()
    const use = (name) => check(`node: lb\nplugin_dir: ${dir}\nplugins:\n  placer: { use: ${name} }\n  pool: { use: static, file: ${path.join(build, 'plugins/pool-static.so')}, runners: ["127.0.0.1:1"] }\n`)
    chmodSync(dir, 0o755)
    writeFileSync(path.join(dir, 'placer-text.so'), 'not a plugin\n', { mode: 0o644 })
    assert.match(use('text').stderr, /PLG906 .*not ELF/)
    copyFileSync(path.join(build, 'plugins/placer-naive.so'), path.join(dir, 'placer-open.so'))
    chmodSync(path.join(dir, 'placer-open.so'), 0o666)
    assert.match(use('open').stderr, /PLG902 .*writable/)
    mkdirSync(path.join(dir, 'placer-dir.so'))
    assert.equal(use('dir').status, 78)
  })

  it('finds every file in etc/ sound', () => {
    for (const name of readdirSync(path.join(root, 'etc')).filter((n) => n.endsWith('.yaml'))) {
      const result = run(['check', '--config', path.join(root, 'etc', name)], {}, { cwd: root })
      assert.equal(result.status, 0, `${name}: ${result.stderr}`)
    }
  })
})

describe('fnd init', () => {
  it('gives a configuration for each node that check finds sound', () => {
    const dir = tempDir()
    for (const node of ['api', 'full', 'lb', 'npm', 'runner', 'pure-runner']) {
      const file = path.join(dir, `${node}.yaml`)
      assert.equal(run(['init', node, file]).status, 0)
      const text = run(['init', node]).stdout
      assert.equal(readFileSync(file, 'utf8'), text)
      assert.match(text, new RegExp(`^node: ${node === 'runner' ? 'pure-runner' : node}$`, 'm'))
      const result = run(['check', '--strict', '--config', file], {}, { cwd: root })
      assert.equal(result.status, 0, `${node}: ${result.stderr}`)
    }
  })

  it('leaves files alone that are there, and tells what there is', () => {
    const file = path.join(tempDir(), 'fn.yaml')
    writeFileSync(file, 'mine')
    const there = run(['init', 'lb', file])
    assert.equal(there.status, 69)
    assert.match(there.stderr, /File exists; expected a path where no file is yet/)
    assert.equal(readFileSync(file, 'utf8'), 'mine')
    const wrong = run(['init', 'broker'])
    assert.equal(wrong.status, 64)
    assert.match(wrong.stderr, /init, got "broker"; expected api, full, lb, npm or runner/)
  })
})

describe('fnd', () => {
  it('says how it is used and exits with 64', () => {
    for (const args of [[], ['dance'], ['run', '--colour']]) {
      const result = run(args)
      assert.equal(result.status, 64)
      assert.match(result.stderr, /usage|fnd/i)
    }
    assert.match(run(['version']).stdout, /\d+\.\d+\.\d+/)
  })

  it('names the word that it does not take', () => {
    for (const [args, sentence] of [[['check', 'lb.yaml'], 'too many arguments, got "lb.yaml"; expected --config lb.yaml'],
      [['run', 'lb.yaml'], 'too many arguments, got "lb.yaml"; expected --config lb.yaml'], [['why', 'A', 'B'], 'too many arguments, got "B"'],
      [['statu'], 'unknown command, got "statu"; did you mean "status"?'], [['dance'], 'unknown command, got "dance"; see fnd --help'],
      [['status', '--socket'], "option '--socket' requires an argument"]]) {
      const result = run(args)
      assert.equal(result.status, 64, args.join(' '))
      assert.equal(result.stderr.split('\n')[0], `fnd: ${sentence}`)
    }
    assert.deepEqual(['help', '--help'].map((word) => run([word])).map((r) => [r.status, r.stdout.slice(0, 14)]), Array(2).fill([0, 'usage: fnd run']))
  })

  it('an answer that nothing takes is told, with 69', () => {
    const full = openSync('/dev/full', 'w')
    const plugin = path.join(build, 'plugins/placer-naive.so')
    for (const [program, ...args] of [['fnd', 'version'], ['fnd', '--help'], ['fnd', 'init', 'lb'], ['fnd', 'check', '--reference'],
      ['fnd', 'plugins', plugin], ['fnkit', 'inspect', plugin], ['fnkit', 'inspect', '--json', plugin], ['fnkit', 'version'],
      ['fnkit', 'check', plugin]]) {
      const result = spawnSync(path.join(build, program), args, { stdio: ['ignore', full, 'pipe'], encoding: 'utf8', timeout: 60_000 })
      assert.equal(result.status, 69, [program, ...args].join(' '))
      assert.match(result.stderr, new RegExp(`^${program}: the output, got No space left on device; expected room for it$`, 'm'))
    }
    closeSync(full)
  })

  it('lists what plugins offer', () => {
    const result = run(['plugins', path.join(build, 'plugins')])
    assert.equal(result.status, 0, result.stderr)
    for (const name of ['naive', 'ch', 'static', 'docker', 'process']) assert.match(result.stdout, new RegExp(`\\b${name}\\b`))
    assert.match(result.stdout, /1\.0/)
  })

  it('certs issue: certificates of further nodes, which a node takes; nothing is written over', () => {
    const dir = path.join(tempDir(), 'pki')
    assert.equal(run(['certs', 'demo', dir]).status, 0)
    const again = run(['certs', 'demo', dir])
    assert.equal(again.status, 69)
    assert.match(again.stderr, /ca\.key: File exists; expected a name that has none yet/)
    const made = run(['certs', 'issue', dir, 'lb-2', 'lb-3,lb-3.example,10.0.0.7,fd00::1'])
    assert.equal(made.status, 0, made.stderr)
    const names = execFileSync('openssl', ['x509', '-in', `${dir}/lb-3.pem`, '-noout', '-ext', 'subjectAltName'], { encoding: 'utf8' })
    assert.match(names, /URI:spiffe:\/\/fnd\/lb-3, DNS:lb-3, DNS:localhost, .*DNS:lb-3\.example, IP Address:10\.0\.0\.7, IP Address:FD00/)
    execFileSync('openssl', ['verify', '-CAfile', `${dir}/ca.pem`, `${dir}/lb-2.pem`])
    assert.deepEqual(['lb-2.key', 'lb-2.pem'].map((f) => statSync(`${dir}/${f}`).mode & 0o777), [0o600, 0o644])
    const good = check(`${base}grpc: { tls: n }\ntls: { n: { cert: ${dir}/lb-2.pem, key: ${dir}/lb-2.key, ca: ${dir}/ca.pem } }\n`)
    assert.equal(good.status, 0, good.stderr)
    const key = readFileSync(`${dir}/lb-2.key`, 'utf8')
    for (const [operands, sentence, status] of [[['lb-2'], /lb-2\.key: File exists; expected a name that has none yet/, 69],
      [['lb-9', 'ca'], /ca\.key: File exists/, 69], [['../lb-4'], /got "\.\.\/lb-4"; expected NAME or NAME,HOST/, 64],
      [['lb-5,a b'], /expected NAME or NAME,HOST/, 64], [[], /expected demo DIRECTORY, or issue DIRECTORY NAME/, 64]]) {
      const refused = run(['certs', 'issue', dir, ...operands])
      assert.equal(refused.status, status, refused.stderr)
      assert.match(refused.stderr, sentence)
    }
    assert.equal(readFileSync(`${dir}/lb-2.key`, 'utf8'), key)
    chmodSync(`${dir}/ca.key`, 0o644)
    assert.match(run(['certs', 'issue', dir, 'lb-6']).stderr, /TLS801 \S+ca\.key: mode lets others read it, got 0644/)
    const node = path.join(tempDir(), 'node')
    mkdirSync(node)
    for (const end of ['pem', 'key']) copyFileSync(`${dir}/lb-2.${end}`, `${node}/ca.${end}`)
    assert.match(run(['certs', 'issue', node, 'lb-7']).stderr, /got the certificate of a node; expected that of an authority/)
  })

  it('check whose reader has gone ends by SIGPIPE, and says nothing of plugins', () => {
    const dir = tempDir()
    writeFileSync(path.join(dir, 'fn.yaml'), base)
    execFileSync('mkfifo', [path.join(dir, 'pipe')])
    const reader = openSync(path.join(dir, 'pipe'), constants.O_RDONLY | constants.O_NONBLOCK)
    const writer = openSync(path.join(dir, 'pipe'), 'w')
    closeSync(reader)
    const result = spawnSync(fnd, ['check', '--config', path.join(dir, 'fn.yaml')], { stdio: ['ignore', writer, 'pipe'], encoding: 'utf8' })
    closeSync(writer)
    assert.equal(result.signal, 'SIGPIPE')
    assert.doesNotMatch(result.stderr, /plugin/)
  })

  it('a port in use: exit 69', async (t) => {
    const server = net.createServer().listen(0, '127.0.0.1')
    t.after(() => server.close())
    await new Promise((r) => server.once('listening', r))
    const file = path.join(tempDir(), 'fn.yaml')
    writeFileSync(file, `${base}http: { listen: "127.0.0.1:${server.address().port}" }\n`)
    const result = run(['run', '--config', file])
    assert.match(result.stderr, /CFG707 .*in use/)
    assert.equal(result.status, 69)
    writeFileSync(file, `node: api\nstore: { url: "sqlite3://${path.dirname(file)}/fn.db" }\nhttp: { listen: "127.0.0.1:${server.address().port}" }\n`)
    const api = run(['run', '--config', file])
    assert.equal(api.status, 69)
    assert.match(api.stderr, /CFG707 .*in use/)
    assert.doesNotMatch(api.stderr, /serves/, 'who has no port serves nobody')
  })

  it('F92 no random bytes, of which all ids are made: it does not start', () => {
    const dir = tempDir()
    const file = path.join(dir, 'fn.yaml')
    writeFileSync(file, base)
    writeFileSync(path.join(dir, 'none.c'), '#include <errno.h>\n#include <stddef.h>\nlong getrandom(void *b, size_t n, unsigned f)\n{\n    (void)b, (void)n, (void)f;\n    errno = EIO;\n    return -1;\n}\n')
    const cc = spawnSync('cc', ['-shared', '-fPIC', '-o', path.join(dir, 'none.so'), path.join(dir, 'none.c')], { encoding: 'utf8' })
    assert.equal(cc.status, 0, cc.stderr)
    const result = run(['run', '--config', file], { LD_PRELOAD: path.join(dir, 'none.so') })
    assert.equal(result.status, 69, result.stderr)
    assert.match(result.stderr, /loop: Input\/output error/)
  })

  it('no engine: exit 69', () => {
    const file = path.join(tempDir(), 'fn.yaml')
    writeFileSync(file, `node: pure-runner\nhttp: { listen: "127.0.0.1:0" }\ngrpc: { listen: "127.0.0.1:0" }\nplugin_dir: ${path.join(build, 'plugins')}\nplugins:\n  driver: { use: docker, docker_host: "unix:///nowhere/docker.sock" }\n`)
    const result = run(['run', '--config', file])
    assert.match(result.stderr, /DOC1001 .*docker\.sock/)
    assert.equal(result.status, 69)
  })
})

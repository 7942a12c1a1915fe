// Mistakes in fn.yaml, as an operator makes them: `fnd check` tells each of them whole, at its place and
// once, and whatever `fnd run` refuses it refuses in the same lines.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, describe, it } from 'node:test'
import { build, tempDir } from './lib/node.mjs'

const fnd = path.join(build, 'fnd')
const dir = tempDir()
const plugins = path.join(build, 'plugins')
const said = (args, env) => spawnSync(fnd, args, { encoding: 'utf8', timeout: 30_000, cwd: dir, env: { PATH: process.env.PATH, ...env } })
// The lines of mistakes; a start writes its log beside them, and its notes before and after it.
const lines = (text) => [...new Set(text.replaceAll(plugins, 'PLUGINS').replaceAll(`${dir}/`, '').split('\n').filter((l) => /^(?:CFG|PLG|TLS)\d+ /.test(l)))].sort()

const POOL = 'plugins:\n  pool: { use: static, runners: ["127.0.0.1:9190"] }\n'
const APPS = 'apps: [{ name: a }]\n'
const LB = `node: lb\n${POOL}${APPS}`
assert.equal(said(['certs', 'demo', `${dir}/pki`]).status, 0)
writeFileSync(`${dir}/base.yaml`, 'runner: { memory_total: 64MiB }\ngrpc: { tls: node }\n')

// [what, fn.yaml, all that is said, more: { env, warning }]
const rows = [
  ['runner for runners in a pool', `node: lb\n${APPS}plugins:\n  pool: { use: static, runner: ["127.0.0.1:9190"] }\n`,
    'CFG702 fn.yaml:4:24: unknown key "runner"; did you mean "runners"?'],
  ['no pool', `node: lb\n${APPS}`,
    'CFG711 fn.yaml:1:7: plugins.pool is missing; expected the runners of this load balancer: pool: { use: static, runners: ["host:port"] }, or FN_RUNNER_ADDRESSES'],
  ['no runners', `node: lb\n${APPS}plugins: { pool: static }\n`,
    'CFG709 fn.yaml:3:18: pool static: key "runners" is missing; expected a list of texts such as [a, b] (addresses of the runners\' gRPC ports, host:port, each with labels after it if it has some: "10.0.0.1:9190 zone=a class=gpu". List them in the same order in all load balancers, so that placers that hash choose the same runner everywhere)'],
  ['a file for the folder of functions', `node: full\nplugins: { driver: { use: process, root: /etc/passwd } }\n${APPS}`,
    'PLG915 fn.yaml:2:42: process: driver/process: root, got "/etc/passwd": Not a directory; expected a directory'],
  ['a file for the folder of a control plane', 'node: npm\nplugins: { control_plane: { use: process, state: /etc/passwd } }\n',
    'PLG915 fn.yaml:2:50: process: control-plane/process: state, got "/etc/passwd"; expected a folder'],
  ['an alias', `${LB}    name: *x\n`.replace('{ name: a }', '{ name: *x }').replace('    name: *x\n', ''),
    'CFG701 fn.yaml:4:16: anchors and aliases are not supported, got alias *x; expected the value in full'],
  ['a key that is too long', `node: lb\n${'k'.repeat(5000)}: 1\n${POOL}`,
    `CFG701 fn.yaml:2:1: a key that is too long, got "${'k'.repeat(64)}..."; expected at most 1024 bytes`],
  ['no folder of plugins', `${LB}plugin_dir: /nonexistent\n`,
    'CFG704 fn.yaml:5:13: plugin_dir, got "/nonexistent"; expected a folder with the files of plugins'],
  ['a key of another section', `${LB}lb: { queue_wait: 1s }\n`, 'CFG702 fn.yaml:5:7: unknown key "queue_wait"; it belongs to runner:'],
  ['a duration without unit', `${LB}drain_timeout: 10\n`, 'CFG704 fn.yaml:5:16: drain_timeout, got "10"; expected a duration such as 10ms, 2s or 5m, from 0s to 1h; did you mean "10s"?'],
  ['a size in MB', `${LB}lb: { response_max: 6MB }\n`, 'CFG704 fn.yaml:5:21: response_max, got "6MB"; expected a size such as 64KiB, 6MiB or 1GiB, from 0 to 64GiB; did you mean "6MiB"?'],
  ['a runner without port in a variable', `node: lb\n${APPS}`,
    'PLG915 FN_RUNNER_ADDRESSES: static: pool/static: runners[0]: got "a"; expected host:port', { env: { FN_RUNNER_ADDRESSES: 'a' } }],
  ['a missing colon', `node lb\n${POOL}`, 'CFG701 fn.yaml:1:1: no colon, got "node lb"; expected key: value'],
  ['a missing colon of a section', `node: lb\nhttp\n  listen: ":80"\n${POOL}`, 'CFG701 fn.yaml:2:1: no colon, got "http"; expected key: value'],
  ['no blank behind a colon', `node:lb\n${POOL}`, 'CFG701 fn.yaml:1:1: no blank behind the colon, got "node:lb"; expected key: value'],
  ['a no-break space behind a key', `node:\u00a0lb\n${POOL}`, 'CFG701 fn.yaml:1:6: no-break space, got U+00A0; expected a plain blank'],
  ['a no-break space as indentation', `node: lb\nhttp:\n\u00a0 listen: ":80"\n${POOL}`, 'CFG701 fn.yaml:3:1: no-break space, got U+00A0; expected a plain blank'],
  ['two colons', `node: lb\nlog: { level: a: b }\n${POOL}`,
    'CFG701 fn.yaml:2:16: a second colon in one line, got "log: { level: a: b }"; expected one, or quotes around the value'],
  ['a tab', `node: lb\nhttp:\n\tlisten: ":1"\n`, 'CFG701 fn.yaml:3:1: tab in indentation; expected blanks'],
  ['wrong indentation', `node: lb\nhttp:\n  listen: ":1"\n body_max: 3\n`,
    'CFG701 fn.yaml:4:2: no key, or wrong indentation; expected a key in column 1, as in line 1'],
  ['a bracket that is not closed', `node: lb\nhttp: { listen: ":80"\n${POOL}`, 'CFG701 fn.yaml:3:1: { of line 2, column 7 is not closed; expected , or }'],
  ['a quote that is not closed', 'node: "lb\n', 'CFG701 fn.yaml:1:7: quote is not closed; expected one more behind the text'],
  ['lines that end as on Windows', `${LB}http: { listen: 7 }\n`.replaceAll('\n', '\r\n'),
    'CFG704 fn.yaml:5:17: listen, got "7"; expected host:port, [ipv6]:port, :port or unix:/path; did you mean ":7"?'],
  ['a node in capitals', `node: LB\n${POOL}  driver: docker\n${APPS}`, 'CFG704 fn.yaml:1:7: node, got "LB"; expected full, lb, pure-runner, npm or api; did you mean "lb"?'],
  ['a misspelt placer', `node: lb\n${APPS}${POOL}  placer: { use: pc2 }\n`, 'CFG712 fn.yaml:5:18: placer, got "pc2"; did you mean "p2c"?'],
  ['a placer that nobody has', `node: lb\n${APPS}${POOL}  placer: roundrobin\n`,
    'CFG712 fn.yaml:5:11: placer, got "roundrobin"; expected the name of a file PLUGINS/placer-roundrobin.so'],
  ['a misspelt listener', 'node: api\nplugins: { listeners: [{ use: cuont }] }\n', 'CFG712 fn.yaml:2:31: listener, got "cuont"; did you mean "count"?'],
  ['an unknown option of a listener', 'node: api\nplugins: { listeners: [{ use: count, foo: 1 }] }\n', 'CFG702 fn.yaml:2:38: unknown key "foo"; expected names_must_match, use, file, name, sha256'],
  ['no folder of plugins, and a listener', 'node: api\nplugin_dir: /nonexistent\nplugins: { listeners: [count] }\n',
    'CFG704 fn.yaml:2:13: plugin_dir, got "/nonexistent"; expected a folder with the files of plugins'],
  ['a runner without port', `node: lb\n${APPS}plugins:\n  pool: { use: static, runners: ["127.0.0.1:1", "127.0.0.1"] }\n`,
    'PLG915 fn.yaml:4:49: static: pool/static: runners[1]: got "127.0.0.1"; expected host:port'],
  ['a runner twice', `node: lb\n${APPS}plugins:\n  pool:\n    use: static\n    runners:\n      - "a:1"\n      - "a:1"\n`,
    'PLG915 fn.yaml:8:9: static: pool/static: runners[1]: got "a:1"; expected each runner once'],
  ['a manager without port', `node: lb\n${APPS}plugins: { pool: { use: npm, address: nowhere } }\n`,
    'PLG915 fn.yaml:3:39: npm: pool/npm: address, got "nowhere"; expected host:port'],
  ['an entry of tls: that is not there', `node: lb\n${APPS}plugins: { pool: { use: npm, address: "a:1", tls: nosuch } }\n`,
    'CFG704 fn.yaml:3:51: tls, got "nosuch"; expected the name of an entry of tls:'],
  ['a relative state folder', 'node: npm\nplugins: { control_plane: { use: process, state: runners } }\n',
    'PLG915 fn.yaml:2:50: process: control-plane/process: state, got "runners"; expected an absolute path'],
  ['a base that is not there', 'node: npm\nplugins: { control_plane: { use: process, base: /nowhere/base.yaml } }\n',
    'PLG915 fn.yaml:2:49: process: control-plane/process: base, got "/nowhere/base.yaml": No such file or directory; expected the absolute path of a file'],
  ['a base that says what each runner gets', `node: npm\nplugins: { control_plane: { use: process, base: ${dir}/base.yaml } }\n`,
    'PLG915 fn.yaml:2:49: process: control-plane/process: base, got "base.yaml" with grpc:; expected no node, admin, http and grpc, which each runner gets of its own'],
  ['a group twice', 'node: npm\nnpm: { groups: [blue, blue] }\nplugins: { control_plane: process }\n',
    'CFG703 fn.yaml:2:23: group "blue" is named twice; expected each group once'],
  ['one port for HTTP and gRPC', 'node: pure-runner\nhttp: { listen: "127.0.0.1:22152" }\ngrpc: { listen: "127.0.0.1:22152" }\nplugins: { driver: docker }\n',
    'CFG704 fn.yaml:3:17: listen, got "127.0.0.1:22152"; expected another address than 127.0.0.1:22152, which this node has for HTTP'],
  ['cert and key taken for each other', `${LB}grpc: { tls: n }\ntls: { n: { cert: pki/lb-1.key, key: pki/npm-1.pem, ca: pki/ca.pem } }\n`,
    'TLS803 fn.yaml:6:19: pki/lb-1.key: got a private key; expected a certificate'],
  ['a certificate as key', `${LB}grpc: { tls: n }\ntls: { n: { cert: pki/lb-1.pem, key: pki/npm-1.pem, ca: pki/ca.pem } }\n`,
    'TLS803 fn.yaml:6:38: pki/npm-1.pem: got a certificate; expected a private key'],
  ['the key of another certificate', `${LB}grpc: { tls: n }\ntls: { n: { cert: pki/lb-1.pem, key: pki/npm-1.key, ca: pki/ca.pem } }\n`,
    'TLS802 fn.yaml:6:38: pki/npm-1.key: got the key of another certificate; expected that of pki/lb-1.pem (subject /CN=lb-1)'],
  ['no image', `${LB.replace('[{ name: a }]', '\n  - name: a\n    functions:\n      - { name: f }')}`,
    'CFG709 fn.yaml:7:9: function: key "image" is missing; expected a text of 1 to 1024 bytes (image of the function; for driver process the name of its executable, whose registry, path and tag do not matter)'],
  ['a function twice', `${LB.replace('[{ name: a }]', '\n  - name: a\n    functions:\n      - { name: hello, image: i }\n      - { name: hello, image: i }')}`,
    'CFG703 fn.yaml:8:9: function "hello" is defined twice, first at line 7; expected each name once in an app'],
  ['a trigger source twice', `${LB.replace('[{ name: a }]', '\n  - name: a\n    functions:\n      - { name: f, image: i, triggers: [{ name: x, source: /hello }] }\n      - { name: g, image: i, triggers: [{ name: y, source: /hello }] }')}`,
    'CFG703 fn.yaml:8:41: trigger source "/hello" is defined twice, first at line 7; expected each source once in an app'],
  ['a key twice', `${LB}node: lb\n`, 'CFG703 fn.yaml:5:1: key "node" is defined twice, first at line 1; expected it once'],
  ['an inner placer that is not there', `node: lb\n${APPS}${POOL}  placer: [p2c, { use: slowstart, inner: chbl }]\n`,
    'PLG915 fn.yaml:5:42: slowstart: placer/slowstart: inner placer, got "chbl"; expected the name of a placer above it'],
  ['an option out of range', `node: lb\n${APPS}${POOL}  placer: { use: chbl, bound: 1.25 }\n`,
    'CFG704 fn.yaml:5:31: bound, got "1.25"; expected whole percent 100..400'],
  ['a root that is not there', 'node: pure-runner\nplugins: { driver: { use: process, root: /nowhere } }\n',
    'PLG915 fn.yaml:2:42: process: driver/process: root, got "/nowhere": No such file or directory; expected a directory'],
  ['an address of an engine that is none', 'node: pure-runner\nplugins: { driver: { use: docker, docker_host: "ftp://x" } }\n',
    /^PLG915 fn\.yaml:2:48: docker: driver\/docker: docker_host, got "ftp:\/\/x"; expected /],
  ['a certificate without its key', `${LB}http: { tls: web }\ntls:\n  web: { cert: /c }\n`,
    'TLS806 fn.yaml:7:8: web, got cert alone; expected cert and key, or none of them'],
  ['a file of images that is not there', 'node: pure-runner\nplugins: { driver: { use: docker, load_file: /nowhere.tar } }\n',
    'PLG915 fn.yaml:2:46: docker: driver/docker: load_file, got "/nowhere.tar": No such file or directory; expected a tar file of at most 4 GiB'],
  ['a variable', LB, 'CFG706 FN_PORT, got "http"; expected 1..65535', { env: { FN_PORT: 'http' } }],
  ['mistakes of all kinds at once', `node: lb\nlb: { retry_min: 5s }\n${APPS}plugins:\n  placer: { use: pc2 }\n  pool: { use: static, runners: ["a"] }\n`,
    ['CFG704 fn.yaml:2:18: retry_min, got "5s"; expected at most retry_max, which is 1s', 'CFG712 fn.yaml:5:18: placer, got "pc2"; did you mean "p2c"?', 'PLG915 fn.yaml:6:34: static: pool/static: runners[0]: got "a"; expected host:port']],
  // what is no mistake, and has no effect either
  ['a section of another kind of node', `${LB}runner: { pids_max: 3 }\n`,
    'CFG710 fn.yaml:5:1: warning: runner: has no effect, got node: lb; expected it in node: pure-runner or full', { warning: true }],
  ['a plugin of another kind of node', `node: lb\n${APPS}${POOL}  driver: docker\n`,
    'CFG710 fn.yaml:5:3: warning: driver: has no effect, got node: lb; expected it in node: pure-runner or full', { warning: true }],
  ['a manager without control plane', 'node: npm\nplugins: { predictor: window }\n',
    'CFG710 fn.yaml:2:10: warning: control_plane is missing: runners become processes of this machine; expected { use: process } or another one', { warning: true }],
  ['a file that several nodes share', `node: full\nrunner: { pids_max: 3 }\nnpm: { poll: 2s }\n${POOL}${APPS}`, [], { env: { FN_NODE_TYPE: 'lb' }, warning: true }],
]

after(() => rmSync(dir, { recursive: true }))

describe('what fnd check says of a mistake', () => {
  for (const [what, yaml, expected, more = {}] of rows) {
    it(`${what}: all of it, at its place, once; a start that is refused says the same`, () => {
      writeFileSync(path.join(dir, 'fn.yaml'), `${yaml}`)
      const check = said(['check', '--config', 'fn.yaml'], more.env)
      assert.equal(check.status, more.warning ? 0 : 78, check.stderr)
      if (expected instanceof RegExp) assert.match(lines(check.stderr).join('\n'), expected)
      else assert.deepEqual(lines(check.stderr), [expected].flat().sort())
      if (more.warning) {
        assert.equal(said(['check', '--strict', '--config', 'fn.yaml'], more.env).status, expected.length ? 78 : 0)
        return
      }
      const run = said(['run', '--config', 'fn.yaml'], more.env)
      assert.equal(run.status, 78, run.stderr)
      assert.deepEqual(lines(run.stderr), lines(check.stderr))
    })
  }
})

describe('what fnd check prints of apps', () => {
  it('has the ids of all, which names of the app, the function and the trigger make', () => {
    const apps = ['a', 'b'].map((app) => `  - name: ${app}\n    functions:\n` +
      ['f', 'g'].map((f) => `      - { name: ${f}, image: i, triggers: [{ name: t, source: /${f} }] }\n`).join('')).join('')
    writeFileSync(path.join(dir, 'fn.yaml'), `${LB.replace(APPS, `apps:\n${apps}`)}`)
    const ids = () => said(['check', '--config', 'fn.yaml']).stdout.match(/(?<=^ +id: |- \{ name: t, id: )[0-9A-Z]{26}/gm)
    assert.equal(new Set(ids()).size, 2 + 4 + 4)
    assert.deepEqual(ids(), ids())
  })
})

describe('what create() of a plugin may do in a check', () => {
  it('reads, and reaches nobody: one that wants the network is left to the start', () => {
    const plugin = path.join(build, 'tests/plugins/dials.so')
    const listeners = `listeners: [{ use: dials, file: ${plugin} }]\n`
    for (const [yaml, at] of [[LB.replace(POOL, `${POOL}  ${listeners}`), '4:15'], [`node: api\nplugins:\n  ${listeners}`, '3:15']]) {
      writeFileSync(path.join(dir, 'fn.yaml'), yaml)
      const check = said(['check', '--config', 'fn.yaml'])
      assert.equal(check.status, 0, check.stderr)
      assert.deepEqual(lines(check.stderr),
        [`CFG710 fn.yaml:${at}: note: listener dials: create() wants the network, which a check does not give: its options are judged at the start`])
    }
  })
})

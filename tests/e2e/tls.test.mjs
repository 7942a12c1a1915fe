// Mutual TLS between nodes: who may talk to whom, and certificates that are renewed under load.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { Pki } from './lib/certs.mjs'
import { appsYaml, fnId } from './lib/cluster.mjs'
import { Scripted } from './lib/cplane.mjs'
import { invoke } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

function demoCerts() {
  const dir = path.join(tempDir(), 'certs')
  execFileSync(path.join(build, 'fnd'), ['certs', 'demo', dir])
  return dir
}

// By rename, as docs/tls.md says.
function replaceCerts(dir, by) {
  for (const file of readdirSync(by)) {
    copyFileSync(path.join(by, file), path.join(dir, `${file}.new`))
    renameSync(path.join(dir, `${file}.new`), path.join(dir, file))
  }
}

const tls = (dir, name, peers) => `tls:
  node:
    cert: ${dir}/${name}.pem
    key: ${dir}/${name}.key
    ca: ${dir}/ca.pem
${peers ? `    peers: [${peers.map((p) => `"${p}"`).join(', ')}]` : ''}
`

async function startRunner(dir, peers, name = 'runner-1', entry = '') {
  const port = await freePort()
  const grpc = await freePort()
  const node = await Fnd.start('runner', port, `
node: pure-runner
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${grpc}", tls: node }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { driver: { use: process, root: ${path.join(build, 'functions')} } }
runner: { iofs_path: ${tempDir()}, writable_root: true }
${tls(dir, name, peers)}${entry}`)
  node.grpcPort = grpc
  return node
}

async function startLb(dir, grpcPort, peers, { name = 'lb-1', lb = '' } = {}) {
  const port = await freePort()
  return Fnd.start('lb', port, `
node: lb
http: { listen: "127.0.0.1:${port}" }
grpc: { tls: node, reconnect_max: 100ms }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { pool: { use: static, runners: ["127.0.0.1:${grpcPort}"] } }
lb: { placement_timeout: 1s }
${lb}
${tls(dir, name, peers)}${appsYaml({ hello: {} })}`)
}

test('TLS between nodes', async (t) => {
  await t.test('peers with the right names talk, others are refused on either side', async () => {
    const dir = demoCerts()
    const runner = await startRunner(dir, ['spiffe://fnd/lb-*', 'npm-1'])
    const good = await startLb(dir, runner.grpcPort, ['spiffe://fnd/runner-*'])
    const stranger = await startLb(dir, runner.grpcPort, undefined, { name: 'runner-1' })
    const picky = await startLb(dir, runner.grpcPort, ['spiffe://fnd/npm-*'])
    const foreign = await startLb(demoCerts(), runner.grpcPort)
    try {
      assert.equal((await invoke(good, fnId('hello'), '{}')).status, 200)
      for (const lb of [stranger, picky, foreign]) {
        const answer = await invoke(lb, fnId('hello'), '{}')
        assert.ok(answer.status >= 500, `${answer.status}`)
      }
      assert.match(runner.log, /TLS805 peer spiffe:\/\/fnd\/runner-1 may not use this port/)
      assert.match(picky.log, /TLS805 a server's certificate names none of the peers/)
      assert.equal((await invoke(good, fnId('hello'), '{}')).status, 200)
    } finally {
      await Promise.all([good, stranger, picky, foreign].map((n) => n.stop()))
      await runner.stop()
    }
  })

  await t.test('what `certs demo` prints fits together: runner, manager, load balancer', async () => {
    const dir = path.join(tempDir(), 'certs')
    const said = execFileSync(path.join(build, 'fnd'), ['certs', 'demo', dir], { encoding: 'utf8' })
    const printed = Object.fromEntries([...said.matchAll(/^fn\.yaml of a (.*):\n\n((?:.+\n)+)/gm)].map(([, kind, yaml]) => [kind, yaml]))
    const nodes = []
    const start = async (kind, node, rest) => {
      const [port, grpc] = [await freePort(), await freePort()]
      nodes.push(await Fnd.start(node, port, `node: ${node}
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
${printed[kind].replace('{ tls: node }', `{ tls: node${node === 'lb' ? '' : `, listen: "127.0.0.1:${grpc}"`} }`)}${rest}`))
      return grpc
    }
    try {
      const runner = await start('runner', 'pure-runner', `plugins: { driver: { use: process, root: ${path.join(build, 'functions')} } }
runner: { iofs_path: ${tempDir()}, writable_root: true }\n`)
      const npm = await start('node pool manager', 'npm', `plugins: { control_plane: { use: fixed, addresses: ["127.0.0.1:${runner}"] } }
npm: { settle: 0s, poll: 50ms }\n`)
      await start('load balancer', 'lb', `plugins: { pool: { use: npm, address: "127.0.0.1:${npm}", lb_id: lb-1 } }
${appsYaml({ hello: {} })}`)
      assert.equal((await invoke(nodes.at(-1), fnId('hello'), '{}')).status, 200)
    } finally {
      for (const node of nodes.reverse()) await node.stop()
    }
  })

  await t.test('F86: renewed certificates are picked up, no call fails', async () => {
    const dir = demoCerts()
    const other = demoCerts() // another authority: only who picked the files up can still connect
    const runner = await startRunner(dir)
    const lb = await startLb(dir, runner.grpcPort)
    try {
      let failed = 0
      let stop = false
      const load = (async () => {
        while (!stop) failed += (await invoke(lb, fnId('hello'), '{}')).status !== 200
      })()
      assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200)
      replaceCerts(dir, other)
      runner.signal('SIGHUP')
      lb.signal('SIGHUP')
      await until('both have them', () => [runner, lb].every((n) => /certificates renewed.*changed="cert, key, ca"/.test(n.log)))
      // Connections live on; now a new one is needed.
      stop = true
      await load
      assert.equal(failed, 0)
      await runner.kill()
      await runner.start()
      await until('a call runs over a new connection', async () => (await invoke(lb, fnId('hello'), '{}')).status === 200)
    } finally {
      await lb.stop()
      await runner.stop()
    }
  })

  await t.test('an entry that a plugin names is renewed like the node\'s own', async () => {
    const dir = demoCerts()
    const e = await Scripted.start({ grpc: ', tls: node', more: tls(dir, 'npm-1') })
    const port = await freePort()
    const lb = await Fnd.start('lb', port, `
node: lb
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { pool: { use: npm, address: "127.0.0.1:${e.grpc}", tls: manager, lb_id: lb-1, interval: 100ms } }
${tls(dir, 'lb-1').replace('node:', 'manager:')}${appsYaml({ hello: {} })}`)
    const known = async () => (await e.npm.metric('fn_npm_lbs')) === 1
    try {
      invoke(lb, fnId('hello'), '{}').catch(() => {})
      await until('the manager knows it', known)
      replaceCerts(dir, demoCerts()) // another authority
      lb.signal('SIGHUP')
      await until('it has them', () => lb.log.includes('certificates renewed'))
      await e.npm.kill()
      await e.npm.start()
      await until('the manager knows it again', known)
    } finally {
      await lb.kill() // a call waits there for a runner
      await e.stop()
    }
  })

  await t.test('a reload finds new entries for plugins, and refuses others for those in use', async () => {
    const dir = demoCerts()
    const port = await freePort()
    const entry = (name, peers = '') => `  ${name}: { cert: ${dir}/lb-1.pem, key: ${dir}/lb-1.key, ca: ${dir}/ca.pem${peers} }\n`
    const yaml = (pool, entries) => `
node: lb
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { pool: { use: npm, address: "127.0.0.1:1", lb_id: lb-1${pool} } }
tls:
${entries}${appsYaml({ hello: {} })}`
    const lb = await Fnd.start('lb', port, yaml(', tls: a', entry('a')))
    const file = path.join(lb.dir, 'fn.yaml')
    const reload = (text) => {
      writeFileSync(file, text, { mode: 0o600 })
      const { status, stdout, stderr } = spawnSync(path.join(build, 'fnd'), ['reload', '--config', file], { encoding: 'utf8' })
      return { status, text: stdout + stderr }
    }
    try {
      const changed = reload(yaml(', tls: a', entry('a', ', peers: [npm-1]')))
      assert.notEqual(changed.status, 0)
      assert.match(changed.text, /CFG720 tls\.a cannot change while the node runs: a plugin uses it/)
      const other = reload(yaml(', tls: b', entry('a') + entry('b')))
      assert.equal(other.status, 0, other.text)
      assert.match(reload(yaml(', tls: b', entry('a') + entry('b', ', peers: [npm-1]'))).text, /CFG720 tls\.b cannot change/)
      assert.equal(reload(yaml(', tls: c', entry('c'))).status, 0)
      assert.equal(reload(yaml(', tls: b', entry('b', ', peers: [npm-1]'))).status, 0)
      await lb.stop()
      assert.doesNotMatch(lb.log, /level=error.*certificates/)
    } finally {
      await lb.kill()
    }
  })

  await t.test('a renewed list refuses who is on it from the next connection on', async () => {
    const pki = new Pki()
    const dir = tempDir()
    const put = (name, c) => {
      copyFileSync(c.cert, path.join(dir, `${name}.pem`))
      if (c.key) copyFileSync(c.key, path.join(dir, `${name}.key`))
      return c
    }
    const leaf = (cn) => put(cn, pki.issue({ cn, by: pki.ca, ext: [`subjectAltName=URI:spiffe://fnd/${cn},IP:127.0.0.1`] }))
    put('ca', { cert: pki.ca.cert })
    leaf('runner-1')
    leaf('lb-2')
    const revoked = leaf('lb-1')
    writeFileSync(path.join(dir, 'crl.pem'), pki.list())
    const runner = await startRunner(dir, undefined, 'runner-1', `    crl: ${dir}/crl.pem`)
    const lb = await startLb(dir, runner.grpcPort)
    const more = []
    try {
      assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200)
      writeFileSync(path.join(dir, 'crl.pem'), pki.list(pki.ca, [revoked]))
      runner.signal('SIGHUP')
      await until('it has the list, and calls it that', () => runner.log.includes('revocation lists renewed') && !runner.log.includes('certificates renewed'))
      more.push(await startLb(dir, runner.grpcPort), await startLb(dir, runner.grpcPort, undefined, { name: 'lb-2' }))
      assert.equal((await invoke(more[1], fnId('hello'), '{}')).status, 200)
      assert.ok((await invoke(more[0], fnId('hello'), '{}')).status >= 500)
      assert.match(runner.log, /certificate revoked/)
      await until('who is refused knows why', () => /runner not connected.*the peer says \\?"certificate revoked/.test(more[0].log))
      assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200) // over its old connection
    } finally {
      await Promise.all([lb, ...more].map((n) => n.stop()))
      await runner.stop()
    }
  })

  await t.test('a renewed key that does not fit changes nothing', async () => {
    const dir = demoCerts()
    const runner = await startRunner(dir)
    const lb = await startLb(dir, runner.grpcPort)
    try {
      assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200)
      copyFileSync(path.join(demoCerts(), 'runner-1.key'), path.join(dir, 'runner-1.key'))
      runner.signal('SIGHUP')
      await until('it says so', () => /renewed certificates cannot be used.*TLS802/.test(runner.log))
      const second = await startLb(dir, runner.grpcPort)
      assert.equal((await invoke(second, fnId('hello'), '{}')).status, 200)
      await second.stop()
    } finally {
      await lb.stop()
      await runner.stop()
    }
  })

  await t.test('files that are refused once are tried again, and told once', async () => {
    const [early, open] = [demoCerts(), demoCerts()]
    const [a, b] = await Promise.all([startRunner(early), startRunner(open)])
    const refused = (node, code) => node.log.split('\n').filter((l) => l.includes('renewed certificates cannot be used') && l.includes(code)).length
    try {
      const pki = new Pki()
      const seconds = (ms) => `${new Date(ms).toISOString().replace(/[-:T]|\..*/g, '')}Z`
      const soon = pki.issue({ cn: 'runner-1', by: pki.ca, start: seconds(Date.now() + 8000), end: '20491231235959Z' })
      for (const [file, by] of [['runner-1.pem', soon.cert], ['runner-1.key', soon.key]]) {
        copyFileSync(by, path.join(early, `${file}.new`))
        renameSync(path.join(early, `${file}.new`), path.join(early, file))
      }
      const key = path.join(open, 'runner-1.key')
      replaceCerts(open, demoCerts())
      chmodSync(key, 0o644)
      a.signal('SIGHUP')
      b.signal('SIGHUP')
      await until('each side is refused', () => refused(a, 'TLS804') === 2 && refused(b, 'TLS801') === 2)
      b.signal('SIGHUP')
      chmodSync(key, 0o600)
      await until('both are taken', () => [a, b].every((n) => n.log.includes('certificates renewed')), 20_000)
      assert.deepEqual([refused(a, ''), refused(b, '')], [2, 2])
    } finally {
      await Promise.all([a.stop(), b.stop()])
    }
  })

  // A directory as of demoCerts(), with the certificates of `own` instead.
  const withCerts = (own) => {
    const dir = demoCerts()
    for (const [name, { cert, key, ca }] of Object.entries(own)) {
      copyFileSync(cert, path.join(dir, `${name}.pem`))
      copyFileSync(key, path.join(dir, `${name}.key`))
      writeFileSync(path.join(dir, 'ca.pem'), ca)
    }
    return dir
  }
  const names = (name) => [`subjectAltName=URI:spiffe://fnd/${name},IP:127.0.0.1,DNS:localhost`]

  await t.test('F84: an expired certificate is refused at the start, with its file and date', async () => {
    const pki = new Pki()
    const dir = withCerts({ 'runner-1': { ...pki.issue({ cn: 'runner-1', by: pki.ca, ext: names('runner-1'), days: -1 }), ca: readFileSync(pki.ca.cert) } })
    await assert.rejects(startRunner(dir), (error) => {
      assert.match(error.message, /"code":78/)
      assert.match(error.message, /TLS804 .*runner-1\.pem: expired \d{4}-\d\d-\d\dT/)
      return true
    })
  })

  await t.test('F85: a certificate that expires is told before; connections live on, new ones are refused', async () => {
    const pki = new Pki()
    const ca = readFileSync(pki.ca.cert)
    const ends = Date.now() + 8000
    const end = `${new Date(ends).toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`
    const dir = withCerts({
      'runner-1': { ...pki.issue({ cn: 'runner-1', by: pki.ca, ext: names('runner-1'), end }), ca },
      'lb-1': { ...pki.issue({ cn: 'lb-1', by: pki.ca, ext: names('lb-1') }), ca },
    })
    const runner = await startRunner(dir)
    const lb = await startLb(dir, runner.grpcPort)
    let late
    try {
      assert.match(runner.log, /a certificate of this node expires soon.*days_left=0/)
      assert.match(await runner.ask('status'), /^certs +\S+ ends in 0 hours: \S+runner-1\.pem$/m)
      assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200)
      await until('it has expired', () => Date.now() > ends + 1000, 15_000)
      assert.equal((await invoke(lb, fnId('hello'), '{}')).status, 200, 'the connection lives on')
      late = await startLb(dir, runner.grpcPort)
      const refused = await invoke(late, fnId('hello'), '{}')
      assert.equal(refused.status, 503)
      await until('the reason is told', () => /a handshake failed.*certificate expired/.test(runner.log))
    } finally {
      for (const node of [lb, late, runner]) await node?.stop()
    }
  })

  await t.test('F87: while two authorities are listed, certificates of both are good', async () => {
    const pki = new Pki()
    const next = pki.issue({ cn: 'next authority', ext: ['basicConstraints=critical,CA:TRUE'], key: pki.newKey('next', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256') })
    const ca = Buffer.concat([readFileSync(pki.ca.cert), readFileSync(next.cert)])
    const own = (by, name) => ({ ...pki.issue({ cn: name, by, ext: names(name) }), ca })
    const runner = await startRunner(withCerts({ 'runner-1': own(next, 'runner-1') }))
    const lbs = []
    try {
      for (const by of [pki.ca, next]) {
        lbs.push(await startLb(withCerts({ 'lb-1': own(by, 'lb-1') }), runner.grpcPort))
        assert.equal((await invoke(lbs.at(-1), fnId('hello'), '{}')).status, 200)
      }
    } finally {
      for (const node of [...lbs, runner]) await node.stop()
    }
  })

  await t.test('F87: another authority takes over under running nodes, no call fails', async () => {
    const pki = new Pki()
    const next = pki.issue({ cn: 'next authority', ext: ['basicConstraints=critical,CA:TRUE'], key: pki.newKey('next', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256') })
    const [old, fresh] = [readFileSync(pki.ca.cert), readFileSync(next.cert)]
    const own = (by, ca) => withCerts(Object.fromEntries(['runner-1', 'lb-1'].map((name) => [name, { ...pki.issue({ cn: name, by, ext: names(name) }), ca }])))
    const dir = own(pki.ca, old)
    const runner = await startRunner(dir)
    const lb = await startLb(dir, runner.grpcPort)
    const renewals = (node) => node.log.split('certificates renewed').length - 1
    const failed = []
    let calls = 0
    let running = true
    const load = (async () => {
      while (running) {
        const answer = await invoke(lb, fnId('hello'), '{}')
        calls++
        if (answer.status !== 200) failed.push(answer.text)
      }
    })()
    try {
      // First both believe either authority, then both show what the next one signed, then it is believed alone.
      for (const [step, by, ca] of [[1, pki.ca, Buffer.concat([old, fresh])], [2, next, Buffer.concat([old, fresh])], [3, next, fresh]]) {
        const before = calls
        replaceCerts(dir, own(by, ca))
        for (const node of [runner, lb]) node.signal('SIGHUP')
        await until(`step ${step} is in force`, () => [runner, lb].every((node) => renewals(node) === step))
        // Its links are from before, so that each step is tried by new ones as well: a second load balancer makes some.
        const other = await startLb(dir, runner.grpcPort)
        try {
          assert.equal((await invoke(other, fnId('hello'), '{}')).status, 200, `step ${step}`)
        } finally {
          await other.stop()
        }
        await until('calls go on', () => calls > before)
      }
      const late = await startLb(own(pki.ca, fresh), runner.grpcPort)
      try {
        assert.notEqual((await invoke(late, fnId('hello'), '{}')).status, 200, 'the old authority is nobody')
      } finally {
        await late.stop()
      }
    } finally {
      running = false
      await load
      for (const node of [lb, runner]) await node.stop()
    }
    assert.deepEqual(failed, [])
  })
})

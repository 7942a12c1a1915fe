// gRPC C core as a transport beside nghttp2: who has it mapped, all four pairs, and what a check says.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Pki } from './lib/certs.mjs'
import { Ledger, appsYaml, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { Elastic } from './lib/elastic.mjs'
import { invoke } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

const over = (name) => ({ FND_TRANSPORT: name })
const hasCore = (node) => /libgrpc\.so/.test(readFileSync(`/proc/${node.pid}/maps`, 'utf8'))
const threads = (node) => readdirSync(`/proc/${node.pid}/task`).length

// One pair of nodes; listen: of the runner's gRPC. tls: text of `tls:` for a name, or none.
async function startPair(front, back, listen, tls) {
  const [port, lbPort] = [await freePort(), await freePort()]
  const common = `plugin_dir: ${path.join(build, 'plugins')}\n`
  const runner = await Fnd.start('runner', port, `${common}node: pure-runner
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "${listen}"${tls ? ', tls: node' : ''} }
plugins: { driver: { use: process, root: ${path.join(build, 'functions')} } }
runner: { iofs_path: ${tempDir()}, writable_root: true }
${tls?.('runner-1') ?? ''}`, { env: over(back) })
  const lb = await Fnd.start('lb', lbPort, `${common}node: lb
http: { listen: "127.0.0.1:${lbPort}" }
${tls ? 'grpc: { tls: node }' : ''}
plugins: { pool: { use: static, runners: ["${listen}"] } }
${tls?.('lb-1') ?? ''}${appsYaml({ echo: {} })}`, { env: over(front) })
  return { lb, runner, stop: async () => { await lb.stop(); await runner.stop() } }
}

describe('transports', () => {
  const certs = path.join(tempDir(), 'certs')
  before(() => execFileSync(path.join(build, 'fnd'), ['certs', 'demo', certs]))
  const tls = (name) => `tls: { node: { cert: ${certs}/${name}.pem, key: ${certs}/${name}.key, ca: ${certs}/ca.pem } }\n`
  const pairs = ['nghttp2', 'core'].flatMap((lb) => ['nghttp2', 'core'].map((runner) => [lb, runner]))
  for (const [front, back] of pairs) {
    describe(`a load balancer over ${front}, runners over ${back}`, () => {
      const ledger = new Ledger()
      const runners = []
      let lb
      before(async () => {
        for (const name of ['r0', 'r1']) runners.push(await startRunner({ name, env: over(back) }))
        lb = await startLb({ addresses: runners.map((r) => r.address), env: over(front),
          functions: { echo: {}, ledger: { config: { LEDGER_FILE: ledger.file } } } })
      })
      after(async () => {
        await lb?.stop()
        await Promise.all(runners.map((r) => r.stop()))
      })

      it('has libgrpc mapped where it was chosen, and nowhere else', async () => {
        assert.equal((await invoke(lb, fnId('echo'), 'x')).status, 200)
        if (front === 'nghttp2') assert.ok(threads(lb) <= 4, `${threads(lb)} threads`)
        for (const [node, name] of [[lb, front], [runners[0], back]]) {
          assert.equal(hasCore(node), name === 'core', `${node.name}: ${name}`)
          assert.match(node.log, name === 'core' ? /transport="gRPC C core/ : /transport="libnghttp2/)
          const told = [...(await node.metrics())].filter(([key]) => key.startsWith('fn_grpc_transport_info'))
          assert.match(told.join(), new RegExp(`^fn_grpc_transport_info{transport="${name}",library=".* [0-9.]+"},1$`))
          const status = execFileSync(path.join(build, 'fnd'), ['status', '--config', path.join(node.dir, 'fn.yaml')], { encoding: 'utf8' })
          assert.match(status, name === 'core' ? /transport gRPC C core / : /transport libnghttp2 /)
        }
        assert.equal(/C core reads the bytes of whoever reaches this port/.test(runners[0].log), back === 'core')
      })

      it('carries big bodies both ways, and many calls at a time', async () => {
        const body = Buffer.alloc(3 << 20, 'y')
        const big = await invoke(lb, fnId('echo'), body)
        assert.equal(big.status, 200)
        assert.ok(big.body.equals(body))
        const all = await Promise.all(Array.from({ length: 16 }, (_, i) => invoke(lb, fnId('echo'), `n${i}`)))
        all.forEach((a, i) => assert.deepEqual([a.status, a.text], [200, `n${i}`]))
      })

      it('does so over mutual TLS and over a unix socket', async () => {
        for (const [listen, files] of [[`127.0.0.1:${await freePort()}`, tls], [`unix:${path.join(tempDir(), 'grpc')}`]]) {
          const pair = await startPair(front, back, listen, files)
          try {
            const body = Buffer.alloc(1 << 20, 'z')
            const answer = await invoke(pair.lb, fnId('echo'), body)
            assert.equal(answer.status, 200, `${listen}: ${answer.text.slice(0, 200)}`)
            assert.ok(answer.body.equals(body))
            assert.equal(/C core reads the bytes/.test(pair.runner.log), false) // no stranger reaches it
          } finally {
            await pair.stop()
          }
        }
      })

      it('is refused by its name on a list of revoked ones, until the next list', async () => {
        const pki = new Pki()
        const leaf = (cn) => pki.issue({ cn, by: pki.ca, ext: [`subjectAltName=URI:spiffe://fnd/${cn},IP:127.0.0.1`] })
        const leaves = { 'runner-1': leaf('runner-1'), 'lb-1': leaf('lb-1') }
        const crl = path.join(tempDir(), 'crl.pem')
        writeFileSync(crl, pki.list(pki.ca, [leaves['lb-1']]))
        const entry = (name) => `tls: { node: { cert: ${leaves[name].cert}, key: ${leaves[name].key}, ca: ${pki.ca.cert}${name === 'runner-1' ? `, crl: ${crl}` : ''} } }\n`
        const pair = await startPair(front, back, `127.0.0.1:${await freePort()}`, entry)
        try {
          await until('it is refused', () => /certificate revoked/.test(pair.runner.log) && /not connected.*certificate revoked/.test(pair.lb.log))
          writeFileSync(crl, pki.list())
          pair.runner.signal('SIGHUP')
          await until('it is let in', async () => (await pair.lb.metric('fn_lb_runners_up')) === 1)
          assert.equal((await invoke(pair.lb, fnId('echo'), 'x')).status, 200)
        } finally {
          await pair.stop()
        }
      })

      it('follows a manager over the other one, which makes its first runner', async () => {
        const e = await Elastic.start({ functions: { echo: { memory: 128 } }, env: over(back), lbEnv: over(front) })
        try {
          const answer = await invoke(e.lbs[0], fnId('echo'), 'first')
          assert.deepEqual([answer.status, answer.text], [200, 'first'])
          assert.equal(hasCore(e.npm), back === 'core')
          await e.npm.kill()
          assert.equal((await invoke(e.lbs[0], fnId('echo'), 'alone')).status, 200)
          await e.npm.start()
          await until('the watch is there again', async () => (await e.npm.metric('fn_npm_lbs')) === 1)
        } finally {
          await e.stop()
        }
      })

      it('runs no call twice when a runner is killed under load', async () => {
        const answers = []
        const load = async (i) => {
          for (let k = 0; k < 12; k++) answers.push(await invoke(lb, fnId('ledger'), `20 n${i}.${k}`))
        }
        const all = Promise.all(Array.from({ length: 6 }, (_, i) => load(i)))
        while (answers.length < 20) await new Promise((r) => setTimeout(r, 5))
        runners[0].child.kill('SIGKILL')
        await all
        for (const a of answers) ledger.check(a, `${front} to ${back}`)
        assert.ok(answers.filter((a) => a.status === 200).length >= 20)
        assert.equal((await invoke(lb, fnId('ledger'), '0 behind')).status, 200)
        await runners[0].ended
        runners.shift()
      })

      it('ends in order: a runner that drains hands its calls back', async () => {
        const call = invoke(lb, fnId('ledger'), '300 last')
        await new Promise((r) => setTimeout(r, 100))
        const stopped = runners[0].stop()
        const answer = await call
        ledger.check(answer, 'drain')
        assert.equal(answer.status, 200)
        await stopped
        runners.shift()
      })
    })
  }

  it('is named by a check when its file is not there', () => {
    const dir = tempDir()
    copyFileSync(path.join(build, 'fnd'), path.join(dir, 'fnd'))
    const file = path.join(dir, 'fn.yaml')
    writeFileSync(file, `node: pure-runner\nplugin_dir: ${path.join(build, 'plugins')}\ngrpc: { transport: core }\nplugins:\n  driver: { use: process, root: ${dir} }\n`)
    const env = { ...process.env, FND_TRANSPORT: undefined } // the place in the file is told
    const checked = spawnSync(path.join(dir, 'fnd'), ['check', '--config', file], { encoding: 'utf8', env })
    assert.equal(checked.status, 78)
    assert.match(checked.stderr + checked.stdout, /RUN420 .*fn\.yaml:3:\d+: transport core: .*grpc-core\.so is not there; expected .*libgrpc-dev/)
    const good = spawnSync(path.join(build, 'fnd'), ['check', '--config', file], { encoding: 'utf8' })
    assert.equal(good.status, 0, good.stderr)
  })

  it('is found in an installed tree, and missed where its component was left out', () => {
    const tree = tempDir()
    const install = (component) => execFileSync('sh', ['-c', 'umask 022 && exec cmake --install "$0" --prefix "$1" --component "$2"', build, tree, component])
    const file = path.join(tree, 'fn.yaml')
    writeFileSync(file, 'node: npm\ngrpc: { transport: core, listen: "127.0.0.1:1" }\n')
    const check = () => spawnSync(path.join(tree, 'bin', 'fnd'), ['check', '--config', file], { encoding: 'utf8' })
    install('fnd')
    const missed = check()
    assert.equal(missed.status, 78)
    assert.match(missed.stderr + missed.stdout, /RUN420 .*grpc-core\.so is not there/)
    assert.ok(readdirSync(path.join(tree, 'lib/fnd/plugins')).includes('pool-static.so'))
    install('fnd-transport-core')
    assert.deepEqual(readdirSync(path.join(tree, 'lib/fnd/transports')), ['grpc-core.so'])
    const found = check()
    assert.equal(found.status, 0, found.stderr)
  })
})

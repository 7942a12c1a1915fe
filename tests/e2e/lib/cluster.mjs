// A load balancer and runners from fn.yaml texts, with one function per sample.
import assert from 'node:assert/strict'
import { chmodSync, existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { temporary } from './leftovers.mjs'
import { Fnd, build, freePort, tempDir } from './node.mjs'

// Function ids are fixed texts, so that tests can name them.
export const fnId = (name) => `01FN${name.toUpperCase().replace(/[^A-Z0-9]/g, '').padEnd(22, '0').slice(0, 22)}`

const indent = (text, n) => text.trim().split('\n').map((l) => ' '.repeat(n) + l).join('\n')

// functions: { name: { image?, memory?, timeout?, config?, annotations?, triggers?, app? } }; apps: { name: 'yaml' }
export function appsYaml(functions, apps = {}) {
  let out = 'apps:\n'
  let app
  for (const [name, f] of Object.entries(functions)) {
    if (app !== (f.app ?? 'demo')) {
      app = f.app ?? 'demo'
      out += `  - name: ${app}\n${apps[app] ? `${indent(apps[app], 4)}\n` : ''}    functions:\n`
    }
    out += `      - name: ${name}\n        id: ${fnId(name)}\n        image: ${f.image ?? name}\n`
    for (const key of ['memory', 'timeout', 'idle_timeout']) {
      if (f[key]) out += `        ${key}: ${f[key]}\n`
    }
    if (f.config) {
      out += '        config:\n'
      for (const [k, v] of Object.entries(f.config)) out += `          ${k}: "${v}"\n`
    }
    if (f.annotations) {
      out += '        annotations:\n'
      for (const [k, v] of Object.entries(f.annotations)) out += `          ${k}: ${JSON.stringify(v)}\n`
    }
    if (f.triggers) {
      out += '        triggers:\n'
      for (const source of f.triggers) out += `          - { name: ${name}-${f.triggers.indexOf(source)}, source: ${source} }\n`
    }
  }
  return out
}

// Function processes may write outside of /tmp: the ledger.
const processDriver = () => `driver: { use: process, root: ${path.join(build, 'functions')} }`

export async function startRunner({ name = 'runner', driver = processDriver(), runner = '', grpcPort, grpcMore = '', plugins = '', more = '', env, within, host = '127.0.0.1', iofs = tempDir() } = {}) {
  const port = await freePort()
  const grpc = grpcPort ?? await freePort()
  const node = await Fnd.start(name, port, `
node: pure-runner
${more}
http: { listen: "${host}:${port}" }
grpc: { listen: "${host}:${grpc}"${grpcMore ? `, ${grpcMore}` : ''} }
plugin_dir: ${path.join(build, 'plugins')}
plugins:
${indent(driver, 2)}
${plugins ? indent(plugins, 2) : ''}
runner:
  iofs_path: ${iofs}
  writable_root: ${driver.includes('use: process')}
${runner ? indent(runner, 2) : ''}
`, { env, within, host })
  node.grpcPort = grpc
  node.address = `${host}:${grpc}`
  return node
}

// more: further sections of fn.yaml.
export async function startLb({ name = 'lb', addresses, functions = {}, lb = '', http = '', plugins = '', placer = '{ use: naive }', pool, more = '', apps, args, env, wait } = {}) {
  const port = await freePort()
  return Fnd.start(name, port, `
node: lb
http:
  listen: "127.0.0.1:${port}"
${http ? indent(http, 2) : ''}
plugin_dir: ${path.join(build, 'plugins')}
plugins:
  placer: ${placer}
  pool: ${pool ?? `{ use: static, runners: [${addresses.map((a) => `"${a}"`).join(', ')}] }`}
${plugins ? indent(plugins, 2) : ''}
${lb ? `lb:\n${indent(lb, 2)}` : ''}
${more}
${appsYaml(functions, apps)}`, { env, args, wait })
}

// One LB in front of n runners; `stop()` ends all of them.
export async function startCluster({ runners = 1, functions, runnerOptions = {}, lbOptions = {} }) {
  const nodes = []
  for (let i = 0; i < runners; i++) nodes.push(await startRunner({ name: `runner${i}`, ...runnerOptions }))
  const lb = await startLb({ addresses: nodes.map((n) => `127.0.0.1:${n.grpcPort}`), functions, ...lbOptions })
  return { lb, runners: nodes, stop: async () => {
    await lb.stop()
    await Promise.all(nodes.map((n) => n.stop()))
  } }
}

// What the ledger function wrote: Map of call id -> { starts, ends, containers }. Not below /tmp: a
// function process has a /tmp of its own.
export class Ledger {
  constructor() {
    this.dir = temporary('/var/tmp/fnd-ledger-')
    this.file = path.join(this.dir, 'ledger')
    chmodSync(this.dir, 0o777)
  }

  read() {
    const calls = new Map()
    const text = existsSync(this.file) ? readFileSync(this.file, 'utf8') : ''
    for (const line of text.split('\n').filter(Boolean)) {
      const [id, container, what] = line.split(' ')
      const entry = calls.get(id) ?? { starts: 0, ends: 0, containers: new Set() }
      entry[what === 'start' ? 'starts' : 'ends']++
      entry.containers.add(container)
      calls.set(id, entry)
    }
    return calls
  }

  // P2 to P4 for one answer: what it says must agree with what the functions wrote down.
  check(answer, what, calls = this.read()) {
    const id = answer.headers?.['fn-call-id']
    const entry = calls.get(id)
    assert.ok((entry?.starts ?? 0) <= 1, `${what}: call ${id} ran ${entry?.starts} times`)
    if (answer.status === 200 && answer.complete) {
      assert.equal(entry?.ends, 1, `${what}: a complete 200 without an execution`)
      assert.ok(answer.text.startsWith(id), `${what}: somebody else's answer`)
    }
    if (answer.headers?.['fn-outcome'] === 'not-executed') {
      assert.equal(entry, undefined, `${what}: said to be not executed, but it ran`)
    }
  }
}

// What the tests of reload share: a load balancer whose fn.yaml is replaced while calls run.
import { execFile } from 'node:child_process'
import { readFileSync, readdirSync, renameSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { appsYaml, fnId } from './cluster.mjs'
import { Fnd, build, freePort } from './node.mjs'
import { invoke } from './http.mjs'

export const stamp = path.join(build, 'tests/plugins/stamp.so')

// fn.yaml of a load balancer that stamps `mark` twice into every call.
export function lbYaml({ port, addresses, mark = 'a', placer = 'naive', functions = { echo: {} }, http = '', more = '',
  overriders, pool, second = '', file = stamp, plugins = '' }) {
  return `node: lb
http: { listen: "127.0.0.1:${port}"${http} }
plugin_dir: ${path.join(build, 'plugins')}
plugins:
  trial_timeout: 400ms
  start_timeout: 400ms
  placer: { use: ${placer} }
  pool: ${pool ?? `{ use: static, runners: [${addresses.map((a) => `"${a}"`).join(', ')}] }`}
  overriders: ${overriders ?? `
    - { use: stamp, file: ${file}, name: first, mark: ${mark} }
    - { use: stamp, file: ${file}, name: second, mark: ${mark}${second} }`}
  listeners: [{ use: stamp, file: ${file} }]
  ${plugins}
${more}
${appsYaml(functions)}`
}

// What a runner needs so that echo can show the stamp.
export const stampDriver = `driver:
  - { use: process, root: ${path.join(build, 'functions')} }
  - { use: env, inner: process, extension: mark, variable: FN_MARK }`

export class ReloadLb {
  static async start(options) {
    const lb = new ReloadLb()
    lb.options = { port: await freePort(), ...options }
    lb.node = await Fnd.start('lb', lb.options.port, lbYaml(lb.options), { env: options.env })
    lb.file = path.join(lb.node.dir, 'fn.yaml')
    return lb
  }

  // By rename, and old enough to be read at once.
  write(text) {
    writeFileSync(`${this.file}.new`, text, { mode: 0o600 })
    utimesSync(`${this.file}.new`, 1, 1)
    renameSync(`${this.file}.new`, this.file)
  }

  // -> { code, out, err } of the command line.
  command(...args) {
    return new Promise((resolve) => {
      execFile(path.join(build, 'fnd'), [...args, '--config', this.file], (error, out, err) => {
        resolve({ code: error ? error.code : 0, out, err })
      })
    })
  }

  async reload(changes = {}) {
    this.write(lbYaml({ ...this.options, ...changes }))
    return this.command('reload')
  }

  // The stamp that a call of echo got.
  async mark(headers = {}) {
    const answer = await invoke(this.node, fnId('echo'), '', { 'Echo-Env': 'FN_MARK', ...headers })
    if (answer.status !== 200) throw new Error(`status ${answer.status}: ${answer.text}`)
    return answer.text.trim().split(' ')[1]
  }

  // When fn.yaml cannot tell where it is.
  socket() {
    return this.node.adminSocket
  }

  stop() {
    return this.node.stop()
  }
}

// Calls of echo, one after the other on each connection, until stop(): -> Map of stamp -> count, and failures.
export function load(lb, connections) {
  const marks = new Map()
  const failures = []
  let running = true
  const workers = Array.from({ length: connections }, async () => {
    while (running) {
      const mark = await lb.mark().catch((e) => { failures.push(String(e)) })
      if (mark) marks.set(mark, (marks.get(mark) ?? 0) + 1)
    }
  })
  return { marks, failures, stop: async () => {
    running = false
    await Promise.all(workers)
    return { marks, failures }
  } }
}

// What must not grow from reload to reload.
export function resources(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const value = (name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)[1])
  return { rssKiB: value('VmRSS'), threads: value('Threads'), fds: readdirSync(`/proc/${pid}/fd`).length,
    maps: readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n').filter((l) => /\.so|memfd/.test(l)).length }
}

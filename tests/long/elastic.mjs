// What the long runs share: certificates of a cluster, each node with its own, and a node pool manager whose machines are
// processes here.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { build } from '../e2e/lib/node.mjs'

// Makes those of `fnd certs demo` and one for each of the load balancers, which a manager knows by them.
export function makeCerts(to, balancers) {
  execFileSync(path.join(build, 'fnd'), ['certs', 'demo', to])
  for (const name of balancers) {
    const file = (end) => path.join(to, `${name}.${end}`)
    writeFileSync(file('ext'), `subjectAltName=URI:spiffe://fnd/${name},DNS:${name},IP:127.0.0.1\n`)
    const openssl = (...args) => execFileSync('openssl', args, { stdio: 'ignore' })
    openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', `/CN=${name}`, '-keyout', file('key'), '-out', file('csr'))
    openssl('x509', '-req', '-days', '90', '-in', file('csr'), '-CA', `${to}/ca.pem`, '-CAkey', `${to}/ca.key`, '-CAcreateserial', '-extfile', file('ext'), '-out', file('pem'))
  }
}

export const tlsEntry = (certs, name, more = '') => `{ cert: ${certs}/${name}.pem, key: ${certs}/${name}.key, ca: ${certs}/ca.pem${more} }`

// Its fn.yaml. dir: for the state of its control plane, its base and its socket; env: of the runners; npm: further options.
export function managerYaml({ dir, certs, port, grpc, runnerMb, groups, driver, env = {}, npm = '' }) {
  const state = path.join(dir, 's')
  const base = path.join(dir, 'base.yaml')
  const program = path.join(dir, 'fnd-runner')
  mkdirSync(state)
  writeFileSync(base, `runner: { memory_total: ${runnerMb}MiB, iofs_path: ${state}, writable_root: true }
plugin_dir: ${build}/plugins
drain_timeout: 5s
tls: { TLSGRPCServer: ${tlsEntry(certs, 'runner-1')} }
plugins:
  ${driver}
`)
  const exported = Object.entries(env).map(([k, v]) => `export ${k}='${v}'\n`).join('')
  writeFileSync(program, `#!/bin/sh\n${exported}exec ${build}/fnd "$@" >${dir}/log.elastic.$$ 2>&1\n`, { mode: 0o755 })
  return `
node: npm
http: { listen: "127.0.0.1:${port}" }
grpc: { listen: "127.0.0.1:${grpc}", tls: node, probe_interval: 500ms, probe_timeout: 500ms }
admin: { socket: ${dir}/npm.sock }
plugin_dir: ${build}/plugins
drain_timeout: 5s
npm:
  groups: [${groups.join(', ')}]
  settle: 500ms
  loss_brake: 500ms
  cooldown: 1s
  poll: 200ms
  drain_settle: 300ms
  drain_timeout: 5s
  silence_max: 3s
  backoff_max: 1s
  boot_timeout: 15s
  request_life: 15s
  runner_mb: ${runnerMb}
  group_runners_max: 3
${npm}
plugins:
  control_plane: { use: process, state: ${state}, program: ${program}, base: ${base}, capacity: ${runnerMb} }
tls: { node: ${tlsEntry(certs, 'npm-1', ', server_name: runner-1')} }
`
}

// Runners of the manager with this folder that live.
export function elasticPids(dir) {
  const state = path.join(dir, 's')
  return readdirSync(state, { withFileTypes: true }).filter((d) => d.isDirectory()).flatMap((g) => {
    const group = path.join(state, g.name)
    return readdirSync(group).flatMap((id) => {
      try {
        const pid = Number(readFileSync(path.join(group, id, 'pid'), 'utf8'))
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`${group}/${id}/fn.yaml`) ? [pid] : []
      } catch { return [] /* it goes */ }
    })
  })
}

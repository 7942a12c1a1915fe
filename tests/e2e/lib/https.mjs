// A full node whose HTTP port speaks HTTPS, and its certificates.
import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tls from 'node:tls'
import { Pki } from './certs.mjs'
import { appsYaml } from './cluster.mjs'
import { Fnd, build, freePort, tempDir, until } from './node.mjs'

export const pki = new Pki()
export const ca = readFileSync(pki.ca.cert)
export const leaf = (cn, { by = pki.ca, key } = {}) => pki.issue({ cn, by, key, ext: [`subjectAltName=URI:spiffe://fnd/${cn},DNS:localhost,IP:127.0.0.1`] })
export const files = (c) => ({ cert: readFileSync(c.cert), key: readFileSync(c.key) })

// entry: further lines of the entry of tls:; the files are the node's own, to be replaced.
export async function startHttps({ name = 'web', entry = [], http = `tls: ${name}`, functions = { hello: {} }, runner = '', more = '', wait = true, env } = {}) {
  const dir = tempDir()
  const port = await freePort()
  const own = leaf('web-1')
  copyFileSync(own.cert, path.join(dir, 'cert.pem'))
  copyFileSync(own.key, path.join(dir, 'key.pem'))
  const node = await Fnd.start('full', port, `
http: { listen: "127.0.0.1:${port}"${http ? `, ${http}` : ''} }
admin: { socket: ${dir}/admin.sock }
plugin_dir: ${path.join(build, 'plugins')}
plugins: { driver: { use: process, root: ${path.join(build, 'functions')} } }
runner: { iofs_path: ${tempDir()}, writable_root: true${runner} }
${more}
tls:
  ${name}:
    cert: ${dir}/cert.pem
    key: ${dir}/key.pem
${entry.map((l) => `    ${l.replace('DIR', dir)}`).join('\n')}
${appsYaml(functions)}`, { wait: false, env: env ?? (wait ? {} : { ASAN_OPTIONS: 'detect_leaks=0' }) }) // one that does not start frees nothing
  node.files = dir
  node.yaml = path.join(node.dir, 'fn.yaml')
  node.replace = (file, text) => {
    writeFileSync(path.join(dir, `${file}.new`), text, { mode: 0o600 })
    renameSync(path.join(dir, `${file}.new`), path.join(dir, file))
  }
  if (wait) {
    const listening = () => new Promise((resolve) => {
      const s = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false })
      s.on('error', () => resolve(!!node.exit))
      s.on('secureConnect', () => { s.destroy(); resolve(true) })
    })
    await until('the node listens', listening, 20_000)
    assert.equal(node.exit, null, node.log)
  }
  return node
}

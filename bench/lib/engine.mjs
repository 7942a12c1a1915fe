// The container engine alone, over its API: what a driver cannot do without.
import http from 'node:http'
import { docker, socketPath } from '../../tests/e2e/lib/docker.mjs'

const agent = new http.Agent({ keepAlive: true, maxSockets: 64 })

export function engineCall(method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = body ? { 'Content-Type': 'application/json' } : {}
    const req = http.request({ socketPath, agent, method, path, headers }, (res) => {
      let text = ''
      res.on('data', (d) => { text += d })
      res.on('end', () => (res.statusCode < 300 ? resolve(text && JSON.parse(text)) : reject(new Error(`${method} ${path}: ${text}`))))
    })
    req.on('error', reject)
    req.end(body && JSON.stringify(body))
  })
}

export const mountOf = (iofs) => ({ Type: 'bind', Source: iofs, Target: '/tmp/iofs' })

// What somebody would have to send to get this container again, but for the directory of its socket and its labels.
export async function bodyOf(id, iofs, label) {
  const { Config, HostConfig } = await engineCall('GET', `/containers/${id}/json`)
  return { ...Config, Labels: { [label]: '' }, HostConfig: { ...HostConfig, Mounts: [mountOf(iofs)] } }
}

export async function createAndStart(body) {
  const { Id } = await engineCall('POST', '/containers/create', body)
  await engineCall('POST', `/containers/${Id}/start`)
  return Id
}

export const remove = (id) => engineCall('DELETE', `/containers/${id}?force=1`)

export const containersWith = (label) => docker('ps', '-aq', '--no-trunc', '--filter', `label=${label}`).split('\n').filter(Boolean)

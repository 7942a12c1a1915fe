// An API node that is a script: it answers as Go's does, changes its mind, fails in every way and counts what it
// is asked. One app, "demo", with the functions hello, echo and ledger and a trigger for each.
import http from 'node:http'
import { fnId } from './cluster.mjs'

const CHANGES = '/v2/runner/changes' // a question of fnd's own, which Go's node does not know
export const APP = '01APP000000000000000000000'

export class ApiNode {
  constructor() {
    Object.assign(this, { asked: [], fault: null, delayMs: 0, hanging: new Set() })
    this.apps = { [APP]: { id: APP, name: 'demo', config: { FROM_APP: 'app' } } }
    this.fns = {}
    this.triggers = {}
    for (const name of ['hello', 'echo', 'ledger']) {
      this.fns[fnId(name)] = { id: fnId(name), app_id: APP, name, image: `fnd/${name}:latest`, memory: 128, timeout: 30, idle_timeout: 30 }
      this.triggers[`/${name}`] = { id: `01TRG-${name}`, name, app_id: APP, fn_id: fnId(name), type: 'http', source: `/${name}` }
    }
    this.server = http.createServer((req, res) => {
      if (this.delayMs) setTimeout(() => this.#answer(req, res), this.delayMs)
      else this.#answer(req, res)
    })
  }

  static async start(port = 0) {
    const api = new ApiNode()
    await api.listen(port)
    return api
  }

  async listen(port = this.port) {
    await new Promise((resolve, reject) => {
      this.server.once('error', reject)
      this.server.listen(port, '127.0.0.1', resolve)
    })
    this.port = this.server.address().port
  }

  #find(url) {
    const missing = (noun) => [404, { message: `${noun} not found` }]
    const found = (value, noun) => (value ? [200, value] : missing(noun))
    const part = (re) => re.exec(url)?.slice(1).map(decodeURIComponent)
    let m
    if ((m = part(/^\/v2\/fns\/([^/?]+)$/))) return found(this.fns[m[0]], 'Fn')
    if ((m = part(/^\/v2\/apps\/([^/?]+)$/))) return found(this.apps[m[0]], 'App')
    if ((m = part(/^\/v2\/apps\?name=([^&]+)$/))) {
      return [200, { next_cursor: '', items: Object.values(this.apps).filter((a) => a.name === m[0]) }]
    }
    if ((m = part(/^\/v2\/fns\?app_id=([^&]+)&name=([^&]+)$/))) {
      return [200, { next_cursor: '', items: Object.values(this.fns).filter((f) => f.app_id === m[0] && f.name === m[1]) }]
    }
    // The source begins with a slash of its own.
    if ((m = part(/^\/v2\/runner\/apps\/([^/]+)\/triggerBySource\/http\/(\/.*)$/))) {
      return m[0] === APP ? found(this.triggers[m[1]], 'Trigger') : missing('App')
    }
    if (url.startsWith(CHANGES)) return missing('Path')
    return [400, { message: `unexpected request ${url}` }]
  }

  #answer(req, res) {
    if (!req.url.startsWith(CHANGES)) this.asked.push(req.url)
    if (this.fault === 'hang') return this.hanging.add(res)
    if (this.fault === 'cut') return req.socket.destroy()
    if (typeof this.fault === 'function') return this.fault(req, res)
    const [status, value] = this.#find(req.url)
    res.writeHead(status, { 'Content-Type': 'application/json' })
    res.end(JSON.stringify(value))
  }

  // Requests by path since the last call.
  counts() {
    const counts = {}
    for (const url of this.asked.splice(0)) counts[url] = (counts[url] ?? 0) + 1
    return counts
  }

  heal() {
    this.fault = null
    for (const res of this.hanging) res.destroy()
    this.hanging.clear()
  }

  async stop() {
    this.heal()
    const closed = new Promise((r) => this.server.close(r))
    this.server.closeAllConnections()
    await closed
  }
}

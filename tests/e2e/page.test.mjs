// The page for operators, in a real browser: every view, a runner that dies, a call that nobody takes and
// its why, the acts; who is kept out; and that long tables stay short.
// FND_SHOTS=<folder> keeps a picture of each view.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Browser, noBrowser } from './lib/browser.mjs'
import { Ledger, fnId, startLb, startRunner } from './lib/cluster.mjs'
import { Elastic } from './lib/elastic.mjs'
import { invoke, request } from './lib/http.mjs'
import { ca, files, leaf, pki } from './lib/https.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'

const fnd = (node, ...args) => spawnSync(path.join(build, 'fnd'), [...args, '--config', path.join(node.dir, 'fn.yaml')],
  { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH } })

// { url: 'http://127.0.0.1:40071/', token, link: both }
function pageOf(node) {
  const { url, token } = JSON.parse(fnd(node, 'page', '--json').stdout)
  return { url, token, link: `${url}#token=${token}`, headers: { 'fnd-token': token } }
}

const EVIL = '<img src=x onerror="document.title=1">'
const shot = (browser, name) => process.env.FND_SHOTS && browser.screenshot(path.join(process.env.FND_SHOTS, `operator-${name}.png`))
const shown = (browser, selector, pattern) => until(`${selector} shows ${pattern}`, async () => pattern.test(await browser.text(selector)))

async function go(browser, view, title) {
  await browser.run(`location.hash = '#/${view}'`)
  await shown(browser, 'h1', title)
}

// Snapshots of a stream: take(n) gives the next n.
class Feed {
  constructor(page) {
    this.events = []
    this.req = http.get(`${page.url}feed`, { headers: page.headers, agent: false }, (res) => {
      let rest = ''
      res.setEncoding('utf8').on('data', (text) => {
        const parts = (rest + text).split('\n\n')
        rest = parts.pop()
        for (const part of parts) {
          const [, name, data] = /^event: (\w+)\ndata: (.*)$/s.exec(part)
          this.events.push([name, data])
        }
      }).on('error', () => {})
    }).on('error', () => {})
  }

  async snapshots(n) {
    await until(`${n} snapshots`, () => this.events.filter(([name]) => name === 'snapshot').length >= n, 20_000)
    return this.events.filter(([name]) => name === 'snapshot').map(([, data]) => JSON.parse(data))
  }

  close() {
    this.req.destroy()
  }
}

describe('the page for operators', { skip: noBrowser }, () => {
  const ledger = new Ledger()
  const runners = []
  let lb, page, browser

  before(async () => {
    for (let i = 0; i < 2; i++) runners.push(await startRunner({ name: `runner${i}`, runner: 'memory_total: 256MiB' }))
    lb = await startLb({
      addresses: runners.map((r) => r.address),
      plugins: 'shadow: { use: p2c, name: next }',
      functions: { hello: {}, ledger: { memory: 200, timeout: 60, config: { LEDGER_FILE: ledger.file } }, evil: { image: EVIL.replaceAll(' ', '') } },
    })
    await until('all runners are up', async () => (await lb.metric('fn_lb_runners_up')) === 2)
    page = pageOf(lb)
    browser = await Browser.start({ width: 1200, height: 900 })
  })

  after(async () => {
    await browser?.stop()
    await lb?.stop()
    await Promise.all(runners.map((r) => r.stop()))
  })

  it('keeps others out', async () => {
    const ask = (at, { host, ...headers } = {}, method = 'GET') => request(page.url + at, { method, headers: { ...page.headers, ...headers, ...host ? { host } : {} } })
    assert.equal((await ask('tables/functions')).status, 200)
    assert.match((await request(`${page.url}tables/functions`)).text, /ADM1303 .* got no token; expected the one that `fnd page` prints/)
    assert.equal((await ask('tables/functions', { 'fnd-token': 'f'.repeat(32) })).status, 401)
    assert.equal((await request(`${page.url}session`)).status, 401, 'it is for certificates')
    for (const at of ['', 'tables/functions']) {
      const evil = await ask(at, { host: 'evil.example' })
      assert.deepEqual([evil.status, /ADM1301/.test(evil.text)], [403, true])
    }
    for (const headers of [{ origin: 'http://evil.example' }, { origin: 'null' }, { 'sec-fetch-site': 'cross-site' }]) {
      const evil = await ask('admin/reload', headers, 'POST')
      assert.deepEqual([evil.status, /ADM1302/.test(evil.text)], [403, true])
    }
    assert.doesNotMatch(lb.log, /asked on the operator's page/)
    assert.equal((await ask('feed', {}, 'POST')).status, 405)
    assert.equal((await ask('../fn.yaml')).status, 404)
    const { headers } = await request(page.url)
    assert.match(headers['content-security-policy'], /default-src 'none'; script-src 'self'; .*connect-src 'self';.*frame-ancestors 'none'/)
    assert.equal(headers['access-control-allow-origin'], undefined)
  })

  it('asks whoever has no token for it', async () => {
    await browser.open(page.url)
    await shown(browser, 'h1', /needs its token/)
    await browser.type('#token', page.token)
    await browser.keys('\uE007')
    await shown(browser, '#live', /live/)
    assert.equal(await browser.text('h1'), 'Overview')
  })

  it('shows a load balancer at work', async () => {
    for (let i = 0; i < 40; i++) await invoke(lb, fnId('hello'))
    const runs = invoke(lb, fnId('ledger'), '3000 runs')
    await until('it runs', () => ledger.read().size === 1)
    await browser.open(page.link)
    await shown(browser, '.tiles', /Runners connected\s+2 of 2/)
    await shown(browser, '.tiles', /Under way\s+1/)
    assert.ok(await browser.run('return document.querySelectorAll("figure svg polyline").length') >= 6)
    await shot(browser, 'overview')
    await go(browser, 'calls', /Calls/)
    await shown(browser, 'tbody', /(offered|started)\s+the \w+.*\s+(demo\/ledger|01FNLEDGER)/)
    await shot(browser, 'calls')
    await go(browser, 'functions', /Functions/)
    await shown(browser, 'tbody', /demo\/hello\s.*\s40\s/)
    await shot(browser, 'functions')
    await go(browser, 'runners', /Runners/)
    await shown(browser, 'tbody', new RegExp(`${runners[0].address}[\\s\\S]*up`))
    await shot(browser, 'runners')
    await go(browser, 'plugins', /Plugins/)
    await shown(browser, 'tbody', /naive\s+placer[\s\S]*static\s+pool/)
    await shot(browser, 'plugins')
    await go(browser, 'peers', /Peers/)
    await shown(browser, 'tbody', /up/)
    await shot(browser, 'peers')
    await go(browser, 'shadow', /Shadow/)
    await shown(browser, 'main', /Agree\s+\d+/)
    await shot(browser, 'shadow')
    await go(browser, 'node', /Node/)
    await shown(browser, 'main', /Configuration\s+\S+fn.yaml[\s\S]*Hardening/)
    await shot(browser, 'node')
    assert.equal((await runs).status, 200)
  })

  it('finds by the node, and sorts, without a mouse', async () => {
    await go(browser, 'functions', /Functions/)
    await browser.type('#find', 'DEMO/LED')
    await shown(browser, 'tbody', /^demo\/ledger\s/)
    await browser.run('document.getElementById("find").value = ""; document.getElementById("find").dispatchEvent(new Event("input"))')
    await shown(browser, '.find', /2 in all/)
    await browser.run('document.querySelector("thead button").focus()')
    await browser.keys('\uE007')
    assert.equal(await browser.run('return document.querySelector("th[aria-sort]").innerText.trim()'), 'Function')
    await new Feed(page).snapshots(2).then(() => {}) // another snapshot: the focus stays
    assert.equal(await browser.run('return document.activeElement.textContent'), 'Function')
  })

  it('a call that nobody took is one click from its why', async () => {
    const answer = await invoke(lb, fnId('evil'))
    assert.ok(answer.status >= 400)
    await go(browser, 'errors', /Errors/)
    const id = answer.headers['fn-call-id']
    await shown(browser, 'tbody', new RegExp(id))
    await shot(browser, 'errors')
    await browser.clickLink(id)
    await shown(browser, 'h1', /Why/)
    assert.match(await browser.text('main'), new RegExp(`${id}[\\s\\S]*Attempts[\\s\\S]*127\\.0\\.0\\.1:`))
    await shot(browser, 'why')
    assert.equal(await browser.run('return document.querySelectorAll("main img").length'), 0)
    await browser.run("location.hash = '#/why/01NOSUCHCALL00000000000000'")
    await shown(browser, 'main', /LB307 unknown call/)
  })

  it('a runner that died comes first', async () => {
    await runners[1].kill()
    await go(browser, 'runners', /Runners/)
    await until('it is first, and down', async () => new RegExp(`^${runners[1].address.replaceAll('.', '\\.')}\\s+● down|^${runners[1].address}\\s+down`).test((await browser.text('tbody')).trim()))
    await shot(browser, 'down')
    await go(browser, '', /Overview/)
    await shown(browser, '.tiles', /Runners connected\s+1 of 2/)
    await runners[1].start()
    await shown(browser, '.tiles', /Runners connected\s+2 of 2/)
  })

  it('reloads when it is told twice, with a line in the log', async () => {
    const file = path.join(lb.dir, 'fn.yaml')
    const good = readFileSync(file, 'utf8')
    await go(browser, 'node', /Node/)
    await browser.click('main button')
    await browser.click('dialog button[value="no"]')
    assert.doesNotMatch(lb.log, /asked on the operator's page/)
    writeFileSync(file, `${good}\nnonsense: 1\n`)
    await browser.click('main button')
    await shot(browser, 'ask')
    await browser.keys('\t\uE007') // from Cancel to Reload
    await shown(browser, '.told', /not taken[\s\S]*CFG702/)
    writeFileSync(file, good)
    await browser.click('main button')
    await browser.click('#ask-yes')
    await shown(browser, '.told', /Reload: taken/)
    await until('its lines', () => [...lb.log.matchAll(/asked on the operator's page.*/g)].length === 2)
    assert.match(lb.log, /asked on the operator's page.*POST.*\/reload.*127\.0\.0\.1:\d+.*200/)
  })

  it('says so when the node is gone, and goes on when it is back', async () => {
    await lb.kill()
    await shown(browser, '#live', /does not answer/)
    await lb.start()
    await browser.open('about:blank')
    page = pageOf(lb) // another token, another port
    await browser.open(page.link)
    await shown(browser, '#live', /live/)
    assert.deepEqual((await browser.complaints()).filter((l) => !/ERR_|Failed to load resource/.test(l)), [])
  })

  it('fits a phone, and the dark', async () => {
    await browser.emulate({ width: 390, height: 844, dark: true })
    try {
      for (const [view, title] of [['', /Overview/], ['functions', /Functions/], ['node', /Node/]]) {
        await go(browser, view, title)
        assert.equal(await browser.run('return innerWidth'), 390, view) // what does not fit makes it wider
        await shot(browser, `phone-${view || 'overview'}`)
      }
      assert.equal(await browser.run('return matchMedia("(prefers-color-scheme: dark)").matches'), true)
    } finally {
      await browser.plain()
    }
  })

  it('shows a runner\'s containers, and nothing that it has not', async () => {
    const own = pageOf(runners[0])
    await invoke(lb, fnId('hello'))
    await browser.open(own.link)
    await shown(browser, '#views', /Overview\s+Functions\s+Calls\s+Containers\s+Plugins\s+Node/)
    await go(browser, 'functions', /Functions/)
    await go(browser, 'containers', /Containers/)
    await shot(browser, 'containers')
  })

  it('drains a runner of a pool', async () => {
    const e = await Elastic.start({ functions: { hello: { memory: 128 } } })
    try {
      assert.equal((await invoke(e.lbs[0], fnId('hello'))).status, 200)
      await browser.open(pageOf(e.npm).link)
      await shown(browser, '#live', /live/)
      await go(browser, 'pool', /Pool/)
      await shown(browser, 'main', /active[\s\S]*Drain\s*Replace/)
      await browser.run('[...document.querySelectorAll("td button")].find((b) => b.textContent === "Drain").focus()')
      await browser.keys('\uE007')
      await browser.click('#ask-yes')
      await shown(browser, 'main', /draining[\s\S]*Undrain/)
      await shot(browser, 'pool')
      assert.match(e.npm.log, /asked on the operator's page.*\/runners\/drain\//)
    } finally {
      await e.stop()
    }
  })
})

describe('long tables', () => {
  const RUNNERS = 10_000
  const FUNCTIONS = 2400 // as many as a file may have
  const PAGES = 50

  it('10 000 runners, 2 400 functions, 50 pages', { timeout: 60_000 }, async () => {
    const addresses = Array.from({ length: RUNNERS }, (_, i) => `127.1.${i >> 8}.${i & 255}:1`)
    const names = Array.from({ length: FUNCTIONS }, (_, i) => `f${String(i).padStart(4, '0')}`)
    const many = await startLb({ addresses, more: 'grpc: { reconnect_first: 10s, reconnect_max: 60s }' })
    const lb = await startLb({ addresses: ['127.0.0.1:1'], functions: Object.fromEntries(names.map((n) => [n, {}])), lb: 'placement_timeout: 1ms' })
    const feeds = []
    try {
      for (let i = 0; i < FUNCTIONS; i += 100) await Promise.all(names.slice(i, i + 100).map((n) => invoke(lb, fnId(n))))
      const page = pageOf(lb)
      const found = JSON.parse((await request(`${page.url}tables/functions?q=demo/f123&n=200`, { headers: page.headers })).text)
      assert.deepEqual([found.found, found.seen, found.rows.length], [10, FUNCTIONS, 10])
      const cpu = () => readFileSync(`/proc/${lb.pid}/stat`, 'utf8').split(' ').slice(13, 15).reduce((sum, n) => sum + Number(n), 0) / 100
      for (let i = 0; i < PAGES; i++) feeds.push(new Feed(page))
      await Promise.all(feeds.map((f) => f.snapshots(1)))
      const [before, began] = [cpu(), Date.now()]
      const of = await Promise.all(feeds.map((f) => f.snapshots(4)))
      const share = (cpu() - before) / ((Date.now() - began) / 1000)
      assert.ok(share < 0.1, `50 pages cost ${(100 * share).toFixed(1)} % of a core`)
      if (process.env.FND_FIGURES) console.log(`50 pages: ${(100 * share).toFixed(2)} % of a core, ${feeds[0].events[1][1].length} bytes a snapshot`)
      assert.deepEqual([of[0][3].tables.functions.seen, of[0][3].tables.functions.rows.length], [FUNCTIONS, 60])
      const texts = new Set(feeds[0].events.map(([, data]) => data))
      assert.ok(of[PAGES - 1].length >= 4 && feeds[PAGES - 1].events.filter(([name, data]) => name === 'snapshot' && texts.has(data)).length >= 3, 'one snapshot for all')
      const wide = new Feed(pageOf(many))
      feeds.push(wide)
      const [first] = await wide.snapshots(1)
      assert.deepEqual([first.tables.runners.seen, first.tables.runners.rows.length, first.figures.runners], [RUNNERS, 60, RUNNERS])
      assert.ok(wide.events.at(-1)[1].length < 40_000, 'bytes of a snapshot')
    } finally {
      for (const f of feeds) f.close()
      await Promise.all([lb.stop(), many.stop()])
    }
  })

  it('more pages than there may be are told so', { timeout: 30_000 }, async () => {
    const lb = await startLb({ addresses: ['127.0.0.1:1'] })
    const page = pageOf(lb)
    const feeds = Array.from({ length: 64 }, () => new Feed(page))
    try {
      await Promise.all(feeds.map((f) => f.snapshots(1)))
      const more = await request(`${page.url}feed`, { headers: page.headers })
      assert.deepEqual([more.status, /ADM1304/.test(more.text)], [503, true])
      assert.equal(await lb.metric('fn_page_readers'), 64)
      feeds.pop().close()
      await until('one has gone', async () => (await lb.metric('fn_page_readers')) === 63)
    } finally {
      for (const f of feeds) f.close()
      await lb.stop()
    }
  })
})

describe('beyond this machine', () => {
  it('is refused without TLS and client certificates, with a sentence', () => {
    const check = (admin, tls = '') => {
      const file = path.join(tempDir(), 'fn.yaml')
      writeFileSync(file, `node: api\nadmin: ${admin}\n${tls}`)
      return spawnSync(path.join(build, 'fnd'), ['check', '--config', file], { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH } }).stderr
    }
    assert.match(check('{ page: ":9080" }'), /CFG704 .*: page, got ":9080"; expected an address of the loopback such as 127.0.0.1:9080, or page_tls/)
    assert.match(check('{ page: "10.0.0.1:9080" }'), /an address of the loopback/)
    assert.match(check('{ page: "unix:/x" }'), /expected host:port/)
    assert.match(check('{ page: ":9080", page_tls: web }', 'tls: { web: { cert: /c, key: /k } }\n'), /expected an entry with cert, key and ca/)
    assert.match(check('{ page: ":9080", page_tls: nobody }'), /the name of an entry of tls/)
  })

  it('lets in who has a certificate, and turns off by one key', async () => {
    const own = leaf('node')
    const port = await freePort()
    const dir = tempDir()
    const node = await Fnd.start('api', port, `
node: api
http: { listen: "127.0.0.1:${port}" }
store: { url: "sqlite3://${path.join(dir, 'fn.db')}" }
admin: { page: ":0", page_tls: operators }
tls: { operators: { cert: ${own.cert}, key: ${own.key}, ca: ${pki.ca.cert} } }
`)
    try {
      const { url } = pageOf(node)
      assert.match(url, /^https:/)
      const ask = (at, { headers = {}, ...more } = {}) => new Promise((resolve, reject) => https.get(`https://127.0.0.1:${new URL(url).port}${at}`,
        { ca, headers, agent: false, ...more }, (res) => res.setEncoding('utf8').on('data', (text) => resolve({ status: res.statusCode, text }))).on('error', reject))
      await assert.rejects(ask('/'), 'nobody without a certificate')
      const operator = files(leaf('operator'))
      const { token } = JSON.parse((await ask('/session', operator)).text)
      assert.equal((await ask('/admin/status', operator)).status, 401)
      const { text } = await ask('/admin/status', { ...operator, headers: { 'fnd-token': token } })
      assert.equal(JSON.parse(text).node, 'api')
    } finally {
      await node.stop()
    }
    const off = await startLb({ addresses: ['127.0.0.1:1'], more: 'admin: { page: off }' })
    try {
      assert.match(fnd(off, 'page').stderr, /this node has no operator's page: admin.page is off/)
    } finally {
      await off.stop()
    }
  })
})

describe('a node that drains', () => {
  it('has its page to the end', async () => {
    const runner = await startRunner()
    const lb = await startLb({ addresses: [runner.address], functions: { slow: { image: 'sleeper' } } })
    const page = pageOf(lb)
    const running = invoke(lb, fnId('slow'), '2000')
    await until('the call runs', async () => await lb.metric('fn_running') === 1)
    lb.signal('SIGTERM')
    await until('it drains', () => lb.log.includes('draining'))
    const status = await request(`${page.url}admin/status`, { headers: page.headers, keepAlive: false })
    assert.match(status.text, /"draining"/)
    assert.equal((await running).status, 200)
    await Promise.all([lb.stop(), runner.stop()])
  })
})

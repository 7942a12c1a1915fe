// The page for function authors, in a real browser: what it shows, that its form calls, what it says
// when something is wrong, and that nothing of a tenant becomes part of the page.
// FND_SHOTS=<folder> keeps a picture of each view.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Browser, noBrowser } from './lib/browser.mjs'
import { request } from './lib/http.mjs'
import { build, Fnd, freePort, tempDir, until } from './lib/node.mjs'

const EVIL = '</script><img src=x onerror="document.title=1">'
const FUNCTIONS = 120 // more than one page of the API

describe('the page for function authors', { skip: noBrowser }, () => {
  let node, browser, app, hello

  const post = async (at, body) => JSON.parse((await request(node.url(at), { method: 'POST', body: JSON.stringify(body) })).text)
  const shown = (selector, pattern) => until(`${selector} shows ${pattern}`, async () => pattern.test(await browser.text(selector)))
  const shot = (name) => process.env.FND_SHOTS && browser.screenshot(path.join(process.env.FND_SHOTS, `author-${name}.png`))
  const go = async (hash) => {
    await browser.open(node.url(`/${hash}`))
    await until('the view is there', () => browser.run('return document.getElementById("main").getAttribute("aria-busy") === "false"'))
  }

  before(async () => {
    const port = await freePort()
    node = await Fnd.start('full', port, `
node: full
http: { listen: "127.0.0.1:${port}" }
store: { url: "sqlite3://${path.join(tempDir(), 'fn.db')}" }
runner: { iofs_path: "${tempDir()}" }
plugins: { driver: { use: process, root: "${path.join(build, 'functions')}" } }
`)
    app = await post('/v2/apps', { name: 'shop', config: { DB: EVIL } })
    hello = await post('/v2/fns', { app_id: app.id, name: 'hello', image: 'fnd/hello:latest', memory: 64 })
    await post('/v2/triggers', { app_id: app.id, fn_id: hello.id, name: 'hi', type: 'http', source: '/hi' })
    const many = await post('/v2/apps', { name: 'many' })
    for (let i = 0; i < FUNCTIONS; i++) await post('/v2/fns', { app_id: many.id, name: `f${String(i).padStart(3, '0')}`, image: 'fnd/echo', memory: 64 })
    browser = await Browser.start()
  })

  after(async () => {
    await browser?.stop()
    await node?.stop()
  })

  test('a browser gets the page, everybody else what Go Fn answers', async () => {
    const page = await request(node.url('/'), { headers: { accept: 'text/html,application/xhtml+xml' } })
    assert.match(page.headers['content-type'], /^text\/html/)
    assert.match(page.headers['content-security-policy'], /default-src 'none'/)
    for (const accept of ['application/json', '*/*']) {
      assert.match((await request(node.url('/'), { headers: { accept } })).text, /hello/)
    }
    assert.equal((await request(node.url('/ui/app.js'), { method: 'HEAD' })).status, 200)
    assert.equal((await request(node.url('/ui/../fn.yaml'))).status, 404)
    assert.equal((await request(node.url('/ui/app.js'), { method: 'POST' })).status, 404)
  })

  test('from the apps to a function, by links and back', async () => {
    await go('')
    assert.equal(await browser.text('h1'), 'Apps')
    await shot('apps')
    await browser.clickLink('shop')
    await shown('h1', /^shop$/)
    assert.match(await browser.text('main'), /fnd\/hello:latest[\s\S]*64 MB[\s\S]*hi\s+\/hi/)
    await shot('app')
    await browser.clickLink('hello')
    await shown('h1', /^hello$/)
    await browser.back()
    await shown('h1', /^shop$/)
  })

  test('how to call it stands there, and works', async () => {
    await go(`#/fns/${hello.id}`)
    await shot('function')
    const text = await browser.text('main')
    const [, url] = /curl -X POST -d '{"name":"World"}' '([^']+)'/.exec(text)
    assert.match((await request(url, { method: 'POST', body: '{"name":"World"}' })).text, /World/)
    const [, trigger] = /curl '([^']+\/t\/shop\/hi)'/.exec(text)
    assert.equal((await request(trigger)).status, 200)
    assert.match(text, /fn invoke shop hello/)
  })

  test('the form calls, also without a mouse', async () => {
    await go(`#/fns/${hello.id}`)
    await browser.type('#body', '{"name":"Page"}')
    await browser.click('form button')
    await shown('.answer', /^200[\s\S]*in \d+ ms, ok[\s\S]*Hello Page/)
    await shot('answer')
    await browser.run('document.getElementById("detached").focus()')
    await browser.keys(' ')
    await browser.keys('\uE007')
    await shown('.answer', /^202/)
  })

  test('a long list grows by its button', async () => {
    await go('')
    await browser.clickLink('many')
    await shown('h1', /^many$/)
    const rows = () => browser.run('return document.querySelectorAll("tbody tr").length')
    assert.equal(await rows(), 100)
    await browser.click('.row button')
    await until('the rest is there', async () => await rows() === FUNCTIONS)
    assert.equal(await browser.run('return document.querySelector(".row button").hidden'), true)
  })

  test('what tenants wrote is text', async () => {
    await go(`#/apps/${app.id}`)
    assert.ok((await browser.text('main')).includes(EVIL))
    assert.equal(await browser.run('return document.querySelectorAll("main img, main script").length'), 0)
    assert.deepEqual(await browser.complaints(), [])
  })

  test('what is not there, and an API that is gone, are told', async () => {
    await go('#/fns/01NOSUCHFUNCTION0000000000')
    assert.match(await browser.text('main'), /Fn not found/)
    await go('')
    await node.kill()
    await browser.run('location.hash = "#/apps/x"')
    await shown('main', /The API does not answer/)
    await shot('gone')
    await node.start()
    await browser.click('main button')
    await shown('main', /App not found/)
  })

  test('an API that asks for a token gets it from a field', async () => {
    const port = await freePort()
    const hash = createHash('sha256').update('sesame').digest('hex')
    const api = await Fnd.start('api', port, `
node: api
http: { listen: "127.0.0.1:${port}" }
store: { url: "sqlite3://${path.join(tempDir(), 'fn.db')}" }
api: { tokens: ["me admin ${hash}"], read_without_token: false }
`)
    try {
      await browser.open(api.url('/'))
      await shown('main', /asks for a token/)
      await browser.type('#token', 'wrong')
      await browser.click('main button')
      await shown('main', /does not know this token/)
      await browser.type('#token', 'sesame')
      await browser.click('main button')
      await shown('main', /There is no app yet/)
    } finally {
      await api.stop()
    }
  })

  test('it fits a phone, and the dark', async () => {
    const phone = await Browser.start({ width: 500, height: 900, dark: true })
    try {
      await phone.open(node.url(`/#/fns/${hello.id}`))
      await until('the view is there', async () => await phone.text('h1') === 'hello')
      assert.ok(await phone.run('return document.documentElement.scrollWidth <= innerWidth'))
      if (process.env.FND_SHOTS) await phone.screenshot(path.join(process.env.FND_SHOTS, 'author-phone.png'))
    } finally {
      await phone.stop()
    }
  })
})

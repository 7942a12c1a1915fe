// A real browser, headless: Debian's Chromium, driven by its ChromeDriver over the WebDriver protocol,
// which is JSON over HTTP.
import { spawn } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { temporary } from './leftovers.mjs'
import { freePort, until } from './node.mjs'

const DRIVER = '/usr/bin/chromedriver'
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf' // the protocol's name of a reference

// For `skip`: false, or why there is none.
export const noBrowser = existsSync(DRIVER) ? false : 'no Chromium with its driver is installed'

// Nothing that it would do by itself: no look-ups, no updates, nothing kept.
const ARGS = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-dev-shm-usage',
  '--disable-background-networking', '--disable-component-update', '--disable-sync']

export class Browser {
  static async start({ width = 1000, height = 900, dark = false } = {}) {
    const b = new Browser()
    const port = await freePort()
    b.base = `http://127.0.0.1:${port}`
    b.child = spawn(DRIVER, [`--port=${port}`], { stdio: 'ignore' })
    b.ended = new Promise((resolve) => b.child.once('close', resolve))
    await until('the driver is ready', () => b.#ask('GET', '/status').then((v) => v.ready, () => false), 30_000)
    const args = [...ARGS, `--user-data-dir=${temporary('/tmp/fnd-browser-')}`, `--window-size=${width},${height}`,
      ...(dark ? ['--force-dark-mode'] : [])]
    const { sessionId } = await b.#ask('POST', '/session', { capabilities: { alwaysMatch: { 'goog:chromeOptions': { args }, 'goog:loggingPrefs': { browser: 'ALL' } } } })
    b.base += `/session/${sessionId}`
    return b
  }

  async #ask(method, path, body) {
    const answer = await fetch(this.base + path, { method, body: body && JSON.stringify(body) })
    const { value } = await answer.json()
    if (value?.error) throw new Error(`${value.error}: ${value.message.split('\n')[0]}`)
    return value
  }

  open(url) {
    return this.#ask('POST', '/url', { url })
  }

  // What is written in the first element of a selector, as a person sees it.
  text(selector) {
    return this.run(`return document.querySelector(${JSON.stringify(selector)})?.innerText ?? ''`)
  }

  run(script) {
    return this.#ask('POST', '/execute/sync', { script, args: [] })
  }

  async #find(using, value) {
    return Object.values(await this.#ask('POST', '/element', { using, value }))[0]
  }

  async click(selector) {
    return this.#ask('POST', `/element/${await this.#find('css selector', selector)}/click`, {})
  }

  async clickLink(text) {
    return this.#ask('POST', `/element/${await this.#find('link text', text)}/click`, {})
  }

  async type(selector, text) {
    return this.#ask('POST', `/element/${await this.#find('css selector', selector)}/value`, { text })
  }

  // Keys where the focus is, as somebody without a mouse would.
  async keys(text) {
    const at = (await this.#ask('GET', '/element/active'))[ELEMENT]
    return this.#ask('POST', `/element/${at}/value`, { text })
  }

  // As on a device of that many CSS pixels, which may be less than a window's least, in the dark or not.
  async emulate({ width, height, dark }) {
    const cdp = (cmd, params) => this.#ask('POST', '/goog/cdp/execute', { cmd, params })
    await cdp('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: true })
    await cdp('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] })
  }

  async plain() {
    await this.#ask('POST', '/goog/cdp/execute', { cmd: 'Emulation.clearDeviceMetricsOverride', params: {} })
    await this.#ask('POST', '/goog/cdp/execute', { cmd: 'Emulation.setEmulatedMedia', params: { features: [] } })
  }

  back() {
    return this.#ask('POST', '/back', {})
  }

  // What the page told the console: errors, and what its policy refused.
  async complaints() {
    return (await this.#ask('POST', '/se/log', { type: 'browser' })).filter((l) => l.level === 'SEVERE').map((l) => l.message)
  }

  async screenshot(file) {
    writeFileSync(file, Buffer.from(await this.#ask('GET', '/screenshot'), 'base64'))
  }

  async stop() {
    await this.#ask('DELETE', '').catch(() => {})
    this.child.kill()
    await this.ended
  }
}

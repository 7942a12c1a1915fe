// The page for function authors: what the API knows, how to call it, and a form that does.
//
// It shows what /v2 answers and keeps nothing. Where one is stands behind the # of its address: so
// every view has a link, and the browser's Back works. Text of tenants only ever becomes text nodes.
import { facts, h, link, table } from '/ui/dom.js'

const PAGE = 100 // items of a list that are asked for at once, the API's own limit
const SHOWN_BYTES = 64 * 1024 // of an answer
const INVOKE_URL = 'fnproject.io/fn/invokeEndpoint'
const HTTP_URL = 'fnproject.io/trigger/httpEndpoint'

const main = document.getElementById('main')
const trail = document.getElementById('trail')

function pairs(title, object) {
  const keys = Object.keys(object ?? {}).sort()
  if (keys.length === 0) return null
  return [h('h2', {}, title),
    table(['Key', 'Value'], keys.map((k) => [h('code', {}, k),
      h('code', {}, typeof object[k] === 'string' ? object[k] : JSON.stringify(object[k]))]))]
}

// A line for the terminal, with a button that copies it.
function command(text) {
  const button = h('button', { type: 'button', onclick: async () => {
    await copy(text)
    button.textContent = 'Copied'
    setTimeout(() => { button.textContent = 'Copy' }, 1500)
  } }, 'Copy')
  return h('div', { class: 'copy' }, h('pre', { class: 'card' }, text), button)
}

// Browsers have a clipboard for pages of https and of this machine only.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const area = h('textarea', {}, text)
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

const time = (text) => h('time', { datetime: text, title: text }, new Date(text).toLocaleString())
const shell = (text) => `'${String(text).replaceAll("'", "'\\''")}'`

// ---- the API -------------------------------------------------------------------------------------

class ApiError extends Error {}

// A token is for this tab alone, and sent to the API alone.
const TOKEN = 'fnd-token'
class TokenError extends ApiError {}

async function api(path, query = {}) {
  const search = new URLSearchParams(Object.entries(query).filter(([, v]) => v))
  const url = `/v2/${path}${search.size ? `?${search}` : ''}`
  const token = sessionStorage.getItem(TOKEN)
  const headers = { accept: 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) }
  const answer = await fetch(url, { headers }).catch(() => {
    throw new ApiError('The API does not answer.')
  })
  const body = await answer.json().catch(() => ({}))
  if (answer.status === 401) throw new TokenError(token ? 'The API does not know this token.' : 'This API asks for a token.')
  if (!answer.ok) throw new ApiError(body.message ?? `${url} answered ${answer.status}.`)
  return body
}

const part = encodeURIComponent

// A list that grows by a button, as the API gives it page by page.
async function list(path, query, columns, row, nothing) {
  const body = h('tbody')
  const more = h('button', { type: 'button', onclick: () => next().catch(fail) }, 'More')
  const whole = table(columns, [])
  let cursor
  async function next() {
    more.disabled = true
    const page = await api(path, { ...query, per_page: PAGE, cursor })
    cursor = page.next_cursor
    for (const item of page.items) body.append(...table(columns, [row(item)]).querySelectorAll('tbody > tr'))
    more.disabled = false
    more.hidden = !cursor
    return page.items.length
  }
  whole.querySelector('tbody').replaceWith(body)
  return await next() > 0 ? [whole, h('div', { class: 'row' }, more)] : h('p', { class: 'soft' }, nothing)
}

// ---- views ---------------------------------------------------------------------------------------

async function showApps() {
  return [[], h('h1', {}, 'Apps'),
    await list('apps', {}, ['Name', 'Changed', 'Id'],
      (a) => [link(`#/apps/${part(a.id)}`, a.name), time(a.updated_at), h('span', { class: 'id' }, a.id)],
      ['There is no app yet. ', h('code', {}, 'fn create app NAME'), ' makes one.'])]
}

async function showApp(id) {
  const app = await api(`apps/${part(id)}`)
  const fns = await list('fns', { app_id: id }, ['Name', 'Image', '#Memory', '#Timeout', 'Changed'],
    (f) => [link(`#/fns/${part(f.id)}`, f.name), h('code', {}, f.image ?? ''), `${f.memory} MB`,
      `${f.timeout} s`, time(f.updated_at)],
    ['It has no function yet. In the folder of one: ', h('code', {}, `fn deploy --app ${app.name} --local`)])
  const triggers = await list('triggers', { app_id: id }, ['Trigger', 'Path', 'Function'],
    (t) => [t.name, h('code', {}, t.source), link(`#/fns/${part(t.fn_id)}`, 'function')],
    'It has no trigger.')
  return [[app.name], h('h1', {}, app.name), h('div', { class: 'id' }, app.id),
    h('h2', {}, 'Functions'), fns, h('h2', {}, 'Triggers'), triggers,
    pairs('Configuration', app.config), pairs('Annotations', app.annotations)]
}

async function showFn(id) {
  const fn = await api(`fns/${part(id)}`)
  const app = await api(`apps/${part(fn.app_id)}`)
  const triggers = (await api('triggers', { app_id: fn.app_id, fn_id: id, per_page: PAGE })).items
  const url = fn.annotations?.[INVOKE_URL] ?? `${location.origin}/invoke/${fn.id}`
  const about = [['Image', h('code', {}, fn.image ?? '')], ['Memory', `${fn.memory} MB`],
    ['Time limit', `${fn.timeout} s`], ['Kept ready for', `${fn.idle_timeout} s`],
    ['Made', time(fn.created_at)], ['Changed', time(fn.updated_at)]]
  return [[link(`#/apps/${part(app.id)}`, app.name), fn.name],
    h('h1', {}, fn.name), h('div', { class: 'id' }, fn.id),
    facts(about),
    h('h2', {}, 'Call it'),
    command(`curl -X POST -d ${shell('{"name":"World"}')} ${shell(url)}`),
    command(`fn invoke ${app.name} ${fn.name}`),
    triggers.map((t) => command(`curl ${shell(t.annotations?.[HTTP_URL] ?? `${location.origin}/t/${app.name}${t.source}`)}`)),
    h('h2', {}, 'Try it'), tryForm(url),
    pairs('Configuration', fn.config), pairs('Configuration of the app', app.config),
    pairs('Annotations', fn.annotations)]
}

// ---- a call --------------------------------------------------------------------------------------

function tryForm(url) {
  const body = h('textarea', { id: 'body', spellcheck: 'false' })
  const type = h('input', { id: 'type', value: 'application/json', size: 24 })
  const detached = h('input', { id: 'detached', type: 'checkbox' })
  const button = h('button', { type: 'submit' }, 'Call')
  const answer = h('div', { class: 'answer', role: 'status' })
  return h('form', { onsubmit: async (event) => {
    event.preventDefault()
    button.disabled = true
    answer.replaceChildren('Waiting for the answer …')
    answer.replaceChildren(...await call(url, body.value, type.value, detached.checked))
    button.disabled = false
  } },
  h('label', { for: 'body' }, 'Body'), body,
  h('div', { class: 'row' }, h('label', { for: 'type' }, 'Content-Type'), type,
    h('span', {}, detached, ' ', h('label', { for: 'detached' }, 'detached: answered at once, runs on')), button),
  answer)
}

// What a person wants to know of a call: how it ended, how long it took, what came back.
async function call(url, body, type, detached) {
  const headers = { 'content-type': type || 'application/octet-stream' }
  const began = performance.now()
  if (detached) headers['fn-invoke-type'] = 'detached'
  try {
    const answer = await fetch(url, { method: 'POST', body, headers })
    const text = await answer.text()
    const ms = Math.round(performance.now() - began)
    const facts = [answer.headers.get('fn-outcome'), answer.headers.get('content-type')].filter(Boolean)
    const id = answer.headers.get('fn-call-id')
    return [h('strong', { class: answer.ok ? 'good' : 'bad' }, `${answer.status} ${answer.statusText}`),
      h('span', { class: 'soft' }, ` in ${ms} ms`, facts.map((f) => `, ${f}`)),
      id ? h('div', { class: 'id' }, `call ${id}`) : null,
      h('pre', { class: 'card' }, text.length > SHOWN_BYTES ? `${text.slice(0, SHOWN_BYTES)} …` : text || '(empty)')]
      .filter(Boolean)
  } catch {
    return [h('strong', { class: 'bad' }, 'No answer. '),
      `${new URL(url).origin} does not answer, or does not let pages of ${location.origin} call: ` +
      'then name this address in http.cors_origins of the load balancer.']
  }
}

// ---- which view ----------------------------------------------------------------------------------

const views = [
  [/^#?\/?$/, showApps],
  [/^#\/apps\/([^/]+)$/, showApp],
  [/^#\/fns\/([^/]+)$/, showFn],
]

function tokenForm() {
  const token = h('input', { id: 'token', type: 'password', autocomplete: 'off', size: 40 })
  return h('form', { onsubmit: (event) => {
    event.preventDefault()
    sessionStorage.setItem(TOKEN, token.value.trim())
    show()
  } }, h('label', { for: 'token' }, 'Token'), token, ' ', h('button', { type: 'submit' }, 'Use it'))
}

function fail(error) {
  main.replaceChildren(h('h1', {}, 'This cannot be shown'), h('p', { class: 'bad' }, error.message),
    error instanceof TokenError ? tokenForm() : h('button', { type: 'button', onclick: show }, 'Try again'))
}

function setTrail(steps) {
  trail.replaceChildren(...[link('#/', 'Apps'), ...steps].flatMap((s, i) => i ? [h('span', {}, '/'), s] : [s]))
}

let shown = 0 // the newest view that was asked for; an older one that comes late is dropped

async function show() {
  const mine = ++shown
  const [pattern, view] = views.find(([p]) => p.test(location.hash)) ?? views[0]
  const [, id] = location.hash.match(pattern) ?? []
  main.setAttribute('aria-busy', 'true')
  try {
    const [steps, ...content] = await view(id && decodeURIComponent(id))
    if (mine !== shown) return
    setTrail(steps)
    main.replaceChildren(...content.flat(Infinity).filter((c) => c != null))
    document.title = main.querySelector('h1').textContent
  } catch (error) {
    if (mine !== shown) return
    setTrail([])
    fail(error)
  }
  main.setAttribute('aria-busy', 'false')
  scrollTo(0, 0)
}

addEventListener('hashchange', () => { show(); main.focus() })
fetch('/version').then((a) => a.json()).then((v) => {
  document.getElementById('version').textContent = `fnd ${v.version}`
}).catch(() => {})
show()

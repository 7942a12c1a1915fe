// The operator's page: what a node is and does, as it tells once a second.
//
// One stream (GET /feed) brings everything; a view is drawn anew with each snapshot, in place, so that
// the focus and what somebody types stay. Where one is stands behind the # of the address. Whoever
// looks away (another tab) reads nothing meanwhile. Text of tenants only ever becomes text nodes.
import { facts, h, link } from '/ui/dom.js'
import { Plot, bars, short } from '/ui/plot.js'

const TOKEN = 'fnd-operator-token'
const KEPT_MS = 15 * 60_000 // of the plots
const AGAIN_MS = 2000 // to the next try when the stream has ended
const FIND_MS = 250 // after the last key, before the node is asked

const main = document.getElementById('main')
const nav = document.getElementById('views')
const live = document.getElementById('live')
const who = document.getElementById('who')

let snapshot // the last one
let points = [] // [{ at, figures }]: what plots are made of
let view // the one that is shown: { nodes, update }

// ---- the node ------------------------------------------------------------------------------------

class Refused extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

async function ask(path, { method = 'GET', signal } = {}) {
  const answer = await fetch(path, { method, signal, headers: { 'fnd-token': sessionStorage.getItem(TOKEN) ?? '' } })
    .catch((e) => { throw new Refused(0, e.name === 'AbortError' ? 'stopped' : 'The node does not answer.') })
  if (answer.ok) return answer
  const body = await answer.json().catch(() => ({}))
  throw Object.assign(new Refused(answer.status, body.message ?? `${path} answered ${answer.status}.`), { body })
}

const asked = async (path, options) => (await ask(path, options)).json()

// `fnd page` puts the token behind the #, where no server and no other page sees it.
async function takeToken() {
  const [, given] = /^#token=([0-9a-f]+)$/.exec(location.hash) ?? []
  if (given) {
    sessionStorage.setItem(TOKEN, given)
    history.replaceState(null, '', '#/')
  } else if (location.protocol === 'https:') {
    const { token } = await fetch('/session').then((a) => a.json()).catch(() => ({}))
    if (token) sessionStorage.setItem(TOKEN, token)
  }
}

// ---- the stream ----------------------------------------------------------------------------------

let reading // an AbortController while the stream is open

function setLive(kind, text) {
  if (live.className !== kind || live.textContent !== text) {
    live.className = kind
    live.textContent = text
  }
}

// Events are "event: NAME\ndata: JSON\n\n".
async function* events(body) {
  let rest = ''
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + chunk).split('\n\n')
    rest = parts.pop()
    for (const part of parts) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/s.exec(part) ?? []
      if (name) yield [name, JSON.parse(data)]
    }
  }
}

function onHistory({ step_s, at_ms, values }) {
  const names = Object.keys(values)
  const n = values[names[0]]?.length ?? 0
  points = Array.from({ length: n }, (_, i) => ({ at: at_ms - (n - 1 - i) * step_s * 1000,
    figures: Object.fromEntries(names.map((name) => [name, values[name][i]])) }))
}

function onSnapshot(s) {
  const first = !snapshot
  for (const t of Object.values(s.tables)) t.rows = objects(t)
  snapshot = s
  points.push({ at: s.at_ms, figures: s.figures })
  points = points.filter((p) => p.at > s.at_ms - KEPT_MS)
  setLive('good', 'live')
  drawHeader()
  if (first || !view) show()
  else view.update?.()
}

const objects = ({ columns, rows }) => rows.map((row) => Object.fromEntries(row.map((v, i) => [columns[i], v])))

async function read() {
  while (!document.hidden) {
    reading = new AbortController()
    try {
      const answer = await ask('/feed', { signal: reading.signal })
      for await (const [name, data] of events(answer.body)) {
        if (name === 'history') onHistory(data)
        else if (name === 'snapshot') onSnapshot(data)
      }
      throw new Refused(0, 'The node has ended the stream.')
    } catch (e) {
      if (document.hidden) break
      setLive('bad', e.status === 401 ? 'not let in' : 'the node does not answer')
      if (e.status === 401) {
        showToken(e.message)
        break
      }
      if (!snapshot) main.replaceChildren(h('p', { class: 'bad' }, e.message))
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
  }
  reading = null
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden) reading?.abort()
  else if (!reading) read()
})

// ---- words ---------------------------------------------------------------------------------------

const rate = (perHour) => perHour >= 36_000 ? `${short(Math.round(perHour / 3600))}/s`
  : perHour >= 3600 ? `${(perHour / 3600).toFixed(1)}/s` : perHour > 0 ? `${(perHour / 60).toFixed(1)}/min` : '0'
const span = (us) => !us ? '–' : us < 1000 ? `${us} µs` : us < 1e6 ? `${(us / 1000).toPrecision(3)} ms` : `${(us / 1e6).toPrecision(3)} s`
const age = (ms) => ms < 1000 ? `${ms} ms` : ms < 100_000 ? `${Math.round(ms / 1000)} s`
  : ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : ms < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} days`
const mb = (n) => n ? n >= 10_240 ? `${(n / 1024).toFixed(1)} GB` : `${n} MB` : '–'
const size = (n) => n ? mb(n) : '0 MB' // where nothing is not unknown
const clock = (ms) => new Date(ms).toLocaleTimeString()
const code = (text) => text ? h('code', {}, text) : '–'
const call = (id) => id ? link(`#/why/${encodeURIComponent(id)}`, id) : '–'
const UP = ['up', 'active', 'busy', 'run', 'running', 'on', 'serving']
const OFF = ['down', 'failing', 'removing', 'off']
const state = (word) => h('span', { class: `state ${UP.includes(word) ? 'up' : OFF.includes(word) ? 'off' : 'between'}` }, word)

const has = (table) => snapshot?.tables[table] !== undefined
const rowsOf = (table) => snapshot.tables[table]?.rows ?? []

// Names of functions where the node knows them.
function fnName(id) {
  if (!id) return '–'
  const f = rowsOf('functions').find((row) => row.fn_id === id)
  return f?.name?.includes('/') ? h('span', { title: id }, f.name) : h('code', {}, id)
}

// ---- a table that lives --------------------------------------------------------------------------

// columns: [{ name, value: (row) => what is sorted by, show: (row) => content, number }]. Rows keep
// their elements by key, and cells that say the same are left alone.
class Live {
  constructor(key, columns, nothing) {
    this.key = key
    this.columns = columns
    this.nothing = nothing
    this.rows = new Map()
    this.heads = columns.map((c, i) => h('th', { class: c.number ? 'number' : null, scope: 'col' },
      c.value ? h('button', { type: 'button', onclick: () => this.sort(i) }, c.name) : c.name))
    this.body = h('tbody')
    this.empty = h('p', { class: 'soft', hidden: '' }, nothing)
    this.scroll = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'table' },
      h('table', {}, h('thead', {}, h('tr', {}, this.heads)), this.body))
    this.nodes = [this.scroll, this.empty]
  }

  sort(i) {
    this.down = this.by === i ? !this.down : Boolean(this.columns[i].number)
    this.by = i
    this.heads.forEach((th, at) => at === i ? th.setAttribute('aria-sort', this.down ? 'descending' : 'ascending') : th.removeAttribute('aria-sort'))
    this.update(this.last)
  }

  sorted(list) {
    if (this.by === undefined) return list
    const { value } = this.columns[this.by]
    const sign = this.down ? -1 : 1
    return [...list].sort((a, b) => sign * (typeof value(a) === 'number' ? value(a) - value(b) : String(value(a) ?? '').localeCompare(String(value(b) ?? ''))))
  }

  update(list) {
    this.last = list
    const old = this.rows
    this.rows = new Map()
    const trs = this.sorted(list).map((row) => {
      const key = this.key(row)
      const tr = old.get(key) ?? h('tr', {}, this.columns.map((c) => h('td', { class: c.number ? 'number' : c.wide ? 'wide' : 'text' })))
      this.rows.set(key, tr)
      this.columns.forEach((c, i) => this.fill(tr.children[i], c, row))
      return tr
    })
    const stays = this.body.contains(document.activeElement) // a row that moves would lose the focus
    if (!stays || trs.length !== this.body.children.length) {
      trs.forEach((tr, i) => { if (this.body.children[i] !== tr) this.body.insertBefore(tr, this.body.children[i] ?? null) })
      while (this.body.children.length > trs.length) this.body.lastChild.remove()
    }
    this.scroll.hidden = list.length === 0
    this.empty.hidden = list.length > 0
  }

  fill(td, column, row) {
    const content = column.show(row)
    const text = content instanceof Node ? content.outerHTML : String(content ?? '–')
    if (td.shown === text) return
    td.shown = text
    td.replaceChildren(content ?? '–')
  }
}

const col = (name, field, show, more = {}) => ({ name, value: (row) => row[field], show: (row) => show ? show(row[field], row) : row[field], ...more })
const num = (name, field, show) => col(name, field, show ?? short, { number: true })

// A view of one table, with a field that asks the node for rows beyond those that it shows.
function tableView(title, table, key, columns, nothing, intro) {
  const list = new Live((row) => row[key], columns, nothing)
  const told = h('span', { class: 'soft', role: 'status' })
  let words = '' // that are looked for
  let later
  let own // the answer to them
  const field = h('input', { type: 'search', id: 'find', autocomplete: 'off', spellcheck: 'false', oninput: () => {
    clearTimeout(later)
    later = setTimeout(find, FIND_MS)
  } })
  async function find() {
    words = field.value.trim()
    const mine = words
    if (!mine) {
      own = null
      update()
      return
    }
    try {
      const found = await asked(`/tables/${table}?n=200&q=${encodeURIComponent(mine)}`)
      if (mine !== words) return
      found.rows = objects(found)
      own = found
      update()
    } catch (e) {
      told.textContent = e.message
    }
  }
  function update() {
    const t = own ?? snapshot.tables[table]
    list.update(t.rows)
    told.textContent = t.more ? `the first ${t.rows.length} of ${own || !t.seen ? short(t.found) : t.found > t.rows.length ? short(t.found) : 'more'}` : `${t.rows.length} in all`
  }
  const again = setInterval(() => { if (words && !document.hidden) find() }, 5000) // rows that were looked for
  return { title, update: () => { if (!own) update() }, close: () => { clearInterval(again); clearTimeout(later) },
    nodes: [h('h1', {}, title), intro ? h('p', { class: 'soft' }, intro) : null,
      h('div', { class: 'row find' }, h('label', { for: 'find' }, 'Find'), field, told), list.nodes] }
}

// ---- acts ----------------------------------------------------------------------------------------

const dialog = document.getElementById('ask')

function confirmed(title, text, yes) {
  document.getElementById('ask-title').textContent = title
  document.getElementById('ask-text').textContent = text
  document.getElementById('ask-yes').textContent = yes
  dialog.returnValue = 'no'
  dialog.showModal()
  return new Promise((resolve) => dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true }))
}

const told = h('div', { class: 'told', role: 'status' }) // how the last act ended

async function act(path, { title, text, yes }) {
  if (!await confirmed(title, text, yes)) return
  told.className = 'told soft'
  told.textContent = 'asked …'
  try {
    const answer = await asked(`/admin${path}`, { method: 'POST' })
    told.className = 'told good'
    told.textContent = [`${title}: ${answer.message ?? 'done'}`, ...answer.problems ?? []].join('\n')
  } catch (e) {
    told.className = 'told bad'
    told.textContent = [`${title}: ${e.message}`, ...e.body?.problems ?? []].join('\n')
  }
}

const button = (text, onclick) => h('button', { type: 'button', onclick }, text)

const reloadButton = () => button('Reload configuration', () => act('/reload', { title: 'Reload',
  text: 'The node reads its file again. A file with mistakes changes nothing.', yes: 'Reload' }))

function hostActs(row) {
  const id = `${row.group}/${row.id}`
  const on = (word, text, yes) => button(yes, () => act(`/runners/${word}/${id}`, { title: `${yes} ${row.id}`, text, yes }))
  return h('span', {}, row.operator_drain
    ? on('undrain', 'It gets calls again.', 'Undrain')
    : on('drain', `It gets no new calls; the ${row.calls} that run there end. It stays until you say otherwise.`, 'Drain'),
  on('replace', 'Another one is provisioned; then it gets no new calls, and goes when it is empty.', 'Replace'))
}

// ---- views ---------------------------------------------------------------------------------------

const perSecond = (name) => (i) => i === 0 ? NaN
  : Math.max(0, (points[i].figures[name] - points[i - 1].figures[name]) / (points[i].at - points[i - 1].at) * 1000)
const level = (name) => (i) => points[i].figures[name]
const series = (of) => points.map((p, i) => ({ at: p.at, values: of.map((f) => f(i)) })).filter((p) => p.values.some(Number.isFinite))

// [title, [[name, (i) => value], …], unit]: those whose figures this node has.
function plotsHere() {
  const f = snapshot.figures
  return [
    'received' in f && ['Calls a second', [['received', perSecond('received')], ['failed', perSecond('failed')]], '/s'],
    'in_flight' in f && ['Calls under way', [['all', level('in_flight')], ['waiting', level('waiting')]], ''],
    'runners' in f && ['Runners', [['known', level('runners')], ['connected', level('runners_up')]], ''],
    'runner_received' in f && !('received' in f) && ['Calls a second', [['received', perSecond('runner_received')]], '/s'],
    'containers' in f && ['Containers', [['all', level('containers')], ['with a call', level('running')], ['kept warm', level('warm')]], ''],
    'used_mb' in f && ['Memory of containers', [['used', level('used_mb')]], ' MB'],
    'wanted_mb' in f && ['Pool: demand and size', [['wanted', level('wanted_mb')], ['decided', level('desired_mb')], ['active', level('active_mb')], ['booting', level('booting_mb')]], ' MB'],
    'hosts' in f && ['Pool: runners', [['runners', level('hosts')], ['calls that wait', level('pool_waiting')]], ''],
  ].filter(Boolean)
}

function tilesHere() {
  const { figures: f, about: a } = snapshot
  const last = points.length - 1
  const now = (name) => short(Math.round(perSecond(name)(last) || 0))
  return [
    ['State', a.state],
    'received' in f && ['Calls a second', now('received')],
    'in_flight' in f && ['Under way', short(f.in_flight)],
    'waiting' in f && ['Waiting for a runner', short(f.waiting)],
    'runners' in f && ['Runners connected', `${short(f.runners_up)} of ${short(f.runners)}`],
    'runner_received' in f && !('received' in f) && ['Calls a second', now('runner_received')],
    'running' in f && ['Running here', short(f.running)],
    'containers' in f && ['Containers', short(f.containers)],
    'hosts' in f && ['Runners of the pool', short(f.hosts)],
    'wanted_mb' in f && ['Wanted', size(f.wanted_mb)],
    'active_mb' in f && ['Active', size(f.active_mb)],
    a.api?.waiting !== undefined && ['Waiting for the store', short(a.api.waiting)],
    ['Up for', age(a.uptime_s * 1000)],
  ].filter(Boolean)
}

function overview() {
  const tiles = new Map()
  const box = h('div', { class: 'tiles' })
  const plots = plotsHere().map(([title, lines, unit]) => [new Plot(title, lines.map(([name]) => name), unit), lines.map(([, of]) => of)])
  const errors = has('errors') ? new Live((row) => row.call_id, errorColumns(), 'No call has failed lately.') : null
  return { title: 'Overview', nodes: [h('h1', {}, 'Overview'), box, h('div', { class: 'plots' }, plots.map(([p]) => p.figure)),
    errors ? [h('h2', {}, 'Last errors'), errors.nodes] : null],
  update() {
    for (const [name, value] of tilesHere()) {
      if (!tiles.has(name)) {
        const at = h('div', { class: 'value' })
        tiles.set(name, at)
        box.append(h('div', { class: 'tile' }, h('div', { class: 'name' }, name), at))
      }
      if (tiles.get(name).textContent !== value) tiles.get(name).textContent = value
    }
    for (const [plot, of] of plots) plot.draw(series(of))
    errors?.update(rowsOf('errors').slice(0, 5))
  } }
}

const errorColumns = () => [
  col('Call', 'call_id', call), num('At', 'at_ms', clock), col('Function', 'fn_id', fnName), col('Outcome', 'outcome'), num('Status', 'status', String),
  num('Took', 'took_ms', age), col('Error', 'error', (e) => e || 'the function\'s own', { wide: true })]

const functionsView = () => tableView('Functions', 'functions', 'fn_id', [
  col('Function', 'name', (name, row) => name?.includes('/') ? h('span', { title: row.fn_id }, name) : code(row.fn_id)),
  num('Rate', 'per_hour', rate), num('Median', 'p50_us', span), num('95 %', 'p95_us', span), num('99 %', 'p99_us', span),
  num('Cold starts', 'cold', (n, row) => n ? `${short(n)} (${(100 * n / row.calls).toPrecision(2)} %)` : '0'),
  num('Failed', 'failed'), num('Calls', 'calls'), num('Last', 'idle_ms', (ms) => `${age(ms)} ago`)],
'No function was called yet.', 'Times of the last one to two minutes, whole calls. The busiest functions first; find others by name or id.')

const runnersView = () => tableView('Runners', 'runners', 'address', [
  col('Runner', 'address', code), col('State', 'state', state), num('Calls from here', 'calls'), col('Group', 'group'),
  num('Capacity', 'capacity_mb', mb), col('Labels', 'labels', null, { wide: true })],
'The pool lists no runner.', 'Those that need somebody first, then the busiest.')

const callsView = () => tableView('Calls', 'calls', 'call_id', [
  col('Call', 'call_id', has('errors') ? call : code), num('Age', 'age_ms', age), col('State', 'state'), col('Waits for', 'waits_for'), col('Function', 'fn_id', fnName),
  has('runners') ? col('Runner', 'runner', code) : col('Container', 'container_id', code),
  ...has('runners') ? [num('Offered', 'offers', (n) => `${n} times`)] : []],
'No call is under way.', 'The oldest first.')

const containersView = () => tableView('Containers', 'containers', 'container_id', [
  col('Container', 'container_id', code), col('State', 'state', state), num('For', 'age_ms', age), col('Waits for', 'waits_for'), col('Function', 'fn_id', fnName),
  col('Image', 'image', code), num('Memory', 'mem_mb', mb), col('Kept warm', 'warm', (w) => w ? 'yes' : 'no')],
'There is no container.')

const peersView = () => tableView('Peers', 'peers', 'address', [
  col('Peer', 'address', code), col('State', 'state', state), num('For', 'age_ms', age), col('Waits for', 'waits_for'), col('Why', 'why', null, { wide: true }),
  col('Labels', 'labels')], 'This node connects to nobody.')

const errorsView = () => tableView('Errors', 'errors', 'call_id', errorColumns(), 'No call has failed lately.',
  'Of the last calls that ended here (lb.why_calls), the newest first.')

function poolView() {
  const groups = new Live((row) => row.name, [col('Group', 'name'), num('Wanted', 'wanted_mb', size), num('Decided', 'desired_mb', size), num('Active', 'active_mb', size),
    num('Booting', 'booting_mb', size), num('Waiting calls', 'waiting'), num('Balancers', 'lbs'), col('It says', 'says', null, { wide: true }),
    col('Control plane', 'cplane_error', (e) => e ? h('span', { class: 'bad' }, e) : 'answers', { wide: true })], 'There is no group.')
  const [plot, of] = plotsHere().filter(([title]) => title === 'Pool: demand and size')
    .map(([title, lines, unit]) => [new Plot(title, lines.map(([name]) => name), unit), lines.map(([, f]) => f)])[0]
  const hosts = tableView('Runners', 'hosts', 'id', [
    col('Runner', 'id', code), col('State', 'state', state), { name: 'Acts', show: hostActs }, num('Calls', 'calls'), num('Capacity', 'capacity_mb', mb),
    num('For', 'since_ms', age), col('Group', 'group'), col('Why', 'why', null, { wide: true }), col('Address', 'address', code)], 'The pool has no runner.')
  const [, ...rest] = hosts.nodes
  return { title: 'Pool', close: hosts.close, nodes: [h('h1', {}, 'Pool'), h('div', { class: 'plots' }, plot.figure), h('h2', {}, 'Groups'), groups.nodes, h('h2', {}, 'Runners'), told, rest],
    update() {
      plot.draw(series(of))
      groups.update(rowsOf('groups'))
      hosts.update()
    } }
}

function pluginsView() {
  const list = new Live((row) => `${row.kind} ${row.name}`, [col('Plugin', 'name'), col('Kind', 'kind'), col('Factory', 'use', code), num('Calls', 'calls'),
    num('A second', 'rate', short), num('Over budget', 'budget_misses'), num('Of its calls', 'share', (n) => n ? `${(100 * n).toPrecision(2)} %` : '0')], 'No plugin is loaded.')
  let before
  return { title: 'Plugins', nodes: [h('h1', {}, 'Plugins'), h('p', { class: 'soft' }, 'A call over budget held up the node\'s loop for longer than plugins.loop_budget.'), list.nodes],
    update() {
      const { plugins } = snapshot.about
      list.update(plugins.map((p, i) => ({ ...p, share: p.calls ? p.budget_misses / p.calls : 0,
        rate: before && before.at < snapshot.at_ms ? Math.round((p.calls - (before.plugins[i]?.calls ?? 0)) * 1000 / (snapshot.at_ms - before.at)) : 0 })))
      before = { at: snapshot.at_ms, plugins }
    } }
}

function shadowView() {
  const box = h('div')
  const acts = h('div', { class: 'row' },
    button('Swap', () => act('/shadow/swap', { title: 'Swap', text: 'The shadow decides from now on, and the serving one is only asked.', yes: 'Swap' })),
    button('Back', () => act('/shadow/back', { title: 'Back', text: 'The one that served first decides again.', yes: 'Back' })))
  return { title: 'Shadow', nodes: [h('h1', {}, 'Shadow placement'), box, acts, told], update() {
    const s = snapshot.about.shadow
    const percent = (n) => s.asked ? `${short(n)} (${(100 * n / s.asked).toFixed(1)} %)` : '0'
    const role = (name, r) => [name, `named a free runner ${short(r.picks.free)} times, one that refused ${short(r.picks.refused)}, one that is down ${short(r.picks.down)}; the same as last time ${short(r.homes.same)}, another ${short(r.homes.moved)}`]
    box.replaceChildren(facts([['Serving', s.serving], ['Shadow', `${s.shadow}, ${s.off_why ? `off: ${s.off_why}` : `asked for ${s.permille / 10} % of calls`}`],
      ['For', age(s.for_s * 1000)], ['Asked', short(s.asked)], ['Agree', percent(s.agree)], ['Disagree', percent(s.disagree)],
      role('Serving', s.serving_role), role('Shadow', s.shadow_role),
      ['Predicted wait', `${s.waits.serving_ms.toFixed(2)} ms serving, ${s.waits.shadow_ms.toFixed(2)} ms shadow, over ${short(s.waits.predicted)}`]]))
  } }
}

function nodeView() {
  const box = h('div')
  let before
  return { title: 'Node', nodes: [h('h1', {}, 'Node'), h('div', { class: 'row' }, reloadButton()), told, box], update() {
    const a = snapshot.about
    const c = a.config
    const rows = [['Type', a.node], ['Version', a.version], ['State', a.state], ['Process', String(a.pid)],
      ['Up since', new Date(snapshot.at_ms - a.uptime_s * 1000).toLocaleString()], ['Configuration', a.file ? h('code', {}, a.file) : 'FN_ variables alone'],
      ['Generation', `${c.generation}, loaded at ${c.from}, ${c.alive} alive`], ['HTTP', h('code', {}, a.http)], ['Transport', a.transport], ['Plugins', a.summary],
      ...c.problems ? [['Refused reload', `at ${c.refused_at}: ${c.problems.join('; ')}`]] : [],
      ...Object.entries(a.hardening ?? {}).map(([name, value]) => [`Hardening: ${name.replaceAll('_', ' ')}`, plain(value)])]
    const text = JSON.stringify(rows.map(([name, value]) => [name, value.textContent ?? value]))
    if (text !== before) box.replaceChildren(facts(rows))
    before = text
  } }
}

const plain = (v) => v === true ? 'yes' : v === false ? 'no' : Array.isArray(v) ? v.map(plain).join(', ') || 'none'
  : v && typeof v === 'object' ? Object.entries(v).map(([k, x]) => `${k} ${plain(x)}`).join(', ') : String(v ?? '–')

// One call: asked once, as it has ended or will be asked for again.
async function whyView(id) {
  const w = await asked(`/admin/why/${id}`)
  const { unit, total, ...phases } = w.phases ?? {}
  let at = 0
  const rows = ['read', 'lookup', 'placement', 'attempt'].filter((p) => phases[p] !== undefined).map((p) => {
    const row = [p, phases[p], phases[p] ? span(phases[p]) : '0', at]
    at += phases[p]
    return row
  })
  const inside = ['queue', 'runner_wait', 'pull', 'prepare', 'create', 'init', 'execution', 'first_byte'].filter((p) => phases[p])
  return { title: `Call ${id}`, nodes: [h('h1', {}, 'Why'), h('div', { class: 'id' }, w.call_id),
    facts([['Came', new Date(w.at).toLocaleString()], ['Kind', w.kind], ['State', w.state], w.outcome && ['Outcome', `${w.outcome}, status ${w.status}`], w.error && ['Error', w.error],
      w.fn_id && ['Function', fnName(w.fn_id)], w.group && ['Group', w.group], w.placer && ['Placer', w.placer], ['Runners in the list', String(w.runners)],
      ['Attempts', `${w.tries_made}, with ${w.waits} waits between`], w.last_refusal && ['Last refusal', `${w.last_refusal} ${w.last_refusal_note ?? ''}`], ['Took', span(total)],
      ...inside.map((p) => [`of which ${p.replace('_', ' ')}`, span(phases[p])])].filter(Boolean)),
    rows.length > 0 ? bars(rows, total || 1) : null,
    h('h2', {}, 'Attempts'),
    h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'attempts' }, h('table', {},
      h('thead', {}, h('tr', {}, ['Runner', 'How', 'After', 'Took', 'Code', 'It said', 'Placer\'s note'].map((t) => h('th', { scope: 'col' }, t)))),
      h('tbody', {}, (w.tries ?? []).map((t) => h('tr', {}, h('td', { class: 'text' }, code(t.runner)), h('td', {}, t.how), h('td', { class: 'text' }, span(t.after_us)),
        h('td', { class: 'text' }, span(t.took_us)), h('td', {}, t.code ?? '–'), h('td', {}, t.said ?? '–'), h('td', {}, t.note ?? '–'))))))] }
}

// ---- which view ----------------------------------------------------------------------------------

const views = [
  ['', 'Overview', overview, () => true],
  ['functions', 'Functions', functionsView, () => has('functions')],
  ['runners', 'Runners', runnersView, () => has('runners')],
  ['pool', 'Pool', poolView, () => has('hosts')],
  ['calls', 'Calls', callsView, () => has('calls')],
  ['errors', 'Errors', errorsView, () => has('errors')],
  ['containers', 'Containers', containersView, () => has('containers')],
  ['peers', 'Peers', peersView, () => has('peers')],
  ['plugins', 'Plugins', pluginsView, () => true],
  ['shadow', 'Shadow', shadowView, () => snapshot.about.shadow !== undefined],
  ['node', 'Node', nodeView, () => true],
]

function drawHeader() {
  const a = snapshot.about
  const text = `${a.node} ${a.version} at ${a.http}`
  if (who.textContent !== text) who.textContent = text
  const here = views.filter(([, , , is]) => is())
  const now = location.hash.split('/')[1] ?? ''
  if (nav.children.length !== here.length) nav.replaceChildren(...here.map(([hash, name]) => link(`#/${hash}`, name)))
  for (const a of nav.children) {
    const is = a.getAttribute('href') === `#/${now}`
    if (is !== a.hasAttribute('aria-current')) is ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current')
  }
}

function showToken(message) {
  const field = h('input', { id: 'token', type: 'password', autocomplete: 'off', size: 40 })
  view = null
  snapshot = undefined
  main.replaceChildren(h('h1', {}, 'This page needs its token'), h('p', { class: 'bad' }, message),
    h('p', {}, 'On the machine of the node, ', h('code', {}, 'fnd page'), ' prints an address that has it.'),
    h('form', { onsubmit: (event) => {
      event.preventDefault()
      sessionStorage.setItem(TOKEN, field.value.trim())
      read()
    } }, h('label', { for: 'token' }, 'Token'), field, ' ', h('button', { type: 'submit' }, 'Use it')))
  main.setAttribute('aria-busy', 'false')
}

let asking = 0 // the newest view that was asked for; an older one that comes late is dropped

async function show() {
  if (!snapshot) return
  const mine = ++asking
  const [, name, id] = location.hash.split('/')
  const [, , make, is] = views.find(([hash]) => hash === (name ?? '')) ?? views[0]
  view?.close?.()
  told.textContent = ''
  let next
  try {
    next = name === 'why' ? await whyView(id) : is() ? make() : overview()
  } catch (e) {
    next = { title: 'Not found', nodes: [h('h1', {}, 'This cannot be shown'), h('p', { class: 'bad' }, e.message)] }
  }
  if (mine !== asking) return
  view = next
  main.replaceChildren(...next.nodes.flat(Infinity).filter((c) => c != null))
  next.update?.()
  document.title = `${next.title} · fnd ${snapshot.about.node}`
  main.setAttribute('aria-busy', 'false')
  drawHeader()
}

addEventListener('hashchange', async () => {
  if (location.hash.startsWith('#token=')) {
    await takeToken()
    if (!reading) read()
    return
  }
  await show()
  main.focus({ preventScroll: true })
  scrollTo(0, 0)
})
addEventListener('resize', () => view?.update?.())
await takeToken()
read()

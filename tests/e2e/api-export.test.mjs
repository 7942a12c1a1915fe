// `fnd api export` and `import`: what comes out goes in, only differences are asked for, mistakes and
// nodes that are not there are told.
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { closeSync, openSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { request } from './lib/http.mjs'
import { build, Fnd, freePort, tempDir } from './lib/node.mjs'

const FILE = `
apps:
  - name: shop
    config: { CURRENCY: EUR, Q: "a \\"b\\" ä: #1" }
    annotations: { team: { size: 3 }, "with/slash": "yes" }
    syslog_url: udp://127.0.0.1:514
    functions:
      - name: price
        image: me/price:1
        memory: 64
        timeout: 7
        config: { RATE: "1.19" }
        triggers:
          - { name: price, source: /price, annotations: { owner: { team: web } } }
      - { name: other, image: "me/other:1" }
  - name: empty
`

describe('fnd api', () => {
  const dir = tempDir()
  let a, b

  const start = async (name, more = '') => {
    const port = await freePort()
    return Fnd.start(name, port, `node: api\nhttp: { listen: "127.0.0.1:${port}" }\nstore: { url: "sqlite3://${dir}/${name}.db" }\n${more}`)
  }
  const fnd = (node, ...args) => new Promise((resolve) => execFile(path.join(build, 'fnd'), ['api', ...args],
    { env: { PATH: process.env.PATH, FN_API_URL: node.url('') } }, (error, out, err) => resolve({ code: error?.code ?? 0, out, err })))
  const file = (name, text) => {
    writeFileSync(path.join(dir, name), text)
    return path.join(dir, name)
  }
  const count = async (node, what) => JSON.parse((await request(node.url(`/v2/${what}`))).text).items.length

  before(async () => { [a, b] = await Promise.all([start('a'), start('b')]) })
  after(() => Promise.all([a?.stop(), b?.stop()]))

  test('a dry run tells, and makes nothing', async () => {
    const { code, out } = await fnd(a, '--dry-run', 'import', file('in.yaml', FILE))
    assert.equal(code, 0)
    assert.equal(out, '+ app shop\n+ function shop/price\n+ trigger shop/price\n+ function shop/other\n+ app empty\n5 changes, not made\n')
    assert.equal(await count(a, 'apps'), 0)
  })

  test('an import waits where changes are limited', async () => {
    const slow = await start('slow', 'api: { changes_max: 1 }\n')
    try {
      assert.match((await fnd(slow, 'import', path.join(dir, 'in.yaml'))).out, /^5 changes$/m)
      assert.ok(await slow.metric('fn_api_limited{reason="changes"}') > 0)
    } finally {
      await slow.stop()
    }
  })

  test('what comes out of one node goes into another one', async () => {
    assert.match((await fnd(a, 'import', path.join(dir, 'in.yaml'))).out, /^5 changes$/m)
    assert.equal((await fnd(a, 'import', path.join(dir, 'in.yaml'))).out, 'nothing to change\n')
    const first = await fnd(a, 'export')
    assert.match((await fnd(b, 'import', file('out.yaml', first.out))).out, /^5 changes$/m)
    assert.equal((await fnd(b, 'export')).out, first.out)
    assert.match(first.out, /"Q": "a \\"b\\" ä: #1"/)
    assert.match(first.out, /syslog_url: "udp:\/\/127.0.0.1:514"/)
    assert.match(first.out, /source: "\/price"\n +annotations:\n +"owner": \{"team":"web"\}\n/)
  })

  test('more than a page of functions', async () => {
    const names = Array.from({ length: 150 }, (_, i) => `      - { name: f${i}, image: i }`)
    assert.match((await fnd(a, 'import', file('many.yaml', `apps:\n  - name: many\n    functions:\n${names.join('\n')}\n`))).out, /^151 changes$/m)
    assert.equal((await fnd(a, 'import', path.join(dir, 'many.yaml'))).out, 'nothing to change\n')
    assert.equal((await fnd(a, 'export', 'many')).out.match(/- name/g).length, 151)
  })

  test('differences, and what goes', async () => {
    const changed = file('next.yaml', `
apps:
  - name: shop
    config: { Q: new }
    functions:
      - { name: price, image: "me/price:2", memory: 64, timeout: 7, triggers: [{ name: cost, source: /price }] }
`)
    const kept = await fnd(b, '--dry-run', 'import', changed)
    assert.doesNotMatch(kept.out, /^-/m)
    const { code, out } = await fnd(b, '--prune', 'import', changed)
    assert.equal(code, 0)
    assert.equal(out, '- app empty\n- function shop/other\n- trigger shop/price\n' +
      '~ app shop: syslog_url, config, annotations\n~ function shop/price: image, config\n+ trigger shop/cost\n6 changes\n')
    assert.equal((await fnd(b, '--prune', 'import', changed)).out, 'nothing to change\n')
    assert.doesNotMatch((await fnd(b, 'export', 'shop')).out, /syslog_url/)
  })

  test('annotations come out and go in as they were written', async () => {
    const values = ['9223372036854775808', '1e999', '-0', '0.1', '[1.10,{"x":-0.0,"a":1E5}]', '"\\ud83d\\ude00 <&>"', '{"z":1,"a":[]}', '[{},"",null,true]', '"\\ud800"']
    const annotations = `{${values.map((v, i) => `"k${i}":${v}`)}}`
    const made = await request(a.url('/v2/apps'), { method: 'POST', body: `{"name":"numbers","annotations":${annotations}}` })
    assert.equal(made.status, 200, made.text)
    const kept = (text) => /"annotations":\{(.*?)\},"created_at"/.exec(text)[1]
    const first = await fnd(a, 'export', 'numbers')
    assert.equal(first.code, 0, first.err)
    assert.match(first.out, /"k0": 9223372036854775808\n +"k1": 1e999\n +"k2": -0\n +"k3": 0.1\n +"k4": \[1.10,\{"x":-0.0,"a":1E5\}\]\n/)
    const taken = await fnd(b, 'import', file('numbers.yaml', first.out))
    assert.equal(taken.out, '+ app numbers\n1 change\n', taken.err)
    assert.equal((await fnd(b, 'import', file('numbers.yaml', first.out))).out, 'nothing to change\n')
    assert.equal((await fnd(a, 'import', file('numbers.yaml', first.out))).out, '~ app numbers: annotations\n1 change\n', 'half a pair is U+FFFD')
    const [there, here] = (await Promise.all([a, b].map((n) => request(n.url('/v2/apps?name=numbers'))))).map((r) => kept(r.text))
    assert.equal(here.replace(/"k5":.*?",/, ''), there.replace(/"k5":.*?",/, ''))
    assert.equal(JSON.parse(`{${here}}`).k5, '😀 <&>')
    const deep = `${'['.repeat(30)}1${']'.repeat(30)}`
    assert.equal((await request(a.url('/v2/apps'), { method: 'POST', body: `{"name":"deep","annotations":{"k":${deep}}}` })).status, 200)
    assert.ok((await fnd(a, 'export', 'deep')).out.includes(`"k": ${deep}\n`))
    const odd = await request(a.url('/v2/apps'), { method: 'POST', body: '{"name":"nul","annotations":{"k":"a\\u0000"}}' })
    assert.match((await fnd(a, 'export', 'nul')).out, odd.status === 200 ? /"k": "a\\u0000"/ : /^$/)
    assert.equal((await fnd(b, '--prune', 'import', file('gone.yaml', 'apps: [{ name: numbers }]\n'))).out.includes('~ app numbers: annotations'), true)
    assert.equal((await fnd(b, 'export', 'numbers')).out, 'apps:\n  - name: "numbers"\n')
  })

  test('texts that YAML has no raw form of, or folds, come out and go in as they are', async () => {
    const odd = ['\u007f', '\u009b', 'first\u0085second', 'a  \u2028  b', '\u2029', '\ufeff', '\ufffe', '\uffff', '\u200d', '\u202e', '😀', '\u00a0', '\t\u0001', ' ']
    const config = Object.fromEntries(odd.map((v, i) => [`K${i}`, `x${v}y`]))
    const annotations = { texts: odd, keys: Object.fromEntries(odd.map((v) => [v, 1])) }
    const made = await request(a.url('/v2/apps'), { method: 'POST', body: JSON.stringify({ name: 'odd', config, annotations }) })
    assert.equal(made.status, 200, made.text)
    const first = await fnd(a, 'export', 'odd')
    assert.doesNotMatch(first.out, /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/)
    const taken = await fnd(b, 'import', file('odd.yaml', first.out))
    assert.equal(taken.out, '+ app odd\n1 change\n', taken.err)
    assert.equal((await fnd(a, 'import', path.join(dir, 'odd.yaml'))).out, 'nothing to change\n')
    const there = JSON.parse((await request(b.url('/v2/apps?name=odd'))).text).items[0]
    assert.deepEqual([there.config, there.annotations], [config, annotations])
    assert.equal((await fnd(b, 'export', 'odd')).out, first.out)
  })

  test('all that an API takes, and much of it, comes out and goes in', async () => {
    const post = async (what, body) => {
      const { status, text } = await request(a.url(`/v2/${what}`), { method: 'POST', body: JSON.stringify(body) })
      assert.equal(status, 200, text)
      return JSON.parse(text).id
    }
    const deep = JSON.parse(`${'['.repeat(29)}1${']'.repeat(29)}`)
    const app_id = await post('apps', { name: 'wide', syslog_url: `udp://${'h'.repeat(1500)}:1`, annotations: { deep } })
    const fn_id = await post('fns', { name: 'f', image: 'i', app_id, config: { ['K'.repeat(1100)]: 'v', ['L'.repeat(200)]: 'w' }, annotations: { deep, k: { ['\u0080'.repeat(200)]: 1 } } })
    await post('triggers', { name: 't', type: 'http', source: `/${'s'.repeat(1500)}`, app_id, fn_id })
    const wide = await fnd(a, 'export', 'wide')
    const taken = await fnd(b, 'import', file('wide.yaml', wide.out))
    assert.equal(taken.out, '+ app wide\n+ function wide/f\n+ trigger wide/t\n3 changes\n', taken.err)
    assert.equal((await fnd(b, 'export', 'wide')).out, wide.out)
    assert.equal((await fnd(a, 'import', path.join(dir, 'wide.yaml'))).out, 'nothing to change\n')

    const fns = Array.from({ length: 4000 }, (_, i) => `      - { name: f${i}, image: "${'i'.repeat(300)}", memory: 64, timeout: 7, triggers: [{ name: t, source: /${i} }] }\n`)
    const much = await fnd(b, '--dry-run', 'import', file('much.yaml', `apps:\n  - name: much\n    functions:\n${fns.join('')}`))
    assert.match(much.out, /^8001 changes, not made$/m, much.err)
  })

  test('triggers that take over sources of one another', async () => {
    const triggers = (...sources) => sources.map((source, i) => `{ name: t${i + 1}, source: ${source} }`)
    const app = ([one, two, ...more]) => `apps:\n  - name: routes\n    functions:\n      - { name: f, image: i, triggers: [${[one, two]}] }\n` +
      `      - { name: g, image: i, triggers: [${more}] }\n`
    const steps = [
      ['first', ['/v1', '/v2', '/x'], '+ app routes\n+ function routes/f\n+ trigger routes/t1\n+ trigger routes/t2\n+ function routes/g\n+ trigger routes/t3\n6 changes\n'],
      ['a chain', ['/v2', '/v3', '/x'], '- trigger routes/t2\n~ trigger routes/t1: source\n+ trigger routes/t2\n3 changes\n'],
      ['a swap', ['/v3', '/v2', '/x'], '- trigger routes/t2\n- trigger routes/t1\n+ trigger routes/t1\n+ trigger routes/t2\n4 changes\n'],
      ['a ring across functions', ['/x', '/v3', '/v2'], /^6 changes$/m],
      ['one that is new', ['/x', '/v4', '/v2', '/v3'], '- trigger routes/t2\n+ trigger routes/t2\n+ trigger routes/t4\n3 changes\n'],
      ['no move', ['/y', '/v4', '/v2', '/v3'], '~ trigger routes/t1: source\n1 change\n'],
    ]
    for (const [what, sources, expected] of steps) {
      const to = file('routes.yaml', app(triggers(...sources)))
      const dry = await fnd(b, '--dry-run', 'import', to)
      const { out, err } = await fnd(b, 'import', to)
      if (expected instanceof RegExp) assert.match(out, expected, what + err)
      else assert.equal(out, expected, what + err)
      assert.equal(dry.out.replace(', not made', ''), out, what)
      assert.equal((await fnd(b, 'import', to)).out, 'nothing to change\n', what)
    }
    // one that the file does not name keeps its source
    const taken = await fnd(b, 'import', file('routes.yaml', app(triggers('/v4', '/v5')).replace('t2', 't9')))
    assert.equal(taken.code, 69)
    assert.match(taken.err, /409/)
    // what was removed for another's sake is named if it cannot be made again
    const broken = await fnd(b, 'import', file('routes.yaml', app(triggers('/v4', '/y')).replace('t2', 't9')))
    assert.equal(broken.out, '- trigger routes/t1\n+ trigger routes/t1\n')
    assert.match(broken.err, /^fnd: trigger routes\/t1 was removed to be made anew, and is not there: import again .*\nfnd: .*409/)
    const mended = await fnd(b, 'import', file('routes.yaml', app(triggers('/v6', '/y')).replace('t2', 't9')))
    assert.equal(mended.out, '+ trigger routes/t1\n+ trigger routes/t9\n2 changes\n', mended.err)
  })

  test('a file that says nothing of apps is no order to remove all', async () => {
    const lb = file('lb.yaml', 'node: lb\nplugins: { pool: { use: static, runners: ["127.0.0.1:1"] } }\n')
    for (const options of [[], ['--prune'], ['--dry-run', '--prune']]) {
      const { code, out, err } = await fnd(b, ...options, 'import', lb)
      assert.equal(code, 78, out)
      assert.match(err, /^fnd: api import, got \S+lb\.yaml without apps:; expected a file as `fnd api export` prints it \(apps: \[\] where no app is to be\)$/m)
    }
    for (const nothing of ['apps:', 'apps: ~', 'apps: ""']) {
      const { code, out } = await fnd(b, '--prune', 'import', file('nothing.yaml', `${nothing}\n`))
      assert.deepEqual([code, out], [78, ''], nothing)
    }
    assert.ok(await count(b, 'apps') > 0)
    assert.equal((await fnd(b, 'import', file('none.yaml', 'apps: []\n'))).out, 'nothing to change\n')
  })

  test('an answer that nothing takes is told', () => {
    const full = openSync('/dev/full', 'w')
    try {
      for (const args of [['export'], ['--dry-run', 'import', file('new.yaml', 'apps: [{ name: never }]\n')]]) {
        const result = spawnSync(path.join(build, 'fnd'), ['api', '--url', a.url(''), ...args],
          { stdio: ['ignore', full, 'pipe'], encoding: 'utf8', env: { PATH: process.env.PATH } })
        assert.equal(result.status, 69, args.join(' '))
        assert.match(result.stderr, /^fnd: the output, got No space left on device; expected room for it$/m)
      }
    } finally {
      closeSync(full)
    }
  })

  test('an empty value of config is kept by what is new, and is none for what is there', async () => {
    const yaml = (config) => file('vacant.yaml', `apps: [{ name: vacant, config: ${config} }]\n`)
    assert.equal((await fnd(b, 'import', yaml('{ A: "", B: b }'))).out, '+ app vacant\n1 change\n')
    assert.equal((await fnd(b, 'import', yaml('{ A: "", B: b }'))).out, 'nothing to change\n')
    const twice = yaml('{ A: "", B: "", C: "" }')
    assert.equal((await fnd(b, 'import', twice)).out, '~ app vacant: config\n1 change\n')
    const { out, err } = await fnd(b, 'import', twice)
    assert.equal(out, 'nothing to change\n')
    assert.equal(err, 'fnd: api import, got an empty value of config; expected another one: the API gives it only to what is made anew\n')
  })

  test('a slash behind the address, and variables that are empty', async () => {
    assert.equal((await fnd(a, '--url', a.url('/'), 'export')).code, 0)
    assert.equal((await fnd(a, '--url', a.url('//'), 'export')).code, 0)
    const away = spawnSync(path.join(build, 'fnd'), ['api', 'export'], { encoding: 'utf8', env: { PATH: process.env.PATH, FN_API_URL: '', FN_TOKEN: '' } })
    assert.ok(away.status === 0 || /http:\/\/localhost:8080/.test(away.stderr), away.stderr)
  })

  test('an output that is closed is one that nothing takes', () => {
    const run = (args, stdin = '') => spawnSync('sh', ['-c', `exec ${path.join(build, 'fnd')} "$@" >&- ${stdin}`, 'sh', ...args],
      { encoding: 'utf8', timeout: 30_000, env: { PATH: process.env.PATH } })
    for (const args of [['api', '--url', a.url(''), 'export'], ['init', 'api'], ['version']]) {
      const { status, stderr } = run(args)
      assert.equal(status, 69, args.join(' '))
      assert.match(stderr, /^fnd: the output, got No space left on device; expected room for it$/m)
    }
    assert.equal(run(['version'], '<&- 2>&-').status, 69)
  })

  test('mistakes change nothing', async () => {
    const bad = await fnd(a, 'import', file('bad.yaml', 'apps:\n  - { name: "a b" }\n  - { name: good }\n'))
    assert.equal(bad.code, 78)
    assert.match(bad.err, /bad.yaml:2:.*name, got "a b"/)
    assert.equal((await fnd(a, 'export', 'good')).code, 69)
    assert.match((await fnd(a, 'export', 'good')).err, /there is no app good/)
    assert.equal((await fnd(a, 'nonsense')).code, 64)
    const port = await freePort()
    assert.match((await fnd(a, '--url', `http://127.0.0.1:${port}`, 'export')).err, /no node answers at/)
  })
})

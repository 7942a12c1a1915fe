// Listeners of changes: asked before an app, a function or a trigger changes, told behind it, at an API node and at a
// full node, with the example that refuses apps by their names.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { request } from './lib/http.mjs'
import { build, Fnd, freePort, tempDir, until } from './lib/node.mjs'

const late = path.join(build, 'tests/plugins/late.so')
const veto = path.join(build, 'tests/plugins/veto.so')

const nodes = {
  api: (port, dir, listeners) => `
node: api
http: { listen: "127.0.0.1:${port}" }
store: { url: "sqlite3://${path.join(dir, 'fn.db')}" }
plugins: { listeners: [${listeners}] }
`,
  full: (port, dir, listeners) => `
node: full
http: { listen: "127.0.0.1:${port}" }
store: { url: "sqlite3://${path.join(dir, 'fn.db')}" }
plugins: { driver: { use: process, root: "${path.join(build, 'functions')}" }, listeners: [${listeners}] }
`,
}

for (const [type, yaml] of Object.entries(nodes)) {
  describe(`listeners of changes at a node of type ${type}`, () => {
    let node
    let port
    const dir = tempDir()
    const ask = (method, target, body) => request(node.url(target), { method, body: body && JSON.stringify(body) })
    const counted = (n) => until(`${n} changes were told`, async () => await node.metric('fn_plugin_listener_count_changes') === n)
    const made = async (target, body) => {
      const answer = await ask('POST', target, body)
      assert.equal(answer.status, 200, answer.text)
      return JSON.parse(answer.text).id
    }

    before(async () => {
      port = await freePort()
      node = await Fnd.start(type, port, yaml(port, dir, '{ use: count, names_must_match: "team-*" }'))
    })
    after(() => node?.stop())

    it('an app of a wrong name is refused with the listener\'s status and sentence, and is not there', async () => {
      const answer = await ask('POST', '/v2/apps', { name: 'shop' })
      assert.equal(answer.status, 422)
      assert.deepEqual(JSON.parse(answer.text), { message: 'name, got "shop"; expected one like team-*' })
      assert.deepEqual(JSON.parse((await ask('GET', '/v2/apps')).text), { items: [] })
      await counted(0)
    })

    it('what is made is counted, each change once', async () => {
      const app_id = await made('/v2/apps', { name: 'team-a' })
      const fn_id = await made('/v2/fns', { app_id, name: 'shop', image: 'hello' })
      const trigger = await made('/v2/triggers', { app_id, fn_id, name: 't', type: 'http', source: '/t' })
      await counted(3)
      assert.equal((await ask('PUT', `/v2/fns/${fn_id}`, { config: { A: '1' } })).status, 200)
      assert.equal((await ask('DELETE', `/v2/triggers/${trigger}`)).status, 204)
      await counted(5)
      assert.equal((await ask('POST', '/v2/apps', { name: 'team-a' })).status, 409)
      assert.equal((await ask('GET', `/v2/apps/${app_id}`)).status, 200)
      await made('/v2/apps', { name: 'team-b' })
      await counted(6)
    })

    it('changes at the same time all come through', async () => {
      const told = await node.metric('fn_plugin_listener_count_changes')
      const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => ask('POST', '/v2/apps', { name: `${i % 4 ? 'team' : 'other'}-${i}` })))
      assert.deepEqual(answers.map((a) => a.status), answers.map((_, i) => i % 4 ? 200 : 422))
      await counted(told + 150)
    })

    it('a reload takes a rule away, and the generation before it ends', async () => {
      writeFileSync(path.join(node.dir, 'fn.yaml'), yaml(port, dir, '{ use: count }'), { mode: 0o600 })
      node.signal('SIGHUP')
      await until('the reload is done', () => node.log.includes('the configuration was taken'))
      await made('/v2/apps', { name: 'shop' })
      await until('one generation is left', async () => await node.metric('fn_config_generations') === 1)
    })
  })
}

describe('a listener that is too slow', () => {
  for (const [deaf, sentence] of [[false, 'the listener late'], [true, 'the listeners of changes']]) {
    it(`${deaf ? 'and deaf' : 'but listens'}: the change is refused in time, a reload helps, and the node ends`, async () => {
      const port = await freePort()
      const dir = tempDir()
      const node = await Fnd.start('api', port, nodes.api(port, dir, `{ use: late, file: "${late}", time: 9s, deaf: ${deaf} }`))
      try {
        const ask = (name) => request(node.url('/v2/apps'), { method: 'POST', body: JSON.stringify({ name }) })
        const answer = await ask('a')
        assert.equal(answer.status, 503)
        assert.equal(JSON.parse(answer.text).message, `API1114 ${sentence} did not answer within 5 s; nothing was changed`)
        assert.deepEqual(JSON.parse((await request(node.url('/v2/apps'))).text), { items: [] })
        writeFileSync(path.join(node.dir, 'fn.yaml'), nodes.api(port, dir, '{ use: count }'), { mode: 0o600 })
        node.signal('SIGHUP')
        await until('the reload is done', () => node.log.includes('the configuration was taken'))
        assert.equal((await ask('b')).status, 200)
      } finally {
        assert.deepEqual(await node.stop(), { code: 0, signal: null })
      }
    })
  }
})

describe('listeners that hear of nothing', () => {
  it('one of calls at an API node is told as without effect', async () => {
    const port = await freePort()
    const node = await Fnd.start('api', port, nodes.api(port, tempDir(), `{ use: veto, file: "${veto}", fn_id: x }`))
    try {
      assert.match(node.log, /CFG710 .*listener veto: has no effect: it hears of calls, and this node has none/)
    } finally {
      await node.stop()
    }
  })
})

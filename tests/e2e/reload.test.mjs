// Reload without loss: new generations of the configuration under load, refused ones, what may not change.
// FND_LONG=1: a thousand reloads, and a generation that is stuck for half a minute.
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { appendFileSync, chmodSync, copyFileSync, mkdirSync, readFileSync, renameSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { appsYaml, fnId, startRunner } from './lib/cluster.mjs'
import { invoke } from './lib/http.mjs'
import { Fnd, build, freePort, tempDir, until } from './lib/node.mjs'
import { ReloadLb, lbYaml, load, resources, stamp, stampDriver } from './lib/reload.mjs'

const execFileAsync = promisify(execFile)
const LONG = process.env.FND_LONG === '1'
const RELOADS = Number(process.env.FND_RELOADS ?? (LONG ? 1000 : 60))
// Memory of a process grows with its first ten thousand calls: the long form tells more.
const WARM = Math.floor(RELOADS / 2)
const RSS_GROWTH_MAX_KIB = RELOADS >= 500 ? 1536 : 10 * 1024
const LANE_THREADS = 4 // started when two ends of generations meet
const functions = { echo: {}, sleeper: { timeout: 60 } }

describe('reload', () => {
  let runner
  let lb
  let address
  before(async () => {
    runner = await startRunner({ driver: stampDriver, runner: 'freeze_idle: never' })
    address = `127.0.0.1:${runner.grpcPort}`
    lb = await ReloadLb.start({ addresses: [address], functions })
  })
  after(async () => {
    await lb?.stop()
    await runner?.stop()
  })

  const generation = () => lb.node.metric('fn_config_generation')
  const gone = () => until('old generations are gone', async () => await lb.node.metric('fn_config_generations') === 1)

  it('takes plugins, functions and settings over while it runs', async () => {
    assert.equal(await lb.mark(), 'a-a')
    assert.equal((await invoke(lb.node, fnId('hello'))).status, 404)
    const got = await lb.reload({ mark: 'b', placer: 'ch', functions: { echo: {}, hello: {} }, http: ', body_max: 64KiB' })
    assert.deepEqual({ code: got.code, err: got.err }, { code: 0, err: '' })
    assert.match(got.out, /^generation 2 from \d\d:\d\d:\d\d\n$/)
    assert.equal(await lb.mark(), 'b-b')
    assert.equal((await invoke(lb.node, fnId('hello'))).status, 200)
    assert.equal((await invoke(lb.node, fnId('sleeper'))).status, 404, 'a function that is gone')
    assert.equal((await invoke(lb.node, fnId('hello'), Buffer.alloc(100_000))).status, 413)
    assert.match(lb.node.log, /pool=kept/, 'its options are the same')
    assert.equal(await generation(), 2)
    await gone()
  })

  it('loses no call and grows nowhere under load', async () => {
    const calls = load(lb, 8)
    let first
    for (let i = 0; i < RELOADS; i++) {
      if (i === WARM) first = resources(lb.node.pid)
      const before = calls.marks.size
      const got = await lb.reload({ mark: i % 2 ? 'odd' : 'even', placer: i % 2 ? 'ch' : 'naive' })
      assert.equal(got.code, 0, got.err)
      if (i < 2) await until('a call met it', () => calls.marks.size > before)
    }
    const { marks, failures } = await calls.stop()
    assert.deepEqual(failures, [])
    assert.deepEqual([...marks.keys()].filter((m) => !['b-b', 'even-even', 'odd-odd'].includes(m)), [], 'a call met two generations')
    await gone()
    const last = resources(lb.node.pid)
    assert.ok(last.fds <= first.fds + 1, `descriptors: ${first.fds} to ${last.fds}`)
    assert.ok(last.threads <= first.threads + LANE_THREADS, `threads: ${first.threads} to ${last.threads}`)
    assert.equal(last.maps, first.maps, 'files are mapped once')
    const sanitized = /asan|tsan/.test(build) // they keep what was freed
    assert.ok(sanitized || last.rssKiB <= first.rssKiB + RSS_GROWTH_MAX_KIB, `memory: ${first.rssKiB} to ${last.rssKiB} KiB`)
    assert.equal(await lb.node.metric('fn_plugin_listener_stamp_wrong'), 0, 'before() and after() met the same instance')
    assert.ok(await lb.node.metric('fn_plugin_listener_stamp_right') > 0)
  })

  it('keeps the running generation when anything is wrong, and tells every problem', async () => {
    await lb.reload({ mark: 'good' })
    const number = await generation()
    const cases = [
      [{ more: 'memmory: 3' }, /CFG702 .*unknown key "memmory"/],
      [{ placer: 'nonesuch' }, /CFG712 .*placer, got "nonesuch"; expected the name of a file .*placer-nonesuch\.so/],
      [{ second: ', colour: red' }, /CFG702 .*unknown key "colour"/],
      [{ second: ', fail: "not today"' }, /PLG915 \S+fn\.yaml:\d+:\d+: second: overrider\/stamp: not today/],
      [{ overriders: `[{ use: stamp, file: ${path.join(build, 'tests/plugins/note-major.so')} }]` }, /PLG904/],
      [{ pool: '{ use: static, runners: ["no port"] }' }, /PLG915 \S+fn\.yaml:\d+:\d+: static: pool\/static: runners\[0\]: got "no port"/],
      [{ port: lb.options.port + 1 }, /CFG720 .*http\.listen cannot change while the node runs, got .*running .*; restart the node/],
      [{ more: 'grpc: { streams_max: 7 }' }, /CFG720 .*grpc\.streams_max cannot change.*got 7, running 4096/],
      [{ more: 'lb: { retry_min: 5s }\nlog: { format: json }' }, /CFG704[^]*retry_max/],
    ]
    for (const [changes, expected] of cases) {
      lb.write(lbYaml({ ...lb.options, ...changes }))
      const got = await lb.command('reload', '--socket', lb.socket())
      assert.equal(got.code, 78, JSON.stringify(changes) + got.err)
      assert.match(got.err, expected)
      assert.match(got.err, new RegExp(`keeping generation ${number} from \\d\\d:\\d\\d:\\d\\d\n$`))
      assert.equal(await lb.mark(), 'good-good')
      assert.equal(await lb.node.metric('fn_config_reload_failed'), 1)
    }
    lb.write(lbYaml({ ...lb.options, more: 'tls: { old: { ca: /etc/hosts } }\nmemmory: 3' }))
    assert.match((await lb.command('reload', '--socket', lb.socket())).err, /warning: [^]*CFG702/)
    assert.match((await lb.command('status', '--socket', lb.socket())).out, /refused at \S+, 1 line, the first: CFG702/, 'the mistake, not the warning before it')
    assert.match(lb.node.log, /level=warning msg="CFG710 .*nothing names this entry/)
    for (const text of ['', 'node: lb\n  http: [', '\0', 'a: &x [*x]']) {
      lb.write(text)
      const got = await lb.command('reload', '--socket', lb.socket())
      assert.equal(got.code, 78, got.err)
      assert.equal(await lb.mark(), 'good-good')
    }
    for (const put of [() => {}, () => mkdirSync(lb.file), () => execFileSync('mkfifo', [lb.file])]) {
      rmSync(lb.file, { recursive: true, force: true })
      put()
      const got = await lb.command('reload', '--socket', lb.socket())
      assert.equal(got.code, 78)
      assert.match(got.err, /CFG705/)
    }
    rmSync(lb.file)
    assert.equal(await generation(), number)
    const status = await lb.command('status', '--socket', lb.socket())
    assert.match(status.out, new RegExp(`config +generation ${number} from [0-9:]{8}, 1 alive\n +a reload was refused at .*: CFG7`))
    assert.match(lb.node.log, new RegExp(`keeping generation ${number} from`))
    assert.equal((await lb.reload({ mark: 'again' })).code, 0)
    assert.equal(await lb.node.metric('fn_config_reload_failed'), 0)
    assert.doesNotMatch((await lb.command('status')).out, /refused/)
    assert.equal(await lb.mark(), 'again-again')
    await gone()
  })

  it('keeps the running generation when a plugin does what no plugin may do', async () => {
    await lb.reload({ mark: 'sound' })
    const number = await generation()
    const evil = { e01_ctor_crashes: /PLG911/, e02_ctor_loops: /PLG912/, e03_ctor_exits: /PLG91[13]/, e04_no_entry: /PLG90/,
      e05_create_floods: /PLG915/, e06_create_sleeps: /PLG914/, l08_undefined: /PLG908/, l11_entry_crashes: /PLG9/ }
    const calls = load(lb, 2)
    for (const [name, expected] of Object.entries(evil)) {
      const file = path.join(build, 'tests/plugins/evil', `${name}.so`)
      const got = await lb.reload({ placer: `${name.slice(0, 3)}, file: ${file}` })
      assert.equal(got.code, 78, name)
      assert.match(got.err, expected)
    }
    const { marks, failures } = await calls.stop()
    assert.deepEqual(failures, [])
    assert.deepEqual([...marks.keys()], ['sound-sound'])
    assert.equal(await generation(), number)
    await gone()
  })

  it('a plugin file that is overwritten, cut or deleted while it is loaded harms nobody', async () => {
    const file = path.join(tempDir(), 'copy.so')
    copyFileSync(stamp, file)
    chmodSync(file, 0o755)
    assert.equal((await lb.reload({ file, mark: 'copy' })).code, 0, 'the same factory from another file')
    assert.equal(await lb.mark(), 'copy-copy')
    for (const harm of [() => writeFileSync(file, 'no plugin at all'), () => truncateSync(file, 0), () => rmSync(file)]) {
      harm()
      assert.equal(await lb.mark(), 'copy-copy')
      const got = await lb.reload({ file, mark: 'x' })
      assert.equal(got.code, 78, got.out)
      assert.match(got.err, /PLG90/)
      assert.equal(await lb.mark(), 'copy-copy')
    }
    assert.equal((await lb.reload()).code, 0)
    assert.equal(await lb.mark(), 'a-a')
    await gone()
  })

  it('a plugin file that was replaced is loaded beside the old one; the same bytes are not', async () => {
    const file = path.join(tempDir(), 'veto.so')
    const overriders = `[{ use: veto, file: ${file} }]`
    const replace = (from) => {
      copyFileSync(from, `${file}.new`)
      chmodSync(`${file}.new`, 0o755)
      renameSync(`${file}.new`, file)
    }
    replace(path.join(build, 'tests/plugins/veto.so'))
    assert.equal((await lb.reload({ overriders })).code, 0)
    assert.equal((await invoke(lb.node, fnId('echo'), '', { Veto: '418' })).status, 418)
    const { maps, fds } = resources(lb.node.pid)
    replace(path.join(build, 'tests/plugins/veto.so'))
    assert.equal((await lb.reload({ overriders, more: 'log: { level: warn }' })).code, 0)
    assert.equal(resources(lb.node.pid).maps, maps, 'it serves on')
    await until('no descriptor is left of it', () => resources(lb.node.pid).fds <= fds)
    replace(stamp)
    assert.equal((await lb.reload({ overriders: `[{ use: stamp, file: ${file}, mark: new }]`, file })).code, 0)
    assert.equal(await lb.mark(), 'new')
    assert.ok(resources(lb.node.pid).maps > maps)
    assert.equal((await lb.reload()).code, 0)
    await gone()
  })

  it('a call that goes on keeps its generation; the next ones have the new one', async () => {
    const slow = invoke(lb.node, fnId('sleeper'), '2000')
    await until('it runs', async () => await lb.node.metric('fn_calls_in_flight') >= 1)
    const from = await generation()
    assert.equal((await lb.reload({ mark: 'later' })).code, 0)
    assert.equal(await lb.mark(), 'later-later')
    assert.equal(await lb.node.metric('fn_config_generations'), 2)
    assert.equal((await slow).status, 200)
    await gone()
    assert.equal(await generation(), from + 1)
    assert.equal(await lb.node.metric('fn_plugin_listener_stamp_wrong'), 0)
  })

  it('F83 a function that goes while it runs: its call ends well, later ones are 404', async () => {
    const slow = invoke(lb.node, fnId('sleeper'), '2000')
    await until('it runs', async () => await lb.node.metric('fn_calls_in_flight') >= 1)
    assert.equal((await lb.reload({ mark: 'without', functions: { echo: {} } })).code, 0)
    assert.equal(await lb.node.metric('fn_calls_in_flight'), 1, 'it still runs')
    assert.equal((await invoke(lb.node, fnId('sleeper'), '1')).status, 404)
    assert.equal(await lb.mark(), 'without-without')
    const answer = await slow
    assert.equal(answer.status, 200, answer.text)
    assert.equal((await invoke(lb.node, fnId('sleeper'), '1')).status, 404)
    await gone()
    assert.equal((await lb.reload({ mark: 'with', functions })).code, 0)
    assert.equal((await invoke(lb.node, fnId('sleeper'), '1')).status, 200, 'it may come back')
  })

  const long = (name, run) => it(name, { skip: !LONG && 'it takes 36 s: FND_LONG=1' }, run)

  long('a generation that calls do not leave is reported, and goes with the last of them', async () => {
    const stuck = invoke(lb.node, fnId('sleeper'), '36000')
    await until('it runs', async () => await lb.node.metric('fn_calls_in_flight') >= 1)
    const number = await generation()
    assert.equal((await lb.reload({ mark: 'after' })).code, 0)
    await until('it is reported', async () => await lb.node.metric('fn_config_generations_stuck') === 1, 35_000)
    assert.match(lb.node.log, new RegExp(`still in use.*generation=${number} .*calls=1`))
    assert.equal(await lb.node.metric('fn_config_generations'), 2)
    assert.equal((await stuck).status, 200)
    await gone()
    assert.equal(await lb.node.metric('fn_config_generations_stuck'), 0)
    assert.equal(await lb.node.metric('fn_plugin_listener_stamp_wrong'), 0)
  })

  it('fallback and shadow placers come and go with their generation', async () => {
    const calls = load(lb, 4)
    for (const plugins of ['fallback: { use: naive, name: spare }', 'shadow: { use: ch, name: other }',
      'fallback: { use: ch, name: spare }\n  shadow: { use: p2c }', '']) {
      const got = await lb.reload({ plugins })
      assert.equal(got.code, 0, got.err)
      await gone()
    }
    assert.deepEqual((await calls.stop()).failures, [])
  })

  it('a file that is being written is waited for', async () => {
    const from = await generation()
    const text = lbYaml({ ...lb.options, mark: 'whole', functions: { echo: {}, hello: {}, sleeper: {} } })
    writeFileSync(lb.file, text.slice(0, text.indexOf('      - name: hello')))
    lb.node.signal('SIGHUP')
    setTimeout(() => writeFileSync(lb.file, text), 100)
    await until('it was taken', async () => await generation() === from + 1)
    assert.equal((await invoke(lb.node, fnId('hello'))).status, 200)
    assert.equal(await lb.mark(), 'whole-whole')
    assert.equal((await lb.reload()).code, 0)
    await gone()
  })

  it('one at a time: the second is told that it is busy; SIGHUP comes again after it', async () => {
    const from = await generation()
    lb.write(lbYaml({ ...lb.options, mark: 'slow', second: ', slow: 300ms' }))
    const both = [lb.command('reload'), lb.command('reload')]
    const told = await Promise.race(both)
    assert.equal(told.code, 69, told.err)
    assert.match(told.err, new RegExp(`busy, generation ${from + 1} is being made`))
    lb.write(lbYaml({ ...lb.options, mark: 'hup' }))
    lb.node.signal('SIGHUP')
    assert.deepEqual((await Promise.all(both)).map((r) => r.code).sort(), [0, 69])
    await until('the signal was heard', async () => await generation() === from + 2)
    assert.equal(await lb.mark(), 'hup-hup')
    await gone()
  })

  it('another pool starts beside the old one; connections of runners that stay are kept', async () => {
    const other = await startRunner({ name: 'other', driver: stampDriver, runner: 'freeze_idle: never' })
    const calls = load(lb, 4)
    const both = [address, `127.0.0.1:${other.grpcPort}`]
    for (const addresses of [both, [both[1]], both, [both[0]]]) {
      const got = await lb.reload({ addresses })
      assert.equal(got.code, 0, got.err)
      await until('the list is there', async () => await lb.node.metric('fn_lb_runners') === addresses.length)
      await until('and in use', async () => await lb.node.metric('fn_lb_runners_up') === addresses.length)
    }
    const { failures } = await calls.stop()
    assert.deepEqual(failures, [])
    await gone()
    await other.stop()
  })

  it('a runner takes its settings and plugins over', async () => {
    const file = path.join(runner.dir, 'fn.yaml')
    const text = readFileSync(file, 'utf8')
    const change = async (more) => {
      writeFileSync(file, text.replace('freeze_idle: never', `freeze_idle: never\n${more}`))
      utimesSync(file, 1, 1)
      const from = await runner.metric('fn_config_generation')
      runner.signal('SIGHUP')
      await until('the runner took it', async () => await runner.metric('fn_config_generation') === from + 1)
    }
    await change('  images_allowed: ["hello*"]')
    const refused = await invoke(lb.node, fnId('echo'))
    assert.equal(refused.status, 403, refused.text)
    assert.match(refused.text, /RUN407/)
    await change(`  max_response_size: 1MiB\n`)
    assert.equal((await invoke(lb.node, fnId('echo'))).status, 200)
    writeFileSync(file, text.replace('driver:', `listeners: [{ use: stamp, file: ${stamp} }]\n  driver:`))
    utimesSync(file, 1, 1)
    runner.signal('SIGHUP')
    await until('its listener counts', async () => {
      await lb.mark()
      return await runner.metric('fn_plugin_listener_stamp_right') > 0
    })
    writeFileSync(file, text.replace('use: process,', 'use: process, name: other,').replace('inner: process', 'inner: other'))
    utimesSync(file, 1, 1)
    runner.signal('SIGHUP')
    await until('another driver is refused', () => runner.log.includes('plugins.driver cannot change while the node runs'))
    assert.equal(await runner.metric('fn_config_reload_failed'), 1)
    assert.match(await lb.mark(), /./)
  })

  it('new keys judge the driver that stays, too; what passed by them passes again', async () => {
    const dir = tempDir()
    const key = (name) => {
      execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', path.join(dir, name)])
      execFileSync('openssl', ['pkey', '-in', path.join(dir, name), '-pubout', '-out', path.join(dir, `${name}.pub`)])
      return path.join(dir, `${name}.pub`)
    }
    const keys = [key('ops'), key('other')]
    const driver = path.join(dir, 'driver.so')
    copyFileSync(path.join(build, 'plugins/driver-process.so'), driver)
    chmodSync(driver, 0o755)
    const mine = await startRunner({ name: 'keys', driver: `driver: { use: process, file: ${driver}, root: ${path.join(build, 'functions')} }` })
    const file = path.join(mine.dir, 'fn.yaml')
    const text = readFileSync(file, 'utf8')
    const reload = async (list) => {
      writeFileSync(file, text.replace('driver:', `keys: [${list}]\n  driver:`))
      utimesSync(file, 1, 1)
      const command = await execFileAsync(path.join(build, 'fnd'), ['reload', '--config', file]).catch((e) => e)
      return command.stderr
    }
    assert.match(await reload(keys[0]), /^PLG918 \S+fn\.yaml:\d+:\d+: \S+driver\.so: is not signed/m)
    assert.equal(await mine.metric('fn_config_generation'), 1)
    execFileSync('openssl', ['pkeyutl', '-sign', '-rawin', '-inkey', path.join(dir, 'ops'), '-in', driver, '-out', `${driver}.sig`])
    assert.equal(await reload(keys[0]), '')
    appendFileSync(driver, 'an update, which the next process uses')
    rmSync(`${driver}.sig`)
    assert.equal(await reload(keys[0]), '')
    assert.match(await reload(keys[1]), /PLG918/)
    assert.equal(await reload(keys[0]), '')
    assert.equal(await mine.metric('fn_config_generation'), 4)
    await mine.stop()
  })

  it('a full node does it too', async () => {
    const port = await freePort()
    const iofs = tempDir()
    const yaml = (name) => `node: full
http: { listen: "127.0.0.1:${port}" }
plugin_dir: ${path.join(build, 'plugins')}
runner: { iofs_path: ${iofs} }
plugins:
  driver: { use: process, root: ${path.join(build, 'functions')} }
  listeners: [{ use: stamp, file: ${stamp} }]
${appsYaml({ [name]: { image: 'hello' } })}`
    const full = await Fnd.start('full', port, yaml('one'))
    const file = path.join(full.dir, 'fn.yaml')
    assert.equal((await invoke(full, fnId('one'))).status, 200)
    writeFileSync(file, yaml('two'))
    utimesSync(file, 1, 1)
    full.signal('SIGHUP')
    await until('it was taken', async () => (await invoke(full, fnId('two'))).status === 200)
    assert.equal((await invoke(full, fnId('one'))).status, 404)
    assert.equal(await full.metric('fn_plugin_listener_stamp_wrong'), 0)
    assert.match(full.log, /pool=kept/)
    assert.deepEqual(await full.stop(), { code: 0, signal: null })
  })

  it('a reload that is being made when the node drains is thrown away', async () => {
    const mine = await ReloadLb.start({ addresses: [address], functions })
    mine.write(lbYaml({ ...mine.options, second: ', slow: 300ms' }))
    const both = [mine.command('reload'), mine.command('reload')]
    assert.match((await Promise.race(both)).err, /busy, generation 2 is being made/)
    mine.node.signal('SIGTERM')
    assert.deepEqual(await mine.node.ended, { code: 0, signal: null })
    const told = await Promise.all(both)
    assert.deepEqual(told.map((r) => r.code), [69, 69])
    assert.ok(told.some((r) => /busy, the node is draining/.test(r.err)), told[0].err + told[1].err)
  })

  it('no more than eight generations are alive', async () => {
    const from = await generation()
    const calls = []
    for (let i = 0; i < 7; i++) {
      calls.push(invoke(lb.node, fnId('sleeper'), '1500'))
      await until('it runs', async () => await lb.node.metric('fn_calls_in_flight') > i)
      assert.equal((await lb.reload({ mark: `m${i}` })).code, 0)
    }
    const got = await lb.reload({ mark: 'eighth' })
    assert.equal(got.code, 69)
    assert.match(got.err, /busy, 8 generations are still in use/)
    for (const answer of await Promise.all(calls)) assert.equal(answer.status, 200, answer.text)
    await gone()
    assert.equal(await generation(), from + 7)
    assert.equal((await lb.reload({ mark: 'eighth' })).code, 0)
    assert.equal(await lb.mark(), 'eighth-eighth')
    await gone()
  })

  it('a reload while the node drains is refused, and the node ends', async () => {
    const mine = await ReloadLb.start({ addresses: [address], functions })
    const slow = invoke(mine.node, fnId('sleeper'), '1000')
    await until('it runs', async () => await mine.node.metric('fn_calls_in_flight') >= 1)
    mine.node.signal('SIGTERM')
    await until('it drains', () => mine.node.log.includes('draining'))
    const got = await mine.command('reload')
    assert.equal(got.code, 69)
    assert.match(got.err, /busy, the node is draining/)
    assert.equal((await slow).status, 200)
    assert.deepEqual(await mine.node.ended, { code: 0, signal: null })
  })
})

// Functions that attack their runner, with each driver: every call gets its sentence, the next call of that function gets
// its own answer, nobody else notices, and the runner ends up with the memory and descriptors that it had.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, readdirSync, readlinkSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { after, before, describe, it } from 'node:test'
import { fnId, startLb, startRunner } from './lib/cluster.mjs'
import { driver as docker, noEngine, socketPath } from './lib/docker.mjs'
import { invoke } from './lib/http.mjs'
import { temporary } from './lib/leftovers.mjs'
import { build, root, tempDir, until } from './lib/node.mjs'

const SWAPS = 10_000
const TEN_GB = 10_000_000_000
const GROWN_MAX_KIB = 4 * 1024 // what allocators keep; one leaked answer has 6 MiB
const AT_ONCE = 4
const RESPONSE_MAX = 6 << 20
const PIDS_MAX = 50 // runner.pids_max
const SWAP_PAUSE_MS = 10
const LINE_BYTES = 1 << 30
const LINE_GROWN_MAX_KIB = 16 * 1024 // while it is printed
const LOGGED_MAX_PER_S = 200 * (4096 + 200) // runner.user_log_lines_max, and what is said around each
const LOOK_PAUSE_MS = 20
const BESIDE_MIN = 5 // calls of another function that are answered while one burns
const GONE_MS = 20_000
const BODY = 'x'.repeat(5000)

const SENTENCES = {
  // An engine that is busy may tell of an end later than a runner waits for its reason (300 ms).
  exit: (code) => new RegExp(`: (container exit code ${code}|FN60[13] .*|function closed the connection at once)$`),
  timedOut: /^Timed out$/,
  tooLarge: /^function response body too large$/,
}

// [what, X-Evil, status (0: an answer that is cut), sentence]
const inACall = [
  ['dies with the head of the request', 'die head', 502, SENTENCES.exit(44)],
  ['dies in the body of the request', 'die body', 502, new RegExp(`${SENTENCES.exit(45).source}|^function closed pipe while receiving request$`)],
  ['dies with the whole request', 'die request', 502, SENTENCES.exit(46)],
  ['dies behind its status line', 'die status', 502, SENTENCES.exit(47)],
  ['dies in its answer', 'die answer', 502, SENTENCES.exit(48)],
  ['drips', 'drip', 504, SENTENCES.timedOut],
  ['sends 10 GB', `send ${TEN_GB}`, 502, SENTENCES.tooLarge],
  ['sends 10 GB without a word of it', `send ${TEN_GB} unsaid`, 0],
  ['ignores its caller and every signal', 'ignore', 504, SENTENCES.timedOut],
]
// The same with FN_MODE: each call of these fails, and the next one as the first.
const atTheStart = [
  ['dies before its socket is there', 'die unheard', 502, /^Container failed to initialize, .*: container exit code 41$/],
  ['dies behind its socket', 'die listening', 502, SENTENCES.exit(42)],
  ['dies when it is connected to', 'die accepted', 502, SENTENCES.exit(43)],
  ['takes no connection and no signal', 'deaf', 504, SENTENCES.timedOut],
]
const name = (mode) => mode.replaceAll(' ', '-')

function functionsOf(image) {
  const one = { image, memory: 64, timeout: 2, idle_timeout: 1 }
  const functions = {}
  for (const mode of ['honest', 'twice', 'die answered', 'flood', 'forks', 'swap']) functions[name(mode)] = { ...one, timeout: 20 }
  for (const [, mode] of inACall) functions[name(mode)] = one
  functions.burn = { ...one, timeout: 8 }
  functions.print = { ...one, timeout: 120 }
  for (const [, mode] of atTheStart) functions[name(mode)] = { ...one, config: { FN_MODE: mode } }
  return functions
}

const notRoot = process.getuid() !== 0 && 'nothing limits its processes'

const drivers = [
  ['process', false, () => `driver: { use: process, root: ${path.join(build, 'functions')} }`, 'evil'],
  ['docker', noEngine, () => docker(), 'fnd/evil:latest'],
  ['oci', process.getuid() !== 0 ? 'only root can make containers' : spawnSync('runc', ['--version']).status !== 0 && 'no runc', () => {
    const store = path.join(tempDir(), 'store')
    execFileSync(path.join(root, 'scripts/build-images'), ['evil'], { env: { ...process.env, FND_BUILD: build, FND_OCI_STORE: store } })
    return `driver: { use: oci, store: ${store}, state: ${path.join(tempDir(), 'state')}, runtime: runc }`
  }, 'fnd/evil:latest'],
]

// A socket of somebody else's, which counts who comes.
async function stranger() {
  const dir = temporary('/var/tmp/fnd-stranger-')
  const other = { path: path.join(dir, 'socket'), connections: 0 }
  other.server = net.createServer((s) => {
    other.connections++
    s.destroy()
  })
  await new Promise((resolve) => { other.server.listen(other.path, resolve) })
  for (const at of [dir, other.path]) chmodSync(at, 0o777)
  return other
}

function descriptor(pid, fd) {
  try {
    return readlinkSync(`/proc/${pid}/fd/${fd}`)
  } catch {
    return '' // closed meanwhile
  }
}

// How many descriptors a runner has but for its connections to the engine and the pairs of sockets that wake who waits for one:
// for each question that it ever asked at the same time as others it keeps one of them, and which questions meet is chance.
function descriptorsOf(pid) {
  const open = readdirSync(`/proc/${pid}/fd`).map((fd) => descriptor(pid, fd)).filter(Boolean)
  const own = new Set(open.map((to) => /^socket:\[(\d+)\]$/.exec(to)?.[1]))
  const sockets = execFileSync('ss', ['-xHn'], { encoding: 'utf8' }).trim().split('\n').map((line) => line.trim().split(/\s+/))
  const kept = sockets.filter(([,,,, at, inode,, peer]) => own.has(peer) && (at === socketPath || own.has(inode)))
  return open.length - kept.length
}

for (const [use, skip, driver, image] of drivers) {
  describe(`functions that attack, in driver ${use}`, { skip }, () => {
    let runner
    let lb
    let atFirst
    let words = 0
    const call = (fn, mode = fn) => invoke(lb, fnId(name(fn)), BODY, { 'X-Evil': mode })
    // What nobody else can have said.
    const answersFor = async (fn) => {
      const word = `word ${++words} of ${fn}`
      const answer = await invoke(lb, fnId(name(fn)), word)
      assert.equal(answer.status, 200, answer.text)
      assert.equal(answer.text, word)
    }
    const failed = (answer, status, sentence) => {
      assert.equal(answer.status, status, answer.text)
      assert.match(JSON.parse(answer.text).message, sentence)
      assert.equal(answer.headers['fn-outcome'], 'failed')
    }
    const gone = (fn) => until(`containers of ${fn}`, async () => {
      const m = await runner.metrics()
      return ![...m].some(([key, n]) => n && /^fn_container_(start|idle|paused|busy)_total/.test(key) && key.includes(fn))
    }, GONE_MS)
    const descriptors = () => descriptorsOf(runner.pid)

    before(async () => {
      runner = await startRunner({ driver: driver(), runner: `owner: evil-${use}-${process.pid}\nexit_wait: 1s\nfreeze_idle: never\nparallel_starts_max: ${AT_ONCE}` })
      lb = await startLb({ addresses: [runner.address], functions: functionsOf(image) })
      // As much at once as later.
      await Promise.all(inACall.map(([, mode]) => answersFor(mode)))
      await gone('')
      atFirst = { kib: runner.rssKiB(), fds: descriptors() }
    })
    after(async () => { for (const node of [lb, runner]) await node?.stop() })

    describe('one that', { concurrency: AT_ONCE }, () => {
      for (const [what, mode, status, sentence] of inACall) {
        it(what, async () => {
          const answer = await call(mode)
          if (status) failed(answer, status, sentence)
          else assert.deepEqual([answer.status, answer.complete, answer.body.length <= RESPONSE_MAX], [200, false, true])
          await answersFor(mode)
          await answersFor('honest')
        })
      }

      for (const [what, mode, status, sentence] of atTheStart) {
        it(what, async () => {
          for (let i = 0; i < 2; i++) {
            const answer = await call(mode)
            failed(answer, status, sentence)
          }
          await answersFor('honest')
        })
      }

      for (const [what, mode] of [['answers twice', 'twice'], ['dies behind its answer', 'die answered']]) {
        it(what, async () => {
          const answer = await call(mode)
          assert.equal(answer.status, 200, answer.text)
          assert.equal(answer.text, BODY)
          // What is sent while it dies is lost with it: 502 for that call, which may have been read.
          if (mode === 'die answered') await gone(fnId(name(mode)))
          await answersFor(mode)
        })
      }

      it('sends as much as it may, and a byte more', async () => {
        const most = await call('honest', `send ${RESPONSE_MAX}`)
        assert.deepEqual([most.status, most.complete, most.body.length], [200, true, RESPONSE_MAX])
        failed(await call('honest', `send ${RESPONSE_MAX + 1}`), 502, SENTENCES.tooLarge)
        await answersFor('honest')
      })

      it('answers with nothing', async () => {
        const answer = await invoke(lb, fnId('honest'))
        assert.deepEqual([answer.status, answer.text], [200, ''])
      })

      it('floods its directory', async () => {
        const [, files, bytes] = /^(\d+) files, (\d+) bytes$/.exec((await call('flood')).text)
        assert.ok(files < 64 && bytes <= 1 << 20, `${files} files, ${bytes} bytes`)
        await answersFor('flood')
      })

      it('forks', { skip: notRoot }, async () => {
        const children = Number((await call('forks')).text)
        assert.ok(children > 0 && children < PIDS_MAX, `${children} processes`)
        await answersFor('forks')
      })

      it('swaps its socket 10 000 times: nobody else is connected to', async () => {
        const other = await stranger()
        let swaps = 0
        let refused = 0
        for (let last = 0; swaps < SWAPS || last; await wait(SWAP_PAUSE_MS)) { // ends behind a container that was refused
          const answer = await call('swap', `swap ${other.path}`)
          if (answer.status === 200) {
            swaps += Number(answer.text) - last
            last = Number(answer.text)
          } else {
            failed(answer, 502, /^error receiving function response: FN604 socket leaves its directory/)
            refused++
            last = 0
          }
        }
        assert.ok(refused > 0)
        assert.equal(other.connections, 0)
        await answersFor('swap')
        other.server.close()
      })
    })

    it('F65 one that prints a line of 1 GiB: the runner keeps a part of it', async () => {
      const before = { kib: runner.rssKiB(), log: runner.log.length }
      const begin = performance.now()
      let most = 0
      let answer
      const printed = call('print', `print ${LINE_BYTES}`).then((a) => { answer = a })
      for (; !answer; await wait(LOOK_PAUSE_MS)) most = Math.max(most, runner.rssKiB())
      await printed
      assert.deepEqual([answer.status, answer.text], [200, 'printed'])
      assert.ok(most - before.kib < LINE_GROWN_MAX_KIB, `${before.kib} KiB before, ${most} KiB while it printed`)
      const logged = runner.log.length - before.log
      assert.ok(logged < LOGGED_MAX_PER_S * (1 + (performance.now() - begin) / 1000), `${logged} bytes in the log`)
      await answersFor('print')
    })

    it('F66 one that takes all processors with all processes it may have: another one is answered', { skip: notRoot }, async () => {
      let answer
      const burnt = call('burn').then((a) => { answer = a })
      await until('it burns', async () => [...await runner.metrics()].some(([key, n]) => n && key.startsWith('fn_container_busy_total') && key.includes(fnId('burn'))))
      let beside = 0
      for (; !answer; beside++) await answersFor(beside % 2 ? 'honest' : 'twice')
      await burnt
      failed(answer, 504, SENTENCES.timedOut)
      assert.ok(beside >= BESIDE_MIN, `${beside} calls`)
      await gone(fnId('burn'))
    })

    it('the runner has the memory and the descriptors that it had', async () => {
      await gone('')
      await until('its descriptors', () => descriptors() <= atFirst.fds)
      const kib = runner.rssKiB()
      assert.ok(kib - atFirst.kib < GROWN_MAX_KIB, `${atFirst.kib} KiB before, ${kib} KiB now`)
    })
  })
}

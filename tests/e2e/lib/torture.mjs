// One call of a node fails: its number among those of its kind is counted up until there is none.
// FND_LONG=1: each number; otherwise the first ones, and each so-manieth after them.
import assert from 'node:assert/strict'
import { closeSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs'
import { constants } from 'node:os'
import path from 'node:path'
import { build, tempDir } from './node.mjs'

// In the order of `enum kind` in tests/e2e/torture/torture.c.
const KINDS = ['none', 'malloc', 'read', 'write', 'recv', 'send', 'sendmsg', 'accept', 'socket', 'connect', 'epoll_ctl', 'epoll_wait',
  'eventfd', 'open', 'pipe', 'mkdir', 'inotify', 'thread', 'mmap', 'malloc aside', 'bind', 'listen', 'setsockopt', 'getsockname', 'epoll_create', 'socketpair', 'mount', 'rename',
  'fsync', 'pwrite', 'opendir', 'spawn']
const MISSES = 3 // of the n-th call in a row: there is none
const MOST = 20_000
const LONG = process.env.FND_LONG === '1'

export class Torture {
  constructor() {
    const file = path.join(tempDir(), 'torture')
    writeFileSync(file, Buffer.alloc(24))
    this.fd = openSync(file, 'r+')
    this.env = { LD_PRELOAD: path.join(build, 'tests/test-torture.so'), FND_TORTURE: file,
      ASAN_OPTIONS: `${process.env.ASAN_OPTIONS ?? ''}:verify_asan_link_order=0` }
  }

  fail(kind, nth, error) {
    const b = Buffer.alloc(24)
    b.writeUInt32LE(nth, 4)
    b.writeUInt32LE(error === 'short' ? 0 : constants.errno[error], 8)
    writeSync(this.fd, b, 0, 24, 0)
    b.writeUInt32LE(KINDS.indexOf(kind), 0)
    writeSync(this.fd, b, 0, 4, 0)
  }

  // Whether one failed.
  end() {
    const b = Buffer.alloc(24)
    writeSync(this.fd, b, 0, 4, 0)
    readSync(this.fd, b, 0, 24, 0)
    return b.readUInt32LE(16) > 0
  }

  // Runs round(what) while the n-th call fails, then behind(what): for n = 1 to `first`, then for each `step`-th, until
  // rounds have no n-th call. -> how many failed
  async each([kind, error, first, step], round, behind) {
    let failed = 0
    for (let n = 1, misses = 0; misses < MISSES; n += n < first || LONG ? 1 : step) {
      assert.ok(n < MOST, `${kind} ${error}: there is no end of them`)
      const what = `${kind} ${error}, number ${n}`
      this.fail(kind, n, error)
      const seen = await round(what)
      const hit = this.end()
      misses = hit ? 0 : misses + 1
      failed += hit
      await behind(what, seen)
    }
    return failed
  }

  close() {
    closeSync(this.fd)
  }
}

// A node that was tortured and is stopped ends as others do; AddressSanitizer, where it has that, says by its exit code
// what was lost on the way.
export function endsWell(node) {
  if (node) assert.deepEqual(node.exit, { code: 0, signal: null }, node.log.slice(-3000))
}

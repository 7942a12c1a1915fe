// A PostgreSQL server of the tests' own: below /tmp, on a port of loopback, and as the user that
// Debian's package has for it, because it does not run as root.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { temporary } from './leftovers.mjs'
import { freePort, until } from './node.mjs'

const VERSIONS = '/usr/lib/postgresql'
const PASSWORD = 'geheim'
const version = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort().at(-1) : undefined
const number = (flag) => Number(spawnSync('id', [flag, 'postgres'], { encoding: 'utf8' }).stdout)
const tool = (name) => path.join(VERSIONS, version, 'bin', name)

// For `skip`: false, or why there is none.
export const noPostgres = !version ? 'no PostgreSQL server is installed'
  : process.getuid() !== 0 ? 'its server runs as another user, which takes root' : false

export class Postgres {
  static async start() {
    const pg = new Postgres()
    pg.user = { uid: number('-u'), gid: number('-g') }
    pg.dir = temporary('/tmp/fnd-postgres-')
    pg.port = await freePort()
    pg.data = path.join(pg.dir, 'data')
    writeFileSync(path.join(pg.dir, 'password'), PASSWORD)
    for (const at of [pg.dir, path.join(pg.dir, 'password')]) chownSync(at, pg.user.uid, pg.user.gid)
    execFileSync(tool('initdb'), ['-D', pg.data, '-A', 'password', '--pwfile', 'password', '-U', 'fn', '-E', 'UTF8', '--no-sync'],
      { ...pg.user, stdio: ['ignore', 'ignore', 'inherit'], cwd: pg.dir })
    await pg.run()
    return pg
  }

  async run() {
    this.child = spawn(tool('postgres'), ['-D', this.data, '-p', this.port, '-c', 'listen_addresses=127.0.0.1',
      '-c', `unix_socket_directories=${this.dir}`], { ...this.user, stdio: 'ignore', cwd: this.dir })
    this.ended = new Promise((resolve) => this.child.once('close', resolve))
    await until('PostgreSQL is ready', () => spawnSync(tool('pg_isready'), ['-h', '127.0.0.1', '-p', this.port]).status === 0, 30_000)
  }

  // As after a crash: connections are cut, and its log is read at the next start.
  async crash() {
    this.child.kill('SIGQUIT')
    await this.ended
  }

  // As an operator stops it: transactions are taken back, clients are told.
  async stop() {
    this.child.kill('SIGINT')
    await this.ended
  }

  get url() {
    return `postgres://fn:${PASSWORD}@127.0.0.1:${this.port}/postgres?sslmode=disable`
  }

  // A client whose transaction stays open; say() resolves when the server has done it.
  session() {
    const child = spawn(tool('psql'), ['-qAtX', this.url], { stdio: ['pipe', 'pipe', 'inherit'] })
    return {
      say: async (text) => {
        child.stdin.write(`${text};\n\\echo done\n`)
        await once(child.stdout, 'data')
      },
      end: () => child.stdin.end(),
    }
  }

  sql(text) {
    return execFileSync(tool('psql'), ['-AtX', '-c', text, this.url], { encoding: 'utf8' }).trim()
  }
}

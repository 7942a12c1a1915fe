// Certificates of every kind that a peer may show, made with the openssl program.
import { execFileSync } from 'node:child_process'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { tempDir } from './node.mjs'

const der = (tag, bytes) => Buffer.concat([Buffer.from(bytes.length < 128 ? [tag, bytes.length] : [tag, 0x81, bytes.length]), bytes])
// SubjectAltName as bytes, for names that no configuration can write.
const rawSan = (uri, dns) => `DER:${der(0x30, Buffer.concat([der(0x86, Buffer.from(uri, 'latin1')), der(0x82, Buffer.from(dns))])).toString('hex')}`

export class Pki {
  constructor() {
    this.dir = tempDir()
    this.n = 0
    this.revoked = []
    this.key = this.newKey('ec', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256')
    this.ca = this.issue({ cn: 'test authority', ext: ['basicConstraints=critical,CA:TRUE'] })
    this.path0 = this.issue({ cn: 'last authority', by: this.ca, ext: ['basicConstraints=critical,CA:TRUE,pathlen:0'] })
    this.deep = this.issue({ cn: 'one too many', by: this.path0, ext: ['basicConstraints=critical,CA:TRUE'] })
    this.other = this.issue({ cn: 'test authority', ext: ['basicConstraints=critical,CA:TRUE'], key: this.newKey('other', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256') })
    this.rsa1024 = this.newKey('rsa', 'RSA', '-pkeyopt', 'rsa_keygen_bits:1024')
  }

  openssl(...args) {
    return execFileSync('openssl', args, { cwd: this.dir, stdio: ['ignore', 'pipe', 'pipe'] })
  }

  newKey(name, algorithm, ...options) {
    const file = path.join(this.dir, `${name}.key`)
    this.openssl('genpkey', '-algorithm', algorithm, ...options, '-out', file)
    chmodSync(file, 0o600)
    return file
  }

  // { cert, key } as files; by: its issuer, itself without.
  issue({ cn, ext = [], by, key = this.key, days = 30, md = 'sha256', start, end, chain = [] }) {
    const base = path.join(this.dir, `c${this.n++}`)
    const subject = cn ? `/CN=${cn}` : '/'
    writeFileSync(`${base}.ext`, `${ext.join('\n')}\n`)
    this.openssl('req', '-new', '-key', key, '-subj', subject, '-out', `${base}.csr`)
    if (start || end) this.#issueBetween(base, by, start ?? '20200101000000Z', end ?? '20491231235959Z')
    else {
      this.openssl('x509', '-req', '-in', `${base}.csr`, ...(by ? ['-CA', by.own, '-CAkey', by.key, '-CAcreateserial'] : ['-signkey', key]),
        '-days', String(days), `-${md}`, '-extfile', `${base}.ext`, '-out', `${base}.own`)
    }
    writeFileSync(`${base}.pem`, [`${base}.own`, ...chain.map((c) => c.own)].map((f) => readFileSync(f)).join(''))
    return { cert: `${base}.pem`, own: `${base}.own`, key }
  }

  #issueBetween(base, by, start, end) {
    writeFileSync(`${base}.db`, '')
    writeFileSync(`${base}.cnf`, `[ca]\ndefault_ca=d\n[d]\ndatabase=${base}.db\nnew_certs_dir=${this.dir}\nrand_serial=yes\npolicy=p\n[p]\ncommonName=optional\n`)
    this.openssl('ca', '-batch', '-config', `${base}.cnf`, '-cert', by.own, '-keyfile', by.key, '-in', `${base}.csr`, '-md', 'sha256',
      '-startdate', start, '-enddate', end, '-extfile', `${base}.ext`, '-notext', '-out', `${base}.own`)
  }

  // A current list of what `by` revoked, as text; days < 0: one that has ended.
  list(by = this.ca, revoked = [], days = 10) {
    const base = path.join(this.dir, `l${this.n++}`)
    const serial = (c) => this.openssl('x509', '-in', c.own, '-noout', '-serial').toString().trim().replace('serial=', '')
    writeFileSync(`${base}.db`, revoked.map((c) => `R\t491231235959Z\t251101000000Z\t${serial(c)}\tunknown\t/CN=x\n`).join(''))
    writeFileSync(`${base}.cnf`, `[ca]\ndefault_ca=d\n[d]\ndatabase=${base}.db\ndefault_md=sha256\n`)
    const dates = days < 0 ? ['-crl_lastupdate', '20250101000000Z', '-crl_nextupdate', '20250102000000Z'] : ['-crldays', String(days)]
    return this.openssl('ca', '-gencrl', '-config', `${base}.cnf`, '-cert', by.own, '-keyfile', by.key, ...dates).toString()
  }

  // A file with the lists of all authorities of cases(), by which its 'revoked' ones are.
  lists() {
    const file = path.join(this.dir, `lists${this.n++}.pem`)
    writeFileSync(file, this.list(this.ca, this.revoked) + this.list(this.path0) + this.list(this.deep))
    return file
  }

  // What a node of `role` may show, by case; `dns` is in each that has names, because servers are dialled by it.
  cases(role, dns) {
    const uri = (name) => `spiffe://fnd/${name}`
    const san = (...uris) => [`subjectAltName=${uris.map((u) => `URI:${u}`).join(',')},DNS:${dns}`]
    const leaf = (more) => this.issue({ cn: `${role}-1`, by: this.ca, ext: san(uri(`${role}-1`)), ...more })
    const own = san(uri(`${role}-1`))
    const revoked = leaf()
    this.revoked.push(revoked)
    return {
      'valid': leaf(),
      'expired': leaf({ days: -1 }),
      'not yet valid': leaf({ start: '20490101000000Z' }),
      'another authority of the same name': leaf({ by: this.other }),
      'self-signed': leaf({ by: undefined }),
      'right authority, wrong role': leaf({ cn: 'stranger-1', ext: san(uri('stranger-1')) }),
      'right role, wrong id': leaf({ cn: `${role}-7`, ext: [`subjectAltName=URI:${uri(`${role}-7`)},DNS:${role}-7.test`] }),
      'wildcard': leaf({ cn: '*', ext: san(uri('*')) }),
      'NUL in the name': leaf({ cn: 'x', ext: [`subjectAltName=${rawSan(`${uri(`${role}-1`)}\0.evil`, dns)}`] }),
      'another case': leaf({ cn: role.toUpperCase(), ext: san(uri(`${role.toUpperCase()}-1`)) }),
      'common name only': leaf({ ext: ['basicConstraints=CA:FALSE'] }),
      'alternative names only': leaf({ cn: '' }),
      'two URIs': leaf({ ext: san(uri(`${role}-1`), uri('stranger-1')) }),
      'not for clients': leaf({ ext: [...own, 'extendedKeyUsage=serverAuth'] }),
      'not for servers': leaf({ ext: [...own, 'extendedKeyUsage=clientAuth'] }),
      'an authority itself': leaf({ ext: [...own, 'basicConstraints=critical,CA:TRUE'] }),
      'path too long': leaf({ by: this.deep, chain: [this.deep, this.path0] }),
      'intermediate missing': leaf({ by: this.path0 }),
      'intermediate sent along': leaf({ by: this.path0, chain: [this.path0] }),
      'RSA of 1024 bits': leaf({ key: this.rsa1024 }),
      'signed with SHA-1': leaf({ md: 'sha1' }),
      revoked,
      'none': null,
    }
  }
}

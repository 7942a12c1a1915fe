// fnkit as its user sees it: pages, exit codes, reports, and files that want to do harm.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, test } from 'node:test';

// Node.js 18 has no import.meta.dirname.
const here = new URL('.', import.meta.url).pathname;
const build = resolve(process.env.FND_BUILD ?? 'build');
const plugin = (name) => join(build, 'plugins', `${name}.so`);
const evil = (name) => join(build, 'tests', 'plugins', 'evil', `${name}.so`);
const sample = (name) => join(build, 'tests', 'plugins', `${name}.so`);
const mutant = (name) => join(build, 'tests', 'plugins', 'mutants', `${name}.so`);
const dir = mkdtempSync(join(tmpdir(), 'fnkit-'));
after(() => rmSync(dir, { recursive: true }));

function run(program, args) {
  const r = spawnSync(join(build, program), args, { encoding: 'utf8', timeout: 60000 });
  return { code: r.status, out: r.stdout, err: r.stderr };
}
const fnkit = (...args) => run('fnkit', args);
const fnd = (...args) => run('fnd', args);

test('inspect tells the same as a page and as JSON', () => {
  const page = fnkit('inspect', plugin('pool-static'));
  const json = JSON.parse(fnkit('inspect', '--json', plugin('pool-static')).out);
  const sum = execFileSync('sha256sum', [plugin('pool-static')], { encoding: 'utf8' }).slice(0, 64);
  assert.equal(page.code, 0);
  assert.equal(json.sha256, sum);
  assert.match(page.out, new RegExp(sum));
  assert.equal(json.name, 'pool-static');
  assert.deepEqual(json.factories.map((f) => `${f.kind}/${f.name}`), ['pool/static']);
  assert.deepEqual(json.factories[0].needs.map((n) => n.interface), ['fn.snap']);
  assert.equal(json.factories[0].options[0].key, 'runners');
  assert.ok(json.imports.includes('calloc'));
  assert.deepEqual(json.exports, ['fn_plugin_v1']);
  assert.match(page.out, /needs +fn\.snap 1\.0/);
  assert.match(page.out, /option +runners: /);
});

test('a report that cannot be made is no success', () => {
  const file = Buffer.concat([Buffer.from(`${dir}/`), Buffer.from([0xff]), Buffer.from('.so')]);
  copyFileSync(plugin('pool-static'), file);
  for (const flag of ['', '--json']) { // a shell makes the byte: arguments of Node.js are UTF-8
    const r = spawnSync('sh', ['-c', `exec "$0" inspect ${flag} "$(printf '%s/\\377.so' "$1")"`, join(build, 'fnkit'), dir],
      { encoding: 'utf8' });
    assert.equal(r.status, 69, r.stderr);
    assert.match(r.stderr, /no report: its path is no UTF-8/);
    assert.equal(r.stdout, '');
  }
});

test('bytes that are no text reach neither a terminal nor a report', () => {
  for (const name of ['manifest-version-bytes', 'manifest-name-escapes', 'manifest-license-lines', 'factory-summary-escapes']) {
    for (const r of [fnkit('inspect', sample(name)), fnkit('inspect', '--json', sample(name)), fnkit('check', sample(name)),
      fnd('plugins', sample(name))]) {
      assert.equal(r.code, 78, name);
      assert.match(r.out + r.err, /PLG909 \S+: .*, got ".*\\x.*"; expected UTF-8 without control characters/);
      assert.doesNotMatch(r.out + r.err, /[^\n -~]/);
    }
  }
});

test('what is no plugin is refused with its sentence', () => {
  const text = join(dir, 'text.so');
  writeFileSync(text, 'hello\n', { mode: 0o755 });
  for (const command of ['inspect', 'check']) {
    const missing = fnkit(command, join(dir, 'missing.so'));
    assert.equal(missing.code, 78);
    assert.match(missing.out + missing.err, /PLG901 .*missing\.so/);
    const wrong = fnkit(command, text);
    assert.equal(wrong.code, 78);
    assert.match(wrong.out + wrong.err, /PLG906 .*not ELF/);
  }
});

test('a file that crashes, loops or exits while it is loaded ends a child, not fnkit', () => {
  for (const [name, sentence] of [['e01_ctor_crashes', /PLG911 .*crashed/],
    ['e02_ctor_loops', /PLG912 .*did not come back/], ['e03_ctor_exits', /PLG913 .*ended/]]) {
    const r = fnkit('check', evil(name));
    assert.equal(r.code, 78, r.out);
    assert.match(r.out, sentence);
  }
  assert.match(fnkit('inspect', evil('e01_ctor_crashes')).err, /PLG911/);
});

test('what the trial of a node refuses is refused, whatever fnkit has loaded for itself', () => {
  for (const [name, sentence] of [['l08_undefined', /PLG908 \S+: undefined symbol: SSL_free/],
    ['l09_ctor_forks', /PLG911 \S+: made a forbidden system call in the trial/], ['l10_huge', /PLG908 \S+: failed to map/]]) {
    const r = fnkit('check', evil(name));
    assert.equal(r.code, 78, r.out);
    assert.match(r.out, sentence);
  }
});

test('a plugin that leaves its call by longjmp or an exception (E22) ends a case, not fnkit', () => {
  for (const [name, method] of [['e22_jumps', 'decide'], ['e22_jumps_over', 'index_build'], ['e22_throws', 'decide'],
    ['e22_throws_over', 'index_build']]) {
    const r = fnkit('check', '--kind', 'placer', evil(name));
    assert.equal(r.code, 1, r.out);
    assert.match(r.out, new RegExp(`FAILED  placer/e22 \\S+: crashed \\(Aborted\\) in ${method}\\(\\)`));
    if (name.startsWith('e22_jumps')) assert.match(r.out, /file\/imports: .*longjmp.* \(a jump must not leave a call\)/);
  }
});

test('wrong answers of every kind (E15) are told by its suite', () => {
  for (const [name, sentence] of [['override', /apply\(\) returned 2; expected FN_PASS/], ['listener', /before\(\) returned 2; expected 0/],
    ['predictor', /predict\(\) returned 4; expected 0/], ['cplane', /list\(\) reported a machine without a usable id/],
    ['driver', /slot_key\(\) left a text that does not end/], ['pool', /fn\.snap begin was called with group "NULL"/]]) {
    const r = fnkit('check', '--suite', 'life', evil(`e15_${name}`));
    assert.equal(r.code, 1, r.out);
    assert.match(r.out, sentence);
  }
});

test('--world: real tables, real machines, nothing left; what is not there is skipped with its sentence', () => {
  const good = fnkit('check', '--world', '--verbose', '--set', 'adopted=none', '--set', 'addresses=fnkit=a:1,fnkit=b:1,fnkit=c:1,fnkit=d:1',
    '--suite', 'control-plane/remove-twice', plugin('cp-fixed'));
  assert.equal(good.code, 0, good.out);
  assert.match(good.out, /ok {6}control-plane\/fixed control-plane\/remove-twice \(world\)/);
  const bad = fnkit('check', '--world', '--suite', 'control-plane/appears', evil('e15_cplane'));
  assert.equal(bad.code, 1);
  assert.match(bad.out, /appears \(world\): list\(\) reported a machine without a usable id/);
  const absent = fnkit('check', '--world', '--verbose', '--set', 'docker_host=unix:///nowhere', plugin('driver-docker'));
  assert.equal(absent.code, 0, absent.out);
  assert.match(absent.out, /skipped driver\/docker driver\/life \(world\): not in this world: probe\(\): .*DOC1001 unix:\/\/\/nowhere/);
  const image = fnkit('check', '--world', '--image', 'no/such', '--set', `root=${join(build, 'functions')}`, plugin('driver-process'));
  assert.equal(image.code, 1);
  assert.match(image.out, /prepare_image\(\) failed: NOT_FOUND .*no\/such.*; expected it to work in this world/);
  assert.equal(fnkit('check', '--world', '--sim', plugin('cp-fixed')).code, 64);
  const none = fnkit('check', '--world', plugin('placer-naive'));
  assert.equal(none.code, 64);
  assert.match(none.err, /--world, got a file without cases for it; expected a driver or a control plane/);
});

test('wrong words are answered with the right ones', () => {
  assert.equal(fnkit().code, 64);
  assert.match(fnkit('chekc').err, /unknown command, got "chekc"/);
  assert.match(fnkit('check').err, /a file is missing/);
  assert.match(fnkit('check', '--set', 'x', plugin('pool-static')).err, /--set.*OPTION=VALUE/);
  assert.match(fnkit('check', '--seed', 'x1', plugin('pool-static')).err, /--seed.*number/);
  // [args, sentence]: what the file or fnkit does not have is a wrong command line
  const rows = [
    [['--set', 'runnners=a:1', plugin('pool-static')], /--set, got "runnners"; expected an option .*; did you mean "runners"\?/],
    [['--set', 'floor=1001', plugin('placer-slowstart')], /CFG706 --set floor, got "1001"; expected whole thousandths 0\.\.1000/],
    [['--suite', 'lief', plugin('pool-static')], /--suite, got "lief"; .*--list; did you mean "life"\?/],
    [['--suite', 'life/tme', plugin('pool-static')], /did you mean "life\/time"\?/],
    [['--suite', 'placer', plugin('pool-static')], /--suite, got "placer"; expected a suite that the file's kinds have/],
    [['--kind', 'plaser', plugin('pool-static')], /--kind, got "plaser"; expected placer, .*operator; did you mean "placer"\?/],
    [['--kind', 'placer', plugin('pool-static')], /--kind or --name, got "placer"; expected a factory of the file/],
    [['--name', 'dynamic', plugin('pool-static')], /--kind or --name, got "dynamic"; expected a factory of the file/],
  ];
  for (const [args, sentence] of rows) {
    const r = fnkit('check', ...args);
    assert.match(r.err, sentence);
    assert.equal(r.code, 64, r.out);
    assert.equal(r.out, '');
  }
  const value = fnkit('check', '--set', 'runners=nowhere', plugin('pool-static'));
  assert.equal(value.code, 1);
  assert.match(value.out, /life\/create: create\(\) failed.*runners\[0\]: got "nowhere"/);
});

test('an illegal answer is told as that first, whatever case met it', () => {
  const rule = 'rule: verdict, index, wait, code and note are legal; session and views keep their bounds';
  for (const [n, sentence] of [[1, /FN_TRY with index \d+ of \d+/], [4, /FN_WAIT for -1 ns/], [5, /verdict 9;/],
    [6, /a note that does not end/], [36, /FN_GIVE_UP with code 5/], [41, /wake_mask 0x43/]]) {
    const lines = fnkit('check', mutant(`placer-${n}`)).out.split('\n');
    assert.match(lines[0], /^FAILED  placer\/mutant placer\/legal-answers: /);
    assert.match(lines[0], sentence);
    assert.equal(lines[1].trim(), rule);
    assert.match(lines[2], /the same in .*life\/used-lives/);
  }
  const one = fnkit('check', '--suite', 'placer/all-busy', mutant('placer-4')).out.split('\n');
  assert.match(one[0], /^FAILED  placer\/mutant placer\/all-busy: /);
  assert.equal(one[1].trim(), rule.replace('rule', 'rule of placer/legal-answers'));
});

test('a method that is slow, but comes back, is told as slow with its time and the limit', () => {
  const time = fnkit('check', '--suite', 'life', mutant('placer-45')).out.split('\n');
  assert.match(time[0], /FAILED  placer\/mutant life\/time: decide\(\) takes 1\d{3} us of real time at least, in each of 20 calls; expected up to 50 us, and less than 1000 us: it must not block/);
  assert.match(time[2], /life\/used-lives: is slow: decide\(\) took 1\d{3} us of real time on average in \d{4} calls, so that the case did not end within 5 s; expected up to 50 us, and less than 1000 us/);
  const spins = fnkit('check', '--suite', 'life/time', mutant('placer-44')).out;
  assert.match(spins, /decide\(\) takes \d+ us of processor time on average over 20 calls; expected up to 50 us, and less than 1000 us: it must not spin/);
});

test('--skip leaves a case out and says so', () => {
  const skip = (...args) => fnkit('check', '--verbose', ...args.flatMap((c) => ['--skip', c]), mutant('placer-17'));
  assert.match(skip().out, /FAILED  placer\/mutant life\/allocation-failure/);
  const r = skip('life/allocation-failure', 'file/imports');
  assert.equal(r.code, 0, r.out);
  assert.match(r.out, /skipped placer\/mutant life\/allocation-failure: left out by --skip/);
  assert.match(r.out, /skipped file file\/imports: left out by --skip/);
  assert.match(r.out, / 0 failed, 2 skipped/);
  const wrong = skip('life/alocation-failure');
  assert.equal(wrong.code, 64);
  assert.match(wrong.err, /--skip, got "life\/alocation-failure"; .*did you mean "life\/allocation-failure"/);
});

test('--verbose says which time it tells', () => {
  const out = fnkit('check', '--verbose', '--suite', 'life/create', plugin('placer-naive')).out;
  assert.match(out, /slowest create\(\), \d+\.\d us of real time on average \(\d+ ms of real time in all\)/);
});

test('a script with mistakes is refused with file, line and column', () => {
  const script = join(dir, 'script.yaml');
  writeFileSync(script, 'http:\n  - match: GET http://x\n    stauts: 200\nexce: []\n');
  const r = fnkit('check', '--script', script, plugin('driver-docker'));
  assert.equal(r.code, 78);
  assert.match(r.err, /script\.yaml:3:5: unknown key "stauts"; did you mean "status"\?/);
  assert.match(r.err, /script\.yaml:4:1: unknown key "exce"; did you mean "exec"\?/);
});

test('a stand-in program remembers what a script cannot', () => {
  const so = join(dir, 'cp-exec.so');
  const root = join(here, '..', '..');
  execFileSync('cc', ['-shared', '-fPIC', '-fvisibility=hidden', '-O2', '-I', join(root, 'include'),
    join(root, 'samples', 'cp-exec', 'cplane.c'), '-o', so]);
  execFileSync('chmod', ['go-w', so, dir]);
  const script = join(dir, 'cloud.yaml');
  writeFileSync(script, `exec:\n  - match: contract\n    run: ${join(root, 'tests', 'fnkit', 'cloud.sh')}\n`);
  const without = fnkit('check', '--verbose', '--suite', 'control-plane', so);
  assert.match(without.out, /skipped .*request-twice: .*no script; first asked for: contract provision default 2 7/);
  const r = fnkit('check', '--script', script, so);
  assert.equal(r.code, 0, r.out);
  assert.match(r.out, / 0 failed, 0 skipped/);
});

test('docs/control-planes.md: the cloud of the page passes, and fails where the page says so', () => {
  const page = readFileSync(join(here, '..', '..', 'docs', 'control-planes.md'), 'utf8');
  const cloud = join(dir, 'page-cloud.sh');
  const script = join(dir, 'page-cloud.yaml');
  const file = (name) => new RegExp(`^\`\`\`\\w+ file=${name}\n([^]*?)^\`\`\`$`, 'm').exec(page)[1];
  const check = (text) => {
    writeFileSync(cloud, text, { mode: 0o755 });
    return fnkit('check', '--set', 'program=my-cloud', '--script', script, join(dir, 'cp-exec.so'));
  };
  writeFileSync(script, file('cloud.yaml').replace('./cloud.sh', cloud));
  const good = check(file('cloud.sh'));
  assert.equal(good.code, 0, good.out);
  const promised = /ends with `(0 failed, 0 skipped)`/.exec(page)[1];
  assert.ok(good.out.includes(promised), good.out);
  const bad = check(file('cloud.sh').replace(/^    if .*request-\$4.*\n/m, '').replace(/^    fi\n/m, ''));
  assert.equal(bad.code, 1);
  const failure = /^```\n(FAILED[^]*?)^```$/m.exec(page)[1];
  assert.ok(bad.out.includes(failure), bad.out);
});

test('TAP and JUnit name the case, the rule and the file', () => {
  const junit = join(dir, 'report.xml');
  const r = fnkit('check', '--tap', '--junit', junit, '--suite', 'placer', mutant('placer-1'));
  assert.equal(r.code, 1);
  const lines = r.out.split('\n');
  assert.equal(lines[0], 'TAP version 13');
  const plan = Number(/^1\.\.(\d+)$/.exec(lines[1])[1]);
  assert.equal(lines.filter((l) => /^(not )?ok /.test(l)).length, plan);
  assert.ok(lines.some((l) => /^not ok \d+ - placer\/mutant placer\/legal-answers$/.test(l)), r.out);
  assert.ok(lines.some((l) => /^# .*expected an index below n/.test(l)));
  const xml = readFileSync(junit, 'utf8');
  const failures = Number(/ failures="(\d+)"/.exec(xml)[1]);
  assert.equal(Number(/ tests="(\d+)"/.exec(xml)[1]), plan);
  assert.equal(xml.match(/<failure /g).length, failures);
  assert.ok(failures > 0 && failures < plan);
  assert.match(xml, /name="sha256" value="[0-9a-f]{64}"/);
  assert.match(xml, /<testcase classname="placer\/mutant" name="placer\/legal-answers"/);
  const broken = fnkit('check', '--junit', join(dir, 'no', 'where.xml'), '--suite', 'file', plugin('placer-naive'));
  assert.equal(broken.code, 69);
  assert.match(broken.err, /where\.xml: No such file/);
});

test('the same seed gives the same report, another one may not', () => {
  const plain = (seed) => fnkit('check', '--seed', seed, '--suite', 'placer', mutant('placer-12')).out;
  assert.equal(plain('7'), plain('7'));
  assert.match(plain('7'), /was never tried/);
});

test('cases run over virtual time and over the real clock', () => {
  const lines = (...args) => fnkit('check', '--verbose', '--suite', 'placer/legal-answers', ...args,
    plugin('placer-naive')).out.split('\n').filter((l) => /legal-answers/.test(l));
  assert.deepEqual(lines().map((l) => /\(real\)/.test(l)), [false, true]);
  assert.deepEqual(lines('--sim').map((l) => /\(real\)/.test(l)), [false]);
  assert.deepEqual(lines('--real').map((l) => /\(real\)/.test(l)), [true]);
});

test('what hangs is given up, and the report comes all the same', () => {
  const r = fnkit('check', '--suite', 'life/destroy-null', mutant('placer-28'));
  assert.equal(r.code, 1);
  assert.match(r.out, /life\/destroy-null: did not come back within 3 s in destroy\(\)/);
});

test('every case of --list is told once, and in docs/fnkit.md', () => {
  const rows = fnkit('check', '--list').out.trim().split('\n');
  assert.ok(rows.some((r) => r.startsWith('operator/')), rows.join('\n'));
  assert.ok(rows.length > 70, `${rows.length} rows`);
  assert.equal(new Set(rows.map((r) => r.split(':')[0])).size, rows.length);
  const page = readFileSync(join(here, '..', '..', 'docs', 'fnkit.md'), 'utf8');
  for (const row of rows) {
    const [name, rule] = [row.slice(row.indexOf('/') + 1, row.indexOf(':')), row.slice(row.indexOf(': ') + 2)];
    assert.ok(page.includes(`| \`${name}\` | ${rule} |`), `docs/fnkit.md has no row for ${row}`);
  }
});

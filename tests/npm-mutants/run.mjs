// Builds npm_sim with one mutant each and runs seeds until an invariant breaks. Fails when a mutant
// survives, when another invariant than those expected breaks, when a text is not found, when an
// invariant is broken by no mutant at all, or when the unchanged sources break one.
// usage: run.mjs <source folder> <C compiler> [--table] [names...]
import { mkdtempSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { endWith, huntAll, judge, line, run, wrongText } from '../lib/mutants.mjs';
import { mutants } from './mutants.mjs';

const SEEDS = 2000;
const JOBS = Number(process.env.FND_JOBS ?? 2);
const [folder, cc, ...rest] = process.argv.slice(2);
const root = path.resolve(folder ?? '.');
const only = rest.filter((x) => !x.startsWith('--'));
const invariants = [...Array(18).keys()].map((i) => `S${i + 1}`).concat(['L1', 'L2', 'L3', 'L4', 'L5']);
const step = ['cplane.c', 'demand.c', 'explain.c', 'group.c', 'hosts.c', 'index.c', 'labels.c', 'scale.c', 'step.c'].map((f) => `core/npm/${f}`);
const sim = ['books.c', 'books_demand.c', 'cloud.c', 'heap.c', 'lb.c', 'main.c', 'node.c', 'quiet.c', 'run.c'].map((f) => `sim/npm/${f}`);
const sources = [...step, ...sim, 'plugins/pool-npm/groups.c'];
const work = mkdtempSync(path.join(tmpdir(), 'npm-mutants-'));
const objectOf = (dir, f) => path.join(dir, `${f.replaceAll('/', '_')}.o`);

const flags = (from) => ['-O1', '-std=gnu11', '-D_GNU_SOURCE', `-I${path.join(work, 'rooms')}`, `-I${root}/include`,
  `-I${root}/plugins/pool-npm`, `-I${root}/plugins/common`, `-I${path.dirname(path.join(root, from))}`];

async function compile(from, text, object) {
  const copy = object.replace(/\.o$/, '.c');
  writeFileSync(copy, text);
  const r = await run(cc, [...flags(from), '-c', copy, '-o', object]);
  if (r.code !== 0) throw new Error(`${from}: ${r.out}`);
}

const read = (f) => readFileSync(path.join(root, f), 'utf8');

async function build(name, changed) {
  const dir = path.join(work, name);
  const objects = sources.map((f) => objectOf(path.join(work, 'base'), f));
  mkdirSync(dir, { recursive: true });
  if (changed) {
    const object = objectOf(dir, changed.file);
    await compile(changed.file, wrongText(root, changed), object);
    objects[sources.indexOf(changed.file)] = object;
  }
  const r = await run(cc, ['-o', path.join(dir, 'npm_sim'), ...objects]);
  if (r.code !== 0) throw new Error(`${name}: ${r.out}`);
  return path.join(dir, 'npm_sim');
}

async function hunt(m) {
  const begin = Date.now();
  const program = await build(m.name, m);
  const r = await run(program, ['--seed', String(m.from ?? 1), '--seeds', String(SEEDS), '--hours', '1']);
  const hit = /seed (\d+): (\w+) broken after ([\d.]+) s: (.*)/.exec(r.out);
  const crashed = typeof r.code === 'string';
  return { ...m, seed: hit?.[1], broke: hit?.[2] ?? (crashed ? 'crash' : undefined), why: hit?.[4] ?? r.code,
    ms: Date.now() - begin };
}

async function main() {
  const chosen = only.length ? mutants.filter((m) => only.includes(m.name)) : mutants;
  const failures = [];
  mkdirSync(path.join(work, 'base'));
  mkdirSync(path.join(work, 'rooms'));
  symlinkSync(path.join(root, 'core/npm'), path.join(work, 'rooms/npm'));
  symlinkSync(path.join(root, 'core/base'), path.join(work, 'rooms/base'));
  for (const f of sources) await compile(f, read(f), objectOf(path.join(work, 'base'), f));
  const sound = await run(await build('sound'), ['--seeds', '100', '--hours', '1']);
  if (sound.code !== 0) failures.push(`the unchanged sources break:\n${sound.out}`);
  const results = await huntAll(chosen, JOBS, hunt);
  for (const r of results) {
    console.log(line(r));
    if (rest.includes('--table')) console.log(`| ${r.name} | ${r.what} | ${r.broke} | ${r.seed ?? '–'} | ${r.why} |`);
  }
  return judge(results, only.length ? [] : invariants, SEEDS, failures);
}

await endWith(main, work);

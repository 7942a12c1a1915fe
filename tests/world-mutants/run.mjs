// Builds fnd_sim or fnd_sim_wire with one mutant each and runs seeds until a rule breaks. Fails when a mutant survives,
// when another rule than those expected breaks, when a text is not found, when a rule is broken by no
// mutant, or when the unchanged sources break one.
// usage: run.mjs <source folder> <build folder> [--table] [names...]
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { endWith, huntAll, judge, line, run } from '../lib/mutants.mjs';
import { builder } from './build.mjs';
import { mutants } from './mutants.mjs';

const SEEDS = 5000;
const MUST_SEEDS = 300;
const LONG_SEEDS = 16;
const JOBS = Number(process.env.FND_JOBS ?? 2);
const [folder, buildFolder, ...rest] = process.argv.slice(2);
const root = path.resolve(folder ?? '.');
const buildDir = path.resolve(buildFolder ?? 'build');
const only = rest.filter((x) => !x.startsWith('--'));
const rules = [...readFileSync(path.join(root, 'sim/world/books.h'), 'utf8').matchAll(/X\(\w+, "(B\d+)"/g)].map((m) => m[1]);
const work = mkdtempSync(path.join(tmpdir(), 'world-mutants-'));
const shell = (command, cwd) => run('sh', ['-c', command], cwd);
const build = builder(root, buildDir, work);

async function hunt(m) {
  const begin = Date.now();
  const { program, plugins } = await build(m);
  // What must break may come behind others that do.
  const seeds = m.must ? `1..${MUST_SEEDS}` : m.long ? `1..${LONG_SEEDS} --long --stop` : `1..${SEEDS} --stop`;
  const r = await shell(`timeout 300 ${program} --plugins ${plugins} --seeds ${seeds} --no-shrink`, work);
  const hit = new RegExp(`seed (\\d+): (${m.must ?? '\\w+'}) broken after ([\\d.]+) s: (.*)`).exec(r.out);
  const crash = !m.must && /seed (\d+): crash/.exec(r.out);
  if (program.startsWith(work)) rmSync(program);
  return { ...m, seed: (hit ?? crash)?.[1], broke: hit?.[2] ?? (crash ? 'crash' : undefined),
    why: hit?.[4] ?? (crash ? /Assertion `(.*?)'/.exec(r.out)?.[1] ?? 'signal' : r.code), ms: Date.now() - begin };
}

async function main() {
  const chosen = only.length ? mutants.filter((m) => only.includes(m.name)) : mutants;
  const failures = [];
  for (const command of ['fnd_sim --seeds 1..100', 'fnd_sim_wire --seeds 1..100', `fnd_sim --long --seeds 1..${LONG_SEEDS}`]) {
    const sound = await shell(`${buildDir}/${command}`, work);
    if (sound.code !== 0) failures.push(`the unchanged sources break in ${command}:\n${sound.out}`);
  }
  const table = rest.includes('--table');
  const results = await huntAll(chosen, JOBS, hunt, (r) => { if (!table) console.log(`${line(r)}: ${r.why}`); });
  for (const r of table ? results : []) console.log(`| ${r.name} | ${r.what} | ${r.broke} | ${r.seed ?? '–'} |`);
  return judge(results, only.length ? [] : rules, SEEDS, failures);
}

await endWith(main, work);

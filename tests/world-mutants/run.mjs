// Builds fnd_sim with one mutant each and runs seeds until a rule breaks. Fails when a mutant survives,
// when another rule than those expected breaks, when a text is not found, when a rule is broken by no
// mutant, or when the unchanged sources break one. How a source is compiled and the program linked is
// asked of the build folder: a mutated object goes before the archives, whose own is then not taken.
// usage: run.mjs <source folder> <build folder> [--table] [names...]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { endWith, huntAll, judge, line, run, wrongText } from '../lib/mutants.mjs';
import { mutants } from './mutants.mjs';

const SEEDS = 5000;
const JOBS = Number(process.env.FND_JOBS ?? 2);
const [folder, buildFolder, ...rest] = process.argv.slice(2);
const root = path.resolve(folder ?? '.');
const buildDir = path.resolve(buildFolder ?? 'build');
const only = rest.filter((x) => !x.startsWith('--'));
const rules = [...readFileSync(path.join(root, 'sim/world/books.h'), 'utf8').matchAll(/X\(\w+, "(B\d+)"/g)].map((m) => m[1]);
const work = mkdtempSync(path.join(tmpdir(), 'world-mutants-'));
const commands = JSON.parse(readFileSync(path.join(buildDir, 'compile_commands.json'), 'utf8'));
const linkLine = execFileSync('ninja', ['-C', buildDir, '-t', 'commands', 'world_sim'], { encoding: 'utf8', maxBuffer: 1 << 26 })
  .trim().split('\n').findLast((l) => / -o fnd_sim /.test(l));

const shell = (command, cwd) => run('sh', ['-c', command], cwd);

async function must(command, cwd, what) {
  const r = await shell(command, cwd);
  if (r.code !== 0) throw new Error(`${what}: ${r.out}`);
}

async function build(m) {
  const entry = commands.find((c) => path.resolve(c.directory, c.file) === path.join(root, m.file));
  const copy = path.join(work, `${m.name}.c`);
  const object = path.join(work, `${m.name}.o`);
  const program = path.join(work, `${m.name}.fnd_sim`);
  if (!entry) throw new Error(`${m.name}: ${m.file} is not compiled in ${buildDir}`);
  writeFileSync(copy, wrongText(root, m));
  await must(entry.command.replace(/ -Werror\b/, ' -w').replace(/ -MF \S+/, ' ').replace(/ -M[DT] (\S+\.o )?/g, ' ')
    .replace(/ -o \S+ -c \S+/, ` -o ${object} -c ${copy}`), entry.directory, m.name);
  await must(linkLine.replace(' -o fnd_sim ', ` ${object} -o ${program} `), buildDir, m.name);
  return program;
}

async function hunt(m) {
  const begin = Date.now();
  const program = await build(m);
  const r = await shell(`timeout 300 ${program} --plugins ${buildDir}/plugins --seeds 1..${SEEDS} --stop`, work);
  const hit = /seed (\d+): (\w+) broken after ([\d.]+) s: (.*)/.exec(r.out);
  const crash = /seed (\d+): crash/.exec(r.out);
  rmSync(program);
  return { ...m, seed: (hit ?? crash)?.[1], broke: hit?.[2] ?? (crash ? 'crash' : undefined),
    why: hit?.[4] ?? (crash ? /Assertion `(.*?)'/.exec(r.out)?.[1] ?? 'signal' : r.code), ms: Date.now() - begin };
}

async function main() {
  const chosen = only.length ? mutants.filter((m) => only.includes(m.name)) : mutants;
  const failures = [];
  const sound = await shell(`${buildDir}/fnd_sim --seeds 1..100`, work);
  if (sound.code !== 0) failures.push(`the unchanged sources break:\n${sound.out}`);
  const table = rest.includes('--table');
  const results = await huntAll(chosen, JOBS, hunt, (r) => { if (!table) console.log(`${line(r)}: ${r.why}`); });
  for (const r of table ? results : []) console.log(`| ${r.name} | ${r.what} | ${r.broke} | ${r.seed ?? '–'} |`);
  return judge(results, only.length ? [] : rules, SEEDS, failures);
}

await endWith(main, work);

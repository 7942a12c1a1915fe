// Builds fnd_sim or fnd_sim_wire with one mutant each and runs seeds until a rule breaks. Fails when a mutant survives,
// when another rule than those expected breaks, when a text is not found, when a rule is broken by no
// mutant, or when the unchanged sources break one. How a source is compiled and the program linked is
// asked of the build folder: a mutated object goes before the archives, whose own is then not taken.
// usage: run.mjs <source folder> <build folder> [--table] [names...]
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
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
const linkLineOf = (target, output) => execFileSync('ninja', ['-C', buildDir, '-t', 'commands', target], { encoding: 'utf8', maxBuffer: 1 << 26 })
  .trim().split('\n').findLast((l) => l.includes(` -o ${output} `));
const linkLines = Object.fromEntries([['world_sim', 'fnd_sim'], ['wire_sim', 'fnd_sim_wire']].map(([target, name]) => [name, linkLineOf(target, name)]));
// What only fnd_sim_wire has.
const programOf = (m) => (/^core\/(rpc|net|http|web)\//.test(m.file) ? 'fnd_sim_wire' : 'fnd_sim');

const shell = (command, cwd) => run('sh', ['-c', command], cwd);

async function must(command, cwd, what) {
  const r = await shell(command, cwd);
  if (r.code !== 0) throw new Error(`${what}: ${r.out}`);
}

async function compile(m) {
  const entry = commands.find((c) => path.resolve(c.directory, c.file) === path.join(root, m.file));
  const copy = path.join(work, `${m.name}.c`);
  const object = path.join(work, `${m.name}.o`);
  if (!entry) throw new Error(`${m.name}: ${m.file} is not compiled in ${buildDir}`);
  writeFileSync(copy, wrongText(root, m));
  await must(entry.command.replace(/ -Werror\b/, ' -w').replace(/ -MF \S+/, ' ').replace(/ -M[DT] (\S+\.o )?/g, ' ')
    .replace(/ -o \S+ -c \S+/, ` -I${path.dirname(path.join(root, m.file))} -o ${object} -c ${copy}`), entry.directory, m.name);
  return { object, own: / -o (\S+)/.exec(entry.command)[1] };
}

// The plugins, with the mutated one among them.
async function buildPlugin(m) {
  const name = path.basename(path.dirname(m.file));
  const { object, own } = await compile(m);
  const plugins = path.join(work, `${m.name}.plugins`);
  mkdirSync(plugins, { mode: 0o700 });
  for (const f of readdirSync(path.join(buildDir, 'plugins')).filter((x) => x.endsWith('.so') && x !== `${name}.so`)) {
    copyFileSync(path.join(buildDir, 'plugins', f), path.join(plugins, f));
  }
  const link = linkLineOf(name, `plugins/${name}.so`).split(' && ').find((x) => x.includes(' -o '));
  await must(`${link.replace(` -o plugins/${name}.so `, ` -o ${plugins}/${name}.so `).replace(` ${own} `, ` ${object} `)} && chmod go-w ${plugins}/${name}.so`,
    buildDir, m.name);
  return { program: `${buildDir}/fnd_sim`, plugins };
}

async function build(m) {
  if (m.file.startsWith('plugins/')) return buildPlugin(m);
  const { object } = await compile(m);
  const name = programOf(m);
  const program = path.join(work, `${m.name}.${name}`);
  await must(linkLines[name].replace(` -o ${name} `, ` ${object} -o ${program} `), buildDir, m.name);
  return { program, plugins: `${buildDir}/plugins` };
}

async function hunt(m) {
  const begin = Date.now();
  const { program, plugins } = await build(m);
  const r = await shell(`timeout 300 ${program} --plugins ${plugins} --seeds 1..${SEEDS} --stop`, work);
  const hit = /seed (\d+): (\w+) broken after ([\d.]+) s: (.*)/.exec(r.out);
  const crash = /seed (\d+): crash/.exec(r.out);
  if (program.startsWith(work)) rmSync(program);
  return { ...m, seed: (hit ?? crash)?.[1], broke: hit?.[2] ?? (crash ? 'crash' : undefined),
    why: hit?.[4] ?? (crash ? /Assertion `(.*?)'/.exec(r.out)?.[1] ?? 'signal' : r.code), ms: Date.now() - begin };
}

async function main() {
  const chosen = only.length ? mutants.filter((m) => only.includes(m.name)) : mutants;
  const failures = [];
  for (const name of Object.keys(linkLines)) {
    const sound = await shell(`${buildDir}/${name} --seeds 1..100`, work);
    if (sound.code !== 0) failures.push(`the unchanged sources break in ${name}:\n${sound.out}`);
  }
  const table = rest.includes('--table');
  const results = await huntAll(chosen, JOBS, hunt, (r) => { if (!table) console.log(`${line(r)}: ${r.why}`); });
  for (const r of table ? results : []) console.log(`| ${r.name} | ${r.what} | ${r.broke} | ${r.seed ?? '–'} |`);
  return judge(results, only.length ? [] : rules, SEEDS, failures);
}

await endWith(main, work);

// A broken seed is shrunk unasked: fnd_sim with a mutant prints the few events that are left, the end of their story, and a line
// that repeats it, with all options that decide what the world is.
// usage: shrink.mjs <source folder> <build folder>
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { endWith, run } from '../lib/mutants.mjs';
import { builder } from './build.mjs';
import { mutants } from './mutants.mjs';

const STORY_LINES_MAX = 40; // sim/world/shortest.c
const LEFT_MAX = 20; // events; the plans have 40 to 400
const CASES = [
  { name: 'L1', args: [] },
  { name: 'L1', args: ['--poor'] },
  { name: 'R15', args: [] }, // an assertion of the product
  { name: 'Q2', args: [] }, // of a plugin: the line names the folder
];
const [folder, buildFolder] = process.argv.slice(2).map((x) => path.resolve(x));
const work = mkdtempSync(path.join(tmpdir(), 'world-mutants-'));
const build = builder(folder, buildFolder, work);

const ruleOf = (out) => /seed \d+: (\w+) broken after/.exec(out)?.[1] ?? (/seed \d+: crash/.test(out) ? 'a crash' : undefined);

async function check({ name, args }) {
  const { program, plugins } = await build(mutants.find((m) => m.name === name));
  const out = (await run(program, ['--plugins', plugins, '--seeds', '1..500', '--stop', ...args], work)).out;
  const what = `${name} ${args.join(' ')}: ${out}`;
  const [, seed, rule, left, all] = /^seed (\d+): (\w+|a crash) with (\d+) of (\d+) events$/m.exec(out) ?? assert.fail(what);
  const story = /^the story, its last (\d+) lines of \d+:\n((?: {2}.*\n)+)/m.exec(out) ?? assert.fail(what);
  const line = out.split('\n').filter((l) => l.startsWith('repeat: ')).at(-1);

  assert.equal(rule, ruleOf(out), what);
  assert.ok(Number(left) <= Math.min(LEFT_MAX, Number(all) / 2), what);
  assert.ok(Number(story[1]) > 1 && Number(story[1]) <= STORY_LINES_MAX, what);
  assert.ok(line.includes(` --seeds ${seed} --only `), line);
  for (const arg of args) assert.ok(line.includes(` ${arg} `), line);
  const again = (await run('sh', ['-c', line.replace(/^repeat: /, '')], work)).out;
  assert.equal(ruleOf(again), rule, `${line}: ${again}`);
  console.log(`${name} ${args.join(' ')}: ${line}`);
  const silent = (await run(program, ['--plugins', plugins, '--seeds', seed, '--no-shrink', ...args], work)).out;
  assert.doesNotMatch(silent, /the story|with \d+ of/);
}

async function main() {
  for (const c of CASES) await check(c);
  return 0;
}

await endWith(main, work);

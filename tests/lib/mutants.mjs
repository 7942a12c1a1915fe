// What the hunts for mutants share (tests/npm-mutants, tests/world-mutants). A mutant is { name, file, text, wrong, by, what }:
// `text` occurs once in `file`, `wrong` stands in its place, and one of the rules `by` must break.
import { spawn } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';

// -> { code: exit status or name of the signal, out }
export function run(command, args, cwd) {
  return new Promise((resolve) => {
    const p = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    p.stdout.on('data', (d) => { out += d; });
    p.stderr.on('data', (d) => { out += d; });
    p.on('close', (code, signal) => resolve({ code: code ?? signal, out }));
  });
}

export function wrongText(root, m) {
  const text = readFileSync(path.join(root, m.file), 'utf8');
  const n = text.split(m.text).length - 1;
  if (n !== 1) throw new Error(`${m.name}: the text occurs ${n} times in ${m.file}; expected once`);
  return text.replace(m.text, () => m.wrong);
}

// Runs hunt(m) -> { ...m, broke, seed, why, ms }, `jobs` at a time; tell(result) is called as they come.
export async function huntAll(mutants, jobs, hunt, tell = () => {}) {
  const results = [];
  const queue = [...mutants];
  await Promise.all(Array.from({ length: jobs }, async () => {
    for (let m = queue.shift(); m; m = queue.shift()) {
      const r = await hunt(m).catch((e) => ({ ...m, error: e.message }));
      results.push(r);
      tell(r);
    }
  }));
  return mutants.map((m) => results.find((r) => r.name === m.name));
}

export const line = (r) => `${r.name} ${r.error ? 'ERROR' : r.broke ?? 'SURVIVED'} seed ${r.seed ?? '-'} ${r.ms} ms: ${r.what}`;

// Prints what failed, `failures` first; -> exit status. rules: each must be broken by one of the results.
export function judge(results, rules, seeds, failures) {
  for (const r of results) {
    if (r.error) failures.push(r.error);
    else if (!r.broke) failures.push(`${r.name} survived ${seeds} seeds`);
    else if (!r.by.includes(r.broke)) failures.push(`${r.name} broke ${r.broke} (${r.why}); expected ${r.by.join(' or ')}`);
  }
  for (const x of rules.filter((rule) => !results.some((r) => r.broke === rule))) failures.push(`${x} is broken by no mutant`);
  for (const f of failures) console.log(`FAILED: ${f}`);
  console.log(`${results.length} mutants, ${results.filter((r) => r.broke).length} caught, ${failures.length} failures`);
  return failures.length ? 1 : 0;
}

// The end of the program is that of main(); its folder of work goes.
export async function endWith(main, work) {
  try {
    process.exitCode = await main();
  } catch (e) {
    console.log(`FAILED: ${e.message}`);
    process.exitCode = 1;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

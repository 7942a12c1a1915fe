// The gate that guards released headers, tried on changes that it must refuse and must let pass.
// Usage: node frozen.test.mjs <source folder>
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const root = process.argv[2];
const released = path.join(root, 'tests/abi/1.0/include/fn');
const gate = path.join(root, 'tests/abi/frozen.mjs');
const minor = ['abi.h', '#define FN_ABI_MINOR 0', '#define FN_ABI_MINOR 1'];
const log = ['abi.h', ' *   1.0  first', ' *   1.1  more.\n *   1.0  first'];

// [what, [[file, from, to], ...], expected text or null when it must pass]
const cases = [
  ['nothing', [], null],
  ['a comment', [['placer.h', '/* ask again after wait_ns, or on a wake of wake_mask */', '/* later */']], null],
  ['white space', [['placer.h', 'uint32_t verdict;', 'uint32_t   verdict ;']], null],
  ['a member at the end', [minor, log,
    ['placer.h', 'uint64_t inflight_total;', 'uint64_t inflight_total; uint64_t hint;']], null],
  ['a new struct and macro', [minor, log,
    ['pool.h', 'struct fn_demand {', '#define FN_NEW 1\nstruct fn_new { uint32_t size; };\nstruct fn_demand {']], null],
  ['a slot at the end', [minor, log, ['pool.h', 'void (*stop)(void *inst, void (*done)(void *ud), void *ud);',
    'void (*stop)(void *inst, void (*done)(void *ud), void *ud); int (*more)(void *inst);']], null],
  ['a member at the end without a minor',
    [['placer.h', 'uint64_t inflight_total;', 'uint64_t inflight_total; uint64_t hint;']], 'FN_ABI_MINOR'],
  ['a new minor without a line in the log', [minor], 'change log'],
  ['a lower minor', [['abi.h', '#define FN_ABI_MINOR 0', '#define FN_ABI_MINOR -1']], 'FN_ABI_MINOR'],
  ['another major', [['abi.h', '#define FN_ABI_MAJOR 1', '#define FN_ABI_MAJOR 2']], 'FN_ABI_MAJOR'],
  ['two members swapped', [['placer.h', 'uint32_t index;\n    uint32_t wake_mask;',
    'uint32_t wake_mask;\n    uint32_t index;']], 'struct fn_answer: member 3'],
  ['a member in the middle', [minor, log, ['placer.h', 'uint32_t verdict;', 'uint32_t verdict; uint32_t x;']],
    'struct fn_answer: member 3'],
  ['another type', [['placer.h', 'int64_t wait_ns;', 'uint64_t wait_ns;']], 'member 5'],
  ['a member renamed', [['cplane.h', 'capacity_mb;', 'capacity;']], 'struct fn_machine'],
  ['the last member gone', [['placer.h', 'uint64_t inflight_total;', '']], 'got "nothing"'],
  ['a signature', [['override.h', 'int (*apply)(void *inst, struct fn_edit *edit,',
    'int (*apply)(void *inst, const struct fn_edit *edit,']], 'struct fn_override_ops'],
  ['a shorter text', [['abi.h', '#define FN_ERROR_TEXT_MAX 216', '#define FN_ERROR_TEXT_MAX 208']],
    'FN_ERROR_TEXT_MAX'],
  ['a value', [['placer.h', '#define FN_WAIT    2u', '#define FN_WAIT    3u']], 'FN_WAIT, got "3u"'],
  ['a magic', [['pool.h', '0x464e1101u', '0x464e1109u']], 'FN_MAGIC_POOL'],
  ['a macro gone', [['driver.h', '#define FN_EXIT_OOM     3u', '']], 'FN_EXIT_OOM'],
  ['a struct of fixed size that grows', [minor, log, ['abi.h', 'uint64_t n;\n};', 'uint64_t n; uint64_t cap;\n};']],
    'its size is fixed'],
  ['a struct gone', [['predictor.h', 'struct fn_load {', 'struct fn_loads {']], 'struct fn_load'],
  ['an inline function', [['placer.h', '(size_t)i * s->stride', '(size_t)i * sizeof(struct fn_runner)']],
    'is gone or changed'],
  ['the entry macro', [['abi.h', 'section(".note.fnd"), used', 'section(".note.fn"), used']], 'FN_PLUGIN_DEFINE'],
  ['another include', [['cplane.h', '#include <fn/host.h>', '#include <fn/abi.h>']], 'is gone or changed'],
];

let failed = 0;
for (const [what, edits, expected] of cases) {
  const tmp = fs.mkdtempSync(path.join(os.tmpdir(), 'fn-frozen-'));
  fs.cpSync(released, tmp, { recursive: true });
  for (const [file, from, to] of edits) {
    const at = path.join(tmp, file);
    const text = fs.readFileSync(at, 'utf8');
    if (!text.includes(from)) {
      console.log(`FAILED: ${what}: ${file} has no "${from}"`);
      failed++;
    }
    fs.writeFileSync(at, text.replace(from, () => to));
  }
  const r = spawnSync('node', [gate, released, tmp], { encoding: 'utf8' });
  const good = expected === null ? r.status === 0 : r.status === 1 && r.stdout.includes(expected);
  if (!good) {
    console.log(`FAILED: ${what}: exit ${r.status}, expected ${expected ?? 'no problem'}:\n${r.stdout}${r.stderr}`);
    failed++;
  }
  fs.rmSync(tmp, { recursive: true });
}
console.log(`${cases.length} cases, ${failed} failed`);
process.exit(failed ? 1 : 0);

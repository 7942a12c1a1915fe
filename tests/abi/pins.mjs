#!/usr/bin/env node
// Prints a header of static assertions: size and place of each member of each struct that crosses the
// border, and each number. Numbers come from the compiler.
//
//   pins.mjs <include/fn> [C compiler]        > tests/abi/layout.h after a change that was meant
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fixedSize, headers, memberName } from './headers.mjs';

const [dir, cc = 'cc'] = process.argv.slice(2);
const all = headers(dir);
const structs = all.flatMap((h) => h.items.filter((i) => i.kind === 'struct'));
const numbers = all.flatMap((h) => h.items.filter((i) => i.kind === 'define'
  && /^[-()0-9a-fux<| ]*\d[-()0-9a-fux<| ]*$/i.test(i.text) && !/MINOR/.test(i.name)));

function probe() {
  const lines = structs.flatMap((s) => [
    `printf("%zu\\n", sizeof(struct ${s.tag}));`,
    ...s.members.map(memberName).flatMap((m) => [
      `printf("%zu\\n", offsetof(struct ${s.tag}, ${m}));`,
      `printf("%zu\\n", sizeof(((struct ${s.tag} *)0)->${m}));`]),
  ]).concat(numbers.map((n) => `printf("%lld\\n", (long long)(${n.name}));`));
  const source = all.map((h) => `#include <fn/${h.file}>\n`).join('')
    + `#include <stdio.h>\nint main(void)\n{\n${lines.join('\n')}\nreturn 0;\n}\n`;
  const tmp = fs.mkdtempSync(path.join(os.tmpdir(), 'fn-pins-'));
  try {
    fs.writeFileSync(path.join(tmp, 'probe.c'), source);
    execFileSync(cc, ['-std=c11', '-I', path.dirname(path.resolve(dir)), '-o', path.join(tmp, 'probe'),
      path.join(tmp, 'probe.c')], { stdio: ['ignore', 'inherit', 'inherit'] });
    return execFileSync(path.join(tmp, 'probe')).toString().trim().split('\n');
  } finally {
    fs.rmSync(tmp, { recursive: true });
  }
}

const values = probe();
const out = [];
for (const s of structs) {
  out.push(`${fixedSize.has(s.tag) ? 'PIN_FIXED' : 'PIN_SIZE'}(struct ${s.tag}, ${values.shift()});`);
  for (const m of s.members.map(memberName)) {
    out.push(`PIN(struct ${s.tag}, ${m}, ${values.shift()}, ${values.shift()});`);
  }
}
for (const n of numbers) {
  const v = values.shift();
  out.push(`PIN_VALUE(${n.name}, ${v}LL);`);
}
process.stdout.write(`/* Sizes, places and numbers that plugins rely on; 64-bit. Made by pins.mjs.
 *
 * PIN_GROWN: the headers under test may be of a later minor than these pins. */
#ifndef FN_PINS_H
#define FN_PINS_H

${all.map((h) => `#include <fn/${h.file}>\n`).join('')}
#ifdef __cplusplus
#define PIN_THAT(what) static_assert(what, #what)
#else
#define PIN_THAT(what) _Static_assert(what, #what)
#endif
#ifdef PIN_GROWN
#define PIN_SIZE(type, n) PIN_THAT(sizeof(type) >= (n))
#else
#define PIN_SIZE(type, n) PIN_THAT(sizeof(type) == (n))
#endif
#define PIN_FIXED(type, n) PIN_THAT(sizeof(type) == (n))
#define PIN(type, member, at, n)                                                                   \\
    PIN_THAT(offsetof(type, member) == (at));                                                      \\
    PIN_THAT(sizeof(((type *)0)->member) == (n))
#define PIN_VALUE(name, n) PIN_THAT((name) == (n))

${out.join('\n')}

#endif
`);

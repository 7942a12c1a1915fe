#!/usr/bin/env node
// Refuses every change of a released header but comments and additions at the end.
//
//   frozen.mjs <released include/fn> <today's include/fn>
//
// Allowed: comments, a new header, a new struct, macro or function, a member behind the last one of a
// struct that may grow, a higher *_MINOR; all but comments with a higher FN_ABI_MINOR and its line in
// the change log. Everything else that was released stays word for word.
import fs from 'node:fs';
import path from 'node:path';
import { fixedSize, headers } from './headers.mjs';

const [released, today] = process.argv.slice(2);
const problems = [];
const added = [];
const minor = /^FN_\w*MINOR$/;

function compareStruct(file, old, now) {
  for (const [i, member] of old.members.entries()) {
    if (now.members[i] !== member) {
      problems.push(`${file}: ${old.name}: member ${i + 1}, got "${now.members[i] ?? 'nothing'}"; `
        + `expected "${member}" as released`);
      return;
    }
  }
  if (fixedSize.has(old.tag) && now.members.length > old.members.length) {
    problems.push(`${file}: ${old.name}: got a new member "${now.members[old.members.length]}"; `
      + 'expected none, its size is fixed for the major');
  }
  added.push(...now.members.slice(old.members.length).map((m) => `${file}: ${old.name}: ${m}`));
}

function compareDefine(file, old, now) {
  const grown = minor.test(old.name) && old.name !== 'FN_HOST_MINOR_MIN'
    && Number(now.text) >= Number(old.text);
  if (now.text !== old.text && !grown) {
    problems.push(`${file}: ${old.name}, got "${now.text}"; expected "${old.text}" as released`);
  }
}

const now = new Map(headers(today).map((h) => [h.file, [...h.items]]));
for (const { file, items } of headers(released)) {
  if (!now.has(file)) {
    problems.push(`${file}: is gone; expected every released header`);
    continue;
  }
  const left = now.get(file);
  for (const old of items) {
    const at = left.findIndex((i) => i.kind === old.kind && i.name === old.name);
    if (at < 0) {
      problems.push(`${file}: "${old.name.slice(0, 100)}" is gone or changed; expected it as released`);
      continue;
    }
    const [found] = left.splice(at, 1);
    if (old.kind === 'struct') {
      compareStruct(file, old, found);
    } else if (old.kind === 'define') {
      compareDefine(file, old, found);
    }
  }
}

for (const [file, left] of now) {
  added.push(...left.filter((i) => i.kind !== 'other' || /\(/.test(i.name))
    .map((i) => `${file}: ${i.name}`));
}
const minorOf = (dir) => Number(headers(dir).find((h) => h.file === 'abi.h').items
  .find((i) => i.name === 'FN_ABI_MINOR').text);
if (added.length && minorOf(today) <= minorOf(released)) {
  problems.push(`abi.h: FN_ABI_MINOR, got ${minorOf(today)}; expected a higher one than ${
    minorOf(released)} was released with, because of "${added[0]}"${
    added.length > 1 ? ` and ${added.length - 1} more` : ''}`);
}
const log = fs.readFileSync(path.join(today, 'abi.h'), 'utf8');
if (!new RegExp(`^ \\*   1\\.${minorOf(today)}  \\S`, 'm').test(log)) {
  problems.push(`abi.h: change log; expected a line " *   1.${minorOf(today)}  what is new"`);
}
for (const p of problems) {
  console.log(p);
}
console.log(`${problems.length} problems`);
process.exit(problems.length ? 1 : 0);

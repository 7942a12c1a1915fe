#!/usr/bin/env node
// Every slot of every table of the public headers has its place in docs/abi.md.
//   documented.mjs <include/fn> <docs/abi.md>
import fs from 'node:fs';
import { headers, memberName } from './headers.mjs';

const text = fs.readFileSync(process.argv[3], 'utf8');
const missing = headers(process.argv[2]).flatMap((h) => h.items)
  .filter((i) => i.kind === 'struct' && /_(ops|if)$|^fn_host$/.test(i.tag))
  .flatMap((s) => s.members.filter((m) => /\(\*/.test(m)).map((m) => [s.tag, memberName(m)]))
  .filter(([, slot]) => !text.includes(`\`${slot}\``));
for (const [table, slot] of missing) {
  console.log(`docs/abi.md: ${table}.${slot} is not described; expected every slot`);
}
process.exit(missing.length ? 1 : 0);

#!/usr/bin/env node
// Writes the headers of a minor to come: every minor one higher, every struct that may grow 8 bytes
// longer (a slot at the end of the tables of the kinds, a number at the end of everything else).
//
//   grow.mjs <include/fn> <output include/fn>
import fs from 'node:fs';
import path from 'node:path';
import { fixedSize } from './headers.mjs';

const [from, to] = process.argv.slice(2);
const kinds = new Set(['fn_placer_ops', 'fn_pool_ops', 'fn_override_ops', 'fn_listener_ops',
  'fn_driver_ops', 'fn_cplane_ops', 'fn_predictor_ops', 'fn_operator_ops']);

fs.mkdirSync(to, { recursive: true });
for (const file of fs.readdirSync(from).filter((f) => f.endsWith('.h'))) {
  const text = fs.readFileSync(path.join(from, file), 'utf8')
    .replace(/^(#define FN_(?!HOST)\w*MINOR) (\d+)$/gm, (_, name, n) => `${name} ${Number(n) + 1}`)
    .replace(/^struct (\w+) \{\n([\s\S]*?)^\};/gm, (all, tag, members) => {
      if (fixedSize.has(tag)) {
        return all;
      }
      const more = kinds.has(tag) ? 'int (*test_grown_slot)(void *inst);' : 'uint64_t test_grown;';
      return `struct ${tag} {\n${members}    ${more}\n};`;
    });
  fs.writeFileSync(path.join(to, file), text);
}

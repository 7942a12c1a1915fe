#!/usr/bin/env node
// Prints a C file whose functions take every struct of the public headers, so that a debugger, or
// abidw, sees all of them in one shared object.    types.mjs <include/fn>
import { headers } from './headers.mjs';

const all = headers(process.argv[2]);
process.stdout.write(`${all.map((h) => `#include <fn/${h.file}>\n`).join('')}\n`);
for (const h of all) {
  for (const s of h.items.filter((i) => i.kind === 'struct')) {
    process.stdout.write(`void shows_${s.tag}(struct ${s.tag} *p);\n`
      + `void shows_${s.tag}(struct ${s.tag} *p)\n{\n    (void)p;\n}\n`);
  }
}

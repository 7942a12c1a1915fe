// Reads the public headers, which are regular C: comments go, the rest is a list of items.
//
//   { name: 'struct fn_ask', kind: 'struct', members: ['uint32_t size', ...] }
//   { name: 'FN_TRY', kind: 'define', text: '1u' }
//   { name: ..., kind: 'other', text: ... }      everything else at top level, as it stands
import fs from 'node:fs';
import path from 'node:path';

const squeeze = (s) => s.replace(/\s+/g, ' ').trim();

export function strip(text) {
  return text.replace(/\/\*[\s\S]*?\*\//g, ' ').replace(/\\\n/g, ' ');
}

// One item per top-level declaration and preprocessor line, in order.
export function items(text) {
  const out = [];
  let rest = strip(text);
  while ((rest = rest.replace(/^\s+/, '')) !== '') {
    if (rest[0] === '#') {
      const end = rest.indexOf('\n') < 0 ? rest.length : rest.indexOf('\n');
      const line = squeeze(rest.slice(0, end));
      const define = line.match(/^# *define (\w+(?:\([^)]*\))?) ?(.*)$/);
      out.push(define ? { name: define[1], kind: 'define', text: define[2] }
        : { name: line, kind: 'other', text: line });
      rest = rest.slice(end);
      continue;
    }
    let depth = 0;
    let end = 0;
    let body = -1;
    for (; end < rest.length; end++) {
      const c = rest[end];
      if (c === '{') { if (depth++ === 0 && body < 0) body = end; }
      if (c === '}') { depth--; if (depth === 0 && /^(static inline|extern)/.test(rest)) { end++; break; } }
      if (c === ';' && depth === 0) { end++; break; }
      if (rest.startsWith('extern "C" {')) { end = 'extern "C" {'.length; break; }
      if (c === '}' && depth < 0) { end++; break; }
    }
    const text_ = squeeze(rest.slice(0, end));
    const struct = text_.match(/^struct (\w+) \{(.*)\};$/);
    if (struct) {
      out.push({ name: `struct ${struct[1]}`, kind: 'struct', tag: struct[1],
        members: struct[2].split(';').map(squeeze).filter(Boolean) });
    } else {
      out.push({ name: text_, kind: 'other', text: text_ });
    }
    rest = rest.slice(end);
  }
  return out;
}

// The name that a member declares: "int (*add)(void *)" and "char msg[216]" included.
export function memberName(declaration) {
  const pointer = declaration.match(/\(\*(\w+)\)/);
  return pointer ? pointer[1] : declaration.match(/(\w+)(?:\[[^\]]*\])?$/)[1];
}

export function headers(dir) {
  return fs.readdirSync(dir).filter((f) => f.endsWith('.h')).sort()
    .map((f) => ({ file: f, items: items(fs.readFileSync(path.join(dir, f), 'utf8')) }));
}

// Structs whose size is fixed for the whole major: they stand in plain arrays, in other structs or
// on the stacks of plugins (abi.h, growth rule).
export const fixedSize = new Set(['fn_hdr', 'fn_error', 'fn_need', 'fn_opt', 'fn_strlist', 'fn_kv',
  'fn_mount', 'fn_device', 'fn_ulimit', 'fn_usage', 'fn_note', 'fn_label']);

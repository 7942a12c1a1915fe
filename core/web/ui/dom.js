// Elements of the node's pages. Text only ever becomes text nodes.

// h('td', { class: 'number' }, 3): an element. Children are elements, text, or lists of them; what is
// null is left out.
export function h(name, attributes = {}, ...children) {
  const e = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value)
    else if (value != null && value !== false) e.setAttribute(key, value)
  }
  e.append(...children.flat(Infinity).filter((c) => c != null))
  return e
}

export const link = (href, text) => h('a', { href }, text)

export function table(columns, rows) {
  const cell = (tag, at, content) => h(tag, { class: columns[at].startsWith('#') ? 'number' : null }, content)
  return h('div', { class: 'scroll' },
    h('table', {},
      h('thead', {}, h('tr', {}, columns.map((c, i) => cell('th', i, c.replace('#', ''))))),
      h('tbody', {}, rows.map((row) => h('tr', {}, row.map((c, i) => cell('td', i, c)))))))
}

// [['Memory', '128 MB'], …]
export const facts = (rows) => h('table', {}, h('tbody', {},
  rows.map(([name, value]) => h('tr', {}, h('th', { scope: 'row' }, name), h('td', {}, value)))))

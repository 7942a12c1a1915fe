// Builds fnd_sim or fnd_sim_wire with one mutant. How a source is compiled and the program linked is asked of the build folder:
// a mutated object goes before the archives, whose own is then not taken.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { run, wrongText } from '../lib/mutants.mjs';

// -> build(mutant) -> { program, plugins }, below the folder `work` but for what is not mutated.
export function builder(root, buildDir, work) {
  const commands = JSON.parse(readFileSync(path.join(buildDir, 'compile_commands.json'), 'utf8'));
  const linkLineOf = (target, output) => execFileSync('ninja', ['-C', buildDir, '-t', 'commands', target], { encoding: 'utf8', maxBuffer: 1 << 26 })
    .trim().split('\n').findLast((l) => l.includes(` -o ${output} `));
  const targets = { fnd_sim: 'world_sim', fnd_sim_wire: 'wire_sim' };
  // What only fnd_sim_wire has.
  const programOf = (m) => (/^core\/(rpc|net|http|web)\//.test(m.file) ? 'fnd_sim_wire' : 'fnd_sim');

  async function must(command, cwd, what) {
    const r = await run('sh', ['-c', command], cwd);
    if (r.code !== 0) throw new Error(`${what}: ${r.out}`);
  }

  async function compile(m) {
    const entry = commands.find((c) => path.resolve(c.directory, c.file) === path.join(root, m.file));
    const copy = path.join(work, `${m.name}.c`);
    const object = path.join(work, `${m.name}.o`);
    if (!entry) throw new Error(`${m.name}: ${m.file} is not compiled in ${buildDir}`);
    writeFileSync(copy, wrongText(root, m));
    await must(entry.command.replace(/ -Werror\b/, ' -w').replace(/ -MF \S+/, ' ').replace(/ -M[DT] (\S+\.o )?/g, ' ')
      .replace(/ -o \S+ -c \S+/, ` -I${path.dirname(path.join(root, m.file))} -o ${object} -c ${copy}`), entry.directory, m.name);
    return { object, own: / -o (\S+)/.exec(entry.command)[1] };
  }

  // The plugins, with the mutated one among them.
  async function buildPlugin(m) {
    const name = path.basename(path.dirname(m.file));
    const { object, own } = await compile(m);
    const plugins = path.join(work, `${m.name}.plugins`);
    mkdirSync(plugins, { mode: 0o700 });
    for (const f of readdirSync(path.join(buildDir, 'plugins')).filter((x) => x.endsWith('.so') && x !== `${name}.so`)) {
      copyFileSync(path.join(buildDir, 'plugins', f), path.join(plugins, f));
    }
    const link = linkLineOf(name, `plugins/${name}.so`).split(' && ').find((x) => x.includes(' -o '));
    await must(`${link.replace(` -o plugins/${name}.so `, ` -o ${plugins}/${name}.so `).replace(` ${own} `, ` ${object} `)} && chmod go-w ${plugins}/${name}.so`,
      buildDir, m.name);
    return { program: `${buildDir}/fnd_sim`, plugins };
  }

  async function build(m) {
    if (m.file.startsWith('plugins/')) return buildPlugin(m);
    const { object } = await compile(m);
    const name = programOf(m);
    const program = path.join(work, `${m.name}.${name}`);
    await must(linkLineOf(targets[name], name).replace(` -o ${name} `, ` ${object} -o ${program} `), buildDir, m.name);
    return { program, plugins: `${buildDir}/plugins` };
  }

  return build;
}

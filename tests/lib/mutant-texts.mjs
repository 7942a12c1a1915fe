// Whether each mutant's text still occurs once in the sources: they run by hand, and a change of a line that one
// of them replaces shows nowhere else.
// usage: mutant-texts.mjs <source folder>
import { mutants as npm } from '../npm-mutants/mutants.mjs'
import { mutants as world } from '../world-mutants/mutants.mjs'
import { wrongText } from './mutants.mjs'

let failed = 0
for (const m of [...npm, ...world]) {
  try {
    wrongText(process.argv[2], m)
  } catch (e) {
    console.error(e.message)
    failed++
  }
}
console.log(`${npm.length + world.length} mutants, ${failed} without their text`)
process.exit(failed > 0 ? 1 : 0)

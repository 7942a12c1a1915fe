// What measurements share: figures of a list, and of a process.
import { readFileSync, readdirSync } from 'node:fs'

// The smallest entry that `share` of the list do not exceed.
export const quantile = (list, share) => [...list].sort((a, b) => a - b)[Math.max(0, Math.ceil(share * list.length) - 1)]
export const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]

// CPU time of a process and its threads in microseconds.
export function cpuMicros(pid) {
  let ns = 0
  for (const tid of readdirSync(`/proc/${pid}/task`)) {
    ns += Number(readFileSync(`/proc/${pid}/task/${tid}/schedstat`, 'utf8').split(' ')[0])
  }
  return ns / 1000
}

export const rssMB = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024

// -> milliseconds.
export async function timed(what) {
  const begin = performance.now()
  await what()
  return performance.now() - begin
}

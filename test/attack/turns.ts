/** Measures how long the event loop does not turn, in CPU time of this thread: what other processes do changes little. */

import process from "node:process";

/** The CPU time that this thread has used, in milliseconds; of the whole process where the runtime counts no threads. */
export function cpuMs(): number {
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage();
  return (user + system) / 1_000;
}

/** Does the work, and measures the longest time within it in which the event loop did not turn. */
export async function longestTurn<Done>(work: () => Promise<Done>): Promise<{ done: Done; ms: number }> {
  let isOver = false;
  let ms = 0;
  let last = cpuMs();
  const look = (): void => {
    const now = cpuMs();
    ms = Math.max(ms, now - last);
    last = now;
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  try {
    const done = await work();
    look();
    return { done, ms };
  } finally {
    isOver = true;
  }
}

/** The CPU time that synchronous work takes, in milliseconds: the longer of two times, because the first compiles. */
export function aloneMs(work: () => unknown): number {
  let longest = 0;
  for (let time = 0; time < 2; time++) {
    const before = cpuMs();
    work();
    longest = Math.max(longest, cpuMs() - before);
  }
  return longest;
}

const SAMPLE = JSON.stringify(Array.from({ length: 20_000 }, (_, index) => ({ index, name: `name ${index}` })));
/** What parsing the sample takes on the machine for which the limits are meant, in milliseconds of CPU. */
const REFERENCE_MS = 8;

/** How many times slower than the reference this machine is at the moment; at least 1. */
export function slowness(): number {
  return Math.max(1, aloneMs(() => JSON.parse(SAMPLE)) / REFERENCE_MS);
}

/** One thread of the simulation: runs every nth world until all threads together have had enough lives. */

import { parentPort, workerData } from "node:worker_threads";
import { borrowingPlanOf } from "./borrowing/plan.ts";
import { runBorrowingWorld } from "./borrowing/world.ts";
import { addFigures, type Figures, noFigures } from "./figures.ts";
import { planOf, type StoreName } from "./plan.ts";
import { runWorld } from "./world.ts";

/** The worlds of a run: gateways on a store, or borrowing stores on one. */
export type Worlds = "gateways" | "borrowing";

export interface Order {
  readonly worlds: Worlds;
  readonly firstSeed: number;
  readonly everySeeds: number;
  readonly lives: number;
  /** Stores whose server does not answer. */
  readonly missing: readonly StoreName[];
  /** Two numbers that all threads share: the lives so far, and 1 when a thread has found a violation. */
  readonly shared: SharedArrayBuffer;
}

export interface ThreadReport {
  readonly figures: Figures;
  readonly broken: { readonly seed: number; readonly message: string } | undefined;
}

// Stacks cost time, and the pipeline makes many errors whose stacks are not read.
Error.stackTraceLimit = 0;

async function run({ worlds, firstSeed, everySeeds, lives, missing, shared }: Order): Promise<ThreadReport> {
  const [LIVES, BROKEN] = [0, 1];
  const counts = new Int32Array(shared);
  const figures = noFigures();
  let usesRedis = false;
  let broken: ThreadReport["broken"];
  for (
    let seed = firstSeed;
    Atomics.load(counts, LIVES) < lives && Atomics.load(counts, BROKEN) === 0;
    seed += everySeeds
  ) {
    const { store } = worlds === "borrowing" ? borrowingPlanOf(seed) : planOf(seed);
    if (missing.includes(store)) continue;
    usesRedis ||= store === "redis";
    const ended = await (worlds === "borrowing" ? runBorrowingWorld({ seed }) : runWorld({ seed }));
    addFigures(figures, ended.figures);
    Atomics.add(counts, LIVES, ended.figures.lives);
    if (!ended.violation) continue;
    broken = { seed, message: ended.violation.message };
    Atomics.store(counts, BROKEN, 1);
  }
  if (usesRedis) await (await import("./store.redis.ts")).closeRedis();
  return { figures, broken };
}

const report = await run(workerData as Order);
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- the port of a thread has no origin
parentPort?.postMessage(report);

/** The simulate trial: runs worlds until there were enough lives or a law is broken, or repeats one world step by step. */

import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { redisAnswers } from "../../stores/redis/servers.ts";
import type { Outcome, Row, Trial } from "../../trial/frame.ts";
import { borrowingPlanOf } from "./borrowing/plan.ts";
import { runBorrowingWorld } from "./borrowing/world.ts";
import { addFigures, COUNTS, type Figures, noFigures } from "./figures.ts";
import { planOf, STORES, type StoreName } from "./plan.ts";
import { closeRedis } from "./store.redis.ts";
import type { Order, ThreadReport, Worlds } from "./worker.ts";
import { runWorld } from "./world.ts";

interface SimulateFlags extends Readonly<Record<string, number | string | undefined>> {
  readonly lives: number;
  /** The seed of the first world. */
  readonly from: number;
  readonly threads: number;
  /** The seed of a single world to repeat. */
  readonly at: number | undefined;
  /** The store of that world, in place of the one that its seed chooses. */
  readonly store: string;
  /** The number of that world's last steps to print. */
  readonly steps: number;
}

export const simulateTrial: Trial<{ readonly name: Worlds }, SimulateFlags> = {
  name: "simulate",
  does: "Simulates calls with crashes and slow stores, and checks the laws of quota after each step.",
  flags: {
    lives: 100_000,
    from: 1,
    threads: Math.min(4, availableParallelism()),
    at: undefined,
    store: "",
    steps: 60,
  },
  subjects: [{ name: "gateways" }, { name: "borrowing" }],
  run: ({ name }, flags) => (flags.at === undefined ? simulate(name, flags) : repeat(name, flags.at, flags)),
};

/** Runs one world, and prints its last steps. */
async function repeat(worlds: Worlds, seed: number, { store: wanted, steps }: SimulateFlags): Promise<Outcome> {
  if (wanted !== "" && !STORES.includes(wanted as StoreName))
    throw new TypeError(`--store is one of ${STORES.join(", ")}.`);
  const [plan, run] = worlds === "borrowing" ? [borrowingPlanOf, runBorrowingWorld] : [planOf, runWorld];
  const { store } = plan(seed, wanted === "" ? undefined : (wanted as StoreName));
  if (store === "redis" && !redisAnswers) throw new Error("This world needs Redis, and no server answers.");
  const lines: string[] = [];
  const { violation, figures } = await run({
    seed,
    store,
    trace(line) {
      lines.push(line);
      if (lines.length > 2 * steps) lines.splice(0, steps);
    },
  });
  await closeRedis();
  return { rows: rowsOf(figures), notes: lines.slice(-steps), problems: violation ? [violation.message] : [] };
}

/** The interval between two lines about the progress, in milliseconds. */
const PROGRESS_MS = 20_000;

async function simulate(worlds: Worlds, { lives, from, threads }: SimulateFlags): Promise<Outcome> {
  const shared = new SharedArrayBuffer(8);
  const progress = setInterval(() => {
    const [done = 0] = new Int32Array(shared);
    console.error(`${done.toLocaleString("en")} lives`);
  }, PROGRESS_MS);
  const missing: Order["missing"] = redisAnswers ? [] : ["redis"];
  const reports = await Promise.all(
    Array.from({ length: threads }, (_, index) =>
      threadOf({ worlds, firstSeed: from + index, everySeeds: threads, lives, missing, shared }),
    ),
  ).finally(() => clearInterval(progress));
  const figures = noFigures();
  for (const report of reports) addFigures(figures, report.figures);
  const broken = reports.flatMap((report) =>
    report.broken
      ? [`${report.broken.message}\n  To see the steps: npm run trial -- simulate ${worlds} --at ${report.broken.seed}`]
      : [],
  );
  const tooFew = broken.length === 0 && figures.lives < Math.max(1, lives) ? ["There were too few lives."] : [];
  return {
    rows: rowsOf(figures),
    notes: redisAnswers ? [] : ["Redis does not answer: its worlds are left out."],
    problems: [...broken, ...tooFew],
  };
}

const rowsOf = (figures: Figures): Row[] =>
  COUNTS.map((name) => ({ figure: name, count: figures[name].toLocaleString("en") }));

function threadOf(order: Order): Promise<ThreadReport> {
  const { promise, resolve, reject } = Promise.withResolvers<ThreadReport>();
  const worker = new Worker(new URL("worker.ts", import.meta.url), { workerData: order });
  worker.once("message", resolve);
  worker.once("error", reject);
  return promise;
}

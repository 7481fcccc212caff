/**
 * Simulates lives until there were enough of them, or a law is broken; or one world again, by its seed, step by step.
 *
 *     npm run simulate -- [--lives 100000] [--from 1] [--threads 2]
 *     npm run simulate -- --seed 42 [--store memory|sqlite|redis] [--steps 60]
 */

import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { redisAnswers } from "../../stores/redis/servers.ts";
import { addFigures, figuresText, noFigures } from "./figures.ts";
import { planOf, type StoreName } from "./plan.ts";
import { closeRedis } from "./store.redis.ts";
import type { Order, ThreadReport } from "./worker.ts";
import { runWorld } from "./world.ts";

const { values } = parseArgs({
  options: {
    lives: { type: "string", default: "100000" },
    from: { type: "string", default: "1" },
    threads: { type: "string", default: String(Math.min(4, availableParallelism())) },
    seed: { type: "string" },
    store: { type: "string" },
    steps: { type: "string", default: "60" },
  },
});

function integer(name: Exclude<keyof typeof values, "store">): number {
  const value = Number(values[name]);
  return Number.isSafeInteger(value) && value > 0 ? value : wrong(name, "an integer from 1 up");
}

function storeWanted(): StoreName | undefined {
  const { store } = values;
  if (store === undefined || store === "memory" || store === "sqlite" || store === "redis") return store;
  return wrong("store", "memory, sqlite or redis");
}

function wrong(name: keyof typeof values, right: string): never {
  console.error(`--${name} must be ${right}, not ${values[name]}`);
  process.exit(2);
}

/** Runs one world, and prints its last steps. */
async function replay(seed: number, steps: number): Promise<void> {
  const { store } = planOf(seed, storeWanted());
  if (store === "redis" && !redisAnswers) throw new Error("This world needs Redis, and none answers.");
  const lines: string[] = [];
  const { violation, figures } = await runWorld({
    seed,
    store,
    trace(line) {
      lines.push(line);
      if (lines.length > 2 * steps) lines.splice(0, steps);
    },
  });
  await closeRedis();
  console.log(lines.slice(-steps).join("\n"));
  console.log(violation ? `seed ${seed}: ${violation.message}` : `${figuresText(figures)}\nNo law was broken.`);
  if (violation) process.exitCode = 1;
}

/** How often it is told how far the simulation is, in milliseconds. */
const TELL_MS = 20_000;

const secondsSince = (begun: number): string => ((performance.now() - begun) / 1_000).toFixed(1);

async function simulate(): Promise<void> {
  const [lives, firstSeed, threads] = [integer("lives"), integer("from"), integer("threads")];
  const begun = performance.now();
  const shared = new SharedArrayBuffer(8);
  const telling = setInterval(() => {
    const [done = 0] = new Int32Array(shared);
    console.error(`${done.toLocaleString("en")} lives after ${secondsSince(begun)} seconds`);
  }, TELL_MS);
  const missing: Order["missing"] = redisAnswers ? [] : ["redis"];
  const reports = await Promise.all(
    Array.from({ length: threads }, (_, index) =>
      threadOf({ firstSeed: firstSeed + index, everySeeds: threads, lives, missing, shared }),
    ),
  );
  clearInterval(telling);
  const figures = noFigures();
  for (const report of reports) addFigures(figures, report.figures);
  console.log(figuresText(figures));
  console.log(`${secondsSince(begun).padStart(14)}  seconds, in ${threads} threads`);
  if (!redisAnswers) console.log("No Redis answers: its worlds were left out.");
  for (const { broken } of reports) {
    if (!broken) continue;
    process.exitCode = 1;
    console.log(`\nseed ${broken.seed}: ${broken.message}`);
    console.log(`To see its steps: npm run simulate -- --seed ${broken.seed}`);
  }
  if (process.exitCode === undefined) console.log("No law was broken.");
}

function threadOf(order: Order): Promise<ThreadReport> {
  const { promise, resolve, reject } = Promise.withResolvers<ThreadReport>();
  const worker = new Worker(new URL("worker.ts", import.meta.url), { workerData: order });
  worker.once("message", resolve);
  worker.once("error", reject);
  return promise;
}

if (values.seed === undefined) await simulate();
else await replay(integer("seed"), integer("steps"));

/** The retries in full, on each store whose server answers or on those named (`--seed=7 --calls=1000 redis`); it fails where a call cost more or less than once. */

import { memoryReplayStore, type ReplayStore } from "../../src/index.ts";
import { sqlReplayStore } from "../../src/stores/sql/index.ts";
import { drivers, redisAnswers, redisReplaysAt } from "../stores/redis/servers.ts";
import { databases } from "../stores/sql/databases.ts";
import { type Plan, retries } from "./retries.ts";

interface Place {
  readonly name: string;
  readonly available: boolean;
  /** How many calls are made there. */
  readonly calls: number;
  open(): Promise<{ store: ReplayStore; remove: () => Promise<void> | void }>;
}

const CALLS = 20_000;

const places: readonly Place[] = [
  {
    name: "memory",
    available: true,
    calls: CALLS,
    open: async () => ({ store: memoryReplayStore({ maxEntries: 2 * CALLS }), remove: () => {} }),
  },
  {
    name: "redis",
    available: redisAnswers,
    calls: CALLS,
    async open() {
      const place = await drivers[0]?.place();
      if (!place) throw new Error("There is no driver.");
      const { store } = redisReplaysAt(place, { maxEntriesPerKey: 2 * CALLS });
      return { store, remove: () => place.remove() };
    },
  },
  ...databases.map((database) => ({
    name: database.name,
    available: database.available,
    calls: database.dialect === "sqlite" ? CALLS / 10 : CALLS,
    async open() {
      const opened = await database.place();
      const store = sqlReplayStore({ ...opened, tables: {}, maxEntriesPerKey: 2 * CALLS });
      return { store, remove: () => opened.remove() };
    },
  })),
];

const named = process.argv.slice(2).filter((name) => !name.startsWith("--"));
const optionOf = (name: string): number | undefined => {
  const option = process.argv.find((one) => one.startsWith(`--${name}=`));
  return option === undefined ? undefined : Number(option.slice(name.length + 3));
};
const seed = optionOf("seed") ?? Date.now() % 1e6;
const calls = optionOf("calls");
console.log(`seed ${seed}`);
for (const place of places.filter(({ name }) => named.length === 0 || named.includes(name))) {
  if (!place.available) {
    console.log(`${place.name}: its server does not answer`);
    continue;
  }
  const { store, remove } = await place.open();
  const plan: Plan = {
    seed,
    calls: calls ?? place.calls,
    atOnce: 64,
    gateways: place.name === "memory" ? 1 : 2,
    cutShare: 0.6,
  };
  const began = performance.now();
  const { violations, ...account } = await retries(plan, store);
  await remove();
  const seconds = ((performance.now() - began) / 1000).toFixed(0);
  console.log(`${place.name}: ${JSON.stringify({ ...account, violations: violations.length, seconds })}`);
  for (const violation of violations.slice(0, 10)) console.log(`  ${violation}`);
  if (violations.length > 0) process.exitCode = 1;
}

/** The short form of the simulator: worlds of each store break no law, every mutant is caught, and a seed repeats exactly. */

import { afterAll, describe, expect, it } from "vitest";
import { redisAnswers } from "../stores/redis/servers.ts";
import { LAWS } from "./simulator/laws.ts";
import type { Mutant } from "./simulator/mutant.ts";
import { memoryMutants } from "./simulator/mutants.memory.ts";
import { pipelineMutants } from "./simulator/mutants.pipeline.ts";
import { redisMutants } from "./simulator/mutants.redis.ts";
import { sqliteMutants } from "./simulator/mutants.sqlite.ts";
import type { Plan, StoreName } from "./simulator/plan.ts";
import { closeRedis } from "./simulator/store.redis.ts";
import { type Ended, runWorld, type WorldOptions } from "./simulator/world.ts";

/**
 * The worlds of each store in the short form, and the lives of a process that crashes at its effects in turn: at each effect, or in a database,
 * which takes much longer, at each third. The full form is `npm run trial -- simulate`.
 */
const WORLDS: readonly [store: StoreName, worlds: number, livesOfCrashes: number, step: number][] = [
  ["memory", 2, 4, 1],
  ["sqlite", 1, 1, 3],
  ["redis", 1, 1, 3],
];

/** The most worlds in which a mutant is searched, and their plan: small quotas give more to break. */
const MOST_WORLDS = 40;
const SMALL: Partial<Plan> = {
  lives: 80,
  keys: [
    { id: "tight", apiKey: "sk-tight", granted: 200 },
    { id: "metered", apiKey: "sk-metered", granted: 900 },
    { id: "unlimited", apiKey: "sk-unlimited" },
    { id: "member", apiKey: "sk-member", budget: "team" },
    { id: "manager", apiKey: "sk-manager", budget: "org" },
  ],
};

const mutants: readonly Mutant[] = [
  ...memoryMutants,
  ...pipelineMutants,
  ...sqliteMutants,
  ...(redisAnswers ? redisMutants : []),
];

afterAll(closeRedis);

/** Returns the first world in which a mutant breaks a law. */
async function caught(mutant: Mutant): Promise<Ended | undefined> {
  const { store, seed: first = 1 } = mutant;
  for (let seed = first; seed < first + MOST_WORLDS; seed++) {
    const ended = await runWorld({ seed, store, plan: SMALL, mutant });
    if (ended.violation) return ended;
  }
  return undefined;
}

async function traced(options: WorldOptions): Promise<{ ended: Ended; lines: readonly string[] }> {
  const lines: string[] = [];
  const ended = await runWorld({ ...options, trace: (line) => lines.push(line) });
  return { ended, lines };
}

for (const [store, worlds, livesOfCrashes, step] of WORLDS)
  describe.skipIf(store === "redis" && !redisAnswers)(`the laws of quota, over ${store}`, () => {
    it("are kept while processes crash and messages are lost, doubled, late and overtaken", async () => {
      const sums = { lives: 0, completed: 0, swept: 0 };
      for (let seed = 1; seed <= worlds; seed++) {
        const { violation, figures } = await runWorld({ seed, store });
        expect(violation, `npm run trial -- simulate gateways --at ${seed} --store ${store}`).toBeUndefined();
        sums.lives += figures.lives;
        sums.completed += figures.completed;
        sums.swept += figures["holds swept"];
      }
      // Require activity: an empty world would keep every law.
      expect(sums.completed).toBeGreaterThan(sums.lives / 8);
      expect(sums.swept).toBeGreaterThan(0);
    });

    it("are kept at whichever await a process crashes", async () => {
      const calm = { drop: 0, duplicate: 0, delay: 0, fail: 0 };
      const plan = { lives: livesOfCrashes, spanMs: 2_000, processes: 1, crash: 0, close: 0, rates: calm };
      let crashes = 0;
      for (let crashAtEffect = 1; ; crashAtEffect += step) {
        const { violation, figures } = await runWorld({ seed: 3, store, plan, crashAtEffect });
        expect(violation, `at effect ${crashAtEffect}`).toBeUndefined();
        if (figures["processes that crashed"] === 0) break;
        crashes++;
      }
      expect(step * crashes).toBeGreaterThan(5 * livesOfCrashes);
    });

    it("are told by a seed in the same steps each time", async () => {
      const [one, other] = [
        await traced({ seed: 7, store, plan: { lives: 20 } }),
        await traced({ seed: 7, store, plan: { lives: 20 } }),
      ];
      expect(other.lines.map(withoutWorld)).toEqual(one.lines.map(withoutWorld));
      expect(other.ended.figures).toEqual(one.ended.figures);
    });
  });

/** Removes the parts of a step that differ in every run: names in Redis, and its real time. */
const withoutWorld = (line: string): string => line.replace(/polygate-simulated-.*|EVAL.*/, "");

describe("the laws of quota", () => {
  const broken = new Set<string>();

  it.each(mutants)("notice what $fault, over $store", async (mutant) => {
    const ended = await caught(mutant);
    expect(mutant.breaks).toContain(ended?.violation?.law);
    broken.add(ended?.violation?.law ?? "");
  });

  it("are each broken by a mutant at least", () => {
    expect(LAWS.filter((law) => !broken.has(law))).toEqual([]);
  });

  it("break at the same step when a seed is run again", async () => {
    for (const mutant of mutants.filter(({ fault }) => fault === "drops overdraft")) {
      const first = await caught(mutant);
      const again = await runWorld({ seed: first?.seed ?? 0, store: mutant.store, plan: SMALL, mutant });
      expect(again.violation?.message).toBe(first?.violation?.message);
      expect(again.violation?.message).toMatch(/^step \d+: /);
    }
  });
});

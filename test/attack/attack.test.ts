/** The short form of every attack, and tests that the frame sees each breach. `npm run trial -- attack` makes far more attempts. */

import { describe, expect, it } from "vitest";
import { tableOf } from "../trial/frame.ts";
import { attacks, rowOf } from "./attacks.ts";
import { type Attack, attack, type Plan, type Siege } from "./frame.ts";

/** The seed of the tests. */
const SEED = 20_261_123;

describe("the gateway, attacked by", () => {
  it.each(attacks)("$name, holds", async (one) => {
    const { findings, attempts } = await attack(one, { seed: SEED, count: one.counts.short, isShort: true });
    expect(findings).toEqual([]);
    expect(attempts).toBeGreaterThan(9);
  });
});

const once = (attempt: Siege["attempt"]): Attack => ({
  name: "once",
  does: "Tries one thing",
  counts: { full: 1, short: 1 },
  open: () => ({ attempt }),
});

const PLAN: Plan = { seed: 1, count: 1, isShort: true };

describe("an attack", () => {
  it("finds what throws, and what nobody handles", async () => {
    const failing = once(async () => {
      void Promise.reject(new Error("Nobody hears of it."));
      throw new Error("It fails.");
    });
    const { findings } = await attack(failing, PLAN);
    expect(findings.map(({ what }) => what)).toEqual([
      "An attempt fails: Error: It fails.",
      "Nobody handles: Error: Nobody hears of it.",
    ]);
  });

  it("finds what keeps the event loop from turning", async () => {
    const blocking: Attack = {
      ...once(async () => {}),
      // Work that takes a minute longer than the machine measures, so that no slow moment of the machine excuses it.
      open: (run) => ({ attempt: () => run.turning("Work", () => Promise.resolve(), -60_000) }),
    };
    const { findings } = await attack(blocking, PLAN);
    expect(findings.map(({ what }) => what)).toEqual(["Work keeps the event loop from turning"]);
  });

  it("makes one attempt again, alone, as it was", async () => {
    const numbers: number[] = [];
    const drawing = once(async (random) => void numbers.push(random.next()));
    await attack(drawing, { ...PLAN, count: 5 });
    await attack(drawing, { ...PLAN, count: 5, at: 3 });
    expect(numbers).toHaveLength(6);
    expect(numbers[5]).toBe(numbers[3]);
  });

  it("that makes no attempt, and one whose plan its process cannot receive, are found", async () => {
    const idle = once(async () => {});
    expect((await attack(idle, { ...PLAN, count: 0 })).findings).toMatchObject([{ what: "Nothing was attempted" }]);
    for (const { counts } of attacks) expect(JSON.parse(JSON.stringify(counts))).toEqual(counts);
  });

  it("becomes a row of the table", () => {
    const [first] = attacks;
    if (!first) throw new Error("There is no attack.");
    const result = { name: first.name, attempts: 7, findings: [], longestTurnMs: 3.2 };
    expect(tableOf([rowOf(first, result)]).split("\n")[2]).toMatch(
      /^\| `mutate` +\| Sends mutated requests.* \| +7 \| +0 \| +3 \|$/,
    );
  });
});

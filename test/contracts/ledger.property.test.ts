/** Whatever order reservations, renewals, settlements and expiries come in, the ledger adds up after each of them. */

import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Certainty, type LedgerReport, type MemoryQuotaStore, memoryQuotaStore } from "../../src/index.ts";
import { type ManualClock, manualClock } from "./index.ts";

type Command =
  | { type: "reserve"; id: string; atLeast: number; atMost: number; leaseMs: number }
  | { type: "extend"; id: string; used: number; leaseMs: number }
  | { type: "settle"; id: string; used: number; how: Certainty }
  | { type: "advance"; ms: number };

// Few ids and close amounts, so that commands meet the same hold, the last unit and the same instant often.
const id = fc.constantFrom("a", "b", "c", "d", "e", "f");
const units = fc.nat({ max: 60 });
const leaseMs = fc.integer({ min: 1, max: 10 });
const command: fc.Arbitrary<Command> = fc.oneof(
  fc
    .record({ type: fc.constant("reserve" as const), id, atLeast: units, span: units, leaseMs })
    .map(({ span, ...reserve }) => ({ ...reserve, atMost: reserve.atLeast + span })),
  fc.record({ type: fc.constant("extend" as const), id, used: units, leaseMs }),
  fc.record({
    type: fc.constant("settle" as const),
    id,
    used: units,
    how: fc.constantFrom("exact" as const, "estimated" as const),
  }),
  fc.record({ type: fc.constant("advance" as const), ms: fc.nat({ max: 5 }) }),
);

interface ExpectedHold {
  readonly granted: number;
  state: "live" | "expired" | "settled" | "refused";
  expiresAt: number;
  used: number;
}

/** What the store must agree with: each hold by itself, without accounts. */
class Expected {
  readonly #holds = new Map<string, ExpectedHold>();

  /** What the first reservation of an id gets decides the later ones. */
  reserved(id: string, granted: number | undefined, expiresAt: number): number | undefined {
    const known = this.#holds.get(id);
    if (known) return known.state === "live" ? known.granted : undefined;
    const state = granted === undefined ? "refused" : "live";
    this.#holds.set(id, { granted: granted ?? 0, state, expiresAt, used: 0 });
    return granted;
  }

  extended(id: string, used: number, expiresAt: number): void {
    const hold = this.#holds.get(id);
    if (hold?.state === "live") Object.assign(hold, { used, expiresAt });
  }

  settled(id: string, used: number): void {
    const hold = this.#holds.get(id);
    if (hold?.state === "live" || hold?.state === "expired") Object.assign(hold, { used, state: "settled" });
  }

  expire(now: number): void {
    for (const hold of this.#holds.values()) if (hold.state === "live" && hold.expiresAt <= now) hold.state = "expired";
  }

  get live(): ExpectedHold[] {
    return [...this.#holds.values()].filter(({ state }) => state === "live");
  }

  get held(): number {
    return this.live.reduce((sum, { granted }) => sum + granted, 0);
  }

  /** All that resolved holds have used, each counted once. */
  get consumed(): number {
    return [...this.#holds.values()].reduce((sum, { state, used }) => sum + (state === "live" ? 0 : used), 0);
  }
}

async function obey(step: Command, store: MemoryQuotaStore, clock: ManualClock, expected: Expected): Promise<void> {
  switch (step.type) {
    case "reserve": {
      const { id, atLeast, atMost } = step;
      const expiresAt = clock.now() + step.leaseMs;
      const key = await store.find("one");
      const grantable = key?.unlimited ? atMost : Math.min(atMost, key?.available ?? 0);
      const granted = expected.reserved(id, grantable >= atLeast ? grantable : undefined, expiresAt);
      const reservation = await store.reserve({ id, keyId: "key-1", atLeast, atMost, expiresAt });
      assert.equal(reservation?.granted, granted);
      return;
    }
    case "extend": {
      const expiresAt = clock.now() + step.leaseMs;
      await store.extend(step.id, { expiresAt, used: step.used });
      return expected.extended(step.id, step.used, expiresAt);
    }
    case "settle": {
      const before = reportOf(store);
      await store.settle(step.id, step.used, step.how);
      expected.settled(step.id, step.used);
      const after = reportOf(store);
      assert.ok(after.overdraft <= before.overdraft || after.available === 0, "overdraft while there was quota left");
      return;
    }
    case "advance":
      return clock.advance(step.ms);
  }
}

function reportOf(store: MemoryQuotaStore): LedgerReport {
  const report = store.report("one");
  if (!report) throw new Error("The store has lost its key.");
  return report;
}

function assertAddsUp(store: MemoryQuotaStore, granted: number | undefined, expected: Expected): void {
  const { used, available, held, liveHolds, overdraft, estimated } = reportOf(store);
  const charged = used - held;
  assert.equal(used + available, granted ?? used, "granted = used + available");
  assert.ok(available >= 0, "available fell below zero");
  assert.deepEqual({ held, liveHolds }, { held: expected.held, liveHolds: expected.live.length });
  assert.equal(charged + overdraft, expected.consumed, "every hold is charged once, what was not covered is overdraft");
  assert.ok(estimated >= 0 && estimated <= charged, "estimates are a part of what was charged");
  assert.ok(granted !== undefined || overdraft === 0, "an unlimited key has no overdraft");
}

describe("the ledger of memoryQuotaStore", () => {
  it("adds up after every command, whatever their order", async () => {
    const granted = fc.option(fc.nat({ max: 150 }), { nil: undefined, freq: 5 });
    const property = fc.asyncProperty(
      granted,
      fc.array(command, { maxLength: 40, size: "max" }),
      async (granted, steps) => {
        const clock = manualClock();
        const store = memoryQuotaStore([{ apiKey: "one", ...(granted !== undefined && { granted }) }], { clock });
        const expected = new Expected();
        for (const step of steps) {
          await obey(step, store, clock, expected);
          expected.expire(clock.now());
          assertAddsUp(store, granted, expected);
        }
      },
    );
    await expect(fc.assert(property, { numRuns: 500 })).resolves.toBeUndefined();
  });
});

/** The ledger adds up after each reservation, renewal, settlement and expiry, in any order. */

import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Certainty, type LedgerReport, type MemoryQuotaStore, memoryQuotaStore } from "../../../src/index.ts";
import { type ManualClock, manualClock } from "../../../src/testing/laws/index.ts";
import { ExpectedLedger } from "./expected-ledger.ts";

type Command =
  | { type: "reserve"; id: string; atLeast: number; atMost: number; leaseMs: number }
  | { type: "renew"; id: string; used: number; leaseMs: number }
  | { type: "settle"; id: string; used: number; certainty: Certainty }
  | { type: "advance"; ms: number };

// The ids are few and the amounts close, so that commands meet the same hold, the last unit and the same instant often.
const id = fc.constantFrom("a", "b", "c", "d", "e", "f");
const units = fc.nat({ max: 60 });
const leaseMs = fc.integer({ min: 1, max: 10 });
const command: fc.Arbitrary<Command> = fc.oneof(
  fc
    .record({ type: fc.constant("reserve" as const), id, atLeast: units, span: units, leaseMs })
    .map(({ span, ...reserve }) => ({ ...reserve, atMost: reserve.atLeast + span })),
  fc.record({ type: fc.constant("renew" as const), id, used: units, leaseMs }),
  fc.record({
    type: fc.constant("settle" as const),
    id,
    used: units,
    certainty: fc.constantFrom("exact" as const, "estimated" as const),
  }),
  fc.record({ type: fc.constant("advance" as const), ms: fc.nat({ max: 5 }) }),
);

async function obey(
  step: Command,
  store: MemoryQuotaStore,
  clock: ManualClock,
  expected: ExpectedLedger,
): Promise<void> {
  switch (step.type) {
    case "reserve": {
      const { type: _, ...terms } = step;
      const hold = { ...terms, keyId: "key-1" };
      const answer = expected.reserved(hold, reportOf(store).available, clock.now() + hold.leaseMs);
      assert.deepEqual(await store.reserve(hold), answer);
      return;
    }
    case "renew": {
      await store.renew(step.id, { leaseMs: step.leaseMs, used: step.used });
      return expected.renewed(step.id, step, clock.now() + step.leaseMs);
    }
    case "settle": {
      const { id, used, certainty } = step;
      const before = reportOf(store);
      await store.settle(id, { used, certainty });
      expected.settled(id, { used, certainty });
      const after = reportOf(store);
      assert.ok(after.overdraft <= before.overdraft || after.available === 0, "overdraft while there was quota left");
      return;
    }
    case "advance":
      return clock.advance(step.ms);
  }
}

function reportOf(store: MemoryQuotaStore): LedgerReport & { readonly available: number } {
  const report = store.report("key-1");
  if (!report) throw new Error("The store has lost its key.");
  return { ...report, available: report.available ?? 0 };
}

function assertAddsUp(store: MemoryQuotaStore, granted: number | undefined, expected: ExpectedLedger): void {
  const { used, available, held, liveHolds, overdraft, estimated } = reportOf(store);
  const charged = used - held;
  assert.equal(used + available, granted ?? used, "granted = used + available");
  assert.ok(available >= 0, "available fell below zero");
  assert.deepEqual({ held, liveHolds }, { held: expected.held, liveHolds: expected.liveHolds });
  assert.equal(charged + overdraft, expected.consumed, "every hold is charged once, what was not covered is overdraft");
  assert.ok(estimated >= 0 && estimated <= charged, "estimates are a part of what was charged");
  assert.ok(
    estimated <= expected.estimated && estimated + overdraft >= expected.estimated,
    "every estimate is counted, as far as it was charged",
  );
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
        const expected = new ExpectedLedger(granted);
        for (const step of steps) {
          await obey(step, store, clock, expected);
          expected.expire(clock.now());
          assertAddsUp(store, granted, expected);
        }
      },
    );
    await expect(fc.assert(property, { numRuns: 150 })).resolves.toBeUndefined();
  });
});

/** Holds the budget of upload bytes to its maximum, whoever takes and gives back in whatever order. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UploadBudget } from "../../src/http/upload-budget.ts";

describe("an upload budget", () => {
  it("may be used up, and not passed", () => {
    const budget = new UploadBudget(100);
    const [one, two] = [budget.lease(), budget.lease()];
    one.take(60);
    two.take(40);
    expect(() => two.take(1)).toThrow(expect.objectContaining({ code: "busy", retryAfterMs: 2_000 }));
    expect(budget.takenBytes).toBe(100);
    one[Symbol.dispose]();
    two.take(60);
    expect(budget.takenBytes).toBe(100);
  });

  it("tells a request that will never fit that it is too large", () => {
    const lease = new UploadBudget(100).lease();
    lease.take(50);
    expect(() => lease.take(51)).toThrow(expect.objectContaining({ code: "body_too_large" }));
  });

  it("gets back once what a lease took, and lends it nothing more", () => {
    const budget = new UploadBudget(100);
    const [one, two] = [budget.lease(), budget.lease()];
    one.take(10);
    two.take(20);
    one[Symbol.dispose]();
    one[Symbol.dispose]();
    expect(budget.takenBytes).toBe(20);
    expect(() => one.take(1)).toThrow(RangeError);
  });

  it("never lends more than it has, and is whole in the end", () => {
    const steps = fc.array(fc.tuple(fc.nat(4), fc.option(fc.nat(60), { nil: undefined })));
    fc.assert(
      fc.property(steps, (steps) => {
        const budget = new UploadBudget(100);
        const leases = Array.from({ length: 5 }, () => budget.lease());
        for (const [index, bytes] of steps) {
          const lease = leases[index];
          if (bytes === undefined) lease?.[Symbol.dispose]();
          else attempt(() => lease?.take(bytes));
          expect(budget.takenBytes).toBeLessThanOrEqual(100);
        }
        for (const lease of leases) lease[Symbol.dispose]();
        expect(budget.takenBytes).toBe(0);
      }),
    );
  });

  it.each([0, -1, 1.5, Number.NaN])("of %s bytes is none", (bytes) => {
    expect(() => new UploadBudget(bytes)).toThrow(RangeError);
  });

  it.each([-1, 1.5, Number.NaN])("lends no %s bytes", (bytes) => {
    expect(() => new UploadBudget(100).lease().take(bytes)).toThrow(RangeError);
  });
});

function attempt(take: () => void): void {
  try {
    take();
  } catch {
    // Refused, or given back before: either way nothing was lent.
  }
}

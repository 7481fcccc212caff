/** Holds the room for bodies to its maximum and to its shares, whoever takes and gives back in whatever order. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BodyRoom } from "../../src/ports/shared-room.ts";

describe("the room for bodies", () => {
  it("may be used up, and not passed", () => {
    const room = new BodyRoom(100);
    const [one, two] = [room.lease("key"), room.lease("key")];
    one.take(60);
    two.take(40);
    expect(() => two.take(1)).toThrow(expect.objectContaining({ code: "busy", retryAfterMs: 2_000 }));
    expect(room.takenBytes).toBe(100);
    one[Symbol.dispose]();
    two.take(60);
    expect(room.takenBytes).toBe(100);
  });

  it("tells a request that will never fit that it is too large", () => {
    const lease = new BodyRoom(100).lease("key");
    lease.take(50);
    expect(() => lease.take(51)).toThrow(expect.objectContaining({ code: "body_too_large" }));
  });

  it("gets back once what a lease took, and lends it nothing more", () => {
    const room = new BodyRoom(100);
    const [one, two] = [room.lease("key"), room.lease("key")];
    one.take(10);
    two.take(20);
    one[Symbol.dispose]();
    one[Symbol.dispose]();
    expect(room.takenBytes).toBe(20);
    expect(() => one.take(1)).toThrow(RangeError);
  });

  it("never lends more than it has, and is whole in the end", () => {
    const steps = fc.array(fc.tuple(fc.nat(4), fc.option(fc.nat(60), { nil: undefined })));
    fc.assert(
      fc.property(steps, (steps) => {
        const room = new BodyRoom(100);
        const leases = Array.from({ length: 5 }, () => room.lease("key"));
        for (const [index, bytes] of steps) {
          const lease = leases[index];
          if (bytes === undefined) lease?.[Symbol.dispose]();
          else attempt(() => lease?.take(bytes));
          expect(room.takenBytes).toBeLessThanOrEqual(100);
        }
        for (const lease of leases) lease[Symbol.dispose]();
        expect(room.takenBytes).toBe(0);
      }),
    );
  });

  it("gives no key more than its share, in one request or in several", () => {
    const room = new BodyRoom(100, 40);
    const [one, same, other] = [room.lease("one"), room.lease("one"), room.lease("other")];
    one.take(30);
    expect(() => same.take(11)).toThrow(expect.objectContaining({ code: "busy", retryAfterMs: 2_000 }));
    same.take(10);
    expect(() => other.take(41)).toThrow(expect.objectContaining({ code: "body_too_large" }));
    expect(() => other.take(31), "a third of the room is left for others").toThrow(
      expect.objectContaining({ code: "busy" }),
    );
    other.take(30);
    expect(room.takenBytes).toBe(70);
    one[Symbol.dispose]();
    same.take(25);
    expect(room.takenBytes).toBe(65);
  });

  it("keeps room for keys that hold none, however many others take all that they may", () => {
    const room = new BodyRoom(1_024, 512);
    for (let key = 0; key < 6; key++) {
      const lease = room.lease(`greedy-${key}`);
      while (attempt(() => lease.take(1)));
      const modest = room.lease("modest");
      expect(
        attempt(() => modest.take(8)),
        `beside ${key + 1}`,
      ).toBe(true);
      modest[Symbol.dispose]();
    }
  });

  it("never lends a key more than its share, and is whole in the end", () => {
    const steps = fc.array(fc.tuple(fc.nat(5), fc.option(fc.nat(60), { nil: undefined })));
    fc.assert(
      fc.property(steps, (steps) => {
        const room = new BodyRoom(100, 50);
        const leases = Array.from({ length: 6 }, (_, index) => room.lease(`key-${index % 2}`));
        const taken = leases.map(() => 0);
        for (const [index, bytes] of steps) {
          const lease = leases[index];
          if (bytes === undefined) {
            lease?.[Symbol.dispose]();
            taken[index] = 0;
          } else if (attempt(() => lease?.take(bytes))) taken[index] = (taken[index] ?? 0) + bytes;
          for (const key of [0, 1]) {
            const ofKey = taken.filter((_, lender) => lender % 2 === key).reduce((sum, one) => sum + one, 0);
            expect(ofKey).toBeLessThanOrEqual(50);
          }
          expect(room.takenBytes).toBe(taken.reduce((sum, one) => sum + one, 0));
        }
        for (const lease of leases) lease[Symbol.dispose]();
        expect(room.takenBytes).toBe(0);
      }),
    );
  });

  it.each([0, -1, 1.5, Number.NaN])("of %s bytes is none", (bytes) => {
    expect(() => new BodyRoom(bytes)).toThrow(RangeError);
    expect(() => new BodyRoom(100, bytes)).toThrow(/^maxBodyBytesPerKey/);
  });

  it.each([-1, 1.5, Number.NaN])("lends no %s bytes", (bytes) => {
    expect(() => new BodyRoom(100).lease("key").take(bytes)).toThrow(RangeError);
  });
});

/** Whether it was lent. */
function attempt(take: () => void): boolean {
  try {
    take();
    return true;
  } catch {
    // Refused, or given back before: either way nothing was lent.
    return false;
  }
}

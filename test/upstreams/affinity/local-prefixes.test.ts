/** The memory of prefixes in a process: the laws of its port, its bound, and a share for each tenant. */

import { describe, expect, it } from "vitest";
import { RETAINED_LIFETIMES } from "../../../src/ports/prefix-memory.ts";
import { LocalPrefixes } from "../../../src/upstreams/affinity/prompt-cache.ts";
import { prefixMemoryLaws } from "../../stores/prefixes.ts";

const clock = (): { now: () => number; time: number } => {
  const own = { time: Date.UTC(2026, 0, 1), now: () => own.time };
  return own;
};

const noted = (from: number, count: number, lifetimeMs = 60_000) =>
  Array.from({ length: count }, (_, at) => ({ id: from + at, lifetimeMs }));

describe("a memory of prefixes in this process", () => {
  prefixMemoryLaws(() => {
    const own = clock();
    const memory = new LocalPrefixes(1_000, own);
    return { memory, other: memory, advance: (ms) => void (own.time += ms) };
  });

  it("holds no more than its bound, and a tenant with much gives its oldest", () => {
    const memory = new LocalPrefixes(1_000, clock());
    memory.note("little", "one", noted(0, 10));
    for (let call = 0; call < 1_000; call++) {
      memory.note("much", "one", noted(call * 7, 7));
      expect(memory.size).toBeLessThanOrEqual(1_007);
    }
    const found = (tenant: string, id: number): number => memory.find(tenant, [id])[0]?.length ?? 0;
    expect(noted(0, 10).map(({ id }) => found("little", id))).toEqual(Array(10).fill(1));
    expect(found("much", 6_999)).toBe(1);
    expect(found("much", 0)).toBe(0);
  });

  it("holds no more than its bound when each tenant holds little", () => {
    const memory = new LocalPrefixes(100, clock());
    for (let tenant = 0; tenant < 1_000; tenant++) {
      memory.note(`tenant ${tenant}`, "one", noted(tenant, 3));
      expect(memory.size).toBeLessThanOrEqual(103);
    }
    expect(memory.find("tenant 999", [999])[0]).toHaveLength(1);
  });

  it("lets go of what is old, and counts a prefix once", () => {
    const own = clock();
    const memory = new LocalPrefixes(1_000, own);
    for (let again = 0; again < 3; again++) memory.note("tenant", `upstream ${again}`, noted(0, 100));
    expect(memory.size).toBe(100);
    own.time += RETAINED_LIFETIMES * 60_000;
    memory.note("another", "one", noted(0, 1));
    expect(memory.size).toBe(1);
  });
});

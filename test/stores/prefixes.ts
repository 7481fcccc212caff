/** The laws of a memory of prefixes. */

import { expect, it } from "vitest";
import { type PrefixMemory, RETAINED_LIFETIMES } from "../../src/ports/prefix-memory.ts";

/** A memory, another one over the same prefixes, and a way to let time pass. */
export interface OpenedPrefixMemory {
  readonly memory: PrefixMemory;
  readonly other: PrefixMemory;
  readonly advance: (ms: number) => void;
}

/** Declares the tests of the laws. Tenants of tests have names of their own. */
export function prefixMemoryLaws(open: () => OpenedPrefixMemory): void {
  const [id, last] = [7, 2 ** 53 - 1];
  let tenants = 0;
  const tenant = (): string => `tenant {${tenants++}}`;

  it("finds what was noted, in the order of the ids, also from another process", async () => {
    const { memory, other, advance } = open();
    const mine = tenant();
    await memory.note(mine, "one", [
      { id, lifetimeMs: 60_000 },
      { id: last, lifetimeMs: 90_000 },
    ]);
    advance(1_000);
    const [none, second, first] = await other.find(mine, [8, last, id]);
    expect(none).toEqual([]);
    expect(second).toMatchObject([{ upstream: "one", lifetimeMs: 90_000 }]);
    expect(first).toMatchObject([{ upstream: "one", lifetimeMs: 60_000 }]);
    expect(first?.[0]?.ageMs).toBeGreaterThanOrEqual(1_000);
    expect(first?.[0]?.ageMs).toBeLessThan(60_000);
    expect(await memory.find(mine, [])).toEqual([]);
  });

  it("keeps the uses of several upstreams, noted at the same time", async () => {
    const { memory, other, advance } = open();
    const mine = tenant();
    await Promise.all(
      ["one", "two", "three"].map(async (name, at) =>
        (at % 2 === 0 ? memory : other).note(mine, name, [{ id, lifetimeMs: 60_000 }]),
      ),
    );
    advance(5_000);
    await memory.note(mine, "two", [{ id, lifetimeMs: 60_000 }]);
    const [uses = []] = await memory.find(mine, [id]);
    expect(uses.map(({ upstream }) => upstream).toSorted()).toEqual(["one", "three", "two"]);
    expect(uses.find(({ upstream }) => upstream === "two")?.ageMs).toBeLessThan(5_000);
    expect(uses.find(({ upstream }) => upstream === "one")?.ageMs).toBeGreaterThanOrEqual(5_000);
  });

  it("keeps tenants apart", async () => {
    const { memory } = open();
    const mine = tenant();
    await memory.note(mine, "one", [{ id, lifetimeMs: 60_000 }]);
    expect(await memory.find(tenant(), [id])).toEqual([[]]);
  });

  it("tells a use until its lifetimes are over", async () => {
    const { memory, advance } = open();
    const mine = tenant();
    await memory.note(mine, "one", [{ id, lifetimeMs: 60_000 }]);
    advance(RETAINED_LIFETIMES * 60_000 - 30_000);
    expect(await memory.find(mine, [id])).toMatchObject([[{ upstream: "one" }]]);
    advance(31_000);
    expect(await memory.find(mine, [id])).toEqual([[]]);
  });
}

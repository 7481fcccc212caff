/** The keys that try new upstreams of a route. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import type { ApiKey } from "../../../src/ports/quota-store.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { canary, type CanaryOptions, route, type RouteBackend } from "../../../src/upstreams/route/index.ts";
import { callContext } from "../relay/stage.ts";
import { ask, type Scripted, scripted } from "./stage.ts";

const keyOf = (id: string, metadata?: Record<string, string>): ApiKey => ({
  ...callContext().key,
  id,
  ...(metadata && { metadata }),
});

const clock = manualClock();

function stage(
  options: CanaryOptions,
  failing: readonly string[] = [],
): { backend: RouteBackend; all: Record<string, Scripted> } {
  const all = Object.fromEntries(
    ["old", "older", "next"].map((name) => [
      name,
      scripted(clock, () => (failing.includes(name) ? [new GatewayError("backend_refused", "down")] : [name])),
    ]),
  );
  const upstreams = Object.entries(all).map(([name, backend]) => ({ name, backend }));
  return { backend: route({ routes: { m: { upstreams, canary: canary(options) } }, clock, random: () => 0 }), all };
}

const textFor = async (backend: RouteBackend, key: ApiKey): Promise<string> =>
  (await ask(backend, clock, {}, { key })).text;

/** Returns the keys that go to the new upstream. */
async function drawn(options: CanaryOptions, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const { backend } = stage(options);
  const texts = await Promise.all(ids.map((id) => textFor(backend, keyOf(id))));
  return new Set(ids.filter((_, at) => texts[at] === "next"));
}

const IDS = Array.from({ length: 400 }, (_, at) => `key-${at}`);

describe("a canary", () => {
  it("takes about its share of the keys, the same in every process, and only adds keys when it grows", async () => {
    let before: ReadonlySet<string> = new Set();
    for (const share of [0, 0.05, 0.2, 0.5, 1]) {
      const now = await drawn({ upstreams: ["next"], share }, IDS);
      expect([...before].filter((id) => !now.has(id))).toEqual([]);
      expect(Math.abs(now.size / IDS.length - share)).toBeLessThan(0.05);
      expect(await drawn({ upstreams: ["next"], share }, IDS)).toEqual(now);
      before = now;
    }
  });

  it("keeps to this for any keys and shares", async () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.string(), { maxLength: 20 }), share, share, async (ids, one, other) => {
        const less = await drawn({ upstreams: ["next"], share: Math.min(one, other) }, ids);
        const more = await drawn({ upstreams: ["next"], share: Math.max(one, other) }, ids);
        expect([...less].filter((id) => !more.has(id))).toEqual([]);
      }),
      { numRuns: 30 },
    );
  });

  it("draws other keys with another salt", async () => {
    const one = await drawn({ upstreams: ["next"], share: 0.3, salt: "a" }, IDS);
    const other = await drawn({ upstreams: ["next"], share: 0.3, salt: "b" }, IDS);
    expect([...one].filter((id) => other.has(id)).length).toBeLessThan(70);
  });

  it.each<[string, Record<string, string> | undefined, boolean]>([
    ["all wanted notes", { ring: "early", tier: "b" }, true],
    ["another value", { ring: "late", tier: "b" }, false],
    ["one of two notes", { ring: "early" }, false],
    ["no notes", undefined, false],
  ])("takes keys by their metadata: %s", async (_name, metadata, isNew) => {
    const { backend } = stage({ upstreams: ["next"], metadata: { ring: "early", tier: ["a", "b"] } });
    expect(await textFor(backend, keyOf("k", metadata))).toBe(isNew ? "next" : "old");
  });

  it("falls back on the usual upstreams for its keys, and never shows a new one to others", async () => {
    const failing = stage({ upstreams: ["next"], share: 1 }, ["next"]);
    expect(await textFor(failing.backend, keyOf("k"))).toBe("old");
    const { backend, all } = stage({ upstreams: ["next"], share: 0 }, ["old", "older"]);
    expect((await ask(backend, clock, {}, { key: keyOf("k") })).error).toMatchObject({ code: "backend_refused" });
    expect(all["next"]?.requests).toEqual([]);
  });

  it("has a share that changes while it runs; one that throws or lies is none", async () => {
    const shares: (() => number)[] = [];
    const { backend } = stage({ upstreams: ["next"], share: () => shares.at(-1)?.() ?? 0 });
    const texts: string[] = [];
    const lies = [
      () => 1,
      () => 2,
      () => Number.NaN,
      () => {
        throw new Error("none");
      },
      () => "1" as never,
    ];
    for (const share of lies) {
      shares.push(share);
      texts.push(await textFor(backend, keyOf("k")));
    }
    expect(texts).toEqual(["next", "old", "old", "old", "old"]);
  });

  it("does not hide the only upstreams that answer a kind of request", async () => {
    const image = { async *image() {} };
    const upstreams = [
      { name: "old", backend: image },
      { name: "next", backend: scripted(clock, () => ["next"]) },
      { name: "last", backend: scripted(clock, () => ["last"]), weight: 0 },
    ];
    const backend = route({ routes: { m: { upstreams, canary: canary({ upstreams: ["next", "last"] }) } }, clock });
    expect(await textFor(backend, keyOf("k"))).toBe("next");
  });
});

it.each<[string, CanaryOptions, string]>([
  [
    "a name that no upstream has",
    { upstreams: ["nxt"] },
    'route: routes["m"]: canary: there is no upstream "nxt", only old, older, next.',
  ],
  ["no upstream", { upstreams: [] }, "some upstreams must be new"],
  ["all upstreams", { upstreams: ["old", "older", "next"] }, "some upstreams must be new"],
  ["a share in percent", { upstreams: ["next"], share: 5 }, "canary: share must be a number from 0 to 1"],
  ["metadata that is no text", { upstreams: ["next"], metadata: { ring: 1 as never } }, "canary: metadata"],
])("refuses %s", (_name, options, message) => {
  expect(() => stage(options)).toThrow(message);
});

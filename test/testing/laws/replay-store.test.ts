/** The laws of the ReplayStore notice each fault of a store, and the memory store keeps them. */

import { AssertionError } from "node:assert";
import { describe, expect, it } from "vitest";
import { type OpenReplayStore, replayStoreLaws } from "../../../src/testing/laws/index.ts";
import { openMemoryReplays, processMutant, replayMutants } from "./replay-faults.ts";

const mutants = [...replayMutants, processMutant];

/** The laws that a store breaks, and their errors. */
async function brokenBy(open: OpenReplayStore): Promise<Map<string, unknown>> {
  const broken = new Map<string, unknown>();
  for (const law of replayStoreLaws) await law.verify(open).catch((error: unknown) => broken.set(law.name, error));
  return broken;
}

describe("memoryReplayStore", () => {
  it.each(replayStoreLaws)("$name", async (law) => {
    await expect(law.verify(openMemoryReplays)).resolves.toBeUndefined();
  });
});

describe("replayStoreLaws", () => {
  it.each(mutants)("notice a store that $fault", async ({ open, breaks }) => {
    const broken = await brokenBy(open);
    expect([...broken.keys()]).toContain(breaks);
    expect(broken.get(breaks)).toBeInstanceOf(AssertionError);
    expect(broken.size, "a mutant has one fault, and keeps most laws").toBeLessThan(replayStoreLaws.length / 2);
  });

  it("are each broken by a mutant at least", async () => {
    const broken = await Promise.all(mutants.map(({ open }) => brokenBy(open)));
    const names = new Set(broken.flatMap((laws) => [...laws.keys()]));
    expect(replayStoreLaws.map((law) => law.name).filter((name) => !names.has(name))).toEqual([]);
  });

  it.each(replayStoreLaws)("close what they opened: $name", async (law) => {
    let closed = 0;
    await law.verify(() => ({ ...openMemoryReplays(), close: () => void closed++ }));
    expect(closed).toBe(1);
  });
});

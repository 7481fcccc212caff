/** The laws of the ResponseStore notice each fault of a store, and the memory store keeps them. */

import { AssertionError } from "node:assert";
import { describe, expect, it } from "vitest";
import { type OpenResponseStore, responseStoreLaws } from "../../../src/testing/laws/index.ts";
import { openMemoryResponses, responseMutants } from "./response-faults.ts";

/** The laws that a store breaks, and their errors. */
async function brokenBy(open: OpenResponseStore): Promise<Map<string, unknown>> {
  const broken = new Map<string, unknown>();
  for (const law of responseStoreLaws) await law.verify(open).catch((error: unknown) => broken.set(law.name, error));
  return broken;
}

describe("memoryResponseStore", () => {
  it.each(responseStoreLaws)("$name", async (law) => {
    await expect(law.verify(openMemoryResponses)).resolves.toBeUndefined();
  });
});

describe("responseStoreLaws", () => {
  it.each(responseMutants)("notice a store that $fault", async ({ open, breaks }) => {
    const broken = await brokenBy(open);
    expect([...broken.keys()]).toContain(breaks);
    expect(broken.get(breaks)).toBeInstanceOf(AssertionError);
    expect(broken.size, "a mutant has one fault, and keeps most laws").toBeLessThan(responseStoreLaws.length / 2);
  });

  it("are each broken by a mutant at least", () => {
    const named = new Set(responseMutants.map(({ breaks }) => breaks));
    expect(responseStoreLaws.map((law) => law.name).filter((name) => !named.has(name))).toEqual([]);
  });

  it.each(responseStoreLaws)("close what they opened: $name", async (law) => {
    let closed = 0;
    await law.verify((setup) => ({ ...openMemoryResponses(setup), close: () => void closed++ }));
    expect(closed).toBe(1);
  });
});

/** The laws of the QuotaStore notice each fault of a store, and close every store that they open. */

import { AssertionError } from "node:assert";
import { describe, expect, it } from "vitest";
import { type OpenQuotaStore, type QuotaStoreLaw, quotaStoreLaws } from "../../../src/testing/laws/index.ts";
import { mutants } from "./mutants.ts";
import { openMemoryStore } from "./open-memory.ts";

/** The laws that a store breaks, and their errors. */
async function brokenBy(open: OpenQuotaStore): Promise<Map<string, unknown>> {
  const broken = new Map<string, unknown>();
  for (const law of quotaStoreLaws) await law.verify(open).catch((error: unknown) => broken.set(law.name, error));
  return broken;
}

const lawOf = (name: string): QuotaStoreLaw => {
  const law = quotaStoreLaws.find((law) => law.name === name);
  if (!law) throw new Error(`There is no law of the name ${name}.`);
  return law;
};

const openUnclosable: OpenQuotaStore = (setup) => ({
  ...openMemoryStore(setup),
  close: () => Promise.reject(new Error("no connection")),
});

describe("quotaStoreLaws", () => {
  it.each(mutants)("notice a store that $fault", async ({ open, breaks }) => {
    const broken = await brokenBy(open);
    expect([...broken.keys()]).toContain(breaks);
    expect(broken.get(breaks)).toBeInstanceOf(AssertionError);
    expect(broken.size, "a mutant has one fault, and keeps most laws").toBeLessThan(quotaStoreLaws.length / 2);
  });

  it("are each broken by a mutant at least", async () => {
    const broken = await Promise.all(mutants.map(({ open }) => brokenBy(open)));
    const names = new Set(broken.flatMap((laws) => [...laws.keys()]));
    expect(quotaStoreLaws.map((law) => law.name).filter((name) => !names.has(name))).toEqual([]);
  });

  it("have names of their own", () => {
    expect(new Set(quotaStoreLaws.map((law) => law.name)).size).toBe(quotaStoreLaws.length);
  });

  it.each(quotaStoreLaws)("close what they opened: $name", async (law) => {
    let closed = 0;
    const open: OpenQuotaStore = (setup) => ({ ...openMemoryStore(setup), close: () => void closed++ });
    await law.verify(open);
    expect(closed).toBe(1);
  });

  it.each([
    ["a law that is broken", () => {}],
    ["a law that is broken, and a store that cannot be closed", () => Promise.reject(new Error("no connection"))],
    [
      "a law that is broken, and a store that throws when it is closed",
      () => {
        throw new Error("no connection");
      },
    ],
  ])("close the store after %s", async (_, close) => {
    const mutant = mutants.find(({ fault }) => fault === "lets no lease end");
    if (!mutant) throw new Error("There is no such mutant.");
    let closed = 0;
    const open: OpenQuotaStore = async (setup) => ({
      ...(await mutant.open(setup)),
      close() {
        closed++;
        return close();
      },
    });
    await expect(lawOf(mutant.breaks).verify(open)).rejects.toBeInstanceOf(AssertionError);
    expect(closed).toBe(1);
  });

  it("tell of a store that cannot be closed", async () => {
    const [law] = quotaStoreLaws;
    await expect(law?.verify(openUnclosable)).rejects.toThrow("no connection");
  });
});

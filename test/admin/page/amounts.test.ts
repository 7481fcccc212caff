/** Amounts on the page of the admin: what a user may write, in units and in money. */

import { afterAll, expect, it, vi } from "vitest";
import type * as amounts from "../../../src/admin/page/app/amounts.ts";

const MODULE = new URL("../../../src/admin/page/app/amounts.ts", import.meta.url).pathname;

/** Loads the module once more, as a page of a currency does. */
async function amountsIn(currency: string): Promise<typeof amounts> {
  vi.stubGlobal("document", { documentElement: { dataset: { currency } } });
  return (await import(`${MODULE}?currency=${currency}`)) as typeof amounts;
}

afterAll(() => void vi.unstubAllGlobals());

it.each([
  ["", " 1_000 000 ", 1_000_000],
  ["", "0", 0],
  ["EUR", "12.50", 12_500_000],
  ["EUR", "0.0000014", 1],
])("in %j reads %j as %i units", async (currency, written, units) => {
  expect((await amountsIn(currency)).readAmount(written)).toBe(units);
});

it.each(["", "  ", "-1", "1e300", "Infinity", "ten", "1,5"])("takes %j for no amount", async (written) => {
  for (const currency of ["", "EUR"]) {
    const { readAmount } = await amountsIn(currency);
    expect(() => readAmount(written)).toThrow("is no amount");
  }
});

it("writes an amount as it is read", async () => {
  for (const currency of ["", "EUR"]) {
    const { readAmount, writtenAmount } = await amountsIn(currency);
    expect(readAmount(writtenAmount(1_250_000))).toBe(1_250_000);
  }
});

/** Amounts on the page of the admin: what a user may write, in units and in money. */

import fc from "fast-check";
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

it.each<[string, readonly number[], readonly string[]]>([
  ["", [0, 1_665], ["0", "1,665"]],
  ["USD", [2_500_000, 0], ["$2.50", "$0.00"]],
  ["USD", [17_500, 1_665, 0], ["$0.01750", "$0.00167", "$0.00000"]],
  ["USD", [1_234_567_890], ["$1,234.57"]],
  ["USD", [17_500], ["$0.0175"]],
  ["JPY", [12_000_000], ["¥12"]],
])("in %j shows %j with the same decimals", async (currency, units, texts) => {
  const { shown } = (await amountsIn(currency)).formatFor(units);
  expect(units.map(shown)).toEqual(texts);
});

const sum = (amounts: readonly number[]): number => amounts.reduce((total, amount) => total + amount, 0);

it("rounds amounts so that they add up to their sum, and tells each exactly", async () => {
  const { formatFor } = await amountsIn("USD");
  const units = [333_333_333, 333_333_333, 333_333_334];
  const { shown, exact, addUp } = formatFor(units);
  expect(addUp(units).map(shown)).toEqual(["$333.33", "$333.33", "$333.34"]);
  expect(units.map(exact)).toEqual(["$333.333333", "$333.333333", "$333.333334"]);
  fc.assert(
    fc.property(fc.array(fc.nat(10_000_000_000)), (all) => {
      const one = formatFor([...all, 100_000_000]);
      const rounded = one.addUp(all);
      expect(one.shown(sum(rounded))).toBe(one.shown(sum(all)));
      for (const [at, amount] of all.entries()) expect(Math.abs((rounded[at] ?? 0) - amount)).toBeLessThan(10_000);
    }),
  );
});

it("says how many calls of a sum stand in no shown row", async () => {
  const { callsOf } = await amountsIn("USD");
  const rows = [{ calls: 1_010 }, { calls: 20 }];
  expect(callsOf({ calls: 1_040 }, rows)).toBe("1,040 calls, 10 of them free and not shown");
  expect(callsOf({ calls: 1_030 }, rows)).toBe("1,030 calls");
  // Those that are missing may stand on later pages.
  expect(callsOf({ calls: 1_040 }, undefined)).toBe("1,040 calls");
});

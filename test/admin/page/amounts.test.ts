/** Amounts on the page of the admin: what a user may write, in units and in money. */

import fc from "fast-check";
import { afterAll, expect, it, vi } from "vitest";
import type * as amounts from "../../../src/admin/page/app/amounts.ts";
import { unitsOf } from "../../../src/admin/values.ts";

const MODULE = new URL("../../../src/admin/page/app/amounts.ts", import.meta.url).pathname;

/** Loads the module once more, as a page of a currency does. */
async function amountsIn(currency: string): Promise<typeof amounts> {
  vi.stubGlobal("document", { documentElement: { dataset: { currency } } });
  return (await import(`${MODULE}?currency=${currency}`)) as typeof amounts;
}

afterAll(() => void vi.unstubAllGlobals());

it.each([
  ["", " 1000000 ", 1_000_000],
  ["", "0", 0],
  ["EUR", "12.50", 12_500_000],
  ["EUR", "0.000001", 1],
  ["EUR", "0.125", 125_000],
  ["EUR", "1500", 1_500_000_000],
  ["EUR", "1.5000", 1_500_000],
])("in %j reads %j as %i units", async (currency, written, units) => {
  expect((await amountsIn(currency)).readAmount("Amount", written)).toBe(units);
});

/** Returns the words of a refusal. */
function refused(read: () => number): string {
  try {
    return String(read());
  } catch (error) {
    return (error as Error).message;
  }
}

it.each([
  "",
  "  ",
  ".",
  ",",
  "-1",
  "1e300",
  "Infinity",
  "ten",
  "0,500",
  "1,500",
  "1.500",
  "1,5,5",
  "1,234.56",
  "1.234,56",
  "1 000",
  "0.0000001",
  "9007199254740993",
])("refuses %j in the words of the command line", async (written) => {
  for (const currency of ["", "EUR"]) {
    const { readAmount } = await amountsIn(currency);
    const ofCommand = refused(() => unitsOf("Amount", written.trim(), currency || undefined));
    // The page has no option to add.
    const own = ofCommand.replace(/, or (?:write )?[\d.]+ and add --currency usd/, "");
    expect(own).toMatch(/^Amount(?: must be |: .* may be two amounts)/);
    expect(refused(() => readAmount("Amount", written))).toBe(own);
  }
});

it("writes an amount as it is read", async () => {
  for (const currency of ["", "EUR"]) {
    const { readAmount, writtenAmount } = await amountsIn(currency);
    fc.assert(
      fc.property(fc.nat(10_000_000_000), (units) => {
        expect(readAmount("Amount", writtenAmount(units))).toBe(units);
      }),
    );
    expect(readAmount("Amount", writtenAmount(1_125_000))).toBe(1_125_000);
  }
});

it.each<[string, number, string, string]>([
  ["", 1_665, "1,665", "1,665 units"],
  ["USD", 2_500_000, "$2.50", "$2.50"],
  ["USD", 0, "$0.00", "$0.00"],
  ["USD", 17_500, "$0.0175", "$0.0175"],
  ["USD", 1_665, "$0.001665", "$0.001665"],
  ["USD", 1_234_567_890, "$1,234.56789", "$1,234.56789"],
  ["USD", 2_000, "$0.0020", "$0.0020"],
  ["KWD", 1_500_000, "KWD\u00A01.500", "KWD\u00A01.500"],
  ["JPY", 12_000_000, "¥12", "¥12"],
  ["JPY", 500_000, "¥0.5", "¥0.5"],
])("in %j writes %i units in one way", async (currency, units, written, inWords) => {
  const { amountOf, amountInWords } = await amountsIn(currency);
  expect([amountOf(units), amountInWords(units)]).toEqual([written, inWords]);
});

/** Small amounts, whose digits are counted from the first, and large ones. */
const SOME_UNITS = fc.oneof(fc.nat(2_000_000), fc.nat(20_000), fc.nat(1_000_000_000_000));

const microsOf = (written: string): number => Math.round(Number(written.replaceAll(/[$,]/g, "")) * 1_000_000);

it("writes amounts exactly in sentences, and in lists at most half of their last digit off", async () => {
  const { amountBelow, amountOf, decimalsOf, isRounded } = await amountsIn("USD");
  fc.assert(
    fc.property(SOME_UNITS, (units) => {
      expect(microsOf(amountOf(units))).toBe(units);
      const shown = amountBelow(units);
      expect(shown.split(".")[1]?.length).toBe(decimalsOf(units));
      expect(Math.abs(microsOf(shown) - units)).toBeLessThanOrEqual(10 ** (6 - decimalsOf(units)) / 2);
      expect(isRounded(units, "USD")).toBe(microsOf(shown) !== units);
    }),
  );
});

it("never shows more than is left, or less than is spent", async () => {
  const { amountBelow, decimalsOf, spentInWords } = await amountsIn("USD");
  expect(amountBelow(9_999_600, "USD", "down")).toBe("9.99");
  expect(amountBelow(9_960, "USD", "down")).toBe("0.0099");
  expect([amountBelow(49_383, "USD", "up"), amountBelow(101, "USD", "up")]).toEqual(["0.0494", "0.00011"]);
  expect([amountBelow(400, "USD", "up"), amountBelow(10_000_001, "USD", "up")]).toEqual(["0.0004", "10.01"]);
  fc.assert(
    fc.property(SOME_UNITS, (units) => {
      const [left, spent] = [amountBelow(units, "USD", "down"), amountBelow(units, "USD", "up")];
      expect(units - microsOf(left)).toBeGreaterThanOrEqual(0);
      expect(microsOf(left) > 0).toBe(units > 0);
      expect(units - microsOf(left)).toBeLessThan(10 ** (6 - decimalsOf(units, "USD", "down")));
      expect(microsOf(spent) - units).toBeGreaterThanOrEqual(0);
      expect(microsOf(spent) - units).toBeLessThan(10 ** (6 - decimalsOf(units, "USD", "up")));
      expect(spentInWords(units)).toBe(`$${spent}`);
    }),
  );
});

it.each([
  [0, 100, "0%"],
  [1, 1_000, "<1%"],
  [999, 1_000, "99%"],
  [1_000, 1_000, "100%"],
  [1_719, 1_000, "171%"],
  [0, 0, "0%"],
])("writes %i of %i as a share", async (used, all, share) => {
  const { shareOf } = await amountsIn("USD");
  expect(shareOf(used, all)).toBe(share);
});

it("shows times and days in a time zone, and in UTC for a zone that the browser does not know", async () => {
  const { dayIn, shownPeriod, shownTimeIn } = await amountsIn("");
  const [begin, end] = [Date.parse("2026-10-31T23:00:00Z"), Date.parse("2026-11-30T23:00:00Z")];
  expect(dayIn("Europe/Berlin", begin)).toBe("2026-11-01");
  expect(dayIn("Moon/Crater", begin)).toBe("2026-10-31");
  expect(shownPeriod("Moon/Crater", begin, end, true)).toBe("2026-10-31T23:00:00.000Z – 2026-11-30T23:00:00.000Z");
  expect(shownTimeIn("Moon/Crater", begin)).toBe("2026-10-31T23:00:00.000Z");
});

/** Money in code becomes exact units. */

import { expect, it } from "vitest";
import { unitsOfMoney } from "../../src/admin/index.ts";
import { moneyOf } from "../../src/model/money.ts";

it("turns money into units, which are millionths of any currency", () => {
  for (const [money, units, text] of [
    [0, 0, "0.00 USD"],
    [50, 50_000_000, "50.00 USD"],
    [12.5, 12_500_000, "12.50 USD"],
    [0.1 + 0.2, 300_000, "0.30 USD"],
    [1.005, 1_005_000, "1.0050 USD"],
    [0.000001, 1, "0.000001 USD"],
    [9_007_199_254, 9_007_199_254_000_000, "9007199254.00 USD"],
  ] as const)
    expect([money, unitsOfMoney(money), moneyOf(unitsOfMoney(money), "USD")]).toEqual([money, units, text]);
  expect(moneyOf(unitsOfMoney(5_000), "JPY")).toBe("5000 JPY");
});

it.each<[unknown, string, ErrorConstructor?]>([
  [-1, "-1"],
  [Number.NaN, "NaN"],
  [Infinity, "Infinity"],
  [9_007_199_254.742, "9007199254.742"],
  [0.000_000_1, "1e-7"],
  ["50", '"50"', TypeError],
  ["$50", "a text", TypeError],
  [undefined, "undefined", TypeError],
  [50n, "a bigint", TypeError],
])("refuses %s as an amount of money", (money, given, Class = RangeError) => {
  expect(() => unitsOfMoney(money as number)).toThrow(
    new Class(
      `unitsOfMoney: an amount of money must be 0, or a number from 0.000001 to 9007199254.740991, not ${given}.`,
    ),
  );
});

/** The reports about recorded calls, as functions. */

import { describe, expect, it } from "vitest";
import { usageCsv, type UsageRow } from "../../src/admin/index.ts";

const SUMS = {
  calls: 1,
  refused: 0,
  failed: 0,
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  images: 0,
  units: 12,
  estimated: 0,
};

const csvOf = (rows: readonly UsageRow[]): string => usageCsv({ by: ["model"], rows, total: SUMS });

describe("usageCsv", () => {
  it("writes the headings of its columns also without rows", () => {
    expect(usageCsv({ by: ["key", "day"], rows: [], total: SUMS }, { currency: "usd" })).toMatch(
      /^key,keyName,day,amount,currency,calls,.*,estimated\r\n$/,
    );
  });

  it("writes the names of keys and budgets, and amounts with as many digits as a unit needs", () => {
    const row = { ...SUMS, key: "anna", keyName: "=Anna", budget: "team", budgetName: "Team A", units: 12_500_000 };
    const report = { by: ["key", "budget"] as const, rows: [row], total: SUMS, currency: "USD" };
    expect(usageCsv(report).split("\r\n")[1]).toMatch(/^anna,'=Anna,team,Team A,12\.500000,USD,1,/);
    expect(usageCsv(report, { currency: "usd" })).toBe(usageCsv(report));
    const wrong = "The currency must be USD, in which calls are recorded, not EUR.";
    expect(() => usageCsv(report, { currency: "eur" })).toThrow(wrong);
  });

  it.each([
    ["=1+1", "'=1+1"],
    ["  +1", "'  +1"],
    ["@SUM(A1)", "'@SUM(A1)"],
    ["\uFF1Dcmd|calc", "'\uFF1Dcmd|calc"],
    ["\uFEFF\u200B-1", "'\uFEFF\u200B-1"],
    ["a,b", `"a,b"`],
    // With semicolons between the cells, the quote in the middle of the line is a part of the text.
    ["a;=1", `"a;'=1"`],
    [`a;"=1`, `"a;'""=1"`],
    ["a; +1;b;@c", `"a;' +1;b;'@c"`],
    ["a;b-c", `"a;b-c"`],
    [`say "hi"`, `"say ""hi"""`],
    ["a\r\n=1", "a\\u000d\\u000a=1"],
    ["\t=1", "\\u0009=1"],
    ["\u001B[31mred\u0007", "\\u001b[31mred\\u0007"],
    ["\u202Etxt", "\\u202etxt"],
    ["München 🌧", "München 🌧"],
  ])("writes %j as a text on one line that no spreadsheet runs", (model, cell) => {
    expect(csvOf([{ model, ...SUMS }]).split("\r\n")[1]).toBe(`${cell},1,0,0,0,0,0,0,0,0,12,0`);
  });
});

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
      /^key,day,calls,.*,amount,currency\r\n$/,
    );
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

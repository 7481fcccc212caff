/** The words for the log of changes: each operation and each field that the admin notes has some. */

import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { OPERATIONS } from "../../../src/admin/http/operations.ts";
import type * as words from "../../../src/admin/page/app/change-words.ts";

let actionInWords: typeof words.actionInWords;
let changeInWords: typeof words.changeInWords;

beforeAll(async () => {
  vi.stubGlobal("document", { documentElement: { dataset: { currency: "USD" } } });
  ({ actionInWords, changeInWords } = await import("../../../src/admin/page/app/change-words.ts"));
});
afterAll(() => void vi.unstubAllGlobals());

/** The fields of a body, without the secret, which is not noted. */
const fieldsOf = ({ body }: (typeof OPERATIONS)[number]): readonly string[] =>
  Object.keys((body as { entries?: object } | undefined)?.entries ?? {}).filter((name) => name !== "apiKey");

describe.each(OPERATIONS.filter(({ action }) => action !== undefined))("$action", (operation) => {
  const { action = "" } = operation;

  it("has words", () => {
    expect(actionInWords(action)).toMatch(/^[A-Z][a-z ]+$/);
  });

  it.each(fieldsOf(operation).filter((name) => name !== "id"))("has a word for its field %s", (name) => {
    const [written = ""] = changeInWords({ changes: { [name]: "x" }, action });
    expect(written).toMatch(/^[A-Z][a-z ]+: /);
  });
});

it.each<[string, unknown, string]>([
  ["name", "The team", "Name: The team"],
  ["granted", 2_500_000, "Quota: $2.50"],
  ["units", 1_665, "Amount: $0.001665"],
  ["amount", 5_000_000, "Amount: $5.00"],
  ["models", ["small", "large"], "Models: small, large"],
  ["models", [], "Models: none"],
  ["models", null, "Models: every model"],
  ["expiresAt", 0, "Expires: never"],
  ["expiresAt", 9e12, "Expires: 9000000000000000"],
  ["paused", true, "Paused: yes"],
  ["paused", false, "Paused: no"],
  ["overlapMs", 0, "Older secrets end: at once"],
  ["overlapMs", 86_400_000, "Older secrets end: after 1 day"],
  ["overlapMs", 604_800_000, "Older secrets end: after 1 week"],
  ["overlapMs", 5_400_000, "Older secrets end: after 90 minutes"],
  ["overlapMs", 1_500, "Older secrets end: after 1,500 milliseconds"],
  ["metadata", { group: "team-a", plan: null }, "Metadata: group=team-a, plan removed"],
  ["metadata", {}, "Metadata: none"],
  ["budget", "team-a", "Budget: team-a"],
  ["budget", null, "Budget: none"],
  ["budget", "none", 'Budget: "none"'],
  ["name", "Ann; Quota: from 5 to 9", 'Name: "Ann; Quota: from 5 to 9"'],
  ["name", "Ann            Quota", 'Name: "Ann            Quota"'],
  ["models", ["gpt-5, claude", "every model"], 'Models: "gpt-5, claude", "every model"'],
  ["models", ["…", "small"], "Models: …, small"],
  ["name", "Ann\u00a0\u200bMay", String.raw`Name: "Ann\u00a0\u200bMay"`],
  ["budget", "t\u0435am", String.raw`Budget: "t\u0435am"`],
  ["metadata", { own: "a\tb" }, String.raw`Metadata: own="a\tb"`],
  ["constructor", { a: "\u202e" }, String.raw`constructor: {"a":"\u202e"}`],
  [
    "metadata",
    { "a=b": "c", d: "blue, tier from free to gold" },
    'Metadata: "a=b"=c, d="blue, tier from free to gold"',
  ],
  ["metadata", "…", "Metadata: …"],
  ["period", "week", "Begins anew: each week"],
  ["rollover", true, "Unused rest: goes into the next period"],
  ["rollover", false, "Unused rest: ends with the period"],
  ["constructor", { a: 1 }, 'constructor: {"a":1}'],
  ["paused", "yes", 'Paused: "yes"'],
])("writes %s of %j as people do", (name, value, written) => {
  expect(changeInWords({ changes: { [name]: value }, action: "keys.update" })).toEqual([written]);
});

it("writes a time as everywhere on the page, and leaves out the id", () => {
  const [written, ...others] = changeInWords({
    changes: { id: "team-a", expiresAt: 1_799_999_999 },
    action: "keys.update",
  });
  expect(others).toEqual([]);
  expect(written).toMatch(/^Expires: Jan 1\d, 2027, /);
});

it.each<[string, unknown, unknown, ...string[]]>([
  ["amount", 50_000_000, 100_000_000, "Amount: from $100.00 to $50.00"],
  ["name", "New", "Old", "Name: from Old to New"],
  ["name", "Same", "Same", "Name: Same, as before"],
  ["name", "…", "…", "Name: from … to …"],
  ["name", "A to B", "C", 'Name: from C to "A to B"'],
  ["metadata", { a: "…" }, { a: "…" }, "Metadata: a from … to …"],
  ["models", ["small"], null, "Models: from every model to small"],
  ["expiresAt", 0, 9e12, "Expires: from 9000000000000000 to never"],
  ["paused", true, false, "Paused: from no to yes"],
  ["budget", null, "team-a", "Budget: from team-a to none"],
  ["budget", "team-a", { a: 1 }, 'Budget: from {"a":1} to team-a'],
  [
    "metadata",
    { a: "1", b: null, c: "3", d: "4", e: null },
    { a: "0", b: "2", c: null, d: "4", e: null },
    "Metadata: a from 0 to 1, b removed, it was 2, c=3, d=4 as before, e removed",
  ],
])("writes %s of %j, which was %j, as people do", (name, after, before, written) => {
  expect(changeInWords({ changes: { [name]: after }, former: { [name]: before }, action: "keys.update" })).toEqual([
    written,
  ]);
});

it("writes what was granted before units were added", () => {
  expect(
    changeInWords({ changes: { units: 5_000_000 }, former: { granted: 100_000_000 }, action: "keys.grant" }),
  ).toEqual(["Amount: $5.00", "Granted before: $100.00"]);
});

const wordsOf = (changes: Record<string, unknown>, action = "keys.create"): readonly string[] =>
  changeInWords({ changes, action });

it("says of a new key that nothing limits it", () => {
  expect(wordsOf({ id: "a", name: "A" })).toEqual(["Quota: unlimited", "Name: A"]);
  expect(wordsOf({ granted: 0 })).toEqual(["Quota: $0.00"]);
  expect(wordsOf({ budget: "team-a" })).toEqual(["Budget: team-a"]);
  expect(wordsOf({ name: "A" }, "keys.update")).toEqual(["Name: A"]);
});

it("has the names of unknown operations", () => {
  expect(actionInWords("toString")).toBe("toString");
});

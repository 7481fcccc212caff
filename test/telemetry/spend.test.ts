/** The counter of spend, by group, budget and key, with a bound of its series. */

import { describe, expect, it } from "vitest";
import type { CallRecord, RecordedKey } from "../../src/index.ts";
import { openTelemetry, type OpenTelemetryOptions } from "../../src/telemetry/index.ts";
import { SpendLabels } from "../../src/telemetry/spend.ts";
import { type Setup } from "../pipeline/bench.ts";
import { type Point, watched } from "./stage.ts";

const KEY = { granted: 1_000, metadata: { group: "blue", team: "sea" } };

const teamOf = ({ key }: CallRecord): string | undefined => key?.metadata?.["team"];

/** The series of spend after two calls of one key that draws on a budget. */
async function spent(options?: OpenTelemetryOptions, key: Setup["key"] = KEY): Promise<readonly Point[] | undefined> {
  const bench = watched({ key }, options);
  bench.store.addBudget({ id: "marine", amount: 1_000 });
  bench.store.assignBudget("one", "marine");
  for (let call = 0; call < 2; call++) await (await bench.send()).text();
  return (await bench.metrics())["polygate.spend"];
}

describe("spend", () => {
  it("is counted by the group and the budget of the key", async () => {
    expect(await spent()).toEqual([
      { value: 28, attributes: { "polygate.group": "blue", "polygate.budget": "marine" } },
    ]);
  });

  it("lacks the label of a key without a group", async () => {
    expect(await spent({}, { granted: 1_000 })).toEqual([{ value: 28, attributes: { "polygate.budget": "marine" } }]);
  });

  it("has the labels and the groups that the host chooses", async () => {
    expect(await spent({ spendBy: ["key", "group"], groupOf: teamOf })).toEqual([
      { value: 28, attributes: { "polygate.key": "one", "polygate.group": "sea" } },
    ]);
    expect(await spent({ spendBy: [] })).toEqual([{ value: 28, attributes: {} }]);
  });

  it.each<[string, () => unknown]>([
    [
      "throws",
      () => {
        throw new Error("no group");
      },
    ],
    ["returns no text", () => 7],
    ["returns an empty text", () => ""],
  ])("is counted without a group when the host's function %s", async (_name, groupOf) => {
    expect(await spent({ groupOf: groupOf as () => string })).toEqual([
      { value: 28, attributes: { "polygate.budget": "marine" } },
    ]);
  });

  it("has 1,000 sets of labels at most, and one for all others", () => {
    const labels = new SpendLabels(["key", "budget"]);
    // The cast is safe: labels read nothing else of a record.
    const of = (id: string, budget?: string): Readonly<Record<string, string>> =>
      labels.labelsOf({ key: { id, budget } as RecordedKey } as CallRecord);
    for (let key = 0; key < 1_000; key++) expect(of(String(key))).toEqual({ "polygate.key": String(key) });
    expect(of("0", "blue")).toEqual({ "polygate.key": "_OTHER", "polygate.budget": "_OTHER" });
    expect(of("1000")).toEqual({ "polygate.key": "_OTHER", "polygate.budget": "_OTHER" });
    expect(of("999")).toEqual({ "polygate.key": "999" });
  });

  it("refuses a label that does not exist", () => {
    expect(() => openTelemetry({ spendBy: ["keys" as "key"] })).toThrow(/openTelemetry: spendBy\[0\] must be .*"key"/);
  });
});

/** The counter of spend, by group, budget and key, with a bound of its series. */

import { describe, expect, it } from "vitest";
import type { CallRecord } from "../../src/index.ts";
import { openTelemetry, type OpenTelemetryOptions } from "../../src/telemetry/index.ts";
import type { Opened, Setup } from "../pipeline/bench.ts";
import { type Collected, type Point, watched } from "./stage.ts";

const KEY = { granted: 1_000, metadata: { group: "blue", team: "sea" } };

const teamOf = ({ key }: CallRecord): string | undefined => key?.metadata?.["team"];

/** A gateway after two calls of one key that draws on a budget. */
async function called(options?: OpenTelemetryOptions, key: Setup["key"] = KEY): Promise<Opened & Collected> {
  const bench = watched({ key }, options);
  bench.store.addBudget({ id: "marine", amount: 100_000 });
  bench.store.assignBudget("one", "marine");
  for (let call = 0; call < 2; call++) await (await bench.send()).text();
  return bench;
}

const spendOf = async ({ metrics }: Collected): Promise<readonly Point[] | undefined> =>
  (await metrics())["polygate.spend"];

/** The series of spend after these calls. */
async function spent(options?: OpenTelemetryOptions, key?: Setup["key"]): Promise<readonly Point[] | undefined> {
  const bench = await called(options, key);
  await spendOf(bench);
  return spendOf(bench);
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

  it("is 0 in the first export of a series, so that Prometheus sees the first calls", async () => {
    const bench = await called({ spendBy: ["key"] });
    const labels = { "polygate.key": "one" };
    expect(await spendOf(bench)).toEqual([{ value: 0, attributes: labels }]);
    expect(await spendOf(bench)).toEqual([{ value: 28, attributes: labels }]);
    await (await bench.send()).text();
    expect(await spendOf(bench)).toEqual([{ value: 42, attributes: labels }]);
  });

  it("is complete in the export after the gateway has closed", async () => {
    const bench = await called({ spendBy: ["key"] });
    await bench.gateway.close();
    expect(await spendOf(bench)).toEqual([{ value: 28, attributes: { "polygate.key": "one" } }]);
  });

  it("has 1,000 sets of labels at most, and one for all others", async () => {
    let group = 0;
    const bench = await called({ spendBy: ["group", "key"], groupOf: () => `group ${group++}` }, { granted: 100_000 });
    for (let call = 2; call < 1_002; call++) await (await bench.send()).text();
    await spendOf(bench);
    const series = (await spendOf(bench)) ?? [];
    expect(series).toHaveLength(1_001);
    expect(series.at(-1)).toEqual({ value: 28, attributes: { "polygate.group": "_OTHER", "polygate.key": "_OTHER" } });
  });

  it("refuses a label that does not exist", () => {
    expect(() => openTelemetry({ spendBy: ["keys" as "key"] })).toThrow(/openTelemetry: spendBy\[0\] must be .*"key"/);
  });
});

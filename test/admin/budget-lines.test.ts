/** The export of budgets, and its import into another store. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { parentsFirst } from "../../src/admin/budget-lines.ts";
import { exitCodeOf } from "../../src/admin/command-line.ts";
import { openStore } from "../../src/admin/open-store.ts";
import type { BudgetReport } from "../../src/stores/budgets.ts";
import { type OpenedStores, openStores } from "../../src/stores/open/index.ts";

let folder: string;
let count = 0;
let address: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "polygate-budgets-"))));
afterAll(() => rm(folder, { recursive: true, force: true }));
beforeEach(async () => void (address = await fresh()));

async function fresh(): Promise<string> {
  const made = `sqlite:${join(folder, `${count++}.db`)}`;
  await polygate(["keys", "migrate"], { store: made });
  return made;
}

interface Run {
  readonly store?: string;
  readonly file?: string;
  readonly currency?: string;
}

async function polygate(args: readonly string[], { store = address, file = "", currency = "" }: Run = {}) {
  let [stdout, stderr] = ["", ""];
  const code = await exitCodeOf(args, {
    env: { POLYGATE_STORE: store, POLYGATE_CURRENCY: currency },
    print: (line) => void (stdout += `${line}\n`),
    warn: (line) => void (stderr += `${line}\n`),
    read: async () => file,
    home: { manifest: { version: "1.2.3" }, root: "" } as never,
    servers: {} as never,
  });
  return { code, stdout, stderr };
}

const linesOf = (...budgets: readonly object[]): string => budgets.map((one) => JSON.stringify(one)).join("\n");
const objectsIn = (text: string): unknown[] =>
  text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));

/** Uses units of a budget. */
async function spent({ ports: { quotas } }: OpenedStores, keyId: string, units: number): Promise<void> {
  await quotas.reserve({ id: `of ${keyId}`, keyId, atLeast: units, atMost: units, leaseMs: 60_000 });
  await quotas.settle(`of ${keyId}`, { used: units, certainty: "exact" });
}

it("moves budgets with their terms, and with what their periods have left, parents first", async () => {
  const stores = await openStores(address);
  const { quotas } = stores.ports;
  await quotas.addBudget({ id: "z-company", name: "All", amount: 500, period: "month", timeZone: "Europe/Berlin" });
  await quotas.addBudget({ id: "team", amount: 300, period: "week", rollover: true, parent: "z-company" });
  await quotas.addBudget({ id: "a-once", amount: 50 });
  await quotas.add({ id: "anna", apiKey: "sk-anna", budget: "team" });
  await spent(stores, "anna", 120);
  await quotas.topUpBudget("a-once", 7);
  await quotas.topUpBudget("z-company", 1_000);
  await stores.close();

  const { code, stdout: file, stderr } = await polygate(["budgets", "export"]);
  expect([code, stderr]).toEqual([0, ""]);
  expect(objectsIn(file)).toMatchObject([
    { id: "a-once", amount: 50, granted: 57, used: 0 },
    {
      id: "z-company",
      name: "All",
      amount: 500,
      period: "month",
      timeZone: "Europe/Berlin",
      granted: 1_500,
      used: 120,
    },
    { id: "team", amount: 300, period: "week", rollover: true, parent: "z-company", granted: 300, used: 120 },
  ]);

  const store = await fresh();
  const dry = await polygate(["budgets", "import", "--dry-run"], { store, file });
  expect(dry).toMatchObject({ code: 0, stderr: "" });
  expect(dry.stdout).toContain("line 3: team: would be made\nNothing was changed. An import would make 3 budgets, ");
  expect(await polygate(["budgets", "import"], { store, file })).toEqual({
    code: 0,
    stdout: '{"id":"a-once"}\n{"id":"z-company"}\n{"id":"team"}\n',
    stderr: "",
  });
  const opened = await openStore(store);
  const reports = await opened.store.listBudgets();
  await opened.close();
  expect(reports).toMatchObject([
    { id: "a-once", granted: 57, used: 0, available: 57 },
    { id: "team", granted: 300, used: 120, rollover: true, parent: "z-company", timeZone: "Europe/Berlin" },
    { id: "z-company", granted: 1_500, used: 120, available: 1_380, name: "All" },
  ]);
  expect((await polygate(["keys", "verify"], { store })).code).toBe(0);
  expect((await polygate(["audit"], { store })).stdout).toContain("Used already: 120 units of 300 units");
});

it("gives a budget whose period has ended meanwhile its whole amount", async () => {
  const file = linesOf({ id: "team", amount: 300, period: "day", startsAt: 0, granted: 300, used: 120 });
  expect(await polygate(["budgets", "import"], { file })).toMatchObject({ code: 0 });
  expect(JSON.parse((await polygate(["budgets", "usage", "team", "--json"])).stdout)).toMatchObject({ available: 300 });
});

it("changes names and amounts of known budgets with --update, and refuses them without", async () => {
  await polygate(["budgets", "import"], { file: linesOf({ id: "team", amount: 300, period: "day" }) });
  const file = linesOf({ id: "team", name: "Team", amount: 400, used: 5 }, { id: "new", amount: 5, parent: "team" });
  const refused = await polygate(["budgets", "import", "--json"], { file });
  expect(refused.code).toBe(1);
  expect(objectsIn(refused.stdout)).toEqual([
    { line: 1, id: "team", error: "A budget of the id team is known already.", code: "conflict" },
    { id: "new" },
  ]);
  expect(JSON.parse(refused.stderr)).toEqual({
    error:
      "1 of 2 budgets were not imported: line 1. The output has the errors. With --update, known budgets are changed, and are no errors.",
    code: "conflict",
    failed: 1,
    known: 1,
  });
  const dry = await polygate(["budgets", "import", "--update", "--dry-run", "--json"], { file });
  expect(JSON.parse(dry.stdout)).toEqual({
    dryRun: true,
    create: 0,
    update: 1,
    refuse: 0,
    lines: [
      { line: 1, id: "team", action: "update", updated: ["name", "amount"] },
      { line: 2, id: "new", action: "none" },
    ],
  });
  expect((await polygate(["budgets", "import", "--update"], { file })).stdout).toBe(
    '{"id":"team","updated":["name","amount"]}\n{"id":"new"}\n',
  );
  const fixed = linesOf({ id: "team", amount: 400, period: "week" });
  expect(await polygate(["budgets", "import", "--update"], { file: fixed })).toMatchObject({
    code: 1,
    stdout: `${JSON.stringify({ line: 1, id: "team", error: "The period of the budget team cannot be changed.", code: "conflict" })}\n`,
  });
  await polygate(["budgets", "remove", "new", "--yes"]);
  expect(
    (await polygate(["budgets", "import", "--update"], { file: linesOf({ id: "new", amount: 5 }) })).stdout,
  ).toContain("The budget new was removed. Choose another id: its history stays.");
});

it("imports nothing of a file with a wrong line", async () => {
  const file = `{"id":"fine","amount":5}\n{"id":\n[]\n${linesOf(
    { id: "team" },
    { id: "team", amount: "5" },
    { id: "team", amount: 5, perod: "day" },
    { id: "team", amount: 5, period: "year" },
    { id: "team", amount: 5, rollover: true },
    { id: "team", amount: 5, parent: "later" },
    { id: "later", amount: -1 },
    { id: "fine", amount: 1 },
  )}`;
  expect(await polygate(["budgets", "import"], { file })).toEqual({
    code: 2,
    stdout: "",
    stderr: `${[
      "Nothing was imported.",
      "line 2, character 7: This is no JSON. Each line must be a JSON object of a budget, as budgets export writes it.",
      "line 3: This is no JSON object.",
      "line 4: amount is missing.",
      "line 5: amount must be of the type number.",
      "line 6: perod is no field of a budget. Did you mean period?",
      'line 7: period must be of the type ("day" | "week" | "month").',
      "line 8: Only a budget with a period has a timeZone or a rollover.",
      "line 9: The id team is on line 8 already.",
      "line 10: amount must be an integer from 0 up, not -1",
      "line 11: The id fine is on line 1 already.",
    ].join("\n")}\n`,
  });
  expect(
    (await polygate(["budgets", "import"], { file: linesOf({ id: "a", amount: 5, parent: "none" }) })).stderr,
  ).toBe("Nothing was imported.\nline 1: There is no budget of the id none.\n");
  expect((await polygate(["budgets", "list"])).stdout).toBe("There are no budgets to list.\n");
});

it("asks for a confirmation of amounts that may be meant as money", async () => {
  const file = linesOf({ id: "team", amount: 300 });
  const doubtful = await polygate(["budgets", "import"], { file, currency: "usd" });
  expect(doubtful).toMatchObject({ code: 2, stdout: "" });
  expect(doubtful.stderr).toMatch(
    /^line 1: A unit is a millionth of USD: 300 units .* If this is meant, add --yes\.\n$/,
  );
  expect((await polygate(["budgets", "import", "--dry-run"], { file, currency: "usd" })).code).toBe(2);
  expect((await polygate(["budgets", "import", "--yes"], { file, currency: "usd" })).code).toBe(0);
  const lowered = linesOf({ id: "team", amount: 3 });
  expect((await polygate(["budgets", "import", "--update"], { file: lowered, currency: "usd" })).stderr).toContain(
    "is less than a tenth of the amount of this budget",
  );
});

const budget = (id: string, parent: string) => ({ id, parent }) as BudgetReport;

it("ends also for budgets that draw on one another", () => {
  const circle = [budget("a", "b"), budget("b", "a")];
  expect(parentsFirst(circle).map(({ id }) => id)).toEqual(["b", "a"]);
});

/** Changes by the command line in the log of changes, and the command that lists it, on each kind of store. */

import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exitCodeOf } from "../../src/admin/command-line.ts";
import type { Terminal } from "../../src/admin/commands.ts";
import { adminHandler } from "../../src/admin/http/index.ts";
import type { AuditRecord } from "../../src/ports/audit-log.ts";
import { openStores } from "../../src/stores/open/index.ts";
import { type Ledger, sharedStores } from "../stores/ledgers.ts";

const nothing = async (): Promise<void> => {};
const home = { manifest: { version: "1.2.3", engines: { node: "" }, devDependencies: {} }, root: "" };

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Returns a function that runs a command line on a store. Quotes keep the words of an argument together. */
const running =
  ({ address, prefix }: Pick<Ledger, "address" | "prefix">) =>
  async (words: string, input = "", terminal: Partial<Terminal> = {}): Promise<Ended> => {
    const args = Array.from(words.matchAll(/"([^"]*)"|\S+/g), ([word, quoted]) => quoted ?? word);
    let [stdout, stderr] = ["", ""];
    const code = await exitCodeOf([...args, "--store", address, "--prefix", prefix], {
      env: {},
      user: "ann",
      print: (line) => void (stdout += `${line}\n`),
      warn: (line) => void (stderr += `${line}\n`),
      read: async () => input,
      home,
      servers: { demo: nothing, serve: nothing },
      ...terminal,
    });
    return { code, stdout, stderr };
  };

type Run = ReturnType<typeof running>;

const logOf = async (run: Run, words = ""): Promise<readonly AuditRecord[]> =>
  JSON.parse((await run(`audit --json ${words}`)).stdout) as readonly AuditRecord[];

const overSql = sharedStores.filter(({ name, available }) => available && name !== "Redis");

describe.each(overSql)("the log of changes by commands in $name", (store) => {
  let ledger: Ledger;
  let run: Run;
  beforeAll(async () => {
    ledger = await store.open();
    run = running(ledger);
  });
  afterAll(() => ledger.remove());

  it("is CSV as a whole, with the words of changes and no formula", async () => {
    const own = await store.open();
    const run = running(own);
    await run("budgets create team --amount 5 --name =1+1 --currency usd");
    await run("budgets top-up team 2 --currency usd --yes");
    const { stdout } = await run("audit --csv --currency usd");
    expect(stdout.split("\n").map((line) => line.replace(/^[\w-]{36},[^,]*/, "ID,AT"))).toEqual([
      "id,at,user,action,target,fields,state,reason",
      'ID,AT,ann (command line),budgets.top-up,team,"Amount: 2.00 USD; Granted before: 5.00 USD; Currency: USD",done,',
      'ID,AT,ann (command line),budgets.create,team,"Amount: 5.00 USD; Name: ""=1+1""; Currency: USD",done,',
      "",
    ]);
    const sheet = (await run("audit --spreadsheet excel-europe --limit 1 --currency usd")).stdout;
    expect(sheet).toMatch(/^\uFEFFId;Time \(UTC\);User;Change;Of;Fields;Outcome;Reason\n.*;Top up budget;team;/);
    expect(await run("audit --csv --json")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Choose --csv or --json."),
    });
    await own.remove();
  });

  it("has each change of keys and budgets as HTTP notes it, with the former values and without secrets", async () => {
    const own = await store.open();
    const run = running(own);
    const secrets: string[] = [];
    for (const words of [
      "budgets create all --amount 100",
      "keys create --id team --granted 10 --models a --metadata plan=gold",
      'keys update team --name "The team" --models * --expires 2100-01-01 --metadata plan=',
      "keys pause team",
      "keys resume team",
      "keys grant team 5",
      "keys lower team 3",
      "keys rotate team --overlap 0s --yes",
      "keys add-secret team",
      "budgets assign team all",
      "budgets unassign team",
      "budgets update all --amount 50",
      "budgets top-up all 5",
      "budgets lower all 1",
      "budgets remove all --yes",
    ]) {
      const { code, stdout } = await run(words);
      expect([words, code]).toEqual([words, 0]);
      secrets.push(...(/sk-\S+/.exec(stdout) ?? []));
    }
    expect((await run("keys remove-secret", secrets.at(-1))).code).toBe(0);
    expect((await run("keys revoke team --yes")).code).toBe(0);
    const log = (await logOf(run)).toReversed();
    const { id } = log[0] as AuditRecord;
    expect(id).toMatch(/^[\da-f-]{36}$/);
    const all = { user: "ann (command line)", state: "done" };
    const ofKey = { ...all, target: "team" };
    const ofBudget = { ...all, target: "all" };
    expect(log.map(({ id: _id, at: _at, ...record }) => record)).toEqual([
      { ...ofBudget, action: "budgets.create", changes: { id: "all", amount: 100 } },
      {
        ...ofKey,
        action: "keys.create",
        changes: { id: "team", granted: 10, models: ["a"], metadata: { plan: "gold" } },
      },
      {
        ...ofKey,
        action: "keys.update",
        changes: { name: "The team", models: null, expiresAt: 4_102_444_800, metadata: { plan: null } },
        former: { name: "team", models: ["a"], expiresAt: 0, metadata: { plan: "gold" } },
      },
      { ...ofKey, action: "keys.update", changes: { paused: true }, former: { paused: false } },
      { ...ofKey, action: "keys.update", changes: { paused: false }, former: { paused: true } },
      { ...ofKey, action: "keys.grant", changes: { units: 5 }, former: { granted: 10 } },
      { ...ofKey, action: "keys.lower", changes: { units: 3 }, former: { granted: 15 } },
      { ...ofKey, action: "keys.rotate", changes: { overlapMs: 0 } },
      { ...ofKey, action: "keys.add-secret" },
      { ...ofKey, action: "keys.assign-budget", changes: { budget: "all" }, former: { budget: null } },
      { ...ofKey, action: "keys.assign-budget", changes: { budget: null }, former: { budget: "all" } },
      { ...ofBudget, action: "budgets.update", changes: { amount: 50 }, former: { amount: 100 } },
      { ...ofBudget, action: "budgets.top-up", changes: { units: 5 }, former: { granted: 50 } },
      { ...ofBudget, action: "budgets.lower", changes: { units: 1 }, former: { granted: 55 } },
      { ...ofBudget, action: "budgets.remove" },
      { ...ofKey, action: "secrets.remove" },
      { ...ofKey, action: "keys.revoke" },
    ]);
    expect(secrets.length).toBe(3);
    for (const secret of secrets) expect(JSON.stringify(log)).not.toContain(secret.slice(3));
    await own.remove();
  });

  it("has the reason of a refusal, and the keys of an import", async () => {
    const refused = await run("keys grant nobody 5");
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    await run("keys create --id poor --granted 1");
    await run("keys lower poor 5");
    expect(await logOf(run, "--limit 3")).toMatchObject([
      { action: "keys.lower", state: "refused", reason: expect.stringContaining("too few available units: 1") },
      { action: "keys.create", state: "done" },
      { target: "nobody", state: "refused", reason: "There is no API key of the id nobody." },
    ]);
    expect((await run("audit --target poor --currency usd")).stdout).toContain(
      "The key poor has only 0.000001 USD available.",
    );
    expect((await run("audit --target poor")).stdout).toContain("The key poor has only 1 unit available.");
    const lines = [{ id: "one", apiKey: "sk-of-another-gateway" }, { id: "poor" }, { name: "random" }];
    const { stdout } = await run("keys import", lines.map((line) => JSON.stringify(line)).join("\n"));
    const { id } = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as { id: string };
    await run("keys import --update", JSON.stringify({ id: "poor", name: "Poor" }));
    const log = await logOf(run, "--limit 3");
    expect(log[0]).toMatchObject({
      action: "keys.update",
      target: "poor",
      changes: { name: "Poor" },
      former: { name: "poor" },
    });
    // An import makes several keys at the same time.
    expect(log.slice(1)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ action: "keys.create", target: id, changes: { id, name: "random" }, state: "done" }),
        expect.objectContaining({ action: "keys.create", target: "one", changes: { id: "one" }, state: "done" }),
      ]),
    );
    expect(JSON.stringify(log)).not.toContain("another-gateway");
  });

  it("lists them with those over HTTP, by target, user, operation and day, for people", async () => {
    const stores = await openStores(ledger.address, { prefix: ledger.prefix, sweepMs: 0 });
    const admin = adminHandler(stores.ports.quotas, {
      authorize: () => ({ name: "bob@example.com" }),
      audit: stores.auditLog,
    });
    await run('keys create --id desk --name "Desk" --budget none-such');
    await run('keys create --id desk --name "Desk"');
    await admin.fetch(
      new Request("http://host/keys/desk", {
        method: "PATCH",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ name: "\u001b[31m\nred" }),
      }),
    );
    const over = (await (await admin.fetch(new Request("http://host/audit?target=desk"))).json()) as { data: object[] };
    expect(over.data).toMatchObject([{ user: "bob@example.com" }, { user: "ann (command line)" }, {}]);
    await stores.close();
    const { stdout } = await run("audit --target desk");
    expect(stdout.replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, "DAY AND SECOND     ")).toBe(
      [
        "AT (UTC)             USER                CHANGE    OF    OUTCOME",
        "DAY AND SECOND       bob@example.com     Edit key  desk  done",
        String.raw`  Name: from Desk to "\u001b[31m\nred"`,
        "DAY AND SECOND       ann (command line)  New key   desk  done",
        "  Quota: unlimited",
        "  Name: Desk",
        "DAY AND SECOND       ann (command line)  New key   desk  refused",
        "  Name: Desk",
        "  Budget: none-such",
        "  There is no budget of the id none-such.",
        "",
      ].join("\n"),
    );
    const count = async (words: string): Promise<number> => (await logOf(run, words)).length;
    expect(await count("--user bob@example.com")).toBe(1);
    expect(await count('--user "ann (command line)" --target desk')).toBe(2);
    expect(await count("--action keys.create --target desk")).toBe(2);
    expect(await count("--target desk --since 1d")).toBe(3);
    expect(await count("--target desk --until 2020-01-01")).toBe(0);
    expect(await count("--target desk --since 2h")).toBe(3);
    expect(await count("--target desk --until 2h")).toBe(0);
    expect(await count("--target desk --since 2020-01-01T00:00+01:00 --until 2999-01-01T12:00:00Z")).toBe(3);
    const today = new Date().toISOString().slice(0, 10);
    expect(await count(`--target desk --since 1d --until ${today}`)).toBe(3);
    const first = await run("audit --target desk --limit 1");
    const [, after = ""] = /--after (\S+),/.exec(first.stderr) ?? [];
    expect(await count(`--target desk --after ${after}`)).toBe(2);
    expect((await run("audit --target desk --limit 1 --json")).stderr).toBe(first.stderr);
    expect((await run("audit --user nobody")).stdout).toBe("No change matches. A user and an id match as a whole.\n");
  });

  it("has no edit that changes nothing", async () => {
    const own = await store.open();
    const run = running(own);
    await run("keys create --id team --name Team --metadata plan=gold");
    await run("budgets create all --amount 5");
    await run("keys create --id joint --budget all");
    const log = await logOf(run);
    for (const words of [
      "keys update team --name Team --models * --metadata plan=gold",
      "keys resume team",
      "budgets update all --name all --amount 5",
      "budgets assign joint all",
      "budgets unassign team",
    ])
      expect([words, (await run(words)).code]).toEqual([words, 0]);
    expect(await logOf(run)).toEqual(log);
    await own.remove();
  });

  it("is beside lists that show such characters as it does", async () => {
    const own = await store.open();
    const run = running(own);
    await run('keys create --id "t\u0435am" --name "a\u200bb" --models "gpt-\uff11"');
    await run('budgets create "r\u0435d" --name "Bl\u043eck" --amount 5');
    await run('keys create --id other --budget "r\u0435d"');
    const printed = [await run("keys list"), await run("budgets list"), await run('keys usage "t\u0435am"')];
    const texts = printed.map(({ stdout }) => stdout).join("");
    for (const text of ["t\\u0435am", "a\\u200bb", "gpt-\\uff11", "r\\u0435d", "Bl\\u043eck"])
      expect(texts).toContain(`"${text}"`);
    expect(texts).not.toMatch(/[\u200b\u0435\u043e\uff11]/u);
    expect((await run("keys list --csv")).stdout).toContain("t\u0435am,a\u200bb");
    await own.remove();
  });

  it("shows characters that people do not see, or take for others", async () => {
    const own = await store.open();
    const run = running(own);
    const env = { POLYGATE_USER: "\u0430nn" };
    await run('keys create --id "t\u0435am\u00a0x" --name "a\u200bb"', "", { env });
    expect((await run("audit")).stdout.replaceAll(/^\d{4}-\S+ \S+ +/gm, "")).toBe(
      [
        "AT (UTC)             USER                       CHANGE   OF                  OUTCOME",
        String.raw`"\u0430nn (command line)"  New key  "t\u0435am\u00a0x"  done`,
        "  Quota: unlimited",
        String.raw`  Name: "a\u200bb"`,
        "",
      ].join("\n"),
    );
    await own.remove();
  });

  it("names the user by the variable, by the system, or not at all", async () => {
    await run("keys create --id u1", "", { env: { POLYGATE_USER: "ci of main" } });
    await run("keys create --id u2", "", { user: undefined });
    expect((await logOf(run, "--limit 2")).map(({ user }) => user)).toEqual([
      "unknown (command line)",
      "ci of main (command line)",
    ]);
    expect(await run("keys create --id u3", "", { env: { POLYGATE_USER: "x".repeat(181) } })).toEqual({
      code: 2,
      stdout: "",
      stderr: "POLYGATE_USER must have at most 180 characters.\n",
    });
  });

  it("has amounts in money with a currency", async () => {
    await run("budgets create money --amount 100 --currency usd");
    await run("budgets update money --amount 50 --currency usd");
    expect((await run("audit --target money --limit 1 --currency usd")).stdout).toContain(
      "\n  Amount: from 100.00 USD to 50.00 USD\n  Currency: USD\n",
    );
    expect((await run("audit --target money --limit 1")).stdout).toContain(
      "\n  Amount: from 100000000 units to 50000000 units\n  Currency: USD\n",
    );
  });

  it.each([
    ["--action keys.updat", "not keys.updat. Did you mean keys.update?"],
    ["--since yesterday", "--since must be a day, such as 2026-11-01, a span, such as 7d or 2h, or a time"],
    ["--since 2026-11-02 --until 2026-11-01", "--since must not be after --until"],
    ["--since 1h --until 2h", "--since must not be after --until"],
    ["--limit 0", "--limit must be an integer from 1 to 1000, not 0."],
    ['--user ""', "--user must not be empty"],
    ["--key team", "audit takes no --key."],
  ])("refuses %s", async (words, message) => {
    const { code, stderr } = await run(`audit ${words}`);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  it("is left out, with a note, when somebody has removed its table", async () => {
    const own = await store.open();
    const run = running(own);
    const { address, prefix } = own;
    const stores = await openStores(address, { prefix, sweepMs: 0 });
    await stores.db?.schema.dropTable(`${prefix}audit`).execute();
    await stores.close();
    const made = await run("keys create --id unlogged");
    expect([made.code, made.stdout]).toEqual([0, expect.stringContaining("api key: sk-")]);
    expect(made.stderr).toContain("The log of changes does not have this change as a whole: ");
    expect(await run("keys pause unlogged --json")).toMatchObject({ code: 0, stderr: "" });
    expect((await run("audit")).code).toBe(1);
    await own.remove();
  });
});

it("keeps a database without tables as it is, and says which command makes them", async () => {
  const store = overSql[0];
  const ledger = await store?.open();
  const file = `${ledger?.address.replace("sqlite:", "")}.bare`;
  new DatabaseSync(file).close();
  const run = running({ address: `sqlite:${file}`, prefix: "polygate_" });
  for (const words of ["keys pause team", "keys create", "audit"])
    expect(await run(words)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        'The store\'s tables are missing. Run "polygate keys migrate", or migrate(db), before the store is used.',
      ),
    });
  await ledger?.remove();
});

const redis = sharedStores.find(({ name }) => name === "Redis");

it.skipIf(!redis?.available)("lets a store without a log change as before, and lists none", async () => {
  const ledger = (await redis?.open()) as Ledger;
  const run = running(ledger);
  expect((await run("keys create --id team --granted 5")).code).toBe(0);
  expect(await run("keys grant team 5")).toMatchObject({ code: 0, stdout: expect.stringContaining("granted: 10\n") });
  expect(await run("audit")).toEqual({
    code: 2,
    stdout: "",
    stderr: "Only the stores over SQL keep a log of changes.\n",
  });
  await ledger.remove();
});

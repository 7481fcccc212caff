/** The command `polygate keys`, on each kind of store. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { Kysely } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { BUDGET_COMMANDS } from "../../src/admin/budget-commands.ts";
import { exitCodeOf, runCommand, USAGE } from "../../src/admin/command-line.ts";
import type { Terminal } from "../../src/admin/commands.ts";
import { adminHandler } from "../../src/admin/http/index.ts";
import { keyAdmin } from "../../src/admin/key-admin.ts";
import { KEY_COMMANDS } from "../../src/admin/key-commands.ts";
import { importLines, readLines } from "../../src/admin/key-lines.ts";
import { createGateway, flexibleRateLimiter, type Gateway, type RateLimiter } from "../../src/index.ts";
import { RefusedChange } from "../../src/model/refused-units.ts";
import { priceTable } from "../../src/prices/index.ts";
import { monthOf } from "../../src/stores/calls.ts";
import { describeProblem } from "../../src/stores/open/connection.ts";
import { type OpenedStores, openStores } from "../../src/stores/open/index.ts";
import { nodeSqliteDialect, sqlQuotaStore } from "../../src/stores/sql/index.ts";
import { scriptedBackend } from "../../src/testing/index.ts";
import { REDIS, redisAnswers, drivers } from "../stores/redis/servers.ts";
import { databases } from "../stores/sql/databases.ts";

const cli = new URL("../../src/cli.ts", import.meta.url).pathname;

let folder: string;
let store: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "polygate-cli-"));
  store = `sqlite:${join(folder, "empty.db")}`;
  await keys("migrate");
});
/** Each test has a store of its own: a copy of an empty one, which is quicker than its tables. */
let stores = 0;
beforeEach(async () => {
  const file = join(folder, `quota-${stores++}.db`);
  store = `sqlite:${file}`;
  await copyFile(join(folder, "empty.db"), file);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const home = { manifest: { version: "1.2.3", engines: { node: "" }, devDependencies: {} }, root: "" };
const nothing = async (): Promise<void> => {};
const NO_JSON = "This is no JSON. Each line must be a JSON object of a key, as keys export writes it.";
const servers = { demo: nothing, serve: nothing };
const terminal: Terminal = { env: {}, print: () => {}, read: async () => "", home, servers };

/** Runs a command in this process, and returns what it prints. */
async function keys(...args: string[]): Promise<string> {
  const lines: string[] = [];
  const given = args.includes("--store") ? args : [...args, "--store", store];
  await runCommand(["keys", ...given], { ...terminal, print: (line) => void lines.push(line) });
  return lines.join("\n");
}

/** Makes a store of its own, and a function that runs commands on it with an input. */
async function fresh(name: string) {
  const where = ["--store", `sqlite:${join(folder, `${name}.db`)}`];
  const lines: string[] = [];
  const run = async (input: string, ...args: string[]): Promise<string[]> => {
    lines.length = 0;
    const print = (line: string): void => void lines.push(line);
    await runCommand(["keys", ...args, ...where], { ...terminal, print, read: async () => input });
    return [...lines];
  };
  await run("", "migrate");
  return { run, lines };
}

const twelveNotes = (letter: string): Record<string, string> =>
  Object.fromEntries(Array.from({ length: 12 }, (_, at) => [letter + at, "note"]));

/** Returns the state in a row of a list of keys. */
const stateIn = (row: string): string | undefined =>
  /(?:budget )?(?:nearly )?used up|(?:budget|quota) is 0|active|paused/.exec(row)?.[0];

/** The rows of a table below its headings, with a tab between two cells. */
const rowsOf = (table: string): string =>
  table
    .split("\n")
    .slice(1)
    .map((line) => line.split(/ {2,}/).join("\t"))
    .join("\n");

const json = async (...args: string[]): Promise<Record<string, unknown>> => JSON.parse(await keys(...args, "--json"));

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** What an amount in dollars does after amounts in euros, and its refusal without a confirmation. */
const CORRECTS = "Amounts were given in EUR before. With this one, all of them count in USD.";
const UNCONFIRMED = `${CORRECTS} Nothing was changed. If this is meant, add --yes.\n`;

/** The question before a key loses its last limit. */
const unlimitedWords = (limit: string, id: string): string =>
  `Without its ${limit}, the key ${id} is unlimited: nothing refuses its calls.`;

/** The note for models while no call is recorded. */
const untoldWords = (names: string): string =>
  `Nothing tells yet whether a gateway has the ${names}: no call was answered, as far as is recorded: gateways write calls up to a second after their end. A gateway without a model refuses its calls.`;

/** The refusals of a change for what is not there any more. */
const noBudgetWords = (id: string): string => `There is no budget of the id ${id}.`;
const revokedWords = (id: string): string => `The API key ${id} is revoked, and cannot be changed any more.`;

/** The refusal of an import for a key that is there already. */
const knownWords = (id: string): string => `An API key of the id ${id} is known already.`;

/** The time after which a hanging command is ended, in milliseconds. */
const LONGEST_MS = 300_000;

/** Runs a command in this process, and returns what a process of its own would print and end with. */
async function polygate(args: readonly string[], env: Terminal["env"] = {}, file = ""): Promise<Ended> {
  let [stdout, stderr] = ["", ""];
  const code = await exitCodeOf(args, {
    ...terminal,
    env,
    print: (line) => void (stdout += `${line}\n`),
    warn: (line) => void (stderr += `${line}\n`),
    read: async () => file,
  });
  return { code, stdout, stderr };
}

/** Runs the command as a process of its own. */
async function polygateProcess(
  args: readonly string[],
  env: Record<string, string> = {},
  cwd?: string,
): Promise<Ended> {
  const options = { env: { ...process.env, ...env }, cwd, timeout: LONGEST_MS };
  return promisify(execFile)(process.execPath, [cli, ...args], options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: Ended) => ({ code, stdout, stderr }),
  );
}

/** Node's options of a process in which these packages are not found. */
function without(...names: readonly string[]): string {
  const hooks = `
    import { registerHooks } from "node:module";
    const missing = ${JSON.stringify(names)};
    const resolve = (specifier, context, next) => {
      const found = missing.find((name) => specifier === name || specifier.startsWith(name + "/"));
      if (found === undefined) return next(specifier, context);
      throw Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" });
    };
    registerHooks({ resolve });
  `;
  return `--import=data:text/javascript;base64,${Buffer.from(hooks).toString("base64")}`;
}

/** The lines and the notes of a list of keys in a terminal of some width. */
async function listedIn(columns: number, ...args: string[]): Promise<{ lines: string[]; notes: string[] }> {
  const [printed, notes]: [string[], string[]] = [[], []];
  const print = (line: string): void => void printed.push(line);
  const warn = (note: string): void => void notes.push(note);
  await runCommand(["keys", "list", ...args], { ...terminal, columns, print, warn });
  return { lines: printed.join("\n").split("\n"), notes };
}

describe("polygate keys", () => {
  it("makes a key and shows its secret once", async () => {
    const text = await keys("create", "--id", "team", "--name", "Team A", "--granted", "100");
    const secret = /^api key: (sk-[\w-]{43})$/m.exec(text)?.[1] ?? "";
    expect(text).toMatch(/^granted: 100\nmodels: every model\n.*cannot be shown again/m);
    expect(await keys("list")).toBe(
      "ID    NAME    GRANTED  SPENT  LEFT  STATE\nteam  Team A      100      0   100  active",
    );
    const usage = await keys("usage", "team");
    expect(usage).toContain("available: 100");
    expect(usage).toContain("\nmodels: every model\nexpires: never\n");
    expect(usage).not.toContain("revoked");
    expect(usage).not.toMatch(/modelLimits|expiresAt/);
    expect(usage).not.toContain(secret.slice(3));
  });

  it("takes models with spaces between them, and texts with commas and equals signs", async () => {
    const { run } = await fresh("texts");
    const metadata = { owner: "cn=anna,ou=ops,dc=example", note: "a, b, c", lines: "a\nb" };
    const entries = Object.entries(metadata).flatMap((entry) => ["--metadata", entry.join("=")]);
    await run("", "create", "--id", "team", "--models", "small-1, large-1,", ...entries);
    const [shown = ""] = await run("", "usage", "team", "--json");
    expect(JSON.parse(shown)).toMatchObject({ models: ["small-1", "large-1"], metadata });
  });

  it("notes that a new key is unlimited, with the command that limits it", async () => {
    const where = { POLYGATE_STORE: `sqlite:${join(folder, "unlimited.db")}` };
    const run = (...args: string[]) => polygate(args, where);
    await run("keys", "migrate");
    await run("budgets", "create", "all", "--amount", "5", "--currency", "usd");
    const { code, stderr } = await run("keys", "create", "--id", "zed");
    expect([code, stderr]).toEqual([
      0,
      'The key "zed" is unlimited: it has neither a quota nor a budget. "polygate budgets assign zed BUDGET" limits it.\n',
    ]);
    const [, command = ""] = /"polygate (.*)"/.exec(stderr) ?? [];
    const assigned = await run(...command.replace("BUDGET", "all").split(" "), "--currency", "usd");
    expect(assigned.stdout).toContain("budget all: 5.00 USD of 5.00 USD available");
    for (const limited of [["--granted", "0"], ["--budget", "all"], ["--json"]])
      expect(await run("keys", "create", ...limited)).toMatchObject({ code: 0, stderr: "" });
  });

  it("asks before it takes the last limit of a key, and notes that the key is then unlimited", async () => {
    const env = { POLYGATE_STORE: `sqlite:${join(folder, "unassigned.db")}`, POLYGATE_CURRENCY: "usd" };
    const run = (...args: string[]) => polygate(args, env);
    await run("keys", "migrate");
    await run("budgets", "create", "all", "--amount", "5");
    await run("keys", "create", "--id", "zed", "--budget", "all");
    await run("keys", "create", "--id", "own", "--budget", "all", "--granted", "1");
    const stderr = `${unlimitedWords("budget", "zed")} Nothing was changed. If this is meant, add --yes.\n`;
    expect(await run("budgets", "unassign", "zed")).toEqual({ code: 2, stdout: "", stderr });
    expect(await run("budgets", "unassign", "zed", "--json")).toMatchObject({
      code: 2,
      stderr: `${JSON.stringify({ error: stderr.trimEnd(), code: "confirmation_required" })}\n`,
    });
    expect((await run("budgets", "unassign", "zed", "--yes")).stderr).toBe(
      'The key "zed" is unlimited: it has neither a quota nor a budget. "polygate budgets assign zed BUDGET" limits it.\n',
    );
    expect(await run("budgets", "unassign", "own")).toMatchObject({ code: 0, stderr: "" });
    // At a terminal, the command asks.
    const asked = async (answer: string, ...args: string[]): Promise<readonly [number, string]> => {
      let asks = "";
      const ask = async (question: string): Promise<string> => {
        asks += question;
        return answer;
      };
      return [await exitCodeOf(args, { ...terminal, env, ask }), asks];
    };
    const take = ["keys", "update", "own", "--granted", "none"];
    expect(await asked("n", ...take)).toEqual([1, `${unlimitedWords("quota", "own")} Is it meant? (y/N) `]);
    expect(JSON.parse((await run("keys", "usage", "own", "--json")).stdout)).toMatchObject({ granted: 1_000_000 });
    expect(await asked("y", ...take)).toEqual([0, `${unlimitedWords("quota", "own")} Is it meant? (y/N) `]);
    // A key without a limit, and one that keeps a limit, need no question.
    expect(await asked("n", ...take)).toEqual([0, ""]);
    expect(await asked("n", "budgets", "unassign", "own")).toEqual([0, ""]);
    await run("keys", "create", "--id", "two", "--budget", "all", "--granted", "1");
    expect(await asked("n", ...take.with(2, "two"))).toEqual([0, ""]);
    expect(await asked("n", "budgets", "unassign", "nobody")).toEqual([1, ""]);
  });

  it("shows a key without a quota as unlimited, with no granted and no available units", async () => {
    await keys("create", "--id", "free");
    const opened = await openStores(store);
    await opened.ports.quotas.reserve({ id: "spent", keyId: "free", atLeast: 30, atMost: 30, leaseMs: 60_000 });
    await opened.ports.quotas.settle("spent", { used: 30, certainty: "exact" });
    await opened.close();
    const numbers = { unlimited: true, granted: null, used: 30, available: null };
    expect(await json("usage", "free")).toMatchObject(numbers);
    expect(JSON.parse(await keys("list", "--json"))).toMatchObject([numbers]);
    const [, row = ""] = (await keys("list", "--csv")).split("\n");
    expect(row).toMatch(/^free,free,active,,30,,/);
  });

  it("notes no model and no tier by those of other keys, which may be as wrong", async () => {
    const env = { POLYGATE_STORE: `sqlite:${join(folder, "models.db")}`, POLYGATE_CURRENCY: "usd" };
    await polygate(["keys", "migrate"], env);
    for (const [option, wrong, right] of [
      ["--models", "gpt-5-mni", "gpt-5-mini"],
      ["--metadata", "tier=golld", "tier=gold"],
    ] as const)
      for (const name of [wrong, right])
        expect(await polygate(["keys", "create", "--granted", "1", option, name], env)).toMatchObject({
          code: 0,
          stderr: expect.not.stringContaining("Did you mean"),
        });
  });

  it("notes names of metadata that are nearly those that a gateway reads", async () => {
    const env = { POLYGATE_STORE: `sqlite:${join(folder, "near-names.db")}`, POLYGATE_CURRENCY: "usd" };
    await polygate(["keys", "migrate"], env);
    const note = "A gateway reads the metadata tier and group by itself, not teir. Did you mean tier?\n";
    const untold =
      "Nothing tells yet whether a gateway has the tier gold: no call of a key with a tier was answered, as far as is recorded: gateways write calls up to a second after their end. A gateway whose rate limiter has tiers, but not this one, refuses the calls of the key; a gateway without tiers ignores the name.\n";
    const create = ["create", "--granted", "1", "--id"];
    for (const [args, stderr] of [
      [[...create, "a", "--metadata", "teir=gold"], note],
      [[...create, "b", "--metadata", "teir=gold", "--json"], ""],
      [[...create, "c", "--metadata", "tier=gold", "--metadata", "team=a", "--metadata", "price-tier=b"], untold],
      [["update", "c", "--metadata", "teir=gold"], note],
      // A name that the key has already, and one that it loses, are noted no more.
      [["update", "c", "--metadata", "teir=blue"], ""],
      [["update", "c", "--metadata", "teir="], ""],
      [["update", "nobody", "--metadata", "teir="], expect.stringContaining("nobody") as string],
    ] as const)
      expect([args, await polygate(["keys", ...args], env)]).toMatchObject([args, { stderr }]);
    const lines = ["d", "e"].map((id) => JSON.stringify({ id, metadata: { teir: "gold" } })).join("\n");
    expect(await polygate(["keys", "import"], env, lines)).toMatchObject({ code: 0, stderr: note });
  });

  it("notes names by the recorded calls: models that were answered, and tiers that a gateway has refused", async () => {
    const address = `sqlite:${join(folder, "recorded-names.db")}`;
    const env = { POLYGATE_STORE: address, POLYGATE_CURRENCY: "usd" };
    await polygate(["keys", "migrate"], env);
    const stores = await openStores(address);
    const { quotas } = stores.ports;
    await quotas.add({ id: "good", apiKey: "sk-good", metadata: { tier: "gold" } });
    await quotas.add({ id: "bad", apiKey: "sk-bad", metadata: { tier: "golld" } });
    const gateway = createGateway({
      backend: { ...scriptedBackend("Hello."), models: () => [{ id: "claude-sonnet" }] },
      quotas,
      rateLimiter: flexibleRateLimiter({ tiers: { gold: {} } }),
      onCall: stores.recorder(),
      onFailure: () => {},
    });
    for (const [key, model] of [
      ["sk-good", "claude-sonnet"],
      ["sk-good", "claude-sonet"],
      ["sk-bad", "claude-sonnet"],
    ])
      await (
        await gateway.fetch(
          new Request("http://host/v1/chat/completions", {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
            body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
          }),
        )
      ).text();
    await gateway.close();
    await stores.close();
    const noted = async (...args: string[]) => (await polygate(["keys", ...args], env)).stderr;
    const create = (...args: string[]) => noted("create", "--granted", "1", ...args);
    const model =
      "No recorded call of the model claude-sonet was answered. Did you mean claude-sonnet? A gateway without this model refuses its calls.\n";
    expect(await create("--models", "claude-sonnet")).toBe("");
    // Another key with the same mistake makes the name no better.
    for (const id of ["a", "b"]) expect(await create("--id", id, "--models", "claude-sonet")).toBe(model);
    expect(await noted("update", "a", "--models", "claude-sonnet,claude-sonet")).toBe(model);
    expect(await noted("update", "a", "--models", "*")).toBe("");
    expect(await create("--models", "claude-sonet", "--json")).toBe("");
    expect(await create("--metadata", "tier=gold")).toBe("");
    const consequence =
      "Did you mean gold? A gateway whose rate limiter has tiers, but not this one, refuses the calls of the key; a gateway without tiers ignores the name.\n";
    const refused = `A gateway has refused calls of the tier golld. ${consequence}`;
    const unknown = `No call of a key with the tier gould was answered, only of gold. ${consequence}`;
    expect(await create("--metadata", "tier=golld")).toBe(refused);
    for (const id of ["c", "d"]) expect(await create("--id", id, "--metadata", "tier=gould")).toBe(unknown);
    expect(await noted("update", "a", "--metadata", "tier=gould")).toBe(unknown);
    // An import of several tiers says once what a gateway does.
    const lines = ["golld", "gould"].map((tier) => JSON.stringify({ id: `of-${tier}`, metadata: { tier } }));
    const ofImport = await polygate(["keys", "import", "--dry-run"], env, lines.join("\n"));
    expect(ofImport.stderr).toBe(
      `A gateway has refused calls of the tier golld. Did you mean gold?\nNo call of a key with the tier gould was answered, only of gold. ${consequence}`,
    );
    expect(await noted("update", "a", "--metadata", "tier=")).toBe("");
    expect(await noted("update", "a", "--metadata", "team=gould")).toBe("");
  });

  it("notes the models and the tiers that no recorded call tells yet, also of an import", async () => {
    const env = { POLYGATE_STORE: `sqlite:${join(folder, "untold-names.db")}`, POLYGATE_CURRENCY: "usd" };
    await polygate(["keys", "migrate"], env);
    const tier =
      "Nothing tells yet whether a gateway has the tier golld: no call of a key with a tier was answered, as far as is recorded: gateways write calls up to a second after their end. A gateway whose rate limiter has tiers, but not this one, refuses the calls of the key; a gateway without tiers ignores the name.";
    const names = ["--models", "smal", "--metadata", "tier=golld"];
    expect((await polygate(["keys", "create", "--id", "a", "--granted", "1", ...names], env)).stderr).toBe(
      `${tier}\n${untoldWords("model smal")}\n`,
    );
    const { stdout, stderr } = await polygate(["keys", "update", "a", ...names, "--json"], env);
    expect([JSON.parse(stdout), stderr]).toMatchObject([{ id: "a", note: `${tier} ${untoldWords("model smal")}` }, ""]);
    expect((await polygate(["keys", "create", "--granted", "1", "--json"], env)).stdout).not.toContain("note");
    const lines = ["b", "c"].map((id) => JSON.stringify({ id, models: ["smal", id], metadata: { tier: "golld" } }));
    expect((await polygate(["keys", "import"], env, lines.join("\n"))).stderr).toBe(
      `${tier}\n${untoldWords("models smal, b, c")}\n`,
    );
  });

  it("makes a key with models and an end", async () => {
    const text = await keys("create", "--id", "limited", "--models", "small,large", "--expires", "2030-01-31");
    expect(text).toMatch(/^quota: unlimited\nmodels: small, large\n/m);
    expect(await keys("usage", "limited")).toMatch(/^models: small, large\nexpires: 2030-01-31T00:00:00.000Z$/m);
    expect(await json("create", "--id", "limited-2", "--models", "small")).toMatchObject({
      id: "limited-2",
      unlimited: true,
      granted: null,
      models: ["small"],
    });
    expect(await json("usage", "limited")).toMatchObject({
      unlimited: true,
      models: ["small", "large"],
      expiresAt: Date.UTC(2030, 0, 31) / 1_000,
    });
  });

  it("tells a new key, and a key of a list, in the same words", async () => {
    const { run } = await fresh("same-words");
    await run("", "create", "--id", "all");
    for (const options of [
      [],
      ["--granted", "7", "--models", "small,large", "--expires", "2999-01-31"],
      ["--expires", "never", "--models", "*"],
    ]) {
      const [text = ""] = await run("", "create", ...options, "--json");
      const { apiKey: _secret, note: _note, ...made } = JSON.parse(text) as Record<"id" | "apiKey" | "note", string>;
      const [listed = ""] = await run("", "list", "--json");
      const key = (JSON.parse(listed) as { id: string }[]).find(({ id }) => id === made.id);
      expect(key).toMatchObject(made);
      expect(Object.keys(made)).toEqual(["id", "unlimited", "models", "expiresAt", "granted"]);
      expect(JSON.parse((await run("", "usage", made.id, "--json")).join())).toEqual(key);
    }
    const [free = ""] = await run("", "usage", "all", "--json");
    expect(JSON.parse(free)).toEqual({
      id: "all",
      name: "all",
      unlimited: true,
      models: null,
      expiresAt: 0,
      granted: null,
      used: 0,
      available: null,
      held: 0,
      overdraft: 0,
      estimated: 0,
      secrets: 1,
      revoked: false,
      spent: 0,
      left: null,
      limitedBy: null,
    });
  });

  it("shows nothing left of a revoked key, and the rest of one that is paused or has expired", async () => {
    const { run } = await fresh("left");
    const past = Date.UTC(2020, 0, 1) / 1_000;
    const lines = ["ended", "gone", "stopped", "zero"].map((id) =>
      JSON.stringify({ id, granted: id === "zero" ? 0 : 9, ...(id === "ended" && { expiresAt: past }) }),
    );
    await run(lines.join("\n"), "import");
    await run("", "create", "--id", "free");
    await run("", "pause", "stopped");
    for (const id of ["free", "gone", "zero"]) await run("", "revoke", id, "--yes");
    expect([rowsOf((await run("", "list")).join())]).toEqual([
      [
        "ended\t9\t0\t9\texpired\t2020-01-01",
        "free\t-\t0\t-\trevoked\tnever",
        "gone\t9\t0\t-\trevoked\tnever",
        "stopped\t9\t0\t9\tpaused\tnever",
        "zero\t0\t0\t-\trevoked\tnever",
      ].join("\n"),
    ]);
    const keyed = JSON.parse((await run("", "list", "--json")).join()) as Record<string, unknown>[];
    expect(keyed.map(({ id, left, limitedBy, usedUp }) => [id, left, limitedBy, usedUp])).toEqual([
      ["ended", 9, null, undefined],
      ["free", null, null, undefined],
      ["gone", null, null, undefined],
      ["stopped", 9, null, undefined],
      ["zero", null, null, undefined],
    ]);
    const [, , gone = ""] = (await run("", "list", "--csv")).join().split("\n").slice(1);
    expect(gone).toMatch(/^gone,gone,revoked,9,0,9,0,0,,,,,,,\*,,,/);
  });

  it("says of a key that is revoked already that nothing was changed, also in the log of changes", async () => {
    await fresh("revoked");
    const env = { POLYGATE_STORE: `sqlite:${join(folder, "revoked.db")}` };
    await polygate(["keys", "create", "--id", "team", "--granted", "5"], env);
    const revoke = (...args: string[]) => polygate(["keys", "revoke", "team", ...args], env);
    expect(await revoke("--yes")).toEqual({ code: 0, stdout: "id: team\nrevoked: yes\n", stderr: "" });
    const note = 'The key "team" is revoked already: nothing was changed.';
    expect(await revoke()).toEqual({ code: 0, stdout: "id: team\nrevoked: yes\n", stderr: `${note}\n` });
    const { code, stdout, stderr } = await revoke("--json");
    expect([code, JSON.parse(stdout), stderr]).toEqual([0, { id: "team", revoked: true, note }, ""]);
    const log = await polygate(["audit", "--json", "--target", "team", "--action", "keys.revoke"], env);
    expect(JSON.parse(log.stdout)).toHaveLength(1);
  });

  it("grants, rotates and revokes", async () => {
    const { id } = await json("create", "--granted", "7");
    expect(await json("grant", String(id), "5")).toMatchObject({ granted: 12 });
    expect(await json("rotate", String(id), "--overlap", "2h")).toMatchObject({ id });
    expect(await json("usage", String(id))).toMatchObject({ secrets: 2 });
    await json("rotate", String(id), "--overlap", "0s", "--yes");
    expect(await json("usage", String(id))).toMatchObject({ secrets: 1 });
    expect(await json("revoke", String(id), "--yes")).toEqual({ id, revoked: true });
    expect(rowsOf(await keys("list", "--limit", "50"))).toMatch(new RegExp(`^${String(id)}\t.*\trevoked$`, "m"));
  });

  it("updates a key, lowers its quota, and lists by state and metadata", async () => {
    const { run } = await fresh("update");
    const many = ["--metadata", "team=a", "--metadata", "plan=free"];
    await run("", "create", "--id", "team", "--granted", "9", "--models", "small", ...many);
    await run(JSON.stringify({ id: "other", expiresAt: Date.UTC(2020, 0, 1) / 1_000 }), "import");
    for (const option of ["--dry-run", "--update"])
      await expect(run(JSON.stringify({ id: "other", expiresAt: -2 }), "import", option)).rejects.toThrow(
        "line 1: expiresAt must not be below 0, except -1",
      );
    await run("", "update", "team", "--name", "Team", "--models", "*", "--metadata", "plan=", "--metadata", "x=a=b");
    const [report = ""] = await run("", "lower", "team", "4", "--json");
    const metadata = { team: "a", x: "a=b" };
    expect(JSON.parse(report)).toMatchObject({ name: "Team", granted: 5, models: null, metadata });
    expect(await run("", "usage", "team")).toEqual([expect.stringMatching(/^metadata: team=a,x=a=b$/m)]);
    expect([rowsOf((await run("", "list", "--state", "active", "--metadata", "team=a")).join())]).toEqual([
      "team\tTeam\t5\t0\t5\tactive\tteam=a x=a=b",
    ]);
    expect(rowsOf((await run("", "list", "--state", "expired")).join())).toMatch(
      /^other\t0\tunlimited\texpired\t2020-01-01$/,
    );
    await run("", "update", "other", "--expires", "never");
    expect(await run("", "list", "--state", "expired", "--json")).toEqual(["[]"]);
    await expect(run("", "lower", "team", "6")).rejects.toThrow("The key team has too few available units: 5.");
    await expect(run("", "lower", "team", "6", "--currency", "usd")).rejects.toThrow(
      "The key team has only 0.000005 USD available.",
    );
  });

  it("pauses a key and lets it work again, and exports and imports it as it is", async () => {
    const { run } = await fresh("paused");
    await run("", "create", "--id", "team", "--granted", "9", "--expires", "2999-01-01");
    expect(await run("", "pause", "team")).toEqual([expect.stringMatching(/^expires: 2999-(?:.*\n)*paused: yes$/m)]);
    expect((await run("", "list", "--state", "paused")).join()).toMatch(/^team .* paused +2999-01-01$/m);
    const exported = await run("", "export");
    expect(exported.map((line) => JSON.parse(line))).toMatchObject([{ id: "team", paused: true }]);
    const to = await fresh("paused-copy");
    await to.run(exported.join("\n"), "import");
    expect(await to.run("", "export", "--state", "paused")).toEqual(exported);
    expect((await run("", "resume", "team")).join()).not.toContain("paused");
    expect(await run("", "list", "--state", "paused", "--json")).toEqual(["[]"]);
    await run(exported.join("\n"), "import", "--update");
    expect((await run("", "usage", "team")).join()).toContain("paused: yes");
    await expect(run("", "pause", "nobody")).rejects.toThrow("There is no API key of the id nobody.");
  });

  it("exports a revoked key as one, and imports none", async () => {
    const { run } = await fresh("revoked-export");
    await run("", "create", "--id", "gone");
    await run("", "create", "--id", "kept");
    await run("", "revoke", "gone", "--yes");
    expect((await run("", "export")).map((line) => JSON.parse(line))).toEqual([
      expect.not.objectContaining({ revoked: expect.anything() }),
    ]);
    const exported = await run("", "export", "--state", "revoked");
    expect(exported.map((line) => JSON.parse(line))).toMatchObject([{ id: "gone", revoked: true }]);
    const to = await fresh("revoked-import");
    await expect(to.run(exported.join("\n"), "import")).rejects.toThrow("The key is revoked: an import would make it");
    expect(await to.run("", "list", "--json")).toEqual(["[]"]);
  });

  it("moves metadata of the names of an object's own fields, and refuses ids that no address holds", async () => {
    const { run } = await fresh("names-export");
    const metadata = { constructor: "a", prototype: "b", team: "c" };
    await run(JSON.stringify({ id: "kept", metadata }), "import");
    const to = await fresh("names-import");
    await to.run((await run("", "export")).join("\n"), "import");
    expect((await to.run("", "export")).map((line) => JSON.parse(line))).toMatchObject([{ id: "kept", metadata }]);
    for (const id of [".", ".."]) {
      const refusal = "A key's id cannot be . or .., which no address can hold.";
      await expect(run("", "create", "--id", id)).rejects.toThrow(refusal);
      await expect(run(JSON.stringify({ id }), "import")).rejects.toThrow(`line 1: ${refusal}`);
    }
  });

  it("adds a secret that ends, and removes one that it reads from its input", async () => {
    const { run } = await fresh("secrets");
    await run("", "create", "--id", "team");
    const [issued = ""] = await run("", "add-secret", "team", "--expires", "2999-01-31", "--json");
    const { apiKey } = JSON.parse(issued) as { apiKey: string };
    expect(await run("", "usage", "team")).toEqual([expect.stringMatching(/^secrets: 2$/m)]);
    expect(await run(`${apiKey}\n`, "remove-secret")).toEqual(["id: team\nremoved: yes"]);
    await expect(run(apiKey, "remove-secret")).rejects.toThrow("No key has this secret.");
    await expect(run("\n", "remove-secret")).rejects.toThrow("needs a secret on its standard input");
    expect(await run("", "usage", "team")).toEqual([expect.stringMatching(/^secrets: 1$/m)]);
  });

  it("exports keys without their secrets, and imports them", async () => {
    const from = await fresh("from");
    const given = [
      { id: "a", name: "Team A", granted: 10, used: 3, models: ["small"], expiresAt: 0, metadata: { team: "a" } },
      { id: "b", name: "b", used: 0, expiresAt: 1_900_000_000 },
      { id: "c", apiKey: "sk-own-secret" },
      { id: "d" },
    ];
    const issued = await from.run(given.map((key) => JSON.stringify(key)).join("\n"), "import");
    expect(issued.map((line) => JSON.parse(line))).toEqual([
      { id: "a", apiKey: expect.stringMatching(/^sk-[\w-]{43}$/) },
      { id: "b", apiKey: expect.stringMatching(/^sk-[\w-]{43}$/) },
      { id: "c" },
      { id: "d", apiKey: expect.stringMatching(/^sk-[\w-]{43}$/) },
    ]);
    await from.run("", "revoke", "d", "--yes");
    const exported = await from.run("", "export");
    expect(exported.map((line) => JSON.parse(line))).toEqual([
      given[0],
      { ...given[1], granted: null, models: null },
      { id: "c", name: "c", granted: null, used: 0, models: null, expiresAt: 0 },
    ]);
    const to = await fresh("to");
    await to.run(exported.join("\n"), "import");
    expect(await to.run("", "export")).toEqual(exported);
    expect(await to.run("", "export", "--metadata", "team=a")).toEqual(exported.slice(0, 1));
  });

  it("takes a file with a byte order mark, and shows names without their tabs and control characters", async () => {
    const { run } = await fresh("hostile");
    const name = "a\t9 used\nroot\u001b[2J\u009b1m\u202e";
    const escaped = "a\\u00099 used\\u000aroot\\u001b[2J\\u009b1m\\u202e";
    const text = "a\\t9 used\\nroot\\u001b[2J\\u009b1m\\u202e";
    await run(`\uFEFF${JSON.stringify({ id: "a", name, granted: 5, metadata: { note: name } })}`, "import");
    const { lines } = await listedIn(250, "--store", `sqlite:${join(folder, "hostile.db")}`);
    expect(rowsOf(lines.join("\n"))).toBe(`a\t"${text}"\t5\t0\t5\tactive\t"note=${text}"`);
    const [shown] = await run("", "usage", "a");
    expect(shown).toContain(`name: "${text}"\n`);
    expect(shown).toContain(`metadata: note=${escaped}`);
    for (const args of [["list", "--json"], ["usage", "a", "--json"], ["export"]]) {
      const [printed = ""] = await run("", ...args);
      // oxlint-disable-next-line no-control-regex -- these must not be there
      expect(printed).not.toMatch(/[\u001b\u009b\u202e]/);
      expect([JSON.parse(printed)].flat()).toMatchObject([{ id: "a", name }]);
    }
    const error = await run(`{"id":"a","${name.replaceAll(/[\t\n]/g, "")}":1}`, "import").catch(String);
    expect(error).not.toContain("\u009b");
  });

  it("imports the other keys where one is known, and updates it if told", async () => {
    const { run, lines } = await fresh("known");
    await run("", "create", "--id", "b", "--granted", "5");
    const input = ["a", "b", "c"].map((id) => JSON.stringify({ id, name: `Team ${id}`, granted: 9 })).join("\r\n\r\n");
    await expect(run(input, "import")).rejects.toThrow(
      "1 of 3 keys were not imported: line 3. The output has the errors. Known already: all of these. With --update, known keys are changed, and are no errors.",
    );
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      { id: "a", apiKey: expect.any(String) },
      { line: 3, id: "b", error: "An API key of the id b is known already.", code: "conflict" },
      { id: "c", apiKey: expect.any(String) },
    ]);
    const [a, c] = ['{"id":"a","updated":[]}', '{"id":"c","updated":[]}'];
    expect(await run(input, "import", "--update")).toEqual([a, '{"id":"b","updated":["name"]}', c]);
    expect(await run(input, "import", "--update")).toEqual([a, '{"id":"b","updated":[]}', c]);
    // The log has only what has changed.
    const stores = await openStores(`sqlite:${join(folder, "known.db")}`);
    expect(await stores.auditLog.list({ action: "keys.update", limit: 9 })).toMatchObject([
      { target: "b", changes: { name: "Team b" }, former: { name: "b" } },
    ]);
    await stores.close();
    expect([rowsOf((await run("", "list")).join())]).toEqual([
      ["a\tTeam a\t9\t0\t9", "b\tTeam b\t5\t0\t5", "c\tTeam c\t9\t0\t9"].map((row) => `${row}\tactive`).join("\n"),
    ]);
    await run("", "revoke", "b", "--yes");
    await expect(run(input, "import", "--update")).rejects.toMatchObject({
      message: "1 of 3 keys were not imported: line 3. The output has the errors.",
      details: { code: "failed", failed: 1, known: 0 },
    });
  });

  it("imports many keys in the order of their lines, each with its entry in the log of changes, and the others where one is known", async () => {
    const { run, lines } = await fresh("many");
    await run("", "create", "--id", "k-70");
    const ids = Array.from({ length: 150 }, (_, at) => `k-${at}`);
    const input = ids.map((id) => JSON.stringify({ id, granted: 5 })).join("\n");
    await expect(run(input, "import")).rejects.toThrow("1 of 150 keys were not imported: line 71.");
    const told = lines.map((line): { id: string; line?: number } => JSON.parse(line));
    expect(told.map(({ id }) => id)).toEqual(ids);
    expect(told.filter(({ line }) => line !== undefined)).toMatchObject([{ id: "k-70", line: 71 }]);
    const database = new DatabaseSync(join(folder, "many.db"));
    const noted =
      "SELECT count(DISTINCT target) AS targets, count(*) AS entries FROM polygate_audit WHERE state = 'done'";
    expect({ ...database.prepare(noted).get() }).toEqual({ targets: 150, entries: 150 });
    database.exec("DROP TABLE polygate_audit");
    database.exec("CREATE TABLE polygate_audit (id text)");
    database.close();
    await expect(run('{"id":"unnoted"}\n{"id":"neither"}', "import")).rejects.toThrow("has no column");
    expect(JSON.parse((await run("", "list", "--limit", "1000", "--json")).join("\n"))).toHaveLength(150);
  });

  it("loses no secret of an import that is killed, and makes the rest when it runs again", async () => {
    await fresh("killed");
    const address = `sqlite:${join(folder, "killed.db")}`;
    const ids = Array.from({ length: 500 }, (_, at) => `k-${at}`);
    const file = join(folder, "killed.jsonl");
    await writeFile(file, ids.map((id) => JSON.stringify({ id, granted: 5 })).join("\n"));
    const printed = async (killAt: number): Promise<string> => {
      const args = [cli, "keys", "import", file, "--store", address];
      const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] });
      const ended = once(child, "close");
      let text = "";
      for await (const chunk of child.stdout.setEncoding("utf8")) {
        text += chunk;
        if (text.length > killAt) child.kill("SIGKILL");
      }
      await ended;
      return text;
    };
    const first = await printed(10_000);
    const second = await printed(Infinity);
    const opened = await openStores(address);
    // A killed process may leave the beginning of a line.
    const lines = [...first.slice(0, first.lastIndexOf("\n")).split("\n"), ...second.trim().split("\n")];
    const found = new Set<string>();
    for (const line of lines) {
      const { apiKey = "" } = JSON.parse(line) as { apiKey?: string };
      const key = apiKey === "" ? undefined : await opened.ports.quotas.find(apiKey.slice(3));
      if (key) found.add(key.id);
    }
    expect(found).toEqual(new Set(ids));
    await opened.close();
  });

  it("prints no secret for a key that cannot be made, and all others in order", async () => {
    const { run, lines } = await fresh("in-order");
    await run("", "create", "--id", "known");
    const input = [
      { name: "1" },
      { id: "known" },
      { id: "twice", apiKey: "sk-two" },
      { name: "2", apiKey: "sk-two" },
      { id: "c" },
    ];
    await expect(run(input.map((key) => JSON.stringify(key)).join("\n"), "import")).rejects.toThrow(
      "2 of 5 keys were not imported: line 2, 4. The output has the errors. Known already: 1 of these. With --update,",
    );
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      { id: expect.stringMatching(/^key-/), apiKey: expect.any(String) },
      { line: 2, id: "known", error: "An API key of the id known is known already.", code: "conflict" },
      { id: "twice" },
      { id: expect.stringMatching(/^key-/) },
      { id: "c", apiKey: expect.any(String) },
      { line: 4, error: "This API key is known already.", code: "conflict" },
    ]);
  });

  it("takes back the printed secret of a key that the store refuses", async () => {
    await fresh("taken-back");
    const stores = await openStores(`sqlite:${join(folder, "taken-back.db")}`);
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "gone", amount: 5 });
    const printed: string[] = [];
    // Somebody removes the budget after the import has looked for it.
    const add: typeof quotas.add = async (key) => {
      if ((await quotas.budgetReport("gone"))?.used === 0) await quotas.removeBudget("gone");
      return quotas.add(key);
    };
    const lines = ['{"id":"a","budget":"gone"}', '{"budget":"gone"}', '{"id":"b","budget":"gone","apiKey":"sk-b"}'];
    const store = new Proxy(quotas, {
      get: (target, name) => (name === "add" ? add : (Reflect.get(target, name) as () => unknown).bind(target)),
    });
    const print = (line: string): void => void printed.push(line);
    const into = { keys: keyAdmin(quotas), store, update: false, print };
    expect(await importLines(readLines(lines.join("\n")).lines, into)).toEqual(
      [1, 2, 3].map((line) => ({ line, isKnown: false })),
    );
    await stores.close();
    const told = printed.map((line): { id: string } => JSON.parse(line));
    const error = "There is no budget of the id gone.";
    const made = told[1]?.id ?? "";
    expect(told).toEqual([
      { id: "a", apiKey: expect.any(String) },
      { id: expect.stringMatching(/^key-/), apiKey: expect.any(String) },
      { id: "b" },
      { line: 1, id: "a", apiKey: null, error, code: "not_found" },
      { line: 2, id: made, apiKey: null, error, code: "not_found" },
      { line: 3, id: "b", error, code: "not_found" },
    ]);
  });

  it("asks for a confirmation of an import whose units may be meant as money", async () => {
    const env = { POLYGATE_STORE: `sqlite:${join(folder, "little-units.db")}` };
    await polygate(["keys", "migrate"], env);
    const lines = [{ id: "a", granted: 500_000 }, { id: "b", granted: 20 }, { id: "c", granted: 25 }, { id: "d" }]
      .map((key) => JSON.stringify(key))
      .join("\n");
    const little =
      "line 2: A unit is a millionth of USD: 20 units would be only 0.00002 USD. 20 USD would be 20000000 units.\n" +
      "line 3: A unit is a millionth of USD: 25 units would be only 0.000025 USD. 25 USD would be 25000000 units.";
    const refused = { code: 2, stdout: "", stderr: `${little} Nothing was changed. If this is meant, add --yes.\n` };
    expect(await polygate(["keys", "import"], { ...env, POLYGATE_CURRENCY: "usd" }, lines)).toEqual(refused);
    expect((await polygate(["keys", "list"], env)).stdout).toBe("There are no keys to list.\n");
    expect(
      await polygate(
        ["keys", "import"],
        { ...env, POLYGATE_CURRENCY: "usd" },
        '{"id":"a"}\n{"id":"b","granted":50000000000000}',
      ),
    ).toEqual({
      code: 2,
      stdout: "",
      stderr:
        "line 2: 50000000.00 USD is a large first amount. A unit is a millionth: as units, 50000000 is only 50.00 USD. Nothing was changed. If this is meant, add --yes.\n",
    });
    // The numbers of a currency without decimals are larger.
    const yen = '{"id":"a","granted":5000000}\n{"id":"b","granted":50000000000000}';
    expect(await polygate(["keys", "import"], { ...env, POLYGATE_CURRENCY: "jpy" }, yen)).toMatchObject({
      code: 2,
      stderr:
        "line 1: A unit is a millionth of JPY: 5000000 units would be only 5 JPY. 5000000 JPY would be 5000000000000 units. Nothing was changed. If this is meant, add --yes.\n",
    });
    // The currency of an earlier amount is known, too.
    await polygate(["keys", "create", "--id", "first", "--granted", "1", "--currency", "usd"], env);
    expect(await polygate(["keys", "import"], env, lines)).toEqual(refused);
    // An empty currency says that units are meant, as in every command.
    for (const [args, currency] of [
      [["--currency", ""], undefined],
      [["--dry-run"], ""],
    ] as const)
      expect(
        await polygate(["keys", "import", "--dry-run", ...args], { ...env, POLYGATE_CURRENCY: currency }, lines),
      ).toMatchObject({ code: 0, stdout: expect.stringContaining("An import would make 4 keys") });
    expect(await polygate(["keys", "list"], env)).toMatchObject({
      code: 0,
      stderr: "Amounts are units, millionths of USD. For money, add --currency usd.\n",
    });
    expect(await polygate(["keys", "import", "--yes"], env, lines)).toMatchObject({ code: 0, stderr: "" });
  });

  it("exports and imports the budgets of keys, which must exist", async () => {
    const input = ['{"id":"a","name":"A","granted":5,"used":0,"expiresAt":0,"budget":"team"}', '{"id":"b"}'];
    const { run, lines } = await fresh("budgets");
    await expect(run(input.join("\n"), "import")).rejects.toMatchObject({
      cause: { name: "UsageError" },
      message: "Nothing was imported.\nline 1: There is no budget of the id team.",
    });
    expect(lines).toEqual([]);
    const database = new DatabaseSync(join(folder, "budgets.db"));
    const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(database) });
    const quotas = sqlQuotaStore({ db, dialect: "sqlite" });
    await quotas.addBudget({ id: "team", amount: 9 });
    await quotas.addBudget({ id: "gone", amount: 9 });
    await quotas.removeBudget("gone");
    await db.destroy();
    await expect(run('{"id":"b"}\n{"budget":"gone"}', "import")).rejects.toThrow(
      "Nothing was imported.\nline 2: There is no budget of the id gone.",
    );
    await run(input.join("\n"), "import");
    expect(await run('{"id":"b","budget":"team"}', "import", "--update")).toEqual(['{"id":"b","updated":["budget"]}']);
    const exported = await run("", "export");
    const every = { models: null, expiresAt: 0, budget: "team" };
    expect(exported.map((line) => JSON.parse(line))).toEqual([
      { ...JSON.parse(input[0] ?? ""), ...every },
      { id: "b", name: "b", granted: null, used: 0, ...every },
    ]);
  });

  it("takes null as the list of keys has it, and so allows every model with an update", async () => {
    const { run } = await fresh("nulls");
    await run("", "create", "--id", "a", "--models", "small", "--granted", "5");
    const line = '{"id":"a","granted":null,"models":null}';
    expect(await run(line, "import", "--update")).toEqual(['{"id":"a","updated":["models"]}']);
    await run('{"id":"b","granted":null,"models":null}', "import");
    const keyed = JSON.parse((await run("", "list", "--json")).join()) as Record<string, unknown>[];
    expect(keyed).toMatchObject([
      { id: "a", granted: 5, models: null },
      { id: "b", granted: null, models: null },
    ]);
    await expect(run('{"models":"small"}', "import")).rejects.toThrow("line 1: models must be of the type Array.");
  });

  it("prints commands that run also for ids that begin with a dash", async () => {
    const own = `sqlite:${join(folder, "dashes.db")}`;
    const said: string[] = [];
    /** Runs a command, as a shell without quotes reads it, and returns all that it says. */
    const run = async (line: string): Promise<string> => {
      said.length = 0;
      const say = (text: string): void => void said.push(text);
      const [group = "", ...words] = line.split(" ");
      await runCommand([group, "--store", own, ...words], { ...terminal, print: say, warn: say }).catch(
        (error: unknown) => said.push((error as Error).message),
      );
      return said.join("\n");
    };
    await run("keys migrate");
    await run("budgets create --amount 50 -- -b");
    for (const id of ["-one", "-two"]) await run(`keys create --id=${id} --budget=-b`);
    await run("keys create --id=-full --granted 50");
    for (const id of ["-open", "-free"]) await run(`keys create --id=${id}`);
    for (const line of [
      "keys grant -- -one 5",
      "keys lower -- -two 5",
      "keys grant -- -open 5",
      "keys update --granted 5 -- -full",
      "keys update --expires 2020-01-01 -- -full",
      "budgets unassign -- -free",
    ]) {
      const hints = (await run(line)).matchAll(/polygate ((?:keys|budgets) .*?)(?:"| (?:adds|takes) )/g);
      const commands = Array.from(hints, ([, command = ""]) => command);
      expect([line, commands.length]).toEqual([line, expect.toBeOneOf([1, 2])]);
      for (const command of commands)
        expect([command, await run(command.replace("AMOUNT", "1").replace("BUDGET", "-b"))]).toEqual([
          command,
          expect.stringMatching(/^id: -/m),
        ]);
    }
  });

  it("says what an import would do, and changes nothing", async () => {
    await fresh("dry");
    const env = { POLYGATE_STORE: `sqlite:${join(folder, "dry.db")}` };
    for (const id of ["known", "same", "gone", "full"])
      await polygate(["keys", "create", "--id", id, "--models", "small"], env);
    const metadata = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`n-${at}`, "text"]));
    await polygate(["keys", "import", "--update"], env, JSON.stringify({ id: "full", metadata }));
    await polygate(["keys", "revoke", "gone", "--yes"], env);
    await polygate(["keys", "import"], env, '{"id":"own","apiKey":"sk-own"}');
    const before = (await polygate(["keys", "list", "--json"], env)).stdout;
    const file = [
      { id: "new", granted: 5 },
      { id: "known", name: "Known", models: null },
      { id: "same", models: ["small"] },
      {},
      { id: "gone" },
      { id: "full", metadata: { more: "text" } },
      { apiKey: "sk-own" },
      { id: "x", apiKey: ["sk-x", "x"] },
      { id: "y", apiKey: "x" },
    ]
      .map((key) => JSON.stringify(key))
      .join("\n");
    const dry = (...args: string[]) => polygate(["keys", "import", "--dry-run", ...args], env, file);
    const taken = { error: "This API key is known already.", code: "conflict" };
    const updating = await dry("--update", "--json");
    expect(JSON.parse(updating.stdout)).toEqual({
      dryRun: true,
      create: 3,
      update: 1,
      refuse: 4,
      lines: [
        { line: 1, id: "new", action: "create" },
        { line: 2, id: "known", action: "update", updated: ["name", "models"] },
        { line: 3, id: "same", action: "none" },
        { line: 4, action: "create" },
        { line: 5, id: "gone", error: revokedWords("gone"), code: "conflict" },
        {
          line: 6,
          id: "full",
          error: "A key has at most 16 entries of metadata.",
          code: "invalid_request",
        },
        { line: 7, ...taken },
        { line: 8, id: "x", action: "create" },
        { line: 9, id: "y", ...taken },
      ],
      note: untoldWords("model small"),
    });
    expect([updating.code, JSON.parse(updating.stderr)]).toEqual([
      1,
      {
        error: "4 of 9 keys would not be imported: line 5, 6, 7, 9. The output has the errors.",
        code: "failed",
        failed: 4,
        known: 0,
      },
    ]);
    const making = await dry();
    expect(making.stdout.split("\n")).toEqual([
      "line 1: new: would be made",
      `line 2: known: ${knownWords("known")}`,
      `line 3: same: ${knownWords("same")}`,
      "line 4: a key with a random id: would be made",
      `line 5: gone: ${knownWords("gone")}`,
      `line 6: full: ${knownWords("full")}`,
      `line 7: a key with a random id: ${taken.error}`,
      "line 8: x: would be made",
      `line 9: y: ${taken.error}`,
      "Nothing was changed. An import would make 3 keys, change 0 and refuse 6.",
      "",
    ]);
    expect([making.code, making.stderr]).toEqual([
      1,
      `${untoldWords("model small")}\n6 of 9 keys would not be imported: line 2, 3, 5, 6, 7, 9. The output has the errors. Known already: 4 of these. With --update, known keys are changed, and are no errors.\n`,
    ]);
    expect((await dry("--update")).stdout).toMatch(
      /^line 2: known: would get another name, models\nline 3: same: would stay as it is$/m,
    );
    // The import does what was said, and only that.
    expect((await polygate(["keys", "list", "--json"], env)).stdout).toBe(before);
    expect(await polygate(["audit", "--json", "--target", "new"], env)).toMatchObject({ stdout: "[]\n" });
    const real = await polygate(["keys", "import", "--update"], env, file);
    const told = real.stdout
      .trim()
      .split("\n")
      .map((line): Record<string, unknown> => JSON.parse(line));
    expect(told.filter(({ error }) => error !== undefined)).toMatchObject([5, 6, 7, 9].map((line) => ({ line })));
    expect(told.filter(({ updated }) => updated)).toEqual([
      { id: "known", updated: ["name", "models"] },
      { id: "same", updated: [] },
    ]);
    expect(real.stderr).toContain("4 of 9 keys were not imported: line 5, 6, 7, 9.");
  });

  it("says which keys of an import would take no calls, because their time has ended or they are paused", async () => {
    await fresh("dry-state");
    const env = { POLYGATE_STORE: `sqlite:${join(folder, "dry-state.db")}` };
    await polygate(["keys", "import"], env, '{"id":"late","expiresAt":1700000000}\n{"id":"known"}');
    const file = [
      { id: "ended", expiresAt: 1_700_000_000 },
      { id: "paused", paused: true },
      { id: "later", expiresAt: 4_000_000_000 },
      { id: "late" },
      { id: "late", name: "Late" },
      { id: "known", expiresAt: 1_700_000_000 },
    ];
    const dry = async (keys: readonly object[], ...args: string[]): Promise<string> => {
      const lines = keys.map((key) => JSON.stringify(key)).join("\n");
      return (await polygate(["keys", "import", "--dry-run", "--update", ...args], env, lines)).stdout;
    };
    const [ended, paused, later, late, named, known] = file;
    expect(await dry([ended, paused, later, late, known].map((key) => key ?? {})))
      .toBe(`line 1: ended: would be made, and is expired since 2023-11-14 22:13:20 UTC
line 2: paused: would be made, and is paused
line 3: later: would be made
line 4: late: would stay as it is, and is expired since 2023-11-14 22:13:20 UTC
line 5: known: would get another expiresAt, and is expired since 2023-11-14 22:13:20 UTC
Nothing was changed. An import would make 3 keys, change 1 and refuse 0.
`);
    expect(JSON.parse(await dry([ended ?? {}, named ?? {}, later ?? {}], "--json"))).toMatchObject({
      lines: [
        { line: 1, id: "ended", action: "create", state: "expired" },
        { line: 2, id: "late", action: "update", updated: ["name"], state: "expired" },
        { line: 3, id: "later", action: "create" },
      ],
    });
  });

  it("stops a dry run where an import stops, and asks no question", async () => {
    await fresh("dry-stops");
    const env = { POLYGATE_STORE: `sqlite:${join(folder, "dry-stops.db")}`, POLYGATE_CURRENCY: "usd" };
    const dry = async (file: string, ...args: string[]): Promise<readonly [number, string]> => {
      let notes = "";
      const code = await exitCodeOf(["keys", "import", "--dry-run", ...args], {
        ...terminal,
        env,
        warn: (line) => void (notes += line),
        read: async () => file,
        ask: () => Promise.reject(new Error("A dry run asks nothing.")),
      });
      return [code, notes];
    };
    const wrong = "Nothing was imported.\nline 1: There is no budget of the id none.";
    expect(await dry('{"budget":"none"}')).toEqual([2, wrong]);
    const [code, words] = await dry('{"granted":50}');
    expect([code, words]).toEqual([2, expect.stringMatching(/^line 1: A unit is a millionth of USD.*add --yes\.$/)]);
    expect(await dry('{"granted":50}', "--yes")).toEqual([0, ""]);
    expect((await polygate(["keys", "list"], env)).stdout).toBe("There are no keys to list.\n");
  });

  it("counts a key as known that somebody has made meanwhile, in whichever words the store says so", async () => {
    await fresh("meanwhile");
    const stores = await openStores(`sqlite:${join(folder, "meanwhile.db")}`);
    const { quotas } = stores.ports;
    const add: typeof quotas.add = async (key) => {
      await quotas.add({ ...key, apiKey: `sk-of-another-${key?.id}` });
      return quotas.add(key).catch((error: unknown) => {
        if (error instanceof RefusedChange) throw new RefusedChange(error.code, "Taken.");
        throw error;
      });
    };
    const store = new Proxy(quotas, {
      get: (target, name) => (name === "add" ? add : (Reflect.get(target, name) as () => unknown).bind(target)),
    });
    const printed: string[] = [];
    const into = { keys: keyAdmin(quotas), store, update: false, print: (line: string) => void printed.push(line) };
    expect(await importLines(readLines('{"id":"a"}').lines, into)).toEqual([{ line: 1, isKnown: true }]);
    expect(JSON.parse(printed.at(-1) ?? "")).toEqual({
      line: 1,
      id: "a",
      apiKey: null,
      error: "Taken.",
      code: "conflict",
    });
    await stores.close();
  });

  it("moves no key to another budget whose other changes are refused", async () => {
    const { run, lines } = await fresh("half");
    await run("", "create", "--id", "a", "--granted", "5");
    const database = new DatabaseSync(join(folder, "half.db"));
    const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(database) });
    await sqlQuotaStore({ db, dialect: "sqlite" }).addBudget({ id: "team", amount: 9 });
    await db.destroy();
    await run(JSON.stringify({ id: "a", metadata: twelveNotes("a") }), "import", "--update");
    const input = JSON.stringify({ id: "a", budget: "team", metadata: twelveNotes("b") });
    await expect(run(input, "import", "--update")).rejects.toThrow("1 of 1 keys were not imported: line 1.");
    const error = "A key has at most 16 entries of metadata.";
    expect(lines.map((line) => JSON.parse(line))).toEqual([{ line: 1, id: "a", error, code: "invalid_request" }]);
    const [exported = ""] = await run("", "export");
    expect(JSON.parse(exported)).toEqual(expect.not.objectContaining({ budget: "team" }));
  });

  it("imports nothing from a file with wrong lines, and names them without their secrets", async () => {
    const { run } = await fresh("wrong");
    const lines = [
      '{"id":"a"}',
      '{"id":"a"}',
      '{"idd":"b","apiKey":"sk-secret"}',
      '{"granted":-1}',
      '{"apiKey":"sk-secret"',
      '{"granted":"5"}',
      "[]",
      '{"metadata":{"team":5}}',
      '{"metadata":{"__proto__":"a"}}',
    ];
    const error = await run(lines.join("\n"), "import").catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      cause: { name: "UsageError" },
      message: [
        "Nothing was imported.",
        "line 2: The id a is on line 1 already.",
        "line 3: idd is no field of a key. Did you mean id?",
        "line 4: granted must be an integer from 0 up, not -1",
        `line 5, character 22: ${NO_JSON}`,
        "line 6: granted must be of the type number.",
        "line 7: This is no JSON object.",
        "line 8: metadata.team must be of the type string.",
        'line 9: "__proto__" is no name of metadata.',
      ].join("\n"),
    });
    const many = Array.from({ length: 1_000 }, () => "nope").join("\n");
    await expect(run(many, "import")).rejects.toThrow(`line 10, character 2: ${NO_JSON}\nand 990 more.`);
    // Only the lines that the error names are searched for their first wrong character.
    const { wrong } = readLines(many);
    expect(wrong.flatMap(({ character, line }) => (character === undefined ? [] : line))).toEqual(
      wrong.slice(0, 10).map(({ line }) => line),
    );
    expect(await run("", "list")).toEqual(["There are no keys to list."]);
  });

  it("takes what an export has written without a question, also small amounts and those of more than a million", async () => {
    const [from, to] = ["exported", "imported"].map((name) => `sqlite:${join(folder, `${name}.db`)}`);
    const [env, other] = [from, to].map((where) => ({ POLYGATE_STORE: where, POLYGATE_CURRENCY: "usd" }));
    for (const one of [env, other]) await polygate(["keys", "migrate"], one);
    for (const [id, amount] of [
      ["small", "0.01"],
      ["large", "2000000"],
    ] as const) {
      await polygate(["budgets", "create", id, "--amount", amount, "--yes"], env);
      await polygate(["keys", "create", "--id", id, "--granted", amount, "--budget", id, "--yes"], env);
    }
    for (const group of ["budgets", "keys"]) {
      const { stdout } = await polygate([group, "export"], env);
      expect(stdout).toContain('"granted":10000');
      expect(await polygate([group, "import"], other, stdout)).toMatchObject({ code: 0, stderr: "" });
    }
  });

  it("names faults and doubtful amounts in one run, also as data", async () => {
    const env = { POLYGATE_STORE: `sqlite:${join(folder, "one-run.db")}`, POLYGATE_CURRENCY: "usd" };
    await polygate(["keys", "migrate"], env);
    const doubtful = '{"id":"q3","granted":5}';
    const lines = ['{"id":"q1","budget":"nope"}', '{"id":"q2","grantd":1}', doubtful, '{"id":sk-secret}'];
    const doubt = "A unit is a millionth of USD: 5 units would be only 0.000005 USD. 5 USD would be 5000000 units.";
    const run = (input: readonly string[], ...options: string[]): ReturnType<typeof polygate> =>
      polygate(["keys", "import", ...options], env, input.join("\n"));
    const data = [
      { line: 1, error: "There is no budget of the id nope.", code: "not_found" },
      { line: 2, error: "grantd is no field of a key. Did you mean granted?", code: "invalid_request" },
      { line: 3, error: doubt, code: "confirmation_required" },
      { line: 4, character: 7, error: NO_JSON, code: "invalid_request" },
    ];
    const error = [
      "Nothing was imported.",
      ...data.map(
        ({ line, character, error: of }) => `line ${line}${character ? `, character ${character}` : ""}: ${of}`,
      ),
      "If the doubtful amounts are meant, add --yes.",
    ].join("\n");
    expect(await run(lines)).toEqual({ code: 2, stdout: "", stderr: `${error}\n` });
    const failed = await run(lines, "--json");
    expect(failed).toMatchObject({ code: 2, stdout: "" });
    expect(JSON.parse(failed.stderr)).toEqual({ error, code: "invalid_request", lines: data });
    expect((await run(lines, "--yes")).stderr).not.toContain(doubt);
    expect(JSON.parse((await run([doubtful], "--json")).stderr)).toEqual({
      error: `line 1: ${doubt} Nothing was changed. If this is meant, add --yes.`,
      code: "confirmation_required",
      lines: [{ line: 1, error: doubt, code: "confirmation_required" }],
    });
    // An update leaves the quota of a known key as it is.
    await run([doubtful], "--yes");
    const { stderr: ofUpdate } = await run([doubtful, '{"id":"q4","granted":5}'], "--update", "--json");
    expect(JSON.parse(ofUpdate)).toMatchObject({ lines: [{ line: 2, error: doubt }] });
    expect(await run([doubtful], "--update")).toMatchObject({ code: 0, stdout: '{"id":"q3","updated":[]}\n' });
    // The store is not asked about more lines than are named.
    const ten = Array.from({ length: 10 }, () => '{"granted":5}');
    expect((await run([...ten, doubtful], "--update")).stderr).toContain("\nand 1 more.");
    await polygate(["keys", "revoke", "q3", "--yes"], env);
    // Many doubts hide no fault.
    const secret = `sk-${"s".repeat(43)}`;
    const many = await run([...Array.from({ length: 20 }, () => '{"granted":5}'), `{"budget":"${secret}"}`], "--json");
    expect(JSON.parse(many.stderr)).toMatchObject({
      error: expect.stringMatching(/\nand 11 more\.\n/),
      lines: { length: 10, 9: { line: 21, code: "not_found" } },
    });
    expect(many.stderr).not.toContain(secret);
    expect((await polygate(["keys", "export"], env)).stdout).toBe("");
  });

  it.each([
    ['{"id":"a" "name":"b"}', 11],
    ['{"id":"a",}', 11],
    ['{"id":"a', 9],
    ["{'id':1}", 2],
    ['{"id":"a"} x', 12],
    ['{"granted":01}', 13],
    ['{"granted":1.}', 14],
    ['{"id":tru}', 10],
    [String.raw`{"id":"\q"}`, 9],
  ])("tells the first wrong character of the line %s", async (line, at) => {
    const { run } = await fresh("broken");
    await expect(run(`{"id":"a"}\n${line}`, "import")).rejects.toThrow(
      `Nothing was imported.\nline 2, character ${at}: ${NO_JSON}`,
    );
  });

  it("says how to write a file that is a JSON list", async () => {
    const { run } = await fresh("list");
    await expect(run('[\n{"id":"a"},\n{"id":"b"}\n]', "import")).rejects.toThrow(
      "The file is a JSON list: write its objects on a line each, without brackets and commas.",
    );
  });

  it("notes that a list may go on, also beside JSON", async () => {
    const { run } = await fresh("long");
    await run('{"id":"a"}\n{"id":"b"}\n{"id":"c"}', "import");
    const notes: string[] = [];
    const where = ["--store", `sqlite:${join(folder, "long.db")}`];
    const list = (...args: string[]): Promise<void> =>
      runCommand(["keys", "list", ...args, ...where], { ...terminal, warn: (note) => void notes.push(note) });
    await list("--limit", "2");
    expect(notes).toEqual(["The first 2 are shown. More may follow: add --after b, or --limit 1000."]);
    await list("--limit", "1");
    expect(notes.pop()).toBe("The first one is shown. More may follow: add --after a, or --limit 1000.");
    await list("--limit", "2", "--after", "b");
    await list();
    expect(notes.length).toBe(1);
    await list("--limit", "2", "--json");
    expect(notes[1]).toBe(notes[0]);
  });

  it("writes an id of the next page for a shell", async () => {
    const { run } = await fresh("shell");
    await run(["-x; reboot", "it's\u200b"].map((id) => JSON.stringify({ id })).join("\n"), "import");
    const where = ["--store", `sqlite:${join(folder, "shell.db")}`];
    for (const [limit, after] of [
      ["1", "--after='-x; reboot'"],
      ["2", String.raw`--after $'it\'s\u200b'`],
    ] as const)
      expect((await polygate(["keys", "list", "--limit", limit, ...where])).stderr).toContain(` add ${after}, or `);
  });

  it("says when the older secrets of a rotated key end", async () => {
    const { run } = await fresh("rotate");
    await run("", "create", "--id", "team");
    const before = Date.now();
    const [shown = ""] = await run("", "rotate", "team", "--overlap", "2h");
    const end = Date.parse(/^older secrets: valid until (20\S+Z)$/m.exec(shown)?.[1] ?? "");
    expect(end - before - 7_200_000).toBeGreaterThanOrEqual(0);
    expect(end).toBeLessThanOrEqual(Date.now() + 7_200_000);
    const [told = ""] = await run("", "rotate", "team", "--json");
    expect((JSON.parse(told) as { olderEndAt: number }).olderEndAt).toBeGreaterThanOrEqual(before + 86_400_000);
    expect((await run("", "rotate", "team", "--overlap", "0s", "--yes")).join()).toMatch(
      /^older secrets: have ended$/m,
    );
  });

  it("takes a span for the end of a key", async () => {
    const earliest = Math.floor(Date.now() / 1_000) + 90 * 86_400;
    await keys("create", "--id", "passing", "--expires", "90d");
    const { expiresAt } = JSON.parse(await keys("usage", "passing", "--json")) as { expiresAt: number };
    expect(expiresAt).toBeGreaterThanOrEqual(earliest);
    expect(expiresAt).toBeLessThan(earliest + 3_600);
  });

  it.each([
    "01.02.2030",
    "2030-02-30",
    "1",
    "2030",
    "Jan 5 2030",
    "2030-01-31 12:00",
    "tomorrow",
    "0",
    "90 d",
    "999999999d",
  ])("does not guess the date %s", async (date) => {
    await expect(keys("create", "--id", "dated", "--expires", date)).rejects.toThrow(
      `--expires must be a date, such as 2030-01-31, a span, such as 90d, or never, not ${date}.`,
    );
  });

  it("takes no time in the past for a key or a secret", async () => {
    const { run } = await fresh("ahead");
    const over = "--expires must be in the future, and 2020-01-01 is over.";
    await expect(run("", "create", "--expires", "2020-01-01")).rejects.toThrow(over);
    await run("", "create", "--id", "team", "--expires", "2999-01-01T10:00:00+02:00");
    expect((await run("", "usage", "team")).join()).toMatch(/^expires: 2999-01-01T08:00:00\.000Z$/m);
    await expect(run("", "add-secret", "team", "--expires", "2020-01-01")).rejects.toThrow(over);
    await expect(run("", "update", "team", "--expires", "2020-01-01")).rejects.toThrow(
      `${over} "polygate keys pause team" stops a key at once.`,
    );
    expect((await run("", "usage", "team")).join()).toContain("expires: 2999-01-01");
  });

  it("reads a file, or its input, as a process of its own", async () => {
    const env = { POLYGATE_STORE: store };
    await writeFile(join(folder, "keys.jsonl"), '{"id":"from-file"}\n');
    expect(await polygateProcess(["keys", "import", join(folder, "keys.jsonl")], env)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^{"id":"from-file","apiKey":"sk-[\w-]{43}"}\n$/),
    });
    expect(await polygateProcess(["keys", "import", "none.jsonl"], env)).toEqual({
      code: 2,
      stdout: "",
      stderr: "The file none.jsonl cannot be read.\n",
    });
    const child = spawn(process.execPath, [cli, "keys", "import"], { env: { ...process.env, ...env } });
    child.stdin.end('{"id":"from-input"}\n');
    expect(await text(child.stdout)).toContain('{"id":"from-input","apiKey":"sk-');
  });

  it("prints errors as JSON if told", async () => {
    const env = { POLYGATE_STORE: store };
    const failed = await polygate(["keys", "usage", "nobody", "--json"], env);
    expect([failed.code, JSON.parse(failed.stderr)]).toEqual([
      1,
      { error: 'There is no API key of the id nobody. "polygate keys list" lists the keys.', code: "not_found" },
    ]);
    const wrong = await polygate(["keys", "list", "--limit", "0", "--json"], env);
    expect([wrong.code, JSON.parse(wrong.stderr)]).toEqual([
      2,
      { error: expect.stringContaining("--limit must be"), code: "invalid_request" },
    ]);
    // The codes of HTTP, also for errors that are worded anew.
    const refusal = async (...args: string[]): Promise<unknown> =>
      JSON.parse((await polygate([...args, "--json"], env)).stderr);
    await keys("create", "--id", "coded", "--granted", "19978070", "--currency", "");
    const limit = { owner: "key coded", available: 19_978_070 };
    for (const [currency, error] of [
      ["usd", "The key coded has only 19.97807 USD available. Take so much at most: then nothing is left."],
      ["", "The key coded has too few available units: 19978070. Take so much at most: then nothing is left."],
    ] as const)
      expect(await refusal("keys", "lower", "coded", "30000000", "--currency", currency)).toEqual({
        error,
        code: "limit_reached",
        limit,
      });
    await keys("create", "--id", "coded-open");
    for (const [code, ...args] of [
      ["conflict", "keys", "create", "--id", "coded"],
      ["conflict", "keys", "grant", "coded-open", "1", "--currency", ""],
      ["conflict", "keys", "update", "coded", "--granted", "1", "--currency", ""],
      ["not_found", "keys", "create", "--budget", "nope"],
      ["not_found", "budgets", "remove", "nope"],
      ["confirmation_required", "keys", "revoke", "coded"],
    ] as const)
      expect([args, await refusal(...args)]).toMatchObject([args, { code }]);
  });

  it("prints its version", async () => {
    const { version } = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8"));
    expect(await polygateProcess(["--version"])).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
  });

  it("has examples for each command, which it can read", async () => {
    const [, , ofKeys = "", ofBudgets = ""] = USAGE.split(/^polygate(?: \w+)? <command>/m);
    for (const [group, text, run, known] of [
      ["keys", ofKeys, keys, "export"],
      ["budgets", ofBudgets, budgets, "top-up"],
    ] as const) {
      const examples = new RegExp(`^  polygate ${group} (\\S+).*$`, "gm");
      const commands = text.split("--store ADDRESS")[0] ?? "";
      const named = Array.from(commands.matchAll(/^  ([a-z-]+) /gm), ([, name = ""]) => name);
      expect(named).toContain(known);
      for (const name of named) {
        const help = await run(name, "--help");
        expect(Array.from(help.matchAll(examples), ([, of]) => of)).toContain(name);
      }
    }
  });

  it("says that an active key is used up, and whether by its own quota or a budget, or that these are 0", async () => {
    const { run } = await fresh("used-up");
    const where = ["--store", `sqlite:${join(folder, "used-up.db")}`];
    const budgets = (...args: string[]) => runCommand(["budgets", ...args, ...where], { ...terminal, print: () => {} });
    await budgets("create", "team", "--amount", "5");
    await budgets("create", "stopped", "--amount", "0");
    const keyed = [
      { id: "of-budget", budget: "team" },
      { id: "of-quota", granted: 5, used: 5 },
      { id: "paused", granted: 5, used: 5, paused: true },
      { id: "with-rest", granted: 5, used: 4, budget: "team" },
      { id: "zero-budget", budget: "stopped" },
      { id: "zero-quota", granted: 0 },
    ];
    await run(keyed.map((key) => JSON.stringify(key)).join("\n"), "import");
    const states = async () => (await run("", "list")).flatMap((lines) => lines.split("\n").slice(1)).map(stateIn);
    const zeros = ["budget is 0", "quota is 0"];
    expect(await states()).toEqual(["active", "used up", "paused", "active", ...zeros]);
    const stores = await openStores(`sqlite:${join(folder, "used-up.db")}`);
    await stores.ports.quotas.reserve({ id: "all", keyId: "of-budget", atLeast: 5, atMost: 5, leaseMs: LONGEST_MS });
    expect(await states()).toEqual(["active", "used up", "paused", "active", ...zeros]);
    await stores.ports.quotas.settle("all", { used: 5, certainty: "exact" });
    await stores.close();
    expect(await states()).toEqual(["budget used up", "used up", "paused", "budget used up", ...zeros]);
    await budgets("top-up", "stopped", "5");
    expect(await states()).toContain("active");
    const listed = JSON.parse((await run("", "list", "--json")).join("")) as readonly object[];
    expect(listed.map((key) => ("usedUp" in key ? key.usedUp : undefined))).toEqual([
      "budget",
      "quota",
      "quota",
      "budget",
      undefined,
      // A quota of 0 was never used.
      undefined,
    ]);
    expect((await run("", "list", "--csv")).join("\n")).toMatch(/^of-quota,of-quota,active,5,5,0,.*,,quota,\*,/m);
    expect((await run("", "usage", "of-budget")).join("\n")).toMatch(/^used up: budget$/m);
  });

  it("says that an active key is nearly used up when less than a thousandth is left, also of what running calls hold", async () => {
    const { run } = await fresh("nearly-used-up");
    const address = `sqlite:${join(folder, "nearly-used-up.db")}`;
    await runCommand(["budgets", "create", "team", "--amount", "10000", "--store", address], {
      ...terminal,
      print: () => {},
    });
    const keyed = [
      { id: "enough", granted: 10_000, used: 9_990 },
      { id: "held", granted: 10_000 },
      { id: "little", granted: 10_000, used: 9_991 },
      { id: "of-team", budget: "team" },
      { id: "paused", granted: 10_000, used: 9_991, paused: true },
    ];
    await run(keyed.map((key) => JSON.stringify(key)).join("\n"), "import");
    const stores = await openStores(address);
    const { quotas } = stores.ports;
    await quotas.reserve({ id: "held", keyId: "held", atLeast: 9_995, atMost: 9_995, leaseMs: LONGEST_MS });
    const states = async () => (await run("", "list")).flatMap((lines) => lines.split("\n").slice(1)).map(stateIn);
    expect(await states()).toEqual(["active", "active", "nearly used up", "active", "paused"]);
    await quotas.reserve({ id: "of-team", keyId: "of-team", atLeast: 9_995, atMost: 9_995, leaseMs: LONGEST_MS });
    await quotas.settle("of-team", { used: 9_995, certainty: "exact" });
    await stores.close();
    expect(await states()).toEqual(["active", "active", "nearly used up", "budget nearly used up", "paused"]);
  });

  it("fits a list of keys to the terminal, without columns in which no key has anything", async () => {
    const { run } = await fresh("widths");
    const usd = ["--currency", "usd"];
    const where = ["--store", `sqlite:${join(folder, "widths.db")}`];
    await run("", "create", "--id", "ben", "--name", "Ben of the team", "--granted", "20", ...usd);
    expect(await listedIn(80, ...usd, ...where)).toEqual({
      lines: [
        "ID   NAME             GRANTED USD  SPENT USD  LEFT USD  STATE",
        "ben  Ben of the team        20.00       0.00     20.00  active",
      ],
      notes: [],
    });
    const rights = ["--models", "small-1,large-1", "--expires", "2999-01-31", "--granted", "20"];
    await run("", "create", "--name", "A name that is long", ...rights, ...usd);
    const all = await listedIn(200, ...usd, ...where);
    expect(all.lines[0]).toMatch(/ STATE +MODELS +EXPIRES$/);
    expect(all.notes).toEqual([]);
    const narrow = await listedIn(80, ...usd, ...where);
    expect(Math.max(...narrow.lines.map(({ length }) => length))).toBeLessThanOrEqual(80);
    expect(narrow.lines.join("\n")).toMatch(/^key-[\da-f-]{36}  A name that is long +20\.00  active$/m);
    expect(narrow.notes).toEqual([
      "Left out for the width: MODELS, GRANTED USD, EXPIRES, SPENT USD. --csv and --json have them.",
    ]);
  });

  it.each([
    ["create", "--name", ""],
    ["create", "--id", ""],
    ["create", "--budget", ""],
    ["create", "--granted", ""],
    ["update", "ben", "--metadata", ""],
    ["rotate", "ben", "--overlap", ""],
    ["list", "--budget", ""],
    ["list", "--limit", ""],
    ["create", "--expires="],
    ["update", "ben", "--models", ""],
    ["update", "ben", "--models", " , "],
  ])("refuses an empty text, as of a shell variable that is not set: %j", async (...args) => {
    await expect(keys(...args)).rejects.toMatchObject({
      name: "UsageError",
      message: expect.stringMatching(/^--[a-z]+ must (?:not be empty, as with a shell variable|name a model, not )/),
    });
  });

  it("says what to write in place of an empty text", async () => {
    const models = "'*' means every model, and \"polygate keys pause ID\" stops a key.";
    for (const text of ["", ","]) await expect(keys("update", "ben", "--models", text)).rejects.toThrow(models);
    await expect(keys("create", "--expires", "")).rejects.toThrow(" never means a key without an end.");
  });

  it.each([
    [["create", "--granted", "-5"], "--granted must be 0 or more, not -5."],
    [["list", "--limit=-1"], "--limit must be 1 or more, not -1."],
    [["rename", "ben", "Ben"], 'Did you mean "keys update ID --name NAME"?'],
    [["delete", "ben"], 'There is no command "keys delete". Did you mean "keys revoke"?'],
    [["remove", "ben"], 'Did you mean "keys revoke"?'],
    [["add"], 'Did you mean "keys create"?'],
    [["show", "ben"], 'Did you mean "keys usage"?'],
    [["ls"], 'Did you mean "keys list"?'],
    [["create", "--tier", "gold"], "keys create takes no --tier. Write --metadata tier=gold. It takes --id, "],
    [["create", "--group=a b"], "keys create takes no --group. Write --metadata group='a b'. It"],
    [["list", "--team", "a"], "keys list takes no --team. Write --metadata team=a. It takes"],
    [["create", "--plan"], "keys create takes no --plan. Write --metadata plan=TEXT. It takes"],
    [["export", "--plan", "--json"], "keys export takes no --plan. Write --metadata plan=TEXT. It takes"],
    [["usage", "taem"], 'There is no API key of the id taem. Did you mean "team"?'],
  ])("refuses %j with what to write", async (args, message) => {
    await keys("create", "--id", "team");
    await expect(keys(...args)).rejects.toThrow(message);
  });

  it("says of a store without calls that a call is recorded later than it ends", async () => {
    const where = { POLYGATE_STORE: `sqlite:${join(folder, "no-calls.db")}`, POLYGATE_CURRENCY: "usd" };
    await polygate(["keys", "migrate"], where);
    for (const command of ["usage", "calls"])
      expect((await polygate([command], where)).stdout).toBe(
        "No calls are recorded yet. Calls are written a second after their end, and deleted after some days (keepDays). If a call has just ended, ask again. If not, the gateway may lack onCall: stores.recorder().\n",
      );
  });

  it("answers people in words", async () => {
    const where = { POLYGATE_STORE: `sqlite:${join(folder, "words.db")}` };
    const run = async (...args: string[]) => (await polygate([...args, "--currency", "usd"], where)).stdout;
    for (const stdout of ["The tables are made or updated.\n", "Nothing had to be done: the tables are up to date.\n"])
      expect(await polygate(["keys", "migrate"], where)).toEqual({ code: 0, stdout, stderr: "" });
    expect(JSON.parse(await run("keys", "migrate", "--json"))).toEqual({ migrated: false });
    const month = ["--period", "month", "--rollover"];
    const answers = [
      await run("budgets", "create", "all", "--amount", "5", ...month),
      await run("keys", "create", "--id", "team", "--budget", "all", "--models", "small", "--expires", "2999-01-01"),
      await run("keys", "add-secret", "team"),
      await run("keys", "rotate", "team", "--overlap", "0s", "--yes"),
      await run("keys", "pause", "team"),
      await run("keys", "usage", "team"),
      await run("keys", "revoke", "team", "--yes"),
    ].join("");
    for (const line of answers.split("\n")) expect(line).toMatch(/^(?:[a-z %]+: .*|Store the API key now: .*|)$/);
    expect(answers).not.toMatch(/\b(?:true|false)$/m);
  });

  it("says that a budget never begins anew, also on stderr where its parent does", async () => {
    const where = { POLYGATE_STORE: `sqlite:${join(folder, "anew.db")}`, POLYGATE_CURRENCY: "" };
    await polygate(["keys", "migrate"], where);
    const create = (...args: string[]) => polygate(["budgets", "create", "--amount", "5", ...args], where);
    const never = /^period: none, never begins anew$/m;
    const company = await create("company", "--period", "month");
    expect(company).toMatchObject({ code: 0, stderr: "", stdout: expect.not.stringMatching(never) });
    const whole = await create("whole");
    expect(whole).toMatchObject({ code: 0, stderr: "", stdout: expect.stringMatching(never) });
    const below = await create("below", "--parent", "company");
    expect(below).toMatchObject({ code: 0, stdout: expect.stringMatching(never) });
    expect(below.stderr).toBe(
      "The budget below never begins anew, though its parent company does. If that is a mistake, make another budget with --period.\n",
    );
    for (const args of [
      ["apart", "--parent", "whole"],
      ["weekly", "--parent", "company", "--period", "week"],
    ])
      expect(await create(...args)).toMatchObject({ code: 0, stderr: "" });
    for (const args of [
      ["usage", "below"],
      ["top-up", "below", "1"],
    ])
      expect((await polygate(["budgets", ...args], where)).stdout).toMatch(never);
  });

  it("sweeps, prunes and verifies", async () => {
    expect(await keys("sweep")).toBe("swept: 0");
    expect(await keys("prune", "--older-than", "30d")).toBe("pruned: 0");
    expect(await keys("verify")).toBe("differences: 0");
  });

  it("fails where the journal does not agree, as a process of its own", async () => {
    const other = `sqlite:${join(folder, "tampered.db")}`;
    await keys("migrate", "--store", other);
    await keys("create", "--id", "team", "--granted", "5", "--store", other);
    const database = new DatabaseSync(join(folder, "tampered.db"));
    database.exec("UPDATE polygate_keys SET granted = 6");
    const entry = "'gone', 'lost', 'hold', 0, 0, 0, 0, 0, 0, 0";
    const columns = "key_id, hold_id, kind, at, granted, charged, held, overdraft, estimated, noted";
    database.exec(`INSERT INTO polygate_journal (${columns}) VALUES (${entry})`);
    database.close();
    const next = 'No command mends a difference: see "Repair the ledger" in docs/operations.md.';
    expect(await polygateProcess(["keys", "verify"], { POLYGATE_STORE: other })).toEqual({
      code: 1,
      stdout: "",
      stderr: [
        "table keys, id team, field granted, stored 6, expected 5",
        "table keys, id gone: the row is missing, and the journal has its entries",
        "table holds, id lost: the row is missing, and the journal has its entries",
        `${next} It is told until the ledger is repaired.\n`,
      ].join("\n"),
    });
    const { stderr } = await polygate(["keys", "verify", "--json"], { POLYGATE_STORE: other });
    const difference = { table: "keys", id: "team", field: "granted", stored: 6, expected: 5 };
    expect(JSON.parse(stderr)).toMatchObject({ differences: [difference, { id: "gone" }, { id: "lost" }] });
  });

  it.each([
    [["keys", "create", "--granted", "many"], /--granted must be an integer/],
    [["keys", "create", "--granted", "9007199254740992"], /--granted must be an integer from 0 to 9007199254740991/],
    [["keys", "grant", "team", "9007199254740992"], /AMOUNT must be an integer from 0 to 9007199254740991/],
    [["keys", "grant", "team", "3eur"], /AMOUNT must be .*, not 3eur\. Write 3 and add --currency eur\./],
    [["keys", "create", "--granted", "3eur"], /--granted must be .*, not 3eur\. Write 3 and add --currency eur\./],
    [["keys", "grant", "team", "99999999999999999999"], /AMOUNT must be an integer from 0 to/],
    [["keys", "list", "--limit", "0"], /--limit must be an integer from 1 to 1000, not 0/],
    [["keys", "list", "--limit", "5000"], /--limit must be an integer from 1 to 1000, not 5000/],
    [["keys", "create", "--expires", "soon"], /--expires must be a date/],
    [["keys", "rotate", "team", "--overlap", "1"], /--overlap must be a span of time/],
    [["keys", "update", "team"], /update needs --name, --models, --expires, --metadata or --granted/],
    [
      ["keys", "update", "team", "--metadata", "team"],
      /--metadata must be a name and a text, such as team=a, not team/,
    ],
    [
      ["keys", "create", "--metadata", "tier=slow, group=ops x"],
      /^--metadata takes one entry at a time: write --metadata tier=slow --metadata group='ops x'\.$/,
    ],
    [["keys", "list", "--metadata", "tier=slow,group=ops"], /--metadata tier=slow --metadata group=ops\.$/],
    [["keys", "create", "--models", "a b"], /^--models must be names with commas between them.*, not a b\.$/],
    [["keys", "update", "a", "--models", "*,a"], /^--models must be names .* or \* alone, not \*,a\.$/],
    [["keys", "update", "a", "--budget", "b"], /^"budgets assign KEY ID" moves a key to another budget/],
    [["keys", "update", "a", "--granted", "-5"], /^--granted must be 0 or more, not -5\.$/],
    [["keys", "update", "a", "--granted", "much"], /^--granted must be .*, not much/],
    [["keys", "create", "--granted", "none"], /^--granted must be .*, not none/],
    [["budgets", "update", "a"], /^update needs --name or --amount\.$/],
    [
      ["budgets", "update", "a", "--period", "week"],
      /^The period of a budget cannot be changed\. Make another budget with "budgets create", move each key of /,
    ],
    [["keys", "list", "--state", "gone"], /--state must be active, paused, expired or revoked, not gone/],
    [["keys", "lower", "team", "-5"], /^-5 is no option. An amount must be 0 or more.$/],
    [["keys", "grant", "team", "-5"], /must be 0 or more\. "polygate keys lower ID AMOUNT" takes an amount back\.$/],
    [
      ["budgets", "top-up", "x", "-5"],
      /must be 0 or more\. "polygate budgets lower ID AMOUNT" takes an amount back\.$/,
    ],
    [["keys", "rotate"], /^keys rotate needs ID. Usage: polygate keys rotate ID \[options\]$/],
    [["keys", "grant"], /^keys grant needs ID and AMOUNT. Usage: polygate keys grant ID AMOUNT \[options\]$/],
    [
      ["keys", "revoke", "team", "other"],
      /^keys revoke does not take "other". Usage: polygate keys revoke ID \[options\]$/,
    ],
    [
      ["keys", "create", "tenant-c"],
      /^keys create does not take "tenant-c". Write --id tenant-c for its id. Usage: polygate keys create \[options\]$/,
    ],
    [["keys", "list", "--granted", "5"], /^keys list takes no --granted. It takes --state, .*--store/],
    [
      ["usage", "--xlsx"],
      /^usage takes no --xlsx\. Write --spreadsheet excel, for a \.csv file that Excel opens\. It takes --by, /,
    ],
    [["keys", "list", "--format", "XLSX"], /^keys list takes no --format\. Write --spreadsheet excel, for /],
    [["calls", "-o", "csv"], /^calls takes no -o\. Write --csv\. It takes /],
    [["budgets", "list", "--output=json"], /^budgets list takes no --output\. Write --json\. It takes /],
    [["why", "req_1", "--format", "csv"], /^why takes no --format\. It takes /],
    [
      ["usage", "--time-zone", "Europe/Berlin"],
      /^The days of a call .*budgets create --time-zone\).* timeZone of the re/,
    ],
    [["keys", "list", "--nonsense"], /^keys list takes no --nonsense. It takes --state, /],
    [["keys", "list", "--metdata", "a=b"], /^keys list takes no --metdata. Did you mean --metadata\? It takes /],
    [["keys", "create", "-x"], /^keys create takes no -x. It takes /],
    [["--jsn"], /^There is no option --jsn. Did you mean --json\?$/],
    [["keys", "create", "--id"], /^--id needs a value.$/],
    [["keys", "create", "--id", "--json"], /^--id needs a value. Write --id=--json if this is the value.$/],
    [["keys", "list", "--json=yes"], /^--json takes no value.$/],
    [["keys", "constructor"], /^There is no command "keys constructor". "polygate keys --help" lists them.$/],
    [["keys", "creat"], /^There is no command "keys creat". Did you mean "keys create"\?/],
    [["key", "list"], /^There is no command "key list". Did you mean "keys list"\? "polygate --help"/],
    [["keys"], /^keys needs a command, such as create. "polygate keys --help" lists them.$/],
    [["migrate"], /^There is no command "migrate". Did you mean "keys migrate"\?/],
    [["create"], /^There is no command "create". Did you mean "keys create" or "budgets create"\?/],
    [["constructor", "list"], /^There is no command "constructor list". Did you mean "keys list" or "budgets list"\?/],
    [["ini"], /^There is no command "ini". Did you mean "init"\? "polygate --help"/],
    [["int", "my-gateway"], /^There is no command "int my-gateway". Did you mean "init"\?/],
    [["key"], /^There is no command "key". Did you mean "keys"\?/],
    [["server"], /^There is no command "server". Did you mean "serve"\? "polygate --help" lists them.$/],
    [["serve"], /^serve needs FILE\. Usage: polygate serve FILE \[options\]$/],
    [["serve", "gateway.ts", "--port", "70000"], /^--port must be an integer from 0 to 65535, not 70000\.$/],
    [["demo", "--prot", "1"], /^demo takes no --prot\. Did you mean --port\? It takes --host, --port, --store, /],
    [["keys", "prune"], /needs --older-than/],
  ])("refuses %j", async (args, message) => {
    const work = runCommand([...args], { ...terminal, env: { POLYGATE_STORE: store } });
    await expect(work).rejects.toMatchObject({ name: "UsageError", message: expect.stringMatching(message) });
  });

  it.each([
    [["create", "--granted", "many"]],
    [["create", "--expires", "soon"]],
    [["rotate", "team", "--overlap", "1"]],
    [["grant", "team", "many"]],
    [["list", "--limit", "many"]],
    [["list", "--limit", "0"]],
    [["list", "--limit", "5000"]],
    [["grant", "team", "9007199254740992"]],
    [["prune"]],
    [["prune", "--older-than", "1"]],
  ])("refuses %j before it opens a store", async (args) => {
    const unreachable = ["--store", "redis://127.0.0.1:1"];
    await expect(keys(...args, ...unreachable)).rejects.toMatchObject({ name: "UsageError" });
  });

  it.each([
    ["kysely", "sqlite:unmade.db"],
    ["kysely", "postgres://127.0.0.1:1/x"],
    ["kysely", "mysql://127.0.0.1:1/x"],
    ["pg", "postgres://127.0.0.1:1/x"],
    ["mysql2", "mysql://127.0.0.1:1/x"],
    ["redis", "redis://127.0.0.1:1"],
    ["kysely pg", "postgres://127.0.0.1:1/x"],
    ["kysely mysql2", "mysql://127.0.0.1:1/x"],
  ])("says that %s is missing for %s, all at once", async (missing, address) => {
    const args = ["keys", "migrate", "--store", address];
    const [name, ...others] = missing.split(" ");
    const packages = others.length === 0 ? `package "${name}"` : `packages "${name}" and "${others.join()}"`;
    expect(await polygateProcess(args, { NODE_OPTIONS: without(...missing.split(" ")) }, folder)).toEqual({
      code: 2,
      stdout: "",
      stderr: `This store needs the ${packages}: npm install ${missing}\n`,
    });
    expect(await readdir(folder)).not.toContain("unmade.db");
  });

  it("names the package of the counters, too, to a gateway", async () => {
    const file = join(folder, "bare.ts");
    const serve = new URL("../../src/serve/index.ts", import.meta.url).href;
    await writeFile(
      file,
      `import { defineServer } from ${JSON.stringify(serve)};
      export default defineServer({ gateway: () => ({ backend: { chat: async function* () {} } }) });`,
    );
    const args = ["serve", file, "--store", "postgres://127.0.0.1:1/x"];
    const env = { NODE_OPTIONS: without("kysely", "pg", "rate-limiter-flexible") };
    expect(await polygateProcess(args, env, folder)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /This store needs the packages "kysely" and "pg": npm install kysely pg\. Its counters of rate limits also need rate-limiter-flexible\n$/,
      ),
    });
  });

  it("needs no package to say what is wrong, nor Kysely for Redis", async () => {
    const env = { NODE_OPTIONS: without("kysely", "pg", "mysql2", "redis"), POLYGATE_STORE: "" };
    expect(await polygateProcess(["--help"], env)).toMatchObject({ code: 0, stderr: "" });
    expect(await polygateProcess(["keys", "lst"], env)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^There is no command "keys lst"/),
    });
    const redis = ["keys", "list", "--store", "redis://127.0.0.1:1"];
    expect(await polygateProcess(redis, { NODE_OPTIONS: without("kysely") })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("ECONNREFUSED"),
    });
  });

  it.each([
    ["no store", [], /^No store is given. Name it with --store, or in POLYGATE_STORE: sqlite:FILE, /],
    [
      "a file without sqlite:",
      ["--store", "data/new-comer.db"],
      /redis:\/\/…\. Did you mean sqlite:data\/new-comer\.db\?$/,
    ],
    ["a store of no known kind", ["--store", "oracle:x"], /^--store: The address of the store must be sqlite:FILE/],
    [
      "a misspelt kind of store",
      ["--store", "sqllite:quota.db"],
      /^--store: The address .* redis:\/\/…, and sqllite: is none of them\. Did you mean sqlite:FILE\?$/,
    ],
    [
      "a kind that is cut short",
      ["--store", "postgre://me:hunter2@host/x"],
      /, and postgre: is none .* mean postgres:\/\/…\?$/,
    ],
    ["a file that is not there", ["--store", "sqlite:/nowhere/quota.db"], /There is no file \/nowhere\/quota.db/],
  ])("refuses %s", async (_, args, message) => {
    const work = runCommand(["keys", "list", ...args], terminal);
    await expect(work).rejects.toThrow(message);
  });

  it("says which store it uses where the environment has another than .env", async () => {
    const place = await mkdtemp(join(folder, "env-"));
    const file = "POLYGATE_STORE=postgres://me:hunter2@there/x\n";
    await writeFile(join(place, ".env"), file);
    const env = { POLYGATE_STORE: store };
    const note = `The store is ${store}, as POLYGATE_STORE of the environment says. The file .env names postgres://me@there/x.\n`;
    expect(await polygateProcess(["keys", "list"], env, place)).toMatchObject({ code: 0, stderr: note });
    expect(await polygate(["keys", "list"], env, file)).toMatchObject({ code: 0, stderr: note });
    expect(await polygate(["keys", "list", "--json"], env, file)).toMatchObject({ code: 0, stderr: "" });
    expect(await polygate(["keys", "list", "--store", store], env, file)).toMatchObject({ code: 0, stderr: "" });
    const same = `POLYGATE_STORE=${store}\n`;
    expect(await polygate(["keys", "list"], env, same)).toMatchObject({ code: 0, stderr: "" });
    const wrong = await polygate(["keys", "list"], { POLYGATE_STORE: "sqllite:x" }, same);
    expect(wrong.stderr).toMatch(/\nPOLYGATE_STORE: The address of the store must be .* Did you mean sqlite:FILE\?\n$/);
  });

  it.each(databases.filter(({ available, name }) => available && /^(Postgres|MySQL)/.test(name)))(
    "says how to make a database that $name does not have",
    async (database) => {
      const place = await database.place();
      const absent = new URL(place.address ?? "");
      absent.pathname = "/polygate-absent";
      const { code, stderr } = await polygate(["keys", "list", "--store", String(absent)]);
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(
          / cannot be used: .*polygate-absent.*\. Make it: (?:createdb|mysqladmin create) polygate-absent\n$/,
        ),
      ]);
      await place.remove();
    },
  );

  it.each(databases.filter(({ available, name }) => available && /^(Postgres|MySQL)/.test(name)))(
    "says how to make a user that $name does not have",
    async (database) => {
      const place = await database.place();
      const unknown = new URL(place.address ?? "");
      [unknown.username, unknown.password] = ["polygate-absent", "wrong"];
      const { code, stderr } = await polygate(["keys", "list", "--store", String(unknown)]);
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(
          / cannot be used: .*polygate-absent.*\. (?:Make it: createuser --pwprompt|Correct .*: CREATE USER) polygate-absent/,
        ),
      ]);
      await place.remove();
    },
  );

  it.each([
    ["28P01", 'password authentication failed for user "anna"', "Correct the password of the address, or PGPASSWORD"],
    [
      undefined,
      "SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string",
      "The password is missing: add it to the address, or set PGPASSWORD",
    ],
    ["42501", "permission denied for schema public", "Let the user of the address make tables: GRANT ALL ON SCHEMA"],
    [
      "42501",
      "permission denied for table polygate_keys",
      "Let the user of the address write the tables: GRANT SELECT",
    ],
    ["ER_DBACCESS_DENIED_ERROR", "Access denied for user 'anna'@'%' to database 'x'", "Let the user use it: GRANT ALL"],
    [
      "ER_ACCESS_DENIED_ERROR",
      "Access denied for user 'anna'@'%'",
      "Correct the user and the password of the address,",
    ],
    [undefined, "NOAUTH Authentication required.", "Add the password to the address: redis://:PASSWORD@HOST"],
    [undefined, "WRONGPASS invalid username-password pair", "Correct the user and the password of the address"],
    [undefined, "ERR AUTH <password> called without any password configured", "Leave the password out of the address"],
    ["28000", "no pg_hba.conf entry for host", ""],
    [undefined, "NOPERM this user has no permissions", ""],
  ])("says what to do about the refusal %s %s", (code, message, step) => {
    const problem = describeProblem(Object.assign(new Error(message), { code }));
    expect(problem).toContain(step === "" ? message : `${message.replace(/\.$/, "")}. ${step}`);
    expect(problem === message).toBe(step === "");
    // The error of a command has the step already.
    expect(describeProblem(new Error(`postgres://host cannot be used: ${problem}`))).not.toMatch(
      /(\. (?:Corr|Add|Let).*){2}/,
    );
  });

  it("hides the password of each address in an error, and reads a long word once", () => {
    expect(describeProblem(new Error("postgres://me:p@ss@host/x and redis:secret@host, a@b c:d"))).toBe(
      "postgres://***@host/x and redis:***@host, a@b c:d",
    );
    // A search from each letter of such a word would take minutes.
    for (const word of ["x".repeat(1_000_000), "a:".repeat(500_000)])
      expect(describeProblem(new Error(word))).toHaveLength(1_000_000);
  });

  it.each([
    ["keys create", /--budget ID +the budget that it draws on, .*--currency CODE/s],
    [
      "keys list",
      /--budget ID +only keys that draw on this .*--metadata NAME=TEXT +only keys with .*, and all in CSV/s,
    ],
    ["keys export", /--budget ID +only keys that draw on this budget, by its id or its name$/m],
    ["keys add-secret", /--expires DATE +when the secret ends/],
    ["budgets create", /--name NAME +its name in lists .*--time-zone ZONE +of its periods, .* its parent, or UTC$/ms],
    [
      "budgets periods",
      /--month MONTH +only periods that .*--limit N +the most periods of each budget: .* all by default$/ms,
    ],
    [
      "usage",
      /--month MONTH +the days of a month, such as 2026-11, this or last$.*--budget ID +only calls of this budget/ms,
    ],
    ["calls", /by default all that are kept$.*--limit N +the most rows: 1 to 1000, 100 by default$/ms],
    ["why", /--time-zone ZONE +of the times, such as .*-h, --help +this help$/ms],
  ])("words the options in the help of %s for this command", async (command, words) => {
    const { stdout } = await polygate([...command.split(" "), "--help"]);
    expect(stdout).toMatch(words);
    expect(stdout).not.toMatch(/\bin (?:usage|periods|calls)\b|after a command/);
  });

  it("has money in the help of each command that takes an amount", async () => {
    const amounts = / (?:--amount|--granted|top-up \S+|grant \S+|lower \S+) \d/;
    const texts = [(await polygate(["--help"])).stdout];
    for (const [group, commands] of Object.entries({ keys: KEY_COMMANDS, budgets: BUDGET_COMMANDS }))
      for (const name of Object.keys(commands)) texts.push((await polygate([group, name, "--help"])).stdout);
    for (const text of texts) {
      expect(text).not.toContain("UNITS");
      const examples = text.split("\n").filter((line) => line.startsWith("  polygate ") && amounts.test(line));
      for (const example of examples) expect(example).toContain(" --currency usd");
    }
    expect(texts.filter((text) => amounts.test(text)).length).toBeGreaterThan(5);
  });

  it("leaves the currency out of the help of commands without amounts, which still take it", async () => {
    for (const name of ["keys migrate", "keys revoke", "budgets remove"])
      expect((await polygate([...name.split(" "), "--help"])).stdout).not.toContain("--currency");
    expect(await keys("sweep", "--currency", "usd")).toBe("swept: 0");
  });

  it("begins its help with what people begin with", async () => {
    const { stdout } = await polygate([]);
    const commands = Array.from(stdout.matchAll(/^ {2}([a-z][a-z-]*)(?: [^a-z ]\S*)* {2,}\S/gm), ([, name]) => name);
    expect(commands.slice(0, 4)).toEqual(["demo", "init", "serve", Object.keys(KEY_COMMANDS)[0]]);
    expect(stdout.split("\n").slice(0, 10).join("\n")).toMatch(
      /^ {2}polygate demo$.*^ {2}polygate init .*^ {2}polygate serve /ms,
    );
  });

  it("says how it is used, and ends with 2 where it is used wrongly", async () => {
    expect(await keys("--help")).toMatch(/^polygate keys <command>/);
    expect(await keys("--help")).not.toContain("polygate budgets");
    expect(await budgets("--help")).toMatch(/^polygate budgets <command>/);
    expect(await budgets("--help")).not.toContain("polygate keys");
    expect(await polygate(["--help"])).toMatchObject({ code: 0, stdout: `${USAGE}\n` });
    expect(await polygate(["keys", "list"], { POLYGATE_STORE: "" })).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/^No store is given/),
    });
  });

  it.each([
    ["keys", "list"],
    ["budgets", "create", "team", "--amount", "5"],
    ["usage", "--by", "key"],
    ["why", "req_1"],
  ])("names in one line a store that is away, and never prints its password: %j", async (...args) => {
    for (const scheme of ["postgres", "mysql", "redis"]) {
      if (scheme === "redis" && !["keys", "budgets"].includes(args[0] ?? "")) continue;
      const line = `${scheme}://***@127.0.0.1:1/4 cannot be used: connect ECONNREFUSED 127.0.0.1:1`;
      const where = [...args, "--store", `${scheme}://admin:hunter2@127.0.0.1:1/4`];
      expect(await polygate(where)).toEqual({ code: 1, stdout: "", stderr: `${line}\n` });
      const json = await polygate([...where, "--json"]);
      expect(json).toEqual({
        code: 1,
        stdout: "",
        stderr: `${JSON.stringify({ error: line, code: "unavailable" })}\n`,
      });
    }
  });

  it.each([["keys", "list"], ["budgets", "list"], ["usage", "--by", "key"], ["calls"], ["why", "req_1"]])(
    "says that the tables are missing, and which command makes them: %j",
    async (...args) => {
      const bare = join(folder, "bare.db");
      await writeFile(bare, "");
      const line =
        'The store\'s tables are missing. Run "polygate keys migrate", or migrate(db), before the store is used.';
      expect(await polygate([...args, "--store", `sqlite:${bare}`])).toEqual({
        code: 1,
        stdout: "",
        stderr: `${line}\n`,
      });
    },
  );

  it.skipIf(process.platform !== "linux")("hides an address from the list of processes", async () => {
    // A server that never answers keeps the command alive, so that the list of processes shows it.
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const address = `postgres://admin:hunter2@127.0.0.1:${port}/x`;
    const child = spawn(process.execPath, [cli, "keys", "list", "--store", address], { stdio: "ignore" });
    const [socket] = (await once(server, "connection")) as [Socket];
    const listed = await readFile(`/proc/${child.pid}/cmdline`, "utf8");
    child.kill();
    socket.on("error", () => {});
    await once(child, "exit");
    server.close();
    expect(listed).toMatch(/^polygate/);
    expect(listed).not.toContain("hunter2");
  });

  it.each(databases.filter(({ available, name }) => available && /^(Postgres|MySQL)/.test(name)))(
    "works on $name",
    async (database) => {
      const place = await database.place();
      const where = ["--store", place.address ?? "", "--prefix", place.prefix];
      await keys("create", "--id", "team", "--granted", "5", ...where);
      expect(rowsOf(await keys("list", ...where))).toBe("team\t5\t0\t5\tactive");
      expect(await keys("verify", ...where)).toBe("differences: 0");
      await place.remove();
    },
  );

  it.skipIf(!redisAnswers)("works on Redis", async () => {
    const place = await drivers[0]?.place();
    const where = ["--store", REDIS, "--prefix", place?.prefix ?? ""];
    await keys("create", "--id", "team", "--granted", "5", ...where);
    expect(rowsOf(await keys("list", ...where))).toBe("team\t5\t0\t5\tactive");
    await expect(keys("verify", ...where)).rejects.toThrow("Only the stores over SQL keep a journal.");
    expect((await polygate(["keys", "create", "--models", "small", "--granted", "5", ...where])).stderr).toContain(
      "Nothing tells yet whether a gateway has the model small: this store has no record of calls. A gateway",
    );
    await place?.remove();
  });

  it.skipIf(!redisAnswers)("ends where Redis is given a prefix that is none", async () => {
    const args = ["keys", "list", "--store", REDIS, "--prefix", "a b"];
    expect(await polygateProcess(args)).toMatchObject({ code: 1, stderr: '"a b" is no prefix.\n' });
  });
});

async function budgets(...args: string[]): Promise<string> {
  const lines: string[] = [];
  const print = (line: string): void => void lines.push(line);
  await runCommand(["budgets", ...args, "--store", store], { ...terminal, print });
  return lines.join("\n");
}

/** Sends a call with a key, and returns its request id. */
async function askOf(gateway: Gateway, key: string, body: object): Promise<string> {
  const response = await gateway.fetch(
    new Request("http://host/v1/chat/completions", {
      method: "POST",
      headers: { authorization: `Bearer sk-${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "large", messages: [{ role: "user", content: "Hello" }], ...body }),
    }),
  );
  await response.text();
  return response.headers.get("request-id") ?? "";
}

it("polygate why says which tier of a key the limiter does not have, and that a key is paused", async () => {
  const where = `sqlite:${join(folder, "keys-at-fault.db")}`;
  const stores = await openStores(where);
  const { quotas } = stores.ports;
  await quotas.add({ id: "wrong", apiKey: "sk-wrong", metadata: { tier: "golld" } });
  await quotas.add({ id: "still", apiKey: "sk-still", paused: true });
  const failures: string[] = [];
  const gateway = createGateway({
    ...stores.ports,
    backend: { async *chat() {} },
    rateLimiter: flexibleRateLimiter({ tiers: { gold: {} } }),
    // A wrong tier lets nobody pass, whatever the host has chosen for a limiter that is down.
    rateLimiterDown: "open",
    onFailure: ({ text }) => failures.push(text),
    onCall: stores.recorder(),
  });
  const refusal = async (key: string): Promise<readonly [status: number, code: string, id: string]> => {
    const headers = { authorization: `Bearer sk-${key}`, "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify({ model: "m", messages: [] }) };
    const response = await gateway.fetch(new Request("http://host/v1/chat/completions", init));
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect(error.message).not.toContain("gold");
    told.push(error.message);
    return [response.status, error.code, response.headers.get("request-id") ?? ""];
  };
  const told: string[] = [];
  const [wrong, still] = [await refusal("wrong"), await refusal("still")];
  await gateway.close();
  await stores.close();
  const why = async (id: string): Promise<string> => {
    const lines: string[] = [];
    const print = (line: string): void => void lines.push(line);
    await runCommand(["why", id, "--store", where], { ...terminal, print });
    return lines.join("\n");
  };
  const fault = 'The key wrong names the rate tier "golld", which the rate limiter does not have (known: "gold").';
  const remedy = "Run polygate keys update wrong --metadata tier=gold, or add the tier to tiers.";
  expect(wrong.slice(0, 2)).toEqual([500, "misconfigured"]);
  expect(failures).toEqual([expect.stringContaining(`caused by Error: ${fault} ${remedy}\n`)]);
  expect(await why(wrong[2])).toContain(
    `(misconfigured).\nA setting of this service has a mistake.\n${fault}\nThe caller was told: "${told[0]}"\nNext: ${remedy}\n`,
  );
  expect(still.slice(0, 2)).toEqual([401, "paused_api_key"]);
  expect(await why(still[2])).toMatch(
    /\nThe API key is paused\.\nThe caller was told: "The API key is paused\."\nNext: polygate keys resume still lets the key work again\.\n/,
  );
  await runCommand(["keys", "resume", "still", "--store", where], { ...terminal, print: () => {} });
  expect(await why(still[2])).toContain("\nNext: The key works now: the caller may try again.\n");
});

describe("polygate usage and why", () => {
  const FORMULA = "=cmd|' /C calc'!A1";
  /** The file with the calls, of which each test has a copy. */
  let recorded: string;
  let where: string;
  let ids: Record<string, string>;

  const backend = {
    models: () => [{ id: "large" }],
    async *chat() {
      yield "Hello.";
    },
  };

  const gatewayOn = (stores: OpenedStores, rateLimiter?: RateLimiter): Gateway =>
    createGateway({
      backend,
      ...(rateLimiter && { rateLimiter }),
      onCall: stores.recorder({ currency: "usd" }),
      ...priceTable({ "*": { input: 1, output: 1 } }),
      ...stores.ports,
    });

  beforeAll(async () => {
    recorded = join(folder, "calls.db");
    const stores = await openStores(`sqlite:${recorded}`);
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "team", amount: 1_000, period: "month", timeZone: "Europe/Berlin" });
    const rich = { granted: 1_000_000, metadata: { group: FORMULA } };
    await quotas.add({ id: "rich", name: "Rich", apiKey: "sk-rich", ...rich });
    await quotas.add({ id: "team-key", apiKey: "sk-team", budget: "team" });
    const rateLimiter = flexibleRateLimiter({ perModel: { requests: [stores.counter(2, 60)] } });
    const gateway = gatewayOn(stores, rateLimiter);
    ids = {
      done: await askOf(gateway, "rich", {}),
      again: await askOf(gateway, "rich", {}),
      limited: await askOf(gateway, "rich", {}),
      budget: await askOf(gateway, "team", { messages: [{ role: "user", content: "word ".repeat(5_000) }] }),
    };
    await gateway.close();
    await stores.close();
  });
  beforeEach(async () => {
    await copyFile(recorded, store.slice("sqlite:".length));
    where = store;
  });

  const run = (...args: string[]) => polygate(args, { POLYGATE_STORE: where });
  const IN_UNITS = ["--currency", ""];

  it("sums up what was used, for people, for programs and for spreadsheets", async () => {
    const byModel = ["usage", "--by", "key,model", "--currency", "usd"];
    const shown = await run(...byModel);
    expect(shown).toMatchObject({ code: 0, stderr: "" });
    expect(await polygateProcess(byModel, { POLYGATE_STORE: where })).toEqual(shown);
    const [headings, ...rows] = shown.stdout.trimEnd().split("\n");
    expect(rows.pop()).toBe("Input and output are tokens: cache is a part of input, and reasoning of output.");
    expect(rows.pop()).toMatch(
      /^Calls from 20[-\d]+ to 20[-\d]+, by the time zone of each budget or of the gateway\.$/,
    );
    expect(headings?.split(/ {2,}/)).toEqual([
      "KEY",
      "KEY NAME",
      "MODEL",
      "SPENT USD",
      "CALLS",
      "REFUSED",
      "INPUT",
      "OUTPUT",
      "ESTIMATED USD",
    ]);
    expect(rows.map((row) => row.split(/ {2,}/).toSpliced(3, 1).slice(0, 5))).toEqual([
      ["rich", "Rich", "large", "3", "1"],
      ["team-key", "-", "large", "1", "1"],
      ["Total", "-", "-", "4", "2"],
    ]);
    expect(rows[0]).toMatch(/ 0\.0{4}\d+ .* 0\.0{4}\d+$/);
    expect((await run("usage", "--by", "key,model")).stdout).toBe(shown.stdout);
    const { stdout } = await run("usage", "--by", "group,budget", "--since", "90d", "--json");
    const report = JSON.parse(stdout) as { rows: object[]; total: { calls: number; units: number } };
    expect(report.total.calls).toBe(4);
    expect(report.rows).toMatchObject([
      { group: "", budget: "team", calls: 1, units: 0 },
      { group: FORMULA, budget: "", calls: 3, units: report.total.units },
    ]);
    const money = (report.total.units / 1e6).toFixed(6);
    expect(report).toMatchObject({ currency: "USD", total: { money }, rows: [{ money: "0.000000" }, { money }] });
    const csv = (await run("usage", "--by", "group", "--csv")).stdout.trimEnd().split("\n");
    expect(csv[0]).toMatch(/^group,since,until,timeZone,spent,currency,calls,refused,/);
    expect(csv.at(-1)).toMatch(/^'=cmd\|' \/C calc'!A1,20\S+,20\S+,,0\.0{4}\d{2},USD,3,1,0,/);
    // Calls without a name have words where people read, and nothing where programs do.
    const named = ["usage", "--by", "budget,group"];
    expect((await run(...named)).stdout).toMatch(/^no budget +=cmd.*\nteam +no group +0\..*\nTotal +- +0\./m);
    const excel = (await run(...named, "--spreadsheet", "excel")).stdout;
    expect(excel).toMatch(
      /^no budget,,'=cmd.*,20\S+,20\S+,of the gateway \(UTC by default\),0\..*\nteam,team,no group,20\S+,20\S+,Europe\/Berlin,0\..*\nTotal,,,20.*,of each budget or of the gateway \(UTC by default\),0\./m,
    );
    expect((await run(...named, "--csv")).stdout).toMatch(/^,,'=cmd.*\nteam,team,,20\S+,20\S+,Europe\/Berlin,0\./m);
    const european = await run("usage", "--by", "group,month", "--charged", "--spreadsheet", "excel-europe");
    expect(european.stdout).toMatch(
      /^\uFEFFGroup;Month;From;.*\n'=cmd\|' \/C calc'!A1;20\d\d-\d\d;20.*;(0,0{4}\d{2});USD;3;1;0;.*\n\(no charge\);;20.*;0,0{6};USD;1;1;0;.*\nTotal;;20.*;\1;USD;4;2;0;.*\n$/,
    );
    // All calls of one budget have its days.
    expect((await run("usage", "--by", "key", "--budget", "team")).stdout).toMatch(
      /^Calls from .*, by the time zone Europe\/Berlin\.$/m,
    );
    expect((await run("usage", "--by", "key", "--budget", "team", "--spreadsheet", "excel")).stdout).toMatch(
      /^team-key,,20\S+,20\S+,Europe\/Berlin,.*\nTotal,,20\S+,20\S+,Europe\/Berlin,|^team-key,team-key,20\S+,20\S+,Europe\/Berlin,/m,
    );
    // A single row is the sum. A file without rows says which days it is about.
    expect((await run("usage", "--by", "", "--spreadsheet", "excel")).stdout).not.toContain("Total");
    expect((await run("usage", "--month", "2020-02", "--spreadsheet", "excel")).stdout).toMatch(
      /^\uFEFFKey,.*\nTotal,,2020-02-01,2020-02-29,of each budget or of the gateway \(UTC by default\),0\.0{6},USD,0,0,.*\n$/,
    );
    // The calls that no row counts have a row of their own, so that the rows add up.
    expect((await run("usage", "--by", "group", "--charged")).stdout).toMatch(
      /^GROUP .*\n=cmd\S+ \S+ \S+ +0\.\d+ +3 +1 .*\n\(no charge\) +0\.0+ +1 +1 .*\nTotal +0\.\d+ +4 +2 .*\nCalls from .*\nInput and output are tokens: .*\n$/,
    );
    expect((await run("usage", "--since", "0d", "--until", "2999-12-31")).stdout).toMatch(
      /\nCalls from 20\S+ to 2999-12-31, by /,
    );
    expect((await run("usage", "--until", "2999-12-31")).stdout).toMatch(/\nCalls from 20\S+ to 2999-12-31, by /);
    expect((await run("usage", "--until", "2020-01-31")).stdout).toMatch(/^No calls are recorded until 2020-01-31\. /);
    const ofTeam = await run("usage", "--by", "day", "--budget", "team", "--json");
    expect(JSON.parse(ofTeam.stdout)).toMatchObject({
      rows: [{ day: new Intl.DateTimeFormat("sv-SE", { timeZone: "Europe/Berlin" }).format(), calls: 1 }],
    });
  });

  it("says why a call was refused, by the limit and by the budget", async () => {
    const done = await run("why", ids["done"] ?? "");
    expect(done).toMatchObject({ code: 0, stderr: "" });
    expect(done.stdout).toMatch(/^The call was completed, with the status 200\.\n/);
    expect(done.stdout).toMatch(/^The call was charged 0\.0{4}\d+ USD\.$/m);
    expect(done.stdout).toMatch(/^Charged: 0\.0{4}\d+ USD\nCharged by estimate: 0\.0{4}\d+ USD$/m);
    const limited = await run("why", ids["limited"] ?? "");
    expect(limited.stdout).toMatch(/^The call was refused, with the status 429 \(rate_limited\)\.\n/);
    expect(limited.stdout).toMatch(
      /^The call was refused by the rate limit on requests for the model large, 2 in 60 s \(needed: 1, available: 0, begins anew at 20[^)]*Z\)\.$/m,
    );
    const { stdout } = await run("why", ids["budget"] ?? "", "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      reasons: expect.arrayContaining([
        expect.stringMatching(
          /^The call was refused by the budget team \(needed: at least 0\.\d+ USD, available: 0\.0010 USD, /,
        ),
      ]),
      call: {
        requestId: ids["budget"],
        keyId: "team-key",
        budgets: ["team"],
        refusedBy: { kind: "budget", budget: "team" },
      },
      next: [
        {
          verb: "budgets top-up",
          budget: "team",
          units: expect.any(Number),
          sentence: expect.stringMatching(
            /^polygate budgets top-up team AMOUNT --currency usd lets calls pass again\. So far it was given 0\.0010 USD\. This call alone lacks 0\.01\d+ USD for its whole output limit\.$/,
          ),
        },
        { sentence: "A shorter prompt or a lower output limit needs less." },
      ],
    });
  });

  it("lists the calls of a key by its id or its name, the latest first, in lines that fit", async () => {
    const all = await run("calls");
    expect(all).toMatchObject({ code: 0, stderr: "" });
    const [headings = "", ...rows] = all.stdout.trimEnd().split("\n");
    expect(headings.split(/ {2,}/)).toEqual("AT (UTC),KEY,MODEL,SPENT USD,OUTCOME,REASON,REQUEST ID".split(","));
    expect(rows.map((row) => row.split(/ {2,}/).toSpliced(0, 1).toSpliced(2, 1))).toEqual([
      ["team-key", "large", "refused", "budget team", ids["budget"]],
      ["Rich", "large", "refused", "rate of requests", ids["limited"]],
      ["Rich", "large", "completed", "-", ids["again"]],
      ["Rich", "large", "completed", "-", ids["done"]],
    ]);
    expect(rows[2]).toMatch(/^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d {2}Rich +large +0\.0+\d+ {2}/);
    // A narrow terminal loses columns, ends of names, and the end of a request id.
    const [lines, notes]: [string[], string[]] = [[], []];
    await runCommand(["calls", "--store", where], {
      ...terminal,
      columns: 80,
      print: (line) => void lines.push(...line.split("\n")),
      warn: (note) => void notes.push(note),
    });
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(80);
    const short = ids["budget"]?.slice(0, "req_3e2ac2d5".length) ?? "";
    expect(lines[1]).toMatch(
      new RegExp(`^\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d +team-key {2}large +refused +budget team +${short}$`),
    );
    expect(notes).toEqual(["Left out for the width: SPENT USD. --csv and --json have them."]);
    for (const given of [short, short.slice("req_".length), ids["budget"]?.slice("req_".length) ?? ""])
      expect((await run("why", given)).stdout).toContain(`Request id: ${ids["budget"]}\n`);
    for (const [args, found] of [
      [
        ["--key", "Rich"],
        ["limited", "again", "done"],
      ],
      [["--key", "rich", "--outcome", "refused"], ["limited"]],
      [
        ["--key", "rich", "--outcome", "refused, completed"],
        ["limited", "again", "done"],
      ],
      [["--code", "quota_insufficient", "--since", "1d"], ["budget"]],
      [["--code", "insufficient_quota"], ["budget"]],
      [
        ["--code", "rate_limit_error"],
        ["budget", "limited"],
      ],
      [["--group", FORMULA, "--limit", "1"], ["limited"]],
      [["--group", FORMULA, "--limit", "1", "--after", ids["limited"] ?? ""], ["again"]],
    ] as const) {
      const { stdout } = await run("calls", ...args, "--json");
      const listed = JSON.parse(stdout) as { requestId: string; reasons: string[] }[];
      expect([args, listed.map(({ requestId }) => requestId)]).toEqual([args, found.map((name) => ids[name])]);
      expect(listed[0]?.reasons[0]).toMatch(/^The call was refused|^The call was completed/);
    }
    expect((await run("calls", "--code", "RESOURCE_EXHAUSTED")).stderr).toBe(
      "RESOURCE_EXHAUSTED is recorded as quota_insufficient, quota_held or rate_limited.\n",
    );
    for (const form of [[], ["--csv"], ["--json"]])
      expect((await run("calls", "--limit", "2", ...form)).stderr).toBe(
        `The first 2 are shown. More may follow: add --after ${ids["limited"]}, or --limit 1000.\n`,
      );
    // The list shows times to the second, and takes times.
    const { at } = (JSON.parse((await run("calls", "--limit", "1", "--json")).stdout) as { at: number }[])[0] ?? {
      at: 0,
    };
    const [time, later] = [new Date(at).toISOString(), new Date(at + 1).toISOString().replace("Z", "+00:00")];
    const count = async (...args: string[]) =>
      (JSON.parse((await run("calls", ...args, "--json")).stdout) as unknown[]).length;
    expect(await count("--since", time)).toBe(1);
    expect(await count("--since", time, "--until", later)).toBe(1);
    expect(await count("--until", time)).toBe(3);
    expect(await count("--since", "24h")).toBe(4);
    expect(await count("--since", "1d", "--until", "24h")).toBe(0);
    expect((await run("calls", "--until", "24h")).stdout).toBe(
      "No such call is recorded. Calls are deleted after some days (keepDays); without --outcome, --code and times, polygate usage counts 4 calls.\n",
    );
    const none = await run("calls", "--until", "2020-01-01");
    expect(none.stdout).toMatch(
      /^No calls are recorded until 2020-01-01\. Calls are recorded from 20\S+ to 20\S+\.\n$/,
    );
    expect((await run("calls", "--model", "larg")).stdout).toBe(
      "No call of the model larg is recorded. Did you mean large?\n",
    );
    expect((await run("calls", "--key", "rich", "--code", "internal")).stdout).toBe(
      "No such call is recorded. Calls are deleted after some days (keepDays); without --outcome and --code, polygate usage counts 3 calls.\n",
    );
    // No calls of a key that nobody has would look like a key that was not used.
    for (const args of [
      ["calls"],
      ["calls", "--json"],
      ["usage"],
      ["usage", "--csv"],
      ["usage", "--since", "2999-01-01"],
    ])
      expect(await run(...args, "--key", "teem-key")).toMatchObject({
        code: 1,
        stdout: "",
        stderr: expect.stringContaining(
          "No key has the id or the name teem-key, and no call of it is recorded. Did you mean team-key?",
        ),
      });
    const csv = (await run("calls", "--csv", "--key", "rich")).stdout.trimEnd().split("\n");
    expect(csv[0]).toMatch(/^requestId,at,day,keyId,keyName,budgets,group,modelAsked,/);
    expect(csv[1]).toMatch(
      new RegExp(
        `^${ids["limited"]},20[^,]*Z,20[^,]*,rich,Rich,,'=cmd.*,refused,429,rate_limited,.*,requests,0,0,0\\.0+,USD,0,0$`,
      ),
    );
    expect(csv.length).toBe(4);
    const european = (await run("calls", "--key", "rich", "--spreadsheet", "excel-europe")).stdout.split("\n");
    expect(european[0]).toMatch(
      /^\uFEFFRequest id;Time \(UTC\);Local day;Key;Key name;.*;Spent;Currency;Units \(millionths\);Estimated units \(millionths\)$/,
    );
    expect(european[1]).toMatch(
      new RegExp(`^${ids["limited"]};20\\d\\d-\\d\\d-\\d\\d [\\d:]{8};20[^;]*;rich;Rich;.*;0;0;0,0+;USD;0;0$`),
    );
    const wrong = await run("calls", "--spreadsheet", "excell");
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("Did you mean excel?") });
  });

  it("takes the name of a key or a part of it to read, and the exact id to change", async () => {
    const other = "other-2";
    for (const [id, name] of [
      [other, "Rich"],
      ["cleo-1", "Cleo"],
    ] as const)
      await run("keys", "create", "--id", id, "--name", name);
    const usage = await run("keys", "usage", "cle");
    expect(usage).toMatchObject({ code: 0, stdout: expect.stringMatching(/^id: cleo-1\n/) });
    expect(usage.stderr).toContain("cle is the key cleo-1.\n");
    const several = await run("usage", "--key", "RICH");
    expect(several.stderr).toContain("Name one of their ids: other-2, rich.");
    expect((await run("usage", "--key", "team-K", "--json")).stdout).toContain('"calls": 1');
    expect((await run("keys", "usage", "nobody")).stderr).toContain("There is no API key of the id nobody.");
    expect(await run("keys", "grant", "cleo", "5", ...IN_UNITS)).toMatchObject({
      code: 1,
      stdout: "",
      stderr:
        'There is no API key of the id cleo. The command takes an id, not a name. Did you mean "cleo-1"? "polygate keys list" lists the keys.\n',
    });
    await run("budgets", "create", "team-b", "--amount", "100", "--name", "Team B", ...IN_UNITS);
    expect((await run("budgets", "top-up", "Team B", "5", ...IN_UNITS)).stderr).toContain('Did you mean "team-b"?');
  });

  it("notes a top-up that leaves nothing available, because the amount was lowered below the use", async () => {
    const stores = await openStores(where);
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "lowered", amount: 1_000 });
    await quotas.add({ id: "lowered-key", apiKey: "sk-lowered", budget: "lowered" });
    const hold = { id: "gap", keyId: "lowered-key", atLeast: 600, atMost: 600, leaseMs: LONGEST_MS };
    expect(await quotas.reserve(hold)).toEqual({ granted: 600 });
    await stores.close();
    const gap = "Nothing is available yet: the budget has used what it was given. The next top-ups first fill a gap of";
    expect((await run("budgets", "update", "lowered", "--amount", "100", "--yes", ...IN_UNITS)).stderr).toContain(
      `${gap} 500.\n`,
    );
    expect((await run("budgets", "top-up", "lowered", "400", "--yes", ...IN_UNITS)).stderr).toContain(`${gap} 100.\n`);
    expect((await run("budgets", "usage", "lowered")).stdout).toMatch(
      /^granted: 500\nused: 600\navailable: 0\nheld: 600\ngap: 100\n/m,
    );
    // A change of the name adds no units.
    expect((await run("budgets", "update", "lowered", "--name", "Low")).stderr).not.toContain("Nothing is available");
    const enough = await run("budgets", "top-up", "lowered", "107", ...IN_UNITS);
    expect(enough.stdout).toContain("available: 7\n");
    expect(enough.stderr).not.toContain("Nothing is available");
  });

  it("finds the request id in a text that was pasted", async () => {
    const id = ids["limited"] ?? "";
    const { stdout } = await run("why", id);
    expect(stdout).toContain("A rate limit was reached.");
    expect(await run("why", `error: 429 (request_id ${id}; try again )`)).toMatchObject({ code: 0, stdout });
    expect((await run("why", "error: request_id req_1g )")).stderr).toContain("No call of the request id req_1g is");
  });

  it("finds a call by the id of the answer that the gateway has made, and says which id is wanted for any other", async () => {
    const id = ids["limited"] ?? "";
    const { stdout } = await run("why", id);
    for (const made of ["msg_", "chatcmpl-", "resp_", "error of resp_"])
      expect(await run("why", id.replace("req_", made))).toMatchObject({ code: 0, stdout });
    expect(await run("why", `${id.replace("req_", "msg_")}_0`)).toMatchObject({ code: 0, stdout });
    for (const foreign of ["msg_01XFDUDYJgAACzvnptvVoYEL", `chatcmpl-${"0f".repeat(16)}`])
      expect((await run("why", foreign)).stderr).toContain(
        "is recorded. A request id begins with req_ as a rule: it stands in the header request-id of the answer, and in errors.",
      );
  });

  it("hints at the list of calls where a request id is none", async () => {
    for (const name of ["req_9c3", "req_", "error: request_id req_1234567 )"])
      expect((await run("why", name)).stderr).toMatch(/^req_\w* is too short\. Give at least 8 digits of the id\.\n$/);
    for (const name of ["rich", "Rich"])
      expect((await run("why", name)).stderr).toBe(
        `No call of the request id ${name} is recorded. "polygate calls --key rich" lists the calls of the key rich.\n`,
      );
    expect((await run("why", "nobody")).stderr).toContain('"polygate calls" lists the calls with theirs.');
    expect((await run("why", "9c3")).stderr).toContain("9c3 is recorded. Give at least 8 digits of the id.");
    for (const name of ["req_12345678", "12345678"])
      expect((await run("why", name)).stderr).toMatch(
        /Calls are written a second after their end, .* A call of a process that has died appears within four minutes\. A request to no route of the gateway \(404\) or with a wrong method \(405\) is no call/,
      );
  });

  it("leaves out of a reason what is zero or empty", async () => {
    const { stdout } = await run("why", ids["limited"] ?? "");
    expect(stdout).toMatch(/^Request id: req_\w+\nTime: 20\S+Z\nLocal day: 20/m);
    expect(stdout).toMatch(/^Model asked for: large$/m);
    expect(stdout).not.toMatch(/^[\w ]+: (?:0|0\.00 USD|false)?$/m);
    const { call } = JSON.parse((await run("why", ids["limited"] ?? "", "--json")).stdout);
    expect(call).toMatchObject({ units: 0, inputTokens: 0 });
  });

  it("lists what a key has spent as the report sums it up, and beside it what is held", async () => {
    const stores = await openStores(where);
    const { quotas } = stores.ports;
    await quotas.add({ id: "over", apiKey: "sk-over", granted: 50 });
    await quotas.reserve({ id: "h1", keyId: "over", atLeast: 1, atMost: 10, leaseMs: 60_000 }, {} as never);
    await quotas.settle("h1", { used: 90, certainty: "exact" }, {} as never);
    await quotas.grant("over", 30);
    await quotas.reserve({ id: "h2", keyId: "over", atLeast: 1, atMost: 20, leaseMs: 60_000 }, {} as never);
    await stores.close();
    const { stdout } = await run("keys", "list");
    expect(stdout).toMatch(/^ID +NAME +GRANTED +SPENT +HELD +LEFT +OVERDRAFT +STATE /);
    expect(stdout).toMatch(/^over +- +80 +90 +20 +10 +40 +active /m);
    expect((await run("keys", "usage", "over")).stdout).toMatch(/^spent: 90\n(?:.*\n)*used: 70\n(?:.*\n)*held: 20\n/m);
    expect((await run("budgets", "usage", "team", "--currency", "usd")).stdout).toMatch(/^spent: 0\.00 USD$/m);
  });

  it("say what the caller was told, and what helps", async () => {
    const limited = await run("why", ids["limited"] ?? "");
    expect(limited.stdout).toMatch(/^Next: The caller may try again from 20\S+Z\.$/m);
    const { stdout } = await run("why", ids["budget"] ?? "");
    expect(stdout).toMatch(
      /^The caller was told: .* Needed: 0\.\d+ USD, available: 0\.0010 USD\. The budget begins anew at .*$/m,
    );
    // The step is a command that works, with the amount that is missing.
    const [, command = "", lack = ""] =
      /^Next: polygate (.+) lets calls pass again\. .* This call alone lacks (\S+) USD for its whole output limit\.$/m.exec(
        stdout,
      ) ?? [];
    expect((await run(...command.replace("AMOUNT", lack).split(" "), "--yes")).stdout).toMatch(
      /^available: 0\.\d+ USD$/m,
    );
    const again = await run("why", ids["budget"] ?? "");
    expect(again.stdout).toMatch(/^Next: There is enough for the call now: the caller may try again\.$/m);
  });

  it("say of a revoked key that no key has its secret, with commands that work", async () => {
    const stores = await openStores(where);
    const { quotas } = stores.ports;
    await quotas.add({ id: "gone-1", name: "Gone", apiKey: "sk-gone" });
    await quotas.revoke("gone-1");
    const gateway = gatewayOn(stores);
    const id = await askOf(gateway, "gone", {});
    await gateway.close();
    await stores.close();
    const { stdout } = await run("why", id);
    expect(stdout).toMatch(
      /^No key has this secret, so the record names none: the secret may be mistyped, removed, ended or that of a revoked key\.$/m,
    );
    expect(stdout).toMatch(
      /^Next: Ask for the name of the key: polygate keys usage NAME says whether it is revoked\.$/m,
    );
    expect(stdout).toMatch(/^Next: polygate keys create makes a key in place of a revoked one\./m);
    expect((await run("keys", "usage", "Gone")).stdout).toMatch(/^revoked: yes$/m);
  });

  it("name the gap that a top-up of a lowered budget fills first", async () => {
    await run("budgets", "create", "tight", "--amount", "100", ...IN_UNITS);
    const stores = await openStores(where);
    const { quotas } = stores.ports;
    await quotas.add({ id: "tight-key", apiKey: "sk-tight", budget: "tight" });
    const gateway = gatewayOn(stores);
    await quotas.reserve({ id: "all", keyId: "tight-key", atLeast: 100, atMost: 100, leaseMs: LONGEST_MS });
    await quotas.settle("all", { used: 100, certainty: "exact" });
    await quotas.updateBudget("tight", { amount: 40 });
    const id = await askOf(gateway, "tight", { max_tokens: 50 });
    await gateway.close();
    await stores.close();
    const { stdout } = await run("why", id);
    expect(stdout).toContain(
      "\nNext: polygate budgets top-up tight AMOUNT --currency usd lets calls pass again, and first fills the gap of 0.00006 USD by which the budget's amount is below its use. So far it was given 0.00004 USD.\n",
    );
    const topUp = (amount: string) => run("budgets", "top-up", "tight", amount, "--yes", "--currency", "usd");
    expect((await topUp("0.00006")).stdout).toMatch(/^available: 0\.00 USD$/m);
    expect((await topUp("0.5")).stdout).toMatch(/^available: 0\.50 USD$/m);
    expect((await run("why", id)).stdout).toContain("\nNext: There is quota left now: the caller may try again.\n");
  });

  it("names each budget of a call that has too little, and then the one that still has", async () => {
    await run("budgets", "create", "above", "--amount", "100", ...IN_UNITS);
    await run("budgets", "create", "below", "--amount", "100", "--parent", "above", ...IN_UNITS);
    const stores = await openStores(where);
    const { quotas } = stores.ports;
    await quotas.add({ id: "below-key", apiKey: "sk-below", budget: "below" });
    const gateway = gatewayOn(stores);
    await quotas.reserve({ id: "both", keyId: "below-key", atLeast: 100, atMost: 100, leaseMs: LONGEST_MS });
    await quotas.settle("both", { used: 100, certainty: "exact" });
    const id = await askOf(gateway, "below", { max_tokens: 50 });
    await gateway.close();
    await stores.close();
    const topUps = async (): Promise<readonly string[]> =>
      Array.from(
        (await run("why", id)).stdout.matchAll(/^Next: polygate budgets top-up (\w+) AMOUNT /gm),
        ([, of]) => of ?? "",
      );
    expect(new Set(await topUps())).toEqual(new Set(["below", "above"]));
    await run("budgets", "top-up", "below", "0.5", "--yes", "--currency", "usd");
    expect(await topUps()).toEqual(["above"]);
  });

  it.each([
    [["calls", "--outcome", "refuse"], 2, "or unrecorded, not refuse. Did you mean refused?"],
    [["calls", "--outcome", "failed,refuse"], 2, "or unrecorded, not refuse. Did you mean refused?"],
    [["calls", "--outcome", "failed,"], 2, "or unrecorded, not nothing."],
    [["calls", "--csv", "--json"], 2, "Choose --csv or --json."],
    [
      ["calls", "--code", "insuficient_quota"],
      2,
      "--code must be the code of an error, such as quota_exhausted, not insuficient_quota. Did you mean insufficient_quota?",
    ],
    [["calls", "--code", "429"], 2, "such as quota_exhausted, not 429.\n"],
    [["calls", "--budget", "nobody"], 1, "There is no budget of the id nobody."],
    [["calls", "--budget", "taem"], 1, 'There is no budget of the id taem. Did you mean "team"?'],
    [["usage", "--key", ""], 2, "--key must not be empty,"],
    [["why"], 2, "why needs REQUEST_ID. Usage: polygate why REQUEST_ID"],
    [["why", "req_unknown"], 1, "No call of the request id req_unknown is recorded."],
    [
      ["usage", "--by", "colour"],
      2,
      "--by must name some of day, month, key, budget, group, model, upstream, not colour. For a team, a customer or an entry of the metadata, write --by budget or --by group. The group is the entry group of a key's metadata, or what the server's groupOf returns.\n",
    ],
    [
      ["calls", "--time-zone", "Europe/Berlim"],
      2,
      "--time-zone: Europe/Berlim is no time zone. Did you mean Europe/Berlin?",
    ],
    [["usage", "--by", "key,modle"], 2, "upstream, not modle. Did you mean model?"],
    [
      ["usage", "--by", "team"],
      2,
      "upstream, not team. Did you mean budget or group? The group is the entry group of a key's metadata",
    ],
    [["usage", "--by", "provider"], 2, "upstream, not provider. Did you mean upstream?\n"],
    [["usage", "--by", "key,,model"], 2, "upstream, not nothing."],
    [
      ["usage", "--since", "yesterday"],
      2,
      "--since must be a day, such as 2026-11-01, or a span, such as 30d, not yesterday.",
    ],
    [
      ["calls", "--since", "2026-11-01 12:00"],
      2,
      "--since must be a day, such as 2026-11-01, a span, such as 7d or 2h, or a time with its zone, such as 2026-11-01T12:00Z, not 2026-11-01 12:00.",
    ],
    [
      ["calls", "--until", "2026-13-01T12:00Z"],
      2,
      "--until must be a day, such as 2026-11-01, a span, such as 7d or 2h,",
    ],
    [["calls", "--since", "1h", "--until", "2h"], 2, "--since must not be after --until, but 1h is after 2h."],
    [["calls", "--month", "this", "--since", "1h"], 2, "Choose --month, or --since and --until."],
    [
      ["usage", "--since", "1h"],
      2,
      "or a span, such as 30d, not 1h. Only polygate calls and audit take hours and times.",
    ],
    [["usage", "--since", "2026-10"], 2, "not 2026-10. For a whole month, write --month 2026-10."],
    [["usage", "--month", "2026-13"], 2, "--month must be a month, such as 2026-11, this or last, not 2026-13."],
    [["usage", "--month", "2026-10", "--since", "2026-10-01"], 2, "Choose --month, or --since and --until."],
    [
      ["usage", "--since", "2026-10-02", "--until", "2026-10-01"],
      2,
      "--since must not be after --until, but 2026-10-02 is after 2026-10-01.",
    ],
    [
      ["budgets", "create", "wrong", "--amount", "5", "--currency", "eur"],
      2,
      "An amount in EUR is right only if your gateway's prices are in EUR. Nothing was changed.",
    ],
    [["why", ""], 2, "why needs REQUEST_ID, not an empty text."],
    [
      ["keys", "list", "--state", "actve"],
      2,
      "--state must be active, paused, expired or revoked, not actve. Did you mean active?",
    ],
    [["usage", "--spreadsheet", "exel-europe"], 2, "not exel-europe. Did you mean excel-europe?"],
    [
      ["usage", "--currency", "eur", "--json"],
      2,
      "These calls are recorded in USD, not EUR. For amounts in USD, write --currency usd.",
    ],
    [["usage", "--budget", "nobody"], 1, "There is no budget of the id nobody."],
    [["usage", "--csv", "--json"], 2, "Choose --csv or --json."],
    [["usage", "--spreadsheet", "lotus"], 2, "--spreadsheet must be excel or excel-europe, not lotus."],
    [["usage", "team"], 2, 'usage does not take "team".'],
    [["usages"], 2, 'Did you mean "usage"?'],
  ])("refuses %j", async (args, code, message) => {
    const ended = await run(...args);
    expect(ended).toMatchObject({ code, stdout: "" });
    expect(ended.stderr).toContain(message);
  });

  it.each([
    [
      ["--month", "2999-02"],
      /^No calls are recorded from 2999-02-01 to 2999-02-28\. Calls are recorded from (20\S+) to 20\S+\.\n$/,
    ],
    [["--since", "2999-02-01"], /^No calls are recorded since 2999-02-01\. Calls are recorded from /],
    [["--month", "2020-02"], /^No calls are recorded from 2020-02-01 to 2020-02-29\. /],
    [["--model", "larg"], /^No call of the model larg is recorded since 20\S+\. Did you mean large\?\n$/],
    [["--key", "rich", "--month", "2020-02"], /^No calls are recorded from 2020-02-01 to 2020-02-29\. /],
    [["--key", "rich", "--budget", "team"], /^No such call is recorded since 20\S+\. Calls are recorded from /],
  ])("says why a report of %j is empty", async (args, said) => {
    const shown = await run("usage", ...args);
    expect(shown).toMatchObject({ code: 0, stderr: "" });
    expect(shown.stdout).toMatch(said);
    const csv = await run("usage", ...args, "--csv");
    expect(csv.stdout).toMatch(/^key,keyName,since,until,timeZone,spent,.*,estimated,asOf\n$/);
    expect(csv.stderr).toBe(shown.stdout);
    const { stdout } = await run("usage", ...args, "--json");
    expect(JSON.parse(stdout)).toMatchObject({ rows: [], recorded: { since: expect.stringMatching(/^20/) } });
  });

  /** The lines and the notes of a report in a terminal of some width. */
  const shownIn = async (width: number): Promise<{ lines: string[]; notes: string[] }> => {
    const [printed, notes]: [string[], string[]] = [[], []];
    const print = (line: string): void => void printed.push(line);
    const warn = (note: string): void => void notes.push(note);
    const query = ["usage", "--by", "key,model", "--month", "2020-01", "--store", where];
    await runCommand(query, { ...terminal, columns: width, print, warn });
    return { lines: printed.join("\n").split("\n"), notes };
  };

  it("fit a report to the terminal, and cut names and no figure", async () => {
    const database = new DatabaseSync(where.slice("sqlite:".length));
    const sums =
      "calls,refused,failed,input_tokens,output_tokens,cache_read_tokens,cache_write_tokens,reasoning_tokens,images,units,estimated";
    const names = ["wide", "2020-01-01", `key-${"k".repeat(36)}`, "", "", `model-${"m".repeat(30)}`, "", ""];
    const values = [
      123_456, 234, 33, 123_456_789, 9_876_543, 87_654_321, 7_654_321, 654_321, 321, 1_234_567_890, 567_890,
    ];
    const columns = `id,day,key_id,budgets,group_name,model,upstream`;
    const row = [...names.slice(0, 7), ...values];
    database
      .prepare(`INSERT INTO polygate_usage_days (${columns},${sums}) VALUES (${row.map(() => "?").join(",")})`)
      .run(...row);
    try {
      const whole = await shownIn(250);
      expect(whole.lines[0]?.split(/ {2,}/)).toEqual(
        "KEY,MODEL,SPENT USD,CALLS,REFUSED,FAILED,INPUT,OUTPUT,CACHE READ,CACHE WRITE,REASONING,IMAGES,ESTIMATED USD".split(
          ",",
        ),
      );
      expect(whole.notes).toEqual([]);
      for (const [width, leftOut] of [
        [120, "ESTIMATED USD, REASONING, CACHE WRITE"],
        [90, "ESTIMATED USD, REASONING, CACHE WRITE, CACHE READ, IMAGES"],
      ] as const) {
        const { lines, notes } = await shownIn(width);
        expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(width);
        expect(lines[1]).toMatch(/^key-k+… +model-m+… +1234\.56789 +123456 +234 +33 +123456789 +9876543/);
        expect(lines.splice(-2)).toEqual([
          "Calls from 2020-01-01 to 2020-01-31, by the time zone of each budget or of the gateway.",
          "Input and output are tokens: cache is a part of input, and reasoning of output.",
        ]);
        expect(lines.at(-1)).toMatch(/^Total .* 1234\.56789 +123456 +234 +33 +123456789 +9876543/);
        expect(notes).toEqual([`Left out for the width: ${leftOut}. --csv and --json have them.`]);
      }
    } finally {
      database.close();
    }
  });

  it("show a name in place of an id where both do not fit, if the name is that of one id", async () => {
    const stores = await openStores(where);
    const { quotas } = stores.ports;
    for (const [id, name] of [
      ["5f1c2d3e-0001", "Anna Archer"],
      ["5f1c2d3e-0002", "Twin"],
      ["5f1c2d3e-0003", "Twin"],
    ] as const)
      await quotas.add({ id, name });
    await stores.close();
    const database = new DatabaseSync(where.slice("sqlite:".length));
    const insert = database.prepare(
      `INSERT INTO polygate_usage_days (id,day,key_id,budgets,group_name,model,upstream,calls,refused,failed,input_tokens,output_tokens,cache_read_tokens,cache_write_tokens,reasoning_tokens,images,units,estimated)
       VALUES (?,'2020-01-01',?,'','','claude-sonnet-4-5','',1,0,0,5,6,0,0,0,0,7,0)`,
    );
    for (const end of [1, 2, 3]) insert.run(`wide-${end}`, `5f1c2d3e-000${end}`);
    try {
      const wide = await shownIn(120);
      expect(wide.lines.slice(0, 2).map((line) => line.split(/ {2,}/).slice(0, 3))).toEqual([
        ["KEY", "KEY NAME", "MODEL"],
        ["5f1c2d3e-0001", "Anna Archer", "claude-sonnet-4-5"],
      ]);
      const { lines, notes } = await shownIn(75);
      expect(lines.slice(0, -2).map((line) => line.split(/ {2,}/).slice(0, 2))).toEqual([
        ["KEY", "MODEL"],
        ["Anna Archer", "claude-sonnet-4-5"],
        ["5f1c2d3e-0002", "claude-sonnet-4-5"],
        ["5f1c2d3e-0003", "claude-sonnet-4-5"],
        ["Total", "-"],
      ]);
      expect(notes).toEqual(["Left out for the width: ids beside names. --csv and --json have them."]);
    } finally {
      database.close();
    }
  });

  it("show times as the clocks of a time zone do, and in UTC to programs", async () => {
    const database = new DatabaseSync(where.slice("sqlite:".length));
    const id = ids["limited"] ?? "";
    const moved = Date.parse("2026-03-31T22:30:05Z");
    database.prepare("UPDATE polygate_calls SET at = ? WHERE id = ?").run(moved, id);
    const zone = ["--time-zone", "Europe/Berlin"];
    const listed = ["calls", "--key", "rich", "--outcome", "refused"];
    try {
      expect((await run(...listed, ...zone)).stdout).toMatch(/^AT \(Berlin\) .*\n2026-04-01 00:30:05 {2}Rich/);
      expect((await run(...listed, ...zone, "--spreadsheet", "excel")).stdout).toMatch(
        new RegExp(`,Time \\(Europe/Berlin\\),.*\n${id},2026-04-01 00:30:05,`),
      );
      expect((await run(...listed, ...zone, "--csv")).stdout).toContain(`${id},2026-03-31T22:30:05.000Z,`);
      const why = await run("why", id, ...zone);
      expect(why.stdout).toMatch(/^Time: 2026-04-01 00:30:05 Europe\/Berlin$/m);
      expect(why.stdout).toMatch(/^Next: The caller may try again from 20\S+ [\d:]{8} Europe\/Berlin\.$/m);
      expect(await polygate(["why", id], { POLYGATE_STORE: where, POLYGATE_TIME_ZONE: "Europe/Berlin" })).toEqual(why);
      expect((await run(...listed)).stdout).toMatch(/^AT \(UTC\) .*\n2026-03-31 22:30:05 {2}Rich/);
    } finally {
      database.close();
    }
    const wrong = await polygate(["calls"], { POLYGATE_STORE: where, POLYGATE_TIME_ZONE: "Mars" });
    expect(wrong).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("POLYGATE_TIME_ZONE: Mars is no time zone."),
    });
    const told = await run("why", ids["budget"] ?? "", ...zone);
    expect(told.stdout).toMatch(/^The caller was told: .* begins anew at 20\S+Z\."$/m);
    expect(told.stdout).toMatch(/begins anew at 20\d\d-\d\d-01 00:00:00 Europe\/Berlin\)\.$/m);
  });

  it("in a currency refuse an amount without one before they change anything, unless it is empty", async () => {
    const said =
      '50 units are 0.00005 USD. For 50 USD, add --currency usd (or set POLYGATE_CURRENCY); for units, add --currency "".\n';
    for (const args of [
      ["budgets", "create", "small", "--amount", "50"],
      ["budgets", "update", "small", "--amount", "50"],
      ["budgets", "top-up", "small", "50"],
      ["keys", "create", "--id", "small", "--granted", "50"],
      ["keys", "grant", "small", "50"],
      ["keys", "lower", "small", "50"],
    ]) {
      expect(await run(...args)).toEqual({ code: 2, stdout: "", stderr: said });
      expect(await run(...args, "--json")).toMatchObject({ code: 2, stdout: "" });
      expect(await run(...args, ...IN_UNITS)).toMatchObject({ code: 0, stderr: "" });
    }
    expect(JSON.parse((await run("budgets", "usage", "small", "--json")).stdout)).toMatchObject({ granted: 100 });
    expect(JSON.parse((await run("keys", "usage", "small", "--json")).stdout)).toMatchObject({ granted: 50 });
    expect((await run("budgets", "top-up", "small", "1")).stderr).toMatch(/^1 unit is 0\.000001 USD\. For 1 USD, add /);
    // Nothing is nothing in units, too.
    expect(await run("budgets", "create", "empty", "--amount", "0")).toMatchObject({ code: 0 });
    // An amount that is only read gets a note beside the answer.
    const note = "Amounts are units, millionths of USD. For money, add --currency usd.\n";
    for (const args of [
      ["keys", "usage", "small"],
      ["keys", "list"],
      ["budgets", "usage", "small"],
      ["budgets", "list"],
    ]) {
      const { stdout, stderr } = await run(...args);
      expect([stdout === "", stderr]).toEqual([false, note]);
      expect((await run(...args, "--currency", "usd")).stderr).not.toContain("Amounts are units");
      expect((await run(...args, ...IN_UNITS)).stderr).toBe("");
      expect((await run(...args, "--json")).stderr).toBe("");
    }
  });

  it("takes this month and the last one by their words", async () => {
    const [current, before] = [monthOf("this"), monthOf("last")];
    expect(new Date().toISOString().startsWith(`${current}-`)).toBe(true);
    // The month of the team's budget begins an hour or two earlier.
    await run("budgets", "create", "world", "--amount", "1000", "--period", "month", ...IN_UNITS);
    for (const command of [["usage"], ["calls"], ["budgets", "periods", "world"]]) {
      const told = await run(...command, "--month", "this", "--json");
      const named = await run(...command, "--month", current, "--json");
      const untimed = ({ stdout }: typeof told): string => stdout.replace(/"asOf": \d+/, "");
      expect({ ...told, stdout: untimed(told) }).toEqual({ ...named, stdout: untimed(named) });
      expect(told.stdout).toMatch(/"(?:requestId|calls|startsAt)": /);
    }
    expect((await run("usage", "--month", "last")).stdout).toContain(`No calls are recorded from ${before}-01 to `);
    expect((await run("budgets", "periods", "world", "--month", "last")).stderr).toContain(
      `began in ${before} is kept`,
    );
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      for (const [day, last] of [
        ["2026-01-31", "2025-12"],
        ["2026-03-31", "2026-02"],
      ] as const) {
        vi.setSystemTime(`${day}T23:59:59Z`);
        expect([monthOf("this"), monthOf("last")]).toEqual([day.slice(0, 7), last]);
      }
    } finally {
      vi.useRealTimers();
    }
  });

  it("shows their help", async () => {
    const { stdout } = await run("usage", "--help");
    expect(stdout).toContain("polygate usage --by key,model --since 2026-11-01");
    expect(stdout).toContain("; key by default");
    expect((await run("why", "--help")).stdout).toMatch(/polygate why req_[\da-f]{32}$/m);
    expect((await run("--help")).stdout).toMatch(/^ {2}why REQUEST_ID {2,}says why/m);
  });
});

/** Returns the day of a time in Berlin. */
/** Replaces the time at which a list was made. */
const undated = (line = ""): string => line.replace(/20\d\d-\d\d-\d\d[T ][\d:.]+Z?$/, "NOW");

const dayOf = (at: number): string => new Intl.DateTimeFormat("sv-SE", { timeZone: "Europe/Berlin" }).format(at);

describe("polygate budgets", () => {
  it("creates, changes and lists budgets, and gives them to keys", async () => {
    const org = ["org", "--amount", "1000", "--period", "month", "--time-zone", "Europe/Berlin", "--rollover"];
    expect(await budgets("create", ...org)).toMatch(
      /^id: org\n.*amount: 1000\n.*begins: \d{4}-\d\d-01\nends: \d{4}-\d\d-01\n/s,
    );
    await budgets("create", "team", "--amount", "100", "--parent", "org", "--name", "Team");
    expect(await keys("create", "--id", "member", "--budget", "team")).toMatch(
      /^quota: none of its own\nbudget: team\nmodels: every model\n/m,
    );
    await keys("create", "--id", "free");
    expect(await budgets("assign", "free", "org")).toContain("budget org: 1000 of 1000 available");
    expect(rowsOf(await keys("list"))).toContain("free\t0\t1000\tactive\torg");
    expect(rowsOf(await keys("list", "--budget", "org"))).toBe("free\t0\t1000\tactive\torg");
    expect(rowsOf(await keys("list", "--budget", "team", "--state", "active"))).toMatch(/^member\t[^\n]*$/);
    expect(await keys("list", "--budget", "team", "--state", "revoked")).toBe("There are no keys to list.");
    await expect(keys("list", "--budget", "temm")).rejects.toMatchObject({
      name: "CommandError",
      message: 'There is no budget of the id temm. Did you mean "team"? "polygate budgets list" lists the budgets.',
    });
    await expect(keys("export", "--budget", "temm")).rejects.toThrow("There is no budget of the id temm.");
    expect(JSON.parse(await keys("export", "--budget", "team"))).toMatchObject({ id: "member", budget: "team" });
    expect(await budgets("unassign", "free", "--yes")).not.toContain("budget org");
    expect(JSON.parse(await budgets("top-up", "team", "50", "--json"))).toMatchObject({ amount: 100, granted: 150 });
    expect(JSON.parse(await budgets("update", "team", "--amount", "20", "--json"))).toMatchObject({
      amount: 20,
      granted: 70,
    });
    const renamed = JSON.parse(await budgets("update", "team", "--name", "The team", "--json"));
    expect(renamed).toMatchObject({ name: "The team", amount: 20, granted: 70 });
    const both = JSON.parse(await budgets("update", "team", "--name", "Team", "--amount", "20", "--json"));
    expect(both).toMatchObject({ name: "Team", amount: 20, granted: 70 });
    const table = await budgets("list");
    // No budget is overdrawn.
    expect(table.split("\n")[0]).toMatch(
      /^ID +NAME +AMOUNT +GRANTED +SPENT +SPENT % +AVAILABLE +PERIOD +ENDS +PARENT$/,
    );
    expect(rowsOf(table)).toMatch(
      /^org\t-\t1000\t1000\t0\t0 %\t1000\tmonth\t20\d\d-\d\d-01\t-\nteam\tTeam\t20\t70\t0\t0 %\t70\tno period\t-\torg$/,
    );
    expect(rowsOf(await budgets("list", "--after", "org", "--limit", "1"))).toMatch(/^team\t/);
    expect(await budgets("usage", "team")).toContain("available: 70");
    await expect(budgets("remove", "team", "--yes")).rejects.toThrow(
      "The budget team cannot be removed: the key member draws on it.",
    );
    await expect(budgets("remove", "org", "--yes")).rejects.toThrow(
      "The budget org cannot be removed: the budget team draws on it.",
    );
    await keys("revoke", "member", "--yes");
    expect(await budgets("remove", "team", "--yes")).toBe("id: team\nremoved: yes");
    const last = await budgets("list");
    expect(last.split("\n")[0]).not.toContain("PARENT");
    expect(rowsOf(last)).toMatch(/^org\t1000\t0\t0 %\t1000\tmonth\t20[^\t]*$/);
    expect(await budgets("usage", "team")).toContain("removed: yes");
    await expect(budgets("create", "team", "--amount", "1")).rejects.toThrow("The budget team was removed.");
    for (const change of [
      ["update", "team", "--amount", "9000000"],
      ["top-up", "team", "9000000"],
    ])
      await expect(budgets(...change)).rejects.toThrow("There is no budget of the id team.");
    expect(await keys("verify")).toContain("differences: 0");
  });

  it("lists the share that is spent of what the period was given, what is held, and what is overdrawn", async () => {
    const { run } = await fresh("shares");
    const stores = await openStores(`sqlite:${join(folder, "shares.db")}`);
    const { quotas } = stores.ports;
    for (const [id, amount, used] of [
      ["a-third", 100, 29],
      ["little", 1_000, 1],
      ["lowered", 600, 500],
      ["none", 0, 0],
      ["over", 10, 25],
    ] as const) {
      await quotas.addBudget({ id, amount });
      await quotas.add({ id, apiKey: `sk-${id}`, budget: id });
      await quotas.reserve({ id, keyId: id, atLeast: 0, atMost: used, leaseMs: LONGEST_MS });
      await quotas.settle(id, { used, certainty: "exact" });
    }
    await quotas.updateBudget("lowered", { amount: 400 });
    await quotas.reserve({ id: "runs", keyId: "little", atLeast: 5, atMost: 5, leaseMs: LONGEST_MS });
    await stores.close();
    const lines: string[] = [];
    const listed = async (...args: string[]): Promise<string> => {
      lines.length = 0;
      const where = ["--store", `sqlite:${join(folder, "shares.db")}`];
      await runCommand(["budgets", "list", ...args, ...where], { ...terminal, print: (line) => void lines.push(line) });
      return lines.join("\n");
    };
    await run("", "migrate");
    const [headings = "", ...rows] = (await listed("--currency", "usd")).split("\n");
    expect(headings.split(/ {2,}/)).toEqual(
      "ID,AMOUNT USD,SPENT USD,SPENT %,HELD USD,AVAILABLE USD,OVERDRAFT USD,GAP USD,PERIOD,ENDS".split(","),
    );
    expect(rows.map((row) => row.split(/ {2,}/).slice(1, 8))).toEqual([
      // A column has two decimals, or as many as one of its amounts needs, but never three.
      ["0.00010", "0.000029", "29 %", "0.000000", "0.000071", "0.000000", "0.0000"],
      ["0.00100", "0.000001", "<1 %", "0.000005", "0.000994", "0.000000", "0.0000"],
      ["0.00040", "0.000500", "125 %", "0.000000", "0.000000", "0.000000", "0.0001"],
      ["0.00000", "0.000000", "-", "0.000000", "0.000000", "0.000000", "0.0000"],
      ["0.00001", "0.000025", "250 %", "0.000000", "0.000000", "0.000015", "0.0000"],
    ]);
    expect(JSON.parse(await listed("--json"))).toMatchObject([
      { id: "a-third", spent: 29, percentSpent: 29 },
      { id: "little", percentSpent: 0 },
      { id: "lowered", amount: 400, granted: 400, spent: 500, gap: 100, percentSpent: 125 },
      // Nothing has no shares.
      { id: "none", percentSpent: null },
      { id: "over", spent: 25, overdraft: 15, percentSpent: 250 },
    ]);
    const shared = async (id: string): Promise<string | undefined> => {
      lines.length = 0;
      const where = ["--store", `sqlite:${join(folder, "shares.db")}`];
      await runCommand(["budgets", "update", id, "--name", id, ...where], {
        ...terminal,
        print: (line) => void lines.push(line),
      });
      return /^spent %: (.*)$/m.exec(lines.join("\n"))?.[1];
    };
    expect([await shared("little"), await shared("a-third"), await shared("none")]).toEqual(["<1", "29", "-"]);
  });

  it.each([
    ["keys import", "FILE"],
    ["budgets periods", "ID"],
    ["init", "FOLDER"],
  ])("refuses an empty text in %s, which would be taken for none or for any", async (command, operand) => {
    expect(await polygate([...command.split(" "), ""], { POLYGATE_STORE: store })).toEqual({
      code: 2,
      stdout: "",
      stderr: `${operand} must not be empty, as with a shell variable that is not set.\n`,
    });
  });

  it("shows no share of a budget without any units", async () => {
    await budgets("create", "none", "--amount", "0");
    expect(await budgets("usage", "none")).toMatch(/^spent %: -$/m);
    expect(JSON.parse(await budgets("usage", "none", "--json"))).toMatchObject({ spent: 0, percentSpent: null });
    expect(await budgets("list", "--csv")).toMatch(/^none,none,,0,0,0,,0,/m);
  });

  it("refuses what the store would refuse before it asks whether a change is meant", async () => {
    const large = ["--granted", "50000000", "--currency", "usd"];
    const amount = ["--amount", "50000000", "--currency", "usd"];
    await keys("create", "--id", "anna", "--granted", "1", "--currency", "usd");
    await keys("create", "--id", "gone");
    await keys("revoke", "gone", "--yes");
    await keys("create", "--id", "lost", "--granted", "0");
    await keys("revoke", "lost", "--yes");
    await budgets("create", "team", "--amount", "0");
    await budgets("create", "used", "--amount", "0", "--parent", "team");
    await keys("create", "--id", "user", "--budget", "used");
    await budgets("create", "old", "--amount", "0");
    await budgets("remove", "old", "--yes");
    const euros = ["--currency", "eur"];
    for (const [args, refusal] of [
      [["keys", "create", "--budget", "nobody", ...large], noBudgetWords("nobody")],
      [["keys", "create", "--id", "anna", ...large], "An API key of the id anna is known already."],
      [["keys", "create", "--id", " anna", ...large], "A key's id must be 1 to 190 plain characters."],
      [["keys", "update", "gone", ...large], revokedWords("gone")],
      [["keys", "update", "lost", "--granted", "none"], revokedWords("lost")],
      [["keys", "grant", "lost", "50000000", "--currency", "usd"], revokedWords("lost")],
      [["keys", "rotate", "gone", "--overlap", "0s"], revokedWords("gone")],
      [["budgets", "create", "new", "--parent", "nobody", ...amount], noBudgetWords("nobody")],
      [["budgets", "create", "team", ...amount], "A budget of the id team is known already."],
      [["budgets", "create", "old", ...amount], "The budget old was removed. Choose another id: its history stays."],
      [["budgets", "update", "old", ...amount], noBudgetWords("old")],
      [["budgets", "top-up", "old", "50000000", "--currency", "usd"], noBudgetWords("old")],
      [["budgets", "unassign", "gone"], revokedWords("gone")],
      [["budgets", "remove", "used"], "The budget used cannot be removed: the key user draws on it."],
      [["budgets", "remove", "team"], "The budget team cannot be removed: the budget used draws on it."],
      // Another currency than that of earlier amounts is asked about, too.
      [["keys", "grant", "nobody", "5", ...euros], "There is no API key of the id nobody."],
      [["keys", "lower", "anna", "5", ...euros], "The key anna has only 1.00 EUR available."],
      [
        ["keys", "grant", "user", "5", ...euros],
        "The API key user has no quota of its own: it draws on the budget used.",
      ],
      [["keys", "update", "anna", "--granted", "5", ...euros], "The API key anna has a quota already."],
      [["budgets", "lower", "team", "5", ...euros], "The budget team has only 0.00 EUR available."],
      [["budgets", "update", "nobody", "--amount", "5", ...euros], noBudgetWords("nobody")],
    ] as const) {
      const told: string[] = [];
      const ask = async (question: string): Promise<string> => {
        told.push(question);
        return "n";
      };
      const env = { POLYGATE_STORE: store };
      const code = await exitCodeOf(args, { ...terminal, env, ask, warn: (line) => void told.push(line) });
      expect([args, code, told]).toEqual([args, 1, [expect.stringContaining(refusal)]]);
    }
  });

  it("lists ended periods, of one budget by its name or of all in a month, and keys as CSV", async () => {
    const { run } = await fresh("periods");
    const stores = await openStores(`sqlite:${join(folder, "periods.db")}`);
    const { quotas } = stores.ports;
    const zone = { period: "month", timeZone: "Europe/Berlin" } as const;
    await quotas.addBudget({ id: "b-1", name: "Team A+", amount: 5_000_000, ...zone });
    await quotas.addBudget({ id: "b-2", name: "Team B", amount: 60 });
    await quotas.add({ id: "anna", apiKey: "sk-anna", budget: "b-1", metadata: { tier: "gold" } });
    await stores.close();
    const database = new DatabaseSync(join(folder, "periods.db"));
    database.exec(`INSERT INTO polygate_budget_periods (budget_id,starts_at,ends_at,pruned,granted,charged,held,overdraft,estimated)
      VALUES ('b-1',${Date.parse("2020-09-30T22:00Z")},${Date.parse("2020-10-31T23:00Z")},0,4000000,4000000,0,250000,0),
             ('b-1',${Date.parse("2020-08-31T22:00Z")},${Date.parse("2020-09-30T22:00Z")},0,4000000,1000000,0,0,0)`);
    database.close();
    const [usd, notes]: [string[], string[]] = [["--currency", "usd"], []];
    const shown = async (...args: string[]): Promise<string[]> => {
      const [lines, env]: [string[], object] = [[], { POLYGATE_STORE: `sqlite:${join(folder, "periods.db")}` }];
      notes.length = 0;
      const print = (line: string): void => void lines.push(...line.split("\n"));
      await runCommand(args, { ...terminal, env: { ...env }, print, warn: (note) => void notes.push(note) });
      return lines;
    };
    const [headings = "", current, ...ended] = await shown("budgets", "periods", "team a", ...usd);
    expect(notes).toEqual(["team a is the budget b-1."]);
    expect(headings.split(/ {2,}/)).toEqual(
      "ID,NAME,BEGINS,ENDS,GRANTED USD,SPENT USD,SPENT %,AVAILABLE USD,OVERDRAFT USD,STATE".split(","),
    );
    expect(current).toMatch(/^b-1 .* 5\.00 +0\.00 +0 % +5\.00 +0\.00 +current$/);
    expect(ended.map((line) => line.split(/ {2,}/).join())).toEqual([
      "b-1,Team A+,2020-10-01,2020-11-01,4.00,4.25,106 %,0.00,0.25,ended",
      "b-1,Team A+,2020-09-01,2020-10-01,4.00,1.00,25 %,3.00,0.00,ended",
    ]);
    expect(await shown("budgets", "periods", "b-1", "--limit", "2")).toHaveLength(3);
    expect(await shown("budgets", "periods", ...usd)).toHaveLength(1 + 3 + 1);
    expect((await shown("budgets", "periods", "--month", "2020-10", "--csv", ...usd)).map(undated)).toEqual([
      "id,name,granted,spent,percentSpent,available,held,overdraft,gap,currency,period,startsAt,endsAt,timeZone,ended,asOf",
      "b-1,Team A+,4.000000,4.250000,106,0.000000,0.000000,0.250000,0.000000,USD,month,2020-09-30T22:00:00.000Z,2020-10-31T23:00:00.000Z,Europe/Berlin,true,NOW",
    ]);
    const [european] = (await shown("budgets", "periods", "--month", "2020-10", "--spreadsheet", "excel-europe")).slice(
      1,
    );
    expect(undated(european)).toBe(
      "b-1;Team A+;4000000;4250000;106;0;0;250000;0;;month;2020-10-01;2020-11-01;Europe/Berlin;yes;NOW",
    );
    const whole = ["budgets", "periods", "--spreadsheet", "excel", ...usd];
    const [, running, , , last, total] = await shown(...whole);
    expect(running).toMatch(/;?b-1,.*,no,20[-\d]+ [:\d]+$/);
    expect(last).toMatch(/^b-2,/);
    expect(total).toBe("Total,,13.000060,5.250000,,8.000060,0.000000,0.250000,0.000000,USD,,,,,,");
    expect(JSON.parse((await shown("budgets", "periods", "--month", "2020-09", "--json")).join(""))).toEqual([
      expect.objectContaining({ id: "b-1", granted: 4_000_000, spent: 1_000_000, percentSpent: 25, ended: true }),
    ]);
    for (const month of ["2019-01", "1969-01"]) {
      expect(await shown("budgets", "periods", "--month", month)).toEqual(["There are no periods to list."]);
      expect(notes).toEqual([`No period that began in ${month} is kept: nothing was charged in it.`]);
    }
    await run("", "migrate");
    await expect(shown("budgets", "periods", "--month", "2020-13")).rejects.toThrow("--month must be a month");
    await expect(shown("budgets", "periods", "nobody")).rejects.toThrow("There is no budget of the id nobody.");

    // The periods of a budget may be more than a page of the store has.
    const days = new DatabaseSync(join(folder, "periods.db"));
    days.exec(`WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1001)
      INSERT INTO polygate_budget_periods (budget_id,starts_at,ends_at,pruned,granted,charged,held,overdraft,estimated)
      SELECT 'b-1', n, n + 1, 0, 5, 5, 0, 0, 0 FROM counted`);
    expect(await shown("budgets", "periods", "b-1", "--csv")).toHaveLength(1 + 1 + 2 + 1_001);
    days.close();

    // Commands that read take a name, and those that change something an id.
    expect(await shown("budgets", "usage", "Team B")).toContain("id: b-2");
    expect((await shown("keys", "list", "--budget", "team a+", "--csv", ...usd)).map(undated)).toEqual([
      "id,name,state,granted,spent,available,held,overdraft,left,currency,budget,budgetName,limitedBy,usedUp,models,expiresAt,metadata,asOf",
      "anna,anna,active,,0.000000,,0.000000,0.000000,5.000000,USD,b-1,Team A+,b-1,,*,,tier=gold,NOW",
    ]);
    for (const args of [["usage"], ["calls"], ["keys", "list"], ["keys", "export"]])
      await expect(shown(...args, "--budget", "team")).rejects.toThrow(
        "Several budgets have the name team, or have it in their names. Name one of their ids: b-1, b-2.",
      );
    await expect(shown("budgets", "top-up", "Team B", "5")).rejects.toThrow('Did you mean "b-2"?');
  });

  it("lists budgets as CSV for programs and for spreadsheets", async () => {
    const where = ["--store", `sqlite:${join(folder, "finance.db")}`];
    const { run } = await fresh("finance");
    const stores = await openStores(`sqlite:${join(folder, "finance.db")}`);
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "all", name: "Zürich", amount: 5_000_000 });
    await quotas.addBudget({
      id: "red",
      name: "=1+1, red",
      amount: 200,
      period: "month",
      timeZone: "Europe/Berlin",
      parent: "all",
    });
    await quotas.add({ id: "anna", apiKey: "sk-anna", budget: "red" });
    await quotas.reserve({ id: "call", keyId: "anna", atLeast: 0, atMost: 250, leaseMs: LONGEST_MS });
    await quotas.settle("call", { used: 250, certainty: "exact" });
    const { startsAt = 0, endsAt = 0 } = (await quotas.budgetReport("red")) ?? {};
    await run("", "migrate");
    const lines: string[] = [];
    const notes: string[] = [];
    const listed = async (...args: string[]): Promise<string> => {
      lines.length = 0;
      notes.length = 0;
      const print = (line: string): void => void lines.push(line);
      const warn = (line: string): void => void notes.push(line);
      await runCommand(["budgets", "list", ...args, ...where], { ...terminal, print, warn });
      return lines.join("\n");
    };
    const fields =
      "id,name,parent,amount,granted,spent,percentSpent,available,held,overdraft,gap,currency,period,startsAt,endsAt,timeZone,asOf";
    const iso = new Date(endsAt).toISOString();
    expect((await listed("--csv")).split("\n").map(undated)).toEqual([
      fields,
      "all,Zürich,,5000000,5000000,250,0,4999750,0,0,0,,,,,,NOW",
      `red,"'=1+1, red",all,200,200,250,125,0,0,50,0,,month,${new Date(startsAt).toISOString()},${iso},Europe/Berlin,NOW`,
    ]);
    expect(undated((await listed("--csv", "--currency", "usd")).split("\n")[1])).toBe(
      "all,Zürich,,5.000000,5.000000,0.000250,0,4.999750,0.000000,0.000000,0.000000,USD,,,,,NOW",
    );
    const day = dayOf(endsAt);
    expect(iso).not.toContain(day);
    expect((await listed("--spreadsheet", "excel-europe", "--currency", "usd")).split("\n").map(undated)).toEqual([
      "\uFEFFBudget;Budget name;Parent;Amount;Granted;Spent;Spent %;Available;Held;Overdraft;Gap;Currency;Period;Begins;Next begins;Time zone;As of (UTC)",
      "all;Zürich;;5,000000;5,000000;0,000250;0;4,999750;0,000000;0,000000;0,000000;USD;;;;;NOW",
      `red;"'=1+1, red";all;0,000200;0,000200;0,000250;125;0,000000;0,000000;0,000050;0,000000;USD;month;${dayOf(startsAt)};${day};Europe/Berlin;NOW`,
    ]);
    expect(await listed("--after", "red", "--csv")).toBe(fields);

    // What a child budget has spent is spent by its parent, too, and an amount for each day and one for each month have no sum.
    const sumOf = async (): Promise<string | undefined> =>
      (await listed("--spreadsheet", "excel", "--currency", "usd"))
        .split("\n")
        .find((line) => line.startsWith("Total"));
    await quotas.assignBudget("anna", undefined);
    await quotas.removeBudget("red");
    expect(await sumOf()).toBe("Total,,,5.000000,5.000000,0.000250,,4.999750,0.000000,0.000000,0.000000,USD,,,,,");
    await quotas.addBudget({ id: "other", amount: 1_000_000 });
    expect(await sumOf()).toBe("Total,,,6.000000,6.000000,0.000250,,5.999750,0.000000,0.000000,0.000000,USD,,,,,");
    await quotas.addBudget({ id: "each-day", amount: 1_000_000, period: "day" });
    expect(await sumOf()).toBeUndefined();
    await quotas.removeBudget("each-day");

    // Without a limit, CSV has more budgets than a page.
    await stores.close();
    const database = new DatabaseSync(join(folder, "finance.db"));
    const columns = Object.keys(database.prepare("SELECT * FROM polygate_budgets").get() ?? {});
    const copied = columns.map((name) => (name === "id" ? "'team-' || n" : name));
    database.exec(`WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1001)
      INSERT INTO polygate_budgets (${columns.join()}) SELECT ${copied.join()} FROM polygate_budgets, counted WHERE id = 'all'`);
    database.close();
    expect((await listed("--csv")).split("\n")).toHaveLength(1 + 2 + 1_001);
    expect(notes).toEqual([]);
    expect((await listed("--csv", "--limit", "2")).split("\n")).toHaveLength(1 + 2);
    expect(notes).toEqual(["The first 2 are shown. More may follow: add --after other, or --limit 1000."]);
    await expect(listed("--csv", "--json")).rejects.toThrow("Choose --csv or --json.");
  });

  it("shows what a key has left in its budgets, with and without a quota of its own", async () => {
    await budgets("create", "top", "--amount", "1000");
    await budgets("create", "below", "--amount", "300", "--parent", "top");
    await keys("create", "--id", "both", "--granted", "500", "--budget", "below");
    await keys("create", "--id", "only", "--budget", "below");
    await keys("create", "--id", "less", "--granted", "100", "--budget", "below");
    await keys("create", "--id", "neither");
    await budgets("create", "wide", "--amount", "5000", "--parent", "top");
    await keys("create", "--id", "high", "--budget", "wide");
    const books = { used: 0, held: 0 };
    const shown = [
      { id: "below", name: "below", granted: 300, available: 300, ...books },
      { id: "top", name: "top", granted: 1000, available: 1000, ...books },
    ];
    expect(await json("usage", "both")).toMatchObject({
      unlimited: false,
      granted: 500,
      available: 500,
      left: 300,
      limitedBy: "below",
      budgets: shown,
    });
    expect(await json("usage", "only")).toMatchObject({
      unlimited: false,
      granted: null,
      available: null,
      budgets: shown,
    });
    expect(await json("usage", "less")).toMatchObject({ left: 100, limitedBy: null });
    const sheet = (await keys("list", "--spreadsheet", "excel")).split("\n");
    expect(sheet.find((line) => line.startsWith("less,"))).toContain(",own quota,");
    expect(await json("usage", "high")).toMatchObject({ left: 1000, limitedBy: "top" });
    expect(await json("usage", "neither")).toMatchObject({ unlimited: true });
    expect(await json("usage", "neither")).not.toHaveProperty("budgets");
    const ofBoth = await keys("usage", "both");
    expect(ofBoth).toMatch(/^id: both\nname: both\ngranted: 500\navailable: 500\n/);
    expect(ofBoth).toMatch(/budget below: 300 of 300 available\nbudget top: 1000 of 1000 available$/);
    const ofOnly = await keys("usage", "only");
    expect(ofOnly).toMatch(/^id: only\nname: only\nquota: none of its own\n/);
    expect(ofOnly).not.toMatch(/unlimited|granted|^available/m);
    expect(await keys("usage", "neither")).toMatch(/^quota: unlimited$/m);
    const none = "The API key only has no quota of its own: it draws on the budget below. polygate budgets";
    const given = '"polygate keys update only --granted AMOUNT" gives it one.';
    await expect(keys("grant", "only", "5")).rejects.toThrow(`${none} top-up below AMOUNT adds to that. ${given}`);
    await expect(keys("lower", "only", "5")).rejects.toThrow(`${none} lower below AMOUNT takes from that. ${given}`);
    for (const verb of ["grant", "lower"])
      await expect(keys(verb, "neither", "5")).rejects.toThrow(
        'The API key neither has no quota of its own. "polygate keys update neither --granted AMOUNT" gives it one.',
      );
    const rows = rowsOf((await listedIn(200, "--store", store)).lines.join("\n")).split("\n");
    expect(rows).toEqual([
      "both\t500\t0\t300\tactive\tbelow\tbelow",
      "high\t-\t0\t1000\tactive\twide\ttop",
      "less\t100\t0\t100\tactive\tbelow\town quota",
      "neither\t-\t0\tunlimited\tactive\t-\t-",
      "only\t-\t0\t300\tactive\tbelow\tbelow",
    ]);
    const opened = await openStores(store);
    const admin = adminHandler(opened.ports.quotas, { authorize: () => ({ name: "ann" }) }).at("/admin");
    const ask = async (path: string): Promise<unknown> =>
      (await admin.fetch(new Request(`http://host/admin/keys${path}`))).json();
    for (const id of ["both", "only", "less", "high", "neither"])
      expect(await ask(`/${id}`)).toEqual(await json("usage", id));
    expect(await ask("?limit=1000")).toMatchObject({ data: await json("list", "--limit", "1000") });
    // More budgets than are read one by one.
    for (let at = 0; at < 11; at++) {
      await budgets("create", `one-${at}`, "--amount", `${at}`, "--parent", "top");
      await keys("create", "--id", `of-one-${at}`, "--budget", `one-${at}`);
    }
    const many = await json("list", "--limit", "1000");
    expect(many).toContainEqual(expect.objectContaining({ id: "of-one-7", left: 7, limitedBy: "one-7" }));
    expect(await ask("?limit=1000")).toMatchObject({ data: many });
    await opened.close();
  });

  it("asks at a terminal for an amount that is often a mistake, and refuses it elsewhere without --yes", async () => {
    const usd = ["--currency", "usd", "--store", store];
    await budgets("create", "red", "--amount", "300", "--period", "month", "--currency", "usd");
    await keys("create", "--id", "wealthy", "--granted", "10", "--currency", "usd");
    const told: string[] = [];
    const run = async (answer: string | undefined, ...args: string[]): Promise<unknown> =>
      runCommand([...args, ...usd], {
        ...terminal,
        print: () => {},
        warn: (line) => void told.push(line),
        ask: answer === undefined ? undefined : async (question) => (told.push(question), answer),
      }).then(
        () => told.splice(0),
        (error: Error) => [error.message, ...told.splice(0)],
      );
    const budget = async (): Promise<unknown> => JSON.parse(await budgets("usage", "red", "--json"));
    const tops = "5000000.00 USD is 17,000 times what this budget was given so far, 300.00 USD.";
    expect(await run("n", "budgets", "top-up", "red", "5000000")).toEqual([
      "Nothing was changed.",
      `${tops} Is it meant? (y/N) `,
    ]);
    expect(await run("", "budgets", "top-up", "red", "301")).toEqual([
      "Nothing was changed.",
      "301.00 USD is more than what this budget was given so far, 300.00 USD. Is it meant? (y/N) ",
    ]);
    expect(await run("n", "budgets", "update", "red", "--amount", "30000")).toEqual([
      "Nothing was changed.",
      "30000.00 USD is 100 times the amount of this budget, 300.00 USD. Is it meant? (y/N) ",
    ]);
    const lowers =
      "0.01 USD is less than a tenth of the amount of this budget, 300.00 USD. When it is used up, calls are refused until the next period begins, or the budget gets more.";
    expect(await run("n", "budgets", "update", "red", "--amount", "0.01")).toEqual([
      "Nothing was changed.",
      `${lowers} Is it meant? (y/N) `,
    ]);
    expect(await run("n", "budgets", "update", "red", "--amount", "0")).toEqual([
      "Nothing was changed.",
      "With 0.00 USD, nothing is left of this budget: its calls are refused until the budget gets more. Is it meant? (y/N) ",
    ]);
    expect(await run("n", "keys", "grant", "wealthy", "11")).toEqual([
      "Nothing was changed.",
      "11.00 USD is more than what this key was granted so far, 10.00 USD. Is it meant? (y/N) ",
    ]);
    expect(await budget()).toMatchObject({ amount: 300_000_000, granted: 300_000_000 });
    expect(await json("usage", "wealthy")).toMatchObject({ granted: 10_000_000 });
    for (const args of [
      ["budgets", "top-up", "red", "300"],
      ["budgets", "lower", "red", "300"],
      ["budgets", "update", "red", "--amount", "600"],
      ["budgets", "update", "red", "--amount", "30", "--yes"],
      ["budgets", "update", "red", "--amount", "3"],
      ["budgets", "update", "red", "--amount", "0.01", "--yes"],
      ["budgets", "update", "red", "--amount", "300", "--yes"],
      ["keys", "grant", "wealthy", "10"],
      ["budgets", "top-up", "red", "5000", "--yes"],
      ["budgets", "lower", "red", "5000"],
    ])
      expect(await run("n", ...args)).toEqual([]);
    expect(await run(" Yes ", "keys", "grant", "wealthy", "21")).toHaveLength(1);
    expect(await json("usage", "wealthy")).toMatchObject({ granted: 41_000_000 });
    // A script is not asked.
    const unconfirmed = "Nothing was changed. If this is meant, add --yes.";
    expect(await run(undefined, "budgets", "top-up", "red", "5000000")).toEqual([`${tops} ${unconfirmed}`]);
    expect(await run(undefined, "budgets", "update", "red", "--amount", "0.01")).toEqual([`${lowers} ${unconfirmed}`]);
    const grants = "42.00 USD is more than what this key was granted so far, 41.00 USD.";
    expect(await run("n", "keys", "grant", "wealthy", "42", "--json")).toEqual([`${grants} ${unconfirmed}`]);
    expect(await polygate(["keys", "grant", "wealthy", "42", "--json", ...usd])).toEqual({
      code: 2,
      stdout: "",
      stderr: `${JSON.stringify({ error: `${grants} ${unconfirmed}`, code: "confirmation_required" })}\n`,
    });
    expect(await budget()).toMatchObject({ amount: 300_000_000, granted: 300_000_000 });
    expect(await json("usage", "wealthy")).toMatchObject({ granted: 41_000_000 });
    expect(await run(undefined, "budgets", "top-up", "red", "5000000", "--yes")).toEqual([]);
    expect(await budget()).toMatchObject({ granted: 5_000_300_000_000 });
    expect(await run("n", "budgets", "top-up", "nobody", "5")).toEqual([
      expect.stringContaining("There is no budget of the id nobody."),
    ]);
    await keys("create", "--id", "none", "--granted", "0", "--currency", "usd");
    expect(await run("n", "keys", "grant", "none", "500")).toEqual([]);
    // A first amount of money that looks like units.
    const large =
      "50000000.00 USD is a large first amount. A unit is a millionth: as units, 50000000 is only 50.00 USD.";
    await budgets("create", "empty", "--amount", "0");
    await keys("create", "--id", "nil", "--granted", "0");
    await keys("create", "--id", "open");
    for (const args of [
      ["keys", "create", "--id", "dora", "--granted", "50000000"],
      ["budgets", "create", "green", "--amount", "50000000", "--period", "month"],
      ["keys", "grant", "nil", "50000000"],
      ["keys", "update", "open", "--granted", "50000000"],
      ["budgets", "update", "empty", "--amount", "50000000"],
      ["budgets", "top-up", "empty", "50000000"],
    ]) {
      expect(await run("n", ...args)).toEqual(["Nothing was changed.", `${large} Is it meant? (y/N) `]);
      expect(await run(undefined, ...args)).toEqual([`${large} ${unconfirmed}`]);
    }
    await expect(keys("usage", "dora")).rejects.toThrow("There is no API key of the id dora.");
    await expect(budgets("usage", "green")).rejects.toThrow("There is no budget of the id green.");
    expect(await run(undefined, "keys", "create", "--id", "dora", "--granted", "50000000", "--yes")).toEqual([]);
    expect(await json("usage", "dora")).toMatchObject({ granted: 50_000_000_000_000 });
    for (const granted of ["999999", "1000000.5"])
      expect(await run("n", "keys", "create", "--granted", granted)).toEqual([]);
    // What cannot be undone.
    for (const [question, ...args] of [
      ["All secrets of the key dora are removed for good: its calls are refused.", "keys", "revoke", "dora"],
      [
        "The older secrets of the key dora end at once: calls with them are refused.",
        "keys",
        "rotate",
        "dora",
        "--overlap",
        "0s",
      ],
      ["The budget empty is removed for good, and its id cannot be used again.", "budgets", "remove", "empty"],
    ] as const) {
      expect(await run("n", ...args)).toEqual(["Nothing was changed.", `${question} Is it meant? (y/N) `]);
      expect(await run(undefined, ...args)).toEqual([`${question} ${unconfirmed}`]);
    }
    expect(await json("usage", "dora")).toMatchObject({ secrets: 1, revoked: false });
    expect(JSON.parse(await budgets("usage", "empty", "--json"))).not.toHaveProperty("removed");
    expect(await run(undefined, "budgets", "remove", "empty", "--yes")).toEqual([]);
    expect(await run("y", "keys", "revoke", "dora")).toHaveLength(1);
    expect(await json("usage", "dora")).toMatchObject({ secrets: 0, revoked: true });
    // People may mean that a key has no quota.
    await keys("create", "--id", "free-of-quota");
    const nothing =
      "With a quota of 0.00 USD, this key can use nothing: its calls are refused until it is granted more.";
    const none = ["keys", "update", "free-of-quota", "--granted", "0"] as const;
    expect(await run("n", ...none)).toEqual(["Nothing was changed.", `${nothing} Is it meant? (y/N) `]);
    expect(await run(undefined, ...none)).toEqual([`${nothing} ${unconfirmed}`]);
    expect(await json("usage", "free-of-quota")).toMatchObject({ unlimited: true });
    expect(await run(undefined, ...none, "--yes")).toEqual([]);
    expect(await json("usage", "free-of-quota")).toMatchObject({ granted: 0 });
    expect(await run("n", ...none)).toEqual([expect.stringContaining("has a quota already.")]);
  });

  it("gives a key without a quota one beyond what it has used, and takes it away", async () => {
    await keys("create", "--id", "open", "--name", "Open");
    const opened = await openStores(store);
    await opened.ports.quotas.reserve({ id: "before", keyId: "open", atLeast: 30, atMost: 30, leaseMs: 60_000 });
    await opened.ports.quotas.settle("before", { used: 30, certainty: "exact" });
    expect(await json("update", "open", "--granted", "5")).toMatchObject({
      unlimited: false,
      granted: 35,
      available: 5,
    });
    expect(await json("grant", "open", "5")).toMatchObject({ granted: 40, available: 10 });
    await expect(keys("update", "open", "--granted", "5", "--name", "New")).rejects.toThrow(
      'The API key open has a quota already. "polygate keys grant open AMOUNT" adds to it, and "polygate keys lower open AMOUNT" takes from it.',
    );
    const notes: string[] = [];
    await runCommand(["keys", "update", "open", "--granted", "none", "--yes", "--store", store], {
      ...terminal,
      warn: (line) => void notes.push(line),
    });
    expect(notes.join("\n")).toContain('The key "open" is unlimited');
    expect(await json("usage", "open")).toMatchObject({ unlimited: true, used: 30, name: "Open" });
    expect(await keys("verify")).toBe("differences: 0");
    await opened.close();
  });

  it("reads and shows money, exact to a millionth, and units in JSON", async () => {
    const usd = ["--currency", "usd"];
    expect(await budgets("create", "money", "--amount", "50", ...usd)).toMatch(/^amount: 50\.00 USD$/m);
    expect(await budgets("top-up", "money", "500.000001", "--yes", ...usd)).toMatch(/^granted: 550\.000001 USD$/m);
    expect(await budgets("lower", "money", "500", ...usd)).toMatch(/^granted: 50\.000001 USD$/m);
    expect(JSON.parse(await budgets("usage", "money", "--json", ...usd))).toMatchObject({
      amount: 50_000_000,
      granted: 50_000_001,
    });
    expect(rowsOf(await budgets("list", ...usd))).toMatch(/^money\t50\.0+\t50\.000001\t0\.00\t0 %\t50\.000001\t/m);
    const wide = ["wide-budget", "--amount", "50000", "--period", "month", "--name", "A long name ".repeat(5).trim()];
    await budgets("create", ...wide, "--parent", "money", ...usd);
    const lines = (await budgets("list", ...usd)).split("\n");
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(120);
    await budgets("remove", "wide-budget", "--yes");
    // A binary fraction of 1.005 times a million is 1004999.9999999999.
    await keys("create", "--id", "exact", "--granted", "1.0050", ...usd);
    expect(await json("usage", "exact")).toMatchObject({ granted: 1_005_000 });
    await keys("create", "--id", "rich", "--granted", "1150000.000001", "--budget", "money", ...usd);
    const rich = await keys("usage", "rich", ...usd);
    expect(rich).toMatch(/^granted: 1150000\.000001 USD$/m);
    expect(rich).toMatch(/^budget money: 50\.000001 USD of 50\.000001 USD available$/m);
    expect(await keys("grant", "rich", "5.5", "--currency", "USD")).toMatch(/^available: 1150005\.500001 USD$/m);
    expect(await keys("lower", "rich", "1150005.5", ...usd)).toMatch(/^available: 0\.000001 USD$/m);
    expect(rowsOf(await keys("list", ...usd))).toMatch(
      /^rich\t0\.000001\t0\.00\t0\.000001\tactive\tmoney\town quota$/m,
    );
  });

  it("notes what an amount without a currency is, until a recorded call or an empty currency tells it", async () => {
    const where = `sqlite:${join(folder, "uncounted.db")}`;
    const run = (args: readonly string[], env: Terminal["env"] = {}) =>
      polygate(args, { POLYGATE_STORE: where, ...env });
    await run(["keys", "migrate"]);
    const note =
      "300 units. If your gateway has prices in a currency, that is 0.0003 of it: add --currency usd, or set POLYGATE_CURRENCY (empty, if you count in units).\n";
    const create = ["budgets", "create", "first", "--amount", "300"];
    expect(await run(create)).toMatchObject({ code: 0, stderr: note });
    const commands = [
      ["budgets", "update", "first", "--amount", "300"],
      ["budgets", "top-up", "first", "300"],
      ["keys", "create", "--id", "first", "--granted", "300"],
      ["keys", "grant", "first", "300"],
      ["keys", "lower", "first", "300"],
    ];
    for (const args of commands) expect(await run(args)).toMatchObject({ code: 0, stderr: note });
    const silent = async (args: readonly string[], env?: Terminal["env"]) =>
      expect(await run(args, env)).toMatchObject({ code: 0, stderr: "" });
    await silent(["budgets", "top-up", "first", "300", "--json"]);
    await silent(["budgets", "top-up", "first", "300"], { POLYGATE_CURRENCY: "" });
    await silent(["budgets", "create", "empty", "--amount", "0"]);
    await silent(["budgets", "update", "first", "--name", "First"]);
    await silent(["budgets", "list"]);
    // The note stands before the change, so that it can be read before a mistake is repeated.
    const order: string[] = [];
    const told = (line: string): void => void order.push(line.split("\n")[0] ?? "");
    await runCommand([...create.with(2, "second"), "--store", where], { ...terminal, print: told, warn: told });
    expect(order).toEqual([note.trimEnd(), "id: second"]);
    expect((await run(create)).stderr).toMatch(/^300 units\. .*\n.*first/);

    const stores = await openStores(where);
    const recorder = stores.recorder();
    const backend = {
      async *chat() {
        yield "Hello.";
      },
    };
    const gateway = createGateway({ backend, onCall: recorder, ...stores.ports });
    await stores.ports.quotas.add({ id: "counts", apiKey: "sk-counts", granted: 5 });
    await askOf(gateway, "counts", {});
    await gateway.close();
    await stores.close();
    for (const args of commands.filter(([, verb]) => verb !== "create")) await silent(args);
  });

  it("keeps the currency of the first amount until a call is recorded, or until --yes corrects it", async () => {
    const env = { POLYGATE_STORE: store, POLYGATE_CURRENCY: "usd" };
    const run = (...args: string[]) => polygate(args, env);
    const both = "--currency eur is taken, not POLYGATE_CURRENCY, which is usd.\n";
    expect(await run("budgets", "create", "b1", "--amount", "300", "--currency", "eur")).toMatchObject({
      code: 0,
      stderr: both,
    });
    const k = ["--id", "k", "--granted", "5"];
    await run("keys", "create", ...k.with(1, "e"), "--currency", "eur");
    await run("keys", "create", "--id", "open");
    const withAmount = [
      ["budgets", "create", "b2", "--amount", "0"],
      ["budgets", "update", "b1", "--amount", "300"],
      ["budgets", "top-up", "b1", "5"],
      ["budgets", "lower", "b1", "5"],
      ["keys", "create", ...k],
      ["keys", "update", "open", "--granted", "5"],
      ["keys", "grant", "e", "5"],
      ["keys", "lower", "e", "5"],
    ];
    for (const args of withAmount) expect(await run(...args)).toEqual({ code: 2, stdout: "", stderr: UNCONFIRMED });
    // What changes no amount works, and says in which currency amounts were given.
    const read = { code: 0, stderr: "Amounts were given in EUR, and are shown as USD.\n" };
    for (const args of [
      ["budgets", "list"],
      ["budgets", "usage", "b1"],
      ["budgets", "update", "b1", "--name", "One"],
      ["keys", "list"],
      ["keys", "pause", "e"],
      ["usage", "--month", "this"],
    ])
      expect(await run(...args)).toMatchObject(read);
    expect(await run("budgets", "list", "--json")).toMatchObject({ code: 0, stderr: "" });
    // An amount without a currency is refused as after a recorded call.
    expect(await polygate(["keys", "grant", "e", "5"], { POLYGATE_STORE: store })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("5 units are 0.000005 EUR. For 5 EUR, add --currency eur"),
    });
    // Commands without amounts need no currency.
    expect(await run("keys", "sweep")).toMatchObject({ code: 0, stderr: "" });
    expect(await run("budgets", "usage", "b1", "--currency", "")).toMatchObject({ code: 0, stderr: "" });
    expect(await run("audit", "--currency", "eur")).toMatchObject({
      stdout: expect.stringContaining("Amount: 300.00 EUR\n  Currency: EUR"),
    });
    // A change that was refused is no amount that was given.
    expect(await run("budgets", "lower", "b1", "900", "--currency", "eur")).toMatchObject({ code: 1 });
    const corrected = await run("budgets", "update", "b1", "--amount", "300", "--yes");
    expect(corrected).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^amount: 300\.00 USD$/m),
      stderr: `${CORRECTS}\n`,
    });
    expect((await run("audit", "--target", "b1", "--limit", "1")).stdout).toContain(
      "\n  Amount: from 300.00 EUR to 300.00 USD\n  Currency: from EUR to USD, for all amounts\n",
    );
    expect((await run("audit", "--target", "b1", "--limit", "1", "--currency", "")).stdout).toContain(
      "\n  Amount: 300000000 units, as before\n  Currency: from EUR to USD, for all amounts\n",
    );
    // Earlier changes keep the currency in which they were made.
    expect((await run("audit", "--target", "b1", "--action", "budgets.create")).stdout).toContain(
      "\n  Amount: 300.00 EUR\n  Currency: EUR\n",
    );
    expect(await run("budgets", "top-up", "b1", "5")).toMatchObject({ code: 0, stderr: "" });
    expect(await run("budgets", "list", "--currency", "eur")).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("Amounts were given in USD, and are shown as EUR."),
    });
    // At a terminal, the command asks.
    const questions: string[] = [];
    const lines: string[] = [];
    for (const answer of ["n", "y"])
      lines.push(
        `${await exitCodeOf(["keys", "create", "--id", `asked-${answer}`, "--granted", "7", "--currency", "eur"], {
          ...terminal,
          env,
          warn: (line) => void lines.push(line),
          async ask(question) {
            questions.push(question);
            return answer;
          },
        })}`,
      );
    const words = "Amounts were given in USD before. With this one, all of them count in EUR. Is it meant? (y/N) ";
    expect(questions).toEqual([words, words]);
    expect(lines).toEqual([both.trimEnd(), "Nothing was changed.", "1", both.trimEnd(), "0"]);
    expect((await run("audit", "--target", "asked-y")).stdout).toContain(
      "Quota: 7.00 EUR\n  Currency: from USD to EUR, for all amounts",
    );
    const opened = await openStores(store);
    const recorder = opened.recorder({ currency: "eur" });
    const backend = {
      async *chat() {
        yield "Hello.";
      },
    };
    const price = Object.assign(() => 1, { currency: "eur" });
    const gateway = createGateway({ backend, price, onCall: recorder, ...opened.ports });
    await opened.ports.quotas.add({ id: "counts", apiKey: "sk-counts", granted: 5 });
    const id = await askOf(gateway, "counts", {});
    await gateway.close();
    await opened.close();
    // A single call of a gateway with wrong prices stops no command. Its note names the call.
    const cause = new RegExp(`^The latest call is recorded in EUR, not USD: ${id}, at 20\\S+Z, of the model large\\.`);
    for (const args of [
      ["budgets", "list"],
      ["keys", "list"],
      ["keys", "usage", "counts"],
      ["keys", "pause", "counts"],
      ["calls"],
    ])
      expect(await run(...args)).toMatchObject({
        code: 0,
        stderr: expect.stringMatching(
          new RegExp(`${cause.source} Amounts are shown as USD, but each call in its own currency\\.`),
        ),
      });
    // A report tells the currencies of the calls that it counts.
    const counted =
      "Charges that were recorded in EUR are counted as USD, unit for unit: nothing is converted. For amounts in EUR, write --currency eur.\n";
    expect(await run("usage")).toMatchObject({ stdout: expect.stringContaining("SPENT USD"), stderr: "" });
    expect((await run("usage")).stdout).toContain(counted);
    expect(await run("usage", "--csv")).toMatchObject({ stdout: expect.stringMatching(/,USD,/), stderr: counted });
    expect((await run("usage", "--month", "2020-01")).stdout).not.toContain("Charges");
    expect((await run("calls")).stdout).toContain("SPENT EUR");
    for (const args of withAmount.filter(([, verb]) => verb !== "create"))
      expect(await run(...args)).toEqual({
        code: 2,
        stdout: "",
        stderr: expect.stringMatching(
          new RegExp(
            `${cause.source} An amount in USD is right only if your gateway's prices are in USD\\. Nothing was changed\\. If this is meant, add --yes\\.`,
          ),
        ),
      });
    expect(await run("keys", "grant", "e", "5", "--yes")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^Added 5\.00 USD to e\./),
      stderr: expect.stringMatching(cause),
    });
    // The JSON of keys and budgets has no money.
    expect(await run("budgets", "list", "--json")).toMatchObject({ code: 0, stderr: "" });
    expect(await run("usage", "--json")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        "These calls are recorded in EUR, not USD. For amounts in EUR, write --currency eur.",
      ),
    });
    expect(JSON.parse((await run("usage", "--json", "--currency", "")).stdout)).toMatchObject({ currency: "EUR" });
    for (const args of [
      ["keys", "sweep"],
      ["budgets", "list", "--currency", "eur"],
    ])
      expect(await run(...args)).toMatchObject({ code: 0, stderr: "" });
  });

  it("notes a code that no currency has, which prices may have", async () => {
    const note = "XYZ is no known currency. It must be the one of your prices.\n";
    expect(await polygate(["budgets", "list", "--currency", "xyz", "--store", store])).toMatchObject({
      code: 0,
      stderr: note,
    });
  });

  it("says what a top-up or a grant has done, and refuses to add or take nothing", async () => {
    await budgets("create", "red", "--amount", "300", "--currency", "usd");
    await keys("create", "--id", "anna", "--granted", "5", "--currency", "usd");
    const env = { POLYGATE_STORE: store };
    const run = (...args: string[]) => polygate(args, env);
    for (const [args, line] of [
      [["budgets", "top-up", "red"], "Added 5.00 USD to red. Granted: 305.00 USD. Available: 305.00 USD."],
      [["budgets", "lower", "red"], "Took 5.00 USD from red. Granted: 300.00 USD. Available: 300.00 USD."],
      [["keys", "grant", "anna"], "Added 5.00 USD to anna. Granted: 10.00 USD. Available: 10.00 USD."],
      [["keys", "lower", "anna"], "Took 5.00 USD from anna. Granted: 5.00 USD. Available: 5.00 USD."],
    ] as const) {
      const usd = ["--currency", "usd"];
      expect((await run(...args, "5", ...usd)).stdout.split("\n")[0]).toBe(line);
      for (const wrong of [
        ["0", ...usd],
        ["0.00", ...usd],
        ["0", "--currency", ""],
      ])
        expect(await run(...args, ...wrong)).toEqual({ code: 2, stdout: "", stderr: "AMOUNT must be more than 0.\n" });
    }
    expect(
      JSON.parse((await run("budgets", "top-up", "red", "1", "--json", "--currency", "usd")).stdout),
    ).toMatchObject({ granted: 301_000_000 });
  });

  it("makes nothing whose id or name looks like a secret, and does not print the secret", async () => {
    const bare = "Zk3vQ9_xT1aB-cD4eF7gH0iJ2kL5mN8oP6qR9sTuVwX";
    await json("create", "--id", "named", "--granted", "5");
    for (const [args, file = ""] of [
      [["keys", "create", "--id", `sk-${bare}`]],
      [["keys", "create", "--name", bare]],
      [["keys", "update", "named", "--name", `sk-${bare}`]],
      [["keys", "update", "named", "--metadata", `${bare}=1`]],
      [["budgets", "create", `sk-${bare}`, "--amount", "5"]],
      [["budgets", "create", "named", "--name", bare, "--amount", "5"]],
      [["keys", "import"], JSON.stringify({ id: `sk-${bare}` })],
      [["keys", "import"], JSON.stringify({ name: bare })],
      [["keys", "import", "--update"], JSON.stringify({ id: "named", metadata: { [bare]: "1" } })],
    ] as const) {
      const { code, stdout, stderr } = await polygate([...args, "--store", store], {}, file);
      expect([args, code, stdout]).toEqual([args, expect.any(Number), ""]);
      expect([args, stderr]).toEqual([args, expect.stringContaining(" cannot look like the secret of a key.")]);
      expect([args, stderr]).not.toEqual([args, expect.stringContaining(bare)]);
    }
  });

  it("masks a secret that is taken for an id, and says how to remove it", async () => {
    const { apiKey } = await json("create", "--id", "leaked", "--granted", "5");
    const secret = String(apiKey);
    for (const args of [
      ["keys", "revoke", secret],
      ["keys", "usage", secret],
      ["keys", "pause", secret],
      ["keys", "grant", secret, "5"],
      ["keys", "revoke", secret, "--json"],
      ["budgets", "usage", secret],
      ["budgets", "assign", "leaked", secret],
    ]) {
      const { code, stdout, stderr } = await polygate([...args, "--store", store]);
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toContain("of the id sk-…. This is the secret of a key, not an id.");
      expect(stderr).toContain("polygate keys remove-secret < FILE");
      expect(stderr).not.toContain(secret);
    }
    const removed = await polygate(["keys", "remove-secret", "--store", store], {}, secret);
    expect(removed).toMatchObject({ code: 0, stdout: "id: leaked\nremoved: yes\n" });
  });

  it("takes its currency from the environment", async () => {
    const lines: string[] = [];
    const print = (line: string): void => void lines.push(line);
    const run = (currency: string, ...args: string[]) =>
      runCommand(["budgets", ...args], {
        ...terminal,
        print,
        env: { POLYGATE_STORE: store, POLYGATE_CURRENCY: currency },
      });
    await run("chf", "create", "swiss", "--amount", "1,5");
    await run("", "usage", "swiss");
    expect(lines[0]).toContain("amount: 1.50 CHF");
    expect(lines[1]).toContain("amount: 1500000");
    await expect(run("dollars", "list")).rejects.toThrow(
      "--currency (or POLYGATE_CURRENCY) must be a code of three letters, such as usd, not dollars.",
    );
  });

  it.each([
    ["12,50", 12_500_000],
    ["0,5", 500_000],
    ["1234,5678", 1_234_567_800],
    ["1,000001", 1_000_001],
  ])("takes %s as money, as people write it where a comma stands before the decimals", async (written, units) => {
    const id = `comma-${units}`;
    await budgets("create", id, "--amount", written, "--currency", "chf", "--yes");
    expect(JSON.parse(await budgets("usage", id, "--json"))).toMatchObject({ amount: units });
  });

  it.each([
    [
      ["--amount", "5.5"],
      "--amount must be a whole number of units, not 5.5. With prices in a currency, a unit is a millionth of it: write 5500000, or write 5.5 and add --currency usd.",
    ],
    ...["300usd", "300 USD", "usd300"].map(
      (amount) =>
        [
          ["--amount", amount],
          `--amount must be an integer from 0 to 9007199254740991, not ${amount}. Write 300 and add --currency usd.`,
        ] as const,
    ),
    [
      ["--amount", "2.5eur", "--currency", "eur"],
      "--amount must be an amount of EUR such as 12.5, with at most 6 digits after the point, not 2.5eur. Write 2.5.",
    ],
    [
      ["--amount", "2.5usd", "--currency", "eur"],
      "--amount must be an amount of EUR such as 12.5, with at most 6 digits after the point, not 2.5usd.",
    ],
    [["--amount", "$5"], "--amount must be an integer from 0 to 9007199254740991, not $5."],
    [
      ["--amount=0,500", "--currency", "usd"],
      "--amount must be an amount of USD such as 12.5, with at most 6 digits after the point, not 0,500. Write 0.500.",
    ],
    [
      ["--amount=0,1234567", "--currency", "usd"],
      "--amount must be an amount of USD such as 12.5, with at most 6 digits after the point, not 0,1234567. Write a point before the decimals and nothing between thousands: 1234.56.",
    ],
    [
      ["--amount=1,234,56", "--currency", "usd"],
      "--amount must be an amount of USD such as 12.5, with at most 6 digits after the point, not 1,234,56. Write a point before the decimals and nothing between thousands: 1234.56.",
    ],
    [["--amount=1,500", "--currency", "eur"], "--amount: 1,500 may be two amounts. Write 1.5 or 1500."],
    [["--amount=1,234", "--currency", "usd"], "--amount: 1,234 may be two amounts. Write 1.2340 or 1234."],
    [["--amount", "1.500", "--currency", "usd"], "--amount: 1.500 may be two amounts. Write 1.5 or 1500."],
    [
      ["--amount=1.234,56", "--currency", "usd"],
      "--amount must be an amount of USD such as 12.5, with at most 6 digits after the point, not 1.234,56. Write a point before the decimals and nothing between thousands: 1234.56.",
    ],
    [
      ["--amount=1,000.50", "--currency", "usd"],
      "--amount must be an amount of USD such as 12.5, with at most 6 digits after the point, not 1,000.50. Write a point before the decimals and nothing between thousands: 1234.56.",
    ],
    [
      ["--amount", "0,5"],
      "--amount must be a whole number of units, not 0,5. With prices in a currency, a unit is a millionth of it: write 500000, or write 0.5 and add --currency usd.",
    ],
    [
      ["--amount", "1,234"],
      "--amount must be an integer from 0 to 9007199254740991, not 1,234. Write 1234, or 1.2340 and add --currency usd.",
    ],
    [
      ["--amount", "1.234"],
      "--amount must be an integer from 0 to 9007199254740991, not 1.234. Write 1234, or 1.2340 and add --currency usd.",
    ],
    ...["5.1234567", "1e3", ".5", "5."].map(
      (amount) =>
        [
          [`--amount=${amount}`, "--currency", "usd"],
          `--amount must be an amount of USD such as 12.5, with at most 6 digits after the point, not ${amount}.`,
        ] as const,
    ),
    [
      ["--amount", "9007199254.740992", "--currency", "usd"],
      "--amount must be at most 9007199254.740991 USD, not 9007199254.740992.",
    ],
  ] as const)("refuses %j as an amount", async (args, message) => {
    await expect(budgets("create", "wrong", ...args)).rejects.toMatchObject({ name: "UsageError", message });
  });

  it.each([
    [["create", "new"], "budgets create needs --amount."],
    [["create", "new", "--amount", "many"], "--amount must be an integer"],
    [["create", "new", "--amount", "5", "--period", "hour"], "--period must be day, week or month, not hour."],
    [["create", "new", "--amount", "5", "--period", "mont"], "not mont. Did you mean month?"],
    [["create", "new", "--amount", "5", "--rollover"], "--rollover needs --period."],
    [["create", "new", "--amount", "5", "--time-zone", "Europe/Berlin"], "--time-zone needs --period."],
    [
      ["create", "new", "--amount", "5", "--period", "day", "--time-zone", "Europe/Berlim"],
      "--time-zone: Europe/Berlim is no time zone. Did you mean Europe/Berlin?",
    ],
    [["usage", ""], "budgets usage needs ID, not an empty text."],
    [
      ["create", "new", "--amount", "5", "--period", "day", "--time-zone", "Mars"],
      "--time-zone: Mars is no time zone. Write a name such as Europe/Berlin.",
    ],
    [["create", "new", "--amount", "5", "--parent", "nobody"], "There is no budget of the id nobody."],
    [["top-up", "nobody", "5"], "There is no budget of the id nobody."],
    [["usage", "nobody"], 'There is no budget of the id nobody. "polygate budgets list" lists the budgets.'],
    [["remove", "nobody"], "There is no budget of the id nobody."],
    [["assign", "nobody", "org"], 'There is no API key of the id nobody. "polygate keys list" lists the keys.'],
    [["list", "--amount", "5"], "budgets list takes no --amount."],
    [["create", "new", "--timezone", "UTC"], "Did you mean --time-zone?"],
    [["top-up", "org"], "budgets top-up needs AMOUNT. Usage: polygate budgets top-up ID AMOUNT"],
    [["migrate"], 'There is no command "budgets migrate". Did you mean "keys migrate"?'],
    [["rename", "org"], 'There is no command "budgets rename". Did you mean "budgets update ID --name NAME"?'],
    [["set", "org"], 'Did you mean "budgets update"?'],
    [["delete", "org"], 'Did you mean "budgets remove"?'],
    [["ls"], 'Did you mean "budgets list"?'],
    [["create", "new", "--tier", "gold"], "budgets create takes no --tier. It takes"],
    [["usage", "ogr"], 'There is no budget of the id ogr. Did you mean "org"?'],
    [
      ["create", "new", "--amount", "5", "--parent", "moeny"],
      'There is no budget of the id moeny. Did you mean "money"?',
    ],
    [["create", "new", "--amount", "5", "--parent", ""], "--parent must not be empty,"],
    [["create", "new", "--amount", ""], "--amount must not be empty,"],
    [["create", "new", "--amount", "-5"], "--amount must be 0 or more, not -5."],
    [["update", "org", "--name", ""], "--name must not be empty,"],
  ])("refuses %j", async (args, message) => {
    for (const id of ["org", "money"]) await budgets("create", id, "--amount", "5");
    await expect(budgets(...args)).rejects.toThrow(message);
  });
});

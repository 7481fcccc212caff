/** The gateway that `polygate init` writes, started from the sources: its models, its admin and its end. */

import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type PackageManifest, writeProject } from "../../src/admin/init.ts";
import { openStore } from "../../src/admin/open-store.ts";
import { type Playground, spawnPlayground, startPlayground } from "../clients/playground.ts";
import { linkPackages } from "../docs/stage.ts";
import { freePort } from "../package/stage.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const manifest = createRequire(import.meta.url)("../../package.json") as PackageManifest;

const PASSWORD = "correct: horse bättery";
const READ_PASSWORD = "a password to look";

/** True when the model own-1 does not answer. */
let waits = false;

/** Lists two models, and answers each chat by the name of its model. */
const upstream = createServer((req, res) => {
  void (async () => {
    const { model } = (req.method === "POST" ? await json(req) : {}) as { model?: string };
    // A chat with this model has no answer.
    if (model === "own-1" && waits) return;
    const choices = [{ index: 0, message: { role: "assistant", content: `I am ${model}.` }, finish_reason: "stop" }];
    const usage = { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 };
    const completion = { id: "1", object: "chat.completion", created: 1, model, choices, usage };
    const list = { object: "list", data: [{ id: "gpt-5" }, { id: "own-1" }] };
    res.setHeader("content-type", "application/json").end(JSON.stringify(model === undefined ? list : completion));
  })();
});

let folder: string;
let metrics: string;
let host: Playground;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "polygate-template-"));
  await writeProject({ folder, server: "express", database: "sqlite", force: false }, { manifest, root });
  const gateway = join(folder, "gateway.ts");
  const own = 'priceTable({\n  "own-1": { input: 5, output: 25 },';
  await writeFile(gateway, (await readFile(gateway, "utf8")).replace("priceTable({", own));
  await linkPackages(folder);
  await once(upstream.listen(0, "127.0.0.1"), "listening");
  metrics = await freePort();
  const env = {
    MODELS: "gpt-5, own-1, unpriced-1",
    METRICS_PORT: metrics,
    ADMIN_PASSWORD: PASSWORD,
    ADMIN_READ_PASSWORD: READ_PASSWORD,
    UPSTREAM_URL: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`,
    FALLBACK_URL: "http://127.0.0.1:1/v1",
    FALLBACK_MODEL: "other-1",
    POLYGATE_STORE: "sqlite:gateway.db",
  };
  host = await startPlayground(env, [process.execPath, "server.ts"], folder);
  // The gateway has made the tables.
  const opened = await openStore(`sqlite:${join(folder, "gateway.db")}`);
  await opened.store.addBudget({ id: "blue", name: "Blue team", amount: 1_000_000 });
  await opened.store.add({ id: "team-a", apiKey: "sk-team-a", budget: "blue" });
  await opened.close();
});
afterAll(async () => {
  host?.process.child.kill("SIGKILL");
  upstream.close();
  upstream.closeAllConnections();
  await rm(folder, { recursive: true, force: true });
});

const client = (): OpenAI => new OpenAI({ apiKey: "sk-team-a", baseURL: `${host.url}/v1`, maxRetries: 0 });
const ask = (model: string, content = "Hello") => ({ model, messages: [{ role: "user" as const, content }] });

it("lists the models of MODELS, answers them, and names each in the metrics", async () => {
  const ids = (await client().models.list()).data.map(({ id }) => id);
  expect(ids).toEqual(["gpt-5", "own-1", "unpriced-1"]);
  for (const model of ids.slice(0, 2))
    expect((await client().chat.completions.create(ask(model))).choices[0]?.message.content).toBe(`I am ${model}.`);
  for (const model of ["gpt-4", "unpriced-1"])
    await expect(client().chat.completions.create(ask(model))).rejects.toMatchObject({ status: 404 });
  const text = await (await fetch(`http://127.0.0.1:${metrics}/metrics`)).text();
  const labels = text.matchAll(/^polygate_call_units_total\{.*gen_ai_request_model="([^"]*)"/gm);
  expect(Array.from(labels, ([, model = ""]) => model).toSorted()).toEqual(ids.slice(0, 2));
  expect(text).toMatch(
    /^polygate_budget_granted\{.*polygate_budget="blue",polygate_budget_name="Blue team".*\} 1000000$/m,
  );
  expect(text).toMatch(/^polygate_spend_total\{.*polygate_budget="blue".*\} 0$/m);
});

it("names each model of MODELS without a price at the start, and no other", () => {
  const named = host.process.errors().match(/^gateway\.ts: .*$/gm);
  expect(named).toEqual([
    expect.stringMatching(
      /^gateway\.ts: priceTable has no row for the model "unpriced-1"\. Its calls are refused\. Add /,
    ),
  ]);
});

const basic = (text: string): string => `Basic ${Buffer.from(text).toString("base64")}`;

const admin = (path: string, authorization?: string): Promise<Response> =>
  fetch(new URL(`/admin${path}`, host.url), { headers: { ...(authorization && { authorization }) } });

it("shows its admin to users with the password, and to nobody else", async () => {
  const strangers = [
    undefined,
    "Basic",
    "Basic !",
    basic("ann:"),
    basic("ann:wrong"),
    basic(PASSWORD),
    "Bearer sk-team-a",
  ];
  for (const stranger of strangers)
    for (const path of ["", "/keys", "/audit"]) {
      const { status, headers } = await admin(path, stranger);
      expect([stranger, status, headers.get("www-authenticate")]).toEqual([
        stranger,
        401,
        expect.stringMatching(/^Basic /),
      ]);
    }
  const ann = basic(`ann:${PASSWORD}`);
  expect(await (await admin("/keys", ann)).json()).toMatchObject({ data: [{ id: "team-a" }] });
  expect(await (await admin("/me", ann)).json()).toMatchObject({ name: "ann" });
  expect((await admin("/usage?by=model", ann)).status).toBe(200);
});

const rename = (authorization: string): Promise<Response> =>
  fetch(new URL("/admin/budgets/blue", host.url), {
    method: "PATCH",
    headers: { authorization, "content-type": "application/json" },
    body: '{"name": "Blue team"}',
  });

it("shows its admin to users with the other password, who change nothing", async () => {
  const finn = basic(`finn:${READ_PASSWORD}`);
  expect(await (await admin("/me", finn)).json()).toMatchObject({ name: "finn", readOnly: true });
  for (const path of ["/usage?by=budget&format=csv", "/keys", "/budgets/blue", "/audit"])
    expect([path, (await admin(path, finn)).status]).toEqual([path, 200]);
  expect((await rename(finn)).status).toBe(403);
  expect((await rename(basic(`ann:${PASSWORD}`))).status).toBe(200);
});

const own = { PORT: "0", UPSTREAM_URL: "http://127.0.0.1:1/v1", POLYGATE_STORE: "sqlite::memory:" };

it("has a closed admin without a password, and names the variable", async () => {
  const closed = await startPlayground(
    { ...own, ADMIN_PASSWORD: "", ADMIN_READ_PASSWORD: "" },
    [process.execPath, "server.ts"],
    folder,
  );
  const answers = [basic("ann:"), basic("ann:undefined")].map((authorization) =>
    fetch(new URL("/admin/keys", closed.url), { headers: { authorization } }),
  );
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([403, 403]);
  const page = await fetch(new URL("/admin", closed.url), { headers: { accept: "text/html" } });
  expect([page.status, await page.text()]).toEqual([403, expect.stringContaining("Set ADMIN_PASSWORD to 16")]);
  await closed.stop();
});

it.each<[variable: string, value: string, line: string]>([
  [
    "UPSTREAM_URL",
    "",
    "UPSTREAM_URL is missing: the upstream's address, such as https://api.openai.com/v1. Set it in .env",
  ],
  ["UPSTREAM_URL", "localhost/v1", "UPSTREAM_URL, UPSTREAM_FORMAT or UPSTREAM_KEY cannot be used. relay: baseUrl "],
  [
    "UPSTREAM_FORMAT",
    "chat",
    "UPSTREAM_URL, UPSTREAM_FORMAT or UPSTREAM_KEY cannot be used. relay: format must be one of ",
  ],
  [
    "FALLBACK_URL",
    "http://me:secret@host",
    "FALLBACK_URL, FALLBACK_FORMAT or FALLBACK_KEY cannot be used. relay: baseUrl ",
  ],
  ["POLYGATE_STORE", "", "POLYGATE_STORE is missing: the database with the keys, such as sqlite:gateway.db. "],
  ["POLYGATE_STORE", "sqlite:/nowhere/a.db", "POLYGATE_STORE cannot be used. openStores: There is no folder /nowhere "],
  ["POLYGATE_STORE", "redis://me:secret@host", "POLYGATE_STORE must be SQLite, PostgreSQL or MySQL: "],
  ["ADMIN_PASSWORD", "secret", "ADMIN_PASSWORD needs 16 characters or more."],
  ["ADMIN_READ_PASSWORD", "secret", "ADMIN_READ_PASSWORD needs 16 characters or more."],
  ["ADMIN_READ_PASSWORD", PASSWORD, "ADMIN_READ_PASSWORD must not be ADMIN_PASSWORD."],
  ["PORT", "http", 'PORT must be a port from 0 to 65535, such as 3000, not "http".'],
  ["HOST", "192.0.2.1", "HOST and PORT cannot be used. listen EADDRNOTAVAIL"],
  ["METRICS_PORT", "65536", 'METRICS_PORT must be a port from 0 to 65535, such as 3000, not "65536".'],
  ["METRICS_PORT", "used", "HOST and METRICS_PORT cannot be used. listen EADDRINUSE"],
  ["OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318", "OTEL_EXPORTER_OTLP_ENDPOINT must be an address such as "],
])("does not start with %s=%s, and says so in one line", async (variable, value, line) => {
  const env = { ...own, ADMIN_PASSWORD: PASSWORD, [variable]: value === "used" ? metrics : value };
  const started = spawnPlayground(env, [process.execPath, "server.ts"], folder);
  expect(await started.ended).toEqual({ code: 1, signal: null });
  expect(started.errors()).toContain(line);
  expect(started.errors()).toMatch(/^.+\n$/);
  expect(started.errors()).not.toContain("secret");
});

/** The number of calls in flight, as the admin shows it. */
const calls = async (): Promise<number> =>
  ((await (await admin("/health", basic(`ann:${PASSWORD}`))).json()) as { calls: number }).calls;

it("says how many calls it waits for when it is told to end, and ends at once when it is told again", async () => {
  waits = true;
  const call = client()
    .chat.completions.create(ask("own-1"))
    .catch((error: Error) => error.name);
  await expect.poll(calls).toBe(1);
  host.process.child.kill("SIGTERM");
  await expect.poll(host.process.output).toContain("\nEnding. Calls in flight: 1; waiting up to 60 s.\n");
  host.process.child.kill("SIGINT");
  expect(await host.process.ended).toEqual({ code: 1, signal: null });
  expect(await call).toBe("Error");
});

it("passes its own tests, on Node and on Bun", async () => {
  for (const [command, args] of [
    [process.execPath, ["--test", "*.test.ts"]],
    [join(root, "node_modules/.bin/bun"), ["test"]],
  ] as const) {
    const { stdout, stderr } = await promisify(execFile)(command, args, { cwd: folder });
    expect(`${stdout}${stderr}`).toMatch(/pass 2|2 pass/);
  }
});

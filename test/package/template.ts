/** Tests of `polygate init` in the packed package: writes gateways, installs their packages from the registry, and runs them. */

import { once } from "node:events";
import { readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { json } from "node:stream/consumers";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore } from "../../src/admin/open-store.ts";
import { type Playground, startPlayground, usageOf } from "../clients/playground.ts";
import { post } from "../clients/wire.ts";
import { databases, type NewDatabase, newPostgres } from "../stores/sql/databases.ts";
import { freePort, type PackageStage, ROOT, run } from "./stage.ts";

const hasPostgres = databases.some(({ name, available }) => name === "PostgreSQL" && available);

const BIN = join(ROOT, "node_modules", ".bin");

/** All other choices than the default. */
const OTHERS = [
  ["fastify", "sqlite"],
  ["bun", "sqlite"],
  ["express", "postgres"],
  ["fastify", "postgres"],
  ["bun", "postgres"],
] as const;

/** The cost of the upstream's answer in millionths of a dollar: 11 tokens for 5 dollars a million, and 3 for 25 dollars. */
const COST = 11 * 5 + 3 * 25;

/** Keys that call one after the other, each far below its rate. */
const LANES: readonly string[] = Array.from({ length: 24 }, (_, index) => `load-${index}`);

const ANSWER = { id: "1", created: 1, model: "upstream-1" };
const USAGE = { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 };

interface Question {
  readonly stream?: boolean;
  readonly messages?: readonly unknown[];
}

/** Welcomes each caller, and collects traces. Addresses below `/down` always fail, and a stream for "Slowly" waits in its middle. */
class Upstream {
  #released = Promise.withResolvers<void>();
  readonly #server = createServer((req, res) => void this.#answer(req, res));
  /** The address without a path. */
  url = "";
  /** The traces that were sent to it, as JSON. */
  traces = "";

  async start(): Promise<void> {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Lets the streams end that wait in their middle. Later ones wait again. */
  release(): void {
    this.#released.resolve();
    this.#released = Promise.withResolvers();
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const question = req.method === "POST" ? ((await json(req)) as Question) : undefined;
    if (req.url === "/v1/traces") {
      this.traces += JSON.stringify(question);
      res.end("{}");
    } else if (req.url?.startsWith("/down")) res.writeHead(500).end();
    else if (req.headers.authorization !== "Bearer sk-up") res.writeHead(401).end();
    else if (question?.stream) await this.#stream(question, res);
    else {
      const message = { role: "assistant", content: "Welcome." };
      const choices = [{ index: 0, message, finish_reason: "stop" }];
      const completion = { ...ANSWER, object: "chat.completion", choices, usage: USAGE };
      res.writeHead(200, { "content-type": "application/json" });
      res.end(
        JSON.stringify(question ? completion : { object: "list", data: [{ id: "upstream-1" }, { id: "second-1" }] }),
      );
    }
  }

  async #stream({ messages }: Question, res: ServerResponse): Promise<void> {
    const send = (delta: object, finish_reason: string | null, usage?: object): void => {
      const choices = [{ index: 0, delta, finish_reason }];
      res.write(`data: ${JSON.stringify({ ...ANSWER, object: "chat.completion.chunk", choices, usage })}\n\n`);
    };
    res.writeHead(200, { "content-type": "text/event-stream" });
    send({ role: "assistant", content: "Wel" }, null);
    if (JSON.stringify(messages).includes("Slowly")) await this.#released.promise;
    send({ content: "come." }, null);
    send({}, "stop", USAGE);
    res.end("data: [DONE]\n\n");
  }
}

/** Runs a program, expects its success, and returns its output. */
async function succeed(command: string, args: readonly string[], cwd: string): Promise<string> {
  const { code, output } = await run(command, args, cwd);
  expect({ code, output }).toEqual({ code: 0, output });
  return output;
}

function rowsOf(file: string): Record<string, unknown>[] {
  using database = new DatabaseSync(file);
  return database.prepare("SELECT *, model_answered AS answered FROM polygate_calls ORDER BY at").all();
}

const clientOf = ({ url }: Playground, apiKey: string): OpenAI =>
  new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 });

/** Tells a host to end in the middle of a stream, waits for the end of both, and returns the text of the stream. */
async function stopInStream(host: Playground, apiKey: string, upstream: Upstream): Promise<string> {
  let text = "";
  let stopped: Promise<void> | undefined;
  for await (const { choices } of await clientOf(host, apiKey).chat.completions.create({
    ...asking("Slowly"),
    stream: true,
  })) {
    text += choices[0]?.delta.content ?? "";
    if (stopped) continue;
    stopped = host.stop();
    await expect.poll(async () => (await fetch(new URL("/readyz", host.url))).status).toBe(503);
    upstream.release();
  }
  await stopped;
  return text;
}

const asking = (content: string) => ({ model: "any", messages: [{ role: "user" as const, content }] });

export function templateSuite(stage: () => PackageStage): void {
  const upstream = new Upstream();
  /** The project of the default choices, with its packages. */
  let folder: string;
  let upstreamEnv: Readonly<Record<string, string>>;

  /** Writes a project, and prices all models in it. */
  const init = async (target: string, ...args: string[]): Promise<void> => {
    const cli = join(stage().project, "node_modules/polygate/dist/server/cli.js");
    const place = dirname(stage().project);
    await succeed(process.execPath, [cli, "init", target, ...args], place);
    const gateway = resolve(place, target, "gateway.ts");
    const text = await readFile(gateway, "utf8");
    await writeFile(gateway, text.replace("priceTable({", 'priceTable({\n  "*": { input: 5, output: 25 },'));
  };
  const install = (...args: string[]): Promise<string> =>
    succeed("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", ...args], folder);
  const polygate = (...args: string[]): Promise<string> =>
    succeed("npm", ["run", "--silent", "polygate", "--", ...args, "--store", "sqlite:gateway.db"], folder);
  const rows = (): Record<string, unknown>[] => rowsOf(join(folder, "gateway.db"));

  describe("polygate init", () => {
    beforeAll(async () => {
      await upstream.start();
      upstreamEnv = { UPSTREAM_URL: `${upstream.url}/v1`, UPSTREAM_KEY: "sk-up" };
      folder = join(dirname(stage().project), "gateway");
      await init("gateway", "--yes");
      await install(stage().tarball);
    });
    afterAll(() => {
      upstream.release();
      upstream.close();
    });

    describe("with its defaults: Express and SQLite", () => {
      let host: Playground;
      let metrics: string;
      let apiKey: string;

      beforeAll(async () => {
        await polygate("keys", "migrate");
        const created = await polygate("keys", "create", "--id", "team-a", "--granted", "5000000", "--json");
        ({ apiKey } = JSON.parse(created) as { apiKey: string });
        metrics = await freePort();
        const env = {
          ...upstreamEnv,
          FALLBACK_URL: `${upstream.url}/second/v1`,
          FALLBACK_KEY: "sk-up",
          FALLBACK_MODEL: "second-1",
          METRICS_PORT: metrics,
          OTEL_EXPORTER_OTLP_ENDPOINT: upstream.url,
          POLYGATE_STORE: "sqlite:gateway.db",
        };
        host = await startPlayground(env, [process.execPath, "server.ts"], folder);
      });
      afterAll(() => void host?.process.child.kill("SIGKILL"));

      const openai = (): OpenAI => clientOf(host, apiKey);

      it("compiles", async () => {
        expect(await succeed("npm", ["run", "--silent", "check"], folder)).toBe("");
      });

      it("passes its own tests", async () => {
        expect(await succeed("npm", ["test"], folder)).toContain("pass 2");
      });

      it("serves official clients, complete and streamed, and writes a row for each call", async () => {
        const complete = await openai().chat.completions.create(asking("Hello"));
        expect(complete.choices[0]?.message.content).toBe("Welcome.");
        let streamed = "";
        for await (const { choices } of await openai().chat.completions.create({ ...asking("Hello"), stream: true }))
          streamed += choices[0]?.delta.content ?? "";
        expect(streamed).toBe("Welcome.");
        const anthropic = new Anthropic({ apiKey, baseURL: host.url, maxRetries: 0 });
        const message = await anthropic.messages.create({ ...asking("Hello"), max_tokens: 100 });
        expect(message.content).toMatchObject([{ text: "Welcome." }]);
        const tokens = { answered: "upstream-1", upstream: "primary", input_tokens: 11, output_tokens: 3 };
        const row = { key_id: "team-a", ...tokens, units: COST, estimated: 0, outcome: "completed" };
        await expect.poll(rows).toMatchObject([row, row, row]);
        expect(JSON.parse(await polygate("keys", "usage", "team-a", "--json"))).toMatchObject({ used: 3 * COST });
        expect(await (await fetch(`http://127.0.0.1:${metrics}/metrics`)).text()).toContain("polygate_units_charged");
      });

      it("refuses an unknown key", async () => {
        const stranger = clientOf(host, "sk-nobody");
        await expect(stranger.chat.completions.create(asking("Hello"))).rejects.toThrow(OpenAI.AuthenticationError);
        await expect.poll(() => rows().at(-1)).toMatchObject({ key_id: "", units: 0, outcome: "refused" });
      });

      it("tells its health", async () => {
        const alive = await fetch(new URL("/healthz", host.url));
        expect([alive.status, await alive.json()]).toEqual([200, { ok: true }]);
        const ready = await fetch(new URL("/readyz", host.url));
        // Anybody may ask: the names of the upstreams are shown in the admin alone.
        expect([ready.status, await ready.json()]).toEqual([200, { ready: true }]);
      });

      it("lets a stream end when it is told to end, and ends then, after its traces are sent", async () => {
        expect(await stopInStream(host, apiKey, upstream)).toBe("Welcome.");
        expect(upstream.traces).toContain('{"key":"service.name","value":{"stringValue":"gateway"}}');
        expect(upstream.traces.match(/"name":"chat"/g)?.length).toBeGreaterThan(1);
        expect(rows().at(-1)).toMatchObject({ key_id: "team-a", units: COST, outcome: "completed" });
        expect(host.process.errors()).toBe("");
      });

      it("asks the second upstream when the first one fails, and warns of a budget that is nearly spent", async () => {
        await polygate("budgets", "create", "team", "--amount", String(COST + 20), "--currency", "");
        await polygate("budgets", "assign", "team-a", "team");
        const first = { UPSTREAM_URL: `${upstream.url}/down/v1`, POLYGATE_STORE: "sqlite:gateway.db" };
        const second = { FALLBACK_URL: `${upstream.url}/v1`, FALLBACK_KEY: "sk-up" };
        host = await startPlayground({ ...first, ...second }, [process.execPath, "server.ts"], folder);
        const { choices } = await openai().chat.completions.create(asking("Hello"));
        expect(choices[0]?.message.content).toBe("Welcome.");
        await host.stop();
        expect(rows().at(-1)).toMatchObject({ upstream: "fallback", units: COST, outcome: "completed" });
        expect(host.process.errors()).toMatch(/^Upstream primary: /m);
        expect(host.process.errors()).toMatch(/^The budget team has reached 80 %\.$/m);
      });
    });

    describe("with other choices", () => {
      /** Stands below the default's folder, and finds its packages there. */
      const targetOf = (...choices: readonly string[]): string => join(others, choices.join("-"));
      let others: string;
      let database: NewDatabase | undefined;

      beforeAll(async () => {
        others = join(folder, "others");
        if (hasPostgres) database = await newPostgres();
        const packages = new Set<string>();
        for (const [server, database] of OTHERS) {
          const target = targetOf(server, database);
          await init(target, "--server", server, "--database", database);
          const manifest = await readFile(join(target, "package.json"), "utf8");
          const { dependencies, devDependencies } = JSON.parse(manifest) as Record<string, Record<string, string>>;
          for (const [name, range] of Object.entries({ ...dependencies, ...devDependencies }))
            if (name !== "polygate") packages.add(`${name}@${range}`);
        }
        await install("--no-save", ...packages);
      });
      afterAll(() => database?.remove());

      it.each(OTHERS)("%s and %s compile", async (server, database) => {
        const tsc = join(folder, "node_modules/typescript/bin/tsc");
        expect(await succeed(process.execPath, [tsc, "--noEmit"], targetOf(server, database))).toBe("");
      });

      it.each(OTHERS)("%s and %s pass their own tests", async (server, database) => {
        const target = targetOf(server, database);
        // Bun tells on its error output what has passed.
        const tested = server === "bun" ? `${join(BIN, "bun")} test 2>&1` : "npm test";
        expect(await succeed("sh", ["-c", tested], target)).toMatch(/pass 2|2 pass/);
      });

      it.each(OTHERS.filter(([, kind]) => hasPostgres || kind === "sqlite"))(
        "%s and %s answer a call, tell their health, and let a stream end before they end",
        async (server, kind) => {
          const target = targetOf(server, kind);
          const address = kind === "sqlite" ? "sqlite:gateway.db" : (database?.address ?? "");
          const runtime = server === "bun" ? join(BIN, "bun") : process.execPath;
          const keys = (...args: string[]): Promise<string> => {
            const cli = join(folder, "node_modules/polygate/dist/server/cli.js");
            return succeed(runtime, [cli, "keys", ...args, "--store", address, "--json"], target);
          };
          await keys("migrate");
          const { apiKey } = JSON.parse(await keys("create", "--id", server)) as { apiKey: string };
          const password = "a password of 16 characters or more";
          const env = { ...upstreamEnv, POLYGATE_STORE: address, ADMIN_PASSWORD: password };
          const host = await startPlayground(env, [runtime, "server.ts"], target);
          try {
            const login = { authorization: `Basic ${Buffer.from(`ann:${password}`).toString("base64")}` };
            const pages = [{}, login].map((headers) => fetch(new URL("/admin", host.url), { headers }));
            const [closed, open] = await Promise.all((await Promise.all(pages)).map((page) => page.text()));
            expect([closed, open]).toEqual(["Log in.", expect.stringContaining("<title>polygate</title>")]);
            const response = await post(host.url, "Hello", { apiKey });
            expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("Welcome.")]);
            expect((await fetch(new URL("/healthz", host.url))).status).toBe(200);
            expect(await (await fetch(new URL("/readyz", host.url))).json()).toMatchObject({ ready: true });
            for (const path of ["/nothing", "/ai/v1/v1/chat/completions", "/v1/chat/completions"]) {
              const wrong = await fetch(new URL(path, host.url), { method: "POST", body: "{}" });
              const { error } = (await wrong.json()) as { error: { message: string } };
              expect([path, wrong.status]).toEqual([path, 404]);
              expect(error.message).toContain("with /ai/v1 for those of OpenAI");
              expect(error.message.includes("Did you mean POST /ai/v1/chat/completions?")).toBe(path !== "/nothing");
            }
            expect(JSON.parse(await keys("usage", server))).toMatchObject({ used: COST });
            expect(await stopInStream(host, apiKey, upstream)).toBe("Welcome.");
            // The mount for Express tells the host of a wrong base URL, once.
            const warning = /^\(node:\d+\) PolygateWarning: A request of a client missed the gateway.*\n.*\n$/;
            expect(host.process.errors()).toMatch(server === "express" ? warning : /^$/);
          } finally {
            host.process.child.kill("SIGKILL");
          }
        },
      );

      it("starts by its script with the values of .env, and says that an address is wrong without its password", async () => {
        const values = [`UPSTREAM_URL=${upstream.url}/v1`, "POLYGATE_STORE=postgres://me:sec/ret@127.0.0.1"];
        const target = targetOf("express", "postgres");
        await writeFile(join(target, ".env"), values.join("\n"));
        const { code, output } = await run("npm", ["start", "--silent"], target);
        await rm(join(target, ".env"));
        const cause =
          "POLYGATE_STORE cannot be used. openStores: The address of the store is no valid URL that begins with";
        expect({ code, output }).toEqual({ code: 1, output: expect.stringContaining(cause) });
        expect(output).not.toMatch(/sec\b|ret@/);
      });

      describe.skipIf(!hasPostgres)("on PostgreSQL", () => {
        let client: Client;
        let host: Playground;

        beforeAll(async () => {
          const address = database?.address ?? "";
          client = new Client({ connectionString: address });
          await client.connect();
          const env = { ...upstreamEnv, POLYGATE_STORE: address };
          host = await startPlayground(env, [process.execPath, "server.ts"], targetOf("express", "postgres"));
          const opened = await openStore(address);
          await opened.store.add({ id: "team", apiKey: "sk-team", granted: 100_000 });
          await opened.store.add({ id: "busy", apiKey: "sk-busy" });
          for (const id of LANES) await opened.store.add({ id, apiKey: `sk-${id}` });
          await opened.close();
        });
        afterAll(async () => {
          host?.process.child.kill("SIGKILL");
          await client?.end();
        });

        it("charges what the upstream has counted", async () => {
          expect((await post(host.url, "Hello", { apiKey: "sk-team" })).status).toBe(200);
          expect((await post(host.url, "Hello", { apiKey: "sk-nobody" })).status).toBe(401);
          const left = { total_used: COST, total_available: 100_000 - COST };
          expect(await usageOf(host.url, "sk-team")).toMatchObject(left);
        });

        it("refuses what is over the rate", async () => {
          expect((await post(host.url, "Hello", { apiKey: "sk-busy" })).status).toBe(200);
          // As if it had been the last one of this hour.
          const { rowCount } = await client.query(
            `UPDATE polygate_rates SET points = 60, expire = $1 WHERE key LIKE '%requests%busy%'`,
            [Date.now() + 3_600_000],
          );
          expect(rowCount).toBe(1);
          const refused = await post(host.url, "Hello", { apiKey: "sk-busy" });
          expect([refused.status, refused.headers.get("anthropic-ratelimit-requests-remaining")]).toEqual([429, "0"]);
          const other = await post(host.url, "Hello", { apiKey: "sk-team" });
          expect(other.status, "another key is not held back").toBe(200);
        });

        it("survives the loss of its connections under load, and bills what it has charged", async () => {
          const statuses: Record<number, number> = {};
          const over = new AbortController();
          const lane = async (apiKey: string): Promise<void> => {
            while (!over.signal.aborted) {
              const status = await post(host.url, "Hello", { apiKey }).then(
                async (response) => (await response.arrayBuffer(), response.status),
                () => 0,
              );
              statuses[status] = (statuses[status] ?? 0) + 1;
            }
          };
          const answered = (): number => statuses[200] ?? 0;
          const load = Promise.all(LANES.map((key) => lane(`sk-${key}`)));
          const others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
          for (let cuts = 0; cuts < 3 || !statuses[503]; cuts++) {
            const before = answered();
            await expect.poll(() => answered() > before || host.process.child.exitCode !== null).toBe(true);
            await client.query(`SELECT pg_terminate_backend(pid) ${others}`);
            expect({ code: host.process.child.exitCode, errors: host.process.errors() }).toMatchObject({ code: null });
          }
          const before = answered();
          await expect.poll(() => answered() > before + LANES.length).toBe(true);
          over.abort();
          await load;
          expect(Object.keys(statuses)).toEqual(["200", "503"]);
          const billed = `SELECT sum(units)::int AS units, count(*)::int AS calls FROM polygate_calls WHERE key_id LIKE 'load-%' AND units > 0`;
          const charged = `SELECT sum(charged)::int AS charged FROM polygate_keys WHERE id LIKE 'load-%'`;
          await expect
            .poll(async () => [(await client.query(billed)).rows[0], (await client.query(charged)).rows[0]])
            .toEqual([{ units: COST * answered(), calls: answered() }, { charged: COST * answered() }]);
        });

        it("has written a row for each call when it ends, also where the table came back late", async () => {
          await client.query("ALTER TABLE polygate_calls RENAME TO calls_elsewhere");
          expect((await post(host.url, "Hello", { apiKey: "sk-team" })).status).toBe(200);
          const stopped = host.stop();
          const isOpen = (): Promise<boolean> =>
            fetch(new URL("/healthz", host.url)).then(
              () => true,
              () => false,
            );
          await expect.poll(isOpen).toBe(false);
          await client.query("ALTER TABLE calls_elsewhere RENAME TO polygate_calls");
          await stopped;
          const { rows } = await client.query(
            `SELECT key_id, model_answered AS model, upstream, input_tokens, output_tokens, units, estimated, outcome, count(*) AS calls
             FROM polygate_calls WHERE key_id IN ('busy', 'team', '') AND outcome <> 'failed'
             GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY key_id, outcome, units`,
          );
          const tokens = { model: "upstream-1", upstream: "primary", input_tokens: "11", output_tokens: "3" };
          const told = { ...tokens, units: String(COST), estimated: "0" };
          expect(rows).toMatchObject([
            { key_id: "", units: "0", outcome: "refused", calls: "1" },
            { key_id: "busy", ...told, outcome: "completed", calls: "1" },
            { key_id: "busy", units: "0", outcome: "refused", calls: "1" },
            { key_id: "team", ...told, outcome: "completed", calls: "3" },
          ]);
        });
      });
    });
  });
}

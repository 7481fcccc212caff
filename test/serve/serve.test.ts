/** `polygate serve`: a gateway of a file, on its stores, with its health and admin, until it is told to end. */

import { execFile } from "node:child_process";
import { on, once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { openStore } from "../../src/admin/open-store.ts";
import { scriptedBackend, testGateway } from "../../src/testing/index.ts";
import { type Playground, spawnPlayground, startPlayground, usageOf } from "../clients/playground.ts";
import { databases, type NewDatabase, newPostgres } from "../stores/sql/databases.ts";
import type { Ended, Wrong } from "./wrong.ts";

const ROOT = new URL("../../", import.meta.url);
const CLI = fileURLToPath(new URL("src/cli.ts", ROOT));

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "polygate-serve-"))));
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Returns the text of a configuration, with imports from the sources. */
function withImports(text: string): string {
  const imports = [
    `import { defineServer } from "${new URL("src/serve/index.ts", ROOT).href}";`,
    `import { demoModel } from "${new URL("src/demo/backend.ts", ROOT).href}";`,
    `import { priceTable } from "${new URL("src/prices/index.ts", ROOT).href}";`,
  ];
  return `${imports.join("\n")}\n${text}\n`;
}

/** Writes a configuration that imports from the sources. */
async function written(name: string, text: string): Promise<string> {
  await writeFile(join(folder, name), withImports(text));
  return name;
}

const RELAY = `import { relay } from "${new URL("src/upstreams/relay/index.ts", ROOT).href}";`;
const DEFINE = "export default defineServer";
const MADE = `(await import("${new URL("src/index.ts", ROOT).href}")).createGateway({ backend: demoModel(), quotas: { find() {}, balance() {}, reserve() {}, renew() {}, settle() {} } })`;

const GATEWAY = `export default defineServer({
  gateway: () => ({ backend: demoModel(), ...priceTable({ "*": { input: 1, output: 1 } }) }),
  prefix: "/ai",
  admin: { authorize: ({ headers }) => (headers.get("x-user") ? { name: "ann" } : undefined) },
  onClose: () => console.log("closed"),
});`;

const sqlite = async (): Promise<NewDatabase> => ({
  address: `sqlite:${join(folder, "gateway.db")}`,
  remove: async () => {},
});

const hasPostgres = databases.some(({ name, available }) => name === "PostgreSQL" && available);

const STORES = [
  { name: "SQLite", available: true, place: sqlite },
  { name: "PostgreSQL", available: hasPostgres, place: newPostgres },
];

const objectsIn = (text: string): object[] =>
  text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as object);

const ask = (content: string): OpenAI.ChatCompletionCreateParamsNonStreaming => ({
  model: "demo-chat",
  messages: [{ role: "user", content }],
});

describe.each(STORES)("polygate serve on $name", ({ available, place: newPlace }) => {
  describe.skipIf(!available)("when it answers", () => {
    let place: NewDatabase;
    let server: Playground;
    let origin: string;

    beforeAll(async () => {
      place = await newPlace();
      const file = await written("gateway.ts", GATEWAY);
      server = await startPlayground(
        { POLYGATE_STORE: place.address },
        [process.execPath, CLI, "serve", file, "--port", "0"],
        folder,
      );
      origin = new URL(server.url).origin;
      const opened = await openStore(place.address);
      await opened.store.add({ id: "team-a", apiKey: "sk-team-a", granted: 1_000_000 });
      await opened.close();
    });
    afterAll(async () => {
      server?.process.child.kill("SIGKILL");
      await place?.remove();
    });

    const client = (): OpenAI => new OpenAI({ apiKey: "sk-team-a", baseURL: `${server.url}/v1`, maxRetries: 0 });
    const admin = (path: string, user = "ann"): Promise<Response> =>
      fetch(`${origin}/admin${path}`, { headers: { ...(user && { "x-user": user }) }, redirect: "manual" });

    it("says where it is and what it serves", () => {
      expect(server.process.output()).toMatch(
        /^polygate serves http:\/\/127\.0\.0\.1:\d+\/ai \(health at \/healthz and \/readyz, admin at \/admin\)\n$/,
      );
    });

    it("answers an official SDK, and charges the call", async () => {
      const { choices } = await client().chat.completions.create(ask("Hello"));
      expect(choices[0]?.message.content).toBe("You said: Hello");
      expect(await usageOf(server.url, "sk-team-a")).toMatchObject({ total_granted: 1_000_000 });
      expect((await usageOf(server.url, "sk-team-a")).total_used).toBeGreaterThan(0);
    });

    it("takes WebSockets of the responses format", async () => {
      const socket = new WebSocket(`${server.url.replace("http", "ws")}/v1/responses`, {
        headers: { authorization: "Bearer sk-team-a" },
      });
      await once(socket, "open");
      socket.send(JSON.stringify({ type: "response.create", model: "demo-chat", input: "Hello" }));
      const types: unknown[] = [];
      for await (const [message] of on(socket, "message") as AsyncIterable<[Buffer]>) {
        types.push((JSON.parse(message.toString()) as { type: unknown }).type);
        if (types.at(-1) === "response.completed") break;
      }
      expect(types).toContain("response.created");
      socket.close();
    });

    it("answers a client that asks for HTTP/2 as usual, and keeps its idle connection for longer than load balancers", async () => {
      const { port, hostname } = new URL(origin);
      const asked = request({
        port,
        hostname,
        path: "/healthz",
        headers: { connection: "Upgrade, HTTP2-Settings", upgrade: "h2c" },
      });
      const [response] = (await once(asked.end(), "response")) as [IncomingMessage];
      expect(response.statusCode).toBe(200);
      response.destroy();
      expect((await fetch(`${origin}/healthz`)).headers.get("keep-alive")).toBe("timeout=72");
    });

    it("tells its health", async () => {
      const [alive, ready] = await Promise.all(["/healthz", "/readyz"].map((path) => fetch(origin + path)));
      expect([alive?.status, await alive?.json()]).toEqual([200, { ok: true }]);
      expect([ready?.status, await ready?.json()]).toEqual([200, { ready: true }]);
    });

    it("shows the upstreams and the calls in flight only to whom its login knows", async () => {
      const [stranger, known] = [await admin("/health", ""), await admin("/health")];
      expect([stranger.status, await stranger.text()]).toEqual([401, expect.not.stringContaining("upstreams")]);
      expect(await known.json()).toMatchObject({ ready: true, calls: 0, upstreams: [] });
    });

    it("makes a change once at all of its processes", async () => {
      const other = await startPlayground(
        { POLYGATE_STORE: place.address },
        [process.execPath, CLI, "serve", join(folder, "gateway.ts"), "--port", "0"],
        folder,
      );
      const headers = {
        "x-user": "ann",
        "content-type": "application/json",
        "idempotency-key": "click",
        confirm: "true",
      };
      const replayed: unknown[] = [];
      for (const at of [origin, new URL(other.url).origin]) {
        const body = JSON.stringify({ units: 1_000 });
        const answer = await fetch(`${at}/admin/keys/team-a/grant`, { method: "POST", headers, body });
        expect(await answer.json()).toMatchObject({ granted: 1_001_000 });
        replayed.push(answer.headers.get("idempotency-replayed"));
      }
      other.process.child.kill("SIGKILL");
      expect(replayed).toEqual([null, "true"]);
    });

    it("serves the admin to whom its login knows", async () => {
      expect((await admin("/keys", "")).status).toBe(401);
      expect(await (await admin("/keys")).json()).toMatchObject({ data: [{ id: "team-a" }] });
      for (const path of ["/budgets", "/calls", "/usage", "/audit", "/live"])
        expect((await admin(path)).status).toBe(200);
    });

    it("names the right base URLs to a client with a wrong one", async () => {
      const wrong = new OpenAI({ apiKey: "sk-team-a", baseURL: `${server.url}/v1/v1`, maxRetries: 0 });
      await expect(wrong.chat.completions.create(ask("Hello"))).rejects.toMatchObject({
        status: 404,
        message: expect.stringContaining("Did you mean POST /ai/v1/chat/completions?"),
      });
    });

    it("lets a call finish when it is told to end, refuses new ones, and records it", async () => {
      const stream = await client().chat.completions.create({ ...ask("/delay 50 /repeat 10"), stream: true });
      const pieces = stream[Symbol.asyncIterator]();
      await pieces.next();
      server.process.child.kill("SIGTERM");
      await expect.poll(async () => (await fetch(`${origin}/readyz`)).status).toBe(503);
      expect((await fetch(`${origin}/healthz`)).status).toBe(200);
      await expect(client().chat.completions.create(ask("Hello"))).rejects.toMatchObject({ status: 503 });
      let text = "";
      for await (const { choices } of { [Symbol.asyncIterator]: () => pieces }) text += choices[0]?.delta.content ?? "";
      expect(text.trim().split(" ").length).toBeGreaterThanOrEqual(9);
      expect(await server.process.ended).toEqual({ code: 0, signal: null });
      const line = "1 call in flight; waiting up to 60 s. A second signal ends at once.";
      expect(server.process.output()).toMatch(
        new RegExp(`\n${line}\nThe last call has ended\\.\nclosed\nStopped\\.\n$`),
      );
      expect(server.process.errors()).toBe("");

      const opened = await openStore(place.address);
      const report = await opened.calls?.usage({ by: ["key"], since: "2020-01-01" });
      const key = await opened.store.report("team-a");
      await opened.close();
      expect(report?.rows).toContainEqual(expect.objectContaining({ key: "team-a" }));
      expect(report?.currency).toBe("USD");
      expect(key).toMatchObject({ held: 0 });
    });
  });
});

describe("polygate serve", () => {
  it.each<[string, string, RegExp]>([
    [
      "misspells an option",
      `${DEFINE}({ gatway: () => ({ backend: demoModel() }) });`,
      /^wrong\.ts cannot be loaded: defineServer: gatway does not exist; did you mean gateway\?/,
    ],
    [
      "waits for a promise that never settles",
      `await new Promise(() => {});\n${DEFINE}({ gateway: () => ({ backend: demoModel() }) });`,
      /^wrong\.ts waits for a promise that never settles\.$/m,
    ],
    [
      "has a gateway that waits for a promise that never settles",
      `${DEFINE}({ gateway: () => new Promise(() => {}) });`,
      /^wrong\.ts waits for a promise that never settles\.$/m,
    ],
  ])("says in a line that a file %s, and ends", async (_name, text, line) => {
    const file = await written("wrong.ts", text);
    const started = spawnPlayground(
      { POLYGATE_STORE: `sqlite:${join(folder, "unused.db")}`, PORT: "0" },
      [process.execPath, CLI, "serve", file],
      folder,
    );
    expect(await started.ended).toEqual({ code: 1, signal: null });
    expect(started.output()).toBe("");
    expect(started.errors()).toMatch(line);
    expect(started.errors()).not.toMatch(/^\s+at /m);
  });

  it("closes all other parts when one fails, and never listens on all addresses for an empty host", async () => {
    const file = await written(
      "closing.ts",
      `${DEFINE}({
        host: "",
        gateway: () => ({ backend: { ...demoModel(), close: () => Promise.reject(new Error("no bus://me:hunter2@there")) } }),
        onClose: () => console.log("closed"),
      });`,
    );
    const store = `sqlite:${join(folder, "closing.db")}`;
    const command = [process.execPath, CLI, "serve", file, "--port", "0", "--store", store] as const;
    const server = await startPlayground({ HOST: "" }, [...command], folder);
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    server.process.child.kill("SIGTERM");
    expect(await server.process.ended).toEqual({ code: 1, signal: null });
    expect(server.process.output()).toMatch(/\nclosed\nStopped\.\n$/);
    expect(server.process.errors()).toBe("The close of the backend has failed: no bus://***@there\n");
  });

  it("tells Prometheus its metrics, with those of budgets, at a port of their own", async () => {
    const file = await written(
      "measured.ts",
      `${DEFINE}({
        gateway: () => ({ backend: demoModel(), ...priceTable({ "*": { input: 1, output: 1 } }) }),
        record: { groupOf: ({ key }) => key?.metadata?.["team"] },
        metrics: { port: 0, spendBy: ["group", "budget", "key"] },
        closeMs: 1_000,
      });`,
    );
    const store = `sqlite:${join(folder, "measured.db")}`;
    const server = await startPlayground(
      {},
      [process.execPath, CLI, "serve", file, "--port", "0", "--store", store],
      folder,
    );
    const opened = await openStore(store);
    await opened.store.addBudget({ id: "blue", amount: 1_000 });
    await opened.store.addBudget({ id: "gone", amount: 1_000 });
    await opened.store.add({ id: "team-a", apiKey: "sk-team-a", budget: "blue", metadata: { team: "sea" } });
    const client = new OpenAI({ apiKey: "sk-team-a", baseURL: `${server.url}/v1`, maxRetries: 0 });
    await client.chat.completions.create(ask("Hello"));
    const { total_used: used } = await usageOf(server.url, "sk-team-a");
    const [, url = ""] = /metrics at (http:\/\/127\.0\.0\.1:\d+\/metrics)\)$/m.exec(server.process.output()) ?? [];
    const text = await (await fetch(url)).text();
    expect(text).toMatch(
      new RegExp(`^polygate_budget_available\\{.*polygate_budget="blue".*\\} ${1_000 - used}$`, "m"),
    );
    expect(text).toMatch(/^polygate_budget_used\{.*polygate_currency="USD".*\}/m);
    expect(text).toMatch(/^polygate_ready\{.*\} 1$/m);
    expect(text).toMatch(/^target_info\{service_name="polygate",.*\} 1$/m);
    expect(text).toMatch(/^gen_ai_server_request_duration_count\{.*gen_ai_request_model="demo-chat".*\} 1$/m);
    const spend = 'polygate_spend_total\\{.*polygate_group="sea",polygate_budget="blue",polygate_key="team-a".*\\}';
    expect(text).toMatch(new RegExp(`^${spend} 0$`, "m"));
    // The metrics of a budget end with the budget.
    expect(text).toContain('polygate_budget="gone"');
    await opened.store.removeBudget("gone");
    await opened.close();
    const later = await (await fetch(url)).text();
    expect(later).toMatch(new RegExp(`^${spend} ${used}$`, "m"));
    expect(later).toMatch(/^polygate_budget_used\{.*polygate_budget="blue"/m);
    expect(later).not.toContain('polygate_budget="gone"');
    // Callers of the gateway cannot read them, and the port has nothing else.
    expect((await fetch(`${new URL(server.url).origin}/metrics`)).status).toBe(404);
    expect((await fetch(new URL("/v1/models", url))).status).toBe(404);
    expect((await fetch(url, { method: "POST" })).status).toBe(405);
    server.process.child.kill("SIGTERM");
    expect(await server.process.ended).toEqual({ code: 0, signal: null });
    expect(server.process.errors()).toBe("");
  });

  it.each([
    [{ OTEL_SERVICE_NAME: "sea" }, 'service_name="sea"'],
    [{ OTEL_RESOURCE_ATTRIBUTES: "service.name=land,deployment.environment=test" }, 'service_name="land"'],
    [{ OTEL_RESOURCE_ATTRIBUTES: "deployment.environment=test" }, 'deployment_environment="test"'],
  ])("names the service of its metrics by %j", async (variables, label) => {
    const text = `${DEFINE}({ gateway: () => ({ backend: demoModel() }), metrics: { port: 0 } });`;
    const file = await written("named.ts", text);
    const store = `sqlite:${join(folder, "named.db")}`;
    const command = [process.execPath, CLI, "serve", file, "--port", "0", "--store", store] as const;
    const server = await startPlayground(variables, [...command], folder);
    const [, url = ""] = /metrics at (http:\S+)\)$/m.exec(server.process.output()) ?? [];
    expect(await (await fetch(url)).text()).toMatch(new RegExp(`^target_info\\{.*${label}.*\\} 1$`, "m"));
    server.process.child.kill("SIGTERM");
    await server.process.ended;
  });

  it("says that its metrics have no names of models, if it has only patterns", async () => {
    const file = await written(
      "patterns.ts",
      `const backend = { async *chat() { yield "Hello."; } };
      ${DEFINE}({
        gateway: () => ({ backend, ...priceTable({ "claude-*": { input: 1, output: 1 } }) }),
        metrics: { port: 0 },
      });`,
    );
    const store = `sqlite:${join(folder, "patterns.db")}`;
    const command = [process.execPath, CLI, "serve", file, "--port", "0", "--store", store] as const;
    const server = await startPlayground({}, [...command], folder);
    await expect
      .poll(() => server.process.errors())
      .toBe(
        "metrics: no model has a name, so all share the label _OTHER. Give each model a row with its exact name in priceTable, or a route.\n",
      );
    server.process.child.kill("SIGTERM");
    await server.process.ended;
  });

  it("ends at once at a second signal", async () => {
    const store = `sqlite:${join(folder, "twice.db")}`;
    const file = await written("gateway.ts", GATEWAY);
    const server = await startPlayground({}, [process.execPath, CLI, "serve", file, "--store", store], folder);
    const { child, ended, output } = server.process;
    const opened = await openStore(store);
    await opened.store.add({ id: "team-a", apiKey: "sk-team-a" });
    await opened.close();
    const client = new OpenAI({ apiKey: "sk-team-a", baseURL: `${server.url}/v1`, maxRetries: 0 });
    const streams = [ask("/silent 600000"), ask("/silent 600000")].map((body) =>
      client.chat.completions.create({ ...body, stream: true }).catch(() => {}),
    );
    const { origin } = new URL(server.url);
    const running = async (): Promise<unknown> => {
      const live = await fetch(`${origin}/admin/live`, { headers: { "x-user": "ann" } });
      return ((await live.json()) as { total: number }).total;
    };
    await expect.poll(running).toBe(2);
    child.kill("SIGTERM");
    await expect.poll(output).toContain("\n2 calls in flight; waiting up to 60 s.");
    child.kill("SIGINT");
    expect(await ended).toEqual({ code: 130, signal: null });
    await Promise.all(streams);
  });

  it("serves calls for closeDelayMs when it is told to end, while it is not ready, and ends at once at a second signal", async () => {
    const store = `sqlite:${join(folder, "delay.db")}`;
    // The delay of this clock passes when the test says so.
    const file = await written(
      "delay.ts",
      `import { systemClock } from "${new URL("src/index.ts", ROOT).href}";
      const after = (ms, callback) =>
        ms === 777_000 ? (process.once("SIGUSR2", callback), () => {}) : systemClock.after(ms, callback);
      ${DEFINE}({
        gateway: () => ({ backend: demoModel(), clock: { ...systemClock, after } }),
        closeDelayMs: 777_000,
        onClose: () => console.log("closed"),
      });`,
    );
    const line = "Not ready; calls are served for 777 s more. A second signal ends at once.\n";
    const command = [process.execPath, CLI, "serve", file, "--store", store] as const;
    for (const second of ["SIGUSR2", "SIGTERM"] as const) {
      const server = await startPlayground({}, [...command], folder);
      const { child, ended, output } = server.process;
      const opened = await openStore(store);
      await opened.store.add({ id: second, apiKey: `sk-${second}` });
      await opened.close();
      const statuses = (): Promise<number[]> =>
        Promise.all(["/readyz", "/healthz"].map(async (path) => (await fetch(server.url + path)).status));
      expect(await statuses()).toEqual([200, 200]);
      child.kill("SIGTERM");
      await expect.poll(output).toContain(line);
      expect(await statuses()).toEqual([503, 200]);
      const client = new OpenAI({ apiKey: `sk-${second}`, baseURL: `${server.url}/v1`, maxRetries: 0 });
      const { choices } = await client.chat.completions.create(ask("Hello"));
      expect(choices[0]?.message.content).toBe("You said: Hello");
      child.kill(second);
      expect(await ended).toEqual({ code: second === "SIGTERM" ? 143 : 0, signal: null });
      expect(output().split("\n").slice(1).join("\n")).toBe(second === "SIGTERM" ? line : `${line}closed\nStopped.\n`);
    }
  });

  it("starts while its database is away, says so without the password, and is not ready", async () => {
    const file = await written("gateway.ts", GATEWAY);
    const store = "postgres://me:hunter2@127.0.0.1:1/x";
    const command = [process.execPath, CLI, "serve", file, "--port", "0", "--store", store] as const;
    const { url, process: started } = await startPlayground({}, [...command], folder);
    const statuses = ["/healthz", "/readyz"].map(async (path) => (await fetch(new URL(path, url))).status);
    expect(await Promise.all(statuses)).toEqual([200, 503]);
    expect(started.errors()).toContain(
      "postgres://***@127.0.0.1:1/x cannot be used: connect ECONNREFUSED 127.0.0.1:1. The stores ask again every second.\n",
    );
    expect(started.errors()).not.toContain("hunter2");
    started.child.kill("SIGTERM");
    expect(await started.ended).toEqual({ code: 0, signal: null });
  });

  it("says at its start that its tables are missing, if it must not make them", async () => {
    const name = "unmigrated.db";
    await writeFile(join(folder, name), "");
    const file = await written(
      "unmigrated.ts",
      `${DEFINE}({ gateway: () => ({ backend: demoModel() }), storeOptions: { migrate: false } });`,
    );
    const command = [process.execPath, CLI, "serve", file, "--store", `sqlite:${name}`] as const;
    const { url, process: started } = await startPlayground({}, [...command], folder);
    await expect
      .poll(started.errors)
      .toMatch(
        /^polygate: health check failed .*: The store's tables are missing\. Run "polygate keys migrate", .*\n$/,
      );
    const said = started.errors();
    expect((await fetch(`${url}/readyz`)).status).toBe(503);
    expect(started.errors()).toBe(said);
    started.child.kill("SIGTERM");
    expect(await started.ended).toEqual({ code: 0, signal: null });
  });

  it("says in a line which of its upstreams has a problem, and serves", async () => {
    const relayUrl = new URL("src/upstreams/relay/index.ts", ROOT).href;
    const routeUrl = new URL("src/upstreams/route/index.ts", ROOT).href;
    const upstream = testGateway({ backend: scriptedBackend([]) });
    const file = await written(
      "checked.ts",
      `import { relay } from ${JSON.stringify(relayUrl)};
      import { route } from ${JSON.stringify(routeUrl)};
      const format = "chat-completions";
      const down = relay({ format, name: "down", baseUrl: "http://127.0.0.1:1/v1" });
      const keyless = relay({ format, name: "keyless", baseUrl: "${await upstream.listen()}/v1" });
      const sound = relay({ format, name: "sound", baseUrl: "${await upstream.listen()}/v1", apiKey: "${upstream.apiKey}" });
      const backend = demoModel();
      const demos = [{ backend, name: "demo", model: "demo-chat" }, { backend: demoModel(), name: "misspelt", model: "dmeo-chat" }];
      const routes = { a: { upstreams: [down, keyless, ...demos] }, b: { upstreams: [sound, down] } };
      ${DEFINE}({ gateway: () => ({ backend: route({ routes }) }), closeMs: 1_000 });`,
    );
    const store = `sqlite:${join(folder, "checked.db")}`;
    const command = [process.execPath, CLI, "serve", file, "--port", "0", "--store", store] as const;
    const { url, process: started } = await startPlayground({}, [...command], folder);
    const lines = (): string[] => started.errors().trim().split("\n").toSorted();
    await expect
      .poll(lines)
      .toEqual([
        "The upstream down has a problem: The upstream at http://127.0.0.1:1 takes no connections. Check that it runs, and the baseUrl of the relay.",
        expect.stringMatching(/^The upstream keyless has a problem: .*apiKey/),
        expect.stringMatching(
          /^The upstream misspelt has a problem: The upstream does not list "dmeo-chat"\. Did you mean "demo-chat"\? /,
        ),
      ]);
    expect((await fetch(new URL("/readyz", url))).status).toBe(200);
    started.child.kill("SIGTERM");
    expect(await started.ended).toEqual({ code: 0, signal: null });
    await upstream.close();
  });

  it("prints each line as an object of JSON, if it is told to", async () => {
    const file = await written(
      "json-lines.ts",
      `${RELAY}
      const down = relay({ format: "chat-completions", name: "down", baseUrl: "http://127.0.0.1:1/v1", models: ["m"] });
      ${DEFINE}({
        gateway: () => ({ backend: down }),
        admin: { authorize: ({ headers }) => { throw new Error(headers.get("x-words")); } },
        closeDelayMs: 1,
      });`,
    );
    const store = `sqlite:${join(folder, "json-lines.db")}`;
    const command = [process.execPath, CLI, "serve", file, "--json", "--port", "0", "--store", store] as const;
    const { url, process: started } = await startPlayground({}, [...command], folder);
    expect((await fetch(new URL("/admin/keys", url), { headers: { "x-words": "no session" } })).status).toBe(500);
    const opened = await openStore(store);
    await opened.store.add({ id: "anna", apiKey: "sk-anna" });
    await opened.close();
    const failed = await fetch(new URL("/v1/chat/completions", url), {
      method: "POST",
      headers: { authorization: "Bearer sk-anna", "content-type": "application/json" },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }] }),
    });
    expect(failed.status).toBe(503);
    started.child.kill("SIGTERM");
    expect(await started.ended).toEqual({ code: 0, signal: null });
    const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT/);
    expect(objectsIn(started.output())).toEqual([
      { level: "info", at, message: expect.stringMatching(/^polygate serves http:/) },
      { level: "info", at, message: expect.stringMatching(/^Not ready; /) },
      { level: "info", at, message: "Stopped." },
    ]);
    const told = objectsIn(started.errors());
    // An attempt is no failed call: another attempt may answer the caller.
    const requestId = failed.headers.get("request-id");
    const ofCall = told.filter((line) => (line as { requestId?: string }).requestId === requestId);
    expect(ofCall).toMatchObject([
      { level: "warn", code: "backend_unavailable", port: "model-backend", upstream: { name: "down" } },
      {
        level: "error",
        code: "backend_unavailable",
        message: `polygate: ${requestId} failed (backend_unavailable): attempts: 1`,
      },
    ]);
    expect(told).toEqual(
      expect.arrayContaining([
        { level: "error", at, message: expect.stringMatching(/^The upstream down has a problem: /) },
        {
          level: "error",
          at,
          message: "polygate: a request of the admin has failed: no session",
          stack: expect.stringContaining("json-lines.ts"),
        },
      ]),
    );
  });

  it("says which store it uses where the environment has another than .env", async () => {
    const file = await written("gateway.ts", GATEWAY);
    const store = `sqlite:${join(folder, "environment.db")}`;
    await writeFile(join(folder, ".env"), "POLYGATE_STORE=sqlite:of-file.db\n");
    try {
      const command = [process.execPath, CLI, "serve", file, "--port", "0"] as const;
      const { process: started } = await startPlayground({ POLYGATE_STORE: store }, [...command], folder);
      const said = `The store is ${store}, as POLYGATE_STORE of the environment says. The file .env names sqlite:of-file.db.\n`;
      expect(started.errors()).toBe(said);
      started.child.kill("SIGTERM");
      await started.ended;
    } finally {
      await rm(join(folder, ".env"));
    }
  });
});

/** A command that cannot serve: its files, and the line that it prints. */
interface Case {
  readonly name: string;
  readonly files: Readonly<Record<string, string>>;
  readonly args: readonly string[];
  /** The store that the environment names. Default: one that nothing is written to. */
  readonly store?: string;
  /** A package that is not found. */
  readonly missing?: string;
  readonly line: RegExp;
  readonly code?: number | undefined;
}

const WRONG: readonly [name: string, text: string, line: RegExp][] = [
  [
    "has no default export",
    "export const gateway = 1;",
    /^wrong\.ts has no default export\. Write: export default defineServer\(\{ gateway: \(\) => \(\{ backend \}\) \}\)$/m,
  ],
  [
    "exports a function",
    "export default () => ({ backend: demoModel() });",
    /^wrong\.ts: defineServer: expects \{ gateway: \(\) => \(\{ backend, … \}\) \}, not a function: its result is probably meant\.$/m,
  ],
  [
    "exports the options of its gateway",
    "export default { backend: demoModel() };",
    /^wrong\.ts: defineServer: expects .*, not the options of createGateway alone\.$/m,
  ],
  [
    "exports a gateway",
    `${DEFINE}(${MADE});`,
    /^wrong\.ts cannot be loaded: defineServer: expects .*, not a gateway: the server makes it of the options of createGateway\. See wrong\.ts:4:16\.$/m,
  ],
  [
    "has a gateway in place of its function",
    `${DEFINE}({ gateway: ${MADE} });`,
    /^wrong\.ts cannot be loaded: defineServer: gateway must be a function that returns the options of createGateway, not a gateway\. See wrong\.ts:4:16\.$/m,
  ],
  [
    "returns a gateway",
    `${DEFINE}({ gateway: async () => ${MADE} });`,
    /^wrong\.ts: gateway must return the options of createGateway, such as \{ backend \}, not a gateway\.$/m,
  ],
  [
    "returns a backend",
    `${DEFINE}({ gateway: () => demoModel() });`,
    /^wrong\.ts: gateway must return the options of createGateway, such as \{ backend \}, not a backend\.$/m,
  ],
  ...[
    ["/healthz", "/healthz"],
    ["/readyz/", "/readyz"],
    ["/ai/v1", "/ai/v1/"],
    ["/ai/v1/models", "/ai/v1/models"],
  ].map(([path, route]): (typeof WRONG)[number] => [
    `has its admin at ${path}`,
    `${DEFINE}({ gateway: () => ({ backend: demoModel() }), prefix: "/ai/", admin: { path: "${path}", authorize() {} } });`,
    new RegExp(
      `^wrong\\.ts: admin\\.path: ${path} has the route ${route}.* of the server in it\\. Choose another path, such as /admin\\.$`,
      "m",
    ),
  ]),
  [
    "returns nothing",
    `${DEFINE}({ gateway: () => {} });`,
    /^wrong\.ts: gateway must return the options of createGateway, such as \{ backend \}, not undefined\.$/m,
  ],
  [
    "misspells an option in a plain object",
    "export default { gateway: () => ({ backend: demoModel() }), admn: {} };",
    /^wrong\.ts: defineServer: admn does not exist; did you mean admin\?/,
  ],
  [
    "misspells an option of the gateway",
    `${DEFINE}({ gateway: () => ({ backend: demoModel(), onFailur: () => {} }) });`,
    /^wrong\.ts: createGateway: onFailur does not exist; did you mean onFailure\?/,
  ],
  [
    "records a currency without prices",
    `${DEFINE}({ gateway: () => ({ backend: demoModel() }), record: { currency: "usd" } });`,
    /^wrong\.ts: createGateway: amounts are shown in USD, but without prices a unit is a token\. Add prices, as in \.\.\.priceTable\(\{ … \}\) of polygate\/prices, or leave out the currency\.$/m,
  ],
  [
    "shows a currency without prices",
    `${DEFINE}({ gateway: () => ({ backend: demoModel() }), admin: { authorize: () => undefined, currency: "USD" } });`,
    /^wrong\.ts: createGateway: amounts are shown in USD, but without prices a unit is a token\. Add prices, as in \.\.\.priceTable\(\{ … \}\) of polygate\/prices, or leave out the currency\.$/m,
  ],
  [
    "has metrics beside an observer",
    `${DEFINE}({ gateway: () => ({ backend: demoModel(), observer: { begin: () => undefined } }), metrics: { port: 0 } });`,
    /^wrong\.ts: metrics are an observer of the gateway, which has an observer already\. Remove one of both\.$/m,
  ],
  [
    "has prices in another currency than its record",
    `${DEFINE}({
      gateway: () => ({ backend: demoModel(), ...priceTable({ "*": { input: 1, output: 1, unit: "eur" } }) }),
      record: { currency: "usd" },
    });`,
    /^wrong\.ts: createGateway: amounts are shown in USD, but the prices are in EUR\. Write the same currency in both\.$/m,
  ],
  [
    "has syntax that is not JavaScript without its types",
    `enum Kind { One }\n${DEFINE}({ gateway: () => ({ backend: demoModel() }) });`,
    /^wrong\.ts cannot be loaded: Node removes types from TypeScript, and translates nothing else: no enum.* at wrong\.ts:4:1$/m,
  ],
  [
    "has a syntax error",
    `${DEFINE}({\n  gateway: () => [1, 2},\n});`,
    /^wrong\.ts cannot be loaded: SyntaxError: Expected ',', got '}' at wrong\.ts:\d+:23$/m,
  ],
  [
    "ends too early",
    `${DEFINE}({\n  gateway: () => ({`,
    /^wrong\.ts cannot be loaded: SyntaxError: .* at wrong\.ts:\d+$/m,
  ],
  [
    "uses what does not exist",
    `const [options] = [1].map(() => missing);`,
    /^wrong\.ts cannot be loaded: missing is not defined at wrong\.ts:4:33$/m,
  ],
  [
    "uses what does not exist as it makes its gateway",
    `${DEFINE}({\n  gateway: () => ({ backend: missing }),\n});`,
    /^wrong\.ts: missing is not defined at wrong\.ts:5:30$/m,
  ],
  [
    "gives a part of the package an option that does not exist",
    `${RELAY}\nconst upstream = () =>\n  relay({ format: "messages", baseUrl: "https://up.test", apiKy: "sk-1" });\n${DEFINE}({ gateway: () => ({ backend: upstream() }) });`,
    /^wrong\.ts: relay: apiKy does not exist; did you mean apiKey\? .* at wrong\.ts:6:3$/m,
  ],
  [
    "gives a part of the package a wrong option",
    `${RELAY}\nexport const upstream =\n  relay({ format: "messages", baseUrl: "up.test" });`,
    /^wrong\.ts cannot be loaded: relay: baseUrl is not a URL\. .* See wrong\.ts:6:3\.$/m,
  ],
  [
    "imports a package that is missing",
    `import "@polygate-test/absent/part";\n${DEFINE}({ gateway: () => ({ backend: demoModel() }) });`,
    /^wrong\.ts cannot be loaded: the package "@polygate-test\/absent" is missing: npm install @polygate-test\/absent$/m,
  ],
  [
    "throws",
    `throw new Error("UPSTREAM_URL is not set.");`,
    /^wrong\.ts cannot be loaded: UPSTREAM_URL is not set\.$/m,
  ],
];

const MODEL = `${DEFINE}({ gateway: () => ({ backend: demoModel() }) });`;

/** @param port A port that another server has. */
function casesAt(port: number): readonly Case[] {
  const files = {
    "gateway.ts": withImports(GATEWAY),
    "mars.ts": `export default { gateway: () => ({}), record: { timeZone: "Mars" } };`,
    "misspelt.ts": 'export default { gateway: () => ({}), stores: "sqllite:x" };',
    "measured.ts": withImports(`${DEFINE}({ gateway: () => ({ backend: demoModel() }), metrics: { port: ${port} } });`),
    "serve.json": "{}",
    "serve.yaml": "gateway: 1",
    "secrets.env": "A=1",
    plain: "export default {};",
    "spoilt.mjs": "const a = [\n  1 }\n];",
    "importing.mjs": 'import "./spoilt.mjs";\nconsole.log("runs");\nexport default {};',
  };
  const address = ["--store", "sqlite:outside.db"];
  const outside: readonly [name: string, args: readonly string[], line: RegExp, code?: number][] = [
    [
      "an unknown time zone",
      ["mars.ts", ...address],
      /^mars\.ts: "Mars" is no time zone\. Give a name such as "Europe\/Berlin"\.$/m,
    ],
    ["a file that is not there", ["nowhere.ts"], /^There is no file nowhere\.ts to serve\.\n$/, 2],
    ...["serve.json", "serve.yaml", "secrets.env", "plain"].map(
      (file): [name: string, args: readonly string[], line: RegExp, code: number] => [
        `no module, but ${file}`,
        [file, ...address],
        new RegExp(
          `^${file.replace(".", "\\.")} is no module\\. polygate serve takes a file of TypeScript or JavaScript`,
        ),
        2,
      ],
    ),
    ["a folder", ["."], /^There is no file \. to serve\.\n$/, 2],
    ["a path through a file", ["gateway.ts/x"], /^There is no file gateway\.ts\/x to serve\.\n$/, 2],
    [
      "a mistake in JavaScript",
      ["spoilt.mjs", ...address],
      /^spoilt\.mjs cannot be loaded: SyntaxError: .* at spoilt\.mjs:2:5\n$/,
    ],
    [
      "a mistake in a file that it imports",
      ["importing.mjs", ...address],
      /^importing\.mjs cannot be loaded: SyntaxError: .* at spoilt\.mjs:2:5\n$/,
    ],
    [
      "no store",
      ["gateway.ts"],
      /^No store is given\. Name it as stores in the configuration, with --store, or in POLYGATE_STORE\.$/m,
      2,
    ],
    [
      "an address of a store that is no URL",
      ["gateway.ts", "--store", "postgres://me:a/hunter2@127.0.0.1:1/x"],
      /^--store: The address of the store is no valid URL/,
      2,
    ],
    [
      "a misspelt store in the file",
      ["misspelt.ts"],
      /^stores of misspelt\.ts: The address .* Did you mean sqlite:FILE\?\n$/,
      2,
    ],
    [
      "a port that another server has",
      ["gateway.ts", ...address, "--port", String(port)],
      /: another server is there\. Choose another port with --port/,
    ],
    [
      "a port of metrics that another server has",
      ["measured.ts", ...address, "--port", "0"],
      new RegExp(
        `^Cannot listen on 127\\.0\\.0\\.1:${port}: another server is there\\. Choose another port with metrics\\.port, or write Number\\(process\\.env\\.METRICS_PORT \\|\\| ${port}\\) there and set METRICS_PORT\\.\n$`,
      ),
    ],
    [
      "one port for the gateway and its metrics",
      ["measured.ts", ...address, "--port", String(port)],
      new RegExp(
        `^measured\\.ts: metrics\\.port: ${port} is the port of the gateway\\. Choose another port for metrics\\.\n$`,
      ),
    ],
  ];
  const commonjs = ["commonjs.ts", "commonjs.js"].flatMap((file) =>
    Object.entries({ imports: withImports(MODEL), "only an export": "export default {};" }).map(
      ([what, text]): Case => ({
        name: `a file ${file} with ${what} that is no module, as npm init makes it`,
        files: { "package.json": JSON.stringify({ type: "commonjs" }), [file]: text },
        args: [file],
        line: /^commonjs\.[tj]s cannot be loaded: SyntaxError: .*npm pkg set type=module/m,
      }),
    ),
  );
  // They come first: a package that was loaded is found.
  const missing = ["sdk-metrics", "resources", "exporter-prometheus"].map((name): Case => ({
    name: `metrics without @opentelemetry/${name}`,
    files,
    args: ["measured.ts"],
    missing: `@opentelemetry/${name}`,
    line: /^measured\.ts: metrics need more packages: npm install @opentelemetry\/api @opentelemetry\/sdk-metrics @opentelemetry\/resources @opentelemetry\/exporter-prometheus$/m,
  }));
  return [
    ...missing,
    ...WRONG.map(([name, text, line]): Case => ({
      name: `a file that ${name}`,
      files: { "wrong.ts": withImports(text) },
      args: ["wrong.ts"],
      line,
    })),
    ...commonjs,
    ...outside.map(([name, args, line, code]): Case => ({ name, files, args, store: "", line, code })),
  ];
}

// One process for all: each would load the same code. The end of a process of its own stands above.
describe("polygate serve refuses in a line", () => {
  let ended: readonly Ended[];
  let cases: readonly Case[];

  beforeAll(async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    cases = casesAt((taken.address() as AddressInfo).port);
    const commands = cases.map(async ({ files, args, store = "sqlite:unused.db", missing }): Promise<Wrong> => {
      const place = await mkdtemp(join(folder, "wrong-"));
      for (const [name, text] of Object.entries(files)) await writeFile(join(place, name), text);
      return { folder: place, args, store, ...(missing !== undefined && { missing }) };
    });
    const program = fileURLToPath(new URL("wrong.ts", import.meta.url));
    const order = JSON.stringify(await Promise.all(commands));
    const { stdout } = await promisify(execFile)(process.execPath, [program, order], {
      env: { ...process.env, PORT: "0" },
    });
    ended = JSON.parse(stdout);
    taken.close();
  });

  it.each(casesAt(0).map(({ name }, index) => [name, index] as const))("%s", (_name, index) => {
    const { code = 1, line } = cases[index] as Case;
    expect(ended[index]).toEqual({ code, stdout: "", stderr: expect.stringMatching(line) });
    expect(ended[index]?.stderr).not.toMatch(/hunter2|^\s+at /m);
  });
});

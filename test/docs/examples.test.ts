/** The examples of the README and the docs compile under the strictest settings, and run, without any change. */

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { Agent, createServer, get } from "node:http";
import type { AddressInfo } from "node:net";
import { delimiter } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import { PGlite } from "@electric-sql/pglite";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { USAGE } from "../../src/admin/command-line.ts";
import { budgetLaws } from "../../src/testing/laws/budgets.ts";
import { quotaStoreLaws } from "../../src/testing/laws/index.ts";
import { redisAnswers, REDIS } from "../stores/redis/servers.ts";
import { databases, newPostgres } from "../stores/sql/databases.ts";
import { ROOT } from "./entries.ts";
import { blocks, fileOf, isOfReference, isWhole, pages } from "./pages.ts";
import { stageExamples } from "./stage.ts";

const run = promisify(execFile);
const examples = blocks.filter((block) => block.language === "ts" && !isOfReference(block));
const bin = `${ROOT}node_modules/.bin`;
const PRELOAD = `${ROOT}test/docs/any-port.mjs`;
let folder: string;
const children: ChildProcess[] = [];

/** The whole gateway, and the same with the two lines that its page adds for the admin. */
const company = examples.find((block) => fileOf(block) === "company.ts")?.code ?? "";
const [imported, added] = ["import", "addAdmin"].map((start) => {
  const page = pages.find(({ path }) => path === "docs/company-gateway.md")?.text ?? "";
  return new RegExp(`\`(${start}[^\`]+;)\``).exec(page)?.[1] ?? "";
});
const companyWithAdmin = `${imported}\n${company.replace(/^const app = .*$/m, `$&\n${added}`)}`;

beforeAll(async () => {
  folder = await stageExamples();
  await writeFile(`${folder}/company-admin.ts`, companyWithAdmin);
}, 60_000);

afterAll(async () => {
  for (const child of children) child.kill();
  await rm(folder, { recursive: true, force: true });
});

const inFolder = (env: Record<string, string> = {}) => ({
  cwd: folder,
  env: { ...process.env, NO_COLOR: "1", ...env, PATH: [bin, process.env["PATH"]].join(delimiter) },
});

/** Starts an example. Resolves with its port. */
async function start(command: string, ...args: readonly string[]): Promise<number> {
  return (await startWith({}, command, ...args)).port;
}

/** A started example, and what it has written to its error output. */
interface Started {
  readonly port: number;
  /** The port of the metrics of a whole gateway. */
  readonly metricsPort: number | undefined;
  readonly child: ChildProcess;
  readonly errors: () => string;
}

async function startWith(env: Record<string, string>, command: string, ...args: readonly string[]): Promise<Started> {
  const child = spawn(command, args, { ...inFolder(env), stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  const ports: number[] = [];
  let said = "";
  let errors = "";
  child.stderr.on("data", (text: Buffer) => {
    said += text.toString();
    errors += text.toString();
  });
  for await (const line of createInterface(child.stdout)) {
    said += `${line}\n`;
    const [, text] = /^listening at (\d+)$/.exec(line) ?? [];
    if (text !== undefined) ports.push(Number(text));
    // A whole gateway serves its metrics first.
    const isCompany = args.at(-1)?.startsWith("company") === true;
    const port = ports[isCompany ? 1 : 0];
    if (port !== undefined) return { port, metricsPort: isCompany ? ports[0] : undefined, child, errors: () => errors };
  }
  throw new Error(`${command} ${args.join(" ")} has ended.\n${said}`);
}

const startNode = (file: string): Promise<number> => start(process.execPath, "--import", PRELOAD, file);

/** Starts the app of hono.ts on Node. */
const startHono = (): Promise<number> =>
  start(
    process.execPath,
    "--import",
    PRELOAD,
    "--input-type=module",
    "--eval",
    'import { serve } from "@hono/node-server"; import { app } from "./hono.ts"; serve({ fetch: app.fetch, port: 3000 });',
  );

/** Returns the answer of an example to a request in the messages format. */
async function ask(address: string, more: Readonly<Record<string, string>> = {}): Promise<string> {
  const headers = { "x-api-key": "sk-team-a", "compat-version": "2023-06-01", "content-type": "application/json" };
  const response = await fetch(`${address}/v1/messages`, {
    method: "POST",
    headers: { ...headers, ...more },
    body: JSON.stringify({ model: "any", max_tokens: 100, messages: [{ role: "user", content: "Hello" }] }),
  });
  const { content } = (await response.json()) as { content?: { text: string }[] };
  return content?.[0]?.text ?? `status ${response.status}`;
}

describe("the examples", () => {
  it("name their files, and those of one name are one", () => {
    expect(examples.filter((block) => fileOf(block) === undefined)).toEqual([]);
    const byFile = Map.groupBy(examples, fileOf);
    const different = [...byFile].filter(([, same]) => new Set(same.map(({ code }) => code)).size > 1);
    expect(different.map(([file]) => file)).toEqual([]);
    expect(byFile.size).toBeGreaterThan(30);
  });

  it("of the functions that hosts call first are whole in the reference", () => {
    const whole = blocks.filter((block) => isOfReference(block) && isWhole(block)).map(({ code }) => code);
    const names = ["createGateway", "relay", "route", "openTelemetry", "adminHandler", "testGateway"];
    expect(names.filter((name) => !whole.some((code) => code.includes(`${name}(`)))).toEqual([]);
  });

  it("to copy need no other file than those in their folder, and have no function without a body", () => {
    const files = examples.filter(({ page }) => page.startsWith("docs/examples/"));
    const names = new Set([...files.map(fileOf), "my-store.ts"]);
    const wrong = files.filter(({ code }) => {
      const imported = Array.from(code.matchAll(/from "\.\/([^"]+)"/g), ([, name = ""]) => name);
      return imported.some((name) => !names.has(name)) || /^declare (?!module)/m.test(code);
    });
    expect(files.length).toBeGreaterThan(30);
    expect(wrong.map(fileOf)).toEqual([]);
  });

  it("compile", async () => {
    const args = [`${ROOT}node_modules/typescript/bin/tsc`, "--singleThreaded", "-p", folder];
    const { stdout } = await run(process.execPath, args).catch((error: { stdout: string }) => error);
    expect(stdout).toBe("");
  });

  it.each(examples.filter(({ output }) => output !== undefined).map((block) => [fileOf(block), block] as const))(
    "%s prints what its page says",
    async (file = "", { output }) => {
      const { stdout } = await run(process.execPath, [file], inFolder());
      expect(stdout).toBe(output);
    },
  );

  it.each([
    ["my-limiter-laws.ts", /^The limiter keeps \d\d laws\.\n$/],
    ["sqlite.ts", /^\[\]\n$/],
    ["own-auth.ts", /^token-of-anna 200\nnonsense 401\n$/],
  ])("%s prints what it has done", async (file, output) => {
    const { stdout } = await run(process.execPath, [file], inFolder());
    expect(stdout).toMatch(output);
  });

  it("json-logs.ts writes a line of JSON for each call, and one for each failure", async () => {
    const script = `
      import { createGateway, memoryQuotaStore } from "polygate";
      import { onCall, onFailure } from "./json-logs.ts";
      async function* chat() {
        yield "Hello";
        throw new Error("The line is cut.");
      }
      const quotas = memoryQuotaStore([{ id: "anna", apiKey: "sk-anna" }]);
      const gateway = createGateway({ backend: { chat }, quotas, onCall, onFailure });
      const body = JSON.stringify({ model: "small", messages: [{ role: "user", content: "Hi" }] });
      const headers = { authorization: "Bearer sk-anna", "content-type": "application/json" };
      await gateway.fetch(new Request("http://gateway/v1/chat/completions", { method: "POST", headers, body }));
      await gateway.close();`;
    const { stdout, stderr } = await run(process.execPath, ["--input-type=module", "-e", script], inFolder());
    const [call, failure] = [stdout, stderr].map((text) => JSON.parse(text) as { requestId: string });
    expect(call).toMatchObject({ key: "anna", modelAsked: "small", outcome: "failed", errorCode: "backend_failed" });
    expect(failure).toMatchObject({ requestId: call?.requestId, level: "error", port: "model-backend" });
    expect(failure).toMatchObject({ text: expect.stringContaining("The line is cut.") });
  });

  it("admin-server.ts answers the users of its login, and notes what they change", async () => {
    const port = await startNode("admin-server.ts");
    const login = { cookie: "session=9f2c" };
    const ask = (path: string, headers: Record<string, string>, body?: object): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}/admin/api${path}`, {
        headers: { ...headers, "content-type": "application/json" },
        ...(body && { method: "POST", body: JSON.stringify(body) }),
      });
    expect((await ask("/keys", {})).status).toBe(401);
    expect((await ask("/keys", login, { id: "bob", granted: 1_000_000 })).status).toBe(201);
    const { data } = (await (await ask("/audit", login)).json()) as { data: unknown };
    expect(data).toMatchObject([{ user: "ann@example.com", action: "keys.create", target: "bob", state: "done" }]);
  });

  it("usage.ts prints a report, and the reasons that the page shows", async () => {
    const shown = blocks.find(({ page, code }) => page === "docs/usage.md" && code.startsWith("npx polygate why req_"));
    const { stdout } = await run(process.execPath, ["usage.ts"], inFolder());
    expect(stdout).toBe(`team-a anna 1 0\n${shown?.output}`);
  });

  it("can be loaded", async () => {
    const names = [
      "telemetry",
      "rate-limits",
      "billing",
      "weather",
      "relay",
      "relays",
      "token-server",
      "sign",
      "bedrock",
      "vertex",
      "azure",
      "worker-credentials",
      "route",
      "image-store",
      "sweeps",
    ];
    const files = names.map((name) => `./${name}.ts`);
    const script = `for (const file of ${JSON.stringify(files)}) console.log(typeof (await import(file)));`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], inFolder());
    expect(stdout).toBe("object\n".repeat(files.length));
  });
});

/** Runs a script beside the examples, and returns what it prints as JSON. */
async function printed(script: string): Promise<unknown> {
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], inFolder());
  return JSON.parse(stdout);
}

it("health.ts tells that it runs, and whether it should get calls", async () => {
  const script = `
    import { once } from "node:events";
    import { gateway } from "./gateway.ts";
    import { app } from "./health.ts";
    const server = app.listen(0, "127.0.0.1");
    await once(server, "listening");
    const statuses = async () => {
      const answers = ["/healthz", "/readyz"].map((path) => fetch(\`http://127.0.0.1:\${server.address().port}\${path}\`));
      return (await Promise.all(answers)).map(({ status }) => status);
    };
    const open = await statuses();
    await gateway.close();
    console.log(JSON.stringify([open, await statuses()]));
    process.exit();`;
  expect(await printed(script)).toEqual([
    [200, 200],
    [200, 503],
  ]);
});

it("hooks.ts redacts, asks a moderation service, and keeps prompts and answers of those who have agreed", async () => {
  const script = `
    const { asked, gateway, saved } = await import(${JSON.stringify("./hooks.ts")});
    const statuses = [];
    for (const content of ["Write to anna@team.example.", "Something forbidden."]) {
      const response = await gateway.fetch(
        new Request("http://host/v1/messages", {
          method: "POST",
          headers: { "x-api-key": "sk-team-a", "compat-version": "2023-06-01", "content-type": "application/json" },
          body: JSON.stringify({ model: "any", max_tokens: 9, messages: [{ role: "user", content }] }),
        }),
      );
      statuses.push(response.status);
      await response.text();
    }
    await gateway.close();
    console.log(JSON.stringify({ statuses, asked, saved }));`;
  expect(await printed(script)).toEqual({
    statuses: [200, 400],
    asked: [expect.stringContaining("Write to [EMAIL_1]"), expect.stringContaining("forbidden")],
    saved: [
      {
        keyId: "key-1",
        prompt: expect.objectContaining({
          messages: [{ role: "user", parts: [{ type: "text", text: "Write to [EMAIL_1]." }] }],
        }),
        answer: "You asked any something.",
        units: expect.any(Number) as number,
      },
      // The moderation has refused the prompt before the log could note it.
      { keyId: "key-1", answer: "", units: 0 },
    ],
  });
});

describe("telemetry.ts", () => {
  const script = `
    const { gateway, stop } = await import(${JSON.stringify("./telemetry.ts")});
    const response = await gateway.fetch(
      new Request("http://host/v1/messages", {
        method: "POST",
        headers: { "x-api-key": "sk-team-a", "compat-version": "2023-06-01", "content-type": "application/json" },
        body: JSON.stringify({ model: "any", max_tokens: 9, messages: [{ role: "user", content: "Hello" }] }),
      }),
    );
    await response.text();
    await stop();`;
  const trace = (env: Record<string, string> = {}) =>
    run(process.execPath, ["--input-type=module", "--eval", script], inFolder(env));

  it("prints the spans of calls", async () => {
    const { stdout } = await trace();
    expect(stdout).toContain("name: 'POST /v1/messages'");
    expect(stdout).toContain("'polygate.outcome': 'completed'");
  });

  it("sends them to the collector that the environment names", async () => {
    const received: { path: string | undefined; body: string }[] = [];
    const collector = createServer((request, response) => {
      const asked = { path: request.url, body: "" };
      received.push(asked);
      request.on("data", (text: Buffer) => (asked.body += text.toString()));
      request.on("end", () => response.setHeader("content-type", "application/json").end("{}"));
    }).listen(0, "127.0.0.1");
    await once(collector, "listening");
    const { port } = collector.address() as AddressInfo;
    const { stdout } = await trace({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` });
    collector.close();
    expect(stdout).toBe("");
    expect(received.map(({ path }) => path)).toEqual(["/v1/traces"]);
    expect(JSON.parse(received[0]?.body ?? "")).toMatchObject({
      resourceSpans: [
        {
          resource: {
            attributes: expect.arrayContaining([{ key: "service.name", value: { stringValue: "gateway" } }]) as unknown,
          },
          scopeSpans: [{ scope: { name: "polygate" }, spans: [{ name: "POST /v1/messages" }] }],
        },
      ],
    });
  });
});

describe("the servers", () => {
  it.each([
    ["server.ts", "", "You said: Hello"],
    ["node.ts", "/ai", "You asked any something."],
    ["express.ts", "/ai", "You asked any something."],
    ["koa.ts", "/ai", "You asked any something."],
    ["fastify.ts", "/ai", "You asked any something."],
  ])("%s answers", async (file, prefix, answer) => {
    const port = await startNode(file);
    expect(await ask(`http://127.0.0.1:${port}${prefix}`)).toBe(answer);
  });

  it("fastify.ts lets plugins before its hook add headers, tells onResponse alone of a call, and ends with its server", async () => {
    const script = (await readFile(`${folder}/fastify.ts`, "utf8")).replace(
      "const ai =",
      `const heard: string[] = [];
      app.register(Object.assign(async (plugin: typeof app) => {
        plugin.addHook("onRequest", async (_request, reply) => void reply.header("x-plugin", "yes"));
      }, { [Symbol.for("skip-override")]: true }));
      for (const name of ["preParsing", "preHandler", "onSend", "onResponse"] as const)
        app.addHook(name as "onResponse", async () => void heard.push(name));
      app.addHook("preClose", () => gateway.close());
      const ai =`,
    );
    await writeFile(
      `${folder}/fastify-heard.ts`,
      `${script}
      const headers = { authorization: "Bearer sk-team-a", "content-type": "application/json" };
      const body = JSON.stringify({ model: "any", stream: true, messages: [{ role: "user", content: "Hello" }] });
      const url = "/ai/v1/chat/completions";
      const injected = await app.inject({ method: "POST", url, headers, payload: body });
      const { port } = app.addresses()[0]!;
      const response = await fetch("http://127.0.0.1:" + port + url, { method: "POST", headers, body });
      const text = await response.text();
      await app.close();
      const whole = [injected.payload, text].every((one) => one.includes("You asked any") && one.endsWith("[DONE]\\n\\n"));
      console.log(JSON.stringify({ whole, plugin: response.headers.get("x-plugin"), heard }));`,
    );
    const { stdout } = await run(process.execPath, ["--import", PRELOAD, "fastify-heard.ts"], inFolder());
    const [said = ""] = stdout.trim().split("\n").slice(-1);
    expect(JSON.parse(said)).toEqual({ whole: true, plugin: "yes", heard: ["onResponse", "onResponse"] });
  });

  it("context.ts tells the address of the client from that of the proxy, and refuses a suspended tenant", async () => {
    const port = await startNode("context.ts");
    const answer = await ask(`http://127.0.0.1:${port}/ai`, { "x-forwarded-for": "203.0.113.7" });
    expect(answer).toMatch(/^You are 203\.0\.113\.7, and (?:::ffff:)?127\.0\.0\.1 is the proxy\.$/);
    expect(await ask(`http://127.0.0.1:${port}/ai`, { "x-tenant": "suspended" })).toBe("status 401");
  });

  it("bun.ts answers, and its own routes as well", async () => {
    const address = `http://127.0.0.1:${await start("bun", "--preload", PRELOAD, "bun.ts")}`;
    expect(await ask(`${address}/ai`)).toBe("You asked any something.");
    expect(await (await fetch(address)).text()).toBe("The server's own routes.");
  });

  it("deno.ts answers, and its own routes as well", async () => {
    const port = await start(
      "deno",
      "run",
      "--allow-all",
      "--no-check",
      "--node-modules-dir=manual",
      "--preload",
      PRELOAD,
      "deno.ts",
    );
    expect(await ask(`http://127.0.0.1:${port}/ai`)).toBe("You asked any something.");
    expect(await (await fetch(`http://127.0.0.1:${port}`)).text()).toBe("The server's own routes.");
  });

  it.each([
    ["hono.ts", "(request) => app.fetch(request)", "app"],
    ["worker.ts", "(request) => worker.fetch(request, {}, { waitUntil() {} })", "default as worker"],
  ])("%s answers a call of its function", async (file, call, imported) => {
    const script = `
      import { ${imported} } from "./${file}";
      const call = ${call};
      const response = await call(new Request("http://localhost/ai/v1/messages", {
        method: "POST",
        headers: { "x-api-key": "sk-team-a", "compat-version": "2023-06-01", "content-type": "application/json" },
        body: JSON.stringify({ model: "any", max_tokens: 100, messages: [{ role: "user", content: "Hello" }] }),
      }));
      console.log((await response.json()).content[0].text);
    `;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], inFolder());
    expect(stdout).toBe("You asked any something.\n");
  });

  it("stop.ts is not ready from the moment when it is told to end, and ends by itself", async () => {
    const env = { CLOSE_DELAY_MS: "2000" };
    const { child, errors, port } = await startWith(env, process.execPath, "--import", PRELOAD, "stop.ts");
    const readiness = async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).status;
    expect(await readiness()).toBe(200);
    child.kill("SIGTERM");
    await expect.poll(readiness).toBe(503);
    expect([...(await once(child, "exit")), errors()]).toEqual([0, null, ""]);
  });

  it("serve the clients of the README and of the first page", async () => {
    const [express, server] = [await startNode("express.ts"), await startNode("server.ts")];
    const first = await run(process.execPath, ["client.ts"], inFolder({ BASE_URL: `http://127.0.0.1:${express}/ai` }));
    expect(first.stdout).toContain("You asked any-model something.");
    const sdks = await run(process.execPath, ["sdks.ts"], inFolder({ BASE_URL: `http://127.0.0.1:${server}` }));
    expect(sdks.stdout).toBe("You said: Hello\n".repeat(3));
  });

  it("prometheus.ts serves the gateway's metrics, by key and budget too", async () => {
    const address = `http://127.0.0.1:${await startNode("prometheus.ts")}`;
    await ask(`${address}/ai`);
    // A series of spend begins with 0.
    expect(await (await fetch(`${address}/metrics`)).text()).toMatch(/^polygate_spend_total\{.*\} 0$/m);
    const metrics = await (await fetch(`${address}/metrics`)).text();
    const [, units] = /^polygate_spend_total\{.*polygate_key="anna".*\} (\d+)$/m.exec(metrics) ?? [];
    expect(Number(units)).toBeGreaterThan(0);
    expect(metrics).toMatch(new RegExp(`^polygate_units_charged_total\\{.*\\} ${units}$`, "m"));
    const left = 300_000_000 - Number(units);
    const available = 'polygate_budget_available\\{.*polygate_budget="team-a".*polygate_currency="USD"';
    expect(metrics).toMatch(new RegExp(`^${available}.*\\} ${left}$`, "m"));
  });

  it.each(["express.ts", "catch-all.ts", "koa.ts", "fastify.ts", "hono.ts"])(
    "%s answers wrong base URLs so that SDKs show its message",
    async (host) => {
      const address = `http://127.0.0.1:${await (host === "hono.ts" ? startHono() : startNode(host))}`;
      expect(await ask(`${address}/ai`)).toBe("You asked any something.");
      const anthropic = new Anthropic({ apiKey: "sk-team-a", baseURL: `${address}/ai/v1`, maxRetries: 0 });
      const messages = [{ role: "user" as const, content: "Hello" }];
      await expect(anthropic.messages.create({ model: "any", max_tokens: 9, messages })).rejects.toThrow(
        "no route POST /ai/v1/v1/messages.",
      );
      const openai = new OpenAI({ apiKey: "sk-team-a", baseURL: `${address}/ai`, maxRetries: 0 });
      await expect(openai.chat.completions.create({ model: "any", messages })).rejects.toThrow(
        "no route POST /ai/chat/completions.",
      );
    },
  );

  it("keep keys out of the log that the docs show", async () => {
    const script = `
      import { once } from "node:events";
      import { app } from "./logged.ts";
      const server = app.listen(0, "127.0.0.1");
      await once(server, "listening");
      const address = "http://127.0.0.1:" + server.address().port + "/ai/v1beta/models/any:generateContent";
      const body = JSON.stringify({ contents: "Hello" });
      const headers = { "content-type": "application/json" };
      await (await fetch(address + "?k%65y=sk-team-a", { method: "POST", headers, body })).text();
      server.close();
    `;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], inFolder());
    expect(stdout).toContain('"POST /ai/v1beta/models/any:generateContent HTTP/1.1" 200');
    expect(stdout).not.toContain("team-a");
  });
});

describe("the tests of the docs pass", () => {
  // Each command finds its own tests among those of other runners. Readers bring the store of quota-store.test.ts, and a database.
  const others = ["quota-store.test.ts", "postgres-driver.test.ts"].map((file) => `--exclude=${file}`);
  const vitest = ["run", "--no-isolate", "--maxWorkers=1", ...others];
  it.each<[runner: string, command: string, args: readonly string[], passed: RegExp]>([
    ["Vitest", "vitest", vitest, /Test Files +4 passed \(4\)\n.*Tests +7 passed \(7\)/],
    ["Node's runner", process.execPath, ["--test", "**/*.node.test.ts"], /^. pass 1\n. fail 0$/m],
    ["Bun", "bun", ["test", ".bun.test.ts"], /^ 1 pass\n 0 fail$/m],
  ])("in %s", async (_runner, command, args, passed) => {
    const { stdout, stderr } = await run(command, args, inFolder());
    expect(stdout + stderr).toMatch(passed);
  });
});

/** Starts processes at the same time, which each make one call with the key of this id. Returns the rest of the limit that they are told. */
async function remaining(file: string, id: string, env: Record<string, string>): Promise<number[]> {
  const script = `
    import { createGateway, memoryQuotaStore } from "polygate";
    import { myBackend } from "./backend.ts";
    import { rateLimiter } from "./${file}";
    const quotas = memoryQuotaStore([{ apiKey: "sk-team-a", id: "${id}" }]);
    const gateway = createGateway({ backend: myBackend, quotas, rateLimiter });
    const headers = { authorization: "Bearer sk-team-a", "content-type": "application/json" };
    const body = JSON.stringify({ model: "m".repeat(256), messages: [{ role: "user", content: "Hello" }] });
    const call = new Request("http://host/v1/chat/completions", { method: "POST", headers, body });
    const answer = await gateway.fetch(call);
    await answer.text();
    console.log(answer.headers.get("x-ratelimit-remaining-requests"));
    process.exit();
  `;
  const one = () => run(process.execPath, ["--input-type=module", "--eval", script], inFolder(env));
  const outputs = await Promise.all([one(), one(), one()]);
  return outputs.map(({ stdout }) => Number(stdout)).toSorted((first, second) => first - second);
}

describe("postgres-driver.ts", () => {
  const database = databases.find(({ name }) => name === "PostgreSQL");

  it.skipIf(!database?.available)("keeps all laws of quota stores and of budgets", async () => {
    const { address, remove } = await newPostgres();
    const { stdout } = await run("vitest", ["run", "postgres-driver"], inFolder({ DATABASE_URL: address }));
    const laws = quotaStoreLaws.length + budgetLaws.length;
    expect(stdout).toMatch(new RegExp(`Tests +${laws} passed \\(${laws}\\)`));
    await remove();
  });
});

describe("the counters for a fleet", () => {
  const postgres = databases.some(({ name, available }) => name === "PostgreSQL" && available);

  it.skipIf(!postgres)("count together in PostgreSQL, also in processes that start on an empty database", async () => {
    const { address, remove } = await newPostgres();
    try {
      expect(await remaining("fleet-limits.ts", "x".repeat(190), { DATABASE_URL: address })).toEqual([17, 18, 19]);
    } finally {
      await remove();
    }
  });

  it.skipIf(!redisAnswers)("count together in Redis", async () => {
    expect(await remaining("fleet-limits-redis.ts", randomUUID(), { REDIS_URL: REDIS })).toEqual([17, 18, 19]);
  });
});

/** Sends the request of a curl command, and returns the body of the answer, because not every machine has curl. */
async function curl(command: string, port: number): Promise<string> {
  const [address = ""] = /http:\S+/.exec(command) ?? [];
  const headers = Array.from(command.matchAll(/-H "([^:]+): ([^"]+)"/g), ([, name = "", value = ""]) => [name, value]);
  const [, body] = /-d '([^']*)'/.exec(command) ?? [];
  const init = { headers: Object.fromEntries(headers) as Record<string, string> };
  const there = address.replace("127.0.0.1:3000", `127.0.0.1:${port}`);
  return (await fetch(there, body === undefined ? init : { ...init, method: "POST", body })).text();
}

describe("the commands", () => {
  const shells = blocks.filter(({ language }) => language === "sh");

  it("each curl of the first page is answered by its server", async () => {
    const port = await startNode("server.ts");
    const curls = shells.filter(({ page, code }) => page === "docs/getting-started.md" && code.startsWith("curl "));
    const texts = await Promise.all(curls.map(({ code }) => curl(code, port)));
    expect(texts.slice(0, 2).filter((text) => text.includes("You said: Hello there"))).toHaveLength(2);
    expect(JSON.parse(texts[2] ?? "")).toMatchObject({
      message: "ok",
      data: { name: "Team A", total_granted: 1_000_000 },
    });
  });

  it("the curl of the README is answered by the playground", async () => {
    const port = await startNode(`${ROOT}playground/server.ts`);
    const curls = shells.filter(({ page, code }) => page === "README.md" && code.startsWith("curl "));
    expect(curls).toHaveLength(1);
    const answer = JSON.parse(await curl(curls[0]?.code ?? "", port));
    expect(answer).toMatchObject({ type: "message", stop_reason: "end_turn", content: [{ type: "text" }] });
  });

  it("the option of the README accepts what its sentence says is refused", async () => {
    const { text = "" } = pages.find(({ path }) => path === "README.md") ?? {};
    const [, option = ""] = /`messages: (\{ ranges[^`]+\})`/.exec(text) ?? [];
    const script = `
      import { createGateway, memoryQuotaStore } from "polygate";
      import { myBackend } from "./backend.ts";
      const quotas = memoryQuotaStore([{ apiKey: "sk-team-a" }]);
      const headers = { "x-api-key": "sk-team-a", "anthropic-version": "2023-06-01", "content-type": "application/json" };
      const source = { type: "url", url: "https://example.com/a.png" };
      const bodies = [
        { model: "any", max_tokens: 1, messages: [{ role: "user", content: "Hi" }] },
        { model: "any", max_tokens: 9, messages: [{ role: "user", content: [{ type: "image", source }] }] },
      ];
      for (const messages of [{}, ${option}])
        for (const body of bodies) {
          const init = { method: "POST", headers, body: JSON.stringify(body) };
          const url = "http://host/v1/messages";
          console.log((await createGateway({ backend: myBackend, quotas, messages }).fetch(new Request(url, init))).status);
        }
    `;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], inFolder());
    expect(stdout).toBe("400\n400\n200\n200\n");
  });

  /** Runs the blocks of commands that contain these texts, one behind the other, and returns what they print. */
  async function printed(...texts: readonly string[]): Promise<string> {
    const found = texts.map((text) => shells.find(({ code }) => code.includes(text))?.code ?? "false");
    const command = found.join("\n").replaceAll("npx polygate", `"${process.execPath}" "${ROOT}src/cli.ts"`);
    return (await run("sh", ["-ec", command], inFolder())).stdout;
  }

  it("those that manage keys do so", async () => {
    const stdout = await printed("npx polygate keys grant");
    expect(stdout).toContain("The tables are made or updated.");
    expect(stdout).toMatch(/^api key: sk-\S{43}$/m);
    expect(stdout).toMatch(/^team-a +Team A +62\.50 +0\.00 +62\.50 +active +small-1, large-1 +plan=gold$/m);
  });

  it("those that manage budgets do so", async () => {
    const stdout = await printed("sqlite:budgets.db", "npx polygate budgets top-up");
    expect(stdout).toContain("budget team-b: 300.00 USD of 300.00 USD available");
    expect(stdout).toMatch(/^team-a +- +300\.0+ +300\.0+ +0\.0+ +0 % +300\.0+ +month +\d{4}-\d\d-\d\d +-$/m);
    expect(stdout).toMatch(/^team-b +Team B +350\.0+ +380\.0+ +0\.0+ +0 % +380\.0+ +week +\d{4}-\d\d-\d\d +company$/m);
  });

  it("are commands of polygate and scripts that are there", async () => {
    const commands = shells.flatMap(({ code }) =>
      Array.from(code.matchAll(/npx (?:-y )?polygate (\w+)/g), ([, name]) => name),
    );
    expect(commands.length).toBeGreaterThan(10);
    expect(commands.filter((name = "") => !new RegExp(`^(?:polygate| ) ${name}\\b`, "m").test(USAGE))).toEqual([]);
    const { default: manifest } = (await import("../../package.json", { with: { type: "json" } })) as {
      default: { scripts: Record<string, string> };
    };
    const scripts = shells.flatMap(({ code }) => Array.from(code.matchAll(/npm (?:run )?(start|test|(?<=run )\S+)/g)));
    expect(scripts.length).toBeGreaterThan(1);
    expect(scripts.map(([, name = ""]) => name).filter((name) => !(name in manifest.scripts))).toEqual([]);
  });
});

/** Starts a server that answers in the messages format, and fails in all others. */
async function startUpstream(text: string) {
  const asked: string[] = [];
  const upstream = createServer((request, response) => {
    if (request.method === "POST") asked.push(request.url ?? "");
    request.resume().on("end", () => {
      if (!request.url?.endsWith("/messages")) return void response.writeHead(500).end();
      const content = [{ type: "text", text }];
      const end = { stop_reason: "end_turn", stop_sequence: null, usage: { input_tokens: 11, output_tokens: 3 } };
      const answer = { id: "msg_1", type: "message", role: "assistant", model: "claude", content, ...end };
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    });
  });
  await once(upstream.listen(0, "127.0.0.1"), "listening");
  return { upstream, asked, url: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1` };
}

/** Runs the commands of the page of the whole gateway for a store. Returns the secrets of their keys. */
async function companyKeys(store: string): Promise<readonly string[]> {
  const block = blocks.find(({ page, code }) => page === "docs/company-gateway.md" && code.includes("keys migrate"));
  const command = block?.code.replaceAll("npx polygate", `"${process.execPath}" "${ROOT}src/cli.ts"`) ?? "";
  const { stdout } = await run("sh", ["-ec", command.replace(/(?<=_STORE=)\S+/, store)], inFolder());
  expect(stdout).toContain("300.00 USD");
  return Array.from(stdout.matchAll(/^api key: (\S+)$/gm), ([, key = ""]) => key);
}

const inDollars = (command: string, store: string) =>
  run(
    process.execPath,
    [`${ROOT}src/cli.ts`, ...command.split(" "), "--store", store, "--currency", "usd"],
    inFolder(),
  );

describe("the whole gateway", () => {
  it("is a file of at most 60 lines, as the formatter writes it", async () => {
    const lines = company.trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(35);
    expect(lines.length).toBeLessThanOrEqual(60);
    expect(lines.filter((line) => line.length > 120)).toEqual([]);
    await run("oxfmt", ["--check", "--config", `${ROOT}.oxfmtrc.json`, "company.ts"], inFolder());
  });

  it.each(["company.ts", "company-fastify.ts"])("says in a line why %s cannot start", async (file) => {
    const taken = createServer();
    await once(taken.listen(0, "127.0.0.1"), "listening");
    const port = String((taken.address() as AddressInfo).port);
    const url = `http://127.0.0.1:${port}/v1`;
    const start = async (wrong: Record<string, string>) => {
      const env = { PORT: "0", METRICS_PORT: "0", HOST: "", POLYGATE_STORE: "sqlite::memory:" };
      const ended = run(process.execPath, [file], inFolder({ ...env, FIRST_URL: url, SECOND_URL: url, ...wrong }));
      const { code, stdout, stderr } = await ended.then(
        (output) => ({ code: 0, ...output }),
        (error: { code: number; stdout: string; stderr: string }) => error,
      );
      return [code, stdout, stderr];
    };
    const inUse = "listen EADDRINUSE: address already in use 127.0.0.1:";
    expect(await start({ PORT: port })).toEqual([1, "", `HOST or PORT cannot be used: ${inUse}${port}\n`]);
    const noMetrics = `METRICS_HOST or METRICS_PORT cannot be used: ${inUse}${port}\n`;
    expect(await start({ METRICS_PORT: port })).toEqual([1, "", noMetrics]);
    const noStore = expect.stringMatching(/^POLYGATE_STORE cannot be used: .+\n$/);
    expect(await start({ POLYGATE_STORE: "sqlite:no-such-folder/gateway.db" })).toEqual([1, "", noStore]);
    taken.close();
  });

  it.each(["company.ts", "company-fastify.ts"])("ends %s while Prometheus reads its metrics", async (file) => {
    const url = "http://127.0.0.1:1/v1";
    const env = { POLYGATE_STORE: "sqlite::memory:", FIRST_URL: url, SECOND_URL: url, HOST: "", PORT: "" };
    const { metricsPort, child } = await startWith(env, process.execPath, "--import", PRELOAD, file);
    const exited = once(child, "exit");
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    /** Reads the metrics over a connection that stays open. Resolves with false when no server answers any more. */
    const scrape = (): Promise<boolean> =>
      new Promise((resolve) => {
        const request = get({ agent, host: "127.0.0.1", port: metricsPort, path: "/metrics" });
        request.on("error", () => resolve(false));
        request.on("response", (response) => response.resume().on("close", () => resolve(true)));
      });
    expect(await scrape()).toBe(true);
    child.kill("SIGTERM");
    while (await scrape());
    expect(await exited).toEqual([0, null]);
    agent.destroy();
  });

  it("takes the admin by the two lines of the page, which leads a browser to the login and back to its report, and to no other site", async () => {
    const env = {
      ADMIN_PASSWORD: "a long secret",
      ADMIN_READ_PASSWORD: "a secret to look",
      POLYGATE_STORE: "sqlite::memory:",
      FIRST_URL: "http://127.0.0.1:1/v1",
      FIRST_KEY: "sk-1",
      SECOND_URL: "http://127.0.0.1:1/v1",
      SECOND_KEY: "sk-2",
    };
    const { port } = await startWith(env, process.execPath, "--import", PRELOAD, "company-admin.ts");
    const site = `http://127.0.0.1:${port}`;
    /** Does what a browser does, and follows no redirect. */
    const browse = (path: string, cookie = "", body?: URLSearchParams) =>
      fetch(site + path, {
        redirect: "manual",
        headers: { accept: "text/html", cookie },
        ...(body && { method: "POST", body }),
      });
    const form = new URLSearchParams({ name: "ann", password: "a long secret" });

    const login = (await browse("/admin?part=spend")).headers.get("location") ?? "";
    expect(login).toBe("/login?next=%2Fadmin%2F%3Fpart%3Dspend");
    const entered = await browse(login, "", form);
    expect(entered.headers.get("location")).toBe("/admin/?part=spend");
    const [cookie] = entered.headers.getSetCookie();
    expect((await browse(login, "", new URLSearchParams({ name: "ann" }))).status).toBe(401);
    expect((await fetch(site + login, { method: "POST", body: "no form" })).status).toBe(401);
    expect(await (await browse("/admin/me", cookie)).json()).toMatchObject({ live: true, health: true });
    expect((await fetch(`${site}/admin/me`)).status).toBe(401);
    const reader = await browse("/login", "", new URLSearchParams({ name: "finn", password: "a secret to look" }));
    const [readCookie = ""] = reader.headers.getSetCookie();
    expect(await (await browse("/admin/me", readCookie)).json()).toMatchObject({ name: "finn", readOnly: true });
    const crossed = new URLSearchParams({ name: "ann", password: "a secret to look" });
    expect((await browse("/login", "", crossed)).status).toBe(401);
    expect((await browse("/login?next=/.//evil.example", "", form)).headers.get("location")).toBe("/admin");
    await browse("/logout", cookie);
    expect((await fetch(`${site}/admin/me`, { headers: { cookie: cookie ?? "" } })).status).toBe(401);
  });

  it("serves keys of the page's commands, falls back, counts money, warns, repeats, and ends without a loss", async () => {
    const [anna = "", ben = ""] = await companyKeys("sqlite:gateway.db");
    await inDollars("budgets update team-a --amount 0.00004 --yes", "sqlite:gateway.db");
    const { upstream, asked, url } = await startUpstream("Hello from the second one.");
    const env = { FIRST_URL: url, FIRST_KEY: "sk-1", SECOND_URL: url, SECOND_KEY: "sk-2" };
    const { port, metricsPort, child, errors } = await startWith(
      env,
      process.execPath,
      "--import",
      PRELOAD,
      "company.ts",
    );
    try {
      const address = `http://127.0.0.1:${port}`;
      const openai = (apiKey: string): OpenAI => new OpenAI({ apiKey, baseURL: `${address}/ai/v1`, maxRetries: 0 });
      const messages = [{ role: "user" as const, content: "Hello" }];
      const call = { model: "gpt-5-mini", messages };
      const headers = { "idempotency-key": "call-1" };
      const { choices } = await openai(anna).chat.completions.create(call, { headers });
      expect(choices[0]?.message.content).toBe("Hello from the second one.");
      expect(asked).toEqual(["/v1/chat/completions", "/v1/messages"]);
      await openai(anna).chat.completions.create(call, { headers });
      expect(asked.length).toBe(2);
      const limits = await Promise.all(
        [anna, ben].map(async (key) => {
          const { response } = await openai(key).models.list().withResponse();
          return response.headers.get("x-ratelimit-limit-requests");
        }),
      );
      expect(limits).toEqual(["200", "20"]);
      const { status, headers: ofReady } = await fetch(`${address}/readyz`);
      expect([status, ofReady.get("x-powered-by")]).toEqual([200, null]);
      expect((await fetch(`${address}/metrics`)).status).toBe(404);
      const series = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      expect(series).toMatch(/^polygate_spend_total\{(?=.*polygate_key="anna").*polygate_budget="team-a".*\} \d/m);
      expect(series).toMatch(/^polygate_budget_used\{.*polygate_budget="team-a".*polygate_currency="USD".*\} \d/m);
      expect((await fetch(`${address}/healthz`)).status).toBe(200);
      const lost = new OpenAI({ apiKey: anna, baseURL: `${address}/ai`, maxRetries: 0 });
      await expect(lost.chat.completions.create(call)).rejects.toThrow("Did you mean POST /ai/v1/chat/completions?");
    } finally {
      child.kill("SIGINT");
      const [exit] = (await once(child, "exit")) as [number | null];
      upstream.close();
      expect([exit, errors()]).toEqual([0, errors()]);
    }

    using database = new DatabaseSync(`${folder}/gateway.db`);
    const rows = database.prepare("SELECT key_id, model, upstream, units FROM polygate_calls WHERE units > 0").all();
    expect(rows).toEqual([{ key_id: "anna", model: "gpt-5-mini", upstream: "second", units: 11 * 1 + 3 * 5 }]);
    expect(errors()).toContain("ALERT: the budget team-a has reached 50 %.");
    for (const name of ["first", "second"]) expect(errors()).toMatch(new RegExp(`^${name}: .*500`, "m"));
  });
});

describe("the whole gateway in Fastify", () => {
  it("serves two teams with budgets, says which one is used up, has its admin behind a login, and ends", async () => {
    const hasPostgres = databases.some(({ name, available }) => name === "PostgreSQL" && available);
    const { address: store, remove } = hasPostgres
      ? await newPostgres()
      : { address: "sqlite:fastify.db", remove: () => {} };
    const [anna = "", , cleo = ""] = await companyKeys(store);
    await inDollars("budgets update team-b --amount 0 --yes", store);
    const { upstream, url } = await startUpstream("Hello from the second one.");
    const upstreams = { FIRST_URL: url, FIRST_KEY: "sk-1", SECOND_URL: url, SECOND_KEY: "sk-2" };
    const passwords = { ADMIN_PASSWORD: "a long secret", ADMIN_READ_PASSWORD: "a secret to look" };
    const env = { ...upstreams, POLYGATE_STORE: store, ...passwords, HOST: "", PORT: "" };
    const { port, metricsPort, child, errors } = await startWith(
      env,
      process.execPath,
      "--import",
      PRELOAD,
      "company-fastify.ts",
    );
    const site = `http://127.0.0.1:${port}`;
    try {
      const ask = (apiKey: string) =>
        new OpenAI({ apiKey, baseURL: `${site}/ai/v1`, maxRetries: 0 }).chat.completions.create({
          model: "gpt-5-mini",
          messages: [{ role: "user", content: "Hello" }],
        });
      const { choices } = await ask(anna);
      expect(choices[0]?.message.content).toBe("Hello from the second one.");
      await expect(ask(cleo)).rejects.toThrow(
        /^429 The quota of the budget "team-b" of this API key is used up\. The budget begins anew at 20/,
      );
      const browse = (path: string, login?: string): Promise<Response> =>
        fetch(`${site}/admin${path}`, {
          redirect: "manual",
          headers: { accept: "text/html", ...(login && { authorization: `Basic ${btoa(login)}` }) },
        });
      const asked = await browse("/");
      expect([asked.status, asked.headers.get("www-authenticate")]).toEqual([401, expect.stringMatching(/^Basic /)]);
      for (const login of ["ann:wrong", "ann:", "bob:a long secret", "a long secret", "ann:a secret to look", "finn:"])
        expect((await browse("/budgets", login)).status).toBe(401);
      expect(await (await browse("/me", "ann:a long secret")).json()).toMatchObject({ live: true, readOnly: false });
      expect(await (await browse("/me", "finn:a secret to look")).json()).toMatchObject({ readOnly: true });
      expect(await (await browse("/budgets", "ann:a long secret")).json()).toMatchObject({
        data: [
          { id: "team-a", spent: 11 * 1 + 3 * 5 },
          { id: "team-b", available: 0 },
        ],
      });
      expect((await fetch(`${site}/readyz`)).status).toBe(200);
      expect((await fetch(`${site}/metrics`)).status).toBe(404);
      const series = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      expect(series).toMatch(/^polygate_spend_total\{(?=.*polygate_key="anna").*polygate_budget="team-a".*\} \d/m);
      expect(series).toMatch(/^polygate_breaker_state\{.*polygate_breaker_upstream="second".*\} \d/m);
      expect(await (await fetch(`${site}/v1/models`)).text()).toContain("no route GET /v1/models");
    } finally {
      child.kill("SIGINT");
      const [exit] = (await once(child, "exit")) as [number | null];
      upstream.close();
      expect([exit, errors()]).toEqual([0, errors()]);
      await remove();
    }
  });
});

it("a move to another store makes no new secrets, so that those of the customers alone work", async () => {
  const { code = "" } = blocks.find(({ code }) => code.includes("export OLD=sqlite:gateway.db")) ?? {};
  const [commands = ""] = code
    .replace("sqlite:gateway.db", "sqlite:old.db")
    .replace(/(?<=NEW=)\S+/, "sqlite:new.db")
    .replaceAll("npx polygate", `"${process.execPath}" "${ROOT}src/cli.ts"`)
    .split(/^sqlite3 /m);
  const cli = async (command: string) =>
    (await run(process.execPath, [`${ROOT}src/cli.ts`, ...command.split(" ")], inFolder())).stdout;
  await cli("keys migrate --store sqlite:old.db");
  for (const name of ["anna", '"}']) await cli(`keys create --name ${name} --granted 5 --store sqlite:old.db`);
  const { stdout } = await run("sh", ["-ec", commands], inFolder());
  expect(stdout).not.toContain("sk-");
  using database = new DatabaseSync(`${folder}/new.db`);
  expect(database.prepare("SELECT granted FROM polygate_keys").all()).toEqual([{ granted: 5 }, { granted: 5 }]);
  expect(database.prepare("SELECT hash FROM polygate_secrets").all()).toEqual([]);
});

it("report.sh writes a report, and none where the store is away", async () => {
  const { code = "" } = blocks.find(({ code }) => code.startsWith("# /srv/gateway/report.sh")) ?? {};
  const home = `${folder}/report`;
  await mkdir(home);
  const report = (store: string): Promise<number> =>
    run(
      "sh",
      [
        "-c",
        code
          .replace("cd /srv/gateway", `cd "${home}"`)
          .replace(/(?<=_STORE=)\S+/, store)
          .replace("npx polygate", `"${process.execPath}" "${ROOT}src/cli.ts"`),
      ],
      inFolder(),
    ).then(
      () => 0,
      (error: { code: number }) => error.code,
    );
  const written = async (): Promise<string[]> => (await readdir(home)).filter((name) => name.endsWith(".csv"));
  expect(await report("postgres://127.0.0.1:1/gateway")).toBe(1);
  expect(await written()).toEqual([]);
  await run(process.execPath, [`${ROOT}src/cli.ts`, "keys", "migrate", "--store", `sqlite:${home}/a.db`], inFolder());
  expect(await report("sqlite:a.db")).toBe(0);
  const [file = ""] = await written();
  expect(file).toMatch(/^team-spend-\d{4}-\d\d\.csv$/);
  expect(await readFile(`${home}/${file}`, "utf8")).toContain("Budget name");
});

it.skipIf(!databases.some(({ name, available }) => name === "PostgreSQL" && available))(
  "own-pool.ts keeps the books and the calls through the pool of its server",
  async () => {
    const { address, remove } = await newPostgres();
    const script = `
      import { calls, close, gateway, pool, quotas } from "./own-pool.ts";
      await quotas.add({ id: "anna", apiKey: "sk-anna", granted: 1_000_000 });
      const response = await gateway.fetch(
        new Request("http://host/v1/chat/completions", {
          method: "POST",
          headers: { authorization: "Bearer sk-anna", "content-type": "application/json" },
          body: JSON.stringify({ model: "any", messages: [{ role: "user", content: "Hello" }] }),
        }),
      );
      await response.text();
      await gateway.close();
      await calls.onCall.flush();
      const { rows } = await pool.query("SELECT (SELECT sum(charged) FROM polygate_keys) AS spent, sum(units) AS units FROM polygate_calls");
      await close();
      console.log(JSON.stringify([response.status, Number(rows[0].spent), Number(rows[0].units)]));`;
    try {
      const { stdout } = await run(
        process.execPath,
        ["--input-type=module", "--eval", script],
        inFolder({ DATABASE_URL: address }),
      );
      const [status, spent, units] = JSON.parse(stdout) as readonly number[];
      expect([status, spent]).toEqual([200, units]);
      expect(units).toBeGreaterThan(0);
    } finally {
      await remove();
    }
  },
);

/** The hash of a secret, as LiteLLM stores it. */
const token = (secret: string): string => createHash("sha256").update(secret).digest("hex");

/** The columns of LiteLLM's tables that the page reads, with keys and teams of each kind. */
const LITELLM_TABLES = `
  CREATE TABLE "LiteLLM_TeamTable" (
    team_id TEXT PRIMARY KEY, max_budget DOUBLE PRECISION, models TEXT[] DEFAULT '{}', blocked BOOLEAN DEFAULT false,
    spend DOUBLE PRECISION DEFAULT 0, budget_duration TEXT
  );
  CREATE TABLE "LiteLLM_VerificationToken" (
    token TEXT PRIMARY KEY, key_alias TEXT, spend DOUBLE PRECISION DEFAULT 0, expires TIMESTAMP(3), models TEXT[],
    team_id TEXT, blocked BOOLEAN, max_budget DOUBLE PRECISION, budget_duration TEXT, user_id TEXT
  );
  CREATE TABLE "LiteLLM_UserTable" (
    user_id TEXT PRIMARY KEY, max_budget DOUBLE PRECISION, spend DOUBLE PRECISION DEFAULT 0, budget_duration TEXT,
    models TEXT[] DEFAULT '{}'
  );
  INSERT INTO "LiteLLM_UserTable" VALUES ('gus', 10, 0, NULL, '{fast}'), ('hal', NULL, 3, '1d', '{}');
  INSERT INTO "LiteLLM_TeamTable" VALUES
    ('team-a', 300, '{}', false, 120.0000004, '30d'), ('unlimited', NULL, '{}', NULL, 0, NULL),
    ('slow', NULL, '{own}', false, 0, NULL), ('off', NULL, '{}', true, 0, NULL), ('over', 1.5, '{}', false, 2, '7d'),
    ('it''s', 0, '{}', false, 1, '1d'), ('-x', 1, '{}', false, 0, NULL);
  INSERT INTO "LiteLLM_VerificationToken" VALUES
    ('${token("sk-anna")}', 'anna', 20.5, '2999-01-01', '{fast}', 'team-a', NULL, 20, NULL, NULL),
    ('${token("sk-ben")}', NULL, 7, NULL, '{}', 'unlimited', false, 50, '30d', NULL),
    ('${token("sk-carl")}', 'carl', 0, NULL, '{}', NULL, true, NULL, NULL, NULL),
    ('${token("sk-dora")}', 'dora', 0, NULL, '{all-team-models}', 'slow', NULL, NULL, NULL, NULL),
    ('${token("sk-emil")}', 'emil', 0, NULL, '{}', 'slow', NULL, NULL, NULL, NULL),
    ('${token("sk-fay")}', 'fay', 0, NULL, '{all-proxy-models}', 'off', NULL, NULL, NULL, NULL),
    ('${token("sk-gus")}', 'gus-own', 0, NULL, '{}', NULL, NULL, NULL, NULL, 'gus'),
    ('${token("sk-gus-2")}', 'gus-team', 0, NULL, '{}', 'slow', NULL, NULL, NULL, 'gus'),
    ('${token("sk-hal")}', 'hal', 0, NULL, '{}', NULL, NULL, NULL, NULL, 'hal'),
    ('${token("sk-ida")}', 'ida', 0, NULL, '{own,fast}', 'slow', NULL, NULL, NULL, NULL),
    ('${token("sk-jo")}', 'jo', 0, NULL, '{fast,fast}', 'slow', NULL, NULL, NULL, NULL),
    ('${token("sk-ui")}', NULL, 0, NULL, '{}', 'litellm-dashboard', NULL, 1, '1d', NULL)`;

describe("litellm.ts", () => {
  it("takes a secret once, also if its first calls come together, or the store fails in between", async () => {
    const script = `
      import { createHash } from "node:crypto";
      import { keyAdmin } from "polygate/admin";
      import { openStores } from "polygate/stores";
      process.env.OPENAI_API_KEY = process.env.ANTHROPIC_API_KEY = "sk-1";
      const { default: server } = await import(${JSON.stringify("./litellm.ts")});
      const stores = await openStores("sqlite:secrets.db", { migrate: true });
      const { quotas } = stores.ports;
      const token = (secret) => createHash("sha256").update(secret).digest("hex");
      for (const id of ["both", "away", "half", "end"])
        await quotas.add({ id, apiKey: [], metadata: { litellm: token("sk-" + id) } });
      await quotas.revoke("end");
      await server.gateway(stores);
      const found = async (secret) => quotas.find(secret).then((key) => key?.id ?? null, ({ message }) => message);
      const failing = async (verb, secret) => {
        const real = quotas[verb];
        quotas[verb] = async () => { throw new Error("away"); };
        const answer = await found(secret);
        quotas[verb] = real;
        return answer;
      };
      const answers = [await Promise.all([found("both"), found("both"), found("BOTH")])];
      answers.push(await failing("addSecret", "away"), await found("away"));
      answers.push(await failing("update", "half"), await found("half"));
      for (const id of ["both", "away", "half"]) await quotas.removeSecret(id);
      for (const id of ["both", "away", "half", "end"]) answers.push(await found(id));
      await stores.close();
      console.log(JSON.stringify(answers));`;
    expect(await printed(script)).toEqual([
      ["both", "both", null],
      "away",
      "away",
      "away",
      "half",
      null,
      null,
      null,
      null,
    ]);
  });

  it("takes over the keys of LiteLLM by the queries of the examples, and each secret with its first call", async () => {
    const database = await PGlite.create();
    await database.exec(LITELLM_TABLES);
    const keyQuery = await readFile(`${ROOT}docs/examples/litellm-keys.sql`, "utf8");
    const { rows } = await database.query<[object]>(keyQuery, [], { rowMode: "array" });
    const budgetQuery = await readFile(`${ROOT}docs/examples/litellm-budgets.sql`, "utf8");
    const { rows: budgets } = await database.query<[string]>(budgetQuery, [], { rowMode: "array" });
    await database.close();
    const ben = token("sk-ben").slice(0, 16);
    const [lines, metadata] = [rows.flat(), (secret: string) => ({ litellm: token(secret) })];
    expect(lines).toEqual([
      {
        id: "anna",
        apiKey: [],
        granted: 20_000_000,
        used: 20_000_000,
        paused: false,
        models: ["fast"],
        expiresAt: Date.UTC(2999, 0) / 1_000,
        budget: "team-a",
        metadata: { ...metadata("sk-anna"), group: "team-a" },
      },
      { id: ben, apiKey: [], paused: true, metadata: { ...metadata("sk-ben"), group: "unlimited" } },
      { id: "carl", apiKey: [], paused: true, used: 0, metadata: metadata("sk-carl") },
      ...["dora", "emil"].map((id) => ({
        id,
        apiKey: [],
        paused: false,
        used: 0,
        models: ["own"],
        metadata: { ...metadata(`sk-${id}`), group: "slow" },
      })),
      { id: "fay", apiKey: [], paused: true, used: 0, metadata: { ...metadata("sk-fay"), group: "off" } },
      {
        id: "gus-own",
        apiKey: [],
        paused: false,
        used: 0,
        models: ["fast"],
        budget: "gus",
        metadata: metadata("sk-gus"),
      },
      {
        id: "gus-team",
        apiKey: [],
        paused: false,
        used: 0,
        models: ["own"],
        metadata: { ...metadata("sk-gus-2"), group: "slow" },
      },
      { id: "hal", apiKey: [], paused: false, used: 0, metadata: metadata("sk-hal") },
      ...[
        ["ida", ["own"]] as const,
        // Neither of its lists has a model of the other one.
        ["jo", []] as const,
      ].map(([id, models]) => ({
        id,
        apiKey: [],
        paused: false,
        used: 0,
        models,
        metadata: { ...metadata(`sk-${id}`), group: "slow" },
      })),
    ]);

    const shell = blocks.find(({ page, language }) => page === "docs/moving.md" && language === "sh")?.code ?? "";
    await writeFile(`${folder}/keys.jsonl`, lines.map((line) => JSON.stringify(line)).join("\n"));
    const cli = `"${process.execPath}" "${ROOT}src/cli.ts"`;
    await writeFile(`${folder}/budgets.sh`, budgets.flat().join("\n").replaceAll("npx polygate", cli));
    const commands = shell
      .replaceAll("npx polygate", cli)
      .replace(/^psql .*budgets\.sh && /m, "")
      .replace(/^(?:npm|cp|psql|.* serve) .*\n/gm, "");
    const store = "sqlite:litellm.db";
    const { stdout } = await run("sh", ["-ec", commands.replace(/(?<=_STORE=)postgres:\S+/, store)], inFolder());
    for (const said of [
      "Took 120.00 USD from team-a. Granted: 180.00 USD.",
      "Took 1.50 USD from over. Granted: 0.00 USD.",
    ])
      expect(stdout).toContain(said);
    const polygate = async (command: string): Promise<string> =>
      (await run("sh", ["-ec", `${cli} ${command} --store ${store} --currency usd`], inFolder())).stdout;
    expect(JSON.parse(await polygate("budgets list --json"))).toMatchObject([
      { id: "-x", amount: 1_000_000 },
      { id: "gus", amount: 10_000_000 },
      { id: "it's", amount: 0, period: "day" },
      { id: "over", amount: 1_500_000, available: 0, period: "week" },
      { id: "team-a", amount: 300_000_000, available: 180_000_000, period: "month" },
    ]);
    await polygate("keys grant anna 1");
    await polygate(`keys resume ${ben}`);
    await writeFile(`${folder}/removed.txt`, "sk-ben\n");

    const { upstream, url } = await startUpstream("Hello.");
    const env = { OPENAI_URL: url, OPENAI_API_KEY: "sk-1", ANTHROPIC_URL: url, ANTHROPIC_API_KEY: "sk-2" };
    const served = [`${ROOT}src/cli.ts`, "serve", "litellm.ts", "--store", store];
    const { port, child, errors } = await startWith(env, process.execPath, "--import", PRELOAD, ...served);
    const call = async (apiKey: string, model: string): Promise<string | null> => {
      const openai = new OpenAI({ apiKey, baseURL: `http://127.0.0.1:${port}/v1`, maxRetries: 0 });
      const messages = [{ role: "user" as const, content: "Hello" }];
      const { choices } = await openai.chat.completions.create({ model, messages, max_completion_tokens: 100 });
      return choices[0]?.message.content ?? null;
    };
    try {
      // Both calls bring the secret first.
      expect(await Promise.all([call("sk-anna", "fast"), call("sk-anna", "fast")])).toEqual(["Hello.", "Hello."]);
      await expect(call("sk-anna", "careful")).rejects.toMatchObject({ code: "model_not_allowed" });
      expect(await call("sk-ben", "careful")).toBe("Hello.");
      await expect(call("sk-carl", "fast")).rejects.toMatchObject({ code: "paused_api_key" });
      for (const stranger of ["sk-ui", "sk-none", token("sk-anna")])
        await expect(call(stranger, "fast")).rejects.toMatchObject({ code: "invalid_api_key" });
      const keys = JSON.parse(await polygate("keys list --json")) as object[];
      expect(keys).toMatchObject([
        { id: ben, secrets: 1, metadata: { group: "unlimited" } },
        { id: "anna", secrets: 1, metadata: { group: "team-a" } },
        { id: "carl", secrets: 1 },
        ...["dora", "emil", "fay", "gus-own", "gus-team", "hal", "ida", "jo"].map((id) => ({ id, secrets: 0 })),
      ]);
      expect(JSON.stringify(keys.slice(0, 3))).not.toContain("litellm");
      await polygate("keys remove-secret < removed.txt");
      await expect(call("sk-ben", "careful")).rejects.toMatchObject({ code: "invalid_api_key" });
    } finally {
      child.kill("SIGTERM");
      const [exit] = (await once(child, "exit")) as [number | null];
      upstream.close();
      expect([exit, errors()]).toEqual([0, errors()]);
    }
    expect(await polygate("usage --by key,group --csv")).toMatch(/^anna,.*team-a.*\b0\.000156/m);
  });
});

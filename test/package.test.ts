/** Builds and packs the package, installs it in an empty project, and uses it there as a host does. */

import { globSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { CLEAR } from "./formats/images/pictures.ts";
import { commandSuite } from "./package/command.ts";
import { consumersSuite } from "./package/consumers.ts";
import { demoSuite } from "./package/demo.ts";
import { lintersSuite } from "./package/linters.ts";
import { runtimesSuite } from "./package/runtimes.ts";
import { linkPackages, OLDEST_NODE, type PackageStage, packInto, runOrThrow } from "./package/stage.ts";
import { templateSuite } from "./package/template.ts";
import { workersSuite } from "./package/workers.ts";

/** The entries of the package. */
const ENTRIES = [
  "index",
  "admin",
  "backends/affinity",
  "backends/relay",
  "backends/route",
  "bun",
  "clouds/aws",
  "clouds/azure",
  "clouds/google",
  "core",
  "deno",
  "edge",
  "express",
  "formats/chat-completions",
  "formats/embeddings",
  "formats/generate-content",
  "formats/images",
  "formats/messages",
  "formats/responses",
  "formats/token-usage",
  "hooks",
  "koa",
  "node",
  "openapi",
  "prices",
  "redactor",
  "serve",
  "stores",
  "stores-redis",
  "stores-sql",
  "telemetry",
  "testing",
];

const root = fileURLToPath(new URL("..", import.meta.url));
let folder: string;
let project: string;
let tarball: string;
/** The text of each file in the tarball, by its path. */
let packed: ReadonlyMap<string, string>;

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "polygate-")));
  project = join(folder, "project");
  const installed = join(project, "node_modules", "polygate");
  await mkdir(installed, { recursive: true });
  tarball = await packInto(folder);
  await runOrThrow("tar", ["-xzf", tarball, "--strip-components=1", "-C", installed], folder);
  const files = (await readdir(installed, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  packed = new Map(
    await Promise.all(
      files.map(async (entry): Promise<[string, string]> => {
        const path = join(entry.parentPath, entry.name);
        return [path.slice(installed.length + 1).replaceAll("\\", "/"), await readFile(path, "utf8")];
      }),
    ),
  );
  const manifest = JSON.parse(packed.get("package.json") ?? "") as { dependencies: Record<string, string> };
  await writeFile(join(project, "package.json"), JSON.stringify({ private: true, type: "module" }));
  // The peers are those of `polygate/stores`, `polygate/telemetry` and `polygate/clouds/*`.
  await linkPackages(project, [
    ...Object.keys(manifest.dependencies),
    "@types/node",
    "kysely",
    "@opentelemetry/api",
    "@smithy/eventstream-codec",
    "aws4fetch",
    "google-auth-library",
  ]);
}, 180_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

const NODES = [
  ["the Node of this test", process.execPath],
  ["the oldest Node that is promised", OLDEST_NODE],
] as const;

it.each(NODES)("answers from an installed copy, on %s", async (_name, node) => {
  const script = `
    import { createGateway, GatewayError, memoryQuotaStore } from "polygate";
    import * as edge from "polygate/edge";
    import { toNodeHandler } from "polygate/node";
    import * as testing from "polygate/testing";

    const backend = {
      async *chat() {
        yield "Hello from the package.";
      },
    };
    const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1", granted: 1_000 }]) });
    const response = await gateway.fetch(
      new Request("http://localhost/v1/messages", {
        method: "POST",
        headers: { "x-api-key": "sk-1", "compat-version": "2023-06-01", "content-type": "application/json" },
        body: JSON.stringify({ model: "any", max_tokens: 100, messages: [{ role: "user", content: "Hello" }] }),
      }),
    );
    const exported = [typeof toNodeHandler(gateway), Object.keys(testing).length > 0];
    // An error of the other copy, and an ordinary error.
    const known = [new edge.GatewayError("busy", "Full."), new Error("busy")].map((error) => error instanceof GatewayError);
    console.log(JSON.stringify({ status: response.status, exported, known, body: await response.json() }));
  `;
  await writeFile(join(project, "host.js"), script);
  expect(JSON.parse(await runOrThrow(node, ["host.js"], project))).toMatchObject({
    status: 200,
    exported: ["function", true],
    known: [true, false],
    body: { type: "message", role: "assistant", content: [{ type: "text", text: "Hello from the package." }] },
  });
});

it("serves the official clients from workerd, as one file that imports nothing", async () => {
  const bundle = packed.get("dist/edge.js") ?? "";
  expect(bundle.match(/^import\b.*|\bimport\(.*|\brequire\(.*|["']node:.*/gm)).toBeNull();
  const worker = `
    import { createGateway, memoryQuotaStore, toEdgeHandler } from "./edge.js";

    const backend = {
      async *chat() {
        yield "Hello from ";
        yield "the edge.";
      },
      async *image({ images: [image] }) {
        yield { type: "image", bytes: image.bytes, mediaType: image.mediaType };
      },
    };
    const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1", granted: 10_000 }]) });
    export default { fetch: toEdgeHandler(gateway, { prefix: "/ai" }) };
  `;
  const { Miniflare } = await import("miniflare");
  await using stack = new AsyncDisposableStack();
  const miniflare = new Miniflare({
    modules: [
      { type: "ESModule", path: "worker.js", contents: worker },
      { type: "ESModule", path: "edge.js", contents: bundle },
    ],
    compatibilityDate: "2026-07-01",
  });
  stack.defer(() => miniflare.dispose());
  const baseURL = new URL("ai", await miniflare.ready).href;

  const anthropic = new Anthropic({ apiKey: "sk-1", baseURL });
  const messages = [{ role: "user" as const, content: "Hello" }];
  const message = await anthropic.messages.stream({ model: "any", max_tokens: 100, messages }).finalMessage();
  expect(message.content).toMatchObject([{ type: "text", text: "Hello from the edge." }]);

  const genai = new GoogleGenAI({ apiKey: "sk-1", httpOptions: { baseUrl: baseURL } });
  const answer = await genai.models.generateContent({ model: "any", contents: "Hello" });
  expect(answer.text).toBe("Hello from the edge.");

  const openai = new OpenAI({ apiKey: "sk-1", baseURL: `${baseURL}/v1` });
  const image = new File([CLEAR], "clear.png", { type: "image/png" });
  const edited = await openai.images.edit({ model: "gpt-image-1", image, prompt: "Nothing" });
  expect(edited.data?.[0]?.b64_json).toBe(Buffer.from(CLEAR).toString("base64"));
});

const stage = (): PackageStage => ({ project, tarball });
commandSuite(stage);
demoSuite(stage);
consumersSuite(stage);
runtimesSuite(stage);
lintersSuite(stage);
templateSuite(stage);
workersSuite(stage);

/** The files of an entry: for bundlers, for servers, and its declarations. Only Workers have the file of the edge. */
const filesOf = (name: string): string[] => [
  `dist/${name}.js`,
  `dist/${name}.d.ts`,
  ...(name === "edge" ? [] : [`dist/server/${name}.js`]),
];

/** The docs for language models. */
const LLMS = ["dist/llms.txt", "dist/llms-full.txt"];

it("holds only what is published", async () => {
  const paths = Array.from(packed.keys());
  const built = paths.filter((path) => /^dist\/.+\.(?:js|d\.ts)$/.test(path));
  expect(built).toEqual(expect.arrayContaining(["dist/server/cli.js", ...ENTRIES.flatMap(filesOf)]));
  const others = paths.filter((path) => !built.includes(path));
  const docs = globSync("docs/**/*.{md,png,sql,ts,txt}", { cwd: root });
  const template = (await readdir(join(root, "playground/template"))).map((name) => `playground/template/${name}`);
  const page = ["app.licenses.txt", "index.html", "style.css"].map((name) => `dist/admin/page/${name}`);
  const styles = await readdir(join(root, "playground/page/app/styles"));
  const demo = [
    "demo.licenses.txt",
    "python/harness.py",
    ...["app.licenses.txt", "index.html", "logo.svg", "reference/index.html", "reference/style.css"].map(
      (name) => `page/${name}`,
    ),
    ...styles.map((name) => `page/styles/${name}`),
  ].map((name) => `dist/demo/${name}`);
  const grafana = ["grafana/alerts.yaml", "grafana/dashboard.json"];
  const pages = ["CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", ...docs, ...grafana, ...template];
  expect(others.toSorted()).toEqual(
    [...pages, ...page, ...demo, "dist/edge.licenses.txt", ...LLMS, "package.json"].toSorted(),
  );
});

it("names no path in its manifest that the package lacks", () => {
  const {
    scripts: _ofAClone,
    bin,
    files,
    ...manifest
  } = JSON.parse(packed.get("package.json") ?? "") as {
    scripts: object;
    bin: object;
    files: readonly string[];
  };
  const relative = stringsIn(manifest).filter((text) => text.startsWith("."));
  const named = [...relative, ...stringsIn(bin), ...files].map((path) => posix.normalize(path));
  expect(named).toContain("dist/index.js");
  const paths = [...packed.keys()];
  expect(named.filter((name) => !paths.some((path) => path === name || path.startsWith(`${name}/`)))).toEqual([]);
});

/** Returns every string in a JSON value, at any depth. */
const stringsIn = (value: unknown): string[] =>
  typeof value === "string" ? [value] : Object.values(value ?? {}).flatMap(stringsIn);

it("leads webpack to the small files, before the condition for Node that webpack sets, too", () => {
  const { exports } = JSON.parse(packed.get("package.json") ?? "") as {
    exports: Record<string, Record<string, unknown>>;
  };
  const served = Object.values(exports).filter((entry) => entry["module-sync"]);
  expect(served.length).toBeGreaterThan(30);
  for (const { "module-sync": server, webpack, node, default: small, ...entry } of served) {
    expect(webpack).toEqual(node === undefined ? small : { node, default: small });
    expect([server, entry["bun"], entry["deno"]]).toEqual(
      Array(3).fill(String(small).replace("./dist/", "./dist/server/")),
    );
  }
  const orders = served.map((entry) => Object.keys(entry));
  expect(orders.filter((names) => names.indexOf("webpack") > names.indexOf("module-sync"))).toEqual([]);
});

it("is found under no framework or format that it does not support yet", () => {
  const { keywords, exports } = JSON.parse(packed.get("package.json") ?? "") as {
    keywords: string[];
    exports: Record<string, unknown>;
  };
  const frameworks = ["express", "koa", "fastify", "hono", "bun", "deno", "edge"];
  expect(keywords.filter((word) => frameworks.includes(word) && !(`./${word}` in exports))).toEqual([]);
});

it("says nothing of the machine that built it", () => {
  const places = [root.replace(/[/\\]$/, ""), folder, "file://", "/home/", "/Users/"];
  const mentions = Array.from(packed, ([path, text]) => [
    path,
    // A folder in the memory of Pyodide is on no machine.
    ...places.filter((place) => text.replaceAll("/home/pyodide", "").includes(place)),
    ...(text.match(/(?<!(?:formats|\.\.)\/)\bshared\//g) ?? []),
  ]).filter(({ length }) => length > 1);
  expect(mentions).toEqual([]);
});

const IMPORT = /^(?:import|export).* from "([^"]+)"|^import "([^"]+)"|\bimport\("([^"]+)"\)/gm;

it("keeps Node's own modules out of its index", () => {
  const seen = new Set<string>(["dist/index.js"]);
  const outside: string[] = [];
  for (const path of seen)
    for (const [, from, effect, dynamic] of (packed.get(path) ?? "").matchAll(IMPORT)) {
      const specifier = from ?? effect ?? dynamic ?? "";
      if (specifier.startsWith(".")) seen.add(posix.join(posix.dirname(path), specifier));
      else outside.push(specifier);
    }
  expect(outside).toContain("h3");
  expect(outside.filter((specifier) => specifier.startsWith("node:"))).toEqual([]);
});

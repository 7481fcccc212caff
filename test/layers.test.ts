/** Holds the layers: who may import whom, read from the imports of every file. Imports of types count too. */

import { existsSync, globSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

interface Import {
  readonly file: string;
  readonly specifier: string;
}

const root = fileURLToPath(new URL("..", import.meta.url));

const filesOf = (...patterns: string[]): string[] =>
  globSync(patterns, { cwd: root, exclude: (path) => /(^|[/\\])(node_modules|dist)$/.test(path) })
    .map((path) => path.replaceAll("\\", "/"))
    .toSorted();
const textOf = (file: string): string => readFileSync(new URL(`../${file}`, import.meta.url), "utf8");

/** The formatter puts the `from` of an import or export at the end of a line that begins in the first column. */
const IMPORT = /^(?:import|export|\}).*? from "([^"]+)"|^import "([^"]+)"|\bimport\(\s*"([^"]+)"\s*\)/gm;

const importsIn = (file: string, text: string): Import[] =>
  Array.from(text.matchAll(IMPORT), ([, from, effect, dynamic]) => ({
    file,
    specifier: from ?? effect ?? dynamic ?? "",
  }));

/** Each layer may import what stands above it in this list, and a part of the house its own files. */
const LAYERS = [
  ["options"],
  ["wrong-address"],
  ["model", "errors", "limits", "node-version"],
  ["ports"],
  ["http", "media"],
  ["encryption"],
  ["kinds"],
  ["formats/shared"],
  ["formats/*"],
  ["pipeline"],
  ["formats/all"],
  ["routes"],
  ["features"],
  ["gateway"],
  ["every-format"],
];
/** The parts that stand beside the layers, with the parts that each may import beside its own files. */
const ASIDE: Readonly<Record<string, readonly string[]>> = {
  upstreams: ["ports", "model", "errors", "options", "node-version"],
  // Conversions and errors use the words that the formats share.
  "upstreams/ai-sdk": ["ports", "options", "node-version", "model", "errors", "media", "kinds", "formats/shared"],
  "upstreams/relay": [
    "ports",
    "options",
    "node-version",
    "model",
    "errors",
    "http",
    "media",
    "formats/shared",
    "formats/all",
  ],
  // Formats as clouds serve them, for the relay.
  clouds: [
    "ports",
    "options",
    "node-version",
    "model",
    "errors",
    "http",
    "media",
    "kinds",
    "formats/shared",
    "formats/*",
    "upstreams",
    "upstreams/relay",
  ],
  stores: ["ports", "model", "media", "encryption", "errors", "options", "node-version"],
  "stores/sql": ["stores", "ports", "model", "errors", "options", "node-version"],
  "stores/redis": ["stores", "ports", "model", "errors", "options", "node-version"],
  "stores/open": ["stores", "stores/sql", "stores/redis", "ports", "options", "node-version"],
  "admin/http": [
    "index",
    "admin",
    "options",
    "stores",
    "http",
    "model",
    "pipeline",
    "ports",
    "routes",
    "gateway",
    "node-version",
    // The faults of bodies, and their time.
    "errors",
    "limits",
  ],
  "admin/page": ["admin", "admin/http", "options", "node-version", "model", "stores", "ports", "pipeline"],
  admin: [
    "options",
    "stores",
    "stores/open",
    "stores/sql",
    "stores/redis",
    "ports",
    "model",
    "node-version",
    // The codes of errors, as clients of each format read them.
    "errors",
    "limits",
    "formats/all",
  ],
  // The model of the demo, which tests of hosts use too.
  demo: ["index", "errors"],
  // A gateway as a server of its own: it mounts what a host mounts.
  serve: [
    "index",
    "adapters",
    "options",
    "node-version",
    "ports",
    "stores",
    "stores/open",
    "admin/http",
    "admin/page",
    "telemetry",
  ],
  // The command puts together what it runs.
  cli: ["admin", "options", "stores/open", "serve", "playground"],
  index: [...LAYERS.flat(), "upstreams", "upstreams/relay", "stores"],
  // The core holds the mount for Workers as well: a bundler leaves out what a host does not use.
  core: [...LAYERS.flat(), "upstreams", "upstreams/relay", "stores", "adapters"],
  // The descriptions stand in the folders of the formats, and only the document may import them: no other entry needs them.
  "formats/openapi": ["errors", "model", "formats/shared", "formats/*"],
  openapi: ["index", "options", "node-version", "model", "formats/shared", "formats/openapi"],
  telemetry: ["index", "options", "node-version"],
  prices: ["kinds", "model", "errors", "options", "node-version"],
  hooks: ["pipeline", "kinds", "ports", "node-version"],
  redactor: ["hooks", "ports", "model", "options", "node-version"],
  testing: [
    "demo",
    "index",
    "every-format",
    "adapters",
    "ports",
    "model",
    "media",
    "kinds",
    "pipeline",
    "errors",
    "options",
    "node-version",
  ],
  // The bundle for the edge holds the upstreams as well.
  adapters: ["index", "options", "node-version", "wrong-address", "upstreams", "upstreams/relay"],
  playground: [
    "index",
    "openapi",
    "telemetry",
    "adapters",
    "upstreams",
    "upstreams/relay",
    "stores/sql",
    "stores/redis",
    "stores/open",
    "admin",
    "admin/http",
    "admin/page",
    "demo",
    "prices",
    "serve",
    "ports",
  ],
};
/** A layer's further imports: a format brings the rules of its kinds, and images fall back on the store in memory. */
const BESIDE: Readonly<Record<string, readonly string[]>> = { "formats/*": ["rules", "stores"] };

const manifest: unknown = JSON.parse(textOf("package.json"));
// A description of schemas is for the parts below alone: no call needs one.
const { "@valibot/to-json-schema": _, ...dependencies } = (
  manifest as { dependencies: Readonly<Record<string, string>> }
).dependencies;
/** What from outside a part may import; a part that is not listed takes the dependencies of package.json alone. */
const PACKAGES: Readonly<Record<string, RegExp>> = {
  // The polyfills are copied into the one entry that needs them.
  adapters: /^(?:buffer|h3|srvx|ws|node:.*)$/,
  // Models are told by their shape: nothing of their library is imported.
  "upstreams/ai-sdk": /^$/,
  // Each runtime's own transport.
  "upstreams/relay": /^(?:undici|ws|eventsource-parser|@noble\/hashes|node:(?:net|stream|zlib))$/,
  // The one part that needs these optional peers.
  clouds: /^(?:@smithy\/eventstream-codec|aws4fetch|google-auth-library|valibot)$/,
  admin: /^(?:valibot|node:.*)$/,
  // The page itself is built ahead, with all that it imports.
  "admin/page": /^(?:@preact\/signals|htm|preact|node:fs\/promises)$/,
  "admin/http": /^(?:@valibot\/to-json-schema|h3|valibot|@noble\/hashes)$/,
  // The one part that opens the clients of databases, which are optional peers.
  "stores/open": /^(?:kysely|mysql2|pg|rate-limiter-flexible|redis|node:.*)$/,
  "stores/sql": /^(?:kysely|node:sqlite)$/,
  openapi: /^(?:@valibot\/to-json-schema|valibot)$/,
  // The one part that needs this optional peer.
  telemetry: /^@opentelemetry\/api$/,
  // Runs in tests alone, in Node, Bun and Deno.
  testing: /^node:(?:assert\/strict|crypto|events|http|net|timers\/promises|util)$/,
  // The build copies the libraries of schemas into the package; sharp is there where a host has installed it.
  demo: /^(?:ajv|fast-check|image-dimensions|json-schema-faker|sharp|node:.*)$/,
  serve: /^(?:node:|@opentelemetry\/(?:sdk-metrics|exporter-prometheus|resources)$)/,
  cli: /^node:/,
  playground: /./,
};

/** The part of the house that a file belongs to, or undefined for a file outside it. */
function partOf(file: string): string | undefined {
  const [top, folder, ...rest] = file.replace(/\.[cm]?[jt]sx?$/, "").split("/");
  if (top === "adapters" || top === "playground") return top;
  if (top !== "src" || folder === undefined) return undefined;
  if (folder === "formats") return partOfFormats(rest);
  if (folder === "upstreams" && (rest[0] === "relay" || rest[0] === "ai-sdk")) return `upstreams/${rest[0]}`;
  // What has an entry of its own in the package.
  if ((folder === "stores" || folder === "admin") && rest.length > 1) return `${folder}/${rest[0]}`;
  return folder;
}

/** A format is a folder. The interfaces beside the folders, and the folder `shared`, stand below all of them, and the list above. */
function partOfFormats([folder = "", room]: readonly string[]): string {
  if (folder === "all") return "formats/all";
  if (folder === "shared" || room === undefined) return "formats/shared";
  return room === "openapi" ? "formats/openapi" : `formats/${folder}`;
}

const OF_ALL_FORMATS = ["formats/shared", "formats/openapi", "formats/all"];

const kindOf = (part: string): string =>
  part.startsWith("formats/") && !OF_ALL_FORMATS.includes(part) ? "formats/*" : part;

function mayImport(from: string, to: string): boolean {
  // Of one folder, though one of its files may import more than the others.
  if (from === to || (from.startsWith("upstreams") && to.startsWith("upstreams"))) return true;
  const layer = LAYERS.findIndex((parts) => parts.includes(kindOf(from)));
  const allowed = ASIDE[from] ?? [...LAYERS.slice(0, layer).flat(), ...(BESIDE[kindOf(from)] ?? [])];
  return allowed.includes(kindOf(to));
}

const packageOf = (specifier: string): string =>
  specifier.startsWith("node:") ? specifier : (/^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier);

const targetOf = ({ file, specifier }: Import): string => posix.join(posix.dirname(file), specifier);

/** What is wrong with an import, or undefined. */
function breach(found: Import): string | undefined {
  const part = partOf(found.file);
  if (part === undefined || !(LAYERS.flat().includes(kindOf(part)) || part in ASIDE))
    return "has no place in the layers";
  if (!found.specifier.startsWith(".")) {
    const name = packageOf(found.specifier);
    return (PACKAGES[part]?.test(name) ?? name in dependencies) ? undefined : `${part} must not import this package`;
  }
  const target = targetOf(found);
  if (target.startsWith("../")) return "leaves the repository";
  const to = partOf(target);
  return to !== undefined && mayImport(part, to) ? undefined : `${part} must not import ${to ?? "this"}`;
}

const breaches = (imports: readonly Import[]): string[] =>
  imports.flatMap((found) => {
    const wrong = breach(found);
    return wrong === undefined ? [] : [`${found.file} imports "${found.specifier}": ${wrong}`];
  });

/** Circles of imports, each told file by file; at least one of any that touch. */
function circles(imports: readonly Import[]): string[] {
  const targets = new Map(imports.map(({ file }): [string, string[]] => [file, []]));
  for (const found of imports.filter(isRelative)) targets.get(found.file)?.push(targetOf(found));
  const done = new Set<string>();
  const found: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) found.push([...path.slice(path.indexOf(file)), file].join(" imports "));
    if (path.includes(file) || done.has(file)) return;
    for (const next of targets.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  };
  for (const file of targets.keys()) visit(file, []);
  return found;
}

const isRelative = ({ specifier }: Import): boolean => specifier.startsWith(".");

const published = filesOf("src/**/*.{ts,tsx}", "adapters/**/*.{ts,tsx}");
const code = filesOf("{src,adapters,playground,test}/**/*.{ts,tsx,mts,js,mjs,jsx}");
const imports = code.flatMap((file) => importsIn(file, textOf(file)));
const ofProduct = code.filter((file) => !file.startsWith("test/"));
const ofHouse = imports.filter(({ file }) => !file.startsWith("test/"));

describe("the layers", () => {
  it("are kept by every import", () => {
    expect(breaches(ofHouse)).toEqual([]);
  });

  it("have a place for every file", () => {
    const known = [...LAYERS.flat(), ...Object.keys(ASIDE)];
    expect(published.filter((file) => !known.includes(kindOf(partOf(file) ?? "")))).toEqual([]);
  });

  it("hold no circle", () => {
    expect(circles(imports)).toEqual([]);
  });

  it("stay inside the repository, and name files as they are", () => {
    const astray = imports
      .filter((found) => isRelative(found) && !existsSync(new URL(`../${targetOf(found)}`, import.meta.url)))
      .map(({ file, specifier }) => `${file} imports "${specifier}"`);
    expect(astray).toEqual([]);
  });
});

describe("a file", () => {
  it("of a format has one of the rooms' names, and after it the wire object that it is about", () => {
    const room =
      "(?:schema|request|answer|stream|reasoning|functions|embed|errors|conversions|openapi|relay|documents|kept|background|queries|socket|turns|compaction|routes|upstream)";
    const name = new RegExp(
      String.raw`^src/formats/(?:format|module|all|shared\/.+|[^/]+/(?:index|module|${room}(?:\.[a-z-]+)?))\.ts$`,
    );
    expect(filesOf("src/formats/**/*.*").filter((file) => !name.test(file))).toEqual([]);
  });

  it("parses JSON in one place, which holds limits, unless it is listed here with a reason", () => {
    const reasons: Readonly<Record<string, string>> = {
      "src/model/json.ts": "the one place",
      "src/openapi/document.ts": "copies the document that it has made",
      "src/demo/satisfy.ts": "copies a schema that the gateway has parsed",
      "src/testing/laws/replay-store.ts": "copies a state of the store under test, to compare it",
      "playground/bundles.ts": "reads the manifests of installed packages",
      "playground/page/app/json.ts": "runs in the browser of the person who asked",
      "playground/upstream.ts": "reads a file of the host's own",
    };
    const parsing = /\bJSON\s*(?:\.\s*parse\b|\[)|\{[^}]*\bparse\b[^}]*\}\s*=\s*JSON\b/;
    const found = ofProduct.filter((file) => parsing.test(textOf(file).replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, "")));
    expect(found).toEqual(Object.keys(reasons).toSorted());
  });

  it("names a kind of generation in the kind's folder and in the registries, and nowhere else", () => {
    // In formats, the compiler holds this: an endpoint brings the module of its kind. The words there are those of the wire.
    const reasons: Readonly<Record<string, string>> = {
      "src/ports/call-info.ts": "the registry of the names",
      "src/ports/model-backend.ts": "the registry of the functions",
      "src/telemetry/call.ts": "the words of OpenTelemetry",
    };
    const named = /\bkinds?\b[^;\n"]*"(?:chat|image|embedding)"|"(?:chat|image|embedding)"[^;\n"]*\bkinds?\b/i;
    const others = /^src\/(?:model|kinds|formats|openapi|demo)\//;
    const found = published.filter((file) => !others.test(file) && named.test(textOf(file)));
    expect(found.filter((file) => !Object.hasOwn(reasons, file))).toEqual([]);
  });

  it("has no default export and no `export *`", () => {
    const unnamed = code.flatMap((file) =>
      Array.from(
        textOf(file).matchAll(/^export (?:default|(?:type )?\*).*|^export \{.*\bas default\b.*/gm),
        ([line]) => `${file}: ${line}`,
      ),
    );
    expect(unnamed).toEqual([]);
  });

  it("never mentions the folder that is not part of the repository", () => {
    // The formats have a folder of that name below them.
    const everything = filesOf("{src,adapters,playground,test,.ci}/**/*.*", ".ci/*", "*.{md,json,ts}");
    const mentions = everything
      .filter((file) => file !== "package-lock.json")
      .flatMap((file) =>
        Array.from(
          textOf(file).matchAll(/.*(?<!(?:formats|\.\.?)\/)\bshared\/.*/g),
          ([line]) => `${file}: ${line.trim()}`,
        ),
      );
    expect(mentions).toEqual([]);
  });
});

describe("these rules", () => {
  it("see every form of import", () => {
    const text = [
      'import "one";',
      'import type { A } from "two";',
      'import {\n  a, // it\'s from afar\n  type B,\n} from "three";',
      'export { c } from "four";',
      'const d = await import("five");',
      '/** import { e } from "a comment"; */',
    ];
    const specifiers = importsIn("a.ts", text.join("\n")).map(({ specifier }) => specifier);
    expect(specifiers).toEqual(["one", "two", "three", "four", "five"]);
  });

  it.each([
    ["src/model/usage.ts", "../ports/clock.ts"],
    ["src/model/usage.ts", "../errors.ts"],
    ["src/errors.ts", "./limits.ts"],
    ["src/ports/clock.ts", "../http/credential.ts"],
    ["src/http/credential.ts", "../kinds/chat/price.ts"],
    ["src/kinds/chat/price.ts", "../../formats/format.ts"],
    ["src/formats/format.ts", "./messages/index.ts"],
    ["src/formats/messages/index.ts", "../token-usage/index.ts"],
    ["src/formats/messages/index.ts", "../../index.ts"],
    ["src/formats/messages/index.ts", "../../pipeline/pipeline.ts"],
    ["src/formats/shared/tools.ts", "../messages/index.ts"],
    ["src/pipeline/pipeline.ts", "../gateway.ts"],
    ["src/pipeline/call.ts", "../stores/memory.ts"],
    ["src/openapi/document.ts", "../pipeline/pipeline.ts"],
    ["src/openapi/document.ts", "h3"],
    ["src/gateway.ts", "./openapi/document.ts"],
    ["src/gateway.ts", "@valibot/to-json-schema"],
    ["src/gateway.ts", "./telemetry/index.ts"],
    ["src/gateway.ts", "@opentelemetry/api"],
    ["src/telemetry/call.ts", "@opentelemetry/sdk-trace"],
    ["src/telemetry/tracing.ts", "../ports/observer.ts"],
    ["src/gateway.ts", "./index.ts"],
    ["src/formats/messages/module.ts", "../images/module.ts"],
    ["src/formats/messages/module.ts", "./openapi.ts"],
    ["src/formats/all.ts", "./messages/openapi.ts"],
    ["src/formats/messages/module.ts", "../../upstreams/relay/relay.ts"],
    ["src/upstreams/relay/relay.ts", "../../formats/messages/module.ts"],
    ["src/formats/module.ts", "./messages/module.ts"],
    ["src/gateway.ts", "./stores/memory-images.ts"],
    ["src/core.ts", "./index.ts"],
    ["src/routes.ts", "./every-format.ts"],
    ["src/gateway.ts", "node:http"],
    ["src/gateway.ts", "vitest"],
    ["src/stores/memory.ts", "../limits.ts"],
    ["src/stores/memory.ts", "../kinds/chat/price.ts"],
    ["src/upstreams/route.ts", "../formats/messages/stream.ts"],
    ["src/utils.ts", "./errors.ts"],
    ["adapters/node.ts", "../src/gateway.ts"],
    ["adapters/node.ts", "valibot"],
    ["playground/server.ts", "../src/stores/memory.ts"],
    ["src/stores/memory.ts", "./sql/schema.ts"],
    ["src/stores/redis/driver.ts", "kysely"],
    ["playground/server.ts", "../test/hosts/index.ts"],
    ["src/gateway.ts", "./testing/laws/index.ts"],
    ["src/testing/index.ts", "../../test/hosts/index.ts"],
    ["src/testing/matchers.ts", "vitest"],
    ["src/gateway.ts", "../../elsewhere.ts"],
  ])("forbid %s to import %s", (file, specifier) => {
    expect(breaches([{ file, specifier }])).toEqual([expect.stringContaining(`${file} imports "${specifier}": `)]);
  });

  it.each([
    ["src/formats/messages/index.ts", "../format.ts"],
    ["src/formats/messages/index.ts", "./stream.ts"],
    ["src/formats/messages/module.ts", "./index.ts"],
    ["src/formats/messages/module.ts", "../module.ts"],
    ["src/formats/messages/module.ts", "../../kinds/chat/index.ts"],
    ["src/formats/images/module.ts", "../../stores/memory-images.ts"],
    ["src/formats/all.ts", "./messages/module.ts"],
    ["src/upstreams/relay/index.ts", "../../formats/all.ts"],
    ["src/formats/messages/openapi.ts", "./schema.answer.ts"],
    ["src/formats/messages/index.ts", "../shared/tools.ts"],
    ["src/pipeline/pipeline.ts", "../kinds/chat/price.ts"],
    ["src/pipeline/pipeline.ts", "./call.ts"],
    ["src/routes.ts", "./pipeline/pipeline.ts"],
    ["src/index.ts", "./stores/memory.ts"],
    ["src/openapi/document.ts", "../index.ts"],
    ["src/openapi/document.ts", "../formats/messages/openapi.ts"],
    ["src/openapi/document.ts", "@valibot/to-json-schema"],
    ["playground/page/handler.ts", "../../src/openapi/index.ts"],
    ["src/upstreams/relay/relay.ts", "../../formats/module.ts"],
    ["src/upstreams/relay/index.ts", "../../formats/shared/tools.ts"],
    ["src/upstreams/route.ts", "./relay.ts"],
    ["src/stores/sql.ts", "@noble/hashes/sha2.js"],
    ["src/testing/index.ts", "./laws/index.ts"],
    ["adapters/express.ts", "./node.ts"],
    ["adapters/node.ts", "srvx/node"],
    ["playground/server.ts", "../adapters/node.ts"],
    ["playground/quotas.ts", "../src/admin/open-store.ts"],
    ["playground/template/stores.ts", "polygate/stores"],
  ])("let %s import %s", (file, specifier) => {
    expect(breaches([{ file, specifier }])).toEqual([]);
  });

  it("find a circle, and say its way", () => {
    const circle = circles([
      { file: "src/a.ts", specifier: "./b.ts" },
      { file: "src/b.ts", specifier: "./c.ts" },
      { file: "src/c.ts", specifier: "./b.ts" },
    ]);
    expect(circle).toEqual(["src/b.ts imports src/c.ts imports src/b.ts"]);
  });
});

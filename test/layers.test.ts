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
  ["overrides"],
  ["model", "errors", "limits", "node-version"],
  ["ports"],
  ["http", "media"],
  ["metering"],
  ["dialects/dialect", "dialects/codec"],
  ["dialects/shared"],
  ["dialects/*"],
  ["dialects"],
  ["links"],
  ["line"],
  ["routes"],
  ["gateway"],
];
/** The parts that stand beside the layers, with what each may import beside its own files. */
const ASIDE: Readonly<Record<string, readonly string[]>> = {
  backends: ["ports", "model", "errors", "overrides", "node-version"],
  // Its fates and errors are said in the words that the codecs share.
  "backends/ai-sdk": ["ports", "overrides", "node-version", "model", "errors", "media", "dialects/shared"],
  "backends/relay": [
    "ports",
    "overrides",
    "node-version",
    "model",
    "errors",
    "http",
    "media",
    "dialects/dialect",
    "dialects/codec",
    "dialects/shared",
    "dialects/*",
  ],
  stores: ["ports", "model", "errors", "node-version"],
  "stores/sql": ["stores", "ports", "model", "errors", "node-version"],
  "stores/redis": ["stores", "ports", "model", "errors", "node-version"],
  admin: ["stores", "stores/sql", "stores/redis", "ports", "node-version"],
  index: [...LAYERS.flat(), "backends", "backends/relay", "stores"],
  // The document is made of what each format has on the wire, its schemas and errors, which the index does not publish.
  openapi: ["index", "node-version", "model", "dialects/shared", "dialects/*"],
  telemetry: ["index", "node-version"],
  // The bundle for the edge holds the backends as well.
  adapters: ["index", "node-version", "backends", "backends/relay"],
  playground: [
    "index",
    "openapi",
    "telemetry",
    "adapters",
    "backends",
    "backends/relay",
    "stores/sql",
    "stores/redis",
    "admin",
  ],
};
/** What a layer may import of the parts that stand beside: a gateway falls back on the stores in memory. */
const FALLS_BACK_ON: Readonly<Record<string, readonly string[]>> = { gateway: ["stores"] };

const manifest: unknown = JSON.parse(textOf("package.json"));
const { dependencies } = manifest as { dependencies: Readonly<Record<string, string>> };
/** What from outside a part may import; a part that is not listed takes the dependencies of package.json alone. */
const PACKAGES: Readonly<Record<string, RegExp>> = {
  // The polyfills are copied into the one entry that needs them.
  adapters: /^(?:buffer|h3|srvx|node:.*)$/,
  // Models are told by their shape: nothing of their library is imported.
  "backends/ai-sdk": /^$/,
  // Each runtime's own transport.
  "backends/relay": /^(?:undici|eventsource-parser|node:(?:stream|zlib))$/,
  // The optional peers are for the stores over SQL and Redis, and for the command that opens them.
  admin: /^(?:kysely|mysql2|pg|redis|node:.*)$/,
  "stores/sql": /^(?:kysely|node:sqlite)$/,
  // The one part that needs an optional peer.
  openapi: /^(?:@valibot\/to-json-schema|valibot)$/,
  // The one part that needs this optional peer.
  telemetry: /^@opentelemetry\/api$/,
  playground: /./,
};

/** The part of the house that a file belongs to, or undefined for a file outside it. */
function partOf(file: string): string | undefined {
  const [top, folder, ...rest] = file.replace(/\.[cm]?[jt]sx?$/, "").split("/");
  if (top === "adapters" || top === "playground") return top;
  if (top !== "src" || folder === undefined) return undefined;
  if (folder === "dialects" && rest.length > 1) return `dialects/${rest[0]}`;
  if (folder === "dialects") return rest[0] === "index" ? "dialects" : `dialects/${rest[0]}`;
  if (folder === "backends" && (rest[0] === "relay" || rest[0] === "ai-sdk")) return `backends/${rest[0]}`;
  // What has an entry of its own in the package.
  if (folder === "stores" && rest.length > 1) return `stores/${rest[0]}`;
  return folder;
}

const BELOW_THE_DIALECTS = ["dialects/dialect", "dialects/codec", "dialects/shared"];

const kindOf = (part: string): string =>
  part.startsWith("dialects/") && !BELOW_THE_DIALECTS.includes(part) ? "dialects/*" : part;

function mayImport(from: string, to: string): boolean {
  // Of one folder, though one of its files may import more than the others.
  if (from === to || (from.startsWith("backends") && to.startsWith("backends"))) return true;
  const layer = LAYERS.findIndex((parts) => parts.includes(kindOf(from)));
  const allowed = ASIDE[from] ?? [...LAYERS.slice(0, layer).flat(), ...(FALLS_BACK_ON[from] ?? [])];
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
    // What is chosen by the runtime, among files of the importing part.
    if (found.specifier.startsWith("#")) return part === "backends/relay" ? undefined : "this is the relay's own";
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
  it("of a dialect has one of the rooms' names, and after it the wire object that it is about", () => {
    const room = "(?:schema|request|answer|response|stream|errors|fates|codec|models)";
    const name = new RegExp(
      String.raw`^src/dialects/(?:index|dialect|codec|shared\/.+|[^/]+/(?:index|${room}(?:\.[a-z-]+)?|${room}/.+))\.ts$`,
    );
    expect(filesOf("src/dialects/**/*.*").filter((file) => !name.test(file))).toEqual([]);
  });

  it("parses JSON in one place, which holds limits, unless it is listed here with a reason", () => {
    const reasons: Readonly<Record<string, string>> = {
      "src/model/json.ts": "the one place",
      "src/openapi/document.ts": "copies the document that it has made",
      "playground/demo/satisfy.ts": "copies a schema that the gateway has parsed",
      "playground/page/app/json.ts": "runs in the browser of the person who asked",
      "playground/upstream.ts": "reads a file of the host's own",
    };
    const parsing = /\bJSON\s*(?:\.\s*parse\b|\[)|\{[^}]*\bparse\b[^}]*\}\s*=\s*JSON\b/;
    const found = ofProduct.filter((file) => parsing.test(textOf(file).replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, "")));
    expect(found).toEqual(Object.keys(reasons).toSorted());
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
    // The dialects have a folder of that name below them.
    const everything = filesOf("{src,adapters,playground,test,.ci}/**/*.*", ".ci/*", "*.{md,json,ts}");
    const mentions = everything
      .filter((file) => file !== "package-lock.json")
      .flatMap((file) =>
        Array.from(
          textOf(file).matchAll(/.*(?<!(?:dialects|\.\.)\/)\bshared\/.*/g),
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
    ["src/model/chat.ts", "../ports/clock.ts"],
    ["src/model/chat.ts", "../errors.ts"],
    ["src/errors.ts", "./limits.ts"],
    ["src/ports/clock.ts", "../http/credential.ts"],
    ["src/http/credential.ts", "../metering/price.ts"],
    ["src/metering/price.ts", "../dialects/dialect.ts"],
    ["src/dialects/dialect.ts", "./messages/index.ts"],
    ["src/dialects/messages/index.ts", "../token-usage/index.ts"],
    ["src/dialects/messages/index.ts", "../index.ts"],
    ["src/dialects/messages/index.ts", "../../line/line.ts"],
    ["src/dialects/shared/tools.ts", "../messages/index.ts"],
    ["src/dialects/index.ts", "../links/publish.ts"],
    ["src/links/publish.ts", "../line/line.ts"],
    ["src/links/publish.ts", "../stores/memory-images.ts"],
    ["src/line/line.ts", "../gateway.ts"],
    ["src/line/call.ts", "../stores/memory.ts"],
    ["src/openapi/document.ts", "../line/line.ts"],
    ["src/openapi/document.ts", "h3"],
    ["src/gateway.ts", "./openapi/document.ts"],
    ["src/gateway.ts", "@valibot/to-json-schema"],
    ["src/gateway.ts", "./telemetry/index.ts"],
    ["src/gateway.ts", "@opentelemetry/api"],
    ["src/telemetry/call.ts", "@opentelemetry/sdk-trace"],
    ["src/telemetry/tracing.ts", "../ports/observer.ts"],
    ["src/gateway.ts", "./index.ts"],
    ["src/gateway.ts", "node:http"],
    ["src/gateway.ts", "vitest"],
    ["src/stores/memory.ts", "../limits.ts"],
    ["src/stores/memory.ts", "../metering/price.ts"],
    ["src/backends/route.ts", "../dialects/messages/stream.ts"],
    ["src/utils.ts", "./errors.ts"],
    ["adapters/node.ts", "../src/gateway.ts"],
    ["adapters/node.ts", "valibot"],
    ["playground/server.ts", "../src/stores/memory.ts"],
    ["src/stores/memory.ts", "./sql/schema.ts"],
    ["src/stores/redis/store.ts", "kysely"],
    ["playground/server.ts", "../test/hosts/index.ts"],
    ["src/gateway.ts", "../../elsewhere.ts"],
  ])("forbid %s to import %s", (file, specifier) => {
    expect(breaches([{ file, specifier }])).toEqual([expect.stringContaining(`${file} imports "${specifier}": `)]);
  });

  it.each([
    ["src/dialects/messages/index.ts", "../dialect.ts"],
    ["src/dialects/messages/index.ts", "./stream.ts"],
    ["src/dialects/index.ts", "./messages/index.ts"],
    ["src/dialects/messages/index.ts", "../shared/tools.ts"],
    ["src/links/publish.ts", "../dialects/dialect.ts"],
    ["src/line/line.ts", "../links/publish.ts"],
    ["src/line/line.ts", "../metering/price.ts"],
    ["src/line/line.ts", "./call.ts"],
    ["src/routes.ts", "./line/line.ts"],
    ["src/gateway.ts", "./stores/memory-images.ts"],
    ["src/index.ts", "./stores/memory.ts"],
    ["src/openapi/document.ts", "../index.ts"],
    ["src/openapi/messages.ts", "../dialects/messages/schema.answer.ts"],
    ["src/openapi/schemas.ts", "@valibot/to-json-schema"],
    ["playground/page/handler.ts", "../../src/openapi/index.ts"],
    ["src/backends/relay.ts", "../dialects/messages/stream.ts"],
    ["src/backends/relay/index.ts", "../../dialects/shared/tools.ts"],
    ["src/backends/route.ts", "./relay.ts"],
    ["src/stores/sql.ts", "@noble/hashes/sha2.js"],
    ["adapters/express.ts", "./node.ts"],
    ["adapters/node.ts", "srvx/node"],
    ["playground/server.ts", "../adapters/node.ts"],
    ["playground/quotas.ts", "../src/admin/open-store.ts"],
    ["playground/hosts/team.ts", "../../src/stores/sql/index.ts"],
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

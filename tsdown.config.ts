/**
 * Builds the published package: one ES module and one declaration file for each entry of package.json's exports. The entries are built
 * three times: in small files for bundlers, in few files for servers (Node, Bun and Deno), and as one file for Workers. The condition
 * `module-sync` leads Node to the few files: Node sets it, and tracers of files such as Vercel's know it. Of the bundlers, webpack sets it,
 * too, so `webpack` stands before it, and leads to the small files. By the condition `node`, bundlers would get the few files, and a host in
 * one file would be 6 % larger, because bundlers wrap modules around the dynamic imports.
 */

import { readdirSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type Rolldown, type UserConfig } from "tsdown";
import { env, nodeless } from "unenv";
import { adminPageBundle, demoPageBundle, licenses, shared } from "./playground/bundles.ts";
import { llmsFullTxt, llmsTxt } from "./playground/docs.ts";

const folder = new URL(".", import.meta.url);
const root = fileURLToPath(folder);

/** Replaces Node's transports of the relay by those of other runtimes, so that an entry for every runtime imports no `node:` module. */
const fetchOnly = {
  [`${root}src/upstreams/relay/transport.node.ts`]: `${root}src/upstreams/relay/transport.fetch.ts`,
  [`${root}src/upstreams/relay/socket.node.ts`]: `${root}src/upstreams/relay/socket.runtime.ts`,
};

/** Each format is an entry: the name of its folder. */
const formats = Object.fromEntries(
  readdirSync(`${root}src/formats`, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== "shared")
    .map(({ name }) => [`formats/${name}`, `src/formats/${name}/module.ts`]),
);

const entry = {
  index: "src/index.ts",
  "backends/affinity": "src/upstreams/affinity/index.ts",
  "backends/ai-sdk": "src/upstreams/ai-sdk/index.ts",
  "backends/relay": "src/upstreams/relay/index.ts",
  "backends/route": "src/upstreams/route/index.ts",
  bun: "adapters/bun.ts",
  "clouds/aws": "src/clouds/aws.ts",
  "clouds/azure": "src/clouds/azure.ts",
  "clouds/google": "src/clouds/google.ts",
  core: "src/core.ts",
  deno: "adapters/deno.ts",
  express: "adapters/express.ts",
  ...formats,
  hooks: "src/hooks/index.ts",
  koa: "adapters/koa.ts",
  node: "adapters/node.ts",
  openapi: "src/openapi/index.ts",
  admin: "src/admin/index.ts",
  "admin/http": "src/admin/http/index.ts",
  "admin/page": "src/admin/page/index.ts",
  prices: "src/prices/index.ts",
  redactor: "src/redactor/index.ts",
  serve: "src/serve/index.ts",
  stores: "src/stores/open/index.ts",
  "stores-redis": "src/stores/redis/index.ts",
  "stores-sql": "src/stores/sql/index.ts",
  telemetry: "src/telemetry/index.ts",
  websocket: "adapters/websocket.ts",
  testing: "src/testing/index.ts",
};

/** The relay with both transports, for bundlers of servers. Node itself has it among the few files. */
const nodeEntry = { "backends/relay.node": "src/upstreams/relay/index.ts" };

const edge = { edge: "adapters/edge.ts" };

// Every imported package must be a declared dependency: no code of it is copied into the package.
// `node:` modules are allowed in entries for Node and for tests. test/package.test.ts holds that the index imports none.
// The demo does without the packages that it loads when they are installed.
const deps = { onlyBundle: [], neverBundle: [/^node:/, /^@opentelemetry\//, "sharp"] };

/** The files that code of the package opens by their addresses: in the sources, and in `dist`. */
const OPENED: Readonly<Record<string, string>> = {
  "./page/": "admin/page/",
  "./satisfy-worker.ts": "demo/satisfy-worker.js",
  "./worker.ts": "demo/python/worker.js",
  "./gate.ts": "demo/python/gate.js",
  "./harness.py": "demo/python/harness.py",
};

/** Leads the addresses of opened files to these files, wherever in `dist` the code is. */
const opened = (folder: string): Rolldown.Plugin => ({
  name: "opened",
  renderChunk: (code, { fileName }) =>
    code.replaceAll(/(?<=new URL\(")([^"]+)(?=", import\.meta\.url\))/g, (address) => {
      const file = OPENED[address];
      if (file === undefined) return address;
      const path = posix.relative(posix.dirname(posix.join(folder, fileName)), file);
      return `${path.startsWith(".") ? "" : "./"}${path}${file.endsWith("/") ? "/" : ""}`;
    }),
});

/** Builds the thread of the demo that satisfies schemas, with all that it uses: the package does not depend on these libraries. */
const schemaThread = (outDir: string): UserConfig => ({
  ...shared,
  entry: { "satisfy-worker": "src/demo/satisfy-worker.ts" },
  outDir,
  platform: "node",
  fixedExtension: false,
  dts: false,
  minify: true,
  publint: false,
  deps: { alwaysBundle: [/./], neverBundle: [/^node:/], onlyBundle: false },
  plugins: [licenses("demo.licenses.txt")],
});

/** Builds the program of the demo that runs Python, in one file for each of its own: its process may read no other. */
const pythonProgram = (outDir: string): UserConfig => ({
  ...shared,
  entry: { worker: "playground/python/worker.ts", gate: "playground/python/gate.ts" },
  outDir,
  platform: "node",
  fixedExtension: false,
  unbundle: true,
  dts: false,
  publint: false,
  deps,
  copy: [{ from: "playground/python/harness.py", to: outDir }],
});

const polyfills = `${root}adapters/edge-polyfills.ts`;

// Leave out two aliases of unenv: `process` would also match `process/`, and the polyfill itself imports `buffer/index.js`.
const { process: _process, "buffer/index.js": _buffer, ...nodelessAlias } = env(nodeless).alias;

/** Writes the docs for language models beside the modules, so that they are those of the package. */
const docs: Rolldown.Plugin = {
  name: "docs",
  generateBundle() {
    this.emitFile({ type: "asset", fileName: "llms.txt", source: llmsTxt(folder, (path) => `../${path}`) });
    this.emitFile({ type: "asset", fileName: "llms-full.txt", source: llmsFullTxt(folder) });
  },
};

/** Builds the entry for Workers: one file that contains everything it uses, because a Worker may consist of a single module. */
export const edgeBundle = (outDir: string): UserConfig => ({
  ...shared,
  entry: edge,
  outDir,
  dts: false,
  deps: { alwaysBundle: [/./], onlyBundle: false },
  // The bundle never runs on Node. With `process` undefined, the build drops the code that looks for Node's faster hash.
  define: { "globalThis.process": "undefined" },
  inputOptions: {
    // Debug information would publish the paths of the machine that builds.
    experimental: { attachDebugInfo: "none" },
    resolve: {
      conditionNames: ["workerd", "worker", "browser", "import", "default"],
      mainFields: ["browser", "module", "main"],
      alias: {
        ...fetchOnly,
        ...nodelessAlias,
        // busboy extends real streams and a real emitter: unenv's stream and string decoder are mocks, and its emitter is no function.
        stream: "readable-stream",
        "node:stream": "readable-stream",
        events: "events/events.js",
        string_decoder: "string_decoder/lib/string_decoder.js",
        buffer: polyfills,
        // readable-stream imports `process` with a slash.
        "process/": polyfills,
      },
    },
    transform: { inject: { Buffer: [polyfills, "Buffer"], process: [polyfills, "process"] } },
  },
  outputOptions: { codeSplitting: false },
  plugins: [licenses("edge.licenses.txt")],
});

/**
 * Loads the code of formats at the start instead of with its first use. A bundler that makes one file, as those of Workers do, would wrap
 * every module around dynamic imports, and the file would be larger.
 */
const atOnce: Rolldown.Plugin = {
  name: "at-once",
  transform: {
    filter: { id: /\/src\/formats\/[^/]+\/module\.ts$/ },
    handler: (code) =>
      code.replaceAll(
        /^const (\w+) = (?:\/\* @__PURE__ \*\/ )?new Lazy\(\s*async \(\) => \(await import\(("[^"]+")\)\)\.(\w+),?\s*\);/gm,
        "import { $3 as $1Code } from $2;\nconst $1 = { get: () => $1Code, use: (work) => work($1Code) };",
      ),
  },
};

const index = `${root}src/index.ts`;

/** The page reads the files beside it, which stand there once. */
const { "admin/page": _page, ...serverEntry } = { ...entry, cli: "src/cli.ts" };

/** Returns the modules that a module needs at its start: those that it imports, and those that they import. */
function importedBy(id: string, context: Rolldown.ChunkingContext): ReadonlySet<string> {
  const found = new Set([id]);
  for (const one of found) for (const imported of context.getModuleInfo(one)?.importedIds ?? []) found.add(imported);
  return found;
}

let atStart: ReadonlySet<string> | undefined;

/**
 * Joins the modules that every server loads at its start into one file, and the modules that the formats share into another: to find and open
 * a file takes longer than to read it. Bundlers get small files instead: they leave out what a host does not use.
 */
const fewFiles: Rolldown.OutputOptions = {
  codeSplitting: {
    includeDependenciesRecursively: false,
    groups: [
      { name: (id, context) => ((atStart ??= importedBy(index, context)).has(id) && id !== index ? "start" : null) },
      { name: "shared", test: /\/src\/(?:http|kinds|media|model|formats\/shared\/(?!openapi))/ },
    ],
  },
};

const config: UserConfig[] = defineConfig([
  { ...shared, entry, alias: fetchOnly, deps, dts: false, plugins: [atOnce, opened(""), docs] },
  { ...shared, entry: nodeEntry, deps, dts: false, plugins: [atOnce] },
  {
    ...shared,
    entry: serverEntry,
    outDir: "dist/server",
    deps,
    dts: false,
    // Rolldown sets this for groups without their dependencies, and warns where it is not written.
    inputOptions: { preserveEntrySignatures: "allow-extension" },
    outputOptions: fewFiles,
    plugins: [opened("server")],
  },
  {
    ...shared,
    entry: { ...entry, ...edge },
    deps,
    dts: { oxc: true, emitDtsOnly: true },
    // Types that are disposed of, for hosts whose `lib` has none. TypeScript itself has the file.
    banner: { dts: '/// <reference lib="esnext.disposable" />' },
    // Drops the imports of libraries whose types no declaration needs: a library's own types may ask for others that a host lacks.
    treeshake: { moduleSideEffects: false },
  },
  edgeBundle(`${root}dist`),
  adminPageBundle(`${root}dist/admin/page`),
  demoPageBundle(`${root}dist/demo/page`),
  schemaThread(`${root}dist/demo`),
  pythonProgram(`${root}dist/demo/python`),
]);

export default config;

/** Builds what is published: one ES module and one declaration file for each entry of package.json's exports. */

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Rolldown, type UserConfig } from "tsdown";
import { env, nodeless } from "unenv";

const root = fileURLToPath(new URL(".", import.meta.url));

const shared: UserConfig = { platform: "neutral", target: "es2024", publint: { strict: true }, failOnWarn: true };

const entry = {
  index: "src/index.ts",
  "backends/ai-sdk": "src/backends/ai-sdk/index.ts",
  "backends/relay": "src/backends/relay/index.ts",
  "backends/route": "src/backends/route/index.ts",
  bun: "adapters/bun.ts",
  deno: "adapters/deno.ts",
  express: "adapters/express.ts",
  koa: "adapters/koa.ts",
  node: "adapters/node.ts",
  openapi: "src/openapi/index.ts",
  admin: "src/admin/index.ts",
  cli: "src/admin/cli.ts",
  "stores-redis": "src/stores/redis/index.ts",
  "stores-sql": "src/stores/sql/index.ts",
  telemetry: "src/telemetry/index.ts",
  testing: "test/contracts/index.ts",
};

/** The relay with Node's own transport, which package.json's exports choose there; the entry above has that of all other runtimes. */
const node: UserConfig = {
  ...shared,
  entry: { "backends/relay.node": "src/backends/relay/index.ts" },
  inputOptions: { resolve: { conditionNames: ["node", "import", "default"] } },
};

const edge = { edge: "adapters/edge.ts" };

// Whatever is imported must be a declared dependency: none of it is ever copied into the package.
// Node's own modules are for the entries that are about Node or tests; a test holds that the index reaches none.
const deps = { onlyBundle: [], neverBundle: [/^node:/] };

const polyfills = `${root}adapters/edge-polyfills.ts`;

// The one would stand for `process/` as well, which has an entry of its own; the other is what the polyfill itself is made of.
const { process: _process, "buffer/index.js": _buffer, ...nodelessAlias } = env(nodeless).alias;

/** Writes a file with the licence of each package whose code is in a bundle. */
const licenses = (fileName: string): Rolldown.Plugin => ({
  name: "licenses",
  generateBundle(_options, bundle) {
    const modules = Object.values(bundle).flatMap((output) => (output.type === "chunk" ? output.moduleIds : []));
    const folders = modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id) ?? []);
    const source = Array.from(new Set(folders), licenseIn).toSorted().join("\n\n");
    this.emitFile({ type: "asset", fileName, source });
  },
});

function licenseIn(folder: string): string {
  const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8")) as Record<string, string>;
  const file = readdirSync(folder).find((found) => /^licen[cs]e/i.test(found));
  if (!file) throw new Error(`${name} ${version} is copied into a bundle, and its licence is not there.`);
  return `${name} ${version}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}`;
}

/** Builds the one entry for runtimes that may have no module but the one that they are given: it holds all that it uses. */
export const edgeBundle = (outDir: string): UserConfig => ({
  ...shared,
  entry: edge,
  outDir,
  dts: false,
  deps: { alwaysBundle: [/./], onlyBundle: false },
  // There is no Node to ask for its faster hash.
  define: { "globalThis.process": "undefined" },
  inputOptions: {
    // Where its parts lay on the machine that built it is nobody's business.
    experimental: { attachDebugInfo: "none" },
    resolve: {
      conditionNames: ["workerd", "worker", "browser", "import", "default"],
      mainFields: ["browser", "module", "main"],
      alias: {
        ...nodelessAlias,
        // unenv's stream and string decoder are mocks, and its emitter is no function, which busboy's streams extend.
        stream: "readable-stream",
        "node:stream": "readable-stream",
        events: "events/events.js",
        string_decoder: "string_decoder/lib/string_decoder.js",
        buffer: polyfills,
        // As readable-stream asks for it.
        "process/": polyfills,
      },
    },
    transform: { inject: { Buffer: [polyfills, "Buffer"], process: [polyfills, "process"] } },
  },
  outputOptions: { codeSplitting: false },
  plugins: [licenses("edge.licenses.txt")],
});

const config: UserConfig[] = defineConfig([
  { ...shared, entry, deps, dts: false },
  { ...node, deps, dts: false },
  { ...shared, entry: { ...entry, ...edge }, deps, dts: { oxc: true, emitDtsOnly: true } },
  edgeBundle(`${root}dist`),
]);

export default config;

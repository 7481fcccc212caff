/**
 * Builds the published package: one ES module and one declaration file for each entry of package.json's exports. The entries are
 * built three times: for every runtime, for Node where an entry has its own transport, and as one file for Workers.
 */

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Rolldown, type UserConfig } from "tsdown";
import { env, nodeless } from "unenv";

const root = fileURLToPath(new URL(".", import.meta.url));

const shared: UserConfig = {
  platform: "neutral",
  target: "es2024",
  publint: { strict: true },
  failOnWarn: true,
  // Warns where the machine is slow.
  checks: { bundlerTimings: false },
};

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
  "backends/ai-sdk": "src/upstreams/ai-sdk/index.ts",
  "backends/relay": "src/upstreams/relay/index.ts",
  "backends/route": "src/upstreams/route/index.ts",
  bun: "adapters/bun.ts",
  core: "src/core.ts",
  deno: "adapters/deno.ts",
  express: "adapters/express.ts",
  ...formats,
  koa: "adapters/koa.ts",
  node: "adapters/node.ts",
  openapi: "src/openapi/index.ts",
  admin: "src/admin/index.ts",
  cli: "src/admin/cli.ts",
  prices: "src/prices/index.ts",
  stores: "src/stores/open/index.ts",
  "stores-redis": "src/stores/redis/index.ts",
  "stores-sql": "src/stores/sql/index.ts",
  telemetry: "src/telemetry/index.ts",
  websocket: "adapters/websocket.ts",
  testing: "test/contracts/index.ts",
};

/** The relay with both transports. The exports of package.json choose this file on Node. */
const nodeEntry = { "backends/relay.node": "src/upstreams/relay/index.ts" };

const edge = { edge: "adapters/edge.ts" };

// Every imported package must be a declared dependency: no code of it is copied into the package.
// `node:` modules are allowed in entries for Node and for tests. test/package.test.ts holds that the index imports none.
const deps = { onlyBundle: [], neverBundle: [/^node:/] };

const polyfills = `${root}adapters/edge-polyfills.ts`;

// Leave out two aliases of unenv: `process` would also match `process/`, and the polyfill itself imports `buffer/index.js`.
const { process: _process, "buffer/index.js": _buffer, ...nodelessAlias } = env(nodeless).alias;

/** Writes a file with the licences of all packages whose code is in a bundle. */
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
  if (!file) throw new Error(`${name} ${version} is copied into a bundle, and has no licence file.`);
  return `${name} ${version}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}`;
}

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

const config: UserConfig[] = defineConfig([
  { ...shared, entry, alias: fetchOnly, deps, dts: false },
  { ...shared, entry: nodeEntry, deps, dts: false },
  { ...shared, entry: { ...entry, ...edge }, deps, dts: { oxc: true, emitDtsOnly: true } },
  edgeBundle(`${root}dist`),
]);

export default config;

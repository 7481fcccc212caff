/** Builds what is published: one ES module and one declaration file for each entry of package.json's exports. */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import licensePlugin from "rollup-plugin-license";
import { defineConfig, type UserConfig } from "tsdown";
import { env, nodeless } from "unenv";

// Its types put one `default` into another; there is but one.
const license = licensePlugin as unknown as typeof licensePlugin.default;

const root = fileURLToPath(new URL(".", import.meta.url));

const shared: UserConfig = { platform: "neutral", target: "es2024", publint: { strict: true }, failOnWarn: true };

const onNode: UserConfig = {
  ...shared,
  entry: {
    index: "src/index.ts",
    bun: "adapters/bun.ts",
    deno: "adapters/deno.ts",
    express: "adapters/express.ts",
    koa: "adapters/koa.ts",
    node: "adapters/node.ts",
    testing: "test/contracts/index.ts",
  },
  // Whatever is imported must be a declared dependency: none of it is ever copied into the package.
  // Node's own modules are for the entries that are about Node or tests; a test holds that the index reaches none.
  deps: { onlyBundle: [], neverBundle: [/^node:/] },
};

const edge = { edge: "adapters/edge.ts" };

const polyfills = `${root}adapters/edge-polyfills.ts`;

// The one would stand for `process/` as well, which has an entry of its own; the other is what the polyfill itself is made of.
const { process: _process, "buffer/index.js": _buffer, ...nodelessAlias } = env(nodeless).alias;

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
  plugins: [license({ thirdParty: { output: join(outDir, "edge.licenses.txt") } })],
});

const config: UserConfig[] = defineConfig([
  { ...onNode, dts: false },
  { ...onNode, entry: { ...(onNode.entry as object), ...edge }, dts: { oxc: true, emitDtsOnly: true } },
  edgeBundle(`${root}dist`),
]);

export default config;

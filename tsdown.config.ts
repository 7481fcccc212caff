/** Builds what is published: one ES module and one declaration file for each entry of package.json's exports. */

import { defineConfig, type UserConfig } from "tsdown";

const config: UserConfig = defineConfig({
  entry: {
    index: "src/index.ts",
    bun: "adapters/bun.ts",
    deno: "adapters/deno.ts",
    express: "adapters/express.ts",
    koa: "adapters/koa.ts",
    node: "adapters/node.ts",
    testing: "test/contracts/index.ts",
  },
  platform: "neutral",
  target: "es2024",
  // Whatever is imported must be a declared dependency: none of it is ever copied into the package.
  // Node's own modules are for the entries that are about Node or tests; a test holds that the index reaches none.
  deps: { onlyBundle: [], neverBundle: [/^node:/] },
  dts: { oxc: true },
  publint: { strict: true },
  failOnWarn: true,
});

export default config;

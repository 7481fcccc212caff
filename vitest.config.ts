/** Finds and runs the tests, benchmarks apart. */

import { defineConfig, type ViteUserConfig } from "vitest/config";

const config: ViteUserConfig = defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/bench/**"],
    // The suites open real sockets and start processes: more workers than this only contend on a small machine.
    maxWorkers: 2,
    // To end what is stuck, not to measure: a machine may be as slow as it likes.
    testTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
    hookTimeout: 60_000,
  },
});

export default config;

/** Sorts the test files into projects: the library (long and short files), the playground, and the checks. */

import { matchesGlob } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type ViteUserConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * The checks of the sources, the lock file, the package and the docs, longest first. The first two install frameworks and generators from
 * the registry.
 */
const CHECKS: readonly string[] = [
  "test/package/frameworks.test.ts",
  "test/openapi/generators.test.ts",
  "test/checks.test.ts",
  "test/package.test.ts",
  "test/docs/*.test.ts",
  "test/lockfile.test.ts",
];

/** The tests of the playground, longest first: its page, its demo model, its Python, its process and the hosts to copy from. */
const PLAYGROUND: readonly string[] = [
  "test/page/page.test.ts",
  "test/playground/python.test.ts",
  "test/playground/store.test.ts",
  "test/hosts/playground.test.ts",
  "test/clients/playground.test.ts",
  "test/clients/slash-commands.test.ts",
  "test/page/*.test.ts",
  "test/playground/*.test.ts",
];

/**
 * The files that measure their process, or start processes that end with theirs, longest first: a long file that begins last would delay
 * the end of the run. Each runs in a process of its own, and loads all modules again. All other files share a few processes.
 */
const LONG: readonly string[] = [
  "test/suites/runtimes.test.ts",
  "test/crash/crash.test.ts",
  "test/attack/attack.test.ts",
  "test/media/png.test.ts",
  "test/http/json-memory.test.ts",
  "test/pipeline/leaks.test.ts",
  "test/pipeline/large-bodies.test.ts",
];

/** The files that take long and share their processes: the others wait less for these. */
const LONG_SHARED: readonly string[] = [
  "test/suites/node.test.ts",
  "test/race/race.test.ts",
  "test/soak/soak.test.ts",
  "test/clients/sdks.test.ts",
  "test/stores/outage.test.ts",
  "test/upstreams/relay/hostile.test.ts",
  "test/upstreams/route/on-break.pairs.test.ts",
  "test/stores/sql/*.test.ts",
  "test/admin/*.test.ts",
  "test/stores/borrowing/laws.test.ts",
  "test/stores/redis/*.test.ts",
  "test/properties/simulator.test.ts",
  "test/agents/loops.test.ts",
];

const ORDER: readonly string[] = [...LONG, ...LONG_SHARED, ...PLAYGROUND, ...CHECKS];

/** Runs the files of `ORDER` first. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- a method of the sequencer, which returns a new array
    return (await super.sort(files)).toSorted((one, other) => positionOf(one) - positionOf(other));
  }
}

function positionOf({ moduleId }: TestSpecification): number {
  const position = ORDER.findIndex((pattern) => matchesGlob(moduleId, `**/${pattern}`));
  return position < 0 ? ORDER.length : position;
}

const config: ViteUserConfig = defineConfig({
  test: {
    // One worker more than a small machine has cores, because some files mostly wait. More workers would compete: the suites open
    // real sockets and start processes.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    setupFiles: ["test/setup.ts"],
    // Keeps transformed modules for the next run: a hash of their text and of this configuration is their name.
    fsModuleCache: true,
    // A larger young generation: tests make much garbage, and V8 collects it less often.
    execArgv: ["--max-semi-space-size=32"],
    env: {
      // Node caches compiled code in this folder for the hundreds of processes that the tests start.
      NODE_COMPILE_CACHE: fileURLToPath(new URL("node_modules/.cache/compiled", import.meta.url)),
      // For the compiler and the linter, which are written in Go: one thread, because other tests run beside them, and no garbage
      // collection below 2 GiB, which would take a quarter of their time.
      GOMAXPROCS: "1",
      GOGC: "off",
      GOMEMLIMIT: "2GiB",
    },
    // Ends a stuck test. No test depends on the speed of the machine.
    testTimeout: 600_000,
    expect: { poll: { timeout: 180_000, interval: 5 } },
    hookTimeout: 600_000,
    projects: [
      { extends: true, test: { name: "long", include: [...LONG] } },
      {
        extends: true,
        test: {
          name: "short",
          include: ["test/**/*.test.ts"],
          exclude: ["test/bench/**", ...LONG, ...PLAYGROUND, ...CHECKS],
          isolate: false,
        },
      },
      { extends: true, test: { name: "playground", include: [...PLAYGROUND] } },
      { extends: true, test: { name: "check", include: [...CHECKS] } },
    ],
  },
});

export default config;

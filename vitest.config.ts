/** Finds and runs the tests of the library and of the playground, and the checks; benchmarks apart. */

import { matchesGlob } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type ViteUserConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** What is not about how polygate behaves: whether the sources, the lock file, the package and the docs are in order. */
const CHECKS: readonly string[] = [
  "test/checks.test.ts",
  "test/package.test.ts",
  "test/docs/*.test.ts",
  "test/lockfile.test.ts",
];

/** The playground's own, longest first: its page, its demo model, its Python. */
const PLAYGROUND: readonly string[] = [
  "test/page/page.test.ts",
  "test/playground/python.test.ts",
  "test/playground/store.test.ts",
  "test/page/*.test.ts",
  "test/playground/*.test.ts",
];

/**
 * What takes long, longest first: begun last, one of them would hold up the end of the run. Each runs in a process of its own,
 * where some look at memory, and some leave other processes to end with theirs. All others share a few, and what is loaded there.
 */
const LONG: readonly string[] = [
  "test/suites/runtimes.test.ts",
  "test/suites/node.test.ts",
  "test/crash/crash.test.ts",
  "test/race/race.test.ts",
  "test/soak/soak.test.ts",
  "test/clients/on-*.test.ts",
  "test/stores/sql.*.test.ts",
  "test/stores/outage.test.ts",
  "test/stores/redis*.test.ts",
  "test/backends/relay/hostile.test.ts",
  "test/attack/attack.test.ts",
  "test/media/png.test.ts",
  "test/http/json-memory.test.ts",
  "test/line/leaks.test.ts",
  "test/line/large-bodies.test.ts",
];

const ORDER: readonly string[] = [...LONG, ...PLAYGROUND];

/** Runs the files in this order, and then the others. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- the sequencer's own, which hands over another array
    return (await super.sort(files)).toSorted((one, other) => placeOf(one) - placeOf(other));
  }
}

function placeOf({ moduleId }: TestSpecification): number {
  const place = ORDER.findIndex((pattern) => matchesGlob(moduleId, `**/${pattern}`));
  return place < 0 ? ORDER.length : place;
}

const config: ViteUserConfig = defineConfig({
  test: {
    // One more than a small machine has cores: some files wait most of the time. The suites open real sockets and start
    // processes, so that still more only contend.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    setupFiles: ["test/seed.setup.ts"],
    // Room for what is young, of which tests make much: it is collected less often, and most of it is garbage by then.
    execArgv: ["--max-semi-space-size=32"],
    env: {
      // Node keeps there what it has compiled, for the hundreds of processes that the tests start.
      NODE_COMPILE_CACHE: fileURLToPath(new URL("node_modules/.cache/compiled", import.meta.url)),
      // The compiler and the linter, which are Go: no more threads than one, for others work beside them, and no garbage is
      // collected below what a small machine can spare. There is little of it, and to look for it takes a quarter of their time.
      GOMAXPROCS: "1",
      GOGC: "off",
      GOMEMLIMIT: "2GiB",
    },
    // To end what is stuck, not to measure: a machine may be as slow as it likes.
    testTimeout: 180_000,
    expect: { poll: { timeout: 60_000, interval: 5 } },
    hookTimeout: 180_000,
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

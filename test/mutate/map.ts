/** Maps the test files to the blocks of the sources that they run: one run of all tests on an instrumented copy of the project. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { instrumented, read } from "./sites.ts";

export const root: string = fileURLToPath(new URL("../..", import.meta.url));
const cache = join(root, "node_modules/.cache/mutate/map.json");

export interface TestFile {
  /** The processor time of the file and of the processes that it started and awaited, with its imports. */
  readonly cpuMs: number;
  readonly tests: number;
  readonly passes: boolean;
  /** The blocks that it ran, by the names of the sources. */
  readonly runs: Readonly<Record<string, readonly number[]>>;
}

export interface CoverageMap {
  /** The sources as they were. */
  readonly sources: Readonly<Record<string, string>>;
  readonly tests: Readonly<Record<string, TestFile>>;
}

export const sourceFiles = (): string[] =>
  globSync(["src/**/*.ts", "adapters/**/*.ts"], { cwd: root, exclude: ["**/*.d.ts"] }).toSorted();

/** Copies the files that Git knows, changed or new ones too, into a temporary folder. */
export function copyProject(): string {
  const folder = mkdtempSync(join(tmpdir(), "polygate-mutate-"));
  const files = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], { cwd: root, encoding: "utf8" });
  for (const file of files
    .split("\n")
    .filter((name) => statSync(join(root, name), { throwIfNoEntry: false })?.isFile())) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(root, file), join(folder, file));
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  return folder;
}

/** Starts Vitest as the leader of a group, so that all its processes can be killed. */
export function startTests(
  folder: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  stdio: "ignore" | "inherit" = "ignore",
): ChildProcess {
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  return spawn(process.execPath, [vitest, "run", "--project", "long", "--project", "short", ...args], {
    cwd: folder,
    detached: true,
    env: { ...process.env, ...env },
    stdio,
  });
}

/** Notes the first run of each block in the file that `MUTATE_RUNS` names, also from other processes and runtimes. */
const COUNTER = `(() => {
  const seen = new Set(), path = globalThis.process?.env?.MUTATE_RUNS;
  return (file, block) => {
    const key = file * 100000 + block;
    if (seen.has(key)) return;
    seen.add(key);
    if (path) try { process.getBuiltinModule("node:fs").appendFileSync(path, key + "\\n"); } catch {}
  };
})()`.replaceAll(/\n */g, " ");

/** Gives each test file a file for its blocks and its processor time. */
const SETUP = `
import { afterAll as mutateAfterAll } from "vitest";
import { appendFileSync as mutateAppend, readFileSync as mutateRead } from "node:fs";
const mutateTicks = () => mutateRead("/proc/self/stat", "utf8").split(") ")[1].split(" ").slice(11, 15).reduce((sum, one) => sum + Number(one), 0);
const mutateBegin = mutateTicks();
const mutateFile = process.env.MUTATE_FOLDER + "/" + globalThis.__vitest_worker__.filepath.split("/test/").slice(1).join("/test/").replaceAll("/", "%");
process.env.MUTATE_RUNS = mutateFile;
globalThis.__runs = ${COUNTER};
mutateAfterAll(() => mutateAppend(mutateFile, "cpu " + 10 * (mutateTicks() - mutateBegin) + "\\n"));
`;

/** Makes the map, which takes a run of all tests. */
async function makeMap(): Promise<CoverageMap> {
  const folder = copyProject();
  const names = sourceFiles();
  const texts = names.map((name) => readFileSync(join(root, name), "utf8"));
  for (const [index, text] of texts.entries()) {
    const at = text.startsWith("#!") ? text.indexOf("\n") + 1 : 0;
    const code = instrumented(text, index);
    writeFileSync(
      join(folder, names[index] ?? ""),
      `${code.slice(0, at)}globalThis.__runs ??= ${COUNTER}; ${code.slice(at)}`,
    );
  }
  writeFileSync(join(folder, "test/setup.ts"), readFileSync(join(folder, "test/setup.ts"), "utf8") + SETUP);
  const runs = join(folder, "node_runs");
  mkdirSync(runs);
  const child = startTests(folder, ["--reporter=json", `--outputFile=${folder}/results.json`], { MUTATE_FOLDER: runs });
  await once(child, "exit");
  const results = JSON.parse(readFileSync(join(folder, "results.json"), "utf8")) as {
    testResults: { name: string; status: string; assertionResults: unknown[] }[];
  };
  const tests: Record<string, TestFile> = {};
  for (const { name, status, assertionResults } of results.testResults) {
    const file = name.slice(folder.length + 1);
    const path = join(runs, file.slice("test/".length).replaceAll("/", "%"));
    const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
    const blocks: Record<string, Set<number>> = {};
    for (const key of lines.filter((line) => /^\d+$/.test(line)).map(Number))
      (blocks[names[Math.floor(key / 100_000)] ?? ""] ??= new Set()).add(key % 100_000);
    tests[file] = {
      cpuMs: Number(lines.find((line) => line.startsWith("cpu "))?.slice(4) ?? 0),
      tests: assertionResults.length,
      passes: status === "passed",
      runs: Object.fromEntries(Object.entries(blocks).map(([source, set]) => [source, [...set]])),
    };
  }
  rmSync(folder, { recursive: true });
  return { sources: Object.fromEntries(names.map((name, index) => [name, texts[index] ?? ""])), tests };
}

/** Reads the map, and makes it where there is none or a new one is wanted. */
export async function readMap(isNew = false): Promise<CoverageMap> {
  if (isNew || !existsSync(cache)) {
    console.error("Running all tests once, to learn which sources each of them runs …");
    mkdirSync(dirname(cache), { recursive: true });
    writeFileSync(cache, JSON.stringify(await makeMap()));
  }
  return JSON.parse(readFileSync(cache, "utf8")) as CoverageMap;
}

/** The lines of the source in the map that stand where these lines of today's source stand. Lines count from 1. */
function oldLines(before: string, now: string, [first, last]: readonly [number, number]): [number, number] {
  const [one, other] = [before.split("\n"), now.split("\n")];
  let same = 0;
  while (same < one.length && one[same] === other[same]) same++;
  if (last <= same) return [first, last];
  let end = 0;
  while (end < Math.min(one.length, other.length) - same && one.at(-1 - end) === other.at(-1 - end)) end++;
  const moved = one.length - other.length;
  if (first > other.length - end) return [first + moved, last + moved];
  return [Math.min(first, same + 1), Math.max(same + 1, one.length - end, last + moved)];
}

/**
 * Returns the test files that run some lines of a source, cheapest first, and then the other test files that run the source: a line that
 * runs at import is noted only for the first file in a process.
 */
export function testsOf({ sources, tests }: CoverageMap, file: string, lines: readonly [number, number]): string[] {
  const before = sources[file];
  const passing = Object.entries(tests).filter(([name, { passes }]) => passes && existsSync(join(root, name)));
  const now = readFileSync(join(root, file), "utf8");
  const chosen = new Set<number>();
  if (before !== undefined) {
    const [first, last] = oldLines(before, now, lines);
    const starts = [0, ...Array.from(before.matchAll(/\n/g), ({ index }) => index + 1)];
    const [from, to] = [starts[first - 1] ?? 0, starts[last] ?? before.length];
    const { blocks } = read(before);
    let inner = 0;
    for (const [index, { start, end }] of blocks.entries()) {
      if (start >= from && start < to) chosen.add(index);
      const outer = blocks[inner];
      if (start < from && end >= to && (!outer || end - start <= outer.end - outer.start)) inner = index;
    }
    chosen.add(inner);
  }
  const near = passing.filter(([, { runs }]) => runs[file]?.some((block) => chosen.has(block)));
  const far = passing.filter((one) => one[1].runs[file] && !near.includes(one));
  const cheapest = (list: typeof passing): string[] =>
    list.toSorted(([, one], [, other]) => one.cpuMs - other.cpuMs).map(([name]) => name);
  return [...cheapest(near), ...cheapest(far)];
}

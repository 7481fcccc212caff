/** `npm run test:changed` runs the changed test files, and the test files that run a changed line, cheapest first, for a few seconds. */

import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { readMap, root, sourceFiles, startTests, testsOf } from "./map.ts";

/** The processor time of the tests, by the map. A run takes some seconds more. */
const BUDGET_MS = 6_000;

const git = (...args: string[]): string[] =>
  execFileSync("git", args, { cwd: root, encoding: "utf8" })
    .split("\n")
    .filter((line) => line !== "");

/** The changed lines of a source: those that the hunks of a diff name, or all of a new file. */
function changedLines(file: string): [first: number, last: number][] {
  const hunks = git("diff", "-U0", "HEAD", "--", file).flatMap((line) => {
    const [, first, count = 1] = /^@@ .*\+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
    return first === undefined
      ? []
      : [[Number(first), Number(first) + Math.max(Number(count) - 1, 0)] as [number, number]];
  });
  return hunks.length > 0 ? hunks : [[1, readFileSync(join(root, file), "utf8").split("\n").length]];
}

const map = await readMap();
const changed = [...git("diff", "--name-only", "HEAD"), ...git("ls-files", "-o", "--exclude-standard")];
const files = changed.filter((file) => existsSync(join(root, file)));
const tests = files.filter((file) => map.tests[file] ?? /^test\/.*\.test\.ts$/.test(file));
const sources = files.filter((file) => sourceFiles().includes(file));
const related = new Set(sources.flatMap((file) => changedLines(file).flatMap((lines) => testsOf(map, file, lines))));
for (const file of tests) related.delete(file);
let cpuMs = 0;
const run = [...related].filter((file) => (cpuMs += map.tests[file]?.cpuMs ?? 0) <= BUDGET_MS);
console.log(`${tests.length} changed test files, and ${run.length} of ${related.size} that run a changed source`);
if (tests.length + run.length > 0) {
  const [code] = (await once(startTests(root, [...tests, ...run], {}, "inherit"), "exit")) as [number | null];
  process.exitCode = code ?? 1;
}

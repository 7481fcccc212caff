/**
 * Counts the tests in a folder of Vitest's JSON reports: `node .ci/report.mjs <folder>`. Lists each failed test with its message, each test
 * that did not run, each test file without a test, and each step that failed. The folder has a log of each such step. Fails for all of these.
 */

import { globSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { stripVTControlCharacters } from "node:util";

const [folder] = process.argv.slice(2);
const files = (extension) => readdirSync(folder).filter((name) => name.endsWith(extension));
const read = (name) => readFileSync(join(folder, name), "utf8");
const reports = files(".json").map((name) => JSON.parse(read(name)));
const sum = (count) => reports.reduce((total, report) => total + report[count], 0);
const problems = [];
const ran = new Set();
for (const { name, assertionResults } of reports.flatMap(({ testResults }) => testResults)) {
  const file = relative(process.cwd(), name);
  if (assertionResults.length > 0) ran.add(file);
  for (const { status, fullName, failureMessages } of assertionResults)
    if (status === "failed")
      console.log(`${file}: "${fullName}" failed: ${failureMessages.join("\n").slice(0, 1_000)}`);
    else if (status !== "passed") problems.push(`${file}: "${fullName}" did not run (${status}).`);
}
for (const file of globSync("test/**/*.test.ts")) if (!ran.has(file)) problems.push(`${file}: no test of it ran.`);

// A step may fail without a failed test: a hook of a file, an error that no test caught, or the build.
const failedTests = sum("numFailedTests");
for (const name of files(".log")) {
  const log = stripVTControlCharacters(read(name));
  const errors = /^.*(?:Unhandled Error|Failed Suites|Unhandled Rejection).*$/m.exec(log);
  const shown = errors ? log.slice(errors.index, errors.index + 3_000) : log.slice(-1_000);
  if (failedTests === 0 || errors) problems.push(`The step ${name.slice(0, -4)} failed:\n${shown}`);
}
for (const problem of problems) console.log(problem);

const failed = failedTests + problems.length;
console.log(`${sum("numPassedTests")} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;

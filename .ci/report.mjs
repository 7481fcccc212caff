/**
 * Counts the tests in a folder of Vitest's JSON reports. Lists each failed test with its message, each test that did not run and each test
 * file without a test, and fails for all of these: `node .ci/report.mjs <exit status of the steps> <folder>`.
 */

import { globSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

const [status, folder] = process.argv.slice(2);
const reports = readdirSync(folder).map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")));
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
for (const problem of problems) console.log(problem);

let failed = sum("numFailedTests") + problems.length;
if (failed === 0 && status !== "0") {
  console.log("A step before or after the tests failed.");
  failed = 1;
}
console.log(`${sum("numPassedTests")} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;

/** Node, Bun and Deno run the same test, and end by themselves after it. */

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const bin = (name: string): string => fileURLToPath(new URL(`../../node_modules/.bin/${name}`, import.meta.url));
const PROBE = fileURLToPath(new URL("probe.ts", import.meta.url));

it.each<[runtime: string, command: string, args: readonly string[]]>([
  ["Node", process.execPath, []],
  ["Bun", bin("bun"), []],
  ["Deno", bin("deno"), ["run", "--allow-all", "--unstable-no-legacy-abort"]],
])("%s", async (_runtime, command, args) => {
  const { stdout, stderr } = await promisify(execFile)(command, [...args, PROBE]);
  expect([JSON.parse(stdout), stderr]).toEqual([
    { answered: true, broken: true, outcomes: ["completed", "failed", "shutdown"] },
    "",
  ]);
});

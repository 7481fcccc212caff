#!/usr/bin/env node
/** The command `polygate`: manages api keys from a terminal. */

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import process from "node:process";
import { text } from "node:stream/consumers";

// A store's address may contain a password, and any user can list processes. The title hides the arguments, before anything else is
// loaded.
const args = process.argv.slice(2);
process.title = "polygate";

const { CommandError, runCommand } = await import("./commands.ts");
const { describeProblem, UsageError } = await import("./open-store.ts");
const { version } = createRequire(import.meta.url)("polygate/package.json") as { version: string };

const read = async (file?: string): Promise<string> => {
  if (file === undefined) return text(process.stdin);
  return readFile(file, "utf8").catch((error: unknown) => {
    throw new UsageError(`The file ${file} cannot be read.`, { cause: error });
  });
};

try {
  await runCommand(args, { env: process.env, print: (line) => console.log(line), read, version });
} catch (error) {
  process.exitCode = error instanceof UsageError ? 2 : 1;
  const message = describeProblem(error);
  const details = error instanceof CommandError ? error.details : {};
  console.error(args.includes("--json") ? JSON.stringify({ error: message, ...details }) : message);
}

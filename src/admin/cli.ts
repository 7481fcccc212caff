#!/usr/bin/env node
/** The command `polygate`: manages api keys from a terminal, and starts new gateways. */

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline/promises";
import { text } from "node:stream/consumers";
import type { PackageManifest } from "./init.ts";

// A store's address may contain a password, and any user can list processes. The title hides the arguments, before anything else is
// loaded.
const args = process.argv.slice(2);
process.title = "polygate";

const { runCommand } = await import("./command-line.ts");
const { CommandError } = await import("./commands.ts");
const { manyLines } = await import("../options.ts");
const { describeProblem, UsageError } = await import("../stores/open/connection.ts");
const require = createRequire(import.meta.url);
const MANIFEST = "polygate/package.json";
const home = { manifest: require(MANIFEST) as PackageManifest, root: dirname(require.resolve(MANIFEST)) };

const read = async (file?: string): Promise<string> => {
  if (file === undefined) return text(process.stdin);
  return readFile(file, "utf8").catch((error: unknown) => {
    throw new UsageError(`The file ${file} cannot be read.`, { cause: error });
  });
};

const ask = async (question: string): Promise<string> => {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  // After Ctrl-C or Ctrl-D there is no answer.
  const closed = new Promise<never>((_resolve, reject) =>
    lines.once("close", () => reject(new UsageError("There was no answer. Nothing was written."))),
  );
  try {
    return await Promise.race([lines.question(question), closed]);
  } finally {
    lines.close();
  }
};

const print = (line: string): void => console.log(line);
const isTerminal = process.stdin.isTTY && process.stdout.isTTY;

try {
  await runCommand(args, { env: process.env, print, read, ask: isTerminal ? ask : undefined, home });
} catch (error) {
  process.exitCode = error instanceof UsageError ? 2 : 1;
  const message = describeProblem(error);
  const details = error instanceof CommandError ? error.details : {};
  console.error(args.includes("--json") ? manyLines(JSON.stringify({ error: message, ...details })) : message);
}

#!/usr/bin/env node
/** The command `polygate`: manages api keys from a terminal. */

import process from "node:process";

// A store's address may contain a password, and any user can list processes. The title hides the arguments, before anything else is
// loaded.
const args = process.argv.slice(2);
process.title = "polygate";

const { runCommand } = await import("./commands.ts");
const { describeProblem } = await import("./open-store.ts");
try {
  await runCommand(args, { env: process.env, print: (line) => console.log(line) });
} catch (error) {
  process.exitCode = error instanceof Error && error.name === "UsageError" ? 2 : 1;
  console.error(describeProblem(error));
}

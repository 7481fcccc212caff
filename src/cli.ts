#!/usr/bin/env node
/** The command `polygate`: manages api keys from a terminal, starts new gateways, and runs the demo and servers. */

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { userInfo } from "node:os";
import { dirname } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline/promises";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import type { Servers } from "./admin/commands.ts";
import type { PackageManifest } from "./admin/init.ts";

// A store's address may contain a password, and any user can list processes. The title hides the arguments, before anything else is
// loaded.
const args = process.argv.slice(2);
process.title = "polygate";

// The first module that is loaded refuses a Node that is too old. To a user of the command, its message says more than a stack trace.
const { exitCodeOf } = await import("./admin/command-line.ts").catch((error: Error) => {
  console.error(error.message);
  process.exit(1);
});
const { UsageError } = await import("./stores/open/connection.ts");
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
    lines.once("close", () => reject(new UsageError("There was no answer. Nothing was changed."))),
  );
  try {
    return await Promise.race([lines.question(question), closed]);
  } finally {
    lines.close();
  }
};

/** Resolves with a folder of `dist`. */
const built = (name: string) => async () => new URL(`../${name}/`, import.meta.url);

const servers: Servers = {
  async demo(options) {
    const { startDemo } = await import("../playground/start.ts");
    await startDemo(
      { root: pathToFileURL(`${home.root}/`), page: built("demo/page"), adminPage: built("admin/page") },
      options,
    );
  },
  serve: async (file, options) => (await import("./serve/run.ts")).serve(file, options),
};

/** A container may run as a number without a name. */
function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}

const print = (line: string): void => console.log(line);
const warn = (line: string): void => console.error(line);
const isTerminal = process.stdin.isTTY && process.stdout.isTTY;
const { columns } = process.stdout;

const code = await exitCodeOf(args, {
  env: process.env,
  print,
  warn,
  columns,
  user: userName(),
  read,
  ask: isTerminal ? ask : undefined,
  home,
  servers,
});
if (code > 0) {
  process.exitCode = code;
  // A server that could not start may have left something open.
  setTimeout(() => process.exit(), 500).unref();
}

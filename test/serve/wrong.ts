/** Runs `polygate serve` for files that cannot be served, one after the other in this process, and prints how each command ends. */

import { registerHooks } from "node:module";
import process from "node:process";
import { exitCodeOf } from "../../src/admin/command-line.ts";
import { serve } from "../../src/serve/run.ts";

export interface Wrong {
  readonly folder: string;
  readonly args: readonly string[];
  /** The store that the environment names. */
  readonly store: string;
  /** A package that is not found. */
  readonly missing?: string;
}

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const ended: Ended[] = [];
for (const { folder, args, store, missing } of JSON.parse(process.argv[2] ?? "") as readonly Wrong[]) {
  let [stdout, stderr] = ["", ""];
  const print = (line: string): void => void (stdout += `${line}\n`);
  const warn = (line: string): void => void (stderr += `${line}\n`);
  Object.assign(console, { log: print, error: warn });
  process.chdir(folder);
  process.env["POLYGATE_STORE"] = store;
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      if (specifier !== missing) return next(specifier, context);
      throw Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" });
    },
  });
  const code = await exitCodeOf(["serve", ...args], {
    env: process.env,
    print,
    warn,
    read: async () => "",
    home: { manifest: { version: "1.2.3", engines: { node: "" }, devDependencies: {} }, root: "" },
    servers: { demo: async () => {}, serve },
  });
  hooks.deregister();
  ended.push({ code, stdout, stderr });
}
process.stdout.write(JSON.stringify(ended), () => process.exit());

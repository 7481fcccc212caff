/** The installed package, for the suites that use it as a host does. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export interface PackageStage {
  /** An empty project with the package, its dependencies and Node's types. */
  readonly project: string;
  readonly tarball: string;
}

export const ROOT: string = fileURLToPath(new URL("../..", import.meta.url));
/** The oldest supported Node. */
export const OLDEST_NODE: string = join(ROOT, "node_modules", "node-22", "bin", "node");

export interface Ended {
  readonly code: number;
  readonly output: string;
}

/** Runs a program, and returns its exit code and output. Never rejects. */
export const run = (command: string, args: readonly string[], cwd: string): Promise<Ended> =>
  promisify(execFile)(command, args, { cwd }).then(
    ({ stdout }) => ({ code: 0, output: stdout }),
    ({ code, stdout = "", stderr = "", message }: Error & { code?: number; stdout?: string; stderr?: string }) => ({
      code: Number(code),
      output: stdout + stderr || message,
    }),
  );

/** Returns the entries that a host may import, from the `exports` of package.json. */
export function entriesOf(manifest: string): readonly string[] {
  const { exports } = JSON.parse(manifest) as { exports: Readonly<Record<string, unknown>> };
  const names = Object.keys(exports).filter((name) => name !== "./package.json");
  return names.map((name) => `polygate${name.slice(1)}`);
}

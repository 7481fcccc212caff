/** The entries of the package, by import name, with the source file of each. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import config from "../../tsdown.config.ts";

export const ROOT: string = fileURLToPath(new URL("../..", import.meta.url));

interface Manifest {
  readonly exports: Readonly<Record<string, { readonly default: string } | string>>;
}

/** The source files by the names of their builds, such as `stores-sql` to `src/stores/sql/index.ts`. */
const SOURCES: Readonly<Record<string, string>> = Object.assign({}, ...config.map(({ entry }) => entry));

/** Maps import names to source files, such as `polygate/stores/sql` to `src/stores/sql/index.ts`, in the order of `exports`. */
export function entries(): ReadonlyMap<string, string> {
  const { exports } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8")) as Manifest;
  return new Map(
    Object.entries(exports).flatMap(([name, target]) => {
      if (typeof target === "string") return [];
      const built = target.default.replace(/^\.\/dist\/|\.js$/g, "");
      const source = SOURCES[built];
      if (source === undefined) throw new Error(`Nothing is built as ${target.default}.`);
      return [[`polygate${name.slice(1)}`, source]];
    }),
  );
}

/** Hosts that compile with the package's types, all libraries' types checked too, by each way of resolving modules. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { entriesOf, type PackageStage, ROOT, run } from "./stage.ts";

const TSC = join(ROOT, "node_modules", "typescript", "bin", "tsc");

const WAYS = [
  ["nodenext", ["--module", "nodenext"]],
  ["bundler", ["--module", "esnext", "--moduleResolution", "bundler"]],
] as const;
const LIBRARIES = [
  ["Node's types alone", ["--lib", "es2024"]],
  ["a browser's types as well", ["--lib", "es2024,dom,dom.iterable"]],
] as const;

export function consumersSuite(stage: () => PackageStage): void {
  describeEach((way, library, options) => {
    it(`compiles every entry, libraries checked, by ${way} with ${library}`, async () => {
      const { project } = stage();
      const entries = entriesOf(await readFile(join(project, "node_modules/polygate/package.json"), "utf8"));
      const imports = entries.map((entry, index) => `import * as entry${index} from "${entry}";`);
      const uses = entries.map((_entry, index) => `entry${index}`).join(", ");
      const [first] = imports;
      const wrong = `// @ts-expect-error: no entry is of any type.\nentry0.nothing;`;
      expect(first).toContain('"polygate"');
      const file = `every-entry-${way}.ts`;
      await writeFile(
        join(project, file),
        [...imports, `export const entries: object[] = [${uses}];`, wrong].join("\n"),
      );
      const args = [
        TSC,
        "--singleThreaded",
        "--strict",
        "--noEmit",
        "--types",
        "node",
        "--skipLibCheck",
        "false",
        ...options,
        file,
      ];
      expect(await run(process.execPath, args, project)).toEqual({ code: 0, output: "" });
    });
  });
}

function describeEach(suite: (way: string, library: string, options: readonly string[]) => void): void {
  for (const [way, module] of WAYS) for (const [library, lib] of LIBRARIES) suite(way, library, [...module, ...lib]);
}

/** Makes a project as a reader has it: the examples of all pages in one folder, and the packages that they import. */

import { mkdir, mkdtemp, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { entries, ROOT } from "./entries.ts";
import { blocks, fileOf, isOfReference, isWhole } from "./pages.ts";

/** Files that readers bring. The examples need only their types. */
const BROUGHT = {
  "my-store.ts": `import type { ApiKeyOptions, QuotaStore } from "polygate";
import type { QuotaAudit } from "polygate/testing";
interface MyStore extends QuotaStore {
  addKey(key: ApiKeyOptions): Promise<void>;
  shiftClock(ms: number): void;
  audit(keyId: string): Promise<QuotaAudit>;
  removeSecret(apiKey: string): Promise<void>;
  close(): Promise<void>;
}
export declare function connect(): Promise<MyStore>;
`,
  // Bun's other types cannot stand beside those of Node.
  "bun-test.d.ts": '/// <reference path="./node_modules/bun-types/test.d.ts" />\n',
};

/** Fills a new folder with the examples, and returns its path. */
export async function stageExamples(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "polygate-docs-"));
  await linkPackages(folder);
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  const { compilerOptions } = JSON.parse(await readFile(`${ROOT}tsconfig.json`, "utf8")) as { compilerOptions: object };
  const options = {
    ...compilerOptions,
    isolatedDeclarations: false,
    declaration: false,
    // The examples find the package as a reader does.
    paths: {},
    tsBuildInfoFile: join(folder, "tsbuildinfo"),
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["*.ts"] }));
  await symlink(`${ROOT}test/hosts/runtimes.d.ts`, join(folder, "runtimes.d.ts"));
  for (const [name, code] of Object.entries(BROUGHT)) await writeFile(join(folder, name), code);
  for (const [at, block] of blocks.entries()) {
    const isNamed = !isOfReference(block) || !isWhole(block);
    const name = block.language !== "ts" ? undefined : isNamed ? fileOf(block) : `reference-${at}.ts`;
    // An example in a folder needs a framework that is not installed here. `test/package/frameworks.test.ts` compiles and runs it.
    if (name !== undefined && !name.includes("/")) await writeFile(join(folder, name), block.code);
  }
  return folder;
}

/** Links this package under its own name, by its entries, and all development packages. */
export async function linkPackages(folder: string): Promise<void> {
  const modules = join(folder, "node_modules");
  const own = join(modules, "polygate");
  await mkdir(own, { recursive: true });
  for (const name of ["src", "adapters", "test"]) await symlink(`${ROOT}${name}`, join(own, name));
  const exports = Object.fromEntries(
    Array.from(entries(), ([name, source]) => [name.replace("polygate", "."), `./${source}`]),
  );
  await writeFile(join(own, "package.json"), JSON.stringify({ name: "polygate", type: "module", exports }));
  for (const name of await readdir(`${ROOT}node_modules`)) {
    if (name.startsWith(".") || name === "polygate") continue;
    await mkdir(dirname(join(modules, name)), { recursive: true });
    await symlink(`${ROOT}node_modules/${name}`, join(modules, name));
  }
}

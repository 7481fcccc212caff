/** Makes the reference of the public names from their doc comments: `npm run docs:reference` writes it to `docs-reference`. */

import { registerHooks } from "node:module";
import process from "node:process";
import { entries, ROOT } from "./entries.ts";

// TypeDoc needs TypeScript's API in JavaScript, which the project's own compiler does not have. Use the TypeScript of another tool.
const holder = import.meta.resolve("@arethetypeswrong/core");
registerHooks({
  resolve: (specifier, context, next) =>
    next(specifier, specifier === "typescript" ? { ...context, parentURL: holder } : context),
});

const { Application } = await import("typedoc");

/** The folder for the reference, and the file for its JSON. */
const [out, json] = process.argv.slice(2);
if (out === undefined) throw new Error("Usage: node test/docs/typedoc.ts <folder> [<file for JSON>]");

const app = await Application.bootstrap({
  name: "polygate",
  entryPoints: [...entries().values()].map((source) => `${ROOT}${source}`),
  tsconfig: `${ROOT}test/docs/typedoc.tsconfig.json`,
  readme: "none",
  disableSources: true,
  excludePrivate: true,
  // The project's own compiler checks the types.
  skipErrorChecking: true,
  validation: { notExported: false, invalidLink: true, notDocumented: false },
  treatWarningsAsErrors: true,
  logLevel: "Warn",
});
const project = await app.convert();
if (!project) process.exit(1);
// Give the entries the names that a host imports.
const bySource = new Map([...entries()].map(([name, source]) => [source, name]));
for (const entry of project.children ?? []) entry.name = bySource.get(sourceOf(entry.name)) ?? entry.name;
app.validate(project);
await app.generateDocs(project, out);
if (json !== undefined) await app.generateJson(project, json);
process.exitCode = app.logger.hasErrors() || app.logger.hasWarnings() ? 1 : 0;

/** Returns the source file of a module. TypeDoc names a module by its path without the ending and without `index`. */
function sourceOf(name: string): string {
  const found = [...bySource.keys()].find((source) => source.replace(/(?:\/index)?\.ts$/, "") === name);
  return found ?? name;
}

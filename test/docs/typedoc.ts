/**
 * Makes the reference of the public names from their doc comments. `npm run docs:reference` writes it to `docs-reference`, and
 * `npm run docs:options` also writes that of options and records to `docs/reference`.
 */

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { registerHooks } from "node:module";
import process from "node:process";
import { entries, ROOT } from "./entries.ts";
import type { Checker } from "./shapes.ts";

// TypeDoc needs TypeScript's API in JavaScript, which the project's own compiler does not have. Use the TypeScript of another tool.
const holder = import.meta.resolve("@arethetypeswrong/core");
registerHooks({
  resolve: (specifier, context, next) =>
    next(specifier, specifier === "typescript" ? { ...context, parentURL: holder } : context),
});

const { Application } = await import("typedoc");
const { referencePages } = await import("./options.ts");
const { shapesOf } = await import("./shapes.ts");

/** The folder for the reference, the file for its JSON, and the folder for the pages of options. */
const [out, json, options] = process.argv.slice(2);
if (out === undefined)
  throw new Error("Usage: node test/docs/typedoc.ts <folder> [<file for JSON> [<folder for options>]]");

const app = await Application.bootstrap({
  name: "polygate",
  entryPoints: [...entries().values()].map((source) => `${ROOT}${source}`),
  tsconfig: `${ROOT}test/docs/typedoc.tsconfig.json`,
  readme: "none",
  disableSources: true,
  excludePrivate: true,
  sort: ["source-order"],
  // The project's own compiler checks the types.
  skipErrorChecking: true,
  validation: { notExported: false, invalidLink: true, notDocumented: false },
  treatWarningsAsErrors: true,
  logLevel: "Warn",
});
const points = app.getEntryPoints();
if (!points) process.exit(1);
const project = app.converter.convert(points);
// Give the entries the names that a host imports.
const bySource = new Map([...entries()].map(([name, source]) => [source, name]));
for (const entry of project.children ?? []) entry.name = bySource.get(sourceOf(entry.name)) ?? entry.name;
app.validate(project);
await app.generateDocs(project, out);
if (json !== undefined) await app.generateJson(project, json);
if (options !== undefined) {
  const pages = await referencePages(project, (entry, isDescribed) => {
    const source = `${ROOT}${entries().get(entry)}`;
    const point = points.find(({ sourceFile }) => sourceFile.fileName === source);
    if (!point) throw new Error(`${entry} has no source file.`);
    return shapesOf(point.program.getTypeChecker() as Checker, point.sourceFile, isDescribed);
  });
  rmSync(options, { recursive: true, force: true });
  mkdirSync(options, { recursive: true });
  for (const [name, text] of pages) writeFileSync(`${options}/${name}`, text);
}
process.exitCode = app.logger.hasErrors() || app.logger.hasWarnings() ? 1 : 0;

/** Returns the source file of a module. TypeDoc names a module by its path without the ending and without `index`. */
function sourceOf(name: string): string {
  const found = [...bySource.keys()].find((source) => source.replace(/(?:\/index)?\.ts$/, "") === name);
  return found ?? name;
}

/** How the pages for browsers are built: by the build of the package, and by a demo that runs from the sources. */

import { readdirSync, readFileSync } from "node:fs";
import type { Rolldown, UserConfig } from "tsdown";

/** The options of all bundles. */
export const shared: UserConfig = {
  platform: "neutral",
  target: "es2024",
  publint: { strict: true },
  failOnWarn: true,
  // Warns where the machine is slow.
  checks: { bundlerTimings: false },
};

/** Writes a file with the licences of all packages whose code is in a bundle. */
export const licenses = (fileName: string): Rolldown.Plugin => ({
  name: "licenses",
  generateBundle(_options, bundle) {
    const modules = Object.values(bundle).flatMap((output) => (output.type === "chunk" ? output.moduleIds : []));
    const folders = modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id) ?? []);
    const source = Array.from(new Set(folders), licenseIn).toSorted().join("\n\n");
    this.emitFile({ type: "asset", fileName, source });
  },
});

function licenseIn(folder: string): string {
  const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8")) as Record<string, string>;
  const file = readdirSync(folder).find((found) => /^licen[cs]e/i.test(found));
  if (!file) throw new Error(`${name} ${version} is copied into a bundle, and has no licence file.`);
  return `${name} ${version}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}`;
}

/** Builds a page for browsers. Its modules contain all packages that they use. */
const pageBundle = (page: Required<Pick<UserConfig, "entry" | "outDir" | "copy">>): UserConfig => ({
  ...shared,
  ...page,
  platform: "browser",
  dts: false,
  minify: true,
  publint: false,
  deps: { alwaysBundle: [/./], onlyBundle: false },
  plugins: [licenses("app.licenses.txt")],
});

/** Takes out the indentation of templates, in which it means nothing. The minifier keeps it. */
const unindented: Rolldown.Plugin = {
  name: "unindented",
  renderChunk: (code) => code.replaceAll(/\n[ \t]+/g, "\n"),
};

/** Builds the admin's page: a module, with its styles beside it. */
export function adminPageBundle(outDir: string): UserConfig {
  const bundle = pageBundle({
    entry: { app: "src/admin/page/app/main.ts" },
    outDir,
    copy: ["index.html", "style.css"].map((name) => ({ from: `src/admin/page/app/${name}`, to: outDir })),
  });
  return { ...bundle, plugins: [bundle.plugins, unindented] };
}

/** Builds the demo's page: a module with its styles, and the script of its reference. */
export const demoPageBundle = (outDir: string): UserConfig =>
  pageBundle({
    entry: { app: "playground/page/app/main.ts", "reference/main": "playground/page/reference/main.ts" },
    outDir,
    copy: [
      ...["index.html", "logo.svg", "styles"].map((name) => ({ from: `playground/page/app/${name}`, to: outDir })),
      ...["index.html", "style.css"].map((name) => ({
        from: `playground/page/reference/${name}`,
        to: `${outDir}/reference`,
      })),
    ],
  });

/** Runs the linters of packages on the packed package, and checks its size. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { build } from "tsdown";
import { expect, it } from "vitest";
import { entriesOf, type PackageStage } from "./stage.ts";

/** The most bytes of the core with Node's adapter and all dependencies, minified and compressed: the 187,400 of 1 December 2026 and 0.3 %. */
const MOST_BYTES = 187_900;

export function lintersSuite(stage: () => PackageStage): void {
  it("publint finds nothing", async () => {
    const pkgDir = join(stage().project, "node_modules", "polygate");
    expect((await publint({ pkgDir, pack: false, strict: true })).messages).toEqual([]);
  });

  it("the types of every entry are right, by attw", async () => {
    const { project, tarball } = stage();
    const checked = await checkPackage(createPackageFromTarballData(await readFile(tarball)));
    if (!checked.types) throw new Error("The package has no types.");
    const entries = entriesOf(await readFile(join(project, "node_modules/polygate/package.json"), "utf8"));
    const found = Object.keys(checked.entrypoints).filter((name) => name !== "./package.json");
    expect(found.map((name) => `polygate${name.slice(1)}`).toSorted()).toEqual([...entries].toSorted());
    for (const name of found)
      for (const way of ["node16-esm", "bundler"] as const)
        expect(checked.entrypoints[name]?.resolutions[way].resolution?.isTypeScript, `${name} by ${way}`).toBe(true);
    // Ignore problems of CommonJS: the package has only ES modules, which current versions of Node can require.
    const ofModules = checked.problems.filter(
      (problem) => !("resolutionKind" in problem && /^(?:node10|node16-cjs)$/.test(problem.resolutionKind)),
    );
    expect(ofModules).toEqual([]);
  });

  it("stays as small as it is", async () => {
    const { project } = stage();
    const outDir = join(project, "bundled");
    const host = `export { createGateway } from "polygate";\nexport { toNodeHandler } from "polygate/node";\n`;
    await writeFile(join(project, "sized.js"), host);
    await build({
      config: false,
      cwd: project,
      entry: { host: join(project, "sized.js") },
      outDir,
      dts: false,
      minify: true,
      platform: "node",
      deps: { alwaysBundle: [/^[^.]/], neverBundle: [/^node:/], onlyBundle: false },
      outputOptions: { codeSplitting: false },
      logLevel: "silent",
    });
    const bundle = await readFile(join(outDir, "host.mjs"));
    expect(bundle.toString()).not.toMatch(/from"(?!node:)/);
    expect(gzipSync(bundle).length).toBeLessThan(MOST_BYTES);
  });
}

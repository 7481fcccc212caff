/** Builds the demo's pages from the sources, each with the first request for it: most starts never need them. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import type { UserConfig } from "tsdown";
import type * as pages from "./bundles.ts";
import type { DemoFiles } from "./start.ts";

const ROOT = new URL("../", import.meta.url);

/** Returns the files of the demo as the package has them. They are built once in a process. */
export function builtFiles(): DemoFiles {
  const page = once(() => built("demo-page", ({ demoPageBundle }) => demoPageBundle));
  const adminPage = once(() => built("admin-page", ({ adminPageBundle }) => adminPageBundle));
  return { root: ROOT, page, adminPage };
}

async function built(name: string, bundleOf: (bundles: typeof pages) => (outDir: string) => UserConfig): Promise<URL> {
  // Each process uses its own folder, because a build empties its folder while another playground may read from there.
  const folder = mkdtempSync(join(tmpdir(), `polygate-${name}-`));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const [{ build }, bundles] = await Promise.all([import("tsdown"), import("./bundles.ts")]);
  await build({ ...bundleOf(bundles)(folder), config: false, logLevel: "error" });
  return pathToFileURL(`${folder}/`);
}

function once<Value>(make: () => Promise<Value>): () => Promise<Value> {
  let made: Promise<Value> | undefined;
  return () => (made ??= make());
}

/** The sources are formatted, free of lint and type errors, and the only files that git tracks. */

import { matchesGlob } from "node:path";
import { expect, it } from "vitest";
import { ROOT, run } from "./package/stage.ts";

it.each(["check:format", "check:lint", "check:types"])("npm run %s finds nothing", async (script) => {
  const { code, output } = await run("npm", ["run", "--silent", script], ROOT);
  expect(code, `npm run ${script}\n${output}`).toBe(0);
});

/** The kinds of files that git may track. A log, a profile or a dump matches none. */
const TRACKED: readonly string[] = [
  "*.{md,json,ts}",
  "{LICENSE,.gitignore,.ox*rc.json}",
  ".ci/*",
  "{src,adapters}/**/*.ts",
  "src/admin/page/app/{index.html,style.css}",
  "playground/**/*.{ts,py,html,css,svg}",
  "playground/node-version.mjs",
  "playground/template/{README.md,Dockerfile{,.bun},compose{,.postgres}.yaml}",
  "playground/template/_{test.yml,test.bun.yml,tsconfig.json,env.example,env.postgres.example,gitignore,dockerignore,npmrc}",
  "docs/{,reference/}*.md",
  "docs/*.png",
  "docs/search-phrases.txt",
  "docs/examples/*.{ts,sql}",
  "grafana/{dashboard.json,alerts.yaml}",
  "test/**/*.{ts,json}",
  "test/README.md",
  "test/{docs,playground}/*.mjs",
  "test/external/*.py",
  "test/recordings/**/*.{txt,md}",
];

it("tracks only sources, tests, docs and configuration", async () => {
  const { code, output } = await run("git", ["ls-files"], ROOT);
  expect({ code, output }).toMatchObject({ code: 0 });
  const files = output.trim().split("\n");
  expect(files.length).toBeGreaterThan(100);
  expect(files.filter((file) => !TRACKED.some((pattern) => matchesGlob(file, pattern)))).toEqual([]);
});

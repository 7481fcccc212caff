/** The lock file is exactly the one that npm makes from package.json, so that installing changes nothing in a fresh clone. */

import { execFile } from "node:child_process";
import { copyFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));

it("is what an install leaves behind", async () => {
  const folder = await mkdtemp(join(tmpdir(), "polygate-lock-"));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  for (const name of ["package.json", "package-lock.json"]) await copyFile(join(root, name), join(folder, name));
  // Use neither a registry nor the cache.
  const apart = ["--offline", "--cache", join(folder, "cache"), "--no-audit", "--ignore-scripts"];
  await promisify(execFile)("npm", ["install", "--package-lock-only", ...apart], { cwd: folder });
  const [before, after] = await Promise.all(
    [root, folder].map((place) => readFile(join(place, "package-lock.json"), "utf8")),
  );
  expect(after).toBe(before);
});

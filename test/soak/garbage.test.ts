/** What a call no longer needs is young garbage, which costs next to nothing; none of it waits until the whole heap is collected. */

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import type { Kind } from "./garbage.ts";

const SCRIPT = fileURLToPath(new URL("garbage.ts", import.meta.url));

// Of each call its id, which the ledger retains, and a share of what was in flight. What one old object holds on to, as long as it
// is not collected itself, comes to many times that. Each kind has a process of its own: V8 learns from what ran before.
it.each<[kind: Kind, most: number]>([
  ["complete", 2_500],
  ["streamed", 2_500],
  ["refused", 1_000],
  ["relayed", 2_500],
  ["slowly stored", 2_500],
])("a %s call leaves nothing among the old", async (kind, most) => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", SCRIPT, kind]);
  expect(Number(stdout)).toBeLessThan(most);
});

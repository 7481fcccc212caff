/** The garbage of a call is young, which V8 collects almost for free. None waits for a collection of the whole heap. */

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import type { Kind } from "./garbage.ts";

const SCRIPT = fileURLToPath(new URL("garbage.ts", import.meta.url));

// The bounds allow for the id of a call, which the ledger retains, and a share of the calls in flight. A single old object that refers
// to others costs many times more. Each kind runs in a process of its own, because V8 learns from the code that ran before.
it.each<[kind: Kind, most: number]>([
  ["complete", 2_500],
  ["streamed", 2_500],
  ["refused", 1_000],
  ["relayed", 2_500],
  ["slowly stored", 2_500],
])("a %s call leaves nothing in the old generation", async (kind, most) => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", SCRIPT, kind]);
  expect(Number(stdout)).toBeLessThan(most);
});

/** The garbage of a call is young, which V8 collects almost for free. None waits for a collection of the whole heap. */

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import type { Kind } from "./garbage.ts";

const SCRIPT = fileURLToPath(new URL("garbage.ts", import.meta.url));

// A young generation that holds the garbage of a whole group, in MiB. V8 gives a process on a busy machine a small one: then it moves the
// calls in flight, which are no garbage, to the old generation.
const YOUNG = ["--min-semi-space-size=64", "--max-semi-space-size=64"];

// The bound allows for the id of a call, which the ledger retains. A single old object that refers to a call costs twice as much. Each kind
// runs in a process of its own, because V8 learns from the code that ran before.
it.each<Kind>(["complete", "streamed", "refused", "relayed", "slowly stored"])(
  "a %s call leaves nothing in the old generation",
  async (kind) => {
    const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", ...YOUNG, SCRIPT, kind]);
    expect(Number(stdout)).toBeLessThan(1_200);
  },
);

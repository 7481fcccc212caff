/** The short form of the redaction trial. */

import { expect, it } from "vitest";
import { runSplits } from "./splits.ts";

it("no secret reaches the model, and all come back, in pieces of any length", async () => {
  const { problems, pieces, secrets } = await runSplits(400, 42);
  expect(problems).toEqual([]);
  expect(secrets).toBeGreaterThan(400);
  expect(pieces).toBeGreaterThan(4_000);
});

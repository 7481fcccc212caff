/** Terms on which a test has a body taken in: ample room, and a clock that stands still. */

import type { BodyIntake } from "../../src/http/body-chunks.ts";
import { BodyRoom } from "../../src/http/body-room.ts";
import { manualClock } from "../contracts/manual-clock.ts";

export const STALL_MS = 5_000;

/** The terms with a test's own changes. */
export const intakeOf = (changes: Partial<BodyIntake> = {}): BodyIntake => ({
  lease: new BodyRoom(2 ** 40).lease("key"),
  signal: new AbortController().signal,
  clock: manualClock(),
  stallMs: STALL_MS,
  minBytesPerSecond: 1,
  defer: () => {},
  ...changes,
});

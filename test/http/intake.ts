/** Terms on which a test has a body taken in: ample room, and a clock that stands still. */

import { type BodyIntake, parseJsonText, readJsonText } from "../../src/http/body.ts";
import { JsonBudget, type JsonLimits } from "../../src/model/json.ts";
import { BodyRoom } from "../../src/ports/shared-room.ts";
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

/** The parsed body of a request. */
export async function readJson(
  request: Request,
  limits: JsonLimits,
  intake: BodyIntake = intakeOf(),
): Promise<unknown> {
  const budget = new JsonBudget(limits);
  budget.booking = intake.lease;
  return parseJsonText(await readJsonText(request, limits.maxJsonBytes, intake), budget);
}

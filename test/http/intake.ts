/** Terms on which a test has a body taken in: ample room, and a clock that stands still. */

import { type BodyIntake, parseBody, readJsonText } from "../../src/http/body.ts";
import { KnownBodies } from "../../src/http/known-bodies.ts";
import { JsonBudget, type JsonLimits } from "../../src/model/json.ts";
import { type BodyLease, BodyRoom } from "../../src/ports/shared-room.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";

export const STALL_MS = 5_000;

/** The terms with a test's own changes. */
export const intakeOf = ({
  lease = new BodyRoom(2 ** 40).lease("key"),
  stallMs: bodyStallMs = STALL_MS,
  minBytesPerSecond: minBodyBytesPerSecond = 1,
  ...changes
}: Partial<BodyIntake["call"]> & {
  readonly lease?: BodyLease;
  readonly stallMs?: number;
  readonly minBytesPerSecond?: number;
} = {}): BodyIntake => ({
  lease,
  call: {
    signal: new AbortController().signal,
    clock: manualClock(),
    limits: { bodyStallMs, minBodyBytesPerSecond },
    defer: () => {},
    ...changes,
  },
});

/** The parsed body of a request. */
export async function readJson(
  request: Request,
  limits: JsonLimits,
  intake: BodyIntake = intakeOf(),
): Promise<unknown> {
  const budget = new JsonBudget(limits);
  budget.booking = intake.lease;
  return parsed(await readJsonText(request, limits.maxJsonBytes, intake), budget);
}

/** The value of a body's text, parsed as the first body of its key. */
export const parsed = (content: string, budget: JsonBudget = new JsonBudget()): unknown =>
  parseBody({ content }, budget, { known: new KnownBodies(2 ** 40), keyId: "key" });

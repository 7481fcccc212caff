/** A stage whose time a test winds, and whose backend goes on where a test tells it to. */

import type { Limits } from "../../src/index.ts";
import { type ManualClock, manualClock } from "../../src/testing/laws/manual-clock.ts";
import type { Driver, Pieces } from "../drivers/driver.ts";
import { Cues } from "../hosts/cues.ts";
import { type Mount, openStage, type Stage, type StageOptions } from "../hosts/stage.ts";

export const QUIET_MS = 1_000;
export const DEADLINE_MS = 60_000;

/** No stream begins, and no keep-alive is written, before the deadline. */
export const NO_KEEP_ALIVE: Partial<Limits> = { keepAliveMs: 2 * DEADLINE_MS };

export interface TimedStage extends Stage {
  readonly clock: ManualClock;
  readonly cues: Cues;
}

export async function timedStage(
  mount: Mount,
  driver: Driver,
  pieces: (cues: Cues) => Pieces,
  limits: Partial<Limits> = {},
  more: StageOptions = {},
): Promise<TimedStage> {
  const [clock, cues] = [manualClock(), new Cues()];
  const options = {
    clock,
    limits: { keepAliveMs: QUIET_MS, deadlineMs: DEADLINE_MS, ...limits },
    ...driver.plays(pieces(cues)),
    ...more,
  };
  return { ...(await openStage(mount, options)), clock, cues };
}

/** Says that it was asked, and waits for its cue before it answers. */
export const answersOnCue = (cues: Cues): Pieces =>
  async function* () {
    cues.give("asked");
    await cues.wait("answer");
    yield "At last.";
  };

/** A stage whose time a test winds, and whose backend goes on where a test tells it to. */

import { type ManualClock, manualClock } from "../contracts/manual-clock.ts";
import type { Limits } from "../../src/index.ts";
import { type Mount, openStage, type Play, type Stage, type StageOptions } from "./stage.ts";

export const QUIET_MS = 1_000;
export const DEADLINE_MS = 60_000;

/** Moments that a play and its test tell one another of, by name. */
export class Cues {
  readonly #cues = new Map<string, PromiseWithResolvers<void>>();

  readonly give = (name: string): void => this.#at(name).resolve();
  readonly wait = (name: string): Promise<void> => this.#at(name).promise;

  #at(name: string): PromiseWithResolvers<void> {
    const cue = this.#cues.get(name) ?? Promise.withResolvers<void>();
    this.#cues.set(name, cue);
    return cue;
  }
}

export interface TimedStage extends Stage {
  readonly clock: ManualClock;
  readonly cues: Cues;
}

export async function timedStage(
  mount: Mount,
  play: (cues: Cues) => Play,
  limits: Partial<Limits> = {},
  more: StageOptions = {},
): Promise<TimedStage> {
  const [clock, cues] = [manualClock(), new Cues()];
  const options = {
    clock,
    limits: { keepAliveMs: QUIET_MS, deadlineMs: DEADLINE_MS, ...limits },
    play: play(cues),
    ...more,
  };
  return { ...(await openStage(mount, options)), clock, cues };
}

/** Says that it was asked, and waits for its cue before it answers. */
export const answersOnCue = (cues: Cues): Play =>
  async function* () {
    cues.give("asked");
    await cues.wait("answer");
    yield "At last.";
  };

/** The side of the runtime: the stages that are open there, and what the tests may do with each of them. */

import type { Gateway } from "../../../src/index.ts";
import type { ManualClock } from "../../../src/testing/laws/manual-clock.ts";
import type { Handlers } from "./peer.ts";

export interface Opened {
  readonly gateway: Gateway;
  readonly clock: ManualClock | undefined;
}

export class OpenedStages<Stage extends Opened> extends Map<number, Stage> {
  at(id: number): Stage {
    const stage = this.get(id);
    if (!stage) throw new Error(`There is no stage ${id}.`);
    return stage;
  }

  readonly handlers: Handlers = {
    close: (id: number, options: Parameters<Gateway["close"]>[0]) => this.at(id).gateway.close(options),
    advance: async (id: number, ms: number): Promise<number> => {
      const { clock } = this.at(id);
      await clock?.advance(ms);
      return clock?.pending ?? 0;
    },
  };
}

/** A gateway for tests of repeated calls: what its backend does at each call, and a store for its answers. */

import { memoryReplayStore, type ReplayStore } from "../../src/index.ts";
import type { ManualClock } from "../../src/testing/laws/manual-clock.ts";
import { counted, INPUT, type Opened, opened, type Send, type Setup, speaking, type Step, WORD } from "./bench.ts";

export const STORE_MS = 10_000;
export const SEVEN: number = INPUT + 7;

/** A gateway with a replay store, and how often its backend was asked. */
export interface Repeating extends Opened {
  readonly asked: () => number;
  readonly repeat: (send?: Send) => Promise<Response>;
  readonly replays: ReplayStore;
}

/** What a backend does at its first, second and later calls; the last for all others. */
export function repeating(
  scripts: readonly (readonly Step[])[],
  setup: Setup = {},
  own?: (clock: ManualClock) => ReplayStore,
): Repeating {
  let asked = 0;
  let replays: ReplayStore | undefined;
  const bench = opened({
    replays: (clock) => (replays = own?.(clock) ?? memoryReplayStore({ clock })),
    backend: {
      async *chat(request, call) {
        const script = scripts[asked++] ?? scripts.at(-1) ?? [];
        yield* speaking(...script).chat?.(request, call) ?? [];
      },
    },
    ...setup,
  });
  const repeat = ({ headers, ...send }: Send = {}): Promise<Response> =>
    bench.send({ ...send, headers: { "idempotency-key": "retry-1", ...headers } });
  if (!replays) throw new Error("The gateway has asked for no store.");
  return { ...bench, asked: () => asked, repeat, replays };
}

export const once: readonly Step[] = [WORD, counted(7)];
export const STREAM: Send = { body: { stream: true } };

/** A store that keeps to its port, but for what a test lays over it. */
export const around =
  (verbs: (store: ReplayStore) => Partial<ReplayStore>) =>
  (clock: ManualClock): ReplayStore => {
    const store = memoryReplayStore({ clock });
    return {
      claim: (claim, call) => store.claim(claim, call),
      record: (record, call) => store.record(record, call),
      release: (holder, call) => store.release(holder, call),
      ...verbs(store),
    };
  };

/** The sentences to compare, and the last call for their vectors. */

import { type Signal, signal } from "@preact/signals";
import { type Exchange, startExchange } from "../http/exchange.ts";
import type { ShownKey } from "../http/secret.ts";
import { embeddingCall, FIRST_NEARNESS, type NearnessDraft } from "../nearness/embeddings.ts";
import { apiKey, keyToShow } from "./keys.ts";
import { watchQuota } from "./quota.ts";

export interface NearnessRun {
  readonly draft: NearnessDraft;
  readonly key: ShownKey;
  readonly exchange: Exchange;
}

export const nearnessDraft: Signal<NearnessDraft> = signal(FIRST_NEARNESS);
export const nearnessRun: Signal<NearnessRun | undefined> = signal(undefined);

export const changeNearness = (changes: Partial<NearnessDraft>): void => {
  nearnessDraft.value = { ...nearnessDraft.peek(), ...changes };
};

export function compare(): void {
  nearnessRun.peek()?.exchange.stop();
  const draft = nearnessDraft.peek();
  const exchange = startExchange(embeddingCall(draft, apiKey.peek()));
  nearnessRun.value = { draft, key: keyToShow.peek(), exchange };
  watchQuota(exchange.ended);
}

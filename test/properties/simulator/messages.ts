/** The requests of a gateway to its store, as messages that can be lost, doubled, delayed and reordered. */

import type { HoldRequest, Outcome, Renewal, Reservation, QuotaStore } from "../../../src/index.ts";
import type { Life } from "./life.ts";

export type Message =
  | { readonly verb: "find"; readonly life: Life; readonly apiKey: string }
  | { readonly verb: "balance"; readonly life: Life; readonly keyId: string }
  | { readonly verb: "reserve"; readonly life: Life; readonly hold: HoldRequest }
  | { readonly verb: "renew"; readonly life: Life; readonly renewal: Renewal }
  | { readonly verb: "settle"; readonly life: Life; readonly outcome: Outcome }
  | { readonly verb: "sweep"; readonly life?: undefined };

/** One delivery of a message to the store. */
export interface Delivery {
  readonly message: Message;
  /** The answer that the laws demand, once the store has done its work. */
  expected?: Reservation | undefined;
}

/** Calls the verb of a message. Holds have the names of their lives, so that a seed gives the same steps each time. */
export function ask(store: QuotaStore & { sweep?(): Promise<number> }, message: Message): Promise<unknown> {
  switch (message.verb) {
    case "find":
      return store.find(message.apiKey);
    case "balance":
      return store.balance(message.keyId);
    case "reserve":
      return store.reserve(message.hold);
    case "renew":
      return store.renew(message.life.id, message.renewal);
    case "settle":
      return store.settle(message.life.id, message.outcome);
    case "sweep":
      return store.sweep?.() ?? Promise.resolve(0);
  }
}

/** A failure that the simulator has injected. It breaks no law. */
export class MadeUpFailure extends Error {
  override readonly name = "MadeUpFailure";
}

/** The requests of a gateway to its store, as messages that can be lost, doubled, delayed and reordered. */

import type { HoldRequest, Outcome, QuotaRecalls, QuotaStore, Renewal, Reservation } from "../../../src/index.ts";

/** The owner of a hold in the store: the call of a gateway, or a hold that a borrowing store has made. */
export interface Holder {
  readonly id: string;
  readonly key: { readonly id: string };
  /** True once a store has reported a failure of the settlement, or has carried it out. */
  settleFailed: boolean;
  settleWorked: boolean;
}

export type Message =
  | { readonly verb: "find"; readonly life?: Holder | undefined; readonly apiKey: string }
  | { readonly verb: "balance"; readonly life: Holder; readonly keyId: string }
  | { readonly verb: "reserve"; readonly life: Holder; readonly hold: HoldRequest }
  | { readonly verb: "renew"; readonly life: Holder; readonly renewal: Renewal }
  | { readonly verb: "settle"; readonly life: Holder; readonly outcome: Outcome }
  | { readonly verb: "recall"; readonly life?: undefined; readonly keyId: string }
  | { readonly verb: "recalled"; readonly life?: undefined; readonly withinMs: number }
  | { readonly verb: "sweep"; readonly life?: undefined };

/** One delivery of a message to the store. */
export interface Delivery {
  readonly message: Message;
  /** The answer that the laws demand, once the store has done its work. */
  expected?: Reservation | undefined;
}

/** Calls the verb of a message. Holds have the names of their lives, so that a seed gives the same steps each time. */
export function ask(
  store: QuotaStore & Partial<QuotaRecalls> & { sweep?(): Promise<number> },
  message: Message,
): Promise<unknown> {
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
    case "recall":
      return store.recall?.(message.keyId) ?? Promise.resolve();
    case "recalled":
      return store.recalled?.(message.withinMs) ?? Promise.resolve([]);
    case "sweep":
      return store.sweep?.() ?? Promise.resolve(0);
  }
}

/** A failure that the simulator has injected. It breaks no law. */
export class MadeUpFailure extends Error {
  override readonly name = "MadeUpFailure";
}

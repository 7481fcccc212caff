/** The calls that a gateway is serving, so that it can close: no new ones, and an end to those there are. */

import { GatewayError } from "../errors.ts";
import type { Clock } from "../ports/clock.ts";

/** When a caller that was refused may come back, in milliseconds: another instance can be there at once. */
const COME_BACK_MS = 1_000;

const closing = (): GatewayError => new GatewayError("busy", "The gateway is closing.", { retryAfterMs: COME_BACK_MS });

/** How much longer than its deadline a call may take to end, in milliseconds. */
const GRACE_MS = 30_000;

/** A call, as far as closing concerns it. */
export interface InFlightCall {
  /** Whether its runtime stops work whose client is gone, unless it is told to wait. */
  readonly hasWaitUntil: boolean;
  /** Ends it early. */
  cut(reason: GatewayError): void;
}

interface InFlight {
  readonly cut: () => void;
  /** When it must have ended, in milliseconds since the Unix epoch. */
  readonly overdueAt: number;
}

export class InFlightCalls {
  /** In the order in which they began. */
  readonly #calls = new Map<object, InFlight>();
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  #closed: PromiseWithResolvers<void> | undefined;

  /** @param deadlineMs How long one call may take. */
  constructor(clock: Clock, deadlineMs: number) {
    this.#clock = clock;
    this.#deadlineMs = deadlineMs;
  }

  /** How many there are. */
  get size(): number {
    return this.#calls.size;
  }

  /** Takes up a new call. Throws `busy` where the gateway is closing. */
  begin(call: InFlightCall): void {
    if (this.#closed) throw closing();
    const now = this.#clock.now();
    this.#forgetStopped(now);
    this.#calls.set(call, { cut: cutOf(call), overdueAt: now + this.#deadlineMs + GRACE_MS });
  }

  /** A call has ended and is settled. */
  end(call: InFlightCall): void {
    this.#calls.delete(call);
    if (this.#calls.size === 0) this.#closed?.resolve();
  }

  /** Resolves when the last call has ended and is settled; those that live after `deadlineMs` are cut. */
  close(deadlineMs: number): Promise<void> {
    if (this.#closed) return this.#closed.promise;
    const closed = (this.#closed = Promise.withResolvers<void>());
    const cancelCut = this.#clock.after(deadlineMs, () => this.#calls.forEach(({ cut }) => cut()));
    const cancelWait = this.#clock.after(deadlineMs + GRACE_MS, closed.resolve);
    if (this.#calls.size === 0) closed.resolve();
    return closed.promise.finally(() => {
      cancelCut();
      cancelWait();
    });
  }

  /** Lets go of calls that their runtime has stopped without a word, as Workers may once a client is gone. */
  #forgetStopped(now: number): void {
    for (const [call, { overdueAt }] of this.#calls) {
      if (overdueAt > now) return;
      this.#calls.delete(call);
    }
  }
}

function cutOf(call: InFlightCall): () => void {
  const cut = (): void => call.cut(closing());
  if (!call.hasWaitUntil) return cut;
  // Where each request has a context of its own, as in Workers, none may abort what belongs to another: it cuts itself.
  const { promise, resolve } = Promise.withResolvers<void>();
  void promise.then(cut);
  return resolve;
}

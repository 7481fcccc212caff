/** The calls that a gateway is serving, so that it can close: no new ones, and an end to those there are. */

import { GatewayError } from "../errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Keep } from "../ports/keep.ts";
import { Lifeline } from "./lifeline.ts";

/** When a caller that was refused may come back, in milliseconds: another instance can be there at once. */
const COME_BACK_MS = 1_000;

const closing = (): GatewayError => new GatewayError("busy", "The gateway is closing.", { retryAfterMs: COME_BACK_MS });

/** How much longer than its deadline a call may take to end, in milliseconds. */
const GRACE_MS = 30_000;

interface Live {
  readonly cut: () => void;
  /** When it must have ended, in milliseconds since the Unix epoch. */
  readonly overdueAt: number;
}

export class LiveCalls {
  /** In the order in which they began. */
  readonly #live = new Map<Lifeline, Live>();
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  #closed: PromiseWithResolvers<void> | undefined;

  /** @param deadlineMs How long one call may take. */
  constructor(clock: Clock, deadlineMs: number) {
    this.#clock = clock;
    this.#deadlineMs = deadlineMs;
  }

  /** The life of a new call; it is cut from the start where the gateway is closing. */
  begin(client: AbortSignal, keep: Keep | undefined): Lifeline {
    const now = this.#clock.now();
    this.#forgetStopped(now);
    const life = new Lifeline(client, this.#clock, this.#deadlineMs, () => this.#ended(life), keep);
    if (this.#closed) life.cut(closing());
    // It cuts itself: where each request has a context of its own, as in Workers, none may abort what belongs to another.
    const { promise, resolve: cut } = Promise.withResolvers<void>();
    void promise.then(() => life.cut(closing()));
    this.#live.set(life, { cut, overdueAt: now + this.#deadlineMs + GRACE_MS });
    return life;
  }

  /** Resolves when the last call has ended and is settled; those that live after `deadlineMs` are cut. */
  close(deadlineMs: number): Promise<void> {
    if (this.#closed) return this.#closed.promise;
    const closed = (this.#closed = Promise.withResolvers<void>());
    const cancelCut = this.#clock.after(deadlineMs, () => this.#live.forEach(({ cut }) => cut()));
    const cancelWait = this.#clock.after(deadlineMs + GRACE_MS, closed.resolve);
    if (this.#live.size === 0) closed.resolve();
    return closed.promise.finally(() => {
      cancelCut();
      cancelWait();
    });
  }

  /** Lets go of calls that their runtime has stopped without a word, as Workers may once a client is gone. */
  #forgetStopped(now: number): void {
    for (const [life, { overdueAt }] of this.#live) {
      if (overdueAt > now) return;
      life.forget();
    }
  }

  #ended(life: Lifeline): void {
    this.#live.delete(life);
    if (this.#live.size === 0) this.#closed?.resolve();
  }
}

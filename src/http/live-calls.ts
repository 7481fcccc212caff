/** The calls that a gateway is serving, so that it can close: no new ones, and an end to those there are. */

import { GatewayError } from "../errors.ts";
import type { Clock } from "../ports/clock.ts";
import { Lifeline } from "./lifeline.ts";

/** When a caller that was refused may come back, in milliseconds: another instance can be there at once. */
const COME_BACK_MS = 1_000;

const closing = (): GatewayError => new GatewayError("busy", "The gateway is closing.", { retryAfterMs: COME_BACK_MS });

export class LiveCalls {
  /** Each with what has it cut. */
  readonly #live = new Map<Lifeline, () => void>();
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  #closed: PromiseWithResolvers<void> | undefined;

  /** @param deadlineMs How long one call may take. */
  constructor(clock: Clock, deadlineMs: number) {
    this.#clock = clock;
    this.#deadlineMs = deadlineMs;
  }

  /** The life of a new call; it is cut from the start where the gateway is closing. */
  begin(client: AbortSignal): Lifeline {
    const life = new Lifeline(client, this.#clock, this.#deadlineMs, () => this.#ended(life));
    if (this.#closed) life.cut(closing());
    // It cuts itself: where each request has a context of its own, as in Workers, none may abort what belongs to another.
    const { promise, resolve } = Promise.withResolvers<void>();
    void promise.then(() => life.cut(closing()));
    this.#live.set(life, resolve);
    return life;
  }

  /** Resolves when the last call has ended and is settled; those that live after `deadlineMs` are cut. */
  close(deadlineMs: number): Promise<void> {
    if (this.#closed) return this.#closed.promise;
    this.#closed = Promise.withResolvers();
    const cancel = this.#clock.after(deadlineMs, () => this.#live.forEach((cut) => cut()));
    if (this.#live.size === 0) this.#closed.resolve();
    return this.#closed.promise.finally(cancel);
  }

  #ended(life: Lifeline): void {
    this.#live.delete(life);
    if (this.#live.size === 0) this.#closed?.resolve();
  }
}

/** One call of a model: how long it may take, and who may cut it. The model may hang, and mind no signal. */

import type { Clock } from "../../ports/clock.ts";
import { Pending } from "../pending.ts";
import { Exchange, LEFT, type Phase } from "../relay/exchange.ts";

export class Asking {
  readonly #exchange: Exchange;
  readonly #pending: Pending = new Pending();
  readonly #abort: AbortController = new AbortController();
  #onLeave: (() => void) | undefined;

  constructor(clock: Clock, signal: AbortSignal) {
    this.#exchange = new Exchange(clock, signal);
    const cut = (reason: Error): void => {
      this.#pending.fail(reason);
      this.#abort.abort(reason);
    };
    this.#exchange.carrier = { cut };
    // A call that was over before it began is cut already.
    if (this.#exchange.reason instanceof Error) cut(this.#exchange.reason);
  }

  /** For the model: fires when the call is cut, or its answer is not read any further. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Waits for a promise of the model's. Rejects at once when the call is cut. */
  of<Value>(promise: PromiseLike<Value>): Promise<Value> {
    return this.#pending.of(promise);
  }

  /** What is waited for from now on, and for how long. */
  enter(phase: Phase): void {
    this.#exchange.enter(phase);
  }

  /** Something came: the wait begins anew. */
  touch(): void {
    this.#exchange.touch();
  }

  /** @param release Lets go of what the model holds; called when the call is left. */
  onLeave(release: () => void): void {
    this.#onLeave = release;
  }

  /** The call is over, whichever way: nothing of it is left. */
  leave(): void {
    this.#exchange.end();
    this.#abort.abort(LEFT);
    try {
      this.#onLeave?.();
    } catch {
      // What the model has brought may lie about what it can do.
    }
  }
}

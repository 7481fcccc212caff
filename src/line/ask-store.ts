/** Asks and tells the stores of the host: one that hangs or fails is `store_unavailable`, and one that keeps hanging is left alone. */

import { GatewayError, toGatewayError, type Port } from "../errors.ts";
import { LATE, within } from "../http/within.ts";
import { Breaker, DEFAULT_BREAKER } from "../ports/breaker.ts";
import type { Cancel } from "../ports/clock.ts";
import type { Call } from "./call.ts";
import { report } from "./failure.ts";
import type { Services } from "./services.ts";
import { tooLate } from "./settlements.ts";

/** From when on a failure has kept its caller waiting, in milliseconds. What fails sooner needs no rest. */
const SLOW_MS = 1_000;

/**
 * What the store says. Rejects with `store_unavailable` where it throws, rejects, or takes longer than it may; and at once, where
 * this verb of it has taken too long several times in a row.
 *
 * @param late Is given what the store says when nobody waits for it any more, so that it is let go of.
 */
export function askStore<T>(
  call: Call,
  port: Port,
  verb: string,
  ask: () => Promise<T>,
  late?: (answer: T) => unknown,
): Promise<T> {
  const breaker = breakerOf(call.services, port, verb);
  if (breaker.waitMs > 0) return Promise.reject(leftAlone(port, breaker.waitMs));
  return new Promise((resolve, reject) => {
    const question = new Question<T>(call, port, breaker, resolve, reject);
    try {
      // Made a promise of its own: a query builder that only looks like one would ask the database again at each `then`.
      const asked = Promise.resolve(ask());
      question.hear(asked);
      // Most are answered by then, and need no timer.
      void NEXT.then(() => question.wait(asked, late));
    } catch (error) {
      question.fail(error);
    }
  });
}

/**
 * One question to a store. Each call asks several, so that this is one object and not a chain of asynchronous functions. The store's
 * promise holds nothing but it, and it holds nothing of the call once it is over: the promise may never settle.
 */
class Question<T> {
  /** Undefined once the question is over. */
  #call: Call | undefined;
  readonly #port: Port;
  readonly #breaker: Breaker;
  #resolve: ((answer: T) => void) | undefined;
  #reject: ((error: GatewayError) => void) | undefined;
  readonly #begunAt: number;
  /** Ends the waiting with the call; set once the store takes its time. */
  #release: (() => void) | undefined;
  #cancelTimer: Cancel | undefined;

  constructor(
    call: Call,
    port: Port,
    breaker: Breaker,
    resolve: (answer: T) => void,
    reject: (error: GatewayError) => void,
  ) {
    this.#call = call;
    this.#port = port;
    this.#breaker = breaker;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#begunAt = call.services.clock.now();
    breaker.enter();
  }

  /** Listens to the store. The functions are written here, where there is nothing of the call that they could hold. */
  hear(asked: Promise<T>): void {
    asked.then(
      (answer) => this.#succeed(answer),
      (error: unknown) => this.fail(error),
    );
  }

  #succeed(answer: T): void {
    const resolve = this.#resolve;
    if (!resolve) return;
    this.#end();
    this.#breaker.succeed();
    resolve(answer);
  }

  fail(error: unknown): void {
    const [call, reject] = [this.#call, this.#reject];
    if (!call || !reject) return;
    this.#end();
    const tookMs = call.services.clock.now() - this.#begunAt;
    // A call that has ended meanwhile says nothing of the store.
    if (tookMs >= SLOW_MS && !call.isEnded) this.#breaker.fail();
    else this.#breaker.leave();
    reject(toGatewayError(error, this.#port));
  }

  /** Waits for a slow store: until its time is up, or until the call ends. */
  wait(asked: Promise<T>, late: ((answer: T) => unknown) | undefined): void {
    const call = this.#call;
    if (!call) return;
    const { clock, limits } = call.services;
    const leave = (why: unknown): void => {
      // A clock may fire what was cancelled in the same turn.
      if (!this.#call) return;
      // Before the call has ended: a runtime that stops all work for a client who is gone must not stop before this is done.
      if (late) call.waitUntil(asked.then(late, ignore).catch((error: unknown) => report(call, error, this.#port)));
      this.fail(why);
    };
    const release = (): void => leave(call.endedBecause);
    this.#cancelTimer = clock.after(limits.storeTimeoutMs, () => leave(tooLate(limits.storeTimeoutMs)));
    // Not written at the field itself, for the reason that stands at `meter` in `hold.ts`.
    this.#release = release;
    call.defer(release);
  }

  #end(): void {
    this.#cancelTimer?.();
    // A call that lasts asks often, and must not keep something of each time.
    if (this.#release) this.#call?.forget(this.#release);
    this.#call = this.#resolve = this.#reject = this.#release = this.#cancelTimer = undefined;
  }
}

/** What waits for it comes next, behind the answer of a store that has answered at once. */
const NEXT: Promise<void> = Promise.resolve();

/** How long after each failure a store is told again what a call has come to, in milliseconds. */
export const TELL_AGAIN_MS: readonly number[] = [500, 5_000, 30_000];

/** Tells a store what a call has come to; whether it has taken that. What goes wrong is reported, and holds up nothing for longer. */
export async function tellStore(call: Call, port: Port, tell: () => Promise<void>): Promise<boolean> {
  const { clock, limits } = call.services;
  try {
    if ((await within(Promise.resolve(tell()), limits.storeTimeoutMs, clock)) !== LATE) return true;
    throw tooLate(limits.storeTimeoutMs);
  } catch (error) {
    report(call, error, port);
    return false;
  }
}

/** Of each verb its own: where keys are found in a cache, that tells nothing of the ledger. */
function breakerOf({ breakers, clock, limits }: Services, port: Port, verb: string): Breaker {
  let ofPort = breakers.get(port);
  if (!ofPort) breakers.set(port, (ofPort = new Map()));
  let breaker = ofPort.get(verb);
  if (!breaker) {
    const options = { ...DEFAULT_BREAKER, failures: limits.storeBreakerFailures, openMs: limits.storeBreakerOpenMs };
    ofPort.set(verb, (breaker = new Breaker(options, clock)));
  }
  return breaker;
}

const leftAlone = (port: Port, retryAfterMs: number): GatewayError =>
  new GatewayError("store_unavailable", "A store of this service is not available.", {
    port,
    retryAfterMs,
    cause: new Error("The store has taken too long several times in a row, and is left alone for a while."),
  });

const ignore = (): void => {};

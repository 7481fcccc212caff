/** Queries the host's stores. A store that hangs or fails is `store_unavailable`; a circuit breaker rests a store that keeps hanging. */

import { type GatewayError, storeUnavailable, toGatewayError, type Port } from "../errors.ts";
import { Breaker, DEFAULT_BREAKER } from "../ports/circuit-breaker.ts";
import { LATE, NEXT_MICROTASK, within, type Cancel } from "../ports/clock.ts";
import type { Call } from "./call.ts";
import { report } from "./reports.ts";
import type { Services } from "./services.ts";
import { tooLate } from "./settlements.ts";

/** A failure counts for the circuit breaker when it took at least so many milliseconds: a fast failure holds up no caller. */
const SLOW_MS = 1_000;

/**
 * Queries a store. Rejects with `store_unavailable` when the store throws, rejects or takes longer than `storeTimeoutMs`, and at once
 * while the circuit breaker of this verb is open.
 *
 * @param late Receives an answer that comes after the query has ended, so that the answer can be undone.
 */
export function askStore<T>(
  call: Call,
  port: Port,
  verb: string,
  ask: () => Promise<T>,
  late?: (answer: T) => unknown,
): Promise<T> {
  const breaker = breakerOf(call.services, port, verb);
  const { waitMs } = breaker;
  if (waitMs > 0) return Promise.reject(resting(port, waitMs));
  breaker.enter();
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const query = new StoreQuery<T>(call, port, breaker, resolve, reject);
  try {
    // Wrap it: a query builder that only looks like a promise would query the database again at each `then`.
    const asked = Promise.resolve(ask());
    query.hear(asked);
    // Skip the timer when the store answers within one microtask.
    void NEXT_MICROTASK.then(() => query.wait(asked, late));
  } catch (error) {
    query.giveUp(error);
  }
  return promise;
}

/**
 * A query of a store. The store's promise may never settle, so it holds this object alone, and this object drops the call as soon as
 * the query is over.
 */
class StoreQuery<T> {
  /** Undefined once the query is over. */
  #call: Call | undefined;
  readonly #port: Port;
  readonly #breaker: Breaker;
  #resolve: ((answer: T) => void) | undefined;
  #reject: ((error: GatewayError) => void) | undefined;
  readonly #begunAt: number;
  /** Ends the query with the call; set once the store is slow. */
  #release: (() => void) | undefined = undefined;
  #cancelTimer: Cancel | undefined = undefined;

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
    this.#begunAt = call.clock.now();
  }

  /** Listens to the store. The functions stand here, where they can hold nothing of the call. */
  hear(asked: Promise<T>): void {
    asked.then(
      (answer) => {
        const resolve = this.#resolve;
        if (!resolve) return;
        this.#end();
        this.#breaker.succeed();
        resolve(answer);
      },
      (error: unknown) => this.giveUp(error),
    );
  }

  giveUp(error: unknown): void {
    const [call, reject] = [this.#call, this.#reject];
    if (!call || !reject) return;
    this.#end();
    const tookMs = call.clock.now() - this.#begunAt;
    // A query that ended with its call shows nothing about the store.
    if (tookMs >= SLOW_MS && !call.isEnded) this.#breaker.fail();
    else this.#breaker.leave();
    reject(toGatewayError(error, this.#port));
  }

  /** Waits for a slow store until its time is up or the call ends. */
  wait(asked: Promise<T>, late: ((answer: T) => unknown) | undefined): void {
    const call = this.#call;
    if (!call) return;
    const leave = (why: unknown): void => {
      // A clock may fire a timer that was cancelled in the same turn.
      if (!this.#call) return;
      // Must run before the call has ended: a runtime that stops when the client is gone must wait for this.
      if (late) call.waitUntil(asked.then(late, ignore).catch((error: unknown) => report(call, error, this.#port)));
      this.giveUp(why);
    };
    const release = (): void => leave(call.endedBecause);
    const { storeTimeoutMs } = call.limits;
    this.#cancelTimer = call.clock.after(storeTimeoutMs, () => leave(tooLate(storeTimeoutMs)));
    // A variable first: V8 keeps a function that is written at a field in its old generation (see `meter` in reserve.ts).
    this.#release = release;
    call.defer(release);
  }

  #end(): void {
    this.#cancelTimer?.();
    // A long call queries often, and must keep nothing of each query.
    if (this.#release) this.#call?.forget(this.#release);
    this.#call = this.#resolve = this.#reject = this.#release = this.#cancelTimer = undefined;
  }
}

/** Tells a store the outcome of a call. Resolves with whether the store took it; reports a failure, and never rejects. */
export async function tellStore(
  call: Call,
  port: Port,
  tell: () => Promise<void>,
  explain: (error: unknown) => unknown = (error) => error,
): Promise<boolean> {
  const { storeTimeoutMs } = call.limits;
  try {
    if ((await within(Promise.resolve(tell()), storeTimeoutMs, call.clock)) !== LATE) return true;
    throw tooLate(storeTimeoutMs);
  } catch (error) {
    report(call, explain(error), port);
    return false;
  }
}

/** Returns the circuit breaker of one verb. Verbs have breakers of their own: a cached `find` shows nothing about the ledger. */
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

const resting = (port: Port, retryAfterMs: number): GatewayError =>
  storeUnavailable(
    new Error("The store has taken too long several times in a row, and is left alone for a while."),
    port,
    retryAfterMs,
  );

const ignore = (): void => {};

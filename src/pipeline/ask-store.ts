/** Queries the host's stores. A store that hangs or fails is `store_unavailable`; a circuit breaker rests a store that keeps hanging. */

import { type GatewayError, storeUnavailable, toGatewayError, type Port } from "../errors.ts";
import { Breaker, DEFAULT_BREAKER } from "../ports/circuit-breaker.ts";
import { type Clock, LATE, NEXT_MICROTASK, Wait, within } from "../ports/clock.ts";
import type { Call } from "./call.ts";
import { report } from "./reports.ts";
import type { Services } from "./services.ts";
import { RETRY_PAUSES_MS, tooLate } from "./settlements.ts";

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
  const query = new StoreQuery<T>(resolve, reject, call, port, breaker);
  try {
    // Wrap it: a query builder that only looks like a promise would query the database again at each `then`.
    const asked = Promise.resolve(ask());
    query.for(asked);
    // Skip the timer when the store answers within one microtask.
    void NEXT_MICROTASK.then(() => query.limit(asked, late));
  } catch (error) {
    query.reject(error);
  }
  return promise;
}

/** A wait for the answer of a store, which tells the circuit breaker how it ended. It drops the call as soon as it is over. */
class StoreQuery<T> extends Wait<T> {
  /** Undefined once the query is over. */
  #call: Call | undefined;
  readonly #port: Port;
  readonly #breaker: Breaker;
  readonly #begunAt: number;

  constructor(
    resolve: (answer: T) => void,
    reject: (error: unknown) => void,
    call: Call,
    port: Port,
    breaker: Breaker,
  ) {
    super(resolve, reject);
    this.#call = call;
    this.#port = port;
    this.#breaker = breaker;
    this.#begunAt = call.clock.now();
  }

  override resolve(answer: T): void {
    if (!this.#call) return;
    this.#call = undefined;
    this.#breaker.succeed();
    super.resolve(answer);
  }

  override reject(error: unknown): void {
    const call = this.#call;
    if (!call) return;
    this.#call = undefined;
    const tookMs = call.clock.now() - this.#begunAt;
    // A query that ended with its call shows nothing about the store.
    if (tookMs >= SLOW_MS && !call.isEnded) this.#breaker.fail();
    else this.#breaker.leave();
    super.reject(toGatewayError(error, this.#port));
  }

  /** Ends the query of a slow store when its time is up or the call ends. */
  limit(asked: Promise<T>, late: ((answer: T) => unknown) | undefined): void {
    const call = this.#call;
    if (!call) return;
    const leave = (why: unknown): void => {
      // A clock may fire a timer that was cancelled in the same turn.
      if (!this.#call) return;
      // Must run before the call has ended: a runtime that stops when the client is gone must wait for this.
      if (late) call.waitUntil(asked.then(late, ignore).catch((error: unknown) => report(call, error, this.#port)));
      this.reject(why);
    };
    const release = (): void => leave(call.endedBecause);
    const { storeTimeoutMs } = call.limits;
    const cancel = call.clock.after(storeTimeoutMs, () => leave(tooLate(storeTimeoutMs)));
    call.defer(release);
    // A long call queries often, and must keep nothing of each query.
    this.whenOver(() => {
      cancel();
      call.forget(release);
    });
  }
}

/**
 * Tells a store the outcome of a call. Resolves with whether the store took it; reports a failure, and never rejects.
 *
 * @param explain Says of a charge that it waits. Default: no charge waits.
 */
export async function tellStore(
  call: Call,
  port: Port,
  tell: () => Promise<void>,
  explain?: (error: unknown) => unknown,
): Promise<boolean> {
  const { storeTimeoutMs } = call.limits;
  try {
    if ((await within(Promise.resolve(tell()), storeTimeoutMs, call.clock)) !== LATE) return true;
    throw tooLate(storeTimeoutMs);
  } catch (error) {
    report(call, explain?.(error) ?? error, port, explain && { waiting: true });
    return false;
  }
}

/**
 * Tries something, and while it fails, tries again behind the caller after each of `RETRY_PAUSES_MS`. Resolves after the first try.
 *
 * @param attempt Resolves with true for a success. Never rejects.
 * @param waitUntil Receives the promise of the next try.
 */
export async function retryBehind(
  clock: Clock,
  attempt: (isLast: boolean) => Promise<boolean>,
  waitUntil: (next: Promise<void>) => void = ignore,
  [pauseMs, ...later]: readonly number[] = RETRY_PAUSES_MS,
): Promise<void> {
  if ((await attempt(pauseMs === undefined)) || pauseMs === undefined) return;
  const again = (): Promise<void> => retryBehind(clock, attempt, waitUntil, later);
  waitUntil(new Promise<void>((resolve) => clock.after(pauseMs, () => resolve(again()))));
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

/** Asks and tells the stores of the host: one that hangs or fails is `store_unavailable`, and one that keeps hanging is left alone. */

import { GatewayError, toGatewayError, type Port } from "../errors.ts";
import { LATE, within } from "../http/within.ts";
import { Breaker, DEFAULT_BREAKER } from "../ports/breaker.ts";
import type { Call } from "./call.ts";
import { report } from "./failure.ts";
import type { Services } from "./services.ts";

/** From when on a failure has kept its caller waiting, in milliseconds. What fails sooner needs no rest. */
const SLOW_MS = 1_000;

/**
 * What the store says. Throws `store_unavailable` where it throws, rejects, or takes longer than it may; and at once, where this verb
 * of it has taken too long several times in a row.
 *
 * @param late Is given what the store says when nobody waits for it any more, so that it is let go of.
 */
export async function askStore<T>(
  call: Call,
  port: Port,
  verb: string,
  ask: () => Promise<T>,
  late?: (answer: T) => unknown,
): Promise<T> {
  const { clock, limits } = call.services;
  const breaker = breakerOf(call.services, port, verb);
  if (breaker.waitMs > 0) throw leftAlone(port, breaker.waitMs);
  breaker.enter();
  const begunAt = clock.now();
  let release: (() => void) | undefined;
  try {
    // Made a promise of its own: a query builder that only looks like one would ask the database again at each `then`.
    const asked = Promise.resolve(ask());
    let isAwaited = true;
    const leave = (): void => {
      // Before the call has ended: a runtime that stops all work for a client who is gone must not stop before this is done.
      if (isAwaited && late)
        call.waitUntil(asked.then(late, ignore).catch((error: unknown) => report(call, error, port)));
      isAwaited = false;
    };
    const answer = await within(asked, limits.storeTimeoutMs, clock, (end) => {
      release = (): void => {
        leave();
        end();
      };
      call.defer(release);
    });
    if (answer !== LATE) {
      isAwaited = false;
      breaker.succeed();
      return answer;
    }
    leave();
    call.assertLive();
    throw tooLate(limits.storeTimeoutMs);
  } catch (error) {
    // A call that has ended meanwhile says nothing of the store.
    if (clock.now() - begunAt >= SLOW_MS && !call.isEnded) breaker.fail();
    else breaker.leave();
    throw toGatewayError(error, port);
  } finally {
    // A call that lasts asks often, and must not keep something of each time.
    if (release) call.forget(release);
  }
}

/** When a store is told again that has failed to take what a call has come to, in milliseconds after the failure before it. */
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
  const name = `${port} ${verb}`;
  const known = breakers.get(name);
  if (known) return known;
  const breaker = new Breaker(
    { ...DEFAULT_BREAKER, failures: limits.storeBreakerFailures, openMs: limits.storeBreakerOpenMs },
    clock,
  );
  breakers.set(name, breaker);
  return breaker;
}

const leftAlone = (port: Port, retryAfterMs: number): GatewayError =>
  new GatewayError("store_unavailable", "A store of this service is not available.", {
    port,
    retryAfterMs,
    cause: new Error("The store has taken too long several times in a row, and is left alone for a while."),
  });

const tooLate = (ms: number): Error => new Error(`The store took longer than ${ms} ms.`);

const ignore = (): void => {};

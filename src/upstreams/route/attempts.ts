/**
 * Asks the upstreams of a route one after the other, until one of them begins to answer. Retry libraries, such as p-retry and
 * cockatiel, repeat one function: they have no retry budget that calls share, and do not respect an upstream's retry-after time.
 */

import {
  backendError,
  type GatewayError,
  type GatewayErrorCode,
  isMistake,
  LACKS_MODEL,
  needsOperator,
  toGatewayError,
  UpstreamsRest,
} from "../../errors.ts";
import { AMOUNT, FROM_ZERO, type NumberRule } from "../../options.ts";
import { afterAlive, type Clock } from "../../ports/clock.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { isUpstreamFailure, UPSTREAM_FAILURES } from "../backend.ts";
import { lackingModel } from "../mistakes.ts";
import type { Hedger } from "./hedge.ts";
import { movedOnAfter, type RoutedBackend, type RoutedCall, type RoutedRequest } from "./upstream.ts";

/** The number of retries of a failed call, and the pauses before them. */
export interface RetryOptions {
  /**
   * The number of further rounds after all upstreams of a route have failed, or rest. With 0, such a call fails at once, with the time after
   * which a client may try again. A mistake in the code of a host's own backend, such as a TypeError, is not repeated. Default: 2.
   */
  readonly rounds: number;
  /**
   * The pause before the first further round, in milliseconds. It doubles with each round, and half of it is random. A call waits longer, up
   * to `maxPauseMs`, until the first upstream has rested for the time of its `retry-after`. Default: 500.
   */
  readonly pauseMs: number;
  /** The longest pause, in milliseconds. A call that would have to wait longer fails at once instead. Default: 10 seconds. */
  readonly maxPauseMs: number;
  /**
   * The average number of retries for each call. The limit keeps retries from making an overload worse. Up to ten unused retries are
   * saved, so that calls in quiet times can be retried, too. Default: 0.2.
   */
  readonly share: number;
  /**
   * The number of times that an upstream is asked again, after a pause, before the next upstream is asked. The pause is at least the one that
   * the upstream asks for. An upstream that took too long is not asked again, and neither is one whose pause would be longer than
   * `maxPauseMs`. Default: 0.
   */
  readonly again: number;
}

/** The default values. */
export const DEFAULT_RETRY: RetryOptions = { rounds: 2, pauseMs: 500, maxPauseMs: 10_000, share: 0.2, again: 0 };

export const RETRY_RULES: Readonly<Record<keyof RetryOptions, NumberRule>> = {
  rounds: FROM_ZERO,
  pauseMs: FROM_ZERO,
  maxPauseMs: FROM_ZERO,
  share: AMOUNT,
  again: FROM_ZERO,
};

/**
 * Errors after which the next upstream is asked. All other errors are caused by the request. `backend_refused` does not count as a
 * failure of the upstream: the upstream may refuse this service one model or beta feature, and other callers must still reach the
 * upstream. Neither does `context_length_exceeded`: the next upstream may take a longer prompt.
 */
const OTHERS_MAY_ANSWER: ReadonlySet<GatewayErrorCode> = new Set([
  ...UPSTREAM_FAILURES,
  "backend_refused",
  "context_length_exceeded",
  "rate_limited",
  "model_not_found",
]);

/** Errors after which the same upstream may answer soon. */
const PASSING: ReadonlySet<GatewayErrorCode> = new Set([
  "backend_failed",
  "backend_unavailable",
  "backend_overloaded",
  "rate_limited",
]);

/** Errors that the same request would get again from the same upstream. */
const LASTING: ReadonlySet<GatewayErrorCode> = new Set(["context_length_exceeded", "model_not_found"]);

/** Tells whether another upstream may answer after an error. No other upstream mends the gateway's code runner. */
export const mayMoveOn = ({ code, port }: GatewayError): boolean =>
  OTHERS_MAY_ANSWER.has(code) && port !== "code-runner";

/** An answer that has begun. */
interface BegunAnswer<Event> {
  readonly upstream: RoutedBackend;
  readonly routed: RoutedCall;
  readonly source: AsyncIterator<Event>;
  readonly first: IteratorResult<Event, unknown>;
  /** The counts that came before. */
  readonly counts: readonly Event[];
}

const isUsage = (event: unknown): boolean => Object(event).type === "usage";

/** The most counts before the first other event of an answer. A further one begins the answer. */
const MAX_COUNTS = 16;

/** The most retries that the budget can hold. */
const MOST_SAVED = 10;

export class Attempts {
  readonly #retry: RetryOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  /** The retry budget: each call adds a share of a retry to it. */
  #saved = MOST_SAVED;

  constructor(retry: RetryOptions, clock: Clock, random: () => number) {
    this.#retry = retry;
    this.#clock = clock;
    this.#random = random;
  }

  /**
   * Resolves with the first upstream that begins to answer, and with the answer's first event.
   *
   * @param order The upstreams, in the order in which each round asks them.
   * @param ask Asks one upstream. Returns undefined when the upstream's backend no longer has a method for the request.
   * @param onCounts Gets the counts of each upstream that has any before its first other event. They alone do not begin an answer: the next
   *   upstream may still be asked.
   * @param hedger Asks a second upstream when the first is late. Default: one upstream at a time.
   * @param leg Set for a part of an answer that may go on after a break. A later part is a retry from its first attempt on.
   */
  async begin<Event>(
    order: readonly RoutedBackend[],
    request: RoutedRequest,
    call: CallContext,
    ask: (upstream: RoutedBackend, call: RoutedCall) => AsyncIterable<Event> | undefined,
    onCounts: (counts: readonly Event[], routed: RoutedCall) => void,
    hedger?: Hedger,
    leg?: { readonly ask?: unknown },
  ): Promise<BegunAnswer<Event>> {
    const { signal } = call;
    const isRest = leg?.ask !== undefined;
    if (!isRest) this.#saved = Math.min(MOST_SAVED, this.#saved + this.#retry.share);
    const refused = new Set<RoutedBackend>();
    let last: GatewayError | undefined;
    /** The error of an upstream that refuses this service, or lacks a model which the route lists. Another upstream that rests may answer. */
    let lasting: GatewayError | undefined;
    const others = (): readonly RoutedBackend[] => order.filter((upstream) => !refused.has(upstream));
    const lastError = (): GatewayError =>
      last ?? (lasting && refused.size === order.length ? lasting : unavailable(others(), this.#clock.now()));
    // The first attempt does not use the retry budget. Neither does an attempt after a lasting error, which is no sign of overload.
    let isFree = !isRest;
    /** The upstream that has failed last, if it may answer soon. */
    let passing: RoutedBackend | undefined;
    const events = (upstream: RoutedBackend, routed: RoutedCall): AsyncIterable<Event> => {
      const answer = ask(upstream, routed);
      if (!answer) throw new TypeError("The backend has no method for this request.");
      return answer;
    };
    /** Notes the failure of an upstream. Throws an error after which no upstream is asked. */
    const failed = (upstream: RoutedBackend, routed: RoutedCall, thrown: unknown): void => {
      const { breaker } = upstream;
      const raw = toGatewayError(thrown, "model-backend");
      const error = routed.isListed ? lackingModel(raw, upstream.name, upstream.model ?? request.model) : raw;
      const told = signal.aborted ? error : upstream.told(error, request.model, raw);
      const { code, retryAfterMs } = told;
      if (!signal.aborted && isUpstreamFailure(error)) breaker.fail();
      else breaker.leave();
      if (!signal.aborted) upstream.count(error, call, routed.isListed);
      const movesOn = !signal.aborted && mayMoveOn(told);
      // A long prompt tells nothing about the upstream's health.
      if (movesOn && code !== "context_length_exceeded") upstream.note(error);
      routed.failed(raw, movesOn ? movedOnAfter(code) : undefined, told);
      if (signal.aborted) throw thrown;
      if (!movesOn) throw told;
      if (retryAfterMs !== undefined) breaker.rest(retryAfterMs);
      // Clear the report of this upstream: the next upstream may report nothing, and would not replace it.
      if (!isRest) call.reportConversions([]);
      const isOfHost = needsOperator(told);
      if (isOfHost || (routed.isListed && LACKS_MODEL.has(error.code))) lasting = told;
      else last = told;
      isFree = isOfHost || LASTING.has(code);
      // A mistake in the code of a host's own backend would fail again.
      if (isFree || isMistake(thrown)) refused.add(upstream);
      // An open circuit breaker rests for longer than the upstream asks.
      passing = PASSING.has(code) && breaker.waitMs <= (retryAfterMs ?? 0) ? upstream : undefined;
    };
    for (let round = 0; round <= this.#retry.rounds; round++) {
      if (round > 0 && !(await this.#hasPaused(round, others(), signal))) break;
      /** Upstreams that were asked as the second of a pair. */
      const asked = hedger && new Set<RoutedBackend>();
      for (const [at, upstream, time] of this.#timesOf(order)) {
        const { breaker } = upstream;
        if (refused.has(upstream) || asked?.has(upstream) === true) continue;
        if (time > 0 && (passing !== upstream || !(await this.#hasPaused(time, [upstream], signal)))) continue;
        if (breaker.waitMs > 0) {
          // Tell it once: in later rounds, an earlier attempt of the call says why the upstream rests.
          if (round === 0 && time === 0) upstream.routed(call, request).rested();
          continue;
        }
        if (!isFree) {
          if (this.#saved < 1) throw lastError();
          this.#saved--;
        }
        breaker.enter();
        if (hedger) {
          const start = (one: RoutedBackend, racing: CallContext): RoutedCall => one.routed(racing, request);
          const second = (): RoutedBackend | undefined => {
            const mayAsk = (one: RoutedBackend): boolean =>
              !refused.has(one) && asked?.has(one) !== true && one.breaker.waitMs === 0;
            const other = order.slice(at + 1).find(mayAsk);
            other?.breaker.enter();
            if (other) asked?.add(other);
            return other;
          };
          const begun = await hedger.begin(upstream, {
            call,
            mayGoOn: leg !== undefined,
            start,
            events,
            second,
            failed,
            onCounts,
          });
          if (begun) return begun;
          continue;
        }
        const routed = upstream.routed(call, request);
        try {
          const source = events(upstream, routed)[Symbol.asyncIterator]();
          let first = await source.next();
          const counts: Event[] = [];
          while (!first.done && isUsage(first.value) && counts.length < MAX_COUNTS) {
            if (counts.push(first.value) === 1) {
              onCounts(counts, routed);
              routed.counted(counts);
            }
            first = await source.next();
          }
          // Do not count a success yet: the end of the answer decides.
          breaker.leave();
          routed.began(leg !== undefined);
          return { upstream, routed, source, first, counts };
        } catch (thrown) {
          failed(upstream, routed, thrown);
        }
      }
      if (refused.size === order.length) break;
    }
    throw lastError();
  }

  /** Returns each upstream as often as a round may ask it, with its place in the order and the number of the time, both from 0. */
  #timesOf(order: readonly RoutedBackend[]): (readonly [at: number, upstream: RoutedBackend, time: number])[] {
    const times = Array.from({ length: this.#retry.again + 1 }, (_, time) => time);
    return order.flatMap((upstream, at) => times.map((time) => [at, upstream, time] as const));
  }

  /**
   * Pauses before a round (counted from 1) until an upstream may be asked. Resolves with false at once when that would take longer
   * than `maxPauseMs`.
   */
  async #hasPaused(round: number, order: readonly RoutedBackend[], signal: AbortSignal): Promise<boolean> {
    const { pauseMs, maxPauseMs } = this.#retry;
    const soonestMs = Math.min(...order.map(({ breaker }) => breaker.waitMs));
    if (soonestMs > maxPauseMs) return false;
    const wholeMs = Math.min(maxPauseMs, pauseMs * 2 ** (round - 1));
    // Half of the pause is random, to spread calls that failed at the same time.
    const ms = Math.max(soonestMs, wholeMs / 2 + (wholeMs / 2) * this.#random());
    await new Promise<void>((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const onAbort = (): void => {
        cancel();
        reject(signal.reason);
      };
      const cancel = afterAlive(this.#clock, ms, () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      });
      return signal.addEventListener("abort", onAbort, { once: true });
    });
    return true;
  }
}

/**
 * Makes the error of a call for which no upstream was asked, because every upstream must rest: its circuit breaker is open, or it has
 * asked for a pause. Upstreams that rest because of their rate limits are busy, not away: the call that met the limit was told the same.
 */
function unavailable(upstreams: readonly RoutedBackend[], now: number): GatewayError {
  const retryAfterMs = Math.max(1, Math.ceil(Math.min(...upstreams.map(({ breaker }) => breaker.waitMs))));
  const areBusy = upstreams.every(({ lastFailure }) => lastFailure?.code === "rate_limited");
  if (areBusy) return backendError("busy", undefined, { retryAfterMs });
  const mistakes = new Set(upstreams.flatMap(({ lastFailure }) => lastFailure?.mistake ?? []));
  const rests = `No upstream may be asked: ${upstreams.map((upstream) => restInWords(upstream, now)).join(", ")}.`;
  return backendError("unavailable", new UpstreamsRest([rests, ...mistakes].join(" ")), { retryAfterMs });
}

function restInWords({ name, breaker, lastFailure }: RoutedBackend, now: number): string {
  const until = new Date(Math.round(now + breaker.waitMs)).toISOString().replace(/\.\d+Z$/, "Z");
  return `${name} rests until ${until}${lastFailure ? ` after ${lastFailure.code}` : ""}`;
}

/** Asks the upstreams of a route one after the other, until one of them has begun to answer. */

import { GatewayError, toGatewayError } from "../../errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { pause, pauseBefore, RetryBudget, type RetryOptions } from "./retry.ts";
import { drawn, isLasting, type RoutedBackend } from "./routed-backend.ts";

/** Asks one upstream. */
type Run<Event> = (upstream: RoutedBackend) => AsyncIterable<Event>;

/** An answer that has begun. */
interface Begun<Event> {
  readonly upstream: RoutedBackend;
  readonly source: AsyncIterator<Event>;
  readonly first: IteratorResult<Event, unknown>;
}

export class Attempts {
  readonly #retry: RetryOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #budget: RetryBudget;

  constructor(retry: RetryOptions, clock: Clock, random: () => number) {
    this.#retry = retry;
    this.#clock = clock;
    this.#random = random;
    this.#budget = new RetryBudget(retry.share);
  }

  /** The events of the first upstream that begins to answer, and which one it is. */
  async *events<Event>(
    upstreams: readonly RoutedBackend[],
    run: Run<Event>,
    call: Pick<CallContext, "signal" | "reportFates">,
  ): AsyncGenerator<{ readonly event: Event; readonly upstream: RoutedBackend }> {
    const { signal } = call;
    const { upstream, source, first } = await this.#begin(upstreams, run, call);
    let isDone = first.done === true;
    try {
      for (let step = first; !step.done; step = await source.next()) yield { event: step.value, upstream };
      isDone = true;
      upstream.breaker.succeed();
    } catch (error) {
      isDone = true;
      if (!signal.aborted) upstream.brokeOff(error);
      throw error;
    } finally {
      if (!isDone) await this.#leave(upstream, source);
    }
  }

  /** Its reader wants no more of an answer, which was right up to there: it has enough, or its caller is gone. */
  async #leave({ breaker }: RoutedBackend, source: AsyncIterator<unknown>): Promise<void> {
    breaker.succeed();
    await source.return?.();
  }

  async #begin<Event>(
    upstreams: readonly RoutedBackend[],
    run: Run<Event>,
    call: Pick<CallContext, "signal" | "reportFates">,
  ): Promise<Begun<Event>> {
    const { signal } = call;
    this.#budget.earn();
    const order = drawn(upstreams, this.#random);
    const refused = new Set<RoutedBackend>();
    let last: GatewayError | undefined;
    // A refusal costs an upstream next to nothing: asking another one after it makes no overload worse, and is free.
    let isFree = true;
    for (let round = 0; round <= this.#retry.rounds; round++) {
      if (round > 0 && !(await this.#mayPause(round, order, signal))) break;
      for (const upstream of order) {
        if (upstream.breaker.waitMs > 0 || refused.has(upstream)) continue;
        if (!isFree && !this.#budget.spend()) throw last ?? resting(order);
        const begun = await this.#try(upstream, run, signal);
        if (!(begun instanceof GatewayError)) return begun;
        // What it would have left out of the request is nothing to the next, which may have nothing to report.
        call.reportFates([]);
        last = begun;
        isFree = isLasting(begun);
        if (isFree) refused.add(upstream);
      }
      if (refused.size === order.length) break;
    }
    throw last ?? resting(order);
  }

  /** Asks one upstream for its first event. An error after which another one may do better is returned, any other is thrown. */
  async #try<Event>(
    upstream: RoutedBackend,
    run: Run<Event>,
    signal: AbortSignal,
  ): Promise<Begun<Event> | GatewayError> {
    upstream.breaker.enter();
    try {
      const source = run(upstream)[Symbol.asyncIterator]();
      const first = await source.next();
      // It has begun; whether it succeeds, its end will tell.
      upstream.breaker.leave();
      return { upstream, source, first };
    } catch (thrown) {
      const error = toGatewayError(thrown, "model-backend");
      if (signal.aborted) {
        upstream.breaker.leave();
        throw thrown;
      }
      if (!upstream.failed(error)) throw error;
      return error;
    }
  }

  /** Waits before a round for as long as the upstreams want, unless that is too long. */
  async #mayPause(round: number, order: readonly RoutedBackend[], signal: AbortSignal): Promise<boolean> {
    const soonestMs = Math.min(...order.map(({ breaker }) => breaker.waitMs));
    if (soonestMs > this.#retry.maxPauseMs) return false;
    await pause(Math.max(soonestMs, pauseBefore(round, this.#retry, this.#random())), this.#clock, signal);
    return true;
  }
}

/** Nobody was asked, because all of them are to be left alone for now. */
function resting(upstreams: readonly RoutedBackend[]): GatewayError {
  const retryAfterMs = Math.max(1, Math.ceil(Math.min(...upstreams.map(({ breaker }) => breaker.waitMs))));
  return new GatewayError("backend_unavailable", "The model backend is not available.", {
    port: "model-backend",
    retryAfterMs,
  });
}

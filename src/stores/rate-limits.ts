/** A RateLimiter over the counters of rate-limiter-flexible: in memory, in Redis, in SQL, as the host hands them in. */

import { type Clock, systemClock } from "../ports/clock.ts";
import type { CallDemand, RateLimit, RateLimiter, RateVerdict, TokenDemand } from "../ports/rate-limiter.ts";
import { correct, countAll, type RateCounter, takeBack, type Taken, type Want } from "./rate-counters.ts";

/** Limits on one thing. Of several windows, such as a minute and a day, each must have room. */
export interface RateLimits {
  readonly requests?: readonly RateCounter[];
  /** Tokens in and out. */
  readonly tokens?: readonly RateCounter[];
  /** How many calls may run at once, from 1: counted in this process alone. */
  readonly callsAtOnce?: number;
}

/** The limits of a `flexibleRateLimiter`. */
export interface FlexibleRateLimiterOptions {
  /** What each key may do. */
  readonly perKey?: RateLimits;
  /** What each key may do with each model. */
  readonly perModel?: RateLimits;
  /** Default: the machine's own, which is also rate-limiter-flexible's. */
  readonly clock?: Clock;
}

/** What a live call has taken. */
interface LiveCall {
  readonly tokens: Taken[];
  readonly places: string[];
}

/** When a caller may come back whose calls at once are too many, in milliseconds: nobody knows when one ends. */
const PLACE_RETRY_MS = 1_000;

const NO_PLACE: RateVerdict = { refused: { by: "calls", retryAfterMs: PLACE_RETRY_MS }, limits: [] };

/**
 * Limits by the counters that it is given: no counter may stand in two lists.
 *
 * @throws RangeError where `callsAtOnce` is no integer from 1.
 * @example
 * const rateLimiter = flexibleRateLimiter({
 *   perKey: { requests: [new RateLimiterMemory({ points: 60, duration: 60 })], callsAtOnce: 8 },
 * });
 */
export function flexibleRateLimiter(options: FlexibleRateLimiterOptions): RateLimiter {
  for (const most of [options.perKey?.callsAtOnce, options.perModel?.callsAtOnce])
    if (most !== undefined && !(Number.isSafeInteger(most) && most > 0))
      throw new RangeError(`callsAtOnce must be an integer from 1, not ${most}`);
  return new FlexibleRateLimiter(options);
}

class FlexibleRateLimiter implements RateLimiter {
  readonly #perKey: RateLimits;
  readonly #perModel: RateLimits;
  readonly #clock: Clock;
  readonly #live = new Map<string, LiveCall>();
  /** How many places are taken, by whom. */
  readonly #places = new Map<string, number>();

  constructor({ perKey = {}, perModel = {}, clock = systemClock }: FlexibleRateLimiterOptions) {
    this.#perKey = perKey;
    this.#perModel = perModel;
    this.#clock = clock;
  }

  async begin({ id, keyId }: CallDemand): Promise<RateVerdict> {
    const place = nameOf(keyId);
    if (!this.#enter(place, this.#perKey.callsAtOnce)) return NO_PLACE;
    const verdict = await this.#count(place, wantsOf("requests", this.#perKey, place, 1));
    if (!verdict.refused) this.#live.set(id, { tokens: [], places: [place] });
    return verdict;
  }

  async take({ id, keyId, model, tokens }: TokenDemand): Promise<RateVerdict> {
    const place = nameOf(keyId, model);
    if (!this.#enter(place, this.#perModel.callsAtOnce)) return NO_PLACE;
    const { taken, ...verdict } = await this.#count(place, [
      ...wantsOf("tokens", this.#perKey, nameOf(keyId), tokens),
      ...wantsOf("requests", this.#perModel, place, 1),
      ...wantsOf("tokens", this.#perModel, place, tokens),
    ]);
    if (verdict.refused) return verdict;
    const live = this.#live.get(id);
    live?.tokens.push(...taken.filter(({ kind }) => kind === "tokens"));
    live?.places.push(place);
    if (!live) {
      // The call has ended meanwhile.
      this.#leave(place);
      await takeBack(taken);
    }
    return verdict;
  }

  async end(id: string, tokens: number): Promise<void> {
    const live = this.#live.get(id);
    if (!live) return;
    this.#live.delete(id);
    for (const place of live.places) this.#leave(place);
    await Promise.all(live.tokens.map((taken) => correct(taken, tokens, this.#clock)));
  }

  /** Counts, and gives the place back where that cannot be. */
  async #count(place: string, wants: readonly Want[]): Promise<RateVerdict & { taken: Taken[] }> {
    try {
      const counted = await countAll(wants, this.#clock);
      if (counted.refused) this.#leave(place);
      return counted;
    } catch (error) {
      this.#leave(place);
      throw error;
    }
  }

  #enter(place: string, most = Number.POSITIVE_INFINITY): boolean {
    const taken = this.#places.get(place) ?? 0;
    if (taken >= most) return false;
    this.#places.set(place, taken + 1);
    return true;
  }

  #leave(place: string): void {
    const taken = this.#places.get(place) ?? 0;
    if (taken > 1) this.#places.set(place, taken - 1);
    else this.#places.delete(place);
  }
}

/** A name that no other key or model has, whatever theirs are made of. */
const nameOf = (...names: readonly string[]): string => JSON.stringify(names);

/** What is to be counted in each window. Windows of one store share it, so each has keys of its own. */
const wantsOf = (kind: RateLimit["kind"], limits: RateLimits, name: string, points: number): Want[] =>
  (limits[kind] ?? []).map((counter, index) => ({ kind, counter, key: `${kind}:${index}:${name}`, points }));

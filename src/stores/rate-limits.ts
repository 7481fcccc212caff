/** A RateLimiter over the counters of rate-limiter-flexible: in memory, in Redis, in SQL, as the host hands them in. */

import { type Clock, systemClock } from "../ports/clock.ts";
import type { CallDemand, RateLimit, RateLimiter, RateVerdict, TokenDemand } from "../ports/rate-limiter.ts";
import {
  correct,
  countAll,
  type RateCounter,
  type Reservations,
  takeBack,
  type Taken,
  type Want,
} from "./rate-counters.ts";

/** Limits on one thing. Of several windows, such as a minute and a day, each must have room. */
export interface RateLimits {
  readonly requests?: readonly RateCounter[];
  /**
   * Tokens in and out: a call reserves its input, by estimate, and its answer, as long as that may become, and what it used takes the place
   * of that when it ends. Counters that block a key when it is over its limit (`blockDuration`) are for requests alone.
   */
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
  /**
   * The most tokens of its answer that a call reserves, from 0. Many clients ask for far longer answers than they get: a call that reserved
   * all of that would keep others out in vain. Default: 8,192.
   */
  readonly reservedOutputTokens?: number;
  /** Default: the machine's own, which is also rate-limiter-flexible's. */
  readonly clock?: Clock;
}

/** What a live call has taken. */
interface LiveCall {
  readonly tokens: Taken[];
  readonly places: string[];
  /** What it is about to take, too: a counter may hang. */
  reserving: readonly Want[];
}

/** How many tokens of its answer a call reserves at most, unless the host says otherwise. */
const RESERVED_OUTPUT_TOKENS = 8_192;

/** When a caller may come back whose calls at once are too many, in milliseconds: nobody knows when one ends. */
const PLACE_RETRY_MS = 1_000;

const NO_PLACE: RateVerdict = { refused: { by: "calls", retryAfterMs: PLACE_RETRY_MS }, limits: [] };

/**
 * Limits by the counters that it is given: no counter may stand in two lists.
 *
 * @throws RangeError where `callsAtOnce` is no integer from 1, or `reservedOutputTokens` none from 0.
 * @example
 * const rateLimiter = flexibleRateLimiter({
 *   perKey: { requests: [new RateLimiterMemory({ points: 60, duration: 60 })], callsAtOnce: 8 },
 * });
 */
export function flexibleRateLimiter(options: FlexibleRateLimiterOptions): RateLimiter {
  for (const most of [options.perKey?.callsAtOnce, options.perModel?.callsAtOnce])
    if (most !== undefined && !(Number.isSafeInteger(most) && most > 0))
      throw new RangeError(`callsAtOnce must be an integer from 1, not ${most}`);
  const { reservedOutputTokens: most } = options;
  if (most !== undefined && !(Number.isSafeInteger(most) && most >= 0))
    throw new RangeError(`reservedOutputTokens must be an integer from 0, not ${most}`);
  return new FlexibleRateLimiter(options);
}

class FlexibleRateLimiter implements RateLimiter {
  readonly #perKey: RateLimits;
  readonly #perModel: RateLimits;
  readonly #clock: Clock;
  readonly #live = new Map<string, LiveCall>();
  /** How many places are taken, by whom. */
  readonly #places = new Map<string, number>();
  readonly #reservedOutputTokens: number;
  /** By the name of a window: which calls have reserved from it. */
  readonly #reservations = new Map<string, Reservations>();

  constructor(options: FlexibleRateLimiterOptions) {
    const { perKey = {}, perModel = {}, reservedOutputTokens = RESERVED_OUTPUT_TOKENS, clock = systemClock } = options;
    this.#perKey = perKey;
    this.#perModel = perModel;
    this.#reservedOutputTokens = reservedOutputTokens;
    this.#clock = clock;
  }

  async begin({ id, keyId }: CallDemand): Promise<RateVerdict> {
    const place = nameOf(keyId);
    if (!this.#enter(place, this.#perKey.callsAtOnce)) return NO_PLACE;
    const verdict = await this.#count(place, wantsOf("requests", this.#perKey, place, 1));
    if (!verdict.refused) this.#live.set(id, { tokens: [], places: [place], reserving: [] });
    return verdict;
  }

  async take({ id, keyId, model, tokens, outputTokens = 0 }: TokenDemand): Promise<RateVerdict> {
    const place = nameOf(keyId, model);
    if (!this.#enter(place, this.#perModel.callsAtOnce)) return NO_PLACE;
    const points = tokens + Math.min(outputTokens, this.#reservedOutputTokens);
    const least = Math.min(points, tokens + 1);
    const begun = this.#live.get(id);
    // A call that has not begun, or has ended, is not waited for by others: nobody would tell of its end.
    const reserve = (want: Want): Want => (begun ? this.#reserving(want, id, least) : want);
    const ofKey = wantsOf("tokens", this.#perKey, nameOf(keyId), points).map(reserve);
    const ofModel = wantsOf("tokens", this.#perModel, place, points).map(reserve);
    const reserving = [...ofKey, ...ofModel];
    if (begun) begun.reserving = reserving;
    try {
      const wants = [...ofKey, ...wantsOf("requests", this.#perModel, place, 1), ...ofModel];
      const { taken, ...verdict } = await this.#count(place, wants);
      if (verdict.refused) {
        this.#letGo(reserving);
        return verdict;
      }
      const live = this.#live.get(id);
      if (live) {
        const reserved = taken.filter(({ kind }) => kind === "tokens");
        for (const one of reserved) if (one.reservation) one.reservation.shared.points += one.points;
        live.tokens.push(...reserved);
        live.places.push(place);
      } else {
        // The call has ended meanwhile.
        this.#letGo(reserving);
        this.#leave(place);
        await takeBack(taken);
      }
      return verdict;
    } catch (error) {
      this.#letGo(reserving);
      throw error;
    }
  }

  async end(id: string, tokens: number): Promise<void> {
    const live = this.#live.get(id);
    if (!live) return;
    this.#live.delete(id);
    for (const place of live.places) this.#leave(place);
    for (const { reservation, points } of live.tokens) if (reservation) reservation.shared.points -= points;
    this.#letGo(live.reserving);
    await Promise.all(live.tokens.map((taken) => correct(taken, tokens, this.#clock)));
  }

  /** Notes that a call is about to reserve from a window. */
  #reserving(want: Want, callId: string, least: number): Want {
    let shared = this.#reservations.get(want.key);
    if (!shared) this.#reservations.set(want.key, (shared = { calls: new Set(), points: 0 }));
    shared.calls.add(callId);
    return { ...want, reservation: { callId, least, shared } };
  }

  #letGo(wants: readonly Want[]): void {
    for (const { key, reservation } of wants) {
      reservation?.shared.calls.delete(reservation.callId);
      if (reservation?.shared.calls.size === 0) this.#reservations.delete(key);
    }
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

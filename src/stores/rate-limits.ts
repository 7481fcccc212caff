/** A RateLimiter over the counters of rate-limiter-flexible: in memory, in Redis or in SQL, as the host provides them. */

import { GatewayError, WRONG_SETTING } from "../errors.ts";
import {
  assertMethods,
  assertOptions,
  CLOCK,
  fieldsOf,
  mapOf,
  meantHint,
  nearest,
  quoted,
  type Shapes,
} from "../options.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import { type ApiKey, databaseOf, noteDatabase } from "../ports/quota-store.ts";
import type {
  CallDemand,
  RateLimit,
  RateLimiter,
  RateRefusal,
  RateVerdict,
  TokenDemand,
} from "../ports/rate-limiter.ts";

/** A counter of rate-limiter-flexible: for example RateLimiterMemory, RateLimiterRedis or RateLimiterPostgres. */
export interface RateCounter {
  /** The limit of one window, in points. */
  readonly points: number;
  /** The length of one window, in seconds. The caller of a refused call is told. */
  readonly duration?: number;
  /** Counts points. Rejects with a RateCount (not an Error) when the window has too few points left. */
  consume(key: string, points: number): Promise<RateCount>;
  /** Counts points even when the window has none left. */
  penalty(key: string, points: number): Promise<RateCount>;
  /** Gives counted points back to the window. */
  reward(key: string, points: number): Promise<RateCount>;
  /**
   * Returns the state of a window without counting; null for a window without points. With this method, a call that several windows refuse is
   * told the longest wait.
   */
  get?(key: string): Promise<RateCount | null>;
}

/** The state of a counter. */
export interface RateCount {
  readonly remainingPoints: number;
  readonly consumedPoints: number;
  /** The time until the window is reset, in milliseconds; -1 for a window that is never reset. */
  readonly msBeforeNext: number;
}

/** The limits of a key, or of a key with a model. When there are several windows, such as a minute and a day, a call needs room in each. */
export interface RateLimits {
  /** Limits on requests, one counter for each window. A counter in two places is refused. */
  readonly requests?: readonly RateCounter[];
  /**
   * Limits on input and output tokens together. A call reserves its estimated input and the longest answer that it may get. When the
   * call ends, the tokens that it used replace the reservation. Counters that block a key over its limit (`blockDuration`) are for
   * requests only.
   */
  readonly tokens?: readonly RateCounter[];
  /** The most calls that may run at once, from 1. Each process counts its own calls. Default: no limit. */
  readonly callsAtOnce?: number;
}

/** The limits of some keys. */
export interface RateTier {
  /** The limits of each key. */
  readonly perKey?: RateLimits;
  /** The limits of each key with each model. */
  readonly perModel?: RateLimits;
  /** The limits of each key with some models, by the model's name. They replace `perModel` for these models. */
  readonly models?: Readonly<Record<string, RateLimits>>;
  /** The limits that all keys of a group share. */
  readonly perGroup?: RateLimits;
}

/** The limits of a `flexibleRateLimiter`: its own for keys without a tier, and those of the tiers. */
export interface FlexibleRateLimiterOptions extends RateTier {
  /**
   * Limits by the name of a tier. Each of `perKey`, `perModel` and `perGroup` that a tier names replaces the one beside `tiers`, as a
   * whole; the others apply to the tier as well. `perModel: {}` means no limit.
   */
  readonly tiers?: Readonly<Record<string, RateTier>>;
  /**
   * Returns the tier of a key; undefined for a key without a tier. If `tiers` lacks this tier, the key's calls are refused as
   * `misconfigured`, so that a wrong name does not remove the limits of a key. Without the option `tiers`, all keys have the same limits, and
   * this function is not called. Default: the entry `tier` of the key's metadata.
   */
  readonly tierOf?: (key: ApiKey) => string | undefined;
  /** Returns the group of a key; undefined for a key without a group. Default: the entry `group` of the key's metadata. */
  readonly groupOf?: (key: ApiKey) => string | undefined;
  /**
   * The most output tokens that a call reserves, from 0. Many clients allow far longer answers than they get; reserving all of these
   * tokens would refuse other calls without need. Default: 8,192.
   */
  readonly reservedOutputTokens?: number;
  /** Default: the machine's clock, which rate-limiter-flexible also uses. */
  readonly clock?: Clock;
}

const RESERVED_OUTPUT_TOKENS = 8_192;

/**
 * Makes a rate limiter from the given counters.
 *
 * @throws TypeError when an option has the wrong shape, such as a number where a counter is expected.
 * @throws RangeError when a counter is in two places, `callsAtOnce` is not an integer from 1 up, or `reservedOutputTokens` is not an
 * integer from 0 up.
 * @example
 * const rateLimiter = flexibleRateLimiter({
 *   perKey: { requests: [new RateLimiterMemory({ points: 60, duration: 60 })], callsAtOnce: 8 },
 * });
 */
export function flexibleRateLimiter(options: FlexibleRateLimiterOptions): RateLimiter {
  assertOptions<FlexibleRateLimiterOptions>("flexibleRateLimiter", options, {
    ...TIER_SHAPES,
    tiers: { optional: mapOf(fieldsOf(TIER_SHAPES)) },
    tierOf: "function?",
    groupOf: "function?",
    reservedOutputTokens: "fromZero?",
    clock: CLOCK,
  });
  const places = new Map<RateCounter, string>();
  assertLimits("flexibleRateLimiter", options, places);
  for (const [name, tier] of Object.entries(options.tiers ?? {})) {
    const where = `flexibleRateLimiter: tiers[${JSON.stringify(name)}]`;
    assertLimits(where, tier, places);
  }
  const limiter = new FlexibleRateLimiter(options);
  for (const counter of places.keys()) noteDatabase(limiter, databaseOf(counter));
  return limiter;
}

const LIMITS = {
  optional: fieldsOf<RateLimits>({ requests: "list?", tokens: "list?", callsAtOnce: "positive?" }),
};
const TIER_SHAPES: Shapes<RateTier> = {
  perKey: LIMITS,
  perModel: LIMITS,
  perGroup: LIMITS,
  models: { optional: mapOf(LIMITS.optional) },
};

/** @param places The place of each counter that was read before. */
function assertLimits(where: string, tier: RateTier, places: Map<RateCounter, string>): void {
  const { perKey, perModel, perGroup, models = {} } = tier;
  const named = Object.entries(models).map(([model, limits]) => [`models[${JSON.stringify(model)}]`, limits] as const);
  for (const [scope, limits] of [...Object.entries({ perKey, perModel, perGroup }), ...named]) {
    if (limits === undefined) continue;
    for (const kind of ["requests", "tokens"] as const)
      for (const [index, counter] of (limits[kind] ?? []).entries()) {
        const name = `${scope}.${kind}[${index}]`;
        assertCounter(where, name, counter);
        const place = `${where}: ${name}`;
        const other = places.get(counter);
        if (other !== undefined)
          throw new RangeError(`${place} is the same counter as ${other}; each limit needs a counter of its own.`);
        places.set(counter, place);
      }
  }
}

function assertCounter(where: string, name: string, counter: unknown): void {
  const what = "a counter of rate-limiter-flexible, such as new RateLimiterMemory({ points: 60, duration: 60 })";
  assertMethods(where, name, counter, ["consume", "penalty", "reward"], what);
  const { points } = counter as { readonly points?: unknown };
  if (typeof points !== "number") throw new TypeError(`${where}: ${name} must be ${what}, and has no points.`);
}

/** A count to be made in one window. */
interface WantedCount {
  readonly kind: RateLimit["kind"];
  readonly counter: RateCounter;
  readonly key: string;
  readonly points: number;
  readonly owner: Scope["owner"];
  /** Set for a window of tokens: the reservation, which is corrected when the call ends. */
  readonly reservation?: { readonly callId: string; readonly least: number; readonly shared: Reservations };
}

/** The calls of this process that have reserved points of one window, or are about to. */
interface Reservations {
  /** The ids of the calls, in the order in which they came. */
  readonly calls: Set<string>;
  /** The sum of the points that these calls have reserved. */
  points: number;
}

interface TakenCount extends WantedCount {
  /** Milliseconds since the Unix epoch; infinite for a window that never ends. */
  readonly windowEnd: number;
}

/** A call between `begin` and `end`. `end` frees all of it, even while a counter hangs. */
interface LiveCall {
  readonly tokens: TakenCount[];
  /** The names of the slots that the call takes, one for each `callsAtOnce` limit. */
  slots: readonly string[];
  /** The reservations that the call is making. */
  reserving: readonly WantedCount[];
  /** True once the call takes tokens, so that its `end` comes. */
  hasTaken: boolean;
}

/** The retry time when too many calls run at once, in milliseconds. It is a guess, because the end of a running call is not known. */
const SLOT_RETRY_MS = 1_000;

/** Returns the refusal of a call because a scope has no free slot. */
const noSlot = ({ limits: { callsAtOnce: limit = 0 }, owner }: Scope): RateVerdict => ({
  refused: { by: "calls", retryAfterMs: SLOT_RETRY_MS, needed: 1, available: 0, limit, ...owner },
  limits: [],
});

/** The limits that apply to a call, and the name under which they count it. */
interface Scope {
  readonly limits: RateLimits;
  readonly name: string;
  /** The model or the group that the limits count. */
  readonly owner: Pick<RateRefusal, "model" | "group"> | undefined;
}

class FlexibleRateLimiter implements RateLimiter {
  readonly #options: FlexibleRateLimiterOptions;
  readonly tiers: readonly string[] | undefined;
  readonly #reservedOutputTokens: number;
  readonly #clock: Clock;
  readonly #live = new Map<string, LiveCall>();
  /** The number of slots that are taken, by name. */
  readonly #slots = new Map<string, number>();
  /** The calls that have reserved from a window, by the window's key. */
  readonly #reservations = new Map<string, Reservations>();

  constructor(options: FlexibleRateLimiterOptions) {
    const { reservedOutputTokens = RESERVED_OUTPUT_TOKENS, clock = systemClock } = options;
    this.#options = options;
    // A function may find tiers elsewhere than in the metadata.
    this.tiers = options.tiers && !options.tierOf ? Object.keys(options.tiers) : undefined;
    this.#reservedOutputTokens = reservedOutputTokens;
    this.#clock = clock;
  }

  async begin(demand: CallDemand): Promise<RateVerdict> {
    const { shared } = this.#scopesOf(demand);
    const slots = this.#enterAll(shared);
    if ("limits" in slots) return noSlot(slots);
    const live: LiveCall = { tokens: [], slots, reserving: [], hasTaken: false };
    this.#live.set(demand.id, live);
    try {
      const wants = shared.flatMap((scope) => wantsOf("requests", scope, 1));
      const { taken: _, ...verdict } = await countAll(wants, this.#clock);
      if (verdict.refused) this.#forget(demand.id, live);
      return verdict;
    } catch (error) {
      this.#forget(demand.id, live);
      throw error;
    }
  }

  /** Frees the slots of a call that has not begun, unless it goes on although its counter was late. */
  #forget(id: string, live: LiveCall): void {
    if (live.hasTaken || this.#live.get(id) !== live) return;
    this.#live.delete(id);
    this.#leaveAll(live.slots);
  }

  async take(demand: TokenDemand): Promise<RateVerdict> {
    const { id, model, tokens, outputTokens = 0 } = demand;
    const { shared, ofModel: modelScope } = this.#scopesOf(demand, model);
    const slots = this.#enterAll([modelScope]);
    if ("limits" in slots) return noSlot(slots);
    const points = tokens + Math.min(outputTokens, this.#reservedOutputTokens);
    const begun = this.#live.get(id);
    if (begun) {
      begun.hasTaken = true;
      begun.slots = [...begun.slots, ...slots];
    } else this.#leaveAll(slots);
    const least = Math.min(points, tokens + 1);
    // Register the reservation only when the call is live: for any other call, no `end` follows that would remove it.
    const reserve = (want: WantedCount): WantedCount => (begun ? this.#reserving(want, id, least) : want);
    const ofKey = shared.flatMap((scope) => wantsOf("tokens", scope, points)).map(reserve);
    const ofModel = wantsOf("tokens", modelScope, points).map(reserve);
    const reserving = [...ofKey, ...ofModel];
    if (begun) begun.reserving = reserving;
    const giveUp = (): void => {
      this.#cancel(reserving);
      if (!begun || this.#live.get(id) !== begun) return;
      begun.slots = begun.slots.filter((slot) => !slots.includes(slot));
      this.#leaveAll(slots);
    };
    const wants = [...ofKey, ...wantsOf("requests", modelScope, 1), ...ofModel];
    const { taken, ...verdict } = await countAll(wants, this.#clock).catch((error: unknown) => {
      giveUp();
      throw error;
    });
    // The call may have ended meanwhile.
    if (verdict.refused || !begun || this.#live.get(id) !== begun) {
      giveUp();
      await takeBack(taken, this.#clock);
      return verdict;
    }
    const reserved = taken.filter(({ kind }) => kind === "tokens");
    for (const { reservation, points } of reserved) if (reservation) reservation.shared.points += points;
    begun.tokens.push(...reserved);
    return verdict;
  }

  async end(id: string, tokens: number): Promise<void> {
    const live = this.#live.get(id);
    if (!live) return;
    this.#live.delete(id);
    this.#leaveAll(live.slots);
    for (const { reservation, points } of live.tokens) if (reservation) reservation.shared.points -= points;
    this.#cancel(live.reserving);
    await Promise.all(live.tokens.map((taken) => correct(taken, tokens, this.#clock)));
  }

  keyFault(key: ApiKey): string | undefined {
    const { tiers, tierOf } = this.#options;
    const tier = this.#tierOf(key);
    if (tiers === undefined || tier === undefined || Object.hasOwn(tiers, tier)) return undefined;
    const known = Object.keys(tiers).map(quoted).join(" or ") || "left out";
    return `${tierOf ? "The rate tier of the key" : "metadata.tier"} must be ${known}, not ${quoted(tier)}.${meantHint(tier, Object.keys(tiers))}`;
  }

  /** Returns the tier that a key names; undefined without one, and for a limiter without tiers. */
  #tierOf(key: ApiKey): string | undefined {
    const { tiers, tierOf = tierInMetadata } = this.#options;
    return tiers && tierOf(key);
  }

  /** Returns the limits of a call: those of its key and its group, and those of its key with a model. */
  #scopesOf({ keyId, key }: CallDemand, model = ""): { readonly shared: readonly Scope[]; readonly ofModel: Scope } {
    const { tiers = {}, groupOf = groupInMetadata } = this.#options;
    const tier = key && this.#tierOf(key);
    if (tier !== undefined && !Object.hasOwn(tiers, tier))
      throw noTier(keyId, tier, Object.keys(tiers), this.#options.tierOf);
    const own = tier === undefined ? {} : (tiers[tier] ?? {});
    const scopeOf = (
      limitsIn: (of: RateTier) => RateLimits | undefined,
      owner: Scope["owner"],
      ...names: string[]
    ): Scope => {
      const limits = limitsIn(own);
      // Limits that a tier does not name are the same in all tiers.
      const name = limits ? `${nameOf(...names)}:${JSON.stringify(tier)}` : nameOf(...names);
      return { limits: limits ?? limitsIn(this.#options) ?? {}, name, owner };
    };
    const shared = [scopeOf(({ perKey }) => perKey, undefined, keyId)];
    const group = key && (own.perGroup ?? this.#options.perGroup) ? groupOf(key) : undefined;
    // Three parts: no key and no key with a model has such a name.
    if (group !== undefined) shared.push(scopeOf(({ perGroup }) => perGroup, { group }, "group", "", group));
    const isNamed = [own, this.#options].some(({ models = {} }) => Object.hasOwn(models, model));
    const limitsOf = isNamed
      ? ({ models = {} }: RateTier) => ownOf(models, model)
      : ({ perModel }: RateTier) => perModel;
    return { shared, ofModel: scopeOf(limitsOf, { model }, keyId, model) };
  }

  /** Registers a call that is about to reserve from a window. */
  #reserving(want: WantedCount, callId: string, least: number): WantedCount {
    let shared = this.#reservations.get(want.key);
    if (!shared) this.#reservations.set(want.key, (shared = { calls: new Set(), points: 0 }));
    shared.calls.add(callId);
    return { ...want, reservation: { callId, least, shared } };
  }

  #cancel(wants: readonly WantedCount[]): void {
    for (const { key, reservation } of wants) {
      reservation?.shared.calls.delete(reservation.callId);
      if (reservation?.shared.calls.size === 0) this.#reservations.delete(key);
    }
  }

  /** Takes a slot in each scope, and returns the names of the slots. Takes none when a scope has no slot left, and returns this scope. */
  #enterAll(scopes: readonly Scope[]): readonly string[] | Scope {
    const isFull = ({ limits: { callsAtOnce = Number.POSITIVE_INFINITY }, name }: Scope): boolean =>
      (this.#slots.get(name) ?? 0) >= callsAtOnce;
    const full = scopes.find(isFull);
    if (full) return full;
    for (const { name } of scopes) this.#slots.set(name, (this.#slots.get(name) ?? 0) + 1);
    return scopes.map(({ name }) => name);
  }

  #leaveAll(slots: readonly string[]): void {
    for (const slot of slots) {
      const taken = this.#slots.get(slot) ?? 0;
      if (taken > 1) this.#slots.set(slot, taken - 1);
      else this.#slots.delete(slot);
    }
  }
}

/** The error for a key with a tier that the limiter does not have. Its caller is not told the host's names. */
function noTier(keyId: string, tier: string, known: readonly string[], tierOf: unknown): GatewayError {
  const names = known.map(quoted).join(", ") || "none";
  const meant = nearest(tier, known) ?? "NAME";
  // A shell would run the signs of other ids.
  const word = /^\w[\w.:@/-]*$/.test(keyId) ? keyId : "KEY";
  const remedy = tierOf
    ? "Correct tierOf, or add the tier to tiers."
    : `Run polygate keys update ${word} --metadata tier=${meant}, or add the tier to tiers.`;
  const cause = new Error(
    `The key ${keyId} names the rate tier ${quoted(tier)}, which the rate limiter does not have (known: ${names}). ${remedy}`,
  );
  return new GatewayError("misconfigured", WRONG_SETTING, { port: "rate-limiter", cause });
}

const ownOf = <Value>(values: Readonly<Record<string, Value>>, name: string): Value | undefined =>
  Object.hasOwn(values, name) ? values[name] : undefined;

/** Makes a unique name for a key and a model with any characters. */
const nameOf = (...names: readonly string[]): string => JSON.stringify(names);

const tierInMetadata = ({ metadata }: ApiKey): string | undefined => metadata?.["tier"];
const groupInMetadata = ({ metadata }: ApiKey): string | undefined => metadata?.["group"];

/** Returns the counts to make, one for each window. Several counters may use one store, so each window has its own key. */
function wantsOf(kind: RateLimit["kind"], { limits, name, owner }: Scope, points: number): WantedCount[] {
  const keyOf = (index: number): string => `${kind}:${index}:${name}`;
  return (limits[kind] ?? []).map((counter, index) => ({ kind, counter, key: keyOf(index), points, owner }));
}

/** The retry time when running calls have reserved tokens that they may not need, in milliseconds. */
const HELD_RETRY_MS = 1_000;

/**
 * Counts in all windows, or in none when one of them has no room. The earliest call that reserves from a window may reserve less than
 * it wants, because waiting would not get it more. Other calls are refused then: together, all answers could exceed the window.
 */
async function countAll(wants: readonly WantedCount[], clock: Clock): Promise<RateVerdict & { taken: TakenCount[] }> {
  const taken: TakenCount[] = [];
  const limits: RateLimit[] = [];
  try {
    for (const [index, want] of wants.entries()) {
      if (want.points === 0) {
        taken.push({ ...want, windowEnd: 0 });
        continue;
      }
      const { count, isFull } = await consume(want);
      const { kind, counter, key, points } = want;
      const resetMs = Math.max(0, count.msBeforeNext);
      limits.push({ kind, limit: counter.points, remaining: isFull ? 0 : count.remainingPoints, resetMs });
      const windowEnd = count.msBeforeNext < 0 ? Number.POSITIVE_INFINITY : clock.now() + resetMs;
      // A blocked key is refused without being counted.
      const isCounted = !isFull || count.consumedPoints > counter.points;
      if (isCounted) taken.push({ ...want, windowEnd });
      if (!isFull) continue;
      const room = isCounted ? counter.points - (count.consumedPoints - points) : 0;
      if (maySettleFor(want, room)) {
        await counter.reward(key, points - room);
        taken.splice(-1, 1, { ...want, points: room, windowEnd });
        continue;
      }
      await takeBack(taken.splice(0), clock);
      const first = refusalOf(want, room, count.msBeforeNext, clock);
      return { refused: await longestOf(first, wants.slice(index + 1), clock), limits, taken: [] };
    }
  } catch (error) {
    await takeBack(taken, clock).catch(() => {});
    throw error;
  }
  return { limits, taken };
}

const neededOf = ({ points, reservation }: WantedCount): number => reservation?.least ?? points;

function refusalOf(want: WantedCount, room: number, msBeforeNext: number, clock: Clock): RateRefusal {
  const { kind, counter, owner } = want;
  const { points: limit, duration } = counter;
  const needed = neededOf(want);
  const resetMs = Math.max(0, msBeforeNext);
  // The call never finds room in a window that never ends, or in one that is smaller than the call.
  const waitMs = msBeforeNext < 0 || needed > limit ? Number.POSITIVE_INFINITY : resetMs;
  return {
    by: kind,
    retryAfterMs: isHeld(want, room) ? Math.min(HELD_RETRY_MS, waitMs) : waitMs,
    needed,
    available: Math.max(0, room),
    limit,
    ...(duration !== undefined && duration > 0 && { windowMs: duration * 1_000 }),
    ...(msBeforeNext >= 0 && { endsAt: clock.now() + resetMs }),
    ...owner,
  };
}

/** Returns the refusal with the longest wait: of the windows that were not asked, some may lack room for longer. */
async function longestOf(first: RateRefusal, others: readonly WantedCount[], clock: Clock): Promise<RateRefusal> {
  let longest = first;
  for (const want of others) {
    const { counter, key, points } = want;
    // The call is refused in any case.
    const count = points > 0 ? await countIn(counter, key) : null;
    const room = counter.points - (count?.consumedPoints ?? 0);
    if (points === 0 || room >= neededOf(want)) continue;
    const other = refusalOf(want, room, count?.msBeforeNext ?? 0, clock);
    if (other.retryAfterMs > longest.retryAfterMs) longest = other;
  }
  return longest;
}

/** Reads a counter of the host. Returns null if the counter has no count, or cannot be read. */
async function countIn(
  counter: RateCounter,
  key: string,
): Promise<Pick<RateCount, "consumedPoints" | "msBeforeNext"> | null> {
  try {
    return (await counter.get?.(key)) ?? null;
  } catch {
    return null;
  }
}

async function consume({ counter, key, points }: WantedCount): Promise<{ count: RateCount; isFull: boolean }> {
  try {
    return { count: await counter.consume(key, points), isFull: false };
  } catch (thrown) {
    if (thrown instanceof Error || typeof thrown !== "object" || thrown === null || !("msBeforeNext" in thrown))
      throw thrown;
    return { count: thrown as RateCount, isFull: true };
  }
}

/** True when a call may reserve less than it wants: it is the first of the window's calls, and the room is enough for its input. */
function maySettleFor({ reservation }: WantedCount, room: number): boolean {
  if (!reservation || room < reservation.least) return false;
  const [first] = reservation.shared.calls;
  return first === reservation.callId;
}

/**
 * True when there may be enough room once the other calls of this process end and give back what they did not use. Where the room is enough
 * now, another call is about to reserve it.
 */
const isHeld = ({ reservation }: WantedCount, room: number): boolean =>
  reservation !== undefined && room + reservation.shared.points >= reservation.least;

async function takeBack(taken: readonly TakenCount[], clock: Clock): Promise<void> {
  const counted = taken.filter(({ points }) => points > 0);
  await Promise.all(counted.map((count) => correct(count, 0, clock)));
}

/** Replaces the counted points by `points`, which the call has used. */
async function correct(
  { counter, key, points: before, windowEnd }: TakenCount,
  points: number,
  clock: Clock,
): Promise<void> {
  if (points > before) await counter.penalty(key, points - before);
  // Give no points back after the end of their window: they would enlarge the next window.
  else if (points < before && clock.now() < windowEnd) await counter.reward(key, before - points);
}

/** The expected costs of a call at the upstreams of a route: from prices, from what is cached, and from what earlier answers have shown. */

import { NO_USAGE, type Usage } from "../../model/usage.ts";
import { abandon } from "../../options.ts";
import type { ModelKind } from "../../ports/call-info.ts";
import { INPUT_COUNT, type UpstreamModel } from "../../ports/model-backend.ts";
import type { PrefixUse } from "../../ports/prefix-memory.ts";
import type { OrderedUpstream } from "../route/order.ts";
import { type Fingerprints, Hash, mixed } from "./fingerprints.ts";

/** The facts about a vendor's prompt cache. */
export interface PromptCacheFacts {
  /** The time for which the vendor keeps a prefix after each use, in milliseconds. A caller's mark may name a longer one. Default: 5 minutes. */
  readonly lifetimeMs: number;
  /** The shortest prefix that the vendor caches, in tokens. Default: 1,024. */
  readonly minTokens: number;
}

/** Returns the cost of a usage at an upstream. */
export type CostOf = (usage: Usage, model: string, kind: ModelKind, upstream?: UpstreamModel) => number;

/** Upstreams whose costs differ by at most this share of a call without a cache count as equal. */
const TOLERANCE = 0.03;
/** The most further calls of a conversation whose costs count. */
const MAX_FURTHER_CALLS = 20;
/** The first guess of the share of calls that begin a conversation. */
const NEW_SHARE = 0.1;
/** The first guess of the chance that another process has used a conversation at its home. */
const ASSUMED = 0.6;
/** The first guess of the share of the prefix that a further call reads from the cache. */
const LATER = 0.9;
/** The first guess of the tokens of a character, and of the tokens of an answer. */
const [TOKENS_PER_CHAR, OUTPUT_TOKENS] = [0.25, 500];

/** The price of a call where the host gives none: reading costs a tenth of the input, and writing a quarter more. */
const usualPrice: CostOf = ({ inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }) =>
  inputTokens - 0.9 * cacheReadTokens + 0.25 * cacheWriteTokens + 5 * outputTokens;

/** The facts about one upstream, and what its answers have shown. */
export class LearnedUpstream {
  readonly facts: PromptCacheFacts;
  /** A hash of the name, for the choice between equal upstreams. */
  readonly seed: number;
  /** The chances for requests without marks of the caller, and with marks. */
  readonly chances: readonly [CacheChances, CacheChances] = [new CacheChances(), new CacheChances()];
  /** The share of the input beyond the cached prefix that is written to the cache, without marks and with marks. */
  readonly writes: readonly [Mean, Mean] = [new Mean(), new Mean()];
  /** The chance that a conversation which this process does not know is cached here, where its fingerprint leads to this upstream. */
  readonly assumed: Chance = new Chance(ASSUMED);
  /** The share of the known prefix that calls of running conversations read from the cache. The age of the prefix does not count. */
  readonly later: Chance = new Chance(LATER);
  readonly #waitMs: Mean = new Mean();
  #waitedAt = 0;
  /** True once an answer had tokens from a cache: then an answer that tells no such tokens had none. */
  hasRead = false;

  constructor(name: string, facts: PromptCacheFacts) {
    const hash = new Hash();
    hash.text(name);
    this.seed = mixed(hash.id);
    this.facts = facts;
  }

  /** Counts the time until the first event of an answer. */
  waited(ms: number, now: number): void {
    this.#waitMs.add(ms);
    this.#waitedAt = now;
  }

  /** The time until the first event, as the latest answers have shown it. */
  get lastWaitMs(): number | undefined {
    return this.#waitMs.value;
  }

  /** Returns the expected time until the first event. It falls to `usualMs` while nothing new is known, so that a slow upstream is tried again. */
  waitMs(usualMs: number, now: number): number {
    return usualMs + ((this.#waitMs.value ?? usualMs) - usualMs) * decay(now - this.#waitedAt);
  }
}

/** A prefix that an upstream has probably cached. */
interface CachedPrefix {
  /** Its share of the input, from 0 to 1. */
  readonly share: number;
  /** Its age in lifetimes. */
  readonly age: number;
}

/** The cached prefix and the cost of a call at one upstream. */
export interface Forecast<Upstream> {
  readonly upstream: Upstream;
  readonly learned: LearnedUpstream;
  /** The longest prefix that the upstream has probably cached, as a share of the input, and its chance. */
  readonly prefix: { readonly share: number; readonly chance: Chance } | undefined;
  /** The last group is asked last: 0 for upstreams that may be asked now, 1 for those that rest, 2 for those of weight 0. */
  readonly group: number;
  readonly cost: number;
  /** The cost if nothing is cached. */
  readonly uncached: number;
  /** The upstream with the highest draw goes first among equals. */
  readonly draw: number;
}

/** The counts of an answer's input, as far as its upstream tells them. */
export type InputCounts = Pick<Usage, "inputTokens"> & Partial<Pick<Usage, "cacheReadTokens" | "cacheWriteTokens">>;

/** The facts that a route has learned, and the forecasts from them. */
export class Forecaster {
  readonly #costOf: CostOf;
  readonly #secondWorth: number;
  readonly #learned: ReadonlyMap<string, LearnedUpstream>;
  readonly #tokensPerChar = new Mean();
  readonly #outputTokens = new Mean();
  /** The share of calls that begin a conversation. */
  readonly #newShare = new Chance(NEW_SHARE);
  /** The growth of a conversation from call to call, in tokens. */
  readonly #growth = new Mean();
  /** The share of foreign conversations among those that this process sees for the first time. */
  readonly #foreignShare = new Chance(0);

  constructor(learned: ReadonlyMap<string, LearnedUpstream>, secondWorth: number, costOf: CostOf = usualPrice) {
    this.#learned = learned;
    this.#secondWorth = secondWorth;
    this.#costOf = costOf;
  }

  /**
   * Returns the forecast of each upstream, in the order in which the call asks them.
   *
   * @param known The uses of each prefix of the request.
   */
  forecasts<Upstream extends OrderedUpstream>(
    model: string,
    prints: Fingerprints,
    known: readonly (readonly PrefixUse[])[],
    upstreams: readonly Upstream[],
    now: number,
  ): readonly Forecast<Upstream>[] {
    const inputTokens = Math.max(1, Math.round(prints.chars * (this.#tokensPerChar.value ?? TOKENS_PER_CHAR)));
    const outputTokens = Math.round(this.#outputTokens.value ?? OUTPUT_TOKENS);
    const draws = upstreams.map(({ name, weight }) => drawOf(prints.conversation, this.#of(name).seed, weight));
    const home = draws.indexOf(Math.max(...draws));
    const isNew = prints.answers === 0;
    const knownShare = prints.prefixes.findLast(({ isTurn }, at) => isTurn && (known[at]?.length ?? 0) > 0)?.share;
    const isForeign = !isNew && knownShare === undefined;
    if (!isNew && knownShare !== undefined) this.#growth.add(inputTokens * (1 - knownShare));
    this.#newShare.add(Number(isNew), now);
    if (isNew || isForeign) this.#foreignShare.add(Number(isForeign), now);
    const further = Math.min(MAX_FURTHER_CALLS, 1 / this.#newShare.at(now) - 1);
    const foreign = this.#foreignShare.at(now);
    const visits = Math.min(1, foreign / (1 - foreign));
    const growth = this.#growth.value ?? 0;
    const laterTokens = Math.round(inputTokens + growth * (further / 2));
    const laterShare = Math.max(0, 1 - growth / laterTokens);
    const facts = {
      model,
      prints,
      known,
      inputTokens,
      laterTokens,
      laterShare,
      outputTokens,
      further,
      visits,
      isForeign,
      now,
    };
    const drafts = upstreams.map((upstream, at) => this.#forecast(upstream, facts, draws[at] ?? 0, at === home));
    const uncached = Math.min(...drafts.map((draft) => draft.uncached));
    const unit = Number.isFinite(uncached) ? uncached : 0;
    const waits = drafts.flatMap(({ learned }) => learned.lastWaitMs ?? []);
    const usualMs = waits.length === 0 ? 0 : Math.min(...waits);
    const forecasts = drafts.map((draft): Forecast<Upstream> => {
      const seconds = draft.learned.waitMs(usualMs, now) / 1_000;
      return { ...draft, cost: draft.cost + this.#secondWorth * seconds * unit };
    });
    const lowest = Math.min(...forecasts.map(({ cost, group }) => (group === 0 ? cost : Number.POSITIVE_INFINITY)));
    const isCheap = ({ cost }: Forecast<Upstream>): boolean => cost <= lowest + TOLERANCE * unit;
    return forecasts.toSorted((one, other) => {
      if (one.group !== other.group) return one.group - other.group;
      const areEqual = one.cost === other.cost || (isCheap(one) && isCheap(other));
      return areEqual ? other.draw - one.draw : one.cost - other.cost;
    });
  }

  #forecast<Upstream extends OrderedUpstream>(
    upstream: Upstream,
    facts: CallFacts,
    draw: number,
    isHome: boolean,
  ): Forecast<Upstream> {
    const { model, prints, known, inputTokens, outputTokens, now } = facts;
    const { laterTokens, laterShare, further, visits, isForeign } = facts;
    const learned = this.#of(upstream.name);
    const marks = marksOf(prints);
    const chanceOf = (age: number): Chance => learned.chances[marks].of(age);
    const cached = cachedPrefixes(upstream.name, prints, known).filter(
      ({ share }) => share * inputTokens >= learned.facts.minTokens,
    );
    const [longest] = cached;
    const ttl = prints.prefixes.findLast((prefix) => prefix.ttl !== undefined)?.ttl;
    const costOf = (share: number, tokens = inputTokens): number => {
      const cacheReadTokens = Math.round(tokens * share);
      const cacheWriteTokens = Math.round((tokens - cacheReadTokens) * (learned.writes[marks].value ?? marks));
      const cacheWritesByTtl = ttl === undefined ? {} : { [ttl]: cacheWriteTokens };
      const usage = {
        ...NO_USAGE,
        inputTokens: tokens,
        outputTokens,
        cacheReadTokens,
        cacheWriteTokens,
        cacheWritesByTtl,
      };
      return this.#safeCost(usage, model, { name: upstream.name, model: upstream.model ?? model });
    };
    let share = 0;
    let chance = 0;
    // A longer prefix has the shorter ones in it.
    for (const [at, prefix] of cached.entries()) {
      chance = Math.max(chance, chanceOf(prefix.age).at(now));
      share += chance * (prefix.share - (cached[at + 1]?.share ?? 0));
    }
    const isAssumed = isHome && isForeign;
    if (isAssumed) share = Math.max(share, learned.assumed.at(now));
    const uncached = costOf(0);
    return {
      upstream,
      learned,
      prefix: isAssumed
        ? { share: 1, chance: learned.assumed }
        : longest && { share: longest.share, chance: chanceOf(longest.age) },
      group: upstream.weight === 0 ? 2 : Number(upstream.breaker.waitMs > 0),
      // A process that does not know the conversation sends it home, where all of it is written to the cache again.
      cost:
        costOf(share) +
        further * costOf(learned.later.at(now) * laterShare, laterTokens) +
        (isHome ? 0 : visits * (uncached - costOf(1)) || 0),
      uncached,
      draw,
    };
  }

  /** Compares the counts of an answer's input with the forecast. */
  learn(counts: InputCounts, prints: Fingerprints, { learned, prefix }: Forecast<unknown>, now: number): void {
    const { inputTokens, cacheReadTokens, cacheWriteTokens } = counts;
    if (inputTokens === 0) return;
    if (prints.chars > 0) this.#tokensPerChar.add(inputTokens / prints.chars);
    if ((cacheReadTokens ?? 0) > 0) learned.hasRead = true;
    const uncached = inputTokens - (cacheReadTokens ?? 0);
    if (cacheWriteTokens !== undefined && uncached > 0)
      learned.writes[marksOf(prints)].add(shareOf(cacheWriteTokens, uncached));
    // An upstream that never tells cached tokens may cache all the same.
    if (!prefix || (cacheReadTokens === undefined && !learned.hasRead)) return;
    const hit = shareOf(cacheReadTokens ?? 0, inputTokens * prefix.share);
    prefix.chance.add(hit, now);
    if (prints.answers > 0) learned.later.add(hit, now);
  }

  learnOutput(outputTokens: number): void {
    this.#outputTokens.add(outputTokens);
  }

  #of(name: string): LearnedUpstream {
    const learned = this.#learned.get(name);
    if (!learned) throw new RangeError(`There is no upstream ${name}.`);
    return learned;
  }

  /** Returns infinity when the host's function throws or returns no number: the gateway would refuse the call at this upstream. */
  #safeCost(usage: Usage, model: string, upstream: UpstreamModel): number {
    try {
      const cost: unknown = this.#costOf(usage, model, INPUT_COUNT.kind, upstream);
      abandon(cost);
      return typeof cost === "number" && cost >= 0 ? cost : Number.POSITIVE_INFINITY;
    } catch {
      return Number.POSITIVE_INFINITY;
    }
  }
}

/** The facts about a call that are the same for all upstreams. */
interface CallFacts {
  readonly model: string;
  readonly prints: Fingerprints;
  readonly known: readonly (readonly PrefixUse[])[];
  readonly inputTokens: number;
  /** The mean input of the further calls. */
  readonly laterTokens: number;
  /** The share of this input that the calls before have sent. */
  readonly laterShare: number;
  readonly outputTokens: number;
  readonly further: number;
  /** The expected number of further calls, at most 1, that reach a process which does not know the conversation. */
  readonly visits: number;
  /** True for a conversation that has begun, but of whose turns this process knows nothing: another process may have sent them. */
  readonly isForeign: boolean;
  readonly now: number;
}

/** Returns a part of a whole, from 0 to 1. */
const shareOf = (part: number, whole: number): number => Math.min(1, Math.max(0, part / whole));

const marksOf = ({ isMarked }: Fingerprints): 0 | 1 => (isMarked ? 1 : 0);

/** Returns the prefixes that an upstream has used, the longest first. */
function cachedPrefixes(
  upstream: string,
  { prefixes }: Fingerprints,
  known: readonly (readonly PrefixUse[])[],
): CachedPrefix[] {
  const cached: CachedPrefix[] = [];
  for (const [at, { share }] of prefixes.entries()) {
    const use = known[at]?.find((one) => one.upstream === upstream);
    if (use) cached.unshift({ share, age: use.ageMs / use.lifetimeMs });
  }
  return cached;
}

/**
 * Returns the draw of an upstream for a conversation: by weighted rendezvous hashing, an upstream that is added or removed moves only its own
 * share of the conversations.
 */
function drawOf(conversation: number, seed: number, weight: number): number {
  const low = mixed((conversation | 0) ^ seed);
  const high = mixed(Math.floor(conversation / 2 ** 32) ^ low);
  const point = ((high >>> 0) + 0.5) / 2 ** 32;
  // The least weight keeps those of weight 0 behind all others.
  return Math.max(1e-9, weight) / -Math.log(point);
}

/** The time after which half of what was learned is forgotten, in milliseconds. */
const HALF_LIFE_MS = 1_800_000;
/** The number of observations that the first guess counts for. */
const GUESS_WEIGHT = 4;

/** Returns the weight of something learned so long ago, from 1 to 0. */
const decay = (ms: number): number => 2 ** (-Math.max(0, ms) / HALF_LIFE_MS);

/** The chance of something that has been seen to come true in a share of cases. Old cases count less. */
class Chance {
  readonly #guess: number;
  #true = 0;
  #all = 0;
  #at = 0;

  /** @param guess The chance before anything is known. */
  constructor(guess: number) {
    this.#guess = guess;
  }

  at(now: number): number {
    const factor = decay(now - this.#at);
    return (this.#true * factor + this.#guess * GUESS_WEIGHT) / (this.#all * factor + GUESS_WEIGHT);
  }

  /** @param share How far it came true, from 0 to 1. */
  add(share: number, now: number): void {
    const factor = decay(now - this.#at);
    this.#true = this.#true * factor + share;
    this.#all = this.#all * factor + 1;
    this.#at = now;
  }
}

/** The weight of the newest observation in a mean. */
const NEWEST = 0.1;

/** A mean that forgets: undefined until the first observation. */
class Mean {
  value: number | undefined = undefined;

  add(observed: number): void {
    this.value = this.value === undefined ? observed : this.value + NEWEST * (observed - this.value);
  }
}

/** Upper ends of the ages of a prefix, in lifetimes. Each has a chance of its own, so that the real lifetimes of vendors are learned. */
const AGES = [0.2, 0.5, 1, 2, 4, Number.POSITIVE_INFINITY];
/** The first guess of the chance within a lifetime, and after it. */
const [WITHIN, AFTER] = [0.9, 0.1];

/** The chances that an upstream still has a prefix, by the age of the prefix. */
class CacheChances {
  readonly #byAge = AGES.map((age) => new Chance(age <= 1 ? WITHIN : AFTER));

  /** @param lifetimes The age of the prefix, in lifetimes. */
  of(lifetimes: number): Chance {
    const chance = this.#byAge[AGES.findIndex((end) => lifetimes <= end)];
    if (!chance) throw new RangeError(`${lifetimes} is no age`);
    return chance;
  }
}

/** Keeps the turns of a conversation with the upstream that has cached its beginning: orders upstreams by the expected cost of a call. */

import type { ChatRequest } from "../../model/chat-request.ts";
import type { Usage } from "../../model/usage.ts";
import {
  abandon,
  AMOUNT,
  assertOptions,
  fieldsOf,
  FROM_ZERO,
  mapOf,
  overridden,
  portOf,
  type Shapes,
  unknownName,
} from "../../options.ts";
import { Breaker, DEFAULT_BREAKER } from "../../ports/circuit-breaker.ts";
import { type Clock, EventLoopYielder, LATE, within } from "../../ports/clock.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { type NotedPrefix, type PrefixMemory, type PrefixUse, RETAINED_LIFETIMES } from "../../ports/prefix-memory.ts";
import type { Affinity, CallOrder, OrderedUpstream, UpstreamOrder } from "../route/order.ts";
import { type Fingerprints, fingerprintsOf } from "./fingerprints.ts";
import {
  type CostOf,
  type Forecast,
  Forecaster,
  type InputCounts,
  LearnedUpstream,
  type PromptCacheFacts,
} from "./forecast.ts";

/** Options of `promptCache`. */
export interface PromptCacheOptions extends Partial<PromptCacheFacts> {
  /**
   * Returns the cost of a usage at an upstream, in any unit: the `price` of a `priceTable`. The costs of the upstreams of one call are
   * compared. Default: all upstreams cost the same, and input that is read from a cache costs a tenth.
   */
  readonly price?: CostOf;
  /** Facts that differ for some upstreams, by their names in the route. */
  readonly upstreams?: Readonly<Record<string, Partial<PromptCacheFacts>>>;
  /**
   * Returns whose calls share their prefixes, such as a team whose members use the same prompts. A caller can tell by the time of an answer
   * whether his tenant has used a prefix before. Default: the id of the API key. A result that is no text counts as the default.
   */
  readonly tenantOf?: (call: CallContext) => string;
  /**
   * The worth of a second until the first event, as a share of the call's cost without a cache, from 0. Default: 0.02, so that an upstream
   * that answers a second earlier may cost 2 % more.
   */
  readonly secondWorth?: number;
  /** Remembers which upstreams have used which prefixes, for several processes. Default: a memory in this process. */
  readonly memory?: PrefixMemory;
  /** The longest wait for `memory`, in milliseconds. After it, the call is ordered without the memory. Default: 50. */
  readonly memoryTimeoutMs?: number;
  /** The most prefixes in the memory of this process; a call adds two to seven. Default: 100,000, which take about 20 MB. */
  readonly maxPrefixes?: number;
}

/** The default facts about a vendor's prompt cache. */
export const DEFAULT_PROMPT_CACHE: PromptCacheFacts = { lifetimeMs: 300_000, minTokens: 1_024 };

const FACT_RULES = { minTokens: FROM_ZERO } as const;
const FACT_SHAPES: Shapes<Partial<PromptCacheFacts>> = { lifetimeMs: "timerMs?", minTokens: "fromZero?" };
const SHAPES: Shapes<PromptCacheOptions> = {
  ...FACT_SHAPES,
  price: "function?",
  upstreams: { optional: mapOf(fieldsOf<Partial<PromptCacheFacts>>(FACT_SHAPES)) },
  tenantOf: "function?",
  secondWorth: { optional: AMOUNT },
  memory: { optional: portOf(["find", "note"], "a PrefixMemory") },
  memoryTimeoutMs: "timerMs?",
  maxPrefixes: "positive?",
};

/**
 * Keeps the turns of a conversation with the upstream that has probably cached its beginning: `affinity: promptCache()` of a route. Each call
 * goes to the upstream with the lowest expected cost. The expectation has the prices, the upstream's chance of still having the prefix, as
 * the cache counts of earlier answers show it, the time until its first event, and its circuit breaker. Where upstreams cost about the same,
 * the conversation's fingerprint and the weights choose one of them, equally in every process.
 *
 * @throws TypeError or RangeError for a wrong option. `route` throws for a name in `upstreams` that the route does not have.
 * @example
 * route({ routes: { "claude-*": { upstreams: [here, there], affinity: promptCache({ price: prices.price }) } } });
 */
export function promptCache(options: PromptCacheOptions = {}): Affinity {
  assertOptions<PromptCacheOptions>("promptCache", options, SHAPES);
  return { orderOf: (upstreams, clock, otherwise) => new PromptCacheOrder(options, upstreams, clock, otherwise) };
}

class PromptCacheOrder implements UpstreamOrder {
  readonly #options: PromptCacheOptions;
  readonly #clock: Clock;
  readonly #otherwise: UpstreamOrder;
  readonly #memory: PrefixMemory;
  readonly #breaker: Breaker;
  readonly #forecaster: Forecaster;

  constructor(options: PromptCacheOptions, names: readonly string[], clock: Clock, otherwise: UpstreamOrder) {
    const { lifetimeMs, minTokens } = { ...DEFAULT_PROMPT_CACHE, ...options };
    const { upstreams = {}, maxPrefixes = 100_000, secondWorth = 0.02, price } = options;
    for (const name of Object.keys(upstreams))
      if (!names.includes(name)) throw new TypeError(`promptCache: upstreams.${unknownName(name, names)}.`);
    const facts = overridden("promptCache", DEFAULT_PROMPT_CACHE, { lifetimeMs, minTokens }, FACT_RULES);
    const learned = new Map(
      names.map((name) => [name, new LearnedUpstream(name, overridden(name, facts, upstreams[name], FACT_RULES))]),
    );
    this.#forecaster = new Forecaster(learned, secondWorth, price);
    this.#options = options;
    this.#clock = clock;
    this.#otherwise = otherwise;
    this.#memory = options.memory ?? new LocalPrefixes(maxPrefixes, clock);
    this.#breaker = new Breaker(DEFAULT_BREAKER, clock);
  }

  order<Upstream extends OrderedUpstream>(
    call: CallContext,
    request: { readonly model: string },
    upstreams: readonly Upstream[],
  ): CallOrder<Upstream> | Promise<CallOrder<Upstream>> {
    if (!isChat(request)) return this.#otherwise.order(call, request, upstreams);
    return this.#ordered(call, request, upstreams);
  }

  async #ordered<Upstream extends OrderedUpstream>(
    call: CallContext,
    request: ChatRequest,
    upstreams: readonly Upstream[],
  ): Promise<CallOrder<Upstream>> {
    const tenant = this.#tenantOf(call);
    const prints = await fingerprintsOf(tenant, request, new EventLoopYielder({ signal: call.signal }));
    const known = await this.#known(tenant, prints);
    const forecasts = this.#forecaster.forecasts(request.model, prints, known, upstreams, this.#clock.now());
    return {
      upstreams: forecasts.map(({ upstream }) => upstream),
      began: (upstream, waitedMs) => {
        const forecast = forecasts.find((one) => one.upstream === upstream);
        if (!forecast) return () => {};
        forecast.learned.waited(waitedMs, this.#clock.now());
        this.#note(tenant, prints, forecast);
        return readerOf(
          (counts) => this.#forecaster.learn(counts, prints, forecast, this.#clock.now()),
          (tokens) => this.#forecaster.learnOutput(tokens),
        );
      },
    };
  }

  #tenantOf(call: CallContext): string {
    const { id } = call.key;
    try {
      const tenant: unknown = this.#options.tenantOf?.(call) ?? id;
      abandon(tenant);
      return typeof tenant === "string" ? tenant : id;
    } catch {
      return id;
    }
  }

  /** Returns the known uses of each prefix. Returns nothing when the memory fails or is slow. */
  async #known(tenant: string, { prefixes }: Fingerprints): Promise<readonly (readonly PrefixUse[])[]> {
    const breaker = this.#breaker;
    if (breaker.waitMs > 0) return [];
    breaker.enter();
    try {
      const { memoryTimeoutMs = 50 } = this.#options;
      const finding = this.#memory.find(
        tenant,
        prefixes.map(({ id }) => id),
      );
      const known = "then" in finding ? await within(finding, memoryTimeoutMs, this.#clock) : finding;
      if (known === LATE || !Array.isArray(known)) throw new TypeError("The memory has not answered.");
      breaker.succeed();
      return known.map((uses: unknown) => (Array.isArray(uses) ? uses.filter(isUse) : []));
    } catch {
      breaker.fail();
      return [];
    }
  }

  #note(tenant: string, { prefixes }: Fingerprints, { upstream, learned }: Forecast<OrderedUpstream>): void {
    if (this.#breaker.waitMs > 0) return;
    const { lifetimeMs } = learned.facts;
    const noted = prefixes.filter(({ isNoted }) => isNoted);
    try {
      const noting = this.#memory.note(
        tenant,
        upstream.name,
        noted.map(({ id, ttl }) => ({ id, lifetimeMs: Math.max(lifetimeMs, lifetimeOf(ttl)) })),
      );
      // Do not wait: the answer goes on without the memory.
      if (noting) noting.then(undefined, () => this.#breaker.fail());
    } catch {
      this.#breaker.fail();
    }
  }
}

const isChat = (request: object): request is ChatRequest => "messages" in request && Array.isArray(request.messages);

const isUse = (use: unknown): use is PrefixUse => {
  const { upstream, ageMs, lifetimeMs } = Object(use) as Partial<Record<keyof PrefixUse, unknown>>;
  return typeof upstream === "string" && isTime(ageMs) && isTime(lifetimeMs) && lifetimeMs > 0;
};

const isTime = (ms: unknown): ms is number => Number.isFinite(ms) && Number(ms) >= 0;

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000 };

/** Returns the lifetime that a caller's mark names, such as `1h`, in milliseconds; 0 for none. At most a day. */
function lifetimeOf(ttl = ""): number {
  const [, count, unit = ""] = /^(\d{1,5})([smh])$/.exec(ttl) ?? [];
  return Math.min(86_400_000, Number(count ?? 0) * (UNIT_MS[unit] ?? 0));
}

/**
 * Returns a function that reads the events of one answer.
 *
 * @param onInput Gets the counts of the input once.
 * @param onOutput Gets the count of the output once, when the answer has ended.
 */
function readerOf(
  onInput: (counts: InputCounts) => void,
  onOutput: (tokens: number) => void,
): (event: unknown) => void {
  let counts: Partial<Usage> = {};
  let [hasInput, hasOutput, hasEnded] = [false, false, false];
  const read = (event: unknown): void => {
    if (typeof event !== "object" || event === null || !("type" in event)) return;
    if (event.type === "native" && "events" in event && Array.isArray(event.events)) {
      for (const inner of event.events as readonly unknown[]) read(inner);
      return;
    }
    if (event.type !== "start" && event.type !== "usage" && event.type !== "finish") return;
    if (event.type === "finish") hasEnded = true;
    if ("usage" in event) counts = { ...counts, ...(event.usage as Partial<Usage>) };
    const { inputTokens, outputTokens, cacheReadTokens } = counts;
    // Wait for the cached tokens or the end: an upstream may omit the count if there are none.
    if (!hasInput && isCount(inputTokens) && (hasEnded || isCount(cacheReadTokens))) {
      hasInput = true;
      onInput({ ...counts, inputTokens });
    }
    if (hasEnded && !hasOutput && isCount(outputTokens)) {
      hasOutput = true;
      onOutput(outputTokens);
    }
  };
  return read;
}

const isCount = (count: unknown): count is number => Number.isSafeInteger(count) && Number(count) >= 0;

interface Use {
  readonly upstream: string;
  readonly usedAt: number;
  readonly lifetimeMs: number;
}

/** The uses of each prefix of a tenant. The least recently used prefix is first. */
type Prefixes = Map<number, readonly Use[]>;

/** The time between two searches for old prefixes, in milliseconds. */
const SWEEP_MS = 60_000;

/** A memory of prefixes in this process. */
export class LocalPrefixes implements PrefixMemory {
  readonly #maxPrefixes: number;
  readonly #clock: Pick<Clock, "now">;
  readonly #byTenant = new Map<string, Prefixes>();
  #size = 0;
  #sweepAt = 0;

  constructor(maxPrefixes: number, clock: Pick<Clock, "now">) {
    this.#maxPrefixes = maxPrefixes;
    this.#clock = clock;
  }

  get size(): number {
    return this.#size;
  }

  find(tenant: string, ids: readonly number[]): readonly (readonly PrefixUse[])[] {
    const known = this.#byTenant.get(tenant);
    const now = this.#clock.now();
    return ids.map((id) => {
      const uses = known?.get(id)?.filter((use) => isKept(use, now)) ?? [];
      return uses.map(({ usedAt, ...use }) => ({ ...use, ageMs: Math.max(0, now - usedAt) }));
    });
  }

  note(tenant: string, upstream: string, prefixes: readonly NotedPrefix[]): void {
    const now = this.#clock.now();
    if (now >= this.#sweepAt || now < this.#sweepAt - SWEEP_MS) this.#sweep(now);
    let known = this.#byTenant.get(tenant);
    if (!known) this.#byTenant.set(tenant, (known = new Map()));
    for (const { id, lifetimeMs } of prefixes) {
      const others = known.get(id)?.filter((use) => use.upstream !== upstream && isKept(use, now)) ?? [];
      if (!known.delete(id)) this.#size++;
      known.set(id, [...others, { upstream, usedAt: now, lifetimeMs }]);
    }
    if (this.#size > this.#maxPrefixes) this.#makeRoom();
  }

  /** Halves the memory of each tenant that holds at least half of the mean: a tenant that holds little loses nothing to one that holds much. */
  #makeRoom(): void {
    const enough = this.#size / this.#byTenant.size / 2;
    for (const [tenant, known] of this.#byTenant) {
      if (known.size < enough) continue;
      const half = Math.floor(known.size / 2);
      for (const id of known.keys()) {
        if (known.size <= half) break;
        known.delete(id);
        this.#size--;
      }
      if (known.size === 0) this.#byTenant.delete(tenant);
    }
  }

  #sweep(now: number): void {
    this.#sweepAt = now + SWEEP_MS;
    for (const [tenant, known] of this.#byTenant) {
      for (const [id, uses] of known) {
        // Lifetimes differ, so an older prefix may stay behind a younger one. It goes when it is at the front.
        if (uses.some((use) => isKept(use, now))) break;
        known.delete(id);
        this.#size--;
      }
      if (known.size === 0) this.#byTenant.delete(tenant);
    }
  }
}

const isKept = ({ usedAt, lifetimeMs }: Use, now: number): boolean => now - usedAt < RETAINED_LIFETIMES * lifetimeMs;

/** Orders the upstreams of a route by their speed, their price, or the rate that they have left. */

import { GatewayError } from "../../errors.ts";
import { CHAT } from "../../model/chat-request.ts";
import { NO_USAGE, type Usage } from "../../model/usage.ts";
import { abandon, assertOptions, type Shapes } from "../../options.ts";
import type { ModelKind } from "../../ports/call-info.ts";
import type { Clock } from "../../ports/clock.ts";
import type { CallContext, UpstreamModel } from "../../ports/model-backend.ts";
import { isUpstreamFailure } from "../backend.ts";
import { type CallOrder, OrderByWeight, type OrderedUpstream, type UpstreamOrder } from "./order.ts";
import { charsIn, isContent, type RoutableRequest, usageIn } from "./reading.ts";
import { RemainingRate } from "./remaining.ts";
import type { RoutedBackend, RoutedCall } from "./upstream.ts";

/** The options of `balance`. */
export interface BalanceOptions {
  /**
   * - `latency`: the time to the first content of an answer.
   * - `throughput`: the output tokens a second.
   * - `price`: the price of a call. Needs `price`.
   * - `remaining`: the part of its rate limits that an upstream has left, as the headers of its answers tell it.
   */
  readonly by: "latency" | "throughput" | "price" | "remaining";
  /** The price of a call, such as `price` of a `priceTable`. Only for `by: "price"`. */
  readonly price?: (usage: Usage, model: string, kind: ModelKind, upstream?: UpstreamModel) => number;
  /** The input tokens of the call whose price is compared. Default: 3,000. Only for `by: "price"`. */
  readonly inputTokens?: number;
  /** The output tokens of that call. Default: 500. */
  readonly outputTokens?: number;
  /** The time after which a measurement counts half, in milliseconds. Default: 30 seconds. Only for `latency` and `throughput`. */
  readonly halfLifeMs?: number;
}

/** The choice among the upstreams of a route. Made by `balance`. */
export interface Balance {
  /** Called once for each route that has it. */
  open(clock: Clock, random: () => number): BalancedOrder;
}

const SHARED_SHAPES: Shapes<BalanceOptions> = {
  by: ["latency", "throughput", "price", "remaining"],
  price: "function?",
  inputTokens: "fromZero?",
  outputTokens: "fromZero?",
  halfLifeMs: "timerMs?",
};

/**
 * Chooses among the upstreams of a route. By `latency`, `throughput` and `remaining`, two upstreams are drawn by weight, and the better one
 * gets the call: this keeps most calls away from slow upstreams, and never sends all of them to one. By `price`, the cheapest upstream gets
 * the call. An upstream of weight 0, one that rests, and one with nothing left of a rate limit are asked only after the others. The choice
 * is made in one process, from what the route has seen there. Throws a TypeError or a RangeError for wrong options.
 *
 * @example
 * route({ routes: { fast: { upstreams: [here, there], balance: balance({ by: "latency" }) } } });
 */
export function balance(options: BalanceOptions): Balance {
  assertOptions<BalanceOptions>("balance", options, SHARED_SHAPES);
  const { by, price, inputTokens, outputTokens, halfLifeMs } = options;
  if ((by === "price") !== (price !== undefined))
    throw new TypeError('balance: price belongs to by: "price", such as the price of a priceTable.');
  if ((inputTokens ?? outputTokens) !== undefined && by !== "price")
    throw new TypeError('balance: inputTokens and outputTokens belong to by: "price".');
  if (halfLifeMs !== undefined && by !== "latency" && by !== "throughput")
    throw new TypeError("balance: halfLifeMs belongs to latency and throughput.");
  return { open: (clock, random) => new BalancedOrder(options, clock, random) };
}

/** The cost of an upstream: the lower, the better. */
type CostOf = (upstream: OrderedUpstream) => number;

export class BalancedOrder implements UpstreamOrder {
  readonly #options: BalanceOptions;
  readonly #clock: Clock;
  readonly #byWeight: OrderByWeight;
  /** The speed of each upstream, for streams and for complete answers: these have their first content when all is written. */
  readonly #speeds = { stream: new Map<string, Speed>(), whole: new Map<string, Speed>() };
  readonly #rates = new Map<string, RemainingRate>();

  constructor(options: BalanceOptions, clock: Clock, random: () => number) {
    this.#options = options;
    this.#clock = clock;
    this.#byWeight = new OrderByWeight(random);
  }

  order<Upstream extends OrderedUpstream>(
    call: CallContext,
    request: RoutableRequest,
    upstreams: readonly Upstream[],
  ): CallOrder<Upstream> {
    const drawn = this.#byWeight.order(call, request, upstreams).upstreams;
    const costOf = this.#costs(request, drawn);
    const now = this.#clock.now();
    const groups: [usual: Upstream[], resting: Upstream[], last: Upstream[]] = [[], [], []];
    for (const upstream of drawn) {
      const isResting = upstream.breaker.waitMs > 0 || this.#rates.get(upstream.name)?.left(now) === 0;
      groups[upstream.weight === 0 ? 2 : isResting ? 1 : 0].push(upstream);
    }
    const sorted = this.#options.by === "price" ? cheapest : betterOfTwo;
    return { upstreams: groups.flatMap((group) => sorted(group, costOf)) };
  }

  #costs(request: RoutableRequest, upstreams: readonly OrderedUpstream[]): CostOf {
    const { by } = this.#options;
    const now = this.#clock.now();
    if (by === "price") return (upstream) => this.#priceOf(upstream, request.model);
    if (by === "remaining") return ({ name }) => 1 - (this.#rates.get(name)?.left(now) ?? 1);
    const speeds = this.#speedsFor(request);
    const known = upstreams.flatMap(({ name }) => speeds.get(name)?.mean(now) ?? []);
    const best = known.length > 0 ? Math.min(...known) : 1;
    return ({ name }) => speeds.get(name)?.expected(best, now) ?? OPTIMISM * best;
  }

  #priceOf({ name, model: own }: OrderedUpstream, model: string): number {
    const { price, inputTokens = 3_000, outputTokens = 500 } = this.#options;
    try {
      const cost = price?.({ ...NO_USAGE, inputTokens, outputTokens }, model, CHAT, { name, model: own ?? model });
      abandon(cost);
      // An upstream without a price comes last. The call is refused when it is asked.
      return typeof cost === "number" && cost >= 0 ? cost : Infinity;
    } catch {
      return Infinity;
    }
  }

  #speedsFor({ stream = false }: RoutableRequest): Map<string, Speed> {
    return stream ? this.#speeds.stream : this.#speeds.whole;
  }

  /** Returns the events that `ask` returns, and learns from them. */
  watched<Event>(
    { name }: RoutedBackend,
    request: RoutableRequest,
    routed: RoutedCall,
    ask: () => AsyncIterable<Event> | undefined,
  ): AsyncIterable<Event> | undefined {
    const rate = this.#rates.get(name) ?? new RemainingRate();
    this.#rates.set(name, rate);
    routed.onHead = (header) => rate.read(header, this.#clock.now());
    const events = ask();
    const { by, halfLifeMs = HALF_LIFE_MS } = this.#options;
    if (!events || (by !== "latency" && by !== "throughput")) return events;
    const speeds = this.#speedsFor(request);
    const speed = speeds.get(name) ?? new Speed(halfLifeMs);
    speeds.set(name, speed);
    return measured(events, by, request.stream ?? false, speed, this.#clock, routed.signal);
  }
}

/** Sorts by cost. Upstreams of one cost keep their order. */
const cheapest = <Upstream extends OrderedUpstream>(drawn: readonly Upstream[], costOf: CostOf): readonly Upstream[] =>
  drawn
    .map((upstream) => ({ upstream, cost: costOf(upstream) }))
    .toSorted(({ cost: one }, { cost: other }) => (one === other ? 0 : one - other))
    .map(({ upstream }) => upstream);

/** Takes the better one of the first two, then the better one of the other and the next, and so on. */
function betterOfTwo<Upstream extends OrderedUpstream>(
  drawn: readonly Upstream[],
  costOf: CostOf,
): readonly Upstream[] {
  const [first, ...others] = drawn;
  if (!first) return drawn;
  const order: Upstream[] = [];
  let held = { upstream: first, cost: costOf(first) };
  for (const upstream of others) {
    const other = { upstream, cost: costOf(upstream) };
    const isBetter = other.cost < held.cost;
    order.push((isBetter ? other : held).upstream);
    if (!isBetter) held = other;
  }
  return [...order, held.upstream];
}

const HALF_LIFE_MS = 30_000;

/** The expected cost of an upstream without measurements, as a part of the best cost. Below 1, so that the upstream is tried. */
const OPTIMISM = 0.9;

/** The number of measurements, as they count now, that makes a mean half certain. */
const HALF_CERTAIN = 0.1;

/** A mean of measurements that count half after each half-life. */
class Speed {
  /** The attempts that wait for content, or for the end of an answer. */
  waiting = 0;
  readonly #halfLifeMs: number;
  #sum = 0;
  #count = 0;
  #at = 0;

  constructor(halfLifeMs: number) {
    this.#halfLifeMs = halfLifeMs;
  }

  add(cost: number, now: number): void {
    const decay = this.#decay(now);
    this.#sum = this.#sum * decay + cost;
    this.#count = this.#count * decay + 1;
    this.#at = now;
  }

  /** Returns the mean; undefined without measurements that still count. */
  mean(now: number): number | undefined {
    return this.#count * this.#decay(now) > HALF_CERTAIN ? this.#sum / this.#count : undefined;
  }

  /** Returns the cost of one more attempt. A mean that gets old gives way to optimism, so that the upstream is tried again. */
  expected(best: number, now: number): number {
    const count = this.#count * this.#decay(now);
    const certainty = count / (count + HALF_CERTAIN);
    const mean = this.#count > 0 ? this.#sum / this.#count : 0;
    return (certainty * mean + (1 - certainty) * OPTIMISM * best) * (1 + this.waiting);
  }

  /** A clock that was set back changes nothing. */
  #decay(now: number): number {
    return 0.5 ** (Math.max(0, now - this.#at) / this.#halfLifeMs);
  }
}

/** The measurements of a failed attempt: a time to the first content, and a time for each token, in milliseconds. */
const FAILED = { latency: 10_000, throughput: 1_000 } as const;

/** The fewest tokens of an answer whose speed is measured. */
const LEAST_TOKENS = 8;
/** The characters of a token, where the upstream does not count. */
const CHARS_A_TOKEN = 4;

/** Passes the events of an answer on, and measures them. Only the time in which the upstream is waited for counts. */
async function* measured<Event>(
  events: AsyncIterable<Event>,
  by: "latency" | "throughput",
  isStream: boolean,
  speed: Speed,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<Event> {
  let isWaiting = true;
  speed.waiting++;
  // A backend may ignore the signal, and never end.
  const leave = (): void => {
    if (isWaiting) speed.waiting--;
    isWaiting = false;
  };
  signal.addEventListener("abort", leave, { once: true });
  const source = events[Symbol.asyncIterator]();
  let [waitedMs, writtenMs, chars, tokens] = [0, 0, 0, 0];
  let hasContent = false;
  let isOver = false;
  const end = (): void => {
    const written = tokens || chars / CHARS_A_TOKEN;
    if (by === "throughput" && written >= LEAST_TOKENS)
      speed.add((isStream ? writtenMs : waitedMs + writtenMs) / written, clock.now());
  };
  try {
    for (;;) {
      const askedAt = clock.now();
      let step: IteratorResult<Event, unknown>;
      try {
        step = await source.next();
      } catch (error) {
        isOver = true;
        waitedMs += Math.max(0, clock.now() - askedAt);
        const isCut = signal.aborted || (error instanceof GatewayError && !isSlow(error));
        // A call that was cut has waited for at least this time.
        if (!isCut) speed.add(Math.max(FAILED[by], by === "latency" ? waitedMs : 0), clock.now());
        else if (by === "latency" && !hasContent && signal.aborted && waitedMs > (speed.mean(clock.now()) ?? 0))
          speed.add(waitedMs, clock.now());
        throw error;
      }
      const ms = Math.max(0, clock.now() - askedAt);
      if (hasContent) writtenMs += ms;
      else waitedMs += ms;
      if (step.done === true) {
        isOver = true;
        end();
        return;
      }
      if (!hasContent && isContent(step.value)) {
        hasContent = true;
        if (by === "latency") {
          speed.add(waitedMs, clock.now());
          leave();
        }
      }
      if (by === "throughput") {
        chars += charsIn(step.value);
        tokens = usageIn(step.value)?.outputTokens ?? tokens;
      }
      yield step.value;
    }
  } finally {
    leave();
    signal.removeEventListener("abort", leave);
    if (!isOver) {
      end();
      await source.return?.();
    }
  }
}

/** True for an error that makes an upstream a bad choice. Others are caused by the request. */
const isSlow = (error: GatewayError): boolean => isUpstreamFailure(error) || error.code === "rate_limited";

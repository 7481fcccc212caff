/** The table of a route: its options, and the upstreams of each model. */

import { backendError, GatewayError, toGatewayError } from "../../errors.ts";
import type { ChatEvent } from "../../model/chat-event.ts";
import { CHAT, type ChatRequest } from "../../model/chat-request.ts";
import { given, isJsonObject } from "../../model/json.ts";
import {
  assertOptions,
  CLOCK,
  givenInstead,
  hasMethod,
  mapOf,
  MAX_TIMER_MS,
  oneLine,
  overridden,
  portOf,
  type Shapes,
  shown,
} from "../../options.ts";
import type { ModelKind } from "../../ports/call-info.ts";
import { BREAKER_RULES, type BreakerOptions, DEFAULT_BREAKER } from "../../ports/circuit-breaker.ts";
import { type Clock, LATE, systemClock, within } from "../../ports/clock.ts";
import {
  type CallContext,
  type HangUp,
  INPUT_COUNT,
  type ModelBackend,
  type ModelInfo,
  compactsItself,
  takesUnknown,
  takesUnlisted,
  type UpstreamModel,
} from "../../ports/model-backend.ts";
import type { BreakerGauge, Observer, UpstreamStatus } from "../../ports/observer.ts";
import { assertCheckOptions, CHECK_MS, type CheckOptions, HANG_UP, notListed, renamed } from "../backend.ts";
import { Attempts, DEFAULT_RETRY, RETRY_RULES, type RetryOptions } from "./attempts.ts";
import type { Balance, BalancedOrder } from "./balance.ts";
import type { Canary, CanaryOrder } from "./canary.ts";
import { continuing, type Leg, type Legs, type Send } from "./continue.ts";
import { assertBackend, assertPlace, namesOf, UPSTREAM, upstreamOf } from "./given.ts";
import type { Hedge, Hedger } from "./hedge.ts";
import { type Affinity, type CallOrder, OrderByWeight, type UpstreamOrder } from "./order.ts";
import type { RoutableRequest } from "./reading.ts";
import type { Shadow, ShadowCopies } from "./shadow.ts";
import { RoutedBackend, type RoutedCall, type RouteUpstream } from "./upstream.ts";

/** The backends of each model, and the rules for a backend that fails. */
export interface RouteOptions {
  /**
   * The backends, by the name of a model (`fast`), by a prefix (`claude-*`), or for all other models (`*`). An exact name takes
   * precedence over a prefix, and a longer prefix over a shorter prefix.
   */
  readonly routes: Readonly<Record<string, ModelBackend | Route>>;
  /** Overrides of `DEFAULT_RETRY`. */
  readonly retry?: Partial<RetryOptions>;
  /** Overrides of `DEFAULT_BREAKER`. Each upstream has a circuit breaker of its own. */
  readonly breaker?: Partial<BreakerOptions>;
  /**
   * Receives the state of each circuit breaker. Set this option only for another observer than the gateway's own, which reads the states
   * from the `status` of the gateway's `backend`. Default: none.
   */
  readonly observer?: Pick<Observer, "watchBreakers">;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
  /** Returns a random number from 0 to below 1, for the choice by weight and for pauses. Default: `Math.random`. */
  readonly random?: () => number;
}

/** Several backends as one. */
export interface RouteBackend extends ModelBackend {
  upstreamsOf: NonNullable<ModelBackend["upstreamsOf"]>;
  /** Returns the state of each upstream: its circuit breaker, and its last failure. Asks no upstream. */
  status(): readonly UpstreamStatus[];
  /**
   * Checks each backend of the route that lists its models or has a `check`, such as a relay, and returns what it found. A backend must have
   * the models that the route sends to it by an exact name. Rejects only for wrong options.
   */
  check(options?: CheckOptions): Promise<readonly UpstreamCheck[]>;
  /** Closes each backend of the route that has a `close`, such as a relay. Rejects with the first error, after all were closed. */
  close(): Promise<void>;
}

/** The result of a check of an upstream. */
export interface UpstreamCheck {
  /** The name of the upstream in its route. */
  readonly upstream: string;
  /** A sentence about the problem, without secrets; undefined without a problem. */
  readonly problem: string | undefined;
}

/** The upstreams of one route. */
export interface Route {
  /** A call goes to an upstream drawn by weight. If that fails before its first event, the call goes to the others. */
  readonly upstreams: readonly (ModelBackend | RouteUpstream)[];
  /** Decides what happens to a call whose client hangs up. Default: the setting of the first upstream's backend. */
  readonly hangUp?: HangUp;
  /** Keeps conversations with the upstream that has cached their beginning: `promptCache()`. Default: each call is drawn by weight. */
  readonly affinity?: Affinity;
  /** Chooses the upstream of each call, such as `balance({ by: "latency" })`. Default: drawn by weight. */
  readonly balance?: Balance;
  /** Sends a share of the keys to new upstreams, such as `canary({ upstreams: ["next"], share: 0.05 })`. Default: none. */
  readonly canary?: Canary;
  /** Asks a second upstream when the first is late, such as `hedge({ percentile: 0.95 })`. Default: one at a time. */
  readonly hedge?: Hedge;
  /** Copies a share of the calls to one more upstream, such as `shadow({ upstream, share, onAnswer })`. Default: none. */
  readonly shadow?: Shadow;
  /**
   * Decides what happens to a chat answer whose upstream fails after its first words. `fail` ends it with the error. `continue` goes on with
   * the next upstream, where that does no harm; the caller sees one answer. Default: `fail`.
   */
  readonly onBreak?: "fail" | "continue";
}

const ROUTE_SHAPES: {
  readonly options: Shapes<RouteOptions>;
  readonly route: Shapes<Route>;
} = {
  options: {
    routes: mapOf("any"),
    retry: "object?",
    breaker: "object?",
    observer: "object?",
    clock: CLOCK,
    random: "function?",
  },
  route: {
    upstreams: "list",
    hangUp: { optional: HANG_UP },
    onBreak: { optional: ["fail", "continue"] },
    affinity: { optional: portOf(["orderOf"], "an affinity, such as promptCache()") },
    balance: { optional: portOf(["open"], "the result of balance({ by })") },
    canary: { optional: portOf(["open"], "the result of canary({ upstreams, share })") },
    hedge: { optional: portOf(["open"], "the result of hedge({})") },
    shadow: { optional: portOf(["open"], "the result of shadow({ upstream, share, onAnswer })") },
  },
};

/**
 * Returns the place of an option of `route`, of one of its routes, or of an upstream; undefined for any other name.
 *
 * @param path The path of the route that the options stand beside or in.
 */
function placeIn(path: string, name: string): string | undefined {
  if (Object.hasOwn(ROUTE_SHAPES.route, name)) return `${path}${name}`;
  if (Object.hasOwn(UPSTREAM, name)) return `${path}upstreams[0].${name}`;
  return Object.hasOwn(ROUTE_SHAPES.options, name) ? `${name} beside routes` : undefined;
}

/**
 * Makes one backend from several, for the given kinds of request.
 *
 * @param verbOf The function of a backend for each kind.
 */
export function routeOver(options: RouteOptions, verbOf: Readonly<Record<string, string>>): RouteBackend {
  const routes = new RouteTable(options, verbOf);
  return {
    hangUp: (model) => routes.hangUp(model),
    upstreamsOf: (model, kind) => routes.upstreamsOf(model, kind),
    status: () => routes.status(),
    check: (how) => routes.check(how),
    load: () => routes.load(),
    close: () => routes.close(),
    ...(routes.lists && { models: () => routes.models() }),
    ...(routes.lists && routes.hasOpen && { takesUnlisted: (model) => routes.takesUnlisted(model) }),
    takesUnknown: (model) => routes.takesUnknown(model),
    compacts: (model) => routes.compacts(model),
    ...routes.verbs(),
    ...(routes.can(INPUT_COUNT.verb) && {
      // Only the first upstream counts, because the models of the others may count differently.
      async countInputTokens(request, call) {
        const [first] = routes.takers(INPUT_COUNT.kind, request, call);
        const { model } = request;
        try {
          return await first?.backend.countInputTokens?.({ ...request, model: first.model ?? model }, call);
        } catch (thrown) {
          const error = toGatewayError(thrown, "model-backend");
          throw first && !call.signal.aborted ? first.told(error, model) : thrown;
        }
      },
    }),
  };
}

interface Target {
  readonly upstreams: readonly RoutedBackend[];
  readonly hangUp: HangUp | undefined;
  readonly order: UpstreamOrder;
  readonly canary: CanaryOrder | undefined;
  readonly balanced: BalancedOrder | undefined;
  readonly hedger: Hedger | undefined;
  readonly shadow: { readonly upstream: RoutedBackend; readonly copies: ShadowCopies } | undefined;
  readonly continues: boolean;
}

/** A function of a backend that answers a kind of request. */
type Verb = (request: RoutableRequest, call: CallContext) => AsyncIterable<unknown> | undefined;

const verbIn = (backend: unknown, name: string): Verb | undefined =>
  (backend as Readonly<Record<string, Verb | undefined>>)[name];

class RouteTable {
  readonly #targets: ReadonlyMap<string, Target>;
  /** The routes with a star, by the prefix before the star, the longest prefix first. */
  readonly #prefixes: readonly (readonly [prefix: string, target: Target])[];
  readonly #attempts: Attempts;
  readonly #clock: Clock;
  /** The function for each kind of request. */
  readonly #verbOf: ReadonlyMap<string, string>;

  constructor(options: RouteOptions, verbOf: Readonly<Record<string, string>>) {
    this.#verbOf = new Map(Object.entries(verbOf));
    const verbs = [...this.#verbOf.values()];
    const { routes: given, ...others } = Object(options) as Partial<RouteOptions>;
    if (given === undefined && Object.values(others).some((one) => givenInstead(one) === "a backend"))
      throw new TypeError("route: the models must be in routes: write route({ routes: { … } }).");
    const [first = "*"] = Object.keys(Object(given));
    if (Object(options) === options)
      assertPlace("route", options, ROUTE_SHAPES.options, (name) => placeIn(`routes[${JSON.stringify(first)}].`, name));
    assertOptions<RouteOptions>("route", options, ROUTE_SHAPES.options);
    const { routes, retry, breaker, observer, clock = systemClock, random = Math.random } = options;
    const breakers = overridden("route: breaker", DEFAULT_BREAKER, breaker, BREAKER_RULES);
    const byWeight = new OrderByWeight(random);
    this.#targets = new Map(
      Object.entries(routes).map(([pattern, to]): [string, Target] => {
        const quoted = JSON.stringify(pattern);
        const where = `route: routes[${quoted}]`;
        assertBackend(where, to, "upstreams", ROUTE_SHAPES.route, verbs, (name) => placeIn("", name));
        const route: Route = "upstreams" in to ? to : { upstreams: [to] };
        const { upstreams, hangUp, onBreak } = route;
        if ("upstreams" in to) {
          assertPlace(where, to, ROUTE_SHAPES.route, (name) => placeIn("", name));
          assertOptions<Route>(where, to, ROUTE_SHAPES.route);
        }
        if (upstreams.length === 0) throw new TypeError(`route: ${quoted} has no upstream.`);
        if (pattern === "" || pattern.slice(0, -1).includes("*"))
          throw new TypeError(`route: ${quoted} is neither a model's name nor a beginning with a star after it.`);
        const place = (name: string): string | undefined => placeIn(`routes[${quoted}].`, name);
        const all = upstreams.map((one, at) => upstreamOf(`${where}.upstreams[${at}]`, one, verbs, place));
        const names = namesOf(where, all, pattern);
        const routed = all.map((one, at) => new RoutedBackend(one, names[at] ?? "", breakers, clock));
        const balanced = route.balance?.open(clock, random);
        const drawn = balanced ?? byWeight;
        const usual = route.affinity?.orderOf(names, clock, drawn) ?? drawn;
        const canary = route.canary?.open(where, names, usual);
        const copied = route.shadow?.upstream;
        const shadow = copied && {
          upstream: new RoutedBackend(copied, namesOf(where, [copied], `${pattern} shadow`)[0] ?? "", breakers, clock),
          copies: route.shadow.open(clock, random),
        };
        return [
          pattern,
          {
            upstreams: routed,
            hangUp,
            order: canary ?? usual,
            canary,
            balanced,
            hedger: route.hedge?.open(clock),
            shadow,
            continues: onBreak === "continue",
          },
        ];
      }),
    );
    if (this.#targets.size === 0)
      throw new TypeError('route: routes is empty: write routes: { "a-model": backend }, or "*" for all models.');
    this.#prefixes = [...this.#targets]
      .filter(([pattern]) => pattern.endsWith("*"))
      .map(([pattern, target]) => [pattern.slice(0, -1), target] as const)
      .toSorted(([one], [other]) => other.length - one.length);
    watchBreakers(observer, this.#targets);
    this.#clock = clock;
    this.#attempts = new Attempts(overridden("route: retry", DEFAULT_RETRY, retry, RETRY_RULES), clock, random);
  }

  can(verb: string): boolean {
    return [...this.#targets.values()].some(({ upstreams }) => upstreams.some(({ backend }) => verbIn(backend, verb)));
  }

  /** Returns a function for each kind of request that an upstream answers. */
  verbs(): Readonly<Record<string, Verb>> {
    const known = [...this.#verbOf].filter(([, verb]) => this.can(verb));
    return Object.fromEntries(
      known.map(([kind, verb]): [string, Verb] => [verb, (request, call) => this.#answer(kind, verb, request, call)]),
    );
  }

  hangUp(model: string): HangUp {
    const target = this.#find(model);
    const first = target?.upstreams[0];
    const own = first?.backend.hangUp;
    return target?.hangUp ?? (typeof own === "function" ? own(first?.model ?? model) : own) ?? "cancel";
  }

  async load(): Promise<void> {
    await Promise.all(this.#all().map(({ backend }) => backend.load?.()));
  }

  /** Returns all upstreams, with those of shadows. */
  #all(): readonly RoutedBackend[] {
    return [...this.#targets.values()].flatMap(upstreamsIn);
  }

  /** Returns the upstreams that can answer. Throws `model_not_found` if there is none. */
  upstreams(kind: string, model: string): readonly RoutedBackend[] {
    const upstreams = this.#able(kind, model);
    if (upstreams.length > 0) return upstreams;
    throw new GatewayError("model_not_found", `There is no model "${model}".`, { path: ["model"] });
  }

  #able(kind: string, model: string): readonly RoutedBackend[] {
    const verb = this.#verbOf.get(kind);
    if (verb === undefined) return [];
    return this.#find(model)?.upstreams.filter(({ backend }) => verbIn(backend, verb)) ?? [];
  }

  takesUnknown(model: string): boolean {
    const upstreams = this.#able(INPUT_COUNT.kind, model);
    // A model without an upstream is refused as unknown.
    return upstreams.length === 0 || upstreams.some((upstream) => takes(upstream, model));
  }

  /** True when all upstreams of a model compact conversations themselves: any of them may get a turn. */
  compacts(model: string): boolean {
    const upstreams = this.#able(INPUT_COUNT.kind, model);
    return upstreams.length > 0 && upstreams.every(({ backend, model: own }) => compactsItself(backend, own ?? model));
  }

  /**
   * Returns the upstreams that a key may reach and that can take its request: for types that the gateway does not know, only those that take
   * such types.
   * Throws `model_not_found` if no upstream can answer, and `invalid_request`, with the name of the type, if none takes it.
   */
  takers(
    kind: string,
    { model, native }: RoutableRequest,
    { key }: Pick<CallContext, "key">,
  ): readonly RoutedBackend[] {
    const all = this.upstreams(kind, model);
    const upstreams = this.#find(model)?.canary?.permitted(key, all) ?? all;
    const takers = upstreams.filter((upstream) => takes(upstream, model));
    if (takers.length === upstreams.length) return upstreams;
    try {
      native?.assertKnown?.();
      return upstreams;
    } catch (error) {
      if (takers.length === 0) throw error;
      return takers;
    }
  }

  /** Returns the answer of the first upstream that begins one. */
  #answer(kind: string, verb: string, asked: RoutableRequest, call: CallContext): AsyncIterable<unknown> {
    if (kind !== CHAT || !this.#find(asked.model)?.continues) return this.#part(kind, verb, asked, call);
    // The casts are safe: the request is one of chat, and so are its events.
    const legs: Legs = {
      upstreams: () => this.takers(kind, asked, call),
      ask: (leg) => this.#part(kind, verb, asked, call, leg) as AsyncGenerator<ChatEvent | string>,
    };
    return continuing(legs, asked as ChatRequest, call);
  }

  /**
   * Yields the answer of the first upstream that begins one.
   *
   * @param leg Set for a part of an answer that may go on after a break.
   */
  async *#part(kind: string, verb: string, asked: RoutableRequest, call: CallContext, leg?: Leg): AsyncGenerator {
    const { model, stream = false } = asked;
    const request = { model, stream, isNamed: this.#targets.has(model) };
    const { balanced, hedger, shadow } = this.#find(model) ?? {};
    const isRest = leg?.ask !== undefined;
    const sendTo = (
      { backend, model: own }: RoutedBackend,
      one: RoutableRequest,
      context: CallContext,
    ): ReturnType<Verb> =>
      verbIn(backend, verb)?.call(backend, own === undefined ? one : { ...one, model: own }, context);
    const ask = (upstream: RoutedBackend, routed: RoutedCall): ReturnType<Verb> => {
      const send = (one: RoutableRequest, context: CallContext): ReturnType<Verb> =>
        balanced
          ? balanced.watched(upstream, asked, routed, () => sendTo(upstream, one, context))
          : sendTo(upstream, one, context);
      return leg?.ask ? leg.ask(upstream, routed, send as Send) : send(asked, routed);
    };
    const ordered = this.#ordered(asked, call, leg?.upstreams ?? this.takers(kind, asked, call), isRest);
    const { upstreams, began } = ordered instanceof Promise ? await ordered : ordered;
    let lost: readonly unknown[] = [];
    let lostBy: RoutedCall | undefined;
    const onCounts = (counts: readonly unknown[], routed: RoutedCall): void => {
      lost = counts;
      lostBy = routed;
    };
    // The rest of an answer is late already, and is asked for once.
    const hedges = !isRest && upstreams.length > 1 && hedger?.takes(kind, asked) ? hedger : undefined;
    const begun = await this.#attempts
      .begin(upstreams, request, call, ask, onCounts, hedges, leg)
      .catch((error: unknown) => ({ error }));
    if (!isRest)
      shadow?.copies.copy(kind, asked, call, shadow.upstream, (context) => sendTo(shadow.upstream, asked, context));
    if ("error" in begun) {
      // The counts of an upstream that has failed are charged when no other upstream answers.
      lostBy?.choose();
      yield* lost;
      throw begun.error;
    }
    const { upstream, routed, source, first, counts } = begun;
    if (leg) leg.begun = begun;
    const hasOtherName = upstream.model !== undefined;
    const reader = began?.(upstream, routed.elapsedMs);
    // The counts of a rest are not those of the caller's request.
    const read = isRest ? undefined : reader;
    let isOver = first.done === true;
    try {
      for (const early of counts) {
        read?.(early);
        yield hasOtherName ? renamed(early, model) : early;
      }
      for (let step = first; !step.done; step = await source.next()) {
        read?.(step.value);
        yield hasOtherName ? renamed(step.value, model) : step.value;
      }
      if (leg?.shown.isCut) throw backendError("brokeOff", undefined);
      isOver = true;
      upstream.succeed();
      routed.ended();
    } catch (thrown) {
      isOver = true;
      const error = toGatewayError(thrown, "model-backend");
      const told = call.signal.aborted ? error : upstream.told(error, model);
      if (!call.signal.aborted) upstream.brokeOff(error, call);
      if (!leg) routed.ended(error, told);
      throw told;
    } finally {
      if (!isOver) {
        // The reader has stopped early. Count a success, because the answer had no error so far.
        upstream.succeed();
        routed.ended();
        await source.return?.();
      }
    }
  }

  #ordered(
    request: RoutableRequest,
    call: CallContext,
    upstreams: readonly RoutedBackend[],
    isRest: boolean,
  ): CallOrder<RoutedBackend> | Promise<CallOrder<RoutedBackend>> {
    const order = this.#find(request.model)?.order;
    // An affinity must hear of the upstream that goes on, also where it is the only one left.
    return order && (isRest || upstreams.length > 1) ? order.order(call, request, upstreams) : { upstreams };
  }

  upstreamsOf(model: string, kind: ModelKind): readonly UpstreamModel[] {
    return this.#able(kind, model).flatMap(({ backend, name, model: own = model }) => {
      const known = backend.upstreamsOf?.(own, kind) ?? [];
      return known.length === 0 ? { name, model: own } : known.map((one) => ({ name, model: one.model }));
    });
  }

  status(): readonly UpstreamStatus[] {
    return [...this.#targets].flatMap(([pattern, { upstreams }]) =>
      upstreams.map(({ name, breaker, lastFailure, failing }) => ({
        route: pattern,
        upstream: name,
        state: breaker.state,
        waitMs: breaker.waitMs,
        lastFailure,
        failing,
      })),
    );
  }

  /** Checks each backend that can be checked, once. */
  async check(how: CheckOptions = {}): Promise<readonly UpstreamCheck[]> {
    assertCheckOptions(how);
    const { models = [] } = how;
    const sent = this.#sentTo(models);
    const upstreamsByBackend = Map.groupBy(this.#all(), backendOf);
    const checked = await Promise.all(
      [...upstreamsByBackend].map(([backend, upstreams]) => {
        const names = [...new Set(upstreams.map(({ name }) => name))];
        return this.#checked(backend, names, [...(sent.get(backend) ?? [])], how);
      }),
    );
    const lost = models.filter((model) => !this.#find(model));
    return [
      ...checked.flat(),
      ...lost.map((model) => ({ upstream: model, problem: "The route has no upstream for it." })),
    ];
  }

  async #checked(
    backend: ModelBackend & Upkept,
    names: readonly string[],
    asked: readonly string[],
    how: CheckOptions,
  ): Promise<readonly UpstreamCheck[]> {
    const { timeoutMs = CHECK_MS } = how;
    const ofEach = (problem: string | undefined): UpstreamCheck[] => names.map((upstream) => ({ upstream, problem }));
    const lack = await within(lackOf(backend, asked), timeoutMs, this.#clock);
    if (lack === LATE) return ofEach(hangs("models", timeoutMs));
    const checking = problemsOf(backend, { ...how, models: lack === undefined ? asked : [] });
    const found = await within(checking, Math.min(timeoutMs + CHECK_GRACE_MS, MAX_TIMER_MS), this.#clock);
    const all = found === LATE ? [{ problem: hangs("check", timeoutMs) }] : found;
    const named = all.flatMap(({ upstream, problem }: Found) =>
      upstream === undefined ? ofEach(problem) : [{ upstream, problem }],
    );
    if (lack === undefined) return named;
    return [...ofEach(lack), ...named.filter(({ problem }) => problem !== undefined)];
  }

  /** Returns the names of models that each backend is asked for: those of exact routes, and more that callers may name. */
  #sentTo(more: readonly string[]): ReadonlyMap<ModelBackend, ReadonlySet<string>> {
    const sent = new Map<ModelBackend, Set<string>>();
    const exact = [...this.#targets].filter(([pattern]) => !pattern.endsWith("*"));
    const named = more.flatMap((model): [string, Target][] => {
      const target = this.#find(model);
      return target ? [[model, target]] : [];
    });
    const own = [...this.#targets.values()].flatMap(upstreamsIn).filter(({ model }) => model !== undefined);
    const add = ({ backend, model }: RoutedBackend, asked = ""): void =>
      void sent.set(backend, (sent.get(backend) ?? new Set()).add(model ?? asked));
    for (const upstream of own) add(upstream);
    for (const [model, target] of [...exact, ...named])
      for (const upstream of upstreamsIn(target)) add(upstream, model);
    return sent;
  }

  /** Closes each backend that can be closed, once. */
  async close(): Promise<void> {
    for (const { shadow } of this.#targets.values()) shadow?.copies.close();
    const backends = new Set(this.#all().map(backendOf));
    const closing = await Promise.allSettled([...backends].map(async (backend) => backend.close?.()));
    const failed = closing.find((one) => one.status === "rejected");
    if (failed) throw failed.reason;
  }

  /** True when the name of a model is known: an exact one, or one of an upstream's list. */
  get lists(): boolean {
    return [...this.#targets].some(
      ([pattern, { upstreams }]) => !pattern.endsWith("*") || upstreams.some(listsCallersNames),
    );
  }

  /** True when a pattern may stand for models that no upstream lists. */
  get hasOpen(): boolean {
    return this.#prefixes.some(([, { upstreams }]) =>
      upstreams.some((one) => !listsCallersNames(one) || one.backend.takesUnlisted !== undefined),
    );
  }

  /** Tells whether the pattern of a model has an upstream that may answer it without listing it. */
  takesUnlisted(model: string): boolean {
    if (this.#targets.has(model)) return false;
    const { upstreams = [] } = this.#find(model) ?? {};
    return upstreams.some((one) => !listsCallersNames(one) || takesUnlisted(one.backend, model));
  }

  models(): Models | Promise<Models> {
    return joined([...this.#targets], ([pattern, target]) => this.#modelsOf(pattern, target), once);
  }

  #modelsOf(pattern: string, target: Target): Models | Promise<Models> {
    const isOpen = pattern.endsWith("*");
    const listing = target.upstreams.filter((one) =>
      isOpen ? listsCallersNames(one) : hasMethod(one.backend, "models"),
    );
    const infosIn = (told: readonly Models[]): Models => {
      // Leave out names that belong to a more exact route.
      if (isOpen) return told.flat().filter(({ id }) => this.#find(id) === target);
      const infos = told.flatMap((list, index) => list.filter(({ id }) => id === (listing[index]?.model ?? pattern)));
      // Use the lowest limit, because a call may go to any of the upstreams.
      const limits = infos.flatMap(({ maxOutputTokens }) => maxOutputTokens ?? []);
      return [{ ...infos[0], id: pattern, ...(limits.length > 0 && { maxOutputTokens: Math.min(...limits) }) }];
    };
    return joined(listing, ({ backend }) => backend.models?.() ?? [], infosIn);
  }

  #find(model: string): Target | undefined {
    return this.#targets.get(model) ?? this.#prefixes.find(([prefix]) => model.startsWith(prefix))?.[1];
  }
}

const upstreamsIn = ({ upstreams, shadow }: Target): readonly RoutedBackend[] =>
  shadow ? [...upstreams, shadow.upstream] : upstreams;

/** Returns a sentence about models that a backend neither lists nor takes unlisted; undefined if there are none, or no list. */
async function lackOf(backend: ModelBackend, models: readonly string[]): Promise<string | undefined> {
  if (!hasMethod(backend, "models") || models.length === 0) return undefined;
  try {
    const listed = ((await backend.models?.()) ?? []).map(({ id }) => id);
    const missing = models.filter((model) => !listed.includes(model) && !takesUnlisted(backend, model));
    return missing.length === 0 ? undefined : notListed(missing, listed);
  } catch {
    // The check of the backend tells more than a list that fails.
    return undefined;
  }
}

/** A relay ends its check at the time limit. This much later, in milliseconds, the check of a host's own backend is given up. */
const CHECK_GRACE_MS = 1_000;

/** Resolves with what a backend finds at itself; nothing for a backend that cannot be checked. */
async function problemsOf(backend: Upkept, how: CheckOptions): Promise<readonly Found[]> {
  try {
    return [(await backend.check?.(how)) ?? []].flat().map(foundIn);
  } catch (error) {
    return [{ problem: `check() has failed: ${wordsOf(error)}` }];
  }
}

/** Reads a problem as the `check()` of a host's own backend tells it. Throws a TypeError for anything else. */
function foundIn(told: unknown): Found {
  const { upstream, problem } = isJsonObject(told) ? told : { upstream: null };
  if (!isText(upstream) || !isText(problem))
    throw new TypeError(`it must return an object with the text problem, not ${shown(told)}.`);
  return { problem, ...given({ upstream }) };
}

const isText = (value: unknown): value is string | undefined => value === undefined || typeof value === "string";

function wordsOf(thrown: unknown): string {
  try {
    return thrown instanceof Error || typeof thrown === "string" ? oneLine(String(thrown)) : shown(thrown);
  } catch {
    // Getters may throw.
    return "a value that cannot be shown";
  }
}

const hangs = (name: string, ms: number): string => `${name}() of the backend has not returned within ${ms} ms.`;

/** Tells whether an upstream lists its models under the names that callers use. */
const listsCallersNames = ({ backend, model }: RoutedBackend): boolean =>
  model === undefined && hasMethod(backend, "models");

type Models = readonly ModelInfo[];

/** Joins lists of models: at once if all are there, because a gateway asks for every call. */
function joined<Source>(
  sources: readonly Source[],
  listOf: (source: Source) => Models | Promise<Models>,
  join: (lists: readonly Models[]) => Models,
): Models | Promise<Models> {
  const lists = sources.map((source) => {
    try {
      return listOf(source);
    } catch (error) {
      // Throw it below: the failure of a list that is on its way must be heard, too.
      return Promise.reject<Models>(error);
    }
  });
  const ready = lists.filter((list) => Array.isArray(list));
  return ready.length === lists.length ? join(ready) : Promise.all(lists.map(asList)).then(join);
}

async function asList(told: Models | Promise<Models>): Promise<Models> {
  const list = await told;
  if (!Array.isArray(list)) throw new TypeError(`models() must return a list of models, not ${shown(list)}.`);
  return list;
}

/** Joins lists, with each model once. */
const once = (lists: readonly Models[]): Models => [...new Map(lists.flat().map((info) => [info.id, info])).values()];

const takes = ({ backend, model: own }: RoutedBackend, model: string): boolean => takesUnknown(backend, own ?? model);

/** The functions of relays and routes that other backends may lack. */
interface Upkept {
  check?(how?: CheckOptions): Promise<Found | readonly Found[]>;
  close?(): unknown;
}

/** The problem of a relay, or of an upstream that a route names. */
type Found = Pick<UpstreamCheck, "problem"> & Partial<UpstreamCheck>;

const backendOf = ({ backend }: RoutedBackend): ModelBackend & Upkept => backend;

/** Gives the observer the state of every circuit breaker. Ignores errors of the observer. */
function watchBreakers(observer: RouteOptions["observer"], targets: ReadonlyMap<string, Target>): void {
  if (!observer?.watchBreakers) return;
  const gauges = [...targets].flatMap(([route, { upstreams }]) =>
    upstreams.map(({ name, breaker }): BreakerGauge => ({
      route,
      upstream: name,
      get state() {
        return breaker.state;
      },
    })),
  );
  try {
    observer.watchBreakers(gauges);
  } catch {
    // A failing observer must not stop the gateway.
  }
}

/** The table of a route: its options, and the upstreams of each model. */

import { GatewayError, toGatewayError } from "../../errors.ts";
import { assertOptions, CLOCK, mapOf, nearest, portOf, type Shapes, overridden, unknownName } from "../../options.ts";
import type { ModelKind } from "../../ports/call-info.ts";
import { BREAKER_RULES, type BreakerOptions, DEFAULT_BREAKER } from "../../ports/circuit-breaker.ts";
import { type Clock, systemClock } from "../../ports/clock.ts";
import {
  type CallContext,
  type HangUp,
  INPUT_COUNT,
  type ModelBackend,
  type ModelInfo,
  compactsItself,
  takesUnknown,
  type UpstreamModel,
} from "../../ports/model-backend.ts";
import type { BreakerGauge, Observer, UpstreamStatus } from "../../ports/observer.ts";
import { HANG_UP, renamed } from "../backend.ts";
import { Attempts, DEFAULT_RETRY, RETRY_RULES, type RetryOptions } from "./attempts.ts";
import { type Affinity, type CallOrder, OrderByWeight, type UpstreamOrder } from "./order.ts";
import { RoutedBackend, type RouteUpstream } from "./upstream.ts";

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
  /** Receives the state of each circuit breaker. Pass the gateway's own observer to add the states to its metrics. Default: none. */
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
  /** Closes each backend of the route that has a `close`, such as a relay. Rejects with the first error, after all were closed. */
  close(): Promise<void>;
}

/** The upstreams of one route. */
export interface Route {
  /** A call goes to an upstream drawn by weight. If that fails before its first event, the call goes to the others. */
  readonly upstreams: readonly (ModelBackend | RouteUpstream)[];
  /** Decides what happens to a call whose client hangs up. Default: the setting of the first upstream's backend. */
  readonly hangUp?: HangUp;
  /** Keeps conversations with the upstream that has cached their beginning: `promptCache()`. Default: each call is drawn by weight. */
  readonly affinity?: Affinity;
}

const ROUTE_SHAPES: {
  readonly options: Shapes<RouteOptions>;
  readonly route: Shapes<Route>;
  readonly upstream: Shapes<RouteUpstream>;
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
    affinity: { optional: portOf(["orderOf"], "an affinity, such as promptCache()") },
  },
  upstream: { backend: "any", name: "string?", weight: "amount?", model: "string?" },
};

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
    load: () => routes.load(),
    close: () => routes.close(),
    ...(routes.areListed && { models: () => routes.models() }),
    takesUnknown: (model) => routes.takesUnknown(model),
    compacts: (model) => routes.compacts(model),
    ...routes.verbs(),
    ...(routes.can(INPUT_COUNT.verb) && {
      // Only the first upstream counts, because the models of the others may count differently.
      async countInputTokens(request, call) {
        const [first] = routes.takers(INPUT_COUNT.kind, request);
        return first?.backend.countInputTokens?.({ ...request, model: first.model ?? request.model }, call);
      },
    }),
  };
}

interface Target {
  readonly upstreams: readonly RoutedBackend[];
  readonly hangUp: HangUp | undefined;
  readonly order: UpstreamOrder;
}

/** A function of a backend that answers a kind of request. */
type Verb = (request: RoutableRequest, call: CallContext) => AsyncIterable<unknown> | undefined;

/** A request of any kind, as far as a route reads it. */
interface RoutableRequest {
  readonly model: string;
  readonly stream?: boolean;
  readonly native?: { readonly assertKnown?: (() => void) | undefined };
}

const verbIn = (backend: unknown, name: string): Verb | undefined =>
  (backend as Readonly<Record<string, Verb | undefined>>)[name];

class RouteTable {
  readonly #targets: ReadonlyMap<string, Target>;
  /** The routes with a star, by the prefix before the star, the longest prefix first. */
  readonly #prefixes: readonly (readonly [prefix: string, target: Target])[];
  readonly #attempts: Attempts;
  /** The function for each kind of request. */
  readonly #verbOf: ReadonlyMap<string, string>;

  constructor(options: RouteOptions, verbOf: Readonly<Record<string, string>>) {
    this.#verbOf = new Map(Object.entries(verbOf));
    const verbs = [...this.#verbOf.values()];
    assertOptions<RouteOptions>("route", options, ROUTE_SHAPES.options);
    const { routes, retry, breaker, observer, clock = systemClock, random = Math.random } = options;
    const breakers = overridden("route: breaker", DEFAULT_BREAKER, breaker, BREAKER_RULES);
    const byWeight = new OrderByWeight(random);
    this.#targets = new Map(
      Object.entries(routes).map(([pattern, to]): [string, Target] => {
        const quoted = JSON.stringify(pattern);
        assertBackend(`route: routes[${quoted}]`, to, "upstreams", ROUTE_SHAPES.route, verbs);
        const { upstreams, hangUp, affinity }: Route = "upstreams" in to ? to : { upstreams: [to] };
        if ("upstreams" in to) assertOptions<Route>(`route: routes[${quoted}]`, to, ROUTE_SHAPES.route);
        if (upstreams.length === 0) throw new TypeError(`route: ${quoted} has no upstream.`);
        if (pattern === "" || pattern.slice(0, -1).includes("*"))
          throw new TypeError(`route: ${quoted} is neither a model's name nor a beginning with a star after it.`);
        const all = upstreams.map((one, at): RouteUpstream => {
          const where = `route: routes[${quoted}].upstreams[${at}]`;
          assertBackend(where, one, "backend", ROUTE_SHAPES.upstream, verbs);
          if (!("backend" in one)) return { backend: one };
          assertOptions<RouteUpstream>(where, one, ROUTE_SHAPES.upstream);
          const members = [...verbs, ...OTHER_MEMBERS];
          if (!members.some((member) => member in Object(one.backend)))
            throw new TypeError(`${where}: backend must be a backend, with at least one of ${members.join(", ")}.`);
          return one;
        });
        const names = namesOf(all);
        const routed = all.map((one, at) => new RoutedBackend(one, names[at] ?? "", breakers, clock));
        return [pattern, { upstreams: routed, hangUp, order: affinity?.orderOf(names, clock, byWeight) ?? byWeight }];
      }),
    );
    if (this.#targets.size === 0) throw new TypeError("route: there is no route.");
    this.#prefixes = [...this.#targets]
      .filter(([pattern]) => pattern.endsWith("*"))
      .map(([pattern, target]) => [pattern.slice(0, -1), target] as const)
      .toSorted(([one], [other]) => other.length - one.length);
    watchBreakers(observer, this.#targets);
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
    const all = [...this.#targets.values()].flatMap(({ upstreams }) => upstreams);
    await Promise.all(all.map(({ backend }) => backend.load?.()));
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
   * Returns the upstreams that can take a request: for a request with types that the gateway does not know, only those that take such types.
   * Throws `model_not_found` if no upstream can answer, and `invalid_request`, with the name of the type, if none takes it.
   */
  takers(kind: string, { model, native }: RoutableRequest): readonly RoutedBackend[] {
    const upstreams = this.upstreams(kind, model);
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

  /** Yields the answer of the first upstream that begins one. */
  async *#answer(kind: string, verb: string, asked: RoutableRequest, call: CallContext): AsyncGenerator {
    const { model, stream = false } = asked;
    const request = { model, stream, isNamed: this.#targets.has(model) };
    const ask = ({ backend, model: own }: RoutedBackend, routed: CallContext): ReturnType<Verb> => {
      return verbIn(backend, verb)?.call(backend, own === undefined ? asked : { ...asked, model: own }, routed);
    };
    const ordered = this.#ordered(asked, call, this.takers(kind, asked));
    const { upstreams, began } = ordered instanceof Promise ? await ordered : ordered;
    let lost: readonly unknown[] = [];
    const begun = await this.#attempts
      .begin(upstreams, request, call, ask, (counts) => (lost = counts))
      .catch((error: unknown) => ({ error }));
    if ("error" in begun) {
      // The counts of an upstream that has failed are charged when no other upstream answers.
      yield* lost;
      throw begun.error;
    }
    const { upstream, routed, source, first, counts } = begun;
    const hasOtherName = upstream.model !== undefined;
    const read = began?.(upstream, routed.elapsedMs);
    let isOver = first.done === true;
    try {
      for (const count of counts) read?.(count);
      yield* counts;
      for (let step = first; !step.done; step = await source.next()) {
        read?.(step.value);
        yield hasOtherName ? renamed(step.value, model) : step.value;
      }
      isOver = true;
      upstream.succeed();
      routed.ended();
    } catch (thrown) {
      isOver = true;
      const error = toGatewayError(thrown, "model-backend");
      if (!call.signal.aborted) upstream.brokeOff(error);
      routed.ended(error);
      throw error;
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
  ): CallOrder<RoutedBackend> | Promise<CallOrder<RoutedBackend>> {
    const order = this.#find(request.model)?.order;
    return order && upstreams.length > 1 ? order.order(call, request, upstreams) : { upstreams };
  }

  upstreamsOf(model: string, kind: ModelKind): readonly UpstreamModel[] {
    return this.#able(kind, model).flatMap(({ backend, name, model: own = model }) => {
      const known = backend.upstreamsOf?.(own, kind) ?? [];
      return known.length === 0 ? { name, model: own } : known.map((one) => ({ name, model: one.model }));
    });
  }

  status(): readonly UpstreamStatus[] {
    return [...this.#targets].flatMap(([pattern, { upstreams }]) =>
      upstreams.map(({ name, breaker, lastFailure }) => ({
        route: pattern,
        upstream: name,
        state: breaker.state,
        waitMs: breaker.waitMs,
        lastFailure,
      })),
    );
  }

  /** Closes each backend that can be closed, once. */
  async close(): Promise<void> {
    const backends = new Set([...this.#targets.values()].flatMap(({ upstreams }) => upstreams.map(backendOf)));
    const closing = await Promise.allSettled([...backends].map(async (backend) => backend.close?.()));
    const failed = closing.find((one) => one.status === "rejected");
    if (failed) throw failed.reason;
  }

  /** True when the names of all models are known. */
  get areListed(): boolean {
    return [...this.#targets].every(
      ([pattern, { upstreams }]) =>
        !pattern.endsWith("*") || upstreams.every(({ backend, model }) => backend.models && model === undefined),
    );
  }

  async models(): Promise<readonly ModelInfo[]> {
    const lists = await Promise.all([...this.#targets].map(([pattern, target]) => this.#modelsOf(pattern, target)));
    return [...new Map(lists.flat().map((info) => [info.id, info])).values()];
  }

  async #modelsOf(pattern: string, target: Target): Promise<readonly ModelInfo[]> {
    const { upstreams } = target;
    const lists = await Promise.all(upstreams.map(async ({ backend }) => (await backend.models?.()) ?? []));
    // Leave out names that belong to a more exact route.
    if (pattern.endsWith("*")) return lists.flat().filter(({ id }) => this.#find(id) === target);
    const infos = lists.flatMap((list, index) => list.filter(({ id }) => id === (upstreams[index]?.model ?? pattern)));
    // Use the lowest limit, because a call may go to any of the upstreams.
    const limits = infos.flatMap(({ maxOutputTokens }) => maxOutputTokens ?? []);
    return [{ ...infos[0], id: pattern, ...(limits.length > 0 && { maxOutputTokens: Math.min(...limits) }) }];
  }

  #find(model: string): Target | undefined {
    return this.#targets.get(model) ?? this.#prefixes.find(([prefix]) => model.startsWith(prefix))?.[1];
  }
}

/** The members of a backend beside its verbs. A value that has one of them is a backend. */
const OTHER_MEMBERS: readonly string[] = ["countInputTokens", "models"];

/** Throws a TypeError for a value that is neither a backend nor an object with the member `other`. */
function assertBackend(where: string, value: unknown, other: string, shapes: object, verbs: readonly string[]): void {
  if (Array.isArray(value) && other === "upstreams")
    throw new TypeError(`${where} is a list; write { upstreams: [...] } for several backends.`);
  if (typeof value === "function" || (typeof value === "object" && value !== null)) {
    const members = [...verbs, ...OTHER_MEMBERS];
    if ([...members, other].some((member) => member in value)) return;
    const known = [...Object.keys(shapes), ...members];
    const misspelt = Object.keys(value).find((name) => !known.includes(name) && nearest(name, known));
    if (misspelt !== undefined) throw new TypeError(`${where}: ${unknownName(misspelt, known)}.`);
    throw new TypeError(
      `${where} is no backend and has no ${other}. A backend has at least one of ${verbs.join(", ")}.`,
    );
  }
  throw new TypeError(`${where} must be a backend, or an object with ${other}.`);
}

const takes = ({ backend, model: own }: RoutedBackend, model: string): boolean => takesUnknown(backend, own ?? model);

const backendOf = ({ backend }: RoutedBackend): ModelBackend & { close?(): unknown } => backend;

/** Names the upstreams of one route: as the host does, else as the backend does, else by the index. No two get the same name by default. */
function namesOf(upstreams: readonly RouteUpstream[]): readonly string[] {
  const named = upstreams.map(({ name, backend }) => name ?? (typeof backend.name === "string" ? backend.name : ""));
  return named.map((name, index) => {
    if (upstreams[index]?.name !== undefined) return name;
    if (name === "") return String(index);
    return named.indexOf(name) === named.lastIndexOf(name) ? name : `${name} ${index}`;
  });
}

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

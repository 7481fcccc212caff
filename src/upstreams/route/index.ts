/** A backend that sends each call to one of several upstreams, by the call's model, and to another upstream when the first fails. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { GatewayError, toGatewayError } from "../../errors.ts";
import type { ChatEvent } from "../../kinds/chat/event.ts";
import type { NativeRequest } from "../../kinds/chat/request.ts";
import type { EmbeddingEvent } from "../../kinds/embedding/request.ts";
import type { ImageEvent } from "../../kinds/image/request.ts";
import { assertOptions, nearest, unknownName } from "../../options.ts";
import { overridden } from "../../overrides.ts";
import type { ModelKind } from "../../ports/call.ts";
import { BREAKER_RULES, DEFAULT_BREAKER } from "../../ports/circuit-breaker.ts";
import { systemClock } from "../../ports/clock.ts";
import {
  type CallContext,
  type HangUp,
  type ModelBackend,
  type ModelInfo,
  takesUnknown,
  type UpstreamModel,
  VERB_OF,
} from "../../ports/model-backend.ts";
import type { BreakerGauge, UpstreamStatus } from "../../ports/observer.ts";
import { renamed } from "../backend.ts";
import { Attempts, RoutedBackend } from "./attempts.ts";
import {
  type Route,
  type RouteBackend,
  type RouteOptions,
  type RouteUpstream,
  DEFAULT_RETRY,
  RETRY_RULES,
  ROUTE_SHAPES,
} from "./options.ts";

export { type BreakerOptions, DEFAULT_BREAKER } from "../../ports/circuit-breaker.ts";
export {
  DEFAULT_RETRY,
  type RetryOptions,
  type Route,
  type RouteBackend,
  type RouteOptions,
  type RouteUpstream,
} from "./options.ts";

/**
 * Makes one backend from several. A call goes to an upstream of its model's route. If the upstream fails before its first event, the
 * call goes to the next upstream. After the last upstream and a pause, the call goes to the first again. An answer that has begun is
 * never repeated. Throws a TypeError for wrong options, and a RangeError for a wrong number.
 *
 * @example
 * route({ routes: { "claude-*": claude, fast: { upstreams: [{ backend: here, weight: 3 }, { backend: there, model: "large" }] } } });
 */
export function route(options: RouteOptions): RouteBackend {
  const routes = new Routes(options);
  return {
    hangUp: (model) => routes.hangUp(model),
    upstreamsOf: (model, kind) => routes.upstreamsOf(model, kind),
    status: () => routes.status(),
    close: () => routes.close(),
    ...(routes.areListed && { models: () => routes.models() }),
    takesUnknown: (model) => routes.takesUnknown(model),
    ...(routes.can("chat") && {
      chat: (request, call) =>
        routes.answer<ChatEvent | string>(
          "chat",
          request,
          call,
          ({ backend, model }, routed) => backend.chat?.(model === undefined ? request : { ...request, model }, routed),
          (event) => (typeof event === "string" ? event : renamed(event, request.model)),
        ),
    }),
    ...(routes.can("countInputTokens") && {
      // Only the first upstream counts, because the models of the others may count differently.
      async countInputTokens(request, call) {
        const [first] = routes.takers("chat", request);
        return first?.backend.countInputTokens?.({ ...request, model: first.model ?? request.model }, call);
      },
    }),
    ...(routes.can("image") && {
      image: (request, call) =>
        routes.answer<ImageEvent>("image", request, call, ({ backend, model }, routed) =>
          backend.image?.(model === undefined ? request : { ...request, model }, routed),
        ),
    }),
    ...(routes.can("embed") && {
      embed: (request, call) =>
        routes.answer<EmbeddingEvent>("embedding", request, call, ({ backend, model }, routed) =>
          backend.embed?.(model === undefined ? request : { ...request, model }, routed),
        ),
    }),
  };
}

/** The fields of a request that the choice of its upstream depends on. */
interface RoutableRequest {
  readonly model: string;
  readonly stream?: boolean | undefined;
  readonly native?: NativeRequest;
}

interface Target {
  readonly upstreams: readonly RoutedBackend[];
  readonly hangUp: HangUp | undefined;
}

class Routes {
  readonly #targets: ReadonlyMap<string, Target>;
  /** The routes with a star, by the prefix before the star, the longest prefix first. */
  readonly #prefixes: readonly (readonly [prefix: string, target: Target])[];
  readonly #attempts: Attempts;

  constructor(options: RouteOptions) {
    assertOptions<RouteOptions>("route", options, ROUTE_SHAPES.options);
    const { routes, retry, breaker, observer, clock = systemClock, random = Math.random } = options;
    const breakers = overridden("route: breaker", DEFAULT_BREAKER, breaker, BREAKER_RULES);
    this.#targets = new Map(
      Object.entries(routes).map(([pattern, to]): [string, Target] => {
        const quoted = JSON.stringify(pattern);
        assertBackend(`route: routes[${quoted}]`, to, "upstreams", ROUTE_SHAPES.route);
        const { upstreams, hangUp }: Route = "upstreams" in to ? to : { upstreams: [to] };
        if ("upstreams" in to) assertOptions<Route>(`route: routes[${quoted}]`, to, ROUTE_SHAPES.route);
        if (upstreams.length === 0) throw new TypeError(`route: ${quoted} has no upstream.`);
        if (pattern === "" || pattern.slice(0, -1).includes("*"))
          throw new TypeError(`route: ${quoted} is neither a model's name nor a beginning with a star after it.`);
        const all = upstreams.map((one, at): RouteUpstream => {
          const where = `route: routes[${quoted}].upstreams[${at}]`;
          assertBackend(where, one, "backend", ROUTE_SHAPES.upstream);
          if (!("backend" in one)) return { backend: one };
          assertOptions<RouteUpstream>(where, one, ROUTE_SHAPES.upstream);
          if (!VERBS.some((verb) => verb in Object(one.backend)))
            throw new TypeError(`${where}: backend must be a backend, with at least one of ${VERBS.join(", ")}.`);
          return one;
        });
        const names = namesOf(all);
        return [
          pattern,
          { upstreams: all.map((one, at) => new RoutedBackend(one, names[at] ?? "", breakers, clock)), hangUp },
        ];
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

  can(verb: (typeof VERB_OF)[ModelKind] | "countInputTokens"): boolean {
    return [...this.#targets.values()].some(({ upstreams }) => upstreams.some(({ backend }) => backend[verb]));
  }

  hangUp(model: string): HangUp {
    const target = this.#find(model);
    const first = target?.upstreams[0];
    const own = first?.backend.hangUp;
    return target?.hangUp ?? (typeof own === "function" ? own(first?.model ?? model) : own) ?? "cancel";
  }

  /** Returns the upstreams that can answer. Throws `model_not_found` if there is none. */
  upstreams(kind: ModelKind, model: string): readonly RoutedBackend[] {
    const upstreams = this.#find(model)?.upstreams.filter(({ backend }) => backend[VERB_OF[kind]]) ?? [];
    if (upstreams.length > 0) return upstreams;
    throw new GatewayError("model_not_found", `There is no model "${model}".`, { path: ["model"] });
  }

  takesUnknown(model: string): boolean {
    const upstreams = this.#find(model)?.upstreams.filter(({ backend }) => backend[VERB_OF.chat]) ?? [];
    // A model without an upstream is refused as unknown.
    return upstreams.length === 0 || upstreams.some((upstream) => takes(upstream, model));
  }

  /**
   * Returns the upstreams that can take a request: for a request with types that the gateway does not know, only those that take such types.
   * Throws `model_not_found` if no upstream can answer, and `invalid_request`, with the name of the type, if none takes it.
   */
  takers(kind: ModelKind, { model, native }: RoutableRequest): readonly RoutedBackend[] {
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

  /**
   * Yields the answer of the first upstream that begins one.
   *
   * @param rename Puts the caller's name of the model into an event. Called when the upstream has another name for the model.
   */
  async *answer<Event>(
    kind: ModelKind,
    asked: RoutableRequest,
    call: CallContext,
    ask: (upstream: RoutedBackend, call: CallContext) => AsyncIterable<Event> | undefined,
    rename?: (event: Event) => Event,
  ): AsyncGenerator<Event> {
    const { model, stream = false } = asked;
    const request = { model, stream, isNamed: this.#targets.has(model) };
    let lost: readonly Event[] = [];
    const begun = await this.#attempts
      .begin(this.takers(kind, asked), request, call, ask, (counts) => (lost = counts))
      .catch((error: unknown) => ({ error }));
    if ("error" in begun) {
      // The counts of an upstream that has failed are charged when no other upstream answers.
      yield* lost;
      throw begun.error;
    }
    const { upstream, routed, source, first, counts } = begun;
    const shown = upstream.model === undefined ? undefined : rename;
    let isOver = first.done === true;
    try {
      yield* counts;
      for (let step = first; !step.done; step = await source.next()) yield shown ? shown(step.value) : step.value;
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

  upstreamsOf(model: string, kind: ModelKind): readonly UpstreamModel[] {
    const upstreams = this.#find(model)?.upstreams.filter(({ backend }) => backend[VERB_OF[kind]]) ?? [];
    return upstreams.flatMap(({ backend, name, model: own = model }) => {
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

const VERBS: readonly string[] = [...Object.values(VERB_OF), "countInputTokens", "models"];

/** Throws a TypeError for a value that is neither a backend nor an object with the member `other`. */
function assertBackend(where: string, value: unknown, other: string, shapes: object): void {
  if (Array.isArray(value) && other === "upstreams")
    throw new TypeError(`${where} is a list; write { upstreams: [...] } for several backends.`);
  if (typeof value === "function" || (typeof value === "object" && value !== null)) {
    if ([...VERBS, other].some((verb) => verb in value)) return;
    const known = [...Object.keys(shapes), ...VERBS];
    const misspelt = Object.keys(value).find((name) => !known.includes(name) && nearest(name, known));
    if (misspelt !== undefined) throw new TypeError(`${where}: ${unknownName(misspelt, known)}.`);
    throw new TypeError(
      `${where} is no backend and has no ${other}. A backend has at least one of ${Object.values(VERB_OF).join(", ")}.`,
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

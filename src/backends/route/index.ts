/** A backend that hands each call to one of several, by its model, and to another one where that fails. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { GatewayError, toGatewayError } from "../../errors.ts";
import type { ChatRequest } from "../../model/chat.ts";
import type { ChatEvent } from "../../model/event.ts";
import type { ImageEvent, ImageRequest } from "../../model/image.ts";
import { overridden } from "../../overrides.ts";
import type { BreakerGauge } from "../../ports/call-observer.ts";
import { systemClock } from "../../ports/clock.ts";
import type { CallContext, HangUp, ModelBackend, ModelInfo } from "../../ports/model-backend.ts";
import { assertHangUp } from "../hang-up.ts";
import { renamed } from "../rename.ts";
import { Attempts } from "./attempts.ts";
import { BREAKER_RULES, DEFAULT_BREAKER } from "../../ports/breaker.ts";
import type { Route, RouteOptions } from "./options.ts";
import { Patterns } from "./patterns.ts";
import { DEFAULT_RETRY, RETRY_RULES } from "./retry.ts";
import { RoutedBackend } from "./routed-backend.ts";

export { type BreakerOptions, DEFAULT_BREAKER } from "../../ports/breaker.ts";
export type { Route, RouteOptions, RouteUpstream } from "./options.ts";
export { DEFAULT_RETRY, type RetryOptions } from "./retry.ts";

/**
 * A backend of several. A call goes to an upstream of its model's route; where that fails before its first event, the next one is
 * asked, and after the last, once more from the first after a pause. An answer that has begun is never begun again. Throws a
 * TypeError for options that are wrong, and a RangeError for a number that is.
 *
 * @example
 * route({ routes: { "claude-*": claude, fast: { upstreams: [{ backend: here, weight: 3 }, { backend: there, model: "large" }] } } });
 */
export function route(options: RouteOptions): ModelBackend {
  const routes = new Routes(options);
  const { list } = routes;
  return {
    hangUp: (model) => routes.hangUp(model),
    ...(list && { models: list }),
    ...(routes.can("chat") && { chat: (request, call) => routes.chat(request, call) }),
    ...(routes.can("countInputTokens") && {
      countInputTokens: (request, call) => routes.countInputTokens(request, call),
    }),
    ...(routes.can("image") && { image: (request, call) => routes.image(request, call) }),
  };
}

type Kind = "chat" | "image";

interface Target {
  readonly upstreams: readonly RoutedBackend[];
  readonly hangUp: HangUp | undefined;
}

class Routes {
  readonly #targets: ReadonlyMap<string, Target>;
  readonly #patterns: Patterns<Target>;
  readonly #attempts: Attempts;

  constructor({ routes, retry, breaker, observer, clock = systemClock, random = Math.random }: RouteOptions) {
    const breakers = overridden("route: breaker", DEFAULT_BREAKER, breaker, BREAKER_RULES);
    this.#targets = new Map(
      Object.entries(routes).map(([pattern, to]): [string, Target] => {
        const { upstreams, hangUp }: Route = isRoute(to) ? to : { upstreams: [to] };
        assertHangUp(`route: routes[${JSON.stringify(pattern)}].hangUp`, hangUp);
        if (upstreams.length === 0) throw new TypeError(`route: ${JSON.stringify(pattern)} has no upstream.`);
        return [pattern, { upstreams: upstreams.map((one) => new RoutedBackend(one, breakers, clock)), hangUp }];
      }),
    );
    if (this.#targets.size === 0) throw new TypeError("route: there is no route.");
    this.#patterns = new Patterns(this.#targets);
    watchBreakers(observer, this.#targets);
    this.#attempts = new Attempts(overridden("route: retry", DEFAULT_RETRY, retry, RETRY_RULES), clock, random);
  }

  can(verb: Kind | "countInputTokens"): boolean {
    return [...this.#targets.values()].some(({ upstreams }) => upstreams.some(({ backend }) => backend[verb]));
  }

  hangUp(model: string): HangUp {
    const target = this.#patterns.get(model);
    const own = target?.upstreams[0]?.backend.hangUp;
    return target?.hangUp ?? (typeof own === "function" ? own(target?.upstreams[0]?.model ?? model) : own) ?? "cancel";
  }

  async *chat(request: ChatRequest, call: CallContext): AsyncGenerator<ChatEvent | string> {
    const run = ({ backend, model }: RoutedBackend): AsyncIterable<ChatEvent | string> =>
      backend.chat?.(model === undefined ? request : { ...request, model }, call) ?? nothing();
    for await (const { event, upstream } of this.#attempts.events(this.#upstreams("chat", request.model), run, call)) {
      const isHidden = upstream.model !== undefined && typeof event !== "string";
      yield isHidden ? renamed(event, request.model) : event;
    }
  }

  /** By the first upstream of the model's route: the others have models that need not count alike. */
  async countInputTokens(request: ChatRequest, call: CallContext): Promise<number | undefined> {
    const [{ backend, model = request.model } = {}] = this.#upstreams("chat", request.model);
    return backend?.countInputTokens?.({ ...request, model }, call);
  }

  async *image(request: ImageRequest, call: CallContext): AsyncGenerator<ImageEvent> {
    const run = ({ backend, model }: RoutedBackend): AsyncIterable<ImageEvent> =>
      backend.image?.(model === undefined ? request : { ...request, model }, call) ?? nothing();
    for await (const { event } of this.#attempts.events(this.#upstreams("image", request.model), run, call))
      yield event;
  }

  #upstreams(kind: Kind, model: string): readonly RoutedBackend[] {
    const upstreams = this.#patterns.get(model)?.upstreams.filter(({ backend }) => backend[kind]) ?? [];
    if (upstreams.length > 0) return upstreams;
    throw new GatewayError("model_not_found", `There is no model "${model}".`, { path: ["model"] });
  }

  /** Lists the models; undefined where one of the routes leads to names that nobody lists. */
  get list(): (() => Promise<readonly ModelInfo[]>) | undefined {
    const targets = [...this.#targets];
    const isListed = ([pattern, { upstreams }]: (typeof targets)[number]): boolean =>
      !pattern.endsWith("*") || upstreams.every(({ backend, model }) => backend.models && model === undefined);
    if (!targets.every(isListed)) return undefined;
    return async () => {
      const lists = await Promise.all(targets.map(([pattern, target]) => this.#models(pattern, target)));
      return [...new Map(lists.flat().map((info) => [info.id, info])).values()];
    };
  }

  async #models(pattern: string, { upstreams }: Target): Promise<readonly ModelInfo[]> {
    const lists = await Promise.all(upstreams.map(async ({ backend }) => (await backend.models?.()) ?? []));
    if (pattern.endsWith("*")) {
      const prefix = pattern.slice(0, -1);
      // Another route may have taken a name away.
      return lists.flat().filter(({ id }) => id.startsWith(prefix) && this.#patterns.get(id)?.upstreams === upstreams);
    }
    const infos = lists.flatMap((list, index) => list.filter(({ id }) => id === (upstreams[index]?.model ?? pattern)));
    // What any of them may be asked for: the call may go to each.
    const limits = infos.flatMap(({ maxOutputTokens }) => maxOutputTokens ?? []);
    return [{ ...infos[0], id: pattern, ...(limits.length > 0 && { maxOutputTokens: Math.min(...limits) }) }];
  }
}

/** Shows the observer every breaker. What it throws changes nothing. */
function watchBreakers(observer: RouteOptions["observer"], targets: ReadonlyMap<string, Target>): void {
  if (!observer?.watchBreakers) return;
  const gauges = [...targets].flatMap(([route, { upstreams }]) =>
    upstreams.map(({ name, breaker }, place): BreakerGauge => ({
      route,
      upstream: name ?? String(place),
      get state() {
        return breaker.state;
      },
    })),
  );
  try {
    observer.watchBreakers(gauges);
  } catch {
    // It only looks on.
  }
}

const isRoute = (to: ModelBackend | Route): to is Route => "upstreams" in to;

/** A backend has lost its method since the route was made. */
function nothing(): never {
  throw toGatewayError(new TypeError("The backend has no method for this request."), "model-backend");
}

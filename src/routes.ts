/** The routes of a gateway: finds the endpoint of a request, and answers with it. */

import { GatewayError } from "./errors.ts";
import type { AnyEndpoint, LazyEndpoint, QueryEndpoint } from "./formats/format.ts";
import { type Answer, jsonAnswer, type SocketHandler, toResponse, withoutBody } from "./http/answer.ts";
import { fetched, newRequestId, pathIn, pathOf } from "./http/request.ts";
import { aboveVersion } from "./options.ts";
import { Call, type Mounted } from "./pipeline/call.ts";
import { type Parts, serve } from "./pipeline/pipeline.ts";
import { failureOf } from "./pipeline/reports.ts";
import { idHeaders, refusal } from "./pipeline/respond.ts";
import type { Services } from "./pipeline/services.ts";
import { type Addressed, notFoundBody } from "./wrong-address.ts";

/** The routes of a gateway of `polygate/core` under one prefix. */
export interface CoreRoutes<Context = unknown> {
  /**
   * Answers a request. Answers a route that the gateway does not own with the 404 of `wrongAddress`. It is a `fetch` for SDKs, too: `init` belongs
   * to an address, whose call rejects once the signal of `init` is aborted. Beside a request, where servers pass other values, it is ignored.
   */
  readonly fetch: (input: string | URL | Request, init?: RequestInit | object) => Promise<Response>;
  /** Answers a request. Returns undefined at once for a route that the gateway does not own, so that the host can answer. */
  readonly handle: (request: Request, mounted?: Mounted<Context>) => Promise<Response> | undefined;
  /** Like `handle`, but returns the answer as data, for a mount that writes responses in its runtime's own way. */
  readonly answer: (request: Request, mounted?: Mounted<Context>) => Promise<Answer> | undefined;
  /**
   * Asks for a WebSocket. Resolves with the handler of the connection, for a mount that then switches protocols, or with the answer of a
   * refusal. Returns undefined for a request that asks for none, or for a route without WebSockets.
   */
  readonly connect: (request: Request, mounted?: Mounted<Context>) => Promise<Answer | SocketHandler> | undefined;
  /**
   * Returns an error in the format of the request's route, for middleware that refuses a request before the gateway sees it. Shows a
   * GatewayError as it is, and any other error as an internal error. Returns undefined for a route that the gateway does not own.
   *
   * @example const response = gateway.errorResponse(request, new GatewayError("rate_limited", "Slow down.", { retryAfterMs: 2_000 }));
   */
  readonly errorResponse: (request: Request, error: unknown) => Response | undefined;
}

/** The gateway's routes under one prefix. */
export interface GatewayRoutes<Context = unknown> extends CoreRoutes<Context> {
  /** The h3 app that holds the routes. Mount it in another h3 app. */
  readonly app: GatewayApp;
}

/** An h3 app, as far as an app that mounts it needs it. h3's own type would need the types of h3's optional peers. */
export interface GatewayApp {
  fetch(request: Request): Response | Promise<Response>;
}

/** Tells whether an endpoint accepts WebSockets. */
export const takesSockets = (endpoint: AnyEndpoint): boolean =>
  Boolean((endpoint as LazyEndpoint).takesSockets ?? (endpoint as QueryEndpoint).socket);

/** The endpoints of one path that own a request, and the text in place of the path's wildcard. */
interface Match {
  readonly endpoints: readonly [AnyEndpoint, ...AnyEndpoint[]];
  /** Still percent-encoded; empty for a path without a wildcard. */
  readonly wildcardPath: string;
}

/** Returns the headers that let a browser's page read an answer, and the whole answer to a preflight. */
export type Cors = (request: Request) => { preflight?: Answer; headers: Record<string, string> };

/** The end of a path that matches everything below. */
const BELOW = "/**";

/** The path of an endpoint, and the text in place of its wildcard. */
export interface FoundPath {
  readonly path: string;
  readonly wildcardPath: string;
}

/**
 * Returns a function that finds the route of a written path as h3's router does: ignores one slash at the end, and prefers an exact path.
 * Paths stay as they were written, because a model's name may hold any character.
 */
export function routerOf(paths: readonly string[]): (written: string) => FoundPath | undefined {
  const { exact: exactPaths = [], below = [] } = Object.groupBy(paths, (path) =>
    path.endsWith(BELOW) ? "below" : "exact",
  );
  const exact = new Map(exactPaths.map((path): [string, FoundPath] => [path, { path, wildcardPath: "" }]));
  const roots = below.map((path) => path.slice(0, -BELOW.length));
  return (written) => {
    const path = written.endsWith("/") ? written.slice(0, -1) : written;
    const found = exact.get(path);
    if (found) return found;
    const root = roots.find((one) => path.startsWith(one) && (path.length === one.length || path[one.length] === "/"));
    return root === undefined ? undefined : { path: root + BELOW, wildcardPath: path.slice(root.length + 1) };
  };
}

export class Routes {
  readonly #services: Services;
  readonly #served: Addressed["endpoints"];
  readonly #parts: Parts;
  readonly #cors: Cors | undefined;
  /** The endpoints by their path. Several formats may share a path. */
  readonly #byPath: ReadonlyMap<string, readonly AnyEndpoint[]>;
  readonly #routeOf: (path: string) => FoundPath | undefined;
  #isWarned = false;

  /** @param served The endpoints that do more than refuse their callers. */
  constructor(
    services: Services,
    endpoints: readonly AnyEndpoint[],
    served: Addressed["endpoints"],
    parts: Parts,
    cors: Cors | undefined,
  ) {
    this.#services = services;
    this.#served = served;
    this.#parts = parts;
    this.#cors = cors;
    this.#byPath = Map.groupBy(endpoints, ({ path }) => path);
    this.#routeOf = routerOf(this.paths);
  }

  /** The paths of the endpoints. A path that ends in `/**` matches everything below. */
  get paths(): readonly string[] {
    return [...this.#byPath.keys()];
  }

  /** Returns the routes under a prefix. Throws a TypeError for a prefix that is not a plain path. */
  at(written: string): CoreRoutes {
    const prefix = plainPrefix(written);
    this.#warnOfVersion(prefix);
    const find = (request: Request): Match | undefined => {
      const path = pathIn(request);
      const isBelow = prefix === "" || path?.startsWith(`${prefix}/`);
      const route = path !== undefined && isBelow ? this.#routeOf(path.slice(prefix.length)) : undefined;
      return route && this.#matchOf(route, request);
    };
    const answer = (request: Request, mounted: Mounted = {}): Promise<Answer> | undefined => {
      const match = find(request);
      return match && this.#answer(request, match, mounted, prefix);
    };
    const handle = (request: Request, mounted?: Mounted): Promise<Response> | undefined =>
      answer(request, mounted)?.then(toResponse);
    const fetching = async (request: Request): Promise<Response> =>
      handle(request) ?? toResponse(await this.#wrongAddress(request, prefix));
    return {
      answer,
      handle,
      connect: (request, mounted = {}) => {
        const { acceptSocket } = this.#parts;
        if (!acceptSocket || request.headers.get("upgrade")?.toLowerCase() !== "websocket") return undefined;
        const match = find(request);
        const endpoint = match?.endpoints.find(takesSockets);
        if (!endpoint) return undefined;
        return acceptSocket(this.#services, this.#parts, { endpoint, request, prefix, mounted });
      },
      fetch: (input, init) => fetched(input, init, fetching),
      errorResponse: (request, error) => {
        const match = find(request);
        if (!match) return undefined;
        const refused = this.#refusal(request, match, error);
        const headers = this.#cors?.(request).headers;
        return toResponse(headers ? { ...refused, headers: { ...refused.headers, ...headers } } : refused);
      },
    };
  }

  /** Warns once of a prefix with which every route has two versions: its host has probably written the base URL of OpenAI's SDKs. */
  #warnOfVersion(prefix: string): void {
    const above = aboveVersion(prefix);
    if (above === undefined || this.#isWarned || !this.paths.some((path) => path.startsWith("/v1"))) return;
    this.#isWarned = true;
    const [route = ""] = this.paths;
    globalThis.process?.emitWarning?.(
      `The prefix ${JSON.stringify(prefix)} ends in a version, and the routes of the gateway begin with one, as in ${prefix}${route}. Mount the gateway at ${JSON.stringify(above || "/")}.`,
      "PolygateWarning",
    );
  }

  #matchOf({ path, wildcardPath }: FoundPath, request: Request): Match | undefined {
    const all = this.#byPath.get(path) ?? [];
    const [first, ...others] =
      all.length === 1 && !all[0]?.owns
        ? all
        : all.filter((endpoint) => endpoint.owns?.(wildcardPath, request) ?? true);
    return first && { endpoints: [first, ...others], wildcardPath };
  }

  /**
   * Answers a request that h3 has routed, perhaps under the prefix of another app.
   *
   * @param found h3's text in place of the path's wildcard.
   */
  async answerRouted(
    path: string,
    request: Request & Pick<Mounted, "waitUntil"> & { ip?: string | undefined },
    found = "",
  ): Promise<Response> {
    const written = pathOf(request.url).split("/");
    const matched = path.endsWith(BELOW) ? found : undefined;
    // h3 ignores one slash at the end.
    if (written.at(-1) === "" && matched !== "") written.pop();
    // Count from the end: a prefix may look like a path of the gateway, and h3's own path has other escapes than the written one.
    const tailLength = matched === undefined ? 0 : matched.split("/").length;
    const ownLength = path.replace("/**", "").split("/").length - 1 + tailLength;
    const wildcardPath = written.slice(written.length - tailLength).join("/");
    const match = this.#matchOf({ path, wildcardPath }, request);
    const prefix = written.slice(0, written.length - ownLength).join("/");
    const mounted = { waitUntil: request.waitUntil, clientAddress: request.ip };
    return toResponse(
      await (match ? this.#answer(request, match, mounted, prefix) : this.#wrongAddress(request, prefix)),
    );
  }

  #answer(request: Request, match: Match, mounted: Mounted, prefix: string): Promise<Answer> {
    try {
      const cors = this.#cors?.(request);
      if (cors?.preflight) return Promise.resolve(cors.preflight);
      const method = request.method === "HEAD" ? "GET" : request.method;
      const { endpoints, wildcardPath } = match;
      const endpoint = endpoints.find((candidate) => candidate.method === method);
      const answered = endpoint
        ? serve(new Call(this.#services, { endpoint, request, wildcardPath, prefix, mounted }), this.#parts)
        : Promise.resolve(this.#wrongMethod(request, match));
      // Without CORS and HEAD, a call needs no promise beside the pipeline's.
      return cors || method !== request.method ? answered.then((answer) => adapted(request, answer, cors)) : answered;
    } catch (error) {
      // A function of the host has thrown, such as the one that makes the context.
      return Promise.reject(error);
    }
  }

  /** Tells a client at an address without a route which addresses are right. */
  async #wrongAddress(request: Request, prefix: string): Promise<Answer> {
    const cors = this.#cors?.(request);
    if (cors?.preflight) return cors.preflight;
    const { method, headers } = request;
    const url = pathIn(request) && request.url;
    const id = newRequestId();
    const endpoints = this.#served;
    const body = notFoundBody({ endpoints }, method, url, prefix, (name) => headers.get(name), id);
    return adapted(request, jsonAnswer(404, body, idHeaders(id)), cors);
  }

  #wrongMethod(request: Request, match: Match): Answer {
    const allow = [...new Set(match.endpoints.map(({ method }) => method))];
    const message = `This route takes ${allow.join(" and ")}, not ${request.method}.`;
    return this.#refusal(request, match, new GatewayError("method_not_allowed", message, { allow }));
  }

  /** Refuses a request that reaches no endpoint, in the format of its route. */
  #refusal(request: Request, { endpoints: [endpoint] }: Match, thrown: unknown): Answer {
    const secret = secretOf(request, endpoint);
    const call = { id: newRequestId(), endpoint, services: this.#services, secret };
    return refusal(call, failureOf(call, thrown));
  }
}

/** Returns an answer as a browser gets it, or without its body for a HEAD request. */
function adapted({ method }: Request, answer: Answer, cors: ReturnType<Cors> | undefined): Answer {
  const sent = method === "HEAD" ? withoutBody(answer) : answer;
  return cors ? { ...sent, headers: { ...sent.headers, ...cors.headers } } : sent;
}

/** A path without the characters of h3's patterns. */
const PLAIN_PATH = /^\/[^*:(){}\\]*$/;

/** Returns a prefix without a slash at its end; empty for the root. Throws a TypeError for a prefix that is not a plain path. */
export function plainPrefix(prefix: string): string {
  const isPlain = PLAIN_PATH.test(prefix) && URL.parse(prefix, "http://host")?.pathname === prefix;
  if (prefix !== "" && !isPlain) {
    const question = /^[\w-]+(?:\/[\w-]+)*\/*$/.test(prefix) ? `. Did you mean "/${prefix.replace(/\/+$/, "")}"?` : "";
    throw new TypeError(
      `${JSON.stringify(prefix)} is no prefix: it must be a path as browsers send it, such as "/ai", and hold none of * : ? # ( ) { } \\${question}`,
    );
  }
  return prefix.replace(/\/+$/, "");
}

/** Returns the caller's API key, so that reports can blot it out. */
function secretOf(request: Request, endpoint: AnyEndpoint): string | undefined {
  try {
    return endpoint.credential(request);
  } catch {
    return undefined;
  }
}

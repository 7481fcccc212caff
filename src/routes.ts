/** The routes of a gateway: one h3 app holds them, mounts in other apps, and finds the endpoint of a request. */

import { H3, H3Event, handleCors, type HTTPError } from "h3";
import { GatewayError } from "./errors.ts";
import type { Endpoint } from "./formats/format.ts";
import { type Answer, type CorsOptions, NOT_FOUND, toResponse, withoutBody } from "./http/answer.ts";
import { newRequestId, pathOf } from "./http/request.ts";
import { KINDS } from "./kinds/index.ts";
import { Call, type Mounted } from "./pipeline/call.ts";
import { failureOf } from "./pipeline/failures.ts";
import { serve } from "./pipeline/pipeline.ts";
import { refusal } from "./pipeline/respond.ts";
import type { Services } from "./pipeline/services.ts";

/** The gateway's routes under one prefix. */
export interface GatewayRoutes<Context = unknown> {
  /** Answers a request. Answers a bare 404 for a route that the gateway does not own. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** Answers a request. Returns undefined at once for a route that the gateway does not own, so that the host can answer. */
  readonly handle: (request: Request, mounted?: Mounted<Context>) => Promise<Response> | undefined;
  /** Like `handle`, but returns the answer as data, for a mount that writes responses in its runtime's own way. */
  readonly answer: (request: Request, mounted?: Mounted<Context>) => Promise<Answer> | undefined;
  /**
   * Returns an error in the format of the request's route, for middleware that refuses a request before the gateway sees it. Shows a
   * GatewayError as it is, and any other error as an internal error. Returns undefined for a route that the gateway does not own.
   *
   * @example const response = gateway.errorResponse(request, new GatewayError("rate_limited", "Slow down.", { retryAfterMs: 2_000 }));
   */
  readonly errorResponse: (request: Request, error: unknown) => Response | undefined;
  /** The h3 app that holds the routes. Mount it in another h3 app. */
  readonly app: GatewayApp;
}

/** An h3 app, as far as an app that mounts it needs it. h3's own type would need the types of h3's optional peers. */
export interface GatewayApp {
  fetch(request: Request): Response | Promise<Response>;
}

/** The endpoints of one path that own a request, and the text in place of the path's wildcard. */
interface Match {
  readonly endpoints: readonly [Endpoint, ...Endpoint[]];
  /** Still percent-encoded; empty for a path without a wildcard. */
  readonly wildcardPath: string;
}

const H3_OPTIONS = {
  silent: true,
  allowMalformedURL: true,
  // The default answer to an unknown route repeats the request's URL, which may hold a key.
  onError: (error: HTTPError) => (error.status === 404 ? toResponse(NOT_FOUND) : undefined),
} as const;

export class Routes {
  readonly #app = new H3(H3_OPTIONS);
  readonly #services: Services;
  readonly #cors: CorsOptions | undefined;
  /** The endpoints by their path. Several formats may share a path. */
  readonly #byPath: ReadonlyMap<string, readonly Endpoint[]>;

  constructor(services: Services, endpoints: readonly Endpoint[], cors: CorsOptions | undefined) {
    this.#services = services;
    this.#cors = cors;
    this.#byPath = Map.groupBy(endpoints, ({ path }) => path);
    for (const path of this.#byPath.keys()) this.#app.all(path, (event) => this.#handleEvent(path, event));
  }

  /** Returns the routes under a prefix. Throws a RangeError for a prefix that is not a plain path. */
  at(written: string): GatewayRoutes {
    const prefix = plainPrefix(written);
    const find = (request: Request): Match | undefined => {
      const path = pathOf(request.url);
      if (prefix === "") return this.#find(path, request);
      return path.startsWith(`${prefix}/`) ? this.#find(path.slice(prefix.length), request) : undefined;
    };
    const answer = (request: Request, mounted: Mounted = {}): Promise<Answer> | undefined => {
      const match = find(request);
      return match && this.#answer(request, match, mounted, prefix);
    };
    const handle = (request: Request, mounted?: Mounted): Promise<Response> | undefined =>
      answer(request, mounted)?.then(toResponse);
    return {
      answer,
      handle,
      fetch: async (request) => handle(request) ?? toResponse(NOT_FOUND),
      errorResponse: (request, error) => {
        const match = find(request);
        if (!match) return undefined;
        const refused = this.#refusal(request, match, error);
        const headers = this.#cors && corsOf(request, this.#cors).headers;
        return toResponse(headers ? { ...refused, headers: { ...refused.headers, ...headers } } : refused);
      },
      app: prefix === "" ? this.#app : new H3(H3_OPTIONS).mount(prefix, this.#app),
    };
  }

  /**
   * Asks the h3 app for the route of a path. Only for the route: h3's own events and responses cost a tenth of a call
   * (`npm run bench` has both), and they normalize paths, where a model's name must stay as it was written.
   */
  #find(path: string, request: Request): Match | undefined {
    const event = { req: { method: request.method }, url: { pathname: path } } as H3Event;
    const found = this.#app["~findRoute"](event);
    return found ? this.#matchOf(found.data.route ?? "", found.params?.["_"] ?? "", request) : undefined;
  }

  #matchOf(path: string, wildcardPath: string, request: Request): Match | undefined {
    const all = this.#byPath.get(path) ?? [];
    const [first, ...others] =
      all.length === 1 && !all[0]?.owns
        ? all
        : all.filter((endpoint) => endpoint.owns?.(wildcardPath, request) ?? true);
    return first && { endpoints: [first, ...others], wildcardPath };
  }

  /** Answers a request that h3 has routed, perhaps under the prefix of another app. */
  async #handleEvent(path: string, { req, context }: H3Event): Promise<Response> {
    const written = pathOf(req.url).split("/");
    const matched = path.endsWith("**") ? (context.params?.["_"] ?? "") : undefined;
    // h3 ignores one slash at the end.
    if (written.at(-1) === "" && matched !== "") written.pop();
    // Count from the end: a prefix may look like a path of the gateway, and h3's own path has other escapes than the written one.
    const tailLength = matched === undefined ? 0 : matched.split("/").length;
    const ownLength = path.replace("/**", "").split("/").length - 1 + tailLength;
    const wildcardPath = written.slice(written.length - tailLength).join("/");
    const match = this.#matchOf(path, wildcardPath, req);
    if (!match) return toResponse(NOT_FOUND);
    const prefix = written.slice(0, written.length - ownLength).join("/");
    return toResponse(await this.#answer(req, match, mountedBy(req), prefix));
  }

  #answer(request: Request, match: Match, mounted: Mounted, prefix: string): Promise<Answer> {
    try {
      // Without CORS and HEAD, a call needs no promise beside the pipeline's.
      if (this.#cors || request.method === "HEAD") return this.#adapted(request, match, mounted, prefix, this.#cors);
      return this.#byMethod(request, match, mounted, prefix);
    } catch (error) {
      // A function of the host has thrown, such as the one that makes the context.
      return Promise.reject(error);
    }
  }

  /** Answers a browser or a HEAD request. */
  async #adapted(
    request: Request,
    match: Match,
    mounted: Mounted,
    prefix: string,
    options: CorsOptions | undefined,
  ): Promise<Answer> {
    const cors = options && corsOf(request, options);
    if (cors?.preflight) return cors.preflight;
    const answer = await this.#byMethod(request, match, mounted, prefix);
    const sent = request.method === "HEAD" ? withoutBody(answer) : answer;
    return cors ? { ...sent, headers: { ...sent.headers, ...cors.headers } } : sent;
  }

  #byMethod(request: Request, match: Match, mounted: Mounted, prefix: string): Promise<Answer> {
    const method = request.method === "HEAD" ? "GET" : request.method;
    const endpoint = match.endpoints.find((candidate) => candidate.method === method);
    if (endpoint)
      return serve(
        new Call(this.#services, { endpoint, request, wildcardPath: match.wildcardPath, prefix, mounted }),
        KINDS,
      );
    const allow = [...new Set(match.endpoints.map((candidate) => candidate.method))];
    const message = `This route takes ${allow.join(" and ")}, not ${request.method}.`;
    return Promise.resolve(this.#refusal(request, match, new GatewayError("method_not_allowed", message, { allow })));
  }

  /** Refuses a request that reaches no endpoint, in the format of its route. */
  #refusal(request: Request, { endpoints: [endpoint] }: Match, thrown: unknown): Answer {
    const secret = secretOf(request, endpoint);
    const call = { id: newRequestId(), endpoint, rates: [], services: this.#services, secret };
    return refusal(call, failureOf(call, thrown));
  }
}

/** A path without the characters of h3's patterns. */
const PLAIN_PATH = /^\/[^*:(){}\\]*$/;

/** Returns a prefix without a slash at its end; empty for the root. Throws a RangeError for a prefix that is not a plain path. */
function plainPrefix(prefix: string): string {
  const isPlain = PLAIN_PATH.test(prefix) && URL.parse(prefix, "http://host")?.pathname === prefix;
  if (prefix !== "" && !isPlain)
    throw new RangeError(
      `${JSON.stringify(prefix)} is no prefix: it must be a path as browsers send it, such as "/ai", and hold none of * : ? # ( ) { } \\`,
    );
  return prefix.replace(/\/+$/, "");
}

/** Returns the caller's API key, so that reports can blot it out. */
function secretOf(request: Request, endpoint: Endpoint): string | undefined {
  try {
    return endpoint.credential(request);
  } catch {
    return undefined;
  }
}

/** Reads what a server such as h3's has put on its request. */
const mountedBy = ({ waitUntil, ip }: { waitUntil?: Mounted["waitUntil"]; ip?: string | undefined }): Mounted => ({
  waitUntil,
  clientAddress: ip,
});

/** Applies h3's CORS rules: returns the whole answer to a preflight, and headers for any other request. */
function corsOf(request: Request, options: CorsOptions): { preflight?: Answer; headers: Record<string, string> } {
  const event = new H3Event(request);
  const preflight = handleCors(event, options);
  const headers = Object.fromEntries(event.res.headers);
  return preflight ? { preflight: { status: preflight.status ?? 204, headers, body: null }, headers } : { headers };
}

/** Adds the header `Idempotency-Key` to the headers that a page may send. */
export function allowingRetries(options: CorsOptions): CorsOptions {
  const { allowHeaders } = options;
  const isAllowed = !Array.isArray(allowHeaders) || allowHeaders.some((name) => /^(?:\*|idempotency-key)$/i.test(name));
  return isAllowed ? options : { ...options, allowHeaders: [...allowHeaders, "Idempotency-Key"] };
}

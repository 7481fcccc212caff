/** createGateway: the endpoints of every dialect, ready to be mounted. */

import { H3, H3Event, handleCors, type HTTPError } from "h3";
import type { Endpoint } from "./dialects/dialect.ts";
import { type DialectOptions, dialects, imageAliases } from "./dialects/index.ts";
import { pathOf } from "./http/address.ts";
import { type Answer, NOT_FOUND, toResponse, withoutBody } from "./http/answer.ts";
import type { CorsOptions } from "./http/cors.ts";
import { BodyRoom } from "./http/body-room.ts";
import { newRequestId } from "./http/request-id.ts";
import { type Limits, resolveLimits } from "./limits.ts";
import { ExhaustedKeys } from "./line/exhausted-keys.ts";
import { Call, type Mounted } from "./line/call.ts";
import { failureOf } from "./line/failure.ts";
import { InFlightCalls } from "./line/in-flight.ts";
import { serve } from "./line/line.ts";
import { refusal } from "./line/respond.ts";
import type { Services } from "./line/services.ts";
import { Settlements } from "./line/settlements.ts";
import { quietly } from "./line/watch.ts";
import { type ImagePrice, imagePriceTable } from "./metering/image-price.ts";
import { type CountTokens, countTokensByScript } from "./metering/count-tokens.ts";
import { type Price, tokenPrice } from "./metering/price.ts";
import { type Clock, systemClock } from "./ports/clock.ts";
import type { CodeRunner } from "./ports/code-runner.ts";
import type { ModelBackend } from "./ports/model-backend.ts";
import type { GatewayGauges, Observer } from "./ports/call-observer.ts";
import type { CallRecord, Failure, OnFailure } from "./ports/observer.ts";
import type { QuotaStore } from "./ports/quota-store.ts";
import type { RateLimiter } from "./ports/rate-limiter.ts";
import type { ReplayStore } from "./ports/replay-store.ts";
import { SharedRoom } from "./ports/shared-room.ts";
import { beforeOwn, below, checkedPrefix, endpointFor, methodNotAllowed, type Route, Routes } from "./routes.ts";
import { memoryImageStore } from "./stores/memory-images.ts";

/** The ports that a host injects, and the options that it may set. */
export interface GatewayOptions<Context = unknown> extends DialectOptions {
  /** What answers. */
  readonly backend: ModelBackend<Context>;
  /** Where api keys and their quota live. */
  readonly quotas: QuotaStore<Context>;
  /** How often a key may call. Default: as often as it likes. */
  readonly rateLimiter?: RateLimiter<Context>;
  /**
   * What becomes of calls where the rate limiter fails, or takes longer than `limits.storeTimeoutMs`: `closed` (default) refuses
   * them with 503, `open` lets them through. Either way `onFailure` is told.
   */
  readonly rateLimiterDown?: "closed" | "open";
  /**
   * Keeps answers for callers who repeat a request under the same `Idempotency-Key`, so that a retry costs neither a call of the
   * backend nor quota. Default: the header means nothing.
   */
  readonly replayStore?: ReplayStore<Context>;
  /**
   * What becomes of calls with an `Idempotency-Key` where the replay store fails, or takes longer than `limits.storeTimeoutMs`:
   * `closed` (default) refuses them with 503, `open` serves them; a repetition may then be charged again. Either way `onFailure`
   * is told.
   */
  readonly replayStoreDown?: "closed" | "open";
  /**
   * What becomes of a repetition while another process still answers the first call: `wait` (default) for its answer, or `refuse`
   * with 409 and a retry-after. In the same process it always follows the first call, a stream as it comes.
   */
  readonly replayInFlight?: "wait" | "refuse";
  /** Runs code that a model wrote, for backends that cannot (`CallContext.runCode`). */
  readonly codeRunner?: CodeRunner;
  /** What a chat call costs in quota units. Default: one unit a token. */
  readonly price?: Price;
  /** What a picture costs in quota units. Default: `imagePriceTable`, by model, size and quality. */
  readonly imagePrice?: ImagePrice;
  /** How tokens are estimated where the backend has not counted them. Default: `countTokensByScript`, within 30 % of a real tokenizer. */
  readonly countTokens?: CountTokens;
  /**
   * Who counts the input before quota is held for a chat call: the gateway, by `estimate` (default), or the `backend`, whose
   * `countInputTokens` is asked first. Where that is missing, cannot say or fails, the estimate stands in, and `onFailure` is told of a
   * failure. It costs a request of the upstream for each call.
   */
  readonly countInput?: "estimate" | "backend";
  /** Overrides of `DEFAULT_LIMITS`. */
  readonly limits?: Partial<Limits>;
  /** Told of every failure whose inside the caller is not shown. What it throws is dropped. Default: prints it to standard error. */
  readonly onFailure?: OnFailure;
  /**
   * Told of every call once, when it has ended and is settled (or the store has taken longer than `limits.storeTimeoutMs` for that),
   * however it ended; also of one that was refused before its key was known. A request that reaches no endpoint (a method that its
   * route does not take, a preflight) is no call. It is called between calls' own work: do not block in it. What it throws, or
   * rejects with, is dropped.
   */
  onCall?(record: CallRecord<Context>): unknown;
  /**
   * Watches calls while they run, for traces and metrics: `openTelemetry()` of `polygate/telemetry`, or one of the host's own. What
   * it throws is dropped. Default: none, at no cost.
   */
  readonly observer?: Observer<Context>;
  /** Which pages of a browser may call the gateway. Default: none is told that it may. */
  readonly cors?: CorsOptions;
  /** Default: the machine's own. */
  readonly clock?: Clock;
}

/** What every adapter takes. */
export interface MountOptions {
  /**
   * Under which path the gateway stands, where its host does not take that path off by itself: `/ai`. A plain path that begins with a
   * slash; anything else is a RangeError. Default: the root.
   */
  readonly prefix?: string;
}

/** The gateway's routes at one place. */
export interface GatewayRoutes<Context = unknown> {
  /** Answers a request; one for a route that the gateway does not own is a bare 404. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** The same, but undefined, at once, for a route that the gateway does not own, so that its host can answer. */
  readonly handle: (request: Request, mounted?: Mounted<Context>) => Promise<Response> | undefined;
  /** The same as data, for a mount that writes it in its runtime's own way. */
  readonly answer: (request: Request, mounted?: Mounted<Context>) => Promise<Answer> | undefined;
  /**
   * An error in the format of the request's route, for middleware that refuses a call before it reaches the gateway. A GatewayError
   * is told as it is, anything else as an internal error; undefined for a route that the gateway does not own.
   *
   * @example const response = gateway.errorResponse(request, new GatewayError("rate_limited", "Slow down.", { retryAfterMs: 2_000 }));
   */
  readonly errorResponse: (request: Request, error: unknown) => Response | undefined;
  /** The h3 app that holds the routes, for another h3 app to mount. */
  readonly app: GatewayApp;
}

/** An h3 app, as the app that mounts it asks for it. h3's own type would need the types of its optional peers. */
export interface GatewayApp {
  fetch(request: Request): Response | Promise<Response>;
}

/** An endpoint of a gateway, as its format declares it. */
export interface GatewayEndpoint {
  /** The format's name: `messages`, `generate-content`, `chat-completions`, `images`, `token-usage`. */
  readonly format: string;
  /** What answers: a chat or an image model, the gateway itself, or, of pictures, without a key. */
  readonly kind: Endpoint["kind"];
  readonly method: "GET" | "POST";
  /** Relative to where the gateway is mounted; one that ends in `/**` takes all that is below. Endpoints may share a path. */
  readonly path: string;
}

/** A gateway, ready to be mounted. */
export interface Gateway<Context = unknown> extends GatewayRoutes<Context> {
  /** What the gateway owns. It depends on what its backend can do. */
  readonly endpoints: readonly GatewayEndpoint[];
  /** The options of the single formats, as the host gave them. */
  readonly formats: DialectOptions;
  /**
   * The same gateway under a prefix, for a host that hands on the whole address. Throws a RangeError for a prefix that is no plain
   * path.
   */
  readonly at: (prefix: string) => GatewayRoutes<Context>;
  /**
   * Closes the gateway: new calls are refused with 503 and a retry-after, live ones may end. Those that have not ended after
   * `deadlineMs` milliseconds (default 10,000) are cut. Settlements that wait for a store that failed are retried for as long; `onFailure`
   * is told of each that is left then, in `unsettled`. Resolves when the last call has ended, and nothing waits or the time is over: half a
   * minute after `deadlineMs` at most.
   */
  readonly close: (options?: { readonly deadlineMs?: number }) => Promise<void>;
}

/**
 * Makes a gateway.
 *
 * @throws RangeError when a limit is no positive integer.
 * @example const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]) });
 */
export function createGateway<Context = unknown>(options: GatewayOptions<Context>): Gateway<Context> {
  const services = servicesOf(options);
  const owned = endpointsOf(options, services);
  const routes = new Routes(owned.map(({ endpoint }) => endpoint));
  const cors = options.cors && (services.replays ? allowingRetries(options.cors) : options.cors);
  const at = (prefix: string): GatewayRoutes => new RoutesAt(services, routes, cors, prefix);
  const forget = quietly(() => options.observer?.watchGateway?.(gaugesOf(services)));
  return {
    ...at(""),
    at,
    endpoints: owned.map(({ format, endpoint: { kind, method, path } }) => ({ format, kind, method, path })),
    formats: {
      ...(options.messages && { messages: options.messages }),
      ...(options.images && { images: options.images }),
    },
    close: ({ deadlineMs = CLOSE_MS } = {}) => {
      const callsEnded = services.inFlight.close(deadlineMs);
      return services.settlements.close(callsEnded, deadlineMs).finally(() => quietly(() => forget?.()));
    },
  };
}

/** How long live calls may take to end once the gateway closes, in milliseconds. */
const CLOSE_MS = 10_000;

const VERBS = ["find", "balance", "reserve", "renew", "settle"] as const satisfies readonly (keyof QuotaStore)[];

/** Throws a TypeError for a backend or a store that is none: a class that was spread has lost its methods. */
function assertPorts({ backend, quotas }: Partial<GatewayOptions>): void {
  if (!backend || !["object", "function"].includes(typeof backend))
    throw new TypeError("createGateway: backend must be a ModelBackend.");
  for (const verb of VERBS)
    if (typeof quotas?.[verb] !== "function")
      throw new TypeError(
        `createGateway: quotas must be a QuotaStore, and has no ${verb}(). A store that is spread loses its methods.`,
      );
}

function servicesOf(options: GatewayOptions): Services {
  assertPorts(options);
  const { clock = systemClock } = options;
  const limits = resolveLimits(options.limits);
  const { quotas, onFailure = printFailure } = options;
  return {
    backend: options.backend,
    codeRunner: options.codeRunner,
    quotas,
    rateLimiter: options.rateLimiter,
    rateLimiterDown: options.rateLimiterDown ?? "closed",
    replays: options.replayStore && {
      store: options.replayStore,
      down: options.replayStoreDown ?? "closed",
      elsewhere: options.replayInFlight ?? "wait",
      running: new Map(),
    },
    price: options.price ?? tokenPrice,
    imagePrice: options.imagePrice ?? imagePriceTable,
    countTokens: options.countTokens ?? countTokensByScript,
    countInput: options.countInput ?? "estimate",
    limits,
    clock,
    onFailure,
    onCall: options.onCall && ((record) => options.onCall?.(record)),
    observer: options.observer,
    isRecorded: options.onCall !== undefined || options.observer !== undefined,
    aliasesOf: imageAliases(options.images),
    inFlight: new InFlightCalls(
      clock,
      limits.deadlineMs,
      // A host that sets only the room leaves each key half of it.
      new SharedRoom(limits.maxCallsInFlight, options.limits?.maxCallsPerKey),
    ),
    settlements: new Settlements({ quotas, clock, limits, onFailure }),
    bodies: new BodyRoom(limits.maxBodyBytesInFlight, limits.maxBodyBytesPerKey),
    exhausted: new ExhaustedKeys(clock),
    breakers: new Map(),
  };
}

const gaugesOf = ({ inFlight, settlements, bodies }: Services): GatewayGauges => ({
  get calls() {
    return inFlight.size;
  },
  get waitingSettlements() {
    return settlements.size;
  },
  get bodies() {
    return bodies.bodies;
  },
  get bodyBytes() {
    return bodies.takenBytes;
  },
});

/** The endpoints that the backend can serve. */
function endpointsOf(
  options: GatewayOptions,
  { backend, clock, limits }: Services,
): { format: string; endpoint: Endpoint }[] {
  const imageStore = options.images?.store ?? memoryImageStore({ clock });
  return dialects(options, { imageStore, clock, limits })
    .flatMap(({ name, endpoints }) => endpoints.map((endpoint) => ({ format: name, endpoint })))
    .filter(({ endpoint: { kind } }) => {
      if (kind === "chat") return backend.chat !== undefined;
      // Where no pictures are drawn, none have addresses.
      return kind === "query" || backend.image !== undefined;
    });
}

/** A gateway's routes under a prefix. */
class RoutesAt implements GatewayRoutes {
  readonly app: H3;
  readonly #services: Services;
  readonly #routes: Routes;
  readonly #cors: CorsOptions | undefined;
  readonly #prefix: string;

  constructor(services: Services, routes: Routes, cors: CorsOptions | undefined, prefix: string) {
    this.#services = services;
    this.#routes = routes;
    this.#cors = cors;
    this.#prefix = checkedPrefix(prefix);
    this.app = this.#appOf();
  }

  readonly fetch = async (request: Request): Promise<Response> => this.handle(request) ?? toResponse(NOT_FOUND);

  readonly handle = (request: Request, mounted?: Mounted): Promise<Response> | undefined =>
    this.answer(request, mounted)?.then(toResponse);

  readonly answer = (request: Request, mounted: Mounted = {}): Promise<Answer> | undefined => {
    const route = this.#find(request);
    return route && this.#answer(request, route, mounted, this.#prefix);
  };

  readonly errorResponse = (request: Request, error: unknown): Response | undefined => {
    const route = this.#find(request);
    if (!route) return undefined;
    const refused = this.#refusal(request, route, error);
    const headers = this.#cors && corsOf(request, this.#cors).headers;
    return toResponse(headers ? { ...refused, headers: { ...refused.headers, ...headers } } : refused);
  };

  #find(request: Request): Route | undefined {
    const path = below(this.#prefix, pathOf(request.url));
    return path === undefined ? undefined : this.#routes.find(path, request);
  }

  #answer(request: Request, route: Route, mounted: Mounted, prefix: string): Promise<Answer> {
    try {
      // Most are answered by the line alone, which needs no promise beside its own.
      if (this.#cors || request.method === "HEAD") return this.#adapted(request, route, mounted, prefix);
      return this.#byEndpoint(request, route, mounted, prefix);
    } catch (error) {
      // What a function of the host's throws, such as the one that makes its context.
      return Promise.reject(error);
    }
  }

  /** The answer as a browser or a HEAD request needs it. */
  async #adapted(request: Request, route: Route, mounted: Mounted, prefix: string): Promise<Answer> {
    const cors = this.#cors && corsOf(request, this.#cors);
    if (cors?.preflight) return cors.preflight;
    const answer = await this.#byEndpoint(request, route, mounted, prefix);
    const sent = request.method === "HEAD" ? withoutBody(answer) : answer;
    return cors ? { ...sent, headers: { ...sent.headers, ...cors.headers } } : sent;
  }

  /** The answer of the route's endpoint, where it has one for the method. */
  #byEndpoint(request: Request, route: Route, mounted: Mounted, prefix: string): Promise<Answer> {
    const endpoint = endpointFor(route, request.method);
    if (endpoint) return serve(new Call(this.#services, { endpoint, request, tail: route.tail, prefix, mounted }));
    return Promise.resolve(this.#refusal(request, route, methodNotAllowed(route, request.method)));
  }

  /** The answer to a request that reaches no endpoint, in the format of its route. */
  #refusal(request: Request, { endpoints: [endpoint] }: Route, thrown: unknown): Answer {
    const secret = secretOf(request, endpoint);
    const call = { id: newRequestId(), endpoint, rates: [], services: this.#services, secret };
    return refusal(call, failureOf(call, thrown));
  }

  /** The same routes as an h3 app: h3 finds them when it is mounted in another app. */
  #appOf(): H3 {
    const app = new H3({
      silent: true,
      allowMalformedURL: true,
      // h3 itself would answer an unknown route with the request's URL in the body, and a URL may carry a key.
      onError: (error: HTTPError) => (error.status === 404 ? toResponse(NOT_FOUND) : undefined),
    });
    for (const path of this.#routes.byPath.keys())
      app.all(`${this.#prefix}${path}`, async ({ req, url, context }) => {
        const whole = pathOf(req.url);
        const own = path.replace(/\*\*$/, () => context.params?.["_"] ?? "");
        const prefix = beforeOwn(own, url.pathname, whole);
        const route = this.#routes.find(whole.slice(prefix.length), req);
        return route ? toResponse(await this.#answer(req, route, mountedBy(req), prefix)) : toResponse(NOT_FOUND);
      });
    return app;
  }
}

/** The caller's api key, so that no report holds it. */
function secretOf(request: Request, endpoint: Endpoint): string | undefined {
  try {
    return endpoint.credential(request);
  } catch {
    return undefined;
  }
}

/** What a server such as h3's has put on its request. */
const mountedBy = ({ waitUntil, ip }: { waitUntil?: Mounted["waitUntil"]; ip?: string | undefined }): Mounted => ({
  waitUntil,
  clientAddress: ip,
});

/** The same rules, and the header with which a page makes a request that it may repeat. */
function allowingRetries(options: CorsOptions): CorsOptions {
  const { allowHeaders } = options;
  const isAllowed = !Array.isArray(allowHeaders) || allowHeaders.some((name) => /^(?:\*|idempotency-key)$/i.test(name));
  return isAllowed ? options : { ...options, allowHeaders: [...allowHeaders, "Idempotency-Key"] };
}

/** What h3's rules say of a request: the whole answer to a preflight, headers for any other. */
function corsOf(request: Request, options: CorsOptions): { preflight?: Answer; headers: Record<string, string> } {
  const event = new H3Event(request);
  const preflight = handleCors(event, options);
  const headers = Object.fromEntries(event.res.headers);
  return preflight ? { preflight: { status: preflight.status ?? 204, headers, body: null }, headers } : { headers };
}

const printFailure = ({ error, requestId, text }: Failure): void =>
  console.error(`polygate: ${requestId} failed (${error.code})\n${text}`);

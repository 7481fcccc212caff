/** createGateway: the endpoints of every dialect on one H3 app. */

import {
  type CorsOptions,
  type EventHandler,
  H3,
  type H3Event,
  type H3EventContext,
  handleCors,
  type HTTPError,
} from "h3";
import type { Endpoint } from "./dialects/dialect.ts";
import { type DialectOptions, dialects } from "./dialects/index.ts";
import { GatewayError } from "./errors.ts";
import { LiveCalls } from "./http/live-calls.ts";
import { type Limits, resolveLimits } from "./limits.ts";
import { type ImagePrice, imagePriceTable } from "./metering/image-price.ts";
import { type CountTokens, countTokensByBytes } from "./metering/estimate.ts";
import { type Price, tokenPrice } from "./metering/price.ts";
import { type Failure, type Host, serve } from "./pipeline.ts";
import { type Clock, systemClock } from "./ports/clock.ts";
import type { Keep } from "./ports/keep.ts";
import type { CodeRunner } from "./ports/code-runner.ts";
import type { ModelBackend } from "./ports/model-backend.ts";
import type { QuotaStore } from "./ports/quota-store.ts";
import { memoryImageStore } from "./stores/memory-images.ts";

/** What a host injects, and what it may set. */
export interface GatewayOptions extends DialectOptions {
  /** What answers. */
  readonly backend: ModelBackend;
  /** Where api keys and their quota live. */
  readonly quotas: QuotaStore;
  /** Runs code that a model wrote, for backends that cannot (`CallContext.runCode`). */
  readonly codeRunner?: CodeRunner;
  /** What a chat call costs in quota units. Default: one unit a token. */
  readonly price?: Price;
  /** What a picture costs in quota units. Default: `imagePriceTable`, by model, size and quality. */
  readonly imagePrice?: ImagePrice;
  /** How tokens are estimated where the backend has not counted them. Default: a token for every four bytes. */
  readonly countTokens?: CountTokens;
  /** Overrides of `DEFAULT_LIMITS`. */
  readonly limits?: Partial<Limits>;
  /** Told of every failure whose inside the caller is not shown. Default: prints it to standard error. */
  readonly onFailure?: (failure: Failure) => void;
  /** Which pages of a browser may call the gateway, by h3's own rules. Default: none is told that it may. */
  readonly cors?: CorsOptions;
  /** Default: the machine's own. */
  readonly clock?: Clock;
}

/** What an adapter knows of where the gateway is mounted, and a request does not say. */
export interface Mounted {
  /** What the host has taken off the beginning of the request's path, such as `/ai`. */
  readonly path?: string;
  /**
   * For a runtime that stops all work for a client who is gone, as Workers do: is given what must be done nevertheless, such as
   * the settlement. Default: the request's own `waitUntil`, where a server such as h3's has put one.
   */
  readonly waitUntil?: Keep | undefined;
}

/** What every adapter takes. */
export interface MountOptions {
  /** Under which path the gateway stands, where its host does not take that path off by itself: `/ai`. Default: the root. */
  readonly prefix?: string;
}

/** The gateway's routes at one place. */
export interface GatewayRoutes {
  /** Answers a request; one for a route that the gateway does not own is a bare 404. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** The same, but undefined, at once, for a route that the gateway does not own, so that its host can answer. */
  readonly handle: (request: Request, mounted?: Mounted) => Promise<Response> | undefined;
  /** The app that holds the routes, to mount in another h3 app. */
  readonly app: H3;
}

/** A gateway, ready to be mounted. */
export interface Gateway extends GatewayRoutes {
  /** The same gateway under a prefix, for a host that hands on the whole address. */
  readonly at: (prefix: string) => GatewayRoutes;
  /**
   * Closes the gateway: new calls are refused with 503 and a retry-after, live ones may end. Those that have not ended after
   * `deadlineMs` milliseconds (default 10,000) are cut. Resolves when the last one is settled, or half a minute later at most.
   */
  readonly close: (options?: { readonly deadlineMs?: number }) => Promise<void>;
}

/**
 * Makes a gateway.
 *
 * @throws RangeError when a limit is no positive integer.
 * @example const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]) });
 */
export function createGateway(options: GatewayOptions): Gateway {
  const { clock = systemClock, cors } = options;
  const limits = resolveLimits(options.limits);
  const host: Host = {
    backend: options.backend,
    codeRunner: options.codeRunner,
    quotas: options.quotas,
    price: options.price ?? tokenPrice,
    imagePrice: options.imagePrice ?? imagePriceTable,
    countTokens: options.countTokens ?? countTokensByBytes,
    limits,
    clock,
    onFailure: options.onFailure ?? printFailure,
    calls: new LiveCalls(clock, limits.deadlineMs),
  };
  const app = newApp();
  for (const [path, endpoints] of byPath(options, host)) app.all(path, (event) => route(host, endpoints, event, cors));
  return {
    ...routesOf(app),
    at: (prefix) => routesOf(newApp().mount(prefix, app)),
    close: ({ deadlineMs = CLOSE_MS } = {}) => host.calls.close(deadlineMs),
  };
}

/** How long live calls may take to end once the gateway closes, in milliseconds. */
const CLOSE_MS = 10_000;

const notFound = (): Response => new Response(null, { status: 404 });

const newApp = (): H3 =>
  new H3({
    silent: true,
    allowMalformedURL: true,
    // h3 itself would answer an unknown route with the request's URL in the body, and a URL may carry a key.
    onError: (error: HTTPError) => (error.status === 404 ? notFound() : undefined),
  });

function routesOf(app: H3): GatewayRoutes {
  const handle = (request: Request, mounted?: Mounted): Promise<Response> | undefined => {
    const context: H3EventContext = { mounted };
    let response: Response | Promise<Response>;
    try {
      response = app.request(request, undefined, context);
    } catch (error) {
      if (URL.canParse(request.url)) throw error;
      // An address that cannot be one is nobody's route.
      return undefined;
    }
    // h3 looks for the route before it returns, and notes here that it has found one.
    return context.matchedRoute && !context["notOwned"] ? Promise.resolve(response) : undefined;
  };
  return { app, handle, fetch: async (request) => handle(request) ?? notFound() };
}

/** The endpoints that the backend can serve, those of one path together. */
function byPath(options: GatewayOptions, { clock, limits }: Host): Map<string, Endpoint[]> {
  const paths = new Map<string, Endpoint[]>();
  const imageStore = options.images?.store ?? memoryImageStore({ clock });
  for (const dialect of dialects(options, { imageStore, clock, limits }))
    for (const endpoint of dialect.endpoints) {
      if (endpoint.kind === "chat" && !options.backend.chat) continue;
      // Where no pictures are drawn, none have addresses.
      if ((endpoint.kind === "image" || endpoint.kind === "open") && !options.backend.image) continue;
      const sharing = paths.get(endpoint.path);
      if (sharing) sharing.push(endpoint);
      else paths.set(endpoint.path, [endpoint]);
    }
  return paths;
}

function route(
  host: Host,
  endpoints: readonly Endpoint[],
  event: H3Event,
  cors: CorsOptions | undefined,
): ReturnType<EventHandler> {
  const { req, context } = event;
  const tail = context.params?.["_"] ?? "";
  const [first, ...others] = endpoints.filter((endpoint) => endpoint.owns?.(tail) ?? true);
  if (!first) {
    context["notOwned"] = true;
    return notFound();
  }
  const preflight = cors && handleCors(event, cors);
  if (preflight) return preflight;
  const method = req.method === "HEAD" ? "GET" : req.method;
  const endpoint =
    [first, ...others].find((candidate) => candidate.method === method) ??
    methodNotAllowed([first, ...others], req.method);
  const mounted = context["mounted"] as Mounted | undefined;
  return serve(host, endpoint, {
    request: req,
    tail,
    baseUrl: () => baseUrlOf(req, endpoint.path, mounted),
    waitUntil: mounted?.waitUntil ?? req.waitUntil,
  });
}

/** The address that a request came to, without the path of its route. */
function baseUrlOf({ url }: Request, path: string, mounted: Mounted | undefined): string {
  const { origin, pathname: whole } = new URL(url);
  const pathname = whole.replace(/\/+$/, "");
  const prefix = pathname.endsWith(path) ? pathname.slice(0, -path.length) : "";
  return `${origin}${mounted?.path ?? ""}${prefix}`;
}

/** An endpoint of the path's own format that refuses whatever comes. */
function methodNotAllowed([first, ...others]: readonly [Endpoint, ...Endpoint[]], method: string): Endpoint {
  const allow = [first, ...others].map((endpoint) => endpoint.method);
  const error = new GatewayError("method_not_allowed", `This route takes ${allow.join(" and ")}, not ${method}.`, {
    allow,
  });
  const refuse = async (): Promise<never> => {
    throw error;
  };
  return { ...first, kind: "open", answer: refuse };
}

const printFailure = ({ error, requestId, text }: Failure): void =>
  console.error(`polygate: ${requestId} failed (${error.code})\n${text}`);

/** createGateway: assembles a gateway from the host's ports and options. */

import type { Endpoint } from "./formats/format.ts";
import { imageAliases } from "./formats/images/index.ts";
import { type FormatOptions, formats } from "./formats/index.ts";
import type { CorsOptions } from "./http/answer.ts";
import { BodyRoom } from "./http/body-room.ts";
import { type Price, tokenPrice } from "./kinds/chat/price.ts";
import { type CountTokens, countTokensByScript } from "./kinds/count-tokens.ts";
import { type ImagePrice, imagePriceTable } from "./kinds/image/meter.ts";
import { type Limits, resolveLimits } from "./limits.ts";
import { assertOptions, hasMethod, lacking, type Shapes } from "./options.ts";
import { ExhaustedKeys } from "./pipeline/exhausted-keys.ts";
import { quietly } from "./pipeline/failures.ts";
import { type GatewayHealth, Health, type HealthOptions, upstreamStatus } from "./pipeline/health.ts";
import { Hooks } from "./pipeline/hooks.ts";
import { InFlightCalls } from "./pipeline/in-flight.ts";
import type { Services } from "./pipeline/services.ts";
import { Settlements } from "./pipeline/settlements.ts";
import { type Clock, systemClock } from "./ports/clock.ts";
import type { CodeRunner } from "./ports/code-runner.ts";
import type { Hook } from "./ports/hook.ts";
import { type ModelBackend, VERB_OF } from "./ports/model-backend.ts";
import type { GatewayGauges, Observer, CallRecord, Failure, OnFailure } from "./ports/observer.ts";
import type { QuotaStore } from "./ports/quota-store.ts";
import type { RateLimiter } from "./ports/rate-limiter.ts";
import type { ReplayStore } from "./ports/replay-store.ts";
import type { ResponseStore } from "./ports/response-store.ts";
import { SharedRoom } from "./ports/shared-room.ts";
import { allowingRetries, type GatewayRoutes, Routes } from "./routes.ts";
import { memoryImageStore } from "./stores/memory-images.ts";

/** The ports that a host injects, and its options. */
export interface GatewayOptions<Context = unknown> extends FormatOptions {
  /** Answers the calls. */
  readonly backend: ModelBackend<Context>;
  /** Holds API keys and their quota. */
  readonly quotas: QuotaStore<Context>;
  /** Limits the rates of keys. Default: no limit. */
  readonly rateLimiter?: RateLimiter<Context>;
  /**
   * The behaviour when the rate limiter fails, or takes longer than `limits.storeTimeoutMs`: `closed` (default) refuses calls with 503,
   * `open` lets them pass. `onFailure` hears of the failure either way.
   */
  readonly rateLimiterDown?: "closed" | "open";
  /**
   * Keeps answers for callers who repeat a request under the same `Idempotency-Key`, so that a retry costs neither a call of the backend
   * nor quota. Default: the header means nothing.
   */
  readonly replayStore?: ReplayStore<Context>;
  /**
   * The behaviour of calls with an `Idempotency-Key` when the replay store fails, or takes longer than `limits.storeTimeoutMs`: `closed`
   * (default) refuses them with 503, `open` serves them, and a repetition may be charged again. `onFailure` hears of the failure either
   * way.
   */
  readonly replayStoreDown?: "closed" | "open";
  /**
   * The behaviour of a repetition while another process still answers the first call: `wait` (default) for its answer, or `refuse` with
   * 409 and a retry-after. In the same process a repetition always follows the first call.
   */
  readonly replayInFlight?: "wait" | "refuse";
  /**
   * Keeps responses and conversations for callers of the Responses format, who go on from an earlier response or ask for it again.
   * Default: responses are not kept.
   */
  readonly responseStore?: ResponseStore<Context>;
  /** The time for which a response or a conversation is kept after its last change, in milliseconds. Default: 30 days. */
  readonly responseRetainMs?: number;
  /** Runs code that a model wrote, for backends that cannot (`CallContext.runCode`). */
  readonly codeRunner?: CodeRunner;
  /** The price of a chat call or an embedding, in quota units. Default: one unit per token. */
  readonly price?: Price;
  /** The price of an image, in quota units. Default: `imagePriceTable`, by model, size and quality. */
  readonly imagePrice?: ImagePrice;
  /**
   * Estimates tokens that the backend has not counted. Default: `countTokensByScript`, within 30 % of a real tokenizer.
   */
  readonly countTokens?: CountTokens;
  /**
   * The counter of a chat call's input before quota is held: an `estimate` (default), or the `backend`, whose `countInputTokens` is
   * asked first. The estimate stands in when the backend cannot count, and `onFailure` hears of a failure. A count costs one request to
   * the upstream per call.
   */
  readonly countInput?: "estimate" | "backend";
  /** Overrides of `DEFAULT_LIMITS`. */
  readonly limits?: Partial<Limits>;
  /**
   * Hears of every failure whose cause the caller is not told. Errors of this function are dropped. Default: prints to standard error.
   */
  readonly onFailure?: OnFailure;
  /**
   * Receives the record of every call once, after the call has ended and is settled, or after the store has taken longer than
   * `limits.storeTimeoutMs`. Calls that were refused before their key was known count too. A request that reaches no endpoint (a wrong
   * method, a preflight) is not a call. Do not block here: the function runs between the calls' own work. Its errors are dropped.
   */
  onCall?(record: CallRecord<Context>): unknown;
  /**
   * Watches calls while they run, for traces and metrics: `openTelemetry()` of `polygate/telemetry`, or the host's own. Errors of the
   * observer are dropped. Default: none, at no cost.
   */
  readonly observer?: Observer<Context>;
  /**
   * Functions around each generated answer, in order: they may refuse or change a request before it costs anything, and see its answer
   * afterwards. Default: none.
   */
  readonly hooks?: readonly Hook<Context>[];
  /** The browser pages that may call the gateway. Default: none. */
  readonly cors?: CorsOptions;
  /** The source of time. Default: the machine's own clock. */
  readonly clock?: Clock;
}

/** The options of every adapter. */
export interface MountOptions {
  /**
   * The path of the gateway, when the host does not remove the path itself: `/ai`. Must be a plain path that begins with a slash;
   * anything else is a RangeError. Default: the root.
   */
  readonly prefix?: string;
}

/** An endpoint of a gateway, as its format declares it. */
export interface GatewayEndpoint {
  /** The name of the format: `messages`, `generate-content`, `chat-completions`, `responses`, `embeddings`, `images`, `token-usage`. */
  readonly format: string;
  /**
   * The kind of endpoint: a kind of generation, `query` for answers by the gateway itself, `public` for routes without a key.
   */
  readonly kind: Endpoint["kind"];
  readonly method: "GET" | "POST" | "DELETE";
  /**
   * The path relative to the gateway's mount. A path that ends in `/**` matches everything below. Endpoints may share a path.
   */
  readonly path: string;
}

/** A gateway, ready to be mounted. */
export interface Gateway<Context = unknown> extends GatewayRoutes<Context> {
  /** The endpoints that the gateway serves; they depend on the verbs of the backend, and on the store of responses. */
  readonly endpoints: readonly GatewayEndpoint[];
  /** The options of the formats, as the host gave them. */
  readonly formats: FormatOptions;
  /**
   * Returns the same gateway under a prefix, for a host that passes the whole path. Throws a RangeError for a prefix that is not a plain
   * path.
   */
  readonly at: (prefix: string) => GatewayRoutes<Context>;
  /**
   * Returns the gateway's health: whether its quota store answers, the settlements that wait, the upstreams that rest, and the calls in
   * flight. Never rejects. At most one query a second goes to the quota store.
   */
  readonly health: (options?: HealthOptions<Context>) => Promise<GatewayHealth>;
  /**
   * Closes the gateway. New calls are refused with 503 and a retry-after. Calls that still live after `deadlineMs` milliseconds (default
   * 10,000) are cut. Settlements that wait for a failed store are retried for the same time; `onFailure` receives each one that is left,
   * in `unsettled`. Resolves when the last call has ended and no settlement waits, and half a minute after `deadlineMs` at the latest.
   */
  readonly close: (options?: { readonly deadlineMs?: number }) => Promise<void>;
}

/**
 * Creates a gateway.
 *
 * @throws RangeError for a limit that is not a positive integer, and a TypeError for an option that does not exist or has a wrong shape.
 * @example const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]) });
 */
export function createGateway<Context = unknown>(options: GatewayOptions<Context>): Gateway<Context> {
  const services = servicesOf(options);
  const owned = endpointsOf(options, services);
  const cors = options.cors && (services.replays ? allowingRetries(options.cors) : options.cors);
  const endpoints = owned.map(({ endpoint }) => endpoint);
  const routes = new Routes(services, endpoints, cors);
  const health = new Health(services);
  const forget = quietly(() => options.observer?.watchGateway?.(gaugesOf(services)));
  return {
    ...routes.at(""),
    at: (prefix) => routes.at(prefix),
    endpoints: owned
      .filter(({ endpoint }) => answers(endpoint, services))
      .map(({ format, endpoint: { kind, method, path } }) => ({ format, kind, method, path })),
    formats: {
      ...(options.messages && { messages: options.messages }),
      ...(options.images && { images: options.images }),
    },
    health: (how) => health.check(how),
    close: ({ deadlineMs = CLOSE_MS } = {}) => {
      const callsEnded = services.inFlight.close(deadlineMs);
      const settled = services.settlements.close(callsEnded, deadlineMs);
      return settled.then(() => services.hooks?.close()).finally(() => quietly(() => forget?.()));
    },
  };
}

/** Tells whether an endpoint does more than refuse its callers. */
const answers = (endpoint: Endpoint, { responses }: Services): boolean =>
  responses !== undefined || endpoint.kind !== "query" || !endpoint.needsResponseStore;

/** The default time for live calls to end when the gateway closes, in milliseconds. */
const CLOSE_MS = 10_000;

const VERBS = ["find", "balance", "reserve", "renew", "settle"] as const satisfies readonly (keyof QuotaStore)[];

/** Throws a TypeError for a backend or a store that is not one, with what was probably meant. */
function assertPorts({ backend, quotas }: Partial<GatewayOptions>): void {
  const verbs = Object.values(VERB_OF);
  if (!verbs.some((verb) => hasMethod(backend, verb))) {
    const hint = Array.isArray(backend) ? ": route() makes one backend of several" : "";
    throw new TypeError(`createGateway: backend must be a ModelBackend, ${lacking(backend, verbs)}${hint}.`);
  }
  const hint = Array.isArray(quotas) ? ": memoryQuotaStore() makes a store of keys" : "";
  for (const verb of VERBS)
    if (!hasMethod(quotas, verb))
      throw new TypeError(`createGateway: quotas must be a QuotaStore, ${lacking(quotas, [verb])}${hint}.`);
}

const SHAPES: Shapes<GatewayOptions> = {
  backend: "any",
  quotas: "any",
  rateLimiter: "object?",
  rateLimiterDown: { optional: ["closed", "open"] },
  replayStore: "object?",
  replayStoreDown: { optional: ["closed", "open"] },
  replayInFlight: { optional: ["wait", "refuse"] },
  responseStore: "object?",
  responseRetainMs: "number?",
  codeRunner: "object?",
  price: "function?",
  imagePrice: "function?",
  countTokens: "function?",
  countInput: { optional: ["estimate", "backend"] },
  hooks: "list?",
  limits: "object?",
  onFailure: "function?",
  onCall: "function?",
  observer: "object?",
  cors: "object?",
  clock: "object?",
  messages: "object?",
  images: "object?",
};

function servicesOf(options: GatewayOptions): Services {
  assertOptions<GatewayOptions>("createGateway", options, SHAPES);
  assertPorts(options);
  const { clock = systemClock } = options;
  const limits = resolveLimits(options.limits);
  const hooks = options.hooks?.length ? new Hooks(options.hooks, clock) : undefined;
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
      inFlightElsewhere: options.replayInFlight ?? "wait",
      running: new Map(),
    },
    responses: options.responseStore && {
      store: options.responseStore,
      retainMs: positiveInteger("responseRetainMs", options.responseRetainMs ?? RESPONSE_RETAIN_MS),
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
    hooks,
    isRecorded: options.onCall !== undefined || options.observer !== undefined || hooks?.watchesAnswers === true,
    aliasesOf: imageAliases(options.images),
    inFlight: new InFlightCalls(
      clock,
      limits.deadlineMs,
      // Without a share of its own, a key gets half of the room.
      new SharedRoom(limits.maxCallsInFlight, options.limits?.maxCallsPerKey),
    ),
    settlements: new Settlements({ quotas, clock, limits, onFailure }),
    bodies: new BodyRoom(limits.maxBodyBytesInFlight, limits.maxBodyBytesPerKey),
    exhausted: new ExhaustedKeys(clock),
    breakers: new Map(),
  };
}

/** Responses are kept for 30 days by default. In milliseconds. */
const RESPONSE_RETAIN_MS = 30 * 86_400_000;

function positiveInteger(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new RangeError(`createGateway: ${name} must be a positive integer, not ${value}.`);
}

const gaugesOf = ({ inFlight, settlements, bodies, backend }: Services): GatewayGauges => ({
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
  get upstreams() {
    return upstreamStatus({ backend });
  },
});

/** Returns the endpoints that the backend can serve. */
function endpointsOf(
  options: GatewayOptions,
  { backend, clock, limits }: Services,
): { format: string; endpoint: Endpoint }[] {
  const imageStore = options.images?.store ?? memoryImageStore({ clock });
  return formats(options, { imageStore, clock, limits })
    .flatMap(({ name, endpoints }) => endpoints.map((endpoint) => ({ format: name, endpoint })))
    .filter(({ endpoint: { kind } }) => {
      if (kind === "query") return true;
      // Public routes serve the images of an image backend.
      return backend[VERB_OF[kind === "public" ? "image" : kind]] !== undefined;
    });
}

const printFailure = ({ error, requestId, text }: Failure): void =>
  console.error(`polygate: ${requestId} failed (${error.code})\n${text}`);

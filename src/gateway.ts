/** Assembles a gateway from the host's ports, options and formats. */

import type { Port } from "./errors.ts";
import { FEATURE_OF, type GatewayFeature } from "./features.ts";
import type { FormatOptions } from "./formats/all.ts";
import type { Endpoint, Format, LazyEndpoint } from "./formats/format.ts";
import type { GatewayFormat } from "./formats/module.ts";
import type { CorsOptions } from "./http/answer.ts";
import { KnownBodies } from "./http/known-bodies.ts";
import { checkedTokenPrice, type Price } from "./kinds/chat/price.ts";
import { checkedCount, type CountTokens, countTokensByScript } from "./kinds/count-tokens.ts";
import { checkedImagePrice, type ImagePrice } from "./kinds/image/price.ts";
import type { HostPrices, KindModule } from "./kinds/kind.ts";
import { type Limits, resolveLimits } from "./limits.ts";
import { currencyCode } from "./model/money.ts";
import {
  assertMethods,
  assertOptions,
  type Check,
  CLOCK,
  checkOf,
  closeOptionsOf,
  CURRENCY,
  hasMethod,
  lacking,
  listOf,
  portOf,
  type Shapes,
} from "./options.ts";
import { type GatewayHealth, Health, type HealthOptions, upstreamStatus } from "./pipeline/health.ts";
import { listedModels, modelFault } from "./pipeline/model-fault.ts";
import type { Parts } from "./pipeline/pipeline.ts";
import { failurePrinter, printRecovery } from "./pipeline/printed.ts";
import { type PrintFailure, quietly } from "./pipeline/reports.ts";
import { ExhaustedKeys, type Responses, type Services, InFlightCalls, LastWork } from "./pipeline/services.ts";
import { Settlements } from "./pipeline/settlements.ts";
import type { ModelKind } from "./ports/call-info.ts";
import { type Clock, systemClock } from "./ports/clock.ts";
import type { CodeRunner } from "./ports/code-runner.ts";
import type { Hook } from "./ports/hook.ts";
import { type ModelBackend, VERB_OF } from "./ports/model-backend.ts";
import type { GatewayGauges, LiveCall, Observer, CallRecord, OnFailure } from "./ports/observer.ts";
import type { ApiKey, QuotaStore } from "./ports/quota-store.ts";
import type { RateLimiter } from "./ports/rate-limiter.ts";
import type { ReplayStore } from "./ports/replay-store.ts";
import type { ResponseStore } from "./ports/response-store.ts";
import { BodyRoom, SharedRoom } from "./ports/shared-room.ts";
import { type CoreRoutes, type GatewayRoutes, Routes, takesSockets } from "./routes.ts";

/** The ports that a host injects, and the options that do not belong to a format. */
export interface CommonOptions<Context = unknown> {
  /** Answers the calls. */
  readonly backend: ModelBackend<Context>;
  /** Holds API keys and their quota. */
  readonly quotas: QuotaStore<Context>;
  /**
   * Functions around each generated answer, in order: they may refuse or change a request before it costs anything, and see its answer
   * afterwards. Default: none.
   */
  readonly hooks?: readonly Hook<Context>[];
  /**
   * Receives the record of every call once, after the call has ended and is settled, or after the store has taken longer than
   * `limits.storeTimeoutMs`. Calls that were refused before their key was known count too. A request that reaches no endpoint (a wrong
   * method, a preflight) is not a call. Do not block here: the function runs between the calls' own work. `onFailure` receives its errors.
   */
  onCall?(record: CallRecord<Context>): unknown;
  /**
   * Receives every failure whose cause the caller is not told. Errors of this function are dropped. Default: prints to standard error.
   */
  readonly onFailure?: OnFailure;
  /** Limits the rates of keys. Default: no limit. */
  readonly rateLimiter?: RateLimiter<Context>;
  /**
   * The behaviour when the rate limiter fails, or takes longer than `limits.storeTimeoutMs`: `closed` (default) refuses calls with 503,
   * `open` lets them pass. `onFailure` receives the failure either way.
   */
  readonly rateLimiterDown?: "closed" | "open";
  /** The price of a chat call or an embedding, in quota units. Default: one unit per token. */
  readonly price?: Price;
  /** The price of an image, in quota units. Default: `imagePriceTable`, by model, size and quality. */
  readonly imagePrice?: ImagePrice;
  /** Overrides of `DEFAULT_LIMITS`. */
  readonly limits?: Partial<Limits>;
  /** The browser pages that may call the gateway. Default: none. */
  readonly cors?: CorsOptions;
  /**
   * Watches calls while they run, for traces and metrics: `openTelemetry()` of `polygate/telemetry`, or the host's own. Errors of the
   * observer are dropped. Default: none, at no cost.
   */
  readonly observer?: Observer<Context>;
  /**
   * Keeps answers for callers who repeat a request under the same `Idempotency-Key`, so that a retry costs neither a call of the backend
   * nor quota. Default: the header means nothing.
   */
  readonly replayStore?: ReplayStore<Context>;
  /**
   * The behaviour of calls with an `Idempotency-Key` when the replay store fails, or takes longer than `limits.storeTimeoutMs`: `closed`
   * (default) refuses them with 503, `open` serves them, and a repetition may be charged again. `onFailure` receives the failure either way.
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
  /** Responses and conversations are kept for this time after their last change, in milliseconds. Default: 30 days. */
  readonly responseRetainMs?: number;
  /**
   * Estimates tokens that the backend has not counted. Default: `countTokensByScript`, within 30 % of a real tokenizer.
   */
  readonly countTokens?: CountTokens;
  /**
   * The counter of a chat call's input before quota is held: an `estimate` (default), or the `backend`, whose `countInputTokens` is
   * asked first. The estimate stands in when the backend cannot count, and `onFailure` receives a failure. A count costs one request to
   * the upstream per call.
   */
  readonly countInput?: "estimate" | "backend";
  /** Runs code that a model wrote, for backends that cannot (`CallContext.runCode`). */
  readonly codeRunner?: CodeRunner;
  /** The source of time. Default: the machine's own clock. */
  readonly clock?: Clock;
}

/** The ports that a host injects, and its options. */
export interface GatewayOptions<Context = unknown> extends CommonOptions<Context>, FormatOptions {}

/** The options that only a gateway of `polygate/core` has. */
export interface CoreOptions {
  /** The formats that the gateway serves, each at most once, in any order. The routes of all other formats belong to the host. */
  readonly formats: readonly GatewayFormat[];
  /** The code of the options `cors`, `hooks` and `replayStore`: `withCors`, `withHooks`, `withReplays`. Default: none. */
  readonly features?: readonly GatewayFeature[];
}

/**
 * The options of a gateway of `polygate/core`: those of `GatewayOptions`, and its formats. The options of single formats are given to the
 * functions of the formats.
 */
export type CoreGatewayOptions<Context = unknown> = CommonOptions<Context> & CoreOptions;

/** The options that all adapters share. */
export interface MountOptions {
  /**
   * The path of the gateway, when the host does not remove the path itself: `/ai`. Must be a plain path that begins with a slash;
   * anything else is a TypeError. Default: the root.
   */
  readonly prefix?: string;
}

/** An endpoint of a gateway, as its format declares it. */
export interface GatewayEndpoint {
  /** The name of the format, such as `messages`. */
  readonly format: string;
  /**
   * The kind of endpoint: a kind of generation, `query` for answers by the gateway itself, `public` for routes without a key.
   */
  readonly kind: ModelKind | "query" | "public";
  readonly method: "GET" | "POST" | "DELETE";
  /**
   * The path relative to the gateway's mount. A path that ends in `/**` matches everything below. Endpoints may share a path.
   */
  readonly path: string;
  /** Set when the path also takes WebSockets. */
  readonly takesSockets?: true;
}

/** The routes that an adapter mounts: a gateway, or the admin of `polygate/admin/http`. */
export interface Mountable<Context = unknown> {
  /** The endpoints that the gateway serves, without WebSockets; they depend on the verbs of the backend, and on the store of responses. */
  readonly endpoints: readonly GatewayEndpoint[];
  /**
   * Returns the same gateway under a prefix, for a host that passes the whole path. Throws a TypeError for a prefix that is not a plain
   * path.
   */
  readonly at: (prefix: string) => CoreRoutes<Context>;
  /** Returns true from the call of `close` on. Mounts then end kept connections, so that clients turn to another process. */
  readonly isClosing: () => boolean;
}

/** A gateway of `polygate/core`, ready to be mounted. */
export interface CoreGateway<Context = unknown> extends CoreRoutes<Context>, Mountable<Context> {
  /** The options of the formats, as the host gave them. */
  readonly formats: FormatOptions;
  /** The currency of the prices, such as `USD`: a unit of quota is a millionth of it. Undefined for other units. */
  readonly currency: string | undefined;
  /**
   * Loads the code of all formats and of the backend's upstreams. Without it, this code is loaded with the first request that needs it,
   * which then takes some milliseconds longer. Rejects when the code cannot be loaded, and may be called again.
   */
  readonly load: () => Promise<void>;
  /**
   * Returns the gateway's health: whether its quota store answers, the settlements that wait, the upstreams that rest, and the calls in
   * flight. Rejects only for wrong options. Without a `context`, at most one query a second goes to the quota store.
   */
  readonly health: (options?: HealthOptions<Context>) => Promise<GatewayHealth>;
  /**
   * Returns the calls that run in this process, the oldest first. A call ends when it is settled. Each process knows only its own
   * calls. `limit` is the most calls, a positive integer; all by default. Throws for a wrong option.
   */
  readonly liveCalls: (options?: { readonly limit?: number }) => readonly LiveCall[];
  /** Returns the number of calls that run in this process, without the cost of describing them. */
  readonly liveCallCount: () => number;
  /**
   * Stops a running call of this process. Its caller gets the error `call_stopped`, which the official SDKs do not retry, and is charged for
   * what the call has used. Returns false when no call of this request id runs here, or when the call has ended and is only being settled.
   */
  readonly stopCall: (requestId: string) => boolean;
  /**
   * Says in a sentence why calls of a key would be refused as `misconfigured`, such as for a rate tier that does not exist. Returns
   * undefined for a sound key, and when the rate limiter cannot tell.
   */
  readonly keyFault: (key: ApiKey) => string | undefined;
  /**
   * Says in sentences which of some models the gateway does not have, and which were probably meant. Resolves with undefined when it has all
   * of them, and when the backend cannot tell. Never rejects.
   */
  readonly modelFault: (models: readonly string[]) => Promise<string | undefined>;
  /**
   * Resolves with what keys can name: the ids of the models that the backend lists, and the rate tiers for the entry `tier` of the metadata.
   * Each is undefined when the backend or the rate limiter cannot tell. Never rejects.
   */
  readonly keyChoices: () => Promise<{
    readonly models: readonly string[] | undefined;
    readonly tiers: readonly string[] | undefined;
  }>;
  /**
   * Closes the gateway. New calls are refused with 503 and a retry-after. Calls that still live after `deadlineMs` milliseconds (default
   * 10,000, at most 24 days) are cut. Settlements that wait for a failed store are retried for the same time; `onFailure` receives each one
   * that is left, in `unsettled`. The `after` of hooks gets the same time; `onFailure` is told of each answer that still waits then. Resolves
   * when the last call has ended and no settlement waits, and half a minute after `deadlineMs` at the latest. Rejects for wrong
   * options, and closes nothing then.
   */
  readonly close: (options?: { readonly deadlineMs?: number }) => Promise<void>;
}

/** A gateway, ready to be mounted. */
export interface Gateway<Context = unknown> extends CoreGateway<Context>, GatewayRoutes<Context> {
  /**
   * Returns the same gateway under a prefix, for a host that passes the whole path. Throws a TypeError for a prefix that is not a plain
   * path.
   */
  readonly at: (prefix: string) => GatewayRoutes<Context>;
}

/**
 * Creates a gateway that serves the given formats, and contains the code of no other.
 *
 * @throws RangeError for a limit that is not a positive integer, and a TypeError for an option that does not exist or has a wrong shape, for
 * an option without its feature, for an entry of `formats` that is no format, and for a format that stands there twice.
 * @example const gateway = createGateway({ formats: [messages()], backend, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]) });
 */
export function createGateway<Context = unknown>(options: CoreGatewayOptions<Context>): CoreGateway<Context> {
  assertOptions<CoreGatewayOptions>("createGateway", options, {
    ...COMMON_SHAPES,
    formats: "list",
    features: { optional: listOf(assertFeature) },
  });
  assertFormats(options.formats);
  const feature: GatewayFeature = Object.assign({}, ...(options.features ?? []));
  for (const [option, name] of Object.entries(FEATURE_OF) as [keyof typeof FEATURE_OF, string][])
    if (options[option] !== undefined && !feature[option])
      throw new TypeError(`createGateway: ${option} needs its code: import ${name}, and write features: [${name}].`);
  return gatewayOf(options, options.formats, feature).gateway;
}

const assertFeature: Check = (path, feature) => {
  if (![...Object.keys(FEATURE_OF), "sockets"].some((option) => Object.hasOwn(Object(feature) as object, option)))
    throw new TypeError(`${path} must be ${[...Object.values(FEATURE_OF), "withSockets"].join(" or ")}.`);
};

/** Throws a TypeError for a list that is empty, has an entry that is no format, or has a format twice. */
function assertFormats(formats: readonly unknown[]): void {
  const what = "a format, such as messages() of polygate/formats/messages";
  if (formats.length === 0) throw new TypeError(`createGateway: formats is empty; it must have ${what}.`);
  const names = new Set<string>();
  for (const [index, format] of formats.entries()) {
    if (typeof format === "function")
      throw new TypeError(
        `createGateway: formats[${index}] is a function that makes a format; call it, as in messages().`,
      );
    assertMethods("createGateway", `formats[${index}]`, format, ["make"], what);
    const { name } = format as GatewayFormat;
    if (names.has(name)) throw new TypeError(`createGateway: formats has the format ${name} twice.`);
    names.add(name);
  }
}

/**
 * Makes the gateway of both `createGateway`s, which have checked the names of the options.
 *
 * @param printerOf Prints the failures that take one line, for a host without `onFailure`. Default: each as it comes.
 */
export function gatewayOf<Context>(
  options: CommonOptions<Context>,
  chosen: readonly GatewayFormat[],
  feature: GatewayFeature,
  printerOf?: (clock: Clock) => PrintFailure,
): { readonly gateway: CoreGateway<Context>; readonly routes: Routes } {
  const { clock = systemClock } = options;
  const limits = resolveLimits(options.limits);
  const formats = chosen
    .toSorted((one, other) => (one.rank ?? 0) - (other.rank ?? 0))
    .map((format) => format.make({ clock, limits }));
  const kinds = kindsOf(formats);
  assertBackend(options.backend, [...new Set([...VERBS, ...kinds.map(({ verb }) => verb)])]);
  const hooks = options.hooks?.length ? feature.hooks?.(options.hooks, clock, limits) : undefined;
  assertCurrency(options);
  const services = servicesOf(options, { clock, limits, hooks, formats, kinds }, printerOf?.(clock));
  const owned = endpointsOf(formats, services);
  const corsOf = options.cors && feature.cors?.(services.replays ? allowingRetries(options.cors) : options.cors);
  const endpoints = owned.map(({ endpoint }) => endpoint);
  const load = async (): Promise<void> => {
    await Promise.all([...formats.map((format) => format.load?.()), options.backend.load?.()]);
  };
  const parts: Parts = {
    repetitions: options.replayStore && feature.replayStore,
    acceptSocket: feature.sockets,
  };
  const ofSockets = new Set(endpoints.filter(takesSockets).map(({ path }) => path));
  const served = owned
    .filter(({ endpoint }) => answers(endpoint, services) && !takesSockets(endpoint))
    .map(({ format, endpoint: { kind, method, path } }) => ({
      format,
      kind: kindName(kind),
      method,
      path,
      ...(ofSockets.has(path) && { takesSockets: true as const }),
    }));
  const routes = new Routes(services, endpoints, served, parts, corsOf);
  const health = new Health(services);
  const forget = quietly(() => options.observer?.watchGateway?.(gaugesOf(services, health)));
  const gateway: CoreGateway<Context> = {
    ...routes.at(""),
    at: (prefix) => routes.at(prefix),
    endpoints: served,
    load,
    currency: services.currency,
    formats: Object.fromEntries(chosen.flatMap(({ name, options }) => (options ? [[name, options]] : []))),
    health: async (how = {}) => {
      assertOptions<HealthOptions>("health", how, { timeoutMs: "timerMs?", context: "any?" });
      return health.check(how);
    },
    liveCalls: (how = {}) => {
      assertOptions<{ limit?: number }>("liveCalls", how, { limit: "positive?" });
      return services.inFlight.list(how.limit);
    },
    liveCallCount: () => services.inFlight.count(),
    stopCall: (requestId) => services.inFlight.stop(requestId),
    keyFault: (key) => quietly(() => options.rateLimiter?.keyFault?.(key)),
    modelFault: (models) => modelFault(services, models),
    keyChoices: async () => ({
      models: await listedModels(services),
      tiers: quietly(() => options.rateLimiter?.tiers),
    }),
    isClosing: () => services.inFlight.isClosing,
    close: async (how) => {
      const deadlineMs = Math.min(LONGEST_CLOSE_MS, closeOptionsOf(how).deadlineMs ?? CLOSE_MS);
      const closesAt = clock.now() + deadlineMs;
      const callsEnded = services.inFlight.close(deadlineMs);
      for (const goAway of services.connections) goAway();
      const settled = services.settlements.close(callsEnded, deadlineMs);
      return settled
        .then(() => hooks?.close(closesAt - clock.now()))
        .finally(() => {
          services.knownBodies.clear();
          quietly(() => forget?.());
        });
    },
  };
  return { gateway, routes };
}

/** Adds the header `Idempotency-Key` to the headers that a page may send. */
function allowingRetries(options: CorsOptions): CorsOptions {
  const { allowHeaders } = options;
  const isAllowed = !Array.isArray(allowHeaders) || allowHeaders.some((name) => /^(?:\*|idempotency-key)$/i.test(name));
  return isAllowed ? options : { ...options, allowHeaders: [...allowHeaders, "Idempotency-Key"] };
}

const kindName = (kind: (Endpoint | LazyEndpoint)["kind"]): GatewayEndpoint["kind"] =>
  typeof kind === "object" ? kind.name : kind;

/** Tells whether an endpoint does more than refuse its callers. */
const answers = (endpoint: Endpoint | LazyEndpoint, { responses }: Services): boolean =>
  responses !== undefined || !(endpoint as LazyEndpoint).needsResponseStore;

/** The default time for live calls to end when the gateway closes, in milliseconds. */
const CLOSE_MS = 10_000;
/** The longest time for live calls to end, in milliseconds: 24 days. A timer of a runtime that should wait longer ends at once. */
const LONGEST_CLOSE_MS = 24 * 86_400_000;

/** The kinds that the endpoints of the formats bring. An endpoint brings its kind, so that a gateway contains the code of no other kind. */
const kindsOf = (formats: readonly Format[]): readonly KindModule[] => [
  ...new Set(
    formats.flatMap(({ endpoints }) => endpoints.flatMap(({ kind }) => (typeof kind === "object" ? [kind] : []))),
  ),
];

/** Throws a TypeError for a backend without any verb. */
function assertBackend(backend: unknown, verbs: readonly string[]): void {
  if (verbs.some((verb) => hasMethod(backend, verb))) return;
  const hint = Array.isArray(backend) ? ": route() makes one backend of several" : "";
  const isOfRelay = "baseUrl" in Object(backend);
  const given = isOfRelay ? "not the options of one: relay() makes it of them" : lacking(backend, verbs) + hint;
  throw new TypeError(`createGateway: backend must be a ModelBackend, such as relay({…}), ${given}.`);
}

const VERBS: readonly string[] = Object.values(VERB_OF);

/** Leaves an object to a later check: its functions are known only with the formats, which may bring kinds of their own. */
const BACKEND: Check = (_path, backend) =>
  (typeof backend === "object" && backend !== null && !Array.isArray(backend)) || assertBackend(backend, VERBS);

const QUOTA_VERBS = ["find", "balance", "reserve", "renew", "settle"] as const satisfies readonly (keyof QuotaStore)[];

const assertQuotas: Check = (path, quotas) => {
  if (Array.isArray(quotas))
    throw new TypeError(`${path} must be a QuotaStore, not a list: memoryQuotaStore() makes a store of keys.`);
  portOf(QUOTA_VERBS, "a QuotaStore, such as memoryQuotaStore([…])")(path, quotas);
};

const assertPrice: Check = (path, price) => {
  if (typeof price === "object")
    throw new TypeError(`${path} must be a function: write ...priceTable({…}) for prices.`);
  checkOf("function")(path, price);
  const { models, currency, hasFreeModels } = price as Price | ImagePrice;
  assertOptions<PriceFields>(path, { models, currency, hasFreeModels }, PRICE_FIELDS);
};

type PriceFields = Pick<Price & ImagePrice, "models" | "currency" | "hasFreeModels">;

const PRICE_FIELDS: Shapes<PriceFields> = {
  models: { optional: listOf("string") },
  currency: { optional: CURRENCY },
  hasFreeModels: "boolean?",
};

const RATE_LIMITER = "a RateLimiter, such as flexibleRateLimiter({ perKey: { requests: [counter] } })";

/** The options that both `createGateway`s take. */
export const COMMON_SHAPES: Shapes<CommonOptions> = {
  backend: BACKEND,
  quotas: assertQuotas,
  rateLimiter: { optional: portOf(["begin", "take", "end"], RATE_LIMITER) },
  rateLimiterDown: { optional: ["closed", "open"] },
  replayStore: { optional: portOf(["claim", "record", "release"], "a ReplayStore, such as memoryReplayStore()") },
  replayStoreDown: { optional: ["closed", "open"] },
  replayInFlight: { optional: ["wait", "refuse"] },
  responseStore: {
    optional: portOf(["create", "update", "read", "list", "delete"], "a ResponseStore, such as memoryResponseStore()"),
  },
  responseRetainMs: "positive?",
  codeRunner: { optional: portOf(["run"], "a CodeRunner") },
  price: { optional: assertPrice },
  imagePrice: { optional: assertPrice },
  countTokens: "function?",
  countInput: { optional: ["estimate", "backend"] },
  hooks: "list?",
  limits: "object?",
  onFailure: "function?",
  onCall: "function?",
  observer: { optional: portOf(["begin"], "an Observer, such as openTelemetry()") },
  cors: "object?",
  clock: CLOCK,
};

/** The ports whose stores are often in the database of the quota store. */
const STORE_PORTS: ReadonlySet<Port> = new Set(["quota-store", "rate-limiter", "replay-store", "response-store"]);

function servicesOf(
  options: CommonOptions,
  {
    clock,
    limits,
    hooks,
    formats,
    kinds,
  }: Pick<Services, "clock" | "limits" | "hooks"> & {
    readonly formats: readonly Format[];
    readonly kinds: readonly KindModule[];
  },
  print: PrintFailure | undefined,
): Services {
  const { quotas, onFailure = failurePrinter(print) } = options;
  const doubted = { quotas: true };
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
    responses: responsesOf(options, formats),
    prices: {
      price: options.price && checkedTokenPrice(options.price),
      imagePrice: options.imagePrice && checkedImagePrice(options.imagePrice),
    },
    currency: currencyOf(options),
    kindNames: [...new Set([...Object.keys(VERB_OF), ...kinds.map(({ name }) => name)])],
    listed: { models: undefined },
    namedModels: new Set(namedModels({ backend: options.backend, prices: options })),
    countTokens: checkedCount(options.countTokens ?? countTokensByScript),
    countInput: options.countInput ?? "estimate",
    limits,
    clock,
    onFailure(failure) {
      // The first statement of a call that a full database refuses may be that of another store in it.
      if (failure.port !== undefined && STORE_PORTS.has(failure.port)) doubted.quotas = true;
      return onFailure(failure);
    },
    doubted,
    onCall: options.onCall && ((record) => options.onCall?.(record)),
    observer: options.observer,
    telemetry: new Map(formats.flatMap(({ name, telemetry }) => (telemetry ? [[name, telemetry]] : []))),
    hooks,
    isRecorded: options.onCall !== undefined || options.observer !== undefined || hooks?.watchesAnswers === true,
    aliasesOf: formats.find((format) => format.aliasesOf)?.aliasesOf ?? (() => []),
    inFlight: new InFlightCalls(
      clock,
      limits.deadlineMs,
      // Without a share of its own, a key gets half of the room.
      new SharedRoom(limits.maxCallsInFlight, options.limits?.maxCallsPerKey),
    ),
    lastWork: new LastWork(),
    settlements: new Settlements({
      quotas,
      clock,
      limits,
      onFailure,
      onRecovery: options.onFailure ? undefined : printRecovery,
    }),
    bodies: new BodyRoom(limits.maxBodyBytesInFlight, limits.maxBodyBytesPerKey),
    knownBodies: new KnownBodies(limits.maxKnownBodyBytes),
    sockets: new SharedRoom(limits.maxSockets, limits.maxSocketsPerKey, ["maxSockets", "maxSocketsPerKey"]),
    connections: new Set(),
    exhausted: new ExhaustedKeys(clock),
    breakers: new Map(),
  };
}

/** Joins the host's store of responses with the format that keeps its answers there. */
function responsesOf(
  { responseStore: store, responseRetainMs = RESPONSE_RETAIN_MS }: CommonOptions,
  formats: readonly Format[],
): Responses | undefined {
  const open = formats.find(({ openDocuments }) => openDocuments)?.openDocuments;
  return store && open && { documentsOf: (call, key) => open(call, key, store, responseRetainMs) };
}

/** Returns the currency of the host's prices; undefined for prices without one, and for prices in two currencies. */
function currencyOf(prices: HostPrices): string | undefined {
  const [currency, other] = currenciesOf(prices);
  return other === undefined ? currency : undefined;
}

const currenciesOf = ({ price, imagePrice }: HostPrices): ReadonlySet<string> =>
  new Set([price, imagePrice].flatMap((one) => currencyCode(one?.currency ?? "") ?? []));

/**
 * Throws a TypeError if a recorder shows units as money of a currency in which nothing is priced: three tokens would be "0.000003 USD". A
 * price of the host's own without a currency may count in any.
 */
function assertCurrency({ onCall, ...prices }: Pick<CommonOptions, "onCall"> & HostPrices): void {
  const shown = currencyCode((onCall as { readonly currency?: string } | undefined)?.currency ?? "");
  const priced = currenciesOf(prices);
  if (shown === undefined || priced.has(shown)) return;
  if (priced.size === 0 && (prices.price ?? prices.imagePrice)) return;
  const why =
    priced.size > 0
      ? `the prices are in ${[...priced].join(" and ")}. Write the same currency in both`
      : "without prices a unit is a token. Add prices, as in ...priceTable({ … }) of polygate/prices, or leave out the currency";
  throw new TypeError(`createGateway: amounts are shown in ${shown}, but ${why}.`);
}

/** Responses are kept for 30 days by default. In milliseconds. */
const RESPONSE_RETAIN_MS = 30 * 86_400_000;

const gaugesOf = ({ inFlight, settlements, bodies, backend, prices }: Services, health: Health): GatewayGauges => ({
  isReady: () => health.isReady(),
  get calls() {
    return inFlight.size;
  },
  get streams() {
    return inFlight.streams;
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
  get models() {
    return namedModels({ backend, prices });
  },
});

/** Returns the models that the host has named in its prices and its routes, without patterns. */
function namedModels({ backend, prices: { price, imagePrice } }: Pick<Services, "backend" | "prices">): string[] {
  const routes = upstreamStatus({ backend }).map(({ route }) => route);
  return [...(price?.models ?? []), ...(imagePrice?.models ?? []), ...routes].filter((name) => !name.includes("*"));
}

/** Returns the endpoints that the backend can serve. */
function endpointsOf(
  formats: readonly Format[],
  { backend }: Services,
): { format: string; endpoint: Endpoint | LazyEndpoint }[] {
  return formats
    .flatMap(({ name, endpoints }) => endpoints.map((endpoint) => ({ format: name, endpoint })))
    .filter(({ endpoint }) => {
      const verb = verbOf(endpoint);
      return verb === undefined || hasMethod(backend, verb);
    });
}

/** Returns the function of the backend that an endpoint needs; undefined for an endpoint that needs none. */
function verbOf(endpoint: Endpoint | LazyEndpoint): string | undefined {
  if (endpoint.kind === "query") return undefined;
  const kind = endpoint.kind === "public" ? endpoint.answersOf : endpoint.kind;
  return typeof kind === "string" ? VERB_OF[kind] : kind?.verb;
}

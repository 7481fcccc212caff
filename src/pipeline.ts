/** The line that every request walks: authenticate, parse, authorize, reserve, backend, encode, settle. */

import { FastResponse } from "srvx";
import type { AnswerStream, Endpoint, Incoming, OpenEndpoint, QueryEndpoint } from "./dialects/dialect.ts";
import { accountOf, GatewayError, type GatewayErrorCode, toGatewayError } from "./errors.ts";
import { chatGeneration, type Generation, type GenerationTerms, imageGeneration, type Run } from "./generation.ts";
import { redact, withoutPrefix } from "./http/credential.ts";
import { eventStream } from "./http/event-stream.ts";
import type { Lifeline } from "./http/lifeline.ts";
import type { LiveCalls } from "./http/live-calls.ts";
import { type Hold, type HoldTerms, reserve } from "./metering/hold.ts";
import { metered } from "./metering/metered.ts";
import type { Clock } from "./ports/clock.ts";
import type { Keep } from "./ports/keep.ts";
import type { CallContext } from "./ports/model-backend.ts";
import type { ApiKeyRecord, QuotaStore } from "./ports/quota-store.ts";

/** A failure that the caller is told only the outline of. */
export interface Failure {
  /** With the stranger's own error as its `cause`. */
  readonly error: GatewayError;
  /** The id that the caller received as `request-id`. */
  readonly requestId: string;
  /** The error with its causes and stacks, for a log; the caller's api key is blotted out wherever it stood. */
  readonly text: string;
}

/** What the line works with, all of it decided. */
export interface Host extends GenerationTerms {
  readonly quotas: QuotaStore;
  readonly clock: Clock;
  readonly onFailure: (failure: Failure) => void;
  readonly calls: LiveCalls;
}

/** One request under way. */
interface Call {
  readonly requestId: string;
  readonly life: Lifeline;
  /** The api key as the caller sent it, once it was read: known here so that no log gets it. */
  secret?: string;
}

/** A call that nothing stands in the way of. */
interface Admitted<Event, Answered> {
  readonly key: ApiKeyRecord;
  readonly generation: Generation<Event, Answered>;
  readonly hold: Hold;
}

/** A request as its route hands it over. */
export interface Arrival extends Pick<Incoming, "request" | "tail" | "baseUrl"> {
  /** How a runtime that stops all work for a client who is gone is told of work that must be done. */
  readonly waitUntil: Keep | undefined;
}

/** Answers a request to an endpoint. Never rejects: what goes wrong is an answer too. */
export async function serve(host: Host, endpoint: Endpoint, { waitUntil, ...arrival }: Arrival): Promise<Response> {
  const { limits } = host;
  const call: Call = { requestId: newRequestId(), life: host.calls.begin(arrival.request.signal, waitUntil) };
  const { signal, atEnd } = call.life;
  const incoming: Incoming = { ...arrival, limits, signal, atEnd };
  try {
    signal.throwIfAborted();
    switch (endpoint.kind) {
      case "chat":
        return await generate(host, endpoint, incoming, call, () => chatGeneration(host, endpoint, incoming));
      case "image":
        return await generate(host, endpoint, incoming, call, () => imageGeneration(host, endpoint, incoming));
      case "query":
        return await query(host, endpoint, incoming, call);
      case "open":
        return await open(endpoint, incoming, call);
    }
  } catch (error) {
    return refuse(host, endpoint, error, call);
  }
}

async function query(host: Host, endpoint: QueryEndpoint, incoming: Incoming, call: Call): Promise<Response> {
  const ask = async (): Promise<unknown> => {
    const key = await authenticate(host, endpoint, incoming, call);
    if (!endpoint.expiredKeysMayAsk) assertCurrent(key, host.clock);
    const authorize = ({ model }: { readonly model: string }): Promise<void> => authorizeModel(host, { model }, key);
    return endpoint.answer({ ...incoming, key, countTokens: host.countTokens, authorize });
  };
  const body = await call.life.within(ask());
  call.life.end();
  return json(200, body, call);
}

async function open(endpoint: OpenEndpoint, incoming: Incoming, { life, requestId }: Call): Promise<Response> {
  const response = await life.within(endpoint.answer(incoming));
  life.end();
  response.headers.set("request-id", requestId);
  response.headers.set("x-request-id", requestId);
  return response;
}

async function generate<Event, Answered>(
  host: Host,
  endpoint: Endpoint,
  incoming: Incoming,
  call: Call,
  read: () => Promise<Generation<Event, Answered>>,
): Promise<Response> {
  const { requestId, life } = call;
  const { key, generation, hold } = await life.within(
    admit(host, endpoint, incoming, call, read),
    // Granted when nobody waited for it any more.
    (late) => late.hold.settle(0, "exact"),
  );
  const { hangUp = "cancel" } = host.backend;
  if (hangUp !== "cancel") life.outlive(hangUp.drainMs);
  const run = await begun(generation, hold, { signal: life.signal, requestId, key });
  const quietMs = generation.stream ? host.limits.keepAliveMs : undefined;
  const { signal, complete, keep } = life;
  const options = { hold, meter: run.meter, clock: host.clock, signal, complete, keep, quietMs };
  const askedAt = host.clock.now();
  const events = await started(metered(() => run.answer(reporter(host, call)), options));

  if (generation.stream) return streamed(host, run.stream(), events, askedAt, call);
  const collector = run.collector();
  for await (const event of events) collector.add(event);
  life.end();
  return json(200, collector.body(), call);
}

/** The generation, made ready to run; its hold is void where a host's own function fails at that. */
async function begun<Event, Answered>(
  generation: Generation<Event, Answered>,
  hold: Hold,
  context: CallContext,
): Promise<Run<Event, Answered>> {
  try {
    return generation.begin(hold.granted, context);
  } catch (error) {
    await hold.settle(0, "exact");
    throw error;
  }
}

/** All that stands before the backend. None of it costs anything. */
async function admit<Event, Answered>(
  host: Host,
  endpoint: Endpoint,
  incoming: Incoming,
  call: Call,
  read: () => Promise<Generation<Event, Answered>>,
): Promise<Admitted<Event, Answered>> {
  const key = await authenticate(host, endpoint, incoming, call);
  assertCurrent(key, host.clock);
  const generation = await read();
  await authorizeModel(host, generation, key);
  const hold = await reserve(call.requestId, generation.amounts(), key, holdTerms(host, call));
  return { key, generation, hold };
}

async function authenticate(
  { quotas }: Host,
  endpoint: Endpoint,
  { request }: Incoming,
  call: Call,
): Promise<ApiKeyRecord> {
  const credential = endpoint.credential(request);
  if (!credential) throw new GatewayError("missing_api_key", "No API key was given.");
  call.secret = credential;
  const key = await quotas.find(withoutPrefix(credential));
  if (!key) throw new GatewayError("invalid_api_key", "The API key is not valid.");
  return key;
}

function assertCurrent(key: ApiKeyRecord, clock: Clock): void {
  if (key.expiresAt > 0 && key.expiresAt * 1000 <= clock.now())
    throw new GatewayError("expired_api_key", "The API key has expired.");
}

async function authorizeModel(
  { backend }: Host,
  { model, aliases = [], outputLimit }: Pick<Generation<never, never>, "model" | "aliases" | "outputLimit">,
  key: ApiKeyRecord,
): Promise<void> {
  const names = [model, ...aliases];
  if (key.modelLimitsEnabled && !names.some((name) => Object.hasOwn(key.modelLimits, name) && key.modelLimits[name]))
    throw new GatewayError("model_not_allowed", `This API key may not use the model "${model}".`, { path: ["model"] });
  const known = await backend.models?.();
  if (!known) return;
  const info = known.find(({ id }) => names.includes(id));
  if (!info) throw new GatewayError("model_not_found", `There is no model "${model}".`, { path: ["model"] });
  const most = info.maxOutputTokens;
  if (most === undefined || !outputLimit || outputLimit.tokens <= most) return;
  const { path, lower } = outputLimit;
  if (lower) return lower(most);
  throw new GatewayError("invalid_request", `${path.join(".")}: must be at most ${most} for the model "${model}"`, {
    path,
  });
}

/**
 * Pulls the first event before the answer begins: a failure up to here still has its true status, and a generator that has
 * started will run its `finally`.
 */
async function started<Answered>(
  events: AsyncGenerator<Answered, void>,
): Promise<AsyncIterableIterator<Answered, void>> {
  let first: IteratorResult<Answered, void> | undefined = await events.next();
  const iterator: AsyncIterableIterator<Answered, void> = {
    next() {
      if (!first) return events.next();
      const step = Promise.resolve(first);
      first = undefined;
      return step;
    },
    return: () => events.return(),
    [Symbol.asyncIterator]: () => iterator,
  };
  return iterator;
}

function streamed<Answered>(
  host: Host,
  stream: AnswerStream<Answered>,
  events: AsyncIterator<Answered, void>,
  silentSince: number,
  call: Call,
): Response {
  const { requestId, life } = call;
  const body = eventStream({
    events,
    encode: (event) => stream.encode(event),
    signal: life.unread,
    clock: host.clock,
    silentSince,
    keepAlive: { frame: stream.keepAlive, afterMs: host.limits.keepAliveMs },
    failed: (error) => stream.error(failure(host, error, call)),
    cancelled: life.clientGone,
    ended: () => life.end(),
  });
  const headers = {
    "content-type": stream.contentType,
    "cache-control": "no-cache, no-transform",
    // Some reverse proxies collect a response before they pass it on, unless told.
    "x-accel-buffering": "no",
    "request-id": requestId,
    "x-request-id": requestId,
  };
  return newResponse(body, { status: 200, headers });
}

function refuse(host: Host, endpoint: Endpoint, thrown: unknown, call: Call): Response {
  const error = failure(host, thrown, call);
  call.life.end();
  const { status, body } = endpoint.dress(error, call.requestId);
  return json(status, body, call, errorHeaders(error));
}

/** What went wrong, told to the host where the caller hears only an outline; the call is over. */
function failure(host: Host, thrown: unknown, call: Call): GatewayError {
  const error = toGatewayError(thrown);
  if (UNSHOWN.has(error.code)) report(host, error, call);
  call.life.cut(error);
  return error;
}

/** Codes under which the caller is told less than the host should know. */
const UNSHOWN: ReadonlySet<GatewayErrorCode> = new Set(["internal", "backend_failed", "backend_unavailable"]);

function report({ onFailure }: Host, error: GatewayError, { requestId, secret }: Call): void {
  try {
    onFailure({ error, requestId, text: redact(accountOf(error), secret) });
  } catch {
    // A host's reporter that fails must not fail the call that it reports.
  }
}

const holdTerms = (host: Host, call: Call): HoldTerms => ({
  quotas: host.quotas,
  clock: host.clock,
  leaseMs: host.limits.leaseMs,
  keep: call.life.keep,
  report: reporter(host, call),
});

/** Tells the host of what fails and no caller hears of. */
const reporter =
  (host: Host, call: Call) =>
  (error: unknown): void =>
    report(host, toGatewayError(error), call);

function errorHeaders({ code, retryAfterMs, allow }: GatewayError): Record<string, string> {
  const headers: Record<string, string> = {};
  if (allow) headers["allow"] = allow.join(", ");
  // Waiting does not refill a quota, and the official SDKs would retry a 429 three times.
  if (code === "quota_exhausted" || code === "quota_insufficient") headers["x-should-retry"] = "false";
  if (retryAfterMs !== undefined) {
    headers["retry-after"] = String(Math.ceil(retryAfterMs / 1000));
    headers["retry-after-ms"] = String(retryAfterMs);
  }
  return headers;
}

const json = (status: number, body: unknown, { requestId }: Call, headers: Record<string, string> = {}): Response =>
  newResponse(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", "request-id": requestId, "x-request-id": requestId, ...headers },
  });

// srvx's own response is the faster one, but not known as a response where a host has replaced the platform's class, as Hono does.
const newResponse = (body: BodyInit, init: ResponseInit): Response =>
  FastResponse.prototype instanceof Response ? new FastResponse(body, init) : new Response(body, init);

const newRequestId = (): string => `req_${crypto.randomUUID().replaceAll("-", "")}`;

/** The line that every request walks: authenticate, parse, authorize, reserve, backend, encode, settle. */

import { FastResponse } from "srvx";
import type { ChatEndpoint, Endpoint } from "./dialects/dialect.ts";
import { accountOf, GatewayError, type GatewayErrorCode, toGatewayError } from "./errors.ts";
import { redact, withoutPrefix } from "./http/credential.ts";
import { eventStream } from "./http/event-stream.ts";
import { Lifeline } from "./http/lifeline.ts";
import type { Limits } from "./limits.ts";
import { type CountTokens, estimateInputTokens } from "./metering/estimate.ts";
import { type HoldTerms, reserve } from "./metering/hold.ts";
import { metered } from "./metering/metered.ts";
import { Meter } from "./metering/meter.ts";
import type { Price } from "./metering/price.ts";
import type { ChatRequest } from "./model/chat.ts";
import type { AnswerEvent } from "./model/event.ts";
import type { Clock } from "./ports/clock.ts";
import type { ModelBackend } from "./ports/model-backend.ts";
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
export interface Host {
  readonly backend: ModelBackend;
  readonly quotas: QuotaStore;
  readonly price: Price;
  readonly countTokens: CountTokens;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly onFailure: (failure: Failure) => void;
}

/** One request under way. */
interface Call {
  readonly requestId: string;
  readonly life: Lifeline;
  /** The api key as the caller sent it, once it was read: known here so that no log gets it. */
  secret?: string;
}

/** Answers a request to an endpoint. Never rejects: what goes wrong is an answer too. */
export async function serve(host: Host, endpoint: Endpoint, request: Request): Promise<Response> {
  const { clock, limits } = host;
  const call: Call = { requestId: newRequestId(), life: new Lifeline(request.signal, clock, limits.deadlineMs) };
  try {
    const key = await authenticate(host, endpoint.credential(request), call);
    if (endpoint.kind === "query") {
      if (!endpoint.expiredKeysMayAsk) assertCurrent(key, clock);
      const body = await endpoint.answer({ request, key, limits, countTokens: host.countTokens });
      call.life.end();
      return json(200, body, call);
    }
    return await generate(host, endpoint, request, key, call);
  } catch (error) {
    return refuse(host, endpoint, error, call);
  }
}

async function generate(
  host: Host,
  endpoint: ChatEndpoint,
  wire: Request,
  key: ApiKeyRecord,
  call: Call,
): Promise<Response> {
  const { clock, limits, backend, countTokens } = host;
  const { requestId, life } = call;
  assertCurrent(key, clock);
  const asked = await endpoint.parse(wire, limits);
  await authorizeModel(asked, key, backend, endpoint);

  const inputTokens = estimateInputTokens(asked, countTokens);
  const hold = await reserve(requestId, asked, inputTokens, key, holdTerms(host, call));
  const request = hold.request;
  const answer = () => backend.chat?.(request, { signal: life.signal, requestId, key }) ?? noBackend();
  const meter = new Meter(inputTokens, countTokens);
  const quietMs = request.stream ? limits.keepAliveMs : undefined;
  const events = await started(metered(answer, { hold, meter, clock, signal: life.signal, quietMs }));

  if (request.stream) return streamed(host, endpoint, events, request, call);
  const body = await endpoint.complete(events, { request, requestId });
  life.end();
  return json(200, body, call);
}

async function authenticate({ quotas }: Host, credential: string | undefined, call: Call): Promise<ApiKeyRecord> {
  if (!credential) throw new GatewayError("missing_api_key", "No API key was given.");
  call.secret = withoutPrefix(credential);
  const key = await quotas.find(call.secret);
  if (!key) throw new GatewayError("invalid_api_key", "The API key is not valid.");
  return key;
}

function assertCurrent(key: ApiKeyRecord, clock: Clock): void {
  if (key.expiresAt > 0 && key.expiresAt * 1000 <= clock.now())
    throw new GatewayError("expired_api_key", "The API key has expired.");
}

async function authorizeModel(
  asked: ChatRequest,
  key: ApiKeyRecord,
  backend: ModelBackend,
  endpoint: ChatEndpoint,
): Promise<void> {
  const { model, maxOutputTokens } = asked;
  if (key.modelLimitsEnabled && !(Object.hasOwn(key.modelLimits, model) && key.modelLimits[model]))
    throw new GatewayError("model_not_allowed", `This API key may not use the model "${model}".`, { path: ["model"] });
  const known = await backend.models?.();
  if (!known) return;
  const info = known.find(({ id }) => id === model);
  if (!info) throw new GatewayError("model_not_found", `There is no model "${model}".`, { path: ["model"] });
  const path = endpoint.maxOutputTokensPath;
  if (info.maxOutputTokens !== undefined && maxOutputTokens > info.maxOutputTokens)
    throw new GatewayError(
      "invalid_request",
      `${path.join(".")}: must be at most ${info.maxOutputTokens} for the model "${model}"`,
      { path },
    );
}

/**
 * Pulls the first event before the answer begins: a failure up to here still has its true status, and a generator that has
 * started will run its `finally`.
 */
async function started(events: AsyncGenerator<AnswerEvent, void>): Promise<AsyncIterable<AnswerEvent>> {
  let first: IteratorResult<AnswerEvent, void> | undefined = await events.next();
  const next = async (): Promise<IteratorResult<AnswerEvent, void>> => {
    if (!first) return events.next();
    const step = first;
    first = undefined;
    return step;
  };
  return { [Symbol.asyncIterator]: () => ({ next, return: () => events.return() }) };
}

function streamed(
  host: Host,
  endpoint: ChatEndpoint,
  events: AsyncIterable<AnswerEvent>,
  request: ChatRequest,
  call: Call,
): Response {
  const { requestId, life } = call;
  const { contentType, frames, keepAlive, error: errorFrame } = endpoint.stream(events, { request, requestId });
  const body = eventStream({
    frames,
    signal: life.signal,
    clock: host.clock,
    keepAlive: { frame: keepAlive, afterMs: host.limits.keepAliveMs },
    failed: (error) => errorFrame(failure(host, error, call)),
    cancelled: life.clientGone,
    ended: () => life.end(),
  });
  const headers = {
    "content-type": contentType,
    "cache-control": "no-cache, no-transform",
    // Some reverse proxies collect a response before they pass it on, unless told.
    "x-accel-buffering": "no",
    "request-id": requestId,
    "x-request-id": requestId,
  };
  return new FastResponse(body, { status: 200, headers });
}

function refuse(host: Host, endpoint: Endpoint, thrown: unknown, call: Call): Response {
  const error = failure(host, thrown, call);
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
  price: host.price,
  clock: host.clock,
  leaseMs: host.limits.leaseMs,
  report: (error) => report(host, toGatewayError(error), call),
});

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
  new FastResponse(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", "request-id": requestId, "x-request-id": requestId, ...headers },
  });

const newRequestId = (): string => `req_${crypto.randomUUID().replaceAll("-", "")}`;

function noBackend(): never {
  throw new GatewayError("internal", "The gateway has no backend for this request.");
}

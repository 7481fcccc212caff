/** The pipeline: every request runs through it from top to bottom, a step a line. Start reading the gateway here. */

import type { GenerationEndpoint, ListedModel, PublicEndpoint, QueryEndpoint } from "../formats/format.ts";
import { type Answer, jsonAnswer, JsonPieces } from "../http/answer.ts";
import type { CountedKind, DecodedRequest, KindModule } from "../kinds/kind.ts";
import { nextIteration } from "../ports/clock.ts";
import type { ApiKey, Balance } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import {
  authenticate,
  authorizeModel,
  findModel,
  listsForKind,
  type NamedModel,
  visibleModels,
} from "./authenticate.ts";
import { inBackground } from "./background.ts";
import { parseBody, readBody } from "./body.ts";
import type { Call } from "./call.ts";
import { failureOf, report } from "./failures.ts";
import { limitRequests, limitTokens } from "./rate-limit.ts";
import { ending } from "./replay.ts";
import { reserve } from "./reserve.ts";
import { callHeaders, complete, piecemeal, polled, refusal, streamed } from "./respond.ts";
import { BackendContext, CallOfKind, countedByBackend, type MeteredEvents, runBackend } from "./run-backend.ts";

/** Recognises a repeated request by its key, and answers it with the answer of the first. */
export interface Repetitions {
  /** Returns the request's idempotency key; undefined without one. Throws `invalid_request` for a header that is not a key. */
  keyOf(request: Request): string | undefined;
  /** Returns the answer of the first call with the key; undefined when this call is the first. */
  replay(call: Call, key: ApiKey, idempotencyKey: string): Promise<Answer | undefined>;
}

/** The parts of the pipeline that come with the features of a gateway. */
export interface Parts {
  /** Undefined when the host has no replay store: then idempotency keys mean nothing. */
  readonly repetitions: Repetitions | undefined;
}

/**
 * Answers a call. Never rejects: an error is an answer too. The pipeline races the end of the call here, and only here. A step that hangs
 * is left behind, and a late result of it is released.
 */
export function serve(call: Call, parts: Parts): Promise<Answer> {
  return new Promise((resolve) => {
    const refuse = (thrown: unknown): void => {
      const error = (call.error = failureOf(call, thrown));
      resolve(call.endAndSettle().then(() => refusal(call, error)));
    };
    call.listener = { cut: refuse };
    try {
      call.slot = call.services.inFlight.begin(call);
    } catch (closing) {
      return refuse(closing);
    }
    const { reason } = call.abort;
    if (reason) return refuse(reason);
    answer(call, parts).then(resolve, (error: unknown) => call.isEnded || refuse(error));
  });
}

function answer(call: Call, parts: Parts): Promise<Answer> {
  const { endpoint } = call;
  if (endpoint.kind === "query") return query(call, endpoint, parts);
  if (endpoint.kind === "public") return publicAnswer(call, endpoint);
  return generate(call, endpoint, endpoint.kind, parts);
}

/** Answers a call for any kind of generation: the backend generates the answer. */
async function generate(
  call: Call,
  endpoint: GenerationEndpoint,
  kind: KindModule,
  { repetitions }: Parts,
): Promise<Answer> {
  const { backend, countInput, hooks, limits, rateLimiter } = call.services;
  const key = await authenticate(call);
  if (rateLimiter) await limitRequests(call, key, rateLimiter);
  call.idempotencyKey = repetitions?.keyOf(call.request);
  const { solvency } = await readBody(call, key);
  const { idempotencyKey } = call;
  const repeated = idempotencyKey === undefined ? undefined : await repetitions?.replay(call, key, idempotencyKey);
  if (repeated) return repeated;
  if (solvency) await solvency;
  const decoded = await decode(call, endpoint);
  if (call.json.isLarge) await nextIteration();
  call.assertLive();
  call.stream = decoded.stream ?? false;
  const named = await authorizeModel(call, key, namedBy(kind, endpoint, decoded));
  const asked = hooks ? await hooks.before(call, key, kind, decoded) : decoded;
  const model = asked.model === decoded.model ? named : await findModel(call, namedBy(kind, endpoint, asked));
  const fitted = kind.fit?.(endpoint, asked, model) ?? asked;
  const countedInput =
    countInput === "backend" && kind.input
      ? await countedByBackend(call, key, kind.input, fitted).catch(reported(call))
      : undefined;
  const callOfKind = new CallOfKind(call, key, kind);
  const cost = kind.cost(callOfKind, fitted, { model, countedInput });
  call.inputTokens = cost.inputTokens;
  call.maxOutputTokens = cost.maxOutputTokens;
  if (rateLimiter) await limitTokens(call, key, fitted.model, rateLimiter);
  const hold = await reserve(call, key, cost);
  const prepared = kind.prepare && (await kind.prepare(callOfKind, endpoint, fitted));
  call.assertLive();
  if (call.json.isLarge) await nextIteration();
  const request = key.unlimited || !kind.afford ? fitted : kind.afford(callOfKind, fitted, cost, hold.granted);
  const context = new BackendContext(call, key, kind.mayRunCode?.(request));
  const generated = kind.generation(callOfKind, endpoint, request, { cost, prepared });
  const generation = call.hooked ? { ...generated, onEvent: call.hooked.listener(generated) } : generated;
  const askedAt = call.clock.now();
  const ask = (): AsyncIterable<unknown> | undefined => kind.ask(backend, request, context);
  const quietMs = request.stream ? limits.keepAliveMs : undefined;
  const run = (): Promise<MeteredEvents<unknown, unknown>> => runBackend(call, hold, request, generation, ask, quietMs);
  const answered = {
    request: asked === decoded ? request : asCalled(request, decoded),
    requestId: call.id,
    kept: call.kept,
  };
  const background = endpoint.background?.(answered);
  if (background)
    return inBackground(call, background, request.stream ?? false, async () =>
      streamed(call, await run(), background, askedAt),
    );
  const events = await run();
  if (request.stream && endpoint.stream) return streamed(call, events, endpoint.stream(answered), askedAt);
  return finish(call, await complete(call, events, endpoint.complete(answered)));
}

/** Returns a request that a hook has changed with the body of its caller, which the answer's format may repeat. */
const asCalled = <Request extends DecodedRequest>(request: Request, decoded: Request): Request =>
  "native" in decoded ? { ...request, native: decoded.native } : request;

/** Names the requested model. */
const namedBy = (kind: KindModule, endpoint: GenerationEndpoint, request: DecodedRequest): NamedModel => ({
  aliases: [],
  ...kind.names?.(endpoint, request),
  name: request.model,
  kind: kind.name,
});

/** A function of its own, so that the parsed body is released when it returns, except for the parts that the request keeps. */
const decode = (call: Call, endpoint: GenerationEndpoint): DecodedRequest | Promise<DecodedRequest> =>
  endpoint.decode(parseBody(call), call, (model) => listsForKind(call, model));

/** Reports a failed count of the input. The estimate stands in, and a backend that is down is told when it must answer. */
const reported =
  (call: Call) =>
  (error: unknown): undefined => {
    call.assertLive();
    report(call, error, "model-backend");
  };

/** Ends a call whose answer is complete. */
async function finish(call: Call, answer: Answer): Promise<Answer> {
  call.recording?.complete(answer);
  await call.endAndSettle();
  return answer;
}

/** Answers a route that the gateway serves itself, at no charge. */
async function query(call: Call, endpoint: QueryEndpoint, { repetitions }: Parts): Promise<Answer> {
  const { countTokens, hooks, quotas, rateLimiter } = call.services;
  const key = await authenticate(call, endpoint.expiredKeysMayAsk);
  if (rateLimiter) await limitRequests(call, key, rateLimiter);
  if (endpoint.method === "POST") call.idempotencyKey = repetitions?.keyOf(call.request);
  const { solvency } = endpoint.body === "json" ? await readBody(call, key) : { solvency: undefined };
  const { idempotencyKey } = call;
  const repeated = idempotencyKey === undefined ? undefined : await repetitions?.replay(call, key, idempotencyKey);
  if (repeated) return repeated;
  if (solvency) await solvency;
  const body = parseBody(call);
  const balance = (): Promise<Balance | undefined> =>
    askStore(call, "quota-store", "balance", () => quotas.balance(key.id, call.details));
  const authorize = async ({ name: kind }: Pick<KindModule, "name">, name: string): Promise<void> =>
    void (await authorizeModel(call, key, { name, aliases: [], kind }));
  const models = (): Promise<readonly ListedModel[]> => visibleModels(call, key);
  const countInput = async <Request extends DecodedRequest>(
    kind: CountedKind<Request>,
    decoded: Request,
  ): Promise<number> => {
    const request = hooks ? await hooks.beforeCount(call, key, kind, decoded) : decoded;
    if (request.model !== decoded.model) await findModel(call, { name: request.model, aliases: [], kind: kind.name });
    const counted = await countedByBackend(call, key, kind.input, request);
    return counted ?? kind.input.estimate(request, countTokens);
  };
  const asked = { body, key, countInput, authorize, balance, models };
  const source = endpoint.stream?.(asked, call);
  if (source) return polled(call, source);
  const told = await endpoint.answer(asked, call);
  if (told instanceof JsonPieces) return piecemeal(call, told);
  const answered = jsonAnswer(200, told, callHeaders(call));
  // A kept response may be large, and its client may read nothing of it.
  return endpoint.method === "GET" ? ending(call, answered) : finish(call, answered);
}

/** Answers a route that needs no key. */
async function publicAnswer(call: Call, endpoint: PublicEndpoint): Promise<Answer> {
  const answered = await endpoint.answer(call);
  call.status = answered.status;
  await call.endAndSettle();
  return { ...answered, headers: { ...answered.headers, ...callHeaders(call) } };
}

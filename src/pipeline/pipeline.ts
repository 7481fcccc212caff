/** The pipeline: every request runs through it from top to bottom, a step a line. Start reading the gateway here. */

import type { ListedModel, PublicEndpoint, QueryEndpoint } from "../formats/format.ts";
import { type Answer, jsonAnswer, JsonPieces } from "../http/answer.ts";
import { estimateInputTokens } from "../kinds/chat/input-tokens.ts";
import type { ChatRequest } from "../kinds/chat/request.ts";
import type { ModelKind } from "../ports/call.ts";
import { nextIteration } from "../ports/clock.ts";
import type { Balance } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import {
  authenticate,
  authorizeModel,
  authorizeOthers,
  findModel,
  listsForKind,
  visibleModels,
} from "./authenticate.ts";
import { inBackground } from "./background.ts";
import { parseBody, readBody } from "./body.ts";
import type { Call } from "./call.ts";
import { failureOf, report } from "./failures.ts";
import type { DecodedRequest, GenerationEndpoint, Kind, Parts } from "./kind.ts";
import { inPieces } from "./public-bytes.ts";
import { limitRequests, limitTokens } from "./rate-limit.ts";
import { ending, largeAnswer } from "./replay.ts";
import { reserve } from "./reserve.ts";
import { callHeaders, complete, piecemeal, polled, refusal, streamed } from "./respond.ts";
import { BackendContext, type MeteredEvents, runBackend } from "./run-backend.ts";

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
  return generate(call, endpoint as GenerationEndpoint, parts.kinds[endpoint.kind], parts);
}

/** Answers a call for any kind of generation: the backend generates the answer. */
async function generate<
  Endpoint extends GenerationEndpoint<Request, Answered>,
  Request extends DecodedRequest,
  Event,
  Answered,
>(
  call: Call,
  endpoint: Endpoint,
  kind: Kind<Endpoint, Request, Event, Answered>,
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
  const named = await authorizeModel(call, key, kind.model(endpoint, decoded));
  authorizeOthers(key, decoded.native);
  const asked = hooks ? await hooks.before(call, key, call.endpoint.kind as ModelKind, decoded) : decoded;
  const model = asked.model === decoded.model ? named : await findModel(call, kind.model(endpoint, asked));
  const fitted = kind.fit(endpoint, asked, model);
  if (countInput === "backend" && kind.countInput)
    call.countedInput = await kind.countInput(call, key, fitted).catch(reported(call));
  const amounts = kind.amounts(call, fitted, model);
  if (rateLimiter) await limitTokens(call, key, fitted.model, rateLimiter);
  const hold = await reserve(call, key, amounts);
  if (kind.prepare) await kind.prepare(call, key, endpoint, fitted);
  call.assertLive();
  if (call.json.isLarge) await nextIteration();
  const request = key.unlimited ? fitted : kind.afford(call, fitted);
  const context = new BackendContext(call, key, kind.mayRunCode(request));
  const generated = kind.generation(call, endpoint, request);
  const generation = call.hooked ? { ...generated, onEvent: call.hooked.listener(generated) } : generated;
  const askedAt = call.clock.now();
  const ask = (): AsyncIterable<Event> | undefined => kind.ask(backend, request, context);
  const quietMs = request.stream ? limits.keepAliveMs : undefined;
  const run = (): Promise<MeteredEvents<Event, Answered>> => runBackend(call, hold, request, generation, ask, quietMs);
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

/** A function of its own, so that the parsed body is released when it returns, except for the parts that the request keeps. */
const decode = <Request extends DecodedRequest>(
  call: Call,
  endpoint: GenerationEndpoint<Request>,
): Request | Promise<Request> => endpoint.decode(parseBody(call), call, (model) => listsForKind(call, model));

/** Reports a failed count of the input. The estimate stands in, and a backend that is down is told when it must answer. */
const reported =
  (call: Call) =>
  (error: unknown): undefined => {
    call.assertLive();
    report(call, error, "model-backend");
  };

/** Ends a call whose answer is complete: at once, or with the last piece of an answer that is large, such as pictures. */
async function finish(call: Call, answer: Answer): Promise<Answer> {
  call.recording?.complete(answer);
  const large = largeAnswer(call, answer);
  if (large) return large;
  await call.endAndSettle();
  return answer;
}

/** Answers a route that the gateway serves itself, at no charge. */
async function query(call: Call, endpoint: QueryEndpoint, { kinds, repetitions }: Parts): Promise<Answer> {
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
  const authorize = async (name: string): Promise<void> =>
    void (await authorizeModel(call, key, { name, aliases: [], kind: "chat" }));
  const models = (): Promise<readonly ListedModel[]> => visibleModels(call, key);
  const countInput = async (decoded: ChatRequest): Promise<number> => {
    authorizeOthers(key, decoded.native);
    const request = hooks ? await hooks.beforeCount(call, key, decoded) : decoded;
    if (request.model !== decoded.model) await findModel(call, { name: request.model, aliases: [], kind: "chat" });
    const counted = await kinds.chat.countInput(call, key, request);
    return counted ?? estimateInputTokens(request, countTokens, request.mediaResolution);
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
  const whole = { ...answered, headers: { ...answered.headers, ...callHeaders(call) } };
  const told = inPieces(call, whole);
  if (told === whole) await call.endAndSettle();
  return told;
}

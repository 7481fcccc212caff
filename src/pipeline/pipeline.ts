/** The pipeline: every request runs through it from top to bottom, a step a line. Start reading the gateway here. */

import type {
  AnyEndpoint,
  Endpoint,
  GenerationEndpoint,
  ListedModel,
  PublicEndpoint,
  QueryEndpoint,
} from "../formats/format.ts";
import { wholeOf } from "../formats/shared/lazy.ts";
import { type Answer, jsonAnswer, JsonPieces, type SocketHandler } from "../http/answer.ts";
import { parseBody } from "../http/body.ts";
import type { CountedKind, DecodedRequest, KindModule } from "../kinds/kind.ts";
import { bookText, forgetText } from "../model/kept-text.ts";
import { nextIteration } from "../ports/clock.ts";
import type { ApiKey, Balance } from "../ports/quota-store.ts";
import {
  authenticate,
  authorizeModel,
  authorizeOthers,
  documentsCallOf,
  findModel,
  limitRequests,
  limitTokens,
  noteModel,
  type NamedModel,
  type ReadBody,
  readBody,
  visibleModels,
  balanceOf,
} from "./admission.ts";
import type { Call, Mounted } from "./call.ts";
import type { AnswerRecorder } from "./idempotency.ts";
import type { AnswerEvents } from "./output.ts";
import type { Repetitions } from "./replay.ts";
import { report } from "./reports.ts";
import { reserve } from "./reserve.ts";
import {
  inPieces,
  callHeaders,
  complete,
  ending,
  finish,
  inBackground,
  piecemeal,
  polled,
  refusal,
  streamed,
} from "./respond.ts";
import { runBackend, BackendContext, CallOfKind, countedByBackend } from "./run-backend.ts";
import type { Services } from "./services.ts";

/** The parts of the pipeline that come with the features of a gateway. */
export interface Parts {
  /** Undefined when the host has no replay store: then idempotency keys mean nothing. */
  readonly repetitions: Repetitions | undefined;
  /** Undefined for a gateway without the code of WebSockets. */
  readonly acceptSocket: AcceptSocket | undefined;
}

/** A request that asks for a WebSocket, and the endpoint that accepts it. */
export interface SocketRequest {
  readonly endpoint: AnyEndpoint;
  readonly request: Request;
  readonly prefix: string;
  readonly mounted: Mounted;
}

/** Asks for a WebSocket. Resolves with the refusal, or with the handler of the connection. */
export type AcceptSocket = (services: Services, parts: Parts, asked: SocketRequest) => Promise<Answer | SocketHandler>;

/**
 * Answers a call. Never rejects: an error is an answer too. The pipeline races the end of the call here, and only here. A step that hangs
 * is left behind, and a late result of it is released.
 */
export function serve(call: Call, parts: Parts): Promise<Answer> {
  const { promise, resolve } = Promise.withResolvers<Answer>();
  const refuse = (thrown: unknown): void => {
    const refused = refusal(call, call.fail(thrown));
    resolve(call.endAndSettle().then(() => refused));
  };
  call.abort.listen({ cut: refuse });
  try {
    call.slot = call.services.inFlight.begin(call);
    const { reason } = call.abort;
    if (reason) throw reason;
    const endpoint = wholeOf<Endpoint>(call.endpoint);
    const answered =
      endpoint instanceof Promise
        ? call.wait(endpoint).then((loaded) => answer(call, loaded, parts))
        : answer(call, endpoint, parts);
    answered.then(resolve, (error: unknown) => call.isEnded || refuse(error));
  } catch (error) {
    refuse(error);
  }
  return promise;
}

function answer(call: Call, endpoint: Endpoint, parts: Parts): Promise<Answer> {
  if (endpoint.kind === "query") return query(call, endpoint, parts);
  if (endpoint.kind === "public") return publicAnswer(call, endpoint);
  return generate(call, endpoint, endpoint.kind, parts);
}

/** The results of the prologue. */
interface Entered<Decoded> {
  readonly key: ApiKey;
  readonly decoded: Decoded;
  /** Keeps the answer, for the first call with its idempotency key. */
  readonly recorder: AnswerRecorder | undefined;
}

/** The steps of the prologue that not every endpoint takes. All others are the same for all endpoints with a key. */
interface Prologue {
  readonly expiredKeysMayAsk: boolean;
  readonly hasBody: boolean;
  /** True when callers may repeat a request under an idempotency key. */
  readonly isRepeatable: boolean;
}

const GENERATED: Prologue = { expiredKeysMayAsk: false, hasBody: true, isRepeatable: true };

/**
 * Runs the prologue of every endpoint with a key. A step takes the results of the steps above it, and returns its own:
 *
 * | Step           | Result                                                       | Left out                                    |
 * | -------------- | ------------------------------------------------------------ | ------------------------------------------- |
 * | authenticate   | the key, and the documents of the key                        |                                             |
 * | limit requests |                                                              | without a rate limiter                      |
 * | idempotency    | the idempotency key                                          | for queries that read, without replay store |
 * | read body      | the unparsed body, and a question for quota that goes on     | for queries without a body                  |
 * | replay         | the answer of an earlier call, or the recorder of the answer | without an idempotency key                  |
 * | solvency       |                                                              | for keys that need not be asked for         |
 * | parse          | the decoded body                                             |                                             |
 *
 * Resolves with the answer of an earlier call when the request repeats it.
 *
 * @param decode The endpoint's own end of the prologue. The parsed body is released behind it.
 */
async function enter<Decoded>(
  call: Call,
  endpoint: Endpoint,
  { expiredKeysMayAsk, hasBody, isRepeatable }: Prologue,
  { repetitions }: Parts,
  decode: (body: unknown, key: ApiKey) => Decoded | Promise<Decoded>,
): Promise<Entered<Decoded> | Answer> {
  const { rateLimiter, replays, responses } = call.services;
  let content: unknown;
  try {
    const key = await authenticate(call, expiredKeysMayAsk);
    if (responses) call.kept = responses.documentsOf(documentsCallOf(call, endpoint, key), key);
    if (rateLimiter) await limitRequests(call, key, rateLimiter);
    const idempotencyKey = isRepeatable ? repetitions?.keyOf(call.request) : undefined;
    const body: ReadBody = hasBody ? await readBody(call, endpoint, key) : {};
    content = body.content;
    const isKept = repetitions !== undefined && replays !== undefined && idempotencyKey !== undefined;
    const replayed = isKept ? await repetitions.replay(call, replays, key, idempotencyKey, body.content) : undefined;
    if (replayed?.answer) return replayed.answer;
    if (body.solvency) await body.solvency;
    content = parseBody(body, call.json, { known: call.services.knownBodies, keyId: key.id });
    const decoded = await decode(content, key);
    return { key, decoded, recorder: replayed?.recorder };
  } catch (error) {
    noteModel(call, endpoint, content);
    throw error;
  }
}

/** Answers a call for any kind of generation: the backend generates the answer. */
async function generate(call: Call, endpoint: GenerationEndpoint, kind: KindModule, parts: Parts): Promise<Answer> {
  const { backend, codeRunner, countInput, hooks, limits, rateLimiter } = call.services;
  const entered = await enter(call, endpoint, GENERATED, parts, (body, key) =>
    endpoint.decode(body, call, (unlisted) => visibleModels(call, key, unlisted)),
  );
  if ("status" in entered) return entered;
  const { key, decoded, recorder } = entered;
  if (decoded.native) bookText(decoded.native.body, call.json);
  if (call.json.isLarge) await nextIteration();
  call.assertLive();
  call.found.stream = decoded.stream ?? false;
  const named = await authorizeModel(call, key, namedBy(kind, endpoint, decoded));
  authorizeOthers(key, decoded.native);
  const asked = hooks ? await hooks.before(call, key, kind, decoded) : decoded;
  const model = asked.model === decoded.model ? named : await findModel(call, namedBy(kind, endpoint, asked));
  const fitted = kind.fit?.(endpoint, asked, model) ?? asked;
  const countedInput =
    countInput === "backend" && kind.input
      ? await countedByBackend(call, key, kind.input, fitted).catch(reported(call))
      : undefined;
  const callOfKind = new CallOfKind(call, key, kind, { name: fitted.model, info: model });
  const cost = kind.cost(callOfKind, fitted, { model, countedInput });
  if (rateLimiter) await limitTokens(call, key, fitted.model, cost, rateLimiter);
  const hold = (callOfKind.hold = await reserve(call, key, cost));
  const prepared = kind.prepare && (await kind.prepare(callOfKind, endpoint, fitted));
  call.assertLive();
  if (call.json.isLarge) await nextIteration();
  const request = callOfKind.afforded(fitted, cost);
  const mayRunCode = codeRunner !== undefined && kind.mayRunCode?.(request);
  const context = new BackendContext(call, key, mayRunCode, callOfKind);
  const generated = kind.generation(callOfKind, endpoint, request, { cost, prepared });
  const { hooked } = call.found;
  const generation = hooked?.generation(call, generated) ?? generated;
  const askedAt = call.clock.now();
  const ask = (one: DecodedRequest): AsyncIterable<unknown> | undefined => kind.ask(backend, one, context);
  const quietMs = request.stream ? limits.keepAliveMs : undefined;
  const run = async (): Promise<AnswerEvents<unknown>> => {
    const events = await runBackend(call, hold, request, generation, ask, quietMs);
    // The upstream has the request now. Its answer may last, and the request may be megabytes long.
    if (decoded.native) forgetText(decoded.native.body);
    return hooked ? hooked.shown(call, events, quietMs && askedAt + quietMs - call.clock.now()) : events;
  };
  const answered = {
    request: asked === decoded ? request : asCalled(request, decoded),
    requestId: call.id,
    kept: call.kept,
  };
  const background = endpoint.background?.(answered);
  if (background)
    return inBackground(call, background, request.stream ?? false, recorder, async (recorded) =>
      streamed(call, await run(), background, askedAt, recorded),
    );
  const events = await run();
  if (request.stream && endpoint.stream) return streamed(call, events, endpoint.stream(answered), askedAt, recorder);
  return finish(call, await complete(call, events, endpoint.complete(answered)), recorder);
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

/** Reports a failed count of the input. The estimate stands in, and a backend that is down is told when it must answer. */
const reported =
  (call: Call) =>
  (error: unknown): undefined => {
    call.assertLive();
    report(call, error, "model-backend");
  };

/** Answers a route that the gateway serves itself, at no charge. */
async function query(call: Call, endpoint: QueryEndpoint, parts: Parts): Promise<Answer> {
  const { countTokens, hooks } = call.services;
  const prologue: Prologue = {
    expiredKeysMayAsk: endpoint.expiredKeysMayAsk,
    hasBody: endpoint.body === "json",
    isRepeatable: endpoint.method === "POST",
  };
  const entered = await enter(call, endpoint, prologue, parts, (parsed) => parsed);
  if ("status" in entered) return entered;
  const { key, decoded: body, recorder } = entered;
  const balance = (): Promise<Balance | undefined> => balanceOf(call, key);
  const authorize = async ({ name: kind }: Pick<KindModule, "name">, name: string): Promise<void> =>
    void (await authorizeModel(call, key, { name, aliases: [], kind }));
  const models = (): Promise<readonly ListedModel[]> => visibleModels(call, key);
  const estimateInput = <Request extends DecodedRequest>(kind: CountedKind<Request>, request: Request): number =>
    kind.input.estimate(request, countTokens);
  const countInput = async <Request extends DecodedRequest>(
    kind: CountedKind<Request>,
    decoded: Request,
  ): Promise<number> => {
    authorizeOthers(key, decoded.native);
    const request = hooks ? await hooks.beforeCount(call, key, kind, decoded) : decoded;
    if (request.model !== decoded.model) await findModel(call, { name: request.model, aliases: [], kind: kind.name });
    const counted = await countedByBackend(call, key, kind.input, request);
    return counted ?? estimateInput(kind, request);
  };
  const asked = { body, key, countInput, estimateInput, authorize, balance, models };
  const source = endpoint.stream?.(asked, call);
  if (source) return polled(call, source);
  const told = await endpoint.answer(asked, call);
  if (told instanceof JsonPieces) return piecemeal(call, told);
  const answered = jsonAnswer(200, told, callHeaders(call));
  // A kept response may be large, and its client may read nothing of it.
  return endpoint.method === "GET" ? ending(call, answered) : finish(call, answered, recorder);
}

/** Answers a route that needs no key. */
async function publicAnswer(call: Call, endpoint: PublicEndpoint): Promise<Answer> {
  const answered = await endpoint.answer(call);
  call.found.status = answered.status;
  const whole = { ...answered, headers: { ...answered.headers, ...callHeaders(call) } };
  const told = inPieces(call, whole);
  return told === whole ? finish(call, whole) : told;
}

/** The line that every request walks, from top to bottom, a step a line. */

import type { ChatRequest } from "../model/chat.ts";
import type { Balance } from "../ports/quota-store.ts";
import type { PublicEndpoint, QueryEndpoint, ListedModel } from "../dialects/dialect.ts";
import { type Answer, jsonAnswer } from "../http/answer.ts";
import { admitBody } from "./admit-body.ts";
import { askStore } from "./ask-store.ts";
import { authenticate } from "./authenticate.ts";
import { authorizeModel, visibleModels } from "./authorize-model.ts";
import type { Call } from "./call.ts";
import { countInput as countQueried } from "./count-input.ts";
import { chat } from "./chat.ts";
import { failureOf } from "./failure.ts";
import { image } from "./image.ts";
import type { Asked, GenerationEndpoint, Operation } from "./operation.ts";
import { limitRequests, limitTokens } from "./rate-limit.ts";
import { readBody, type SentBody } from "./read-body.ts";
import { repeatableOf } from "./repeatable.ts";
import { replay } from "./replay.ts";
import { reserve } from "./reserve.ts";
import { callHeaders, complete, refusal, streamed } from "./respond.ts";
import { runBackend } from "./run-backend.ts";

/**
 * Answers a call. Never rejects: what goes wrong is an answer too. The line is raced against the call's end here, once: a step
 * that hangs is left behind, and what it still brings is let go of.
 */
export function serve(call: Call): Promise<Answer> {
  return new Promise((resolve) => {
    const refuse = (thrown: unknown): void => {
      const error = (call.error = failureOf(call, thrown));
      resolve(call.answered().then(() => refusal(call, error)));
    };
    call.listener = { cut: refuse };
    try {
      call.place = call.services.inFlight.begin(call);
    } catch (closing) {
      return refuse(closing);
    }
    const { reason } = call.abort;
    if (reason) return refuse(reason);
    walk(call).then(resolve, (error: unknown) => call.isEnded || refuse(error));
  });
}

function walk(call: Call): Promise<Answer> {
  const { endpoint } = call;
  switch (endpoint.kind) {
    case "chat":
      return generate(call, endpoint, chat);
    case "image":
      return generate(call, endpoint, image);
    case "query":
      return query(call, endpoint);
    case "public":
      return publicAnswer(call, endpoint);
  }
}

async function generate<Request extends Asked, Event, Answered, Endpoint extends GenerationEndpoint<Request, Answered>>(
  call: Call,
  endpoint: Endpoint,
  operation: Operation<Endpoint, Request, Event, Answered>,
): Promise<Answer> {
  const { clock, countInput, limits, rateLimiter, replays } = call.services;
  const key = await authenticate(call);
  if (rateLimiter) await limitRequests(call, key, rateLimiter);
  if (replays) call.repeatable = repeatableOf(call.request);
  const admission = await admitBody(call, key);
  const sent = await readBody(call, admission.intake);
  const answered = call.repeatable && (await replay(call, key, call.repeatable, sent.raw));
  if (answered) return answered;
  if (admission.solvency) await admission.solvency;
  const decoded = await decode(call, endpoint, sent);
  const converted = call.turn();
  if (converted) await converted;
  call.assertLive();
  call.stream = decoded.stream;
  const model = await authorizeModel(call, key, operation.model(endpoint, decoded));
  const asked = model ? operation.fit(endpoint, decoded, model) : decoded;
  if (countInput === "backend" && operation.countInput) await operation.countInput(call, key, asked);
  const amounts = operation.amounts(call, asked, model);
  if (rateLimiter) await limitTokens(call, key, asked.model, rateLimiter);
  const hold = await reserve(call, key, amounts);
  if (operation.prepare) await operation.prepare(call, key, endpoint, asked);
  call.assertLive();
  const held = call.turn();
  if (held) await held;
  const run = operation.run(call, key, endpoint, asked);
  const askedAt = clock.now();
  const events = await runBackend(call, hold, run, asked.stream ? limits.keepAliveMs : undefined);
  const answer = { request: run.request, requestId: call.id };
  if (asked.stream) return streamed(call, events, endpoint.stream(answer), askedAt);
  const completed = await complete(call, events, endpoint.complete(answer));
  call.recording?.complete(completed);
  await call.answered();
  return completed;
}

/** A function of its own, so that the parsed body is let go of when this returns, as far as the request does not carry it along. */
const decode = <Request extends Asked>(
  call: Call,
  endpoint: GenerationEndpoint<Request, never>,
  sent: SentBody,
): Request | Promise<Request> => endpoint.decode(sent.parse(call.json), call);

/** What the gateway answers by itself. */
async function query(call: Call, endpoint: QueryEndpoint): Promise<Answer> {
  const { quotas, rateLimiter, replays } = call.services;
  const key = await authenticate(call, endpoint.expiredKeysMayAsk);
  if (rateLimiter) await limitRequests(call, key, rateLimiter);
  if (replays && endpoint.method === "POST") call.repeatable = repeatableOf(call.request);
  const admission = endpoint.body === "json" ? await admitBody(call, key) : undefined;
  const sent = admission && (await readBody(call, admission.intake));
  const answered = call.repeatable && (await replay(call, key, call.repeatable, sent?.raw));
  if (answered) return answered;
  if (admission?.solvency) await admission.solvency;
  const body = sent?.parse(call.json);
  const balance = (): Promise<Balance | undefined> =>
    askStore(call, "quota-store", "balance", () => quotas.balance(key.id, call.details));
  const authorize = async (name: string): Promise<void> =>
    void (await authorizeModel(call, key, { name, aliases: [], kind: "chat" }));
  const models = (): Promise<readonly ListedModel[]> => visibleModels(call, key);
  const count = (request: ChatRequest): Promise<number> => countQueried(call, key, request);
  const answer = await endpoint.answer({ body, key, countInput: count, authorize, balance, models }, call);
  const completed = jsonAnswer(200, answer, callHeaders(call));
  call.recording?.complete(completed);
  await call.answered();
  return completed;
}

/** What needs no key. */
async function publicAnswer(call: Call, endpoint: PublicEndpoint): Promise<Answer> {
  const answer = await endpoint.answer(call);
  call.status = answer.status;
  await call.answered();
  return { ...answer, headers: { ...answer.headers, ...callHeaders(call) } };
}

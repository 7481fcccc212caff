/** What the line runs for each kind of endpoint: a parsed request, what it may cost, and its answer once quota is held. */

import type { AnswerCollector, AnswerStream, ChatEndpoint, ImageEndpoint, Incoming } from "./dialects/dialect.ts";
import { GatewayError } from "./errors.ts";
import type { Limits } from "./limits.ts";
import { ChatMeter } from "./metering/chat-meter.ts";
import { type CountTokens, estimateInputTokens } from "./metering/estimate.ts";
import { imageAmounts, ImageMeter, type Published } from "./metering/image-meter.ts";
import type { ImagePrice } from "./metering/image-price.ts";
import type { Meter } from "./metering/meter.ts";
import { affordable, type Amounts, chatAmounts, type Price } from "./metering/price.ts";
import type { ChatRequest } from "./model/chat.ts";
import type { AnswerEvent, ChatEvent } from "./model/event.ts";
import type { CodeRunner } from "./ports/code-runner.ts";
import type { ImageAnswerEvent, ImageEvent, ImageRequest } from "./model/image.ts";
import type { CallContext, ModelBackend } from "./ports/model-backend.ts";

/** A request that was read and can be run. */
export interface Generation<Event, Answered> {
  readonly model: string;
  /** The most output tokens asked for, and the field that says so, where there is such a limit. */
  readonly outputLimit?: { readonly tokens: number; readonly path: readonly string[] };
  readonly stream: boolean;
  /** What it may cost. */
  amounts(): Amounts;
  /** Makes ready to run it within the units granted. Nothing runs yet. */
  begin(granted: number, call: CallContext): Run<Event, Answered>;
}

/** A generation that quota is held for. */
export interface Run<Event, Answered> {
  readonly meter: Meter<Event, Answered>;
  /** Asks the backend. */
  readonly answer: () => AsyncIterable<Event>;
  /** What makes the complete answer, or the streamed one. */
  readonly collector: () => AnswerCollector<Answered>;
  readonly stream: () => AnswerStream<Answered>;
}

/** What generations are priced and run with. */
export interface GenerationTerms {
  readonly backend: ModelBackend;
  readonly codeRunner: CodeRunner | undefined;
  readonly limits: Limits;
  readonly price: Price;
  readonly imagePrice: ImagePrice;
  readonly countTokens: CountTokens;
}

export async function chatGeneration(
  terms: GenerationTerms,
  endpoint: ChatEndpoint,
  incoming: Incoming,
): Promise<Generation<ChatEvent | string, AnswerEvent>> {
  const { backend, price, countTokens } = terms;
  const asked = await endpoint.parse(incoming);
  const inputTokens = estimateInputTokens(asked, countTokens);
  return {
    model: asked.model,
    outputLimit: { tokens: asked.maxOutputTokens, path: endpoint.maxOutputTokensPath },
    stream: asked.stream,
    amounts: () => chatAmounts(asked, inputTokens, price),
    begin(granted, call) {
      const request = call.key.unlimited ? asked : affordable(asked, inputTokens, price, granted);
      const answer = { request, requestId: call.requestId };
      return {
        meter: new ChatMeter({ request, inputTokens, countTokens, price }),
        answer: () => backend.chat?.(request, withCode(terms, request, call)) ?? noBackend(),
        collector: () => endpoint.complete(answer),
        stream: () => endpoint.stream(answer),
      };
    },
  };
}

/** The call, with the means to run code where the request allows it and the host can. */
function withCode({ codeRunner, limits }: GenerationTerms, { tools }: ChatRequest, call: CallContext): CallContext {
  if (!codeRunner || !tools.some(({ type }) => type === "code-execution")) return call;
  const run = { signal: call.signal, deadlineMs: limits.codeDeadlineMs };
  return { ...call, runCode: (code) => codeRunner.run(code, run) };
}

export async function imageGeneration(
  { backend, imagePrice, countTokens }: GenerationTerms,
  endpoint: ImageEndpoint,
  incoming: Incoming,
): Promise<Generation<Published, ImageAnswerEvent>> {
  const request = await endpoint.parse(incoming);
  return {
    model: request.model,
    stream: request.stream,
    amounts: () => imageAmounts(request, imagePrice),
    begin(_granted, call) {
      const answer = { request, requestId: call.requestId };
      return {
        meter: new ImageMeter(request, imagePrice, countTokens),
        answer: () => published(backend.image?.(request, call) ?? noBackend(), request, endpoint, incoming),
        collector: () => endpoint.complete(answer),
        stream: () => endpoint.stream(answer),
      };
    },
  };
}

/** Gives each finished picture its address before it counts as delivered, where its caller wants one. */
async function* published(
  events: AsyncIterable<ImageEvent>,
  { delivery, count }: ImageRequest,
  endpoint: ImageEndpoint,
  incoming: Incoming,
): AsyncGenerator<Published> {
  let drawn = 0;
  for await (const event of events) {
    if (event.type !== "image" || delivery === "data") yield event;
    // What comes beyond what was asked for is nobody's.
    else if (drawn++ < count) yield { ...event, url: await endpoint.publish(event, incoming) };
  }
}

/** The gateway mounts no route that its backend cannot serve, so a backend has lost its method since. */
function noBackend(): never {
  throw new GatewayError("internal", "The gateway has no backend for this request.");
}

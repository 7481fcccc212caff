/** What the line runs for each kind of endpoint: a parsed request, what it may cost, and its answer once quota is held. */

import type { AnswerCollector, AnswerStream, ChatEndpoint, ImageEndpoint, Incoming } from "./dialects/dialect.ts";
import { GatewayError, toGatewayError } from "./errors.ts";
import type { Limits } from "./limits.ts";
import { ChatMeter } from "./metering/chat-meter.ts";
import { type CountTokens, estimateInputTokens } from "./metering/estimate.ts";
import { assertPicture, imageAmounts, ImageMeter, type Published } from "./metering/image-meter.ts";
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
  /** Other names that keys and backends may know the model by. */
  readonly aliases?: readonly string[];
  /** The most output tokens asked for, where there is such a limit. */
  readonly outputLimit?: OutputLimit;
  readonly stream: boolean;
  /** What it may cost. */
  amounts(): Amounts;
  /** Makes ready to run it within the units granted. Nothing runs yet. */
  begin(granted: number, call: CallContext): Run<Event, Answered>;
}

export interface OutputLimit {
  readonly tokens: number;
  /** The field by which the caller named it. */
  readonly path: readonly string[];
  /** Lowers it to what the model can; undefined where the caller has named it, who is told instead. */
  readonly lower: ((tokens: number) => void) | undefined;
}

/** A generation that quota is held for. */
export interface Run<Event, Answered> {
  readonly meter: Meter<Event, Answered>;
  /** Asks the backend; `report` is told of what fails and the caller is spared. */
  readonly answer: (report: (error: unknown) => void) => AsyncIterable<Event>;
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
  let asked = await endpoint.parse(incoming);
  const inputTokens = estimateInputTokens(asked, countTokens);
  return {
    model: asked.model,
    outputLimit: {
      tokens: asked.maxOutputTokens,
      path: endpoint.maxOutputTokensPath,
      lower: asked.limitedByDefault && ((maxOutputTokens) => void (asked = { ...asked, maxOutputTokens })),
    },
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
    aliases: endpoint.aliasesOf(request.model),
    stream: request.stream,
    amounts: () => imageAmounts(request, imagePrice),
    begin(_granted, call) {
      const answer = { request, requestId: call.requestId };
      const pictures = (): AsyncIterable<ImageEvent> => backend.image?.(request, call) ?? noBackend();
      return {
        meter: new ImageMeter(request, imagePrice, countTokens),
        answer: (report) => published(pictures(), { request, endpoint, incoming, report, signal: call.signal }),
        collector: () => endpoint.complete(answer),
        stream: () => endpoint.stream(answer),
      };
    },
  };
}

interface Publishing {
  readonly request: ImageRequest;
  readonly endpoint: ImageEndpoint;
  readonly incoming: Incoming;
  readonly report: (error: unknown) => void;
  readonly signal: AbortSignal;
}

/** Gives each finished picture its address before it counts as delivered, where its caller wants one. */
async function* published(
  events: AsyncIterable<ImageEvent>,
  { request, endpoint, incoming, report, signal }: Publishing,
): AsyncGenerator<Published> {
  let drawn = 0;
  try {
    for await (const event of events) {
      if (event.type !== "image") yield event;
      // What comes beyond what was asked for is nobody's.
      else if (drawn < request.count) {
        assertPicture(event);
        const url = request.delivery === "data" ? {} : { url: await kept(endpoint.publish(event, incoming)) };
        drawn++;
        yield { ...event, ...url };
      }
    }
  } catch (error) {
    // What has come is paid for: a caller who waits for all of it gets that, and not an error in its place.
    if (drawn === 0 || request.stream || signal.aborted) throw error;
    report(error);
  }
}

/** A store that fails is the host's own, and no fault of the backend. */
const kept = (published: Promise<string>): Promise<string> =>
  published.catch((error: unknown) => {
    throw toGatewayError(error, "internal");
  });

/** The gateway mounts no route that its backend cannot serve, so a backend has lost its method since. */
function noBackend(): never {
  throw new GatewayError("internal", "The gateway has no backend for this request.");
}

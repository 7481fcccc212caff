/** Chat as a kind of generation: a request in messages, an answer in text, tool calls and media, counted in tokens. */

import { GatewayError, toGatewayError } from "../../errors.ts";
import type { ChatEndpoint } from "../../formats/format.ts";
import { limitBeside } from "../../formats/shared/reasoning.ts";
import type { Conversion } from "../../model/conversion.ts";
import { answeringUpstream, upstreamsOf } from "../../pipeline/attempts.ts";
import type { Call } from "../../pipeline/call.ts";
import { doubt } from "../../pipeline/failures.ts";
import type { Kind } from "../../pipeline/kind.ts";
import { BackendContext } from "../../pipeline/run-backend.ts";
import { type ModelBackend, type ModelInfo, takesUnknown } from "../../ports/model-backend.ts";
import type { ApiKey } from "../../ports/quota-store.ts";
import { isCount } from "../meter.ts";
import { priceAmong } from "../other-models.ts";
import type { AnswerEvent, ChatEvent } from "./event.ts";
import { estimateInputTokens } from "./input-tokens.ts";
import { ChatMeter, HIDDEN_INPUT_TOKENS, isTooMuchInput } from "./meter.ts";
import { affordable, chatAmounts, type Price, tokenPrice } from "./price.ts";
import type { ChatRequest } from "./request.ts";
import { assertSearchable, endAtStopSequences } from "./stop-sequences.ts";

type ChatKind = Kind<ChatEndpoint, ChatRequest, ChatEvent | string, AnswerEvent>;

export const chat: ChatKind & Required<Pick<ChatKind, "countInput">> = {
  model: (_endpoint, { model }) => ({ name: model, aliases: [], kind: "chat" }),

  fit({ maxOutputTokensPath: path }, request, model) {
    const most = model?.maxOutputTokens;
    const { reasoning, maxOutputTokens } = request;
    if (request.limitedByDefault) {
      // Default to the model's own output limit. If the limit is unknown, reasoning is not taken from the answer's tokens.
      if (most !== undefined) return { ...request, maxOutputTokens: most };
      const raised = limitBeside(maxOutputTokens, reasoning);
      return raised === maxOutputTokens
        ? request
        : { ...request, maxOutputTokens: raised, maxAnswerTokens: maxOutputTokens };
    }
    if (most === undefined || maxOutputTokens <= most) return request;
    throw new GatewayError(
      "invalid_request",
      `${path.join(".")}: must be at most ${most} for the model "${request.model}"`,
      { path },
    );
  },

  countInput: countByBackend,

  amounts(call, request, model) {
    assertSearchable(request.stopSequences, call.limits);
    const { countTokens, price } = call.services;
    call.inputTokens = countedInput(call, request) ?? withinWindow(estimateInputTokens(request, countTokens), model);
    call.maxOutputTokens = request.maxOutputTokens * (request.candidateCount ?? 1);
    const upstreams = upstreamsOf(call, request.model, "chat");
    return chatAmounts(request, call.inputTokens, priceOf(price, request), upstreams);
  },

  afford: (call, request) =>
    affordable(
      request,
      call.inputTokens,
      priceOf(call.services.price, request),
      call.granted,
      upstreamsOf(call, request.model, "chat"),
    ),

  mayRunCode: ({ tools }) => tools.some(({ type }) => type === "code-execution"),

  ask(backend, request, context) {
    assertTaken(backend, request);
    return backend.chat?.(request, context);
  },

  generation(call, endpoint, request) {
    const { countTokens, isRecorded, price } = call.services;
    const { stopSequences, candidateCount = 1 } = request;
    const meter: ChatMeter = new ChatMeter({
      request,
      inputTokens: call.inputTokens,
      countTokens,
      price: priceOf(price, request, () => meter.report.model),
      upstream: () => answeringUpstream(call),
      jsonLimits: call.json.limits,
      doubt: (why) => doubt(call, why),
    });
    const generation = {
      meter,
      shape: (events: AsyncIterable<ChatEvent | string>): AsyncIterable<ChatEvent | string> => {
        if (stopSequences.length === 0) return events;
        const stop = { candidateCount, format: endpoint.format, onCut: () => meter.cut() };
        return endAtStopSequences(events, stopSequences, stop);
      },
    };
    return isRecorded ? { ...generation, onEvent: noteConversions(call, endpoint) } : generation;
  },
};

/** Returns the backend's count of the input; undefined without one, and for a count that cannot be true. */
function countedInput(call: Call, request: ChatRequest): number | undefined {
  const { countedInput: counted } = call;
  if (counted === undefined || counted <= HIDDEN_INPUT_TOKENS) return counted;
  if (!isTooMuchInput(counted, estimateInputTokens(request, call.services.countTokens), request)) return counted;
  doubt(call, `The model backend counted ${counted} input tokens before the call.`);
  return undefined;
}

/** The default price is the same for all models, and is recognised as such. */
const priceOf = (price: Price, { native }: ChatRequest, answered?: () => string | undefined): Price =>
  price === tokenPrice ? price : priceAmong(price, native, answered);

/** Refuses the unknown types of a request, unless the backend takes them. */
function assertTaken(backend: ModelBackend, { model, native }: ChatRequest): void {
  if (!takesUnknown(backend, model)) native?.assertKnown?.();
}

/** Returns the backend's count of the input; undefined for a backend that does not count. Throws the backend's error. */
async function countByBackend(call: Call, key: ApiKey, request: ChatRequest): Promise<number | undefined> {
  const { backend } = call.services;
  assertTaken(backend, request);
  try {
    const counting = backend.countInputTokens?.(request, new BackendContext(call, key));
    const tokens = counting === undefined ? undefined : await call.wait(counting);
    const isKnown: boolean = isCount(tokens);
    if (tokens === undefined || isKnown) return tokens;
    throw new TypeError(`A count of tokens must be an integer from 0 up, not ${tokens}.`);
  } catch (error) {
    throw toGatewayError(error, "model-backend");
  }
}

/** Lowers an estimate to the listed window of the model: no model takes more. */
const withinWindow = (tokens: number, { maxInputTokens: most = tokens }: Partial<ModelInfo> = {}): number =>
  most >= 1 && most < tokens ? Math.ceil(most) : tokens;

/** Notes the conversions of the answer for the record. The headers are sent before the answer. */
function noteConversions(call: Call, endpoint: ChatEndpoint): (event: AnswerEvent) => void {
  const conversions = new Map<string, Conversion>();
  return (event) => {
    for (const conversion of endpoint.conversionsOfEvent(event)) {
      if (conversions.has(conversion.field)) continue;
      conversions.set(conversion.field, conversion);
      call.answerConversions = [...conversions.values()];
    }
  };
}

/** Chat, as the line runs it. */

import type { ChatEndpoint } from "../dialects/dialect.ts";
import { GatewayError } from "../errors.ts";
import { ChatMeter } from "../metering/chat-meter.ts";
import { estimateInputTokens } from "../metering/estimate.ts";
import { affordable, chatAmounts } from "../metering/price.ts";
import { assertSearchable, endAtStopSequences } from "../metering/stop-sequences.ts";
import type { ChatRequest } from "../model/chat.ts";
import type { AnswerEvent, ChatEvent } from "../model/event.ts";
import type { FieldFate } from "../model/fate.ts";
import type { ModelInfo } from "../ports/model-backend.ts";
import { BackendContext } from "./backend-context.ts";
import type { Call } from "./call.ts";
import { BackendEvents } from "./run-backend.ts";
import type { Operation } from "./operation.ts";
import { countByBackend } from "./count-input.ts";
import { doubt, report } from "./failure.ts";

export const chat: Operation<ChatEndpoint, ChatRequest, ChatEvent | string, AnswerEvent> = {
  model: (_endpoint, { model }) => ({ name: model, aliases: [], kind: "chat" }),

  fit({ maxOutputTokensPath: path }, request, { maxOutputTokens: most }) {
    if (most === undefined) return request;
    // Default to the model's own output limit.
    if (request.limitedByDefault) return { ...request, maxOutputTokens: most };
    if (request.maxOutputTokens <= most) return request;
    throw new GatewayError(
      "invalid_request",
      `${path.join(".")}: must be at most ${most} for the model "${request.model}"`,
      { path },
    );
  },

  async countInput(call, key, request) {
    try {
      call.countedInput = await countByBackend(call, key, request);
    } catch (error) {
      // The estimate stands in; what keeps the backend from counting may keep it from answering, which is then told.
      if (!call.isEnded) report(call, error, "model-backend");
    }
    call.assertLive();
  },

  amounts(call, request, model) {
    assertSearchable(request.stopSequences, call.limits);
    const { countTokens, price } = call.services;
    call.inputTokens = call.countedInput ?? withinWindow(estimateInputTokens(request, countTokens), model);
    call.maxOutputTokens = request.maxOutputTokens * (request.candidateCount ?? 1);
    return chatAmounts(request, call.inputTokens, price);
  },

  run(call, key, endpoint, asked) {
    const { services, inputTokens, granted } = call;
    const { countTokens, price, backend } = services;
    const request = key.unlimited ? asked : affordable(asked, inputTokens, price, granted);
    const context = new BackendContext(
      call,
      key,
      request.tools.some(({ type }) => type === "code-execution"),
    );
    const meter = new ChatMeter({ request, inputTokens, countTokens, price, doubt: (why) => doubt(call, why) });
    return {
      request,
      meter,
      saw: services.isRecorded ? noteLosses(call, endpoint) : undefined,
      events: () => {
        const events = new BackendEvents(call, eventsOf(backend.chat?.(request, context)));
        const { stopSequences, candidateCount = 1 } = request;
        if (stopSequences.length === 0) return events;
        return endAtStopSequences(events, stopSequences, {
          candidateCount,
          dialect: endpoint.dialect,
          left: () => meter.cut(),
        });
      },
    };
  },
};

/** Lowers an estimate to the window that the model is listed with: no model takes more. */
const withinWindow = (tokens: number, { maxInputTokens: most = tokens }: Partial<ModelInfo> = {}): number =>
  most >= 1 && most < tokens ? Math.ceil(most) : tokens;

/** Notes what of the answer the caller's format cannot say: its record tells, because the headers are out before. */
function noteLosses(call: Call, endpoint: ChatEndpoint): (event: AnswerEvent) => void {
  const fates = new Map<string, FieldFate>();
  return (event) => {
    for (const loss of endpoint.lossesOf(event)) {
      if (fates.has(loss.field)) continue;
      fates.set(loss.field, loss);
      call.answerFates = [...fates.values()];
    }
  };
}

/**
 * The events that a backend has returned. Throws a TypeError for a promise of them, as an asynchronous function that is no generator
 * returns it. What the promise rejects with is handled: nobody else would, and that ends a process.
 */
export function eventsOf<Event>(returned: AsyncIterable<Event> | undefined): AsyncIterable<Event> {
  // The gateway mounts no route that its backend cannot serve, so a backend has lost its method since.
  if (returned == null) throw new GatewayError("internal", "The gateway has no backend for this request.");
  if (!("then" in Object(returned))) return returned;
  void Promise.resolve(returned).catch(() => {});
  throw new TypeError("A backend must return an async iterable, not a promise: write `async *chat`, not `async chat`.");
}

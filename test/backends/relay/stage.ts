/** A relay of the small format before an upstream, asked without a gateway. */

import { plainCodec } from "./plain-codec.ts";
import { ChatRelay } from "../../../src/backends/relay/chat.ts";
import type { RelayOptions } from "../../../src/backends/relay/options.ts";
import type { ChatRequest } from "../../../src/model/chat.ts";
import type { ChatEvent } from "../../../src/model/event.ts";
import type { FieldFate } from "../../../src/model/fate.ts";
import type { CallContext } from "../../../src/ports/model-backend.ts";

export const API_KEY = "sk-upstream-0123456789abcdef";

export const plainRelay = (
  baseUrl: string,
  options: Partial<RelayOptions> = {},
  fates: readonly FieldFate[] = [],
): ChatRelay => new ChatRelay({ format: "messages", apiKey: API_KEY, baseUrl, ...options }, plainCodec(fates));

export const chatRequest = (more: Partial<ChatRequest> = {}): ChatRequest => ({
  model: "plain-1",
  messages: [{ role: "user", parts: [{ type: "text", text: "Hello" }] }],
  system: [],
  tools: [],
  maxOutputTokens: 100,
  stopSequences: [],
  stream: true,
  ...more,
});

/** A call's context, and what was reported to it. */
export function callContext(signal: AbortSignal = new AbortController().signal): CallContext & {
  readonly reported: readonly FieldFate[];
} {
  const reported: FieldFate[] = [];
  return {
    requestId: "req_1",
    context: undefined,
    headers: new Headers(),
    clientAddress: undefined,
    key: { id: "key", name: "key", unlimited: true, modelLimits: {}, modelLimitsEnabled: false, expiresAt: 0 },
    signal,
    reportFates: (fates) => void reported.push(...fates),
    reported,
  };
}

export interface Outcome {
  readonly text: string;
  readonly error: unknown;
  readonly events: readonly ChatEvent[];
}

/** Asks to the end, or to the error. */
export async function ask(
  relay: ChatRelay,
  more: Partial<ChatRequest> = {},
  call: CallContext = callContext(),
): Promise<Outcome> {
  const events: ChatEvent[] = [];
  let error: unknown;
  try {
    for await (const event of relay.chat(chatRequest(more), call)) events.push(event);
  } catch (thrown) {
    error = thrown;
  }
  const text = events.map((event) => (event.type === "text-delta" ? event.text : "")).join("");
  return { text, error, events };
}

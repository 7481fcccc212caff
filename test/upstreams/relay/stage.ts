/** A relay of the small format before an upstream, asked without a gateway. */

import { messagesUpstream } from "../../../src/formats/messages/module.ts";
import type { ChatVerbs, UpstreamFormat } from "../../../src/formats/module.ts";
import type { ChatEvent } from "../../../src/model/chat-event.ts";
import type { ChatRequest } from "../../../src/model/chat-request.ts";
import type { Conversion } from "../../../src/model/conversion.ts";
import type { CallContext } from "../../../src/ports/model-backend.ts";
import type { RelayBackend, RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { relay } from "../../../src/upstreams/relay/relay.ts";
import { plainCodec } from "./plain-codec.ts";

export const API_KEY = "sk-upstream-0123456789abcdef";

export const plainRelay = (
  baseUrl: string,
  options: Partial<RelayOptions> = {},
  conversions: readonly Conversion[] = [],
): Omit<RelayBackend, keyof ChatVerbs | "check"> & ChatVerbs => {
  const format: UpstreamFormat<ChatVerbs> = {
    ...messagesUpstream,
    open: (tools) => tools.chat(plainCodec(conversions)),
  };
  return relay({ apiKey: API_KEY, baseUrl, ...options, format });
};

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

/** A call's context that records the reported conversions. */
export function callContext(signal: AbortSignal = new AbortController().signal): CallContext & {
  readonly reported: readonly Conversion[];
} {
  const reported: Conversion[] = [];
  return {
    requestId: "req_1",
    context: undefined,
    headers: new Headers(),
    clientAddress: undefined,
    key: { id: "key", name: "key", unlimited: true, modelLimits: {}, modelLimitsEnabled: false, expiresAt: 0 },
    signal,
    reportConversions: (conversions) => void reported.push(...conversions),
    reported,
  };
}

export interface Outcome {
  readonly text: string;
  readonly error: unknown;
  readonly events: readonly ChatEvent[];
}

/** Asks, and reads the answer to its end or to its error. */
export async function ask(
  relay: ChatVerbs,
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

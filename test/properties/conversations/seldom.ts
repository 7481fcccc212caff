/** What conversations say now and then: ids that other formats do not take, instructions in their midst, names, efforts, tiers. */

import fc from "fast-check";
import type { ChatMessage, ChatRequest, JsonObject, Part, Reasoning } from "../../../src/index.ts";

/** A change of a conversation that its own format can say. */
export type Change = (request: ChatRequest) => ChatRequest;

/** Every fourth conversation with one or two changes. */
export const withSeldom = (
  conversation: fc.Arbitrary<ChatRequest>,
  changes: readonly Change[],
): fc.Arbitrary<ChatRequest> =>
  fc.oneof(
    { weight: 3, arbitrary: conversation },
    fc
      .tuple(conversation, fc.subarray([...changes], { minLength: 1, maxLength: 2 }))
      .map(([request, chosen]) => chosen.reduce((changed, change) => change(changed), request)),
  );

const withMessages =
  (change: (message: ChatMessage, index: number) => readonly ChatMessage[]): Change =>
  (request) => ({ ...request, messages: request.messages.flatMap(change) });

const withParts = (change: (part: Part) => readonly Part[]): Change =>
  withMessages((message) => [{ ...message, parts: message.parts.flatMap(change) }]);

/** A call or a result of another id; other parts as they are. */
function renamed(part: Part, rename: (id: string) => string): Part {
  if (part.type === "tool-call") return { ...part, id: rename(part.id) };
  if (part.type === "tool-result") return { ...part, callId: rename(part.callId) };
  const id = part.type === "provider" ? part.value["id"] : undefined;
  return part.type === "provider" && typeof id === "string"
    ? { ...part, value: { ...part.value, id: rename(id) } }
    : part;
}

export const ODD_IDS: Change = withParts((part) => [renamed(part, (id) => `fn.${id}:1`)]);
export const LONG_IDS: Change = withParts((part) => [renamed(part, (id) => `toolu_${"0".repeat(40)}${id}`)]);

/** Each call twice, and each result. */
export const TWIN_CALLS: Change = withParts((part) => {
  const twin = renamed(part, (id) => `${id}_2`);
  return twin === part ? [part] : [part, twin];
});

/** A text after each call. */
export const LAST_WORDS: Change = withParts((part) =>
  part.type === "tool-call" ? [part, { type: "text", text: "One moment." }] : [part],
);

/** Instructions behind the first turn. */
export const INSTRUCTED: Change = withMessages((message, index) =>
  index > 0 ? [message] : [message, { role: "system", parts: [{ type: "text", text: "Be brief." }] }],
);

/** Users and assistants of a name. */
export const NAMED: Change = withMessages((message) => [{ ...message, name: `${message.role}_1` }]);

/** Assistants who show their reasoning, and have not sealed it. */
export const THINKING: Change = withMessages((message) =>
  message.role === "assistant"
    ? [{ ...message, parts: [{ type: "reasoning", text: "Let me see." }, ...message.parts] }]
    : [message],
);

export const reasoning =
  (wish: Reasoning): Change =>
  (request) => ({ ...request, reasoning: wish });

export const STRICT: Change = (request) => ({
  ...request,
  tools: request.tools.map((tool) =>
    tool.type === "function" ? { ...tool, strict: tool.name.length % 2 === 0 } : tool,
  ),
});

/** A tool that the provider runs itself. */
export const HOSTED: Change = (request) => ({
  ...request,
  tools: [
    ...request.tools,
    { type: "provider", format: "responses", definition: { type: "web_search", search_context_size: "low" } },
    { type: "provider", format: "responses", definition: { type: "file_search", vector_store_ids: ["vs_1"] } },
    { type: "code-execution" },
  ],
});

export const TIERED: Change = (request) => ({ ...request, serviceTier: "auto" });
export const PICTURED: Change = (request) => ({ ...request, modalities: ["text", "image"] });

/** A field that no other format has words for. */
export const withOwn =
  (format: string, body: JsonObject): Change =>
  (request) => ({ ...request, native: { format, body, betas: [] } });

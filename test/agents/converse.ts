/** A strict upstream of Converse: its routes, answers and errors. */

import type { ContentBlock, ConverseResponse } from "@aws-sdk/client-bedrock-runtime";
import { answerBody, eventBytes, eventsOf } from "../clouds/converse-wire.ts";
import { validateConverse } from "./converse.rules.ts";
import type { Turn } from "./script.ts";
import { newId, type Received, Refused, type StrictFormat, type Vault } from "./strict.ts";

export const strictConverse: StrictFormat = {
  format: "bedrock-converse",
  version: "",
  credential: (headers) => (headers.get("authorization") ?? "").replace(/^Bearer /, ""),
  route(path) {
    const [, model, verb] = /^\/model\/([^/]+)\/(converse|converse-stream)$/.exec(path) ?? [];
    if (model === undefined) throw new Refused("UnknownOperationException", { status: 404 });
    return { model: decodeURIComponent(model), streamed: verb === "converse-stream" };
  },
  validate: validateConverse,
  complete: (turn, received, vault) => JSON.parse(answerBody(answerOf(turn, received, vault))) as object,
  stream: (turn, received, vault) => eventBytes(eventsOf(answerOf(turn, received, vault))),
  streamType: "application/vnd.amazon.eventstream",
  error: ({ message }) => ({ message }),
  errorHeaders: ({ status }) => ({
    "x-amzn-errortype": status === 401 ? "UnrecognizedClientException" : "ValidationException",
  }),
};

const answerOf = (turn: Turn, received: Received, vault: Vault): ConverseResponse => ({
  output: { message: { role: "assistant", content: blocksOf(turn, received, vault) } },
  stopReason: turn.calls.length > 0 ? "tool_use" : "end_turn",
  usage: { inputTokens: 100, outputTokens: 40, totalTokens: 140 },
  metrics: { latencyMs: 300 },
});

/** Claude signs what it thinks, GPT encrypts it, and other models do neither. */
function blocksOf({ thought, isRedacted, text, calls }: Turn, { model, body }: Received, vault: Vault): ContentBlock[] {
  const blocks: ContentBlock[] = [];
  const redactedContent = (): Uint8Array => Buffer.from(vault.seal("redacted", ""), "base64");
  if (body["additionalModelRequestFields"] !== undefined) {
    if (isRedacted || /openai\.gpt-\d/.test(model))
      blocks.push({ reasoningContent: { redactedContent: redactedContent() } });
    else {
      const signature = model.includes("claude-") ? { signature: vault.seal("thinking", thought) } : {};
      blocks.push({ reasoningContent: { reasoningText: { text: thought, ...signature } } });
    }
  }
  if (text !== undefined) blocks.push({ text });
  for (const { name, args } of calls) {
    // Mistral's models have short ids.
    const toolUseId = model.includes("mistral.") ? newId("", 9) : newId("tooluse_", 22);
    blocks.push({ toolUse: { toolUseId, name, input: args } });
  }
  return blocks;
}

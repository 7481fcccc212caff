/** A strict upstream of the messages format: its routes, answers and errors. */

import type { JsonObject } from "../../src/model/json.ts";
import { controlOf, isThinking, validateMessages } from "./messages.rules.ts";
import type { Turn } from "./script.ts";
import { newId, pieces, type Received, Refused, type StrictFormat, type Vault } from "./strict.ts";

export const strictMessages: StrictFormat = {
  format: "messages",
  version: "/v1",
  credential: (headers) => {
    if (!headers.has("anthropic-version")) throw new Refused("anthropic-version: header is required");
    return headers.get("x-api-key");
  },
  route(path, { model, stream }) {
    if (path !== "/messages") throw new Refused("Not Found", { status: 404 });
    return { model: model as string, streamed: stream === true };
  },
  validate: validateMessages,
  count: (path) => (path === "/messages/count_tokens" ? { input_tokens: 100 } : undefined),
  complete: (turn, received, vault) => ({
    ...head(received),
    content: blocksOf(turn, received, vault),
    ...endOf(turn),
  }),
  stream: (turn, received, vault) => framesOf(turn, received, vault).map(frame).join(""),
  error: ({ status, message }) => ({
    type: "error",
    error: { type: ERROR_TYPES[status] ?? "invalid_request_error", message },
    request_id: newId("req_"),
  }),
};

const ERROR_TYPES: Readonly<Record<number, string>> = { 401: "authentication_error", 404: "not_found_error" };

const usage = { input_tokens: 100, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 40 };

const head = ({ model }: Received): object => ({ id: newId("msg_"), type: "message", role: "assistant", model, usage });

const endOf = ({ calls }: Turn): object => ({
  stop_reason: calls.length > 0 ? "tool_use" : "end_turn",
  stop_sequence: null,
});

/** Models that are only controlled by effort keep their thinking to themselves, unless they are asked to sum it up. */
function isOmitted({ model, body }: Received): boolean {
  const { display } = body["thinking"] as { readonly display?: string };
  return display === undefined ? controlOf(model) === "effort" : display === "omitted";
}

type AnswerBlock =
  | { readonly type: "text"; readonly text: string; readonly citations: readonly [] }
  | { readonly type: "thinking"; readonly thinking: string; readonly signature: string }
  | { readonly type: "redacted_thinking"; readonly data: string }
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly input: JsonObject };

function blocksOf({ thought, isRedacted, text, calls }: Turn, received: Received, vault: Vault): AnswerBlock[] {
  const blocks: AnswerBlock[] = [];
  if (isThinking(received.body)) {
    const thinking = isOmitted(received) ? "" : thought;
    if (isRedacted) blocks.push({ type: "redacted_thinking", data: vault.seal("redacted", "") });
    else blocks.push({ type: "thinking", thinking, signature: vault.seal("thinking", thinking) });
  }
  if (text !== undefined) blocks.push({ type: "text", text, citations: [] });
  for (const { name, args } of calls) {
    const id = newId("toolu_");
    if (isThinking(received.body)) vault.calls.add(id);
    blocks.push({ type: "tool_use", id, name, input: args });
  }
  return blocks;
}

interface Frame {
  readonly type: string;
}

const frame = (data: Frame): string => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;

function framesOf(turn: Turn, received: Received, vault: Vault): Frame[] {
  const message = { ...head(received), content: [], stop_reason: null, stop_sequence: null };
  const frames: Frame[] = [{ type: "message_start", message } as Frame];
  for (const [index, block] of blocksOf(turn, received, vault).entries()) {
    const begin = (content_block: object): void =>
      void frames.push({ type: "content_block_start", index, content_block } as Frame);
    const delta = (delta: object): void => void frames.push({ type: "content_block_delta", index, delta } as Frame);
    if (block.type === "text") {
      begin({ ...block, text: "" });
      for (const text of pieces(block.text)) delta({ type: "text_delta", text });
    } else if (block.type === "thinking") {
      begin({ type: "thinking", thinking: "", signature: "" });
      for (const thinking of pieces(block.thinking)) delta({ type: "thinking_delta", thinking });
      delta({ type: "signature_delta", signature: block.signature });
    } else if (block.type === "tool_use") {
      begin({ ...block, input: {} });
      for (const partial_json of ["", ...pieces(JSON.stringify(block.input))])
        delta({ type: "input_json_delta", partial_json });
    } else begin(block);
    frames.push({ type: "content_block_stop", index } as Frame);
    if (index === 0) frames.push({ type: "ping" });
  }
  frames.push({ type: "message_delta", delta: endOf(turn), usage } as Frame, { type: "message_stop" });
  return frames;
}

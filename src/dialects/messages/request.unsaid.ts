/** The fields of a messages request that the neutral request has no words for. */

import type { Reasoning } from "../../model/chat.ts";
import { Unsaid } from "../shared/unsaid.ts";
import type { Block, MessagesRequest } from "./schema.ts";

const BODY: ReadonlySet<string> = new Set([
  "model",
  "max_tokens",
  "messages",
  "system",
  "metadata",
  "stop_sequences",
  "stream",
  "temperature",
  "top_p",
  "top_k",
  "thinking",
  "tool_choice",
  "tools",
  "output_config",
  "service_tier",
]);
const METADATA: ReadonlySet<string> = new Set(["user_id"]);
const THINKING: ReadonlySet<string> = new Set(["type", "budget_tokens"]);
const OUTPUT_CONFIG: ReadonlySet<string> = new Set(["format", "effort"]);
const TOOL_CHOICE: ReadonlySet<string> = new Set(["type", "name", "disable_parallel_tool_use"]);
const TOOL: ReadonlySet<string> = new Set([
  "type",
  "name",
  "description",
  "input_schema",
  "strict",
  "cache_control",
  // In which pieces a call's input comes means nothing for what it is.
  "eager_input_streaming",
]);

const TEXT: ReadonlySet<string> = new Set(["type", "text", "cache_control"]);
/** Of the blocks that are decoded; the others are carried whole, and have a fate of their own. */
const BLOCKS: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ["text", TEXT],
  ["image", new Set(["type", "source", "cache_control"])],
  ["document", new Set(["type", "source", "title", "context", "citations", "cache_control"])],
  ["tool_use", new Set(["type", "id", "name", "input", "cache_control"])],
  ["tool_result", new Set(["type", "tool_use_id", "content", "is_error", "cache_control"])],
  ["thinking", new Set(["type", "thinking", "signature"])],
  ["redacted_thinking", new Set(["type", "data"])],
]);

function gatherBlocks(unsaid: Unsaid, content: string | readonly Block[] | null | undefined): void {
  if (typeof content === "string") return;
  for (const block of content ?? []) {
    const decoded = BLOCKS.get(block.type);
    if (decoded) unsaid.within(block, decoded, "messages", block.type);
    if (block.type === "tool_result") gatherBlocks(unsaid, block.content);
  }
}

export function unsaidOf(body: MessagesRequest, reasoning: Reasoning | undefined): ReturnType<Unsaid["told"]> {
  const unsaid = new Unsaid();
  const { metadata, thinking, output_config, tool_choice, tools } = body;
  unsaid.within(body, BODY);
  unsaid.within(metadata, METADATA, "metadata");
  unsaid.within(thinking, THINKING, "thinking");
  if (thinking?.type === "between_tools") unsaid.add("thinking.type");
  unsaid.within(output_config, OUTPUT_CONFIG, "output_config");
  const effort = reasoning?.type === "adaptive" ? reasoning.effort : undefined;
  if (output_config?.["effort"] != null && effort === undefined) unsaid.add("output_config.effort");
  if (output_config?.format && output_config.format.type !== "json_schema") unsaid.add("output_config.format");
  unsaid.within(tool_choice, TOOL_CHOICE, "tool_choice");
  for (const tool of tools ?? []) if (tool.type == null || tool.type === "custom") unsaid.within(tool, TOOL, "tools");
  for (const block of Array.isArray(body.system) ? body.system : []) unsaid.within(block, TEXT, "system");
  for (const { content } of body.messages) gatherBlocks(unsaid, content);
  return unsaid.told();
}

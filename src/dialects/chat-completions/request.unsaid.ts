/** The fields of a chat-completions request that the neutral request has no words for. */

import { Unsaid } from "../shared/unsaid.ts";
import type { ChatCompletionsRequest } from "./schema.ts";
import type { Message } from "./schema.message.ts";

const BODY: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "max_completion_tokens",
  "max_tokens",
  "stream",
  "stream_options",
  "stop",
  "temperature",
  "top_p",
  "presence_penalty",
  "frequency_penalty",
  "seed",
  "n",
  "logprobs",
  "top_logprobs",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "response_format",
  "reasoning_effort",
  "modalities",
  "audio",
  "service_tier",
  "user",
  "safety_identifier",
]);
const STREAM_OPTIONS: ReadonlySet<string> = new Set(["include_usage"]);
const AUDIO: ReadonlySet<string> = new Set(["voice"]);
const JSON_SCHEMA: ReadonlySet<string> = new Set(["name", "schema", "strict"]);
const FUNCTION: ReadonlySet<string> = new Set(["name", "description", "parameters", "strict"]);

const MESSAGES: Readonly<Record<Message["role"], ReadonlySet<string>>> = {
  system: new Set(["role", "content", "name"]),
  developer: new Set(["role", "content", "name"]),
  user: new Set(["role", "content", "name"]),
  assistant: new Set(["role", "content", "refusal", "reasoning_content", "tool_calls", "name"]),
  // The call tells the tool's name.
  tool: new Set(["role", "tool_call_id", "content", "name"]),
};
const PARTS: ReadonlySet<string> = new Set(["type", "text", "refusal", "image_url", "input_audio", "file"]);
const IMAGE: ReadonlySet<string> = new Set(["url", "detail"]);
const SOUND: ReadonlySet<string> = new Set(["data", "format"]);
const FILE: ReadonlySet<string> = new Set(["file_data", "file_id", "filename"]);
// The place of a call is that in its list; clients that have put a stream together send it back.
const CALL: ReadonlySet<string> = new Set(["id", "type", "function", "index"]);
const CALLED: ReadonlySet<string> = new Set(["name", "arguments"]);

function gatherMessage(unsaid: Unsaid, message: Message): void {
  unsaid.within(message, MESSAGES[message.role], "messages", message.role);
  for (const part of Array.isArray(message.content) ? message.content : []) {
    unsaid.within(part, PARTS, "messages", part.type);
    if (part.type === "image_url") {
      unsaid.within(part.image_url, IMAGE, "messages.image_url");
      // There is no word for a picture as large as it is.
      if (part.image_url.detail === "original") unsaid.add("messages.image_url.detail");
    }
    if (part.type === "input_audio") unsaid.within(part.input_audio, SOUND, "messages.input_audio");
    if (part.type === "file") unsaid.within(part.file, FILE, "messages.file");
  }
  if (message.role !== "assistant") return;
  for (const call of message.tool_calls ?? [])
    if (call.type === "function") {
      unsaid.within(call, CALL, "messages.tool_calls");
      unsaid.within(call.function, CALLED, "messages.tool_calls.function");
    }
}

export function unsaidOf(body: ChatCompletionsRequest): ReturnType<Unsaid["told"]> {
  const unsaid = new Unsaid();
  const { stream_options, audio, response_format, tools } = body;
  unsaid.within(body, BODY);
  unsaid.within(stream_options, STREAM_OPTIONS, "stream_options");
  unsaid.within(audio, AUDIO, "audio");
  // A voice of the caller's own is known to its provider alone.
  if (audio?.voice != null && typeof audio.voice !== "string") unsaid.add("audio.voice");
  if (response_format?.type === "json_schema")
    unsaid.within(response_format.json_schema, JSON_SCHEMA, "response_format.json_schema");
  for (const tool of tools ?? [])
    if (tool.type === "function") unsaid.within(tool.function, FUNCTION, "tools.function");
  const { user, safety_identifier } = body;
  if (user != null && safety_identifier != null && user !== safety_identifier) unsaid.add("user");
  for (const message of body.messages) gatherMessage(unsaid, message);
  return unsaid.told();
}

/**
 * Adds the token counts that the spec requires (2.7, 6.1) to frames and bodies of an upstream that leaves them out. All other bytes stay,
 * with unknown fields and the spelling of numbers.
 */

import type { NativeFrame } from "../../kinds/chat/event.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../model/json.ts";
import { valueAt, withMember } from "../shared/json-text.ts";
import { parseAnswerObject } from "../shared/upstream.ts";
import type { MessagesUsage } from "./schema.answer.ts";

/** The counts that the spec requires (2.7). */
const countsOf = (usage: MessagesUsage): JsonObject => ({
  input_tokens: usage.input_tokens,
  output_tokens: usage.output_tokens,
  cache_creation_input_tokens: usage.cache_creation_input_tokens,
  cache_read_input_tokens: usage.cache_read_input_tokens,
});

/** Returns the body of a complete answer with all counts. */
export const withCounts = (body: string, usage: MessagesUsage): string => completed(body, ["usage"], countsOf(usage));

/** Returns the first frame with all counts. */
export function startWithCounts(frame: NativeFrame, usage: MessagesUsage): NativeFrame {
  const counts = countsOf(usage);
  if (hasMembers(parseAnswerObject(frame.data), { message: { usage: counts } })) return frame;
  return { ...frame, data: completed(frame.data, ["message", "usage"], counts) };
}

/** Returns the last `message_delta` with all counts: beside `delta`, where the official service has them, and inside (spec 6.1). */
export function deltaWithCounts(frame: NativeFrame, usage: MessagesUsage): NativeFrame {
  const counts = countsOf(usage);
  const { input_tokens, output_tokens } = usage;
  const inside = { input_tokens, output_tokens };
  if (hasMembers(parseAnswerObject(frame.data), { usage: counts, delta: { usage: inside } })) return frame;
  const beside = completed(frame.data, ["usage"], counts);
  return { ...frame, data: completed(beside, ["delta", "usage"], inside) };
}

/** Tells whether a value has these members. Most frames do, and to parse a short text is faster than to search it for each member. */
function hasMembers(value: JsonValue | undefined, members: JsonObject): boolean {
  if (!isJsonObject(value)) return false;
  for (const [name, member] of Object.entries(members))
    if (isJsonObject(member) ? !hasMembers(value[name], member) : value[name] == null) return false;
  return true;
}

/**
 * Returns the text of a JSON object in which the object at a path has these members. A member that is there stays, unless it is null.
 *
 * @param path The path of an object that may be missing, in an object that is there.
 */
function completed(text: string, path: readonly [string, ...string[]], members: JsonObject): string {
  const span = valueAt(text, path);
  if (!span || text[span.start] !== "{") return withMember(text, path, JSON.stringify(members), isNull);
  if (hasMembers(parseAnswerObject(text.slice(span.start, span.end)), members)) return text;
  let changed = text;
  for (const [name, value] of Object.entries(members))
    changed = withMember(changed, [...path, name], JSON.stringify(value), isNull);
  return changed;
}

const isNull = (json: string): boolean => json === "null";

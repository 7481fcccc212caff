/**
 * Adds the token counts that the spec requires (2.7, 6.1) to frames and bodies of an upstream that leaves them out. All other bytes stay,
 * with unknown fields and the spelling of numbers.
 */

import type { NativeFrame } from "../../kinds/chat/event.ts";
import type { JsonObject } from "../../model/json.ts";
import { valueAt, withMember } from "../shared/json-text.ts";
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
export const startWithCounts = ({ event, data }: NativeFrame, usage: MessagesUsage): NativeFrame => ({
  ...(event !== undefined && { event }),
  data: completed(data, ["message", "usage"], countsOf(usage)),
});

/** Returns the last `message_delta` with all counts: beside `delta`, where the official service has them, and inside (spec 6.1). */
export function deltaWithCounts({ event, data }: NativeFrame, usage: MessagesUsage): NativeFrame {
  const { input_tokens, output_tokens } = usage;
  const beside = completed(data, ["usage"], countsOf(usage));
  return {
    ...(event !== undefined && { event }),
    data: completed(beside, ["delta", "usage"], { input_tokens, output_tokens }),
  };
}

/**
 * Returns the text of a JSON object in which the object at a path has these members. A member that is there stays, unless it is null.
 *
 * @param path The path of an object that may be missing, in an object that is there.
 */
function completed(text: string, path: readonly [string, ...string[]], members: JsonObject): string {
  const span = valueAt(text, path);
  if (!span || text[span.start] !== "{") return withMember(text, path, JSON.stringify(members), isNull);
  let changed = text;
  for (const [name, value] of Object.entries(members))
    changed = withMember(changed, [...path, name], JSON.stringify(value), isNull);
  return changed;
}

const isNull = (json: string): boolean => json === "null";

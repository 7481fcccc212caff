/**
 * Adds the token counts that the spec requires (2.7, 6.1) to frames and bodies of an upstream that leaves them out. All other bytes stay,
 * with unknown fields and the spelling of numbers.
 */

import type { NativeFrame } from "../../kinds/chat/event.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../model/json.ts";
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
export const withCounts = (body: string, usage: MessagesUsage): string => completed(body, { usage: countsOf(usage) });

/** Returns the first frame with all counts. */
export const startWithCounts = (frame: NativeFrame, usage: MessagesUsage): NativeFrame =>
  completedFrame(frame, { message: { usage: countsOf(usage) } });

/** Returns the last `message_delta` with all counts: beside `delta`, where the official service has them, and inside (spec 6.1). */
export function deltaWithCounts(frame: NativeFrame, usage: MessagesUsage): NativeFrame {
  const { input_tokens, output_tokens } = usage;
  return completedFrame(frame, { usage: countsOf(usage), delta: { usage: { input_tokens, output_tokens } } });
}

/** Parses the frame first: most frames have all members, and to parse a short text is faster than to search it. */
const completedFrame = (frame: NativeFrame, members: JsonObject): NativeFrame =>
  hasMembers(parseAnswerObject(frame.data), members) ? frame : { ...frame, data: completed(frame.data, members) };

function hasMembers(value: JsonValue | undefined, members: JsonObject): boolean {
  if (!isJsonObject(value)) return false;
  for (const [name, member] of Object.entries(members))
    if (isJsonObject(member) ? !hasMembers(value[name], member) : value[name] == null) return false;
  return true;
}

/**
 * Returns the text of a JSON object with members that it lacks, also in the objects inside it. A member that is there stays, unless it is
 * null. A text that has all members is read once, and returned as it is.
 */
function completed(text: string, members: JsonObject): string {
  let [changed, spans] = [text, membersOf(text)];
  for (const [name, value] of Object.entries(members)) {
    const span = spans.get(name);
    const own = span ? changed.slice(span.start, span.end) : "null";
    const json =
      own === "null" ? JSON.stringify(value) : own.startsWith("{") ? completed(own, value as JsonObject) : own;
    if (json === own) continue;
    const end = changed.lastIndexOf("}");
    changed = span
      ? changed.slice(0, span.start) + json + changed.slice(span.end)
      : `${changed.slice(0, end)}${spans.size > 0 ? "," : ""}${JSON.stringify(name)}:${json}${changed.slice(end)}`;
    spans = membersOf(changed);
  }
  return changed;
}

/** The position of a value: from its first character to the one behind its last. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** Finds the members of a valid JSON object by their names. Of members with one name, the last counts, as in `JSON.parse`. */
function membersOf(text: string): ReadonlyMap<string, Span> {
  const spans = new Map<string, Span>();
  let at = skipSpace(text, text.indexOf("{") + 1);
  while (text[at] === '"') {
    const endOfName = endOfString(text, at);
    // Skip the colon.
    const start = skipSpace(text, skipSpace(text, endOfName) + 1);
    const end = endOfValue(text, start);
    spans.set(text.slice(at + 1, endOfName - 1), { start, end });
    at = skipSpace(text, end);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return spans;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (text[at] === " " || text[at] === "\n" || text[at] === "\r" || text[at] === "\t") at++;
  return at;
}

/** Matches what follows a number, a boolean or null. */
const END_OF_WORD = /[\s,\]}]/g;

/** Returns the position behind the value that begins here. */
function endOfValue(text: string, start: number): number {
  const first = text[start];
  if (first === '"') return endOfString(text, start);
  if (first !== "{" && first !== "[") {
    END_OF_WORD.lastIndex = start;
    return END_OF_WORD.test(text) ? END_OF_WORD.lastIndex - 1 : text.length;
  }
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const char = text[at];
    if (char === '"') at = endOfString(text, at) - 1;
    else if (char === "{" || char === "[") depth++;
    else if ((char === "}" || char === "]") && --depth === 0) return at + 1;
  }
  return text.length;
}

/** Returns the position behind the string that begins here. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end > 0; end = text.indexOf('"', end + 1)) {
    let first = end;
    while (text[first - 1] === "\\") first--;
    // Behind an odd number of backslashes, a quote belongs to the string.
    if ((end - first) % 2 === 0) return end + 1;
  }
  return text.length;
}

/**
 * Adds the token counts that the spec requires (2.7, 6.1) to frames and bodies of an upstream that leaves them out. All other bytes stay,
 * with unknown fields and the spelling of numbers.
 */

import type { NativeFrame } from "../../kinds/chat/event.ts";
import type { JsonObject } from "../../model/json.ts";
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
 * Returns the text of a JSON object in which the object at a path has these members. A text that has all of them is read once, and returned
 * as it is.
 *
 * @param path The path of an object that may be missing, in an object that is there.
 */
function completed(text: string, path: readonly string[], members: JsonObject): string {
  const [name, ...below] = path;
  if (name === undefined) return withMembers(text, members);
  const span = membersOf(text).get(name);
  const object = span && text[span.start] === "{" ? text.slice(span.start, span.end) : undefined;
  if (!span || object === undefined) return below.length > 0 ? text : withMembers(text, { [name]: members });
  const whole = completed(object, below, members);
  return whole === object ? text : text.slice(0, span.start) + whole + text.slice(span.end);
}

/** Adds members to the text of a JSON object. A member that is there stays, unless it is null. */
function withMembers(text: string, members: JsonObject): string {
  let [changed, spans] = [text, membersOf(text)];
  for (const [name, value] of Object.entries(members)) {
    const span = spans.get(name);
    if (span && !changed.startsWith("null", span.start)) continue;
    const json = JSON.stringify(value);
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

/** Returns the position behind the value that begins here. */
function endOfValue(text: string, start: number): number {
  const first = text[start];
  if (first === '"') return endOfString(text, start);
  if (first !== "{" && first !== "[") {
    let end = start;
    while (end < text.length && !/[\s,\]}]/.test(text.charAt(end))) end++;
    return end;
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

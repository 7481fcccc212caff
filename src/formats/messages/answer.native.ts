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
 * Returns the text of a JSON object in which the object at a path has these members. A member that is there stays, unless it is null.
 *
 * @param path The path of an object that may be missing, in an object that is there.
 */
function completed(text: string, path: readonly [string, ...string[]], members: JsonObject): string {
  const span = valueAt(text, path);
  if (!span || text[span.start] !== "{") return withMember(text, path, JSON.stringify(members));
  let changed = text;
  for (const [name, value] of Object.entries(members))
    changed = withMember(changed, [...path, name], JSON.stringify(value));
  return changed;
}

function withMember(text: string, path: readonly string[], json: string): string {
  const span = valueAt(text, path);
  if (span) return text.startsWith("null", span.start) ? text.slice(0, span.start) + json + text.slice(span.end) : text;
  const parent = valueAt(text, path.slice(0, -1));
  if (!parent || text[parent.start] !== "{") return text;
  const [end, first] = [parent.end - 1, skipSpace(text, parent.start + 1)];
  return `${text.slice(0, end)}${first === end ? "" : ","}${JSON.stringify(path.at(-1))}:${json}${text.slice(end)}`;
}

/** The position of a value: from its first character to the one behind its last. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** Finds a value in the text of a valid JSON object. Of members with one name, the last counts, as in `JSON.parse`. */
function valueAt(text: string, path: readonly string[]): Span | undefined {
  const start = skipSpace(text, 0);
  let found: Span | undefined = { start, end: endOfValue(text, start) };
  for (const name of path) {
    if (!found || text[found.start] !== "{") return undefined;
    found = memberOf(text, found.start, JSON.stringify(name));
  }
  return found;
}

function memberOf(text: string, object: number, name: string): Span | undefined {
  let found: Span | undefined;
  let at = skipSpace(text, object + 1);
  while (text[at] === '"') {
    const endOfName = endOfString(text, at);
    // Skip the colon.
    const start = skipSpace(text, skipSpace(text, endOfName) + 1);
    const end = endOfValue(text, start);
    if (text.slice(at, endOfName) === name) found = { start, end };
    at = skipSpace(text, end);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return found;
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
  for (let at = start + 1; at < text.length; at++) {
    const char = text[at];
    if (char === '"') return at + 1;
    if (char === "\\") at++;
  }
  return text.length;
}

/** How the chunks of a generate-content stream become text (spec 6.2): server-sent events, or the elements of one JSON array. */

import { frameOf } from "../shared/frame.ts";
import type { GenerateContentErrorBody } from "./errors.ts";
import type { GenerateContentResponse } from "./schema.answer.ts";

// Line breaks of Unicode that JSON leaves alone, and that some clients take for the end of a line.
const lineOf = (value: GenerateContentResponse | GenerateContentErrorBody): string =>
  JSON.stringify(value).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");

export interface Framer {
  readonly contentType: string;
  readonly keepAlive: string;
  chunk(chunk: GenerateContentResponse): string;
  /** A chunk that is JSON already, as it is. */
  raw(json: string): string;
  /** The failure that the stream ends with. */
  error(body: GenerateContentErrorBody): string;
  /** What stands after the last chunk. */
  end(): string;
}

/**
 * A chunk that says nothing. Its content has a role and a part: the official client's chats drop a whole turn from their history
 * for a chunk without.
 */
const NOTHING: GenerateContentResponse = {
  candidates: [{ content: { role: "model", parts: [{ text: "" }] }, index: 0 }],
};

const dataLine = (json: string): string => frameOf({ data: json });

/** Nothing but `data:` lines: event names, comments and a closing mark each break some client. */
export function sseFramer(): Framer {
  return {
    contentType: "text/event-stream; charset=utf-8",
    keepAlive: dataLine(lineOf(NOTHING)),
    chunk: (chunk) => dataLine(lineOf(chunk)),
    raw: dataLine,
    // Some clients see an error in a frame alone, others only where it stands outside of one: it is told in both ways, and none
    // breaks. The second must not end in a blank line, which would make of it a frame that all of them pass over.
    error: (body) => dataLine(lineOf(body)) + lineOf(body),
    end: () => "",
  };
}

/** One JSON array, element by element. */
export function arrayFramer(): Framer {
  let begun = false;
  const raw = (json: string): string => {
    const before = begun ? ",\n" : "[";
    begun = true;
    return before + json;
  };
  return {
    contentType: "application/json; charset=utf-8",
    keepAlive: "\n",
    chunk: (chunk) => raw(lineOf(chunk)),
    raw,
    error: (body) => `${raw(lineOf(body))}]`,
    end: () => (begun ? "]" : "[]"),
  };
}

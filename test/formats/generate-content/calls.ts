/** Sends generate-content requests: to which method of which model, and how the answer is asked for. */

import { framesOf } from "../../drivers/frames.ts";
import type { HostRequestInit } from "../../hosts/host.ts";
import { KEY, type Stage } from "../../hosts/stage.ts";
import { type Chunk, elements, frames } from "./chunks.ts";

export type Changes = Readonly<Record<string, string | undefined>>;

/** Where model `model-a` is asked; `alt=sse` is a part of the method. */
export const pathOf = (method: string, model = "model-a", version = "v1beta"): string =>
  `/${version}/models/${model}:${method}`;

export const GENERATE: string = pathOf("generateContent");
export const STREAM: string = pathOf("streamGenerateContent?alt=sse");
export const STREAM_ARRAY: string = pathOf("streamGenerateContent");
export const COUNT: string = pathOf("countTokens");

/** The three ways of asking for an answer. */
export const METHODS: readonly (readonly [name: string, path: string])[] = [
  ["complete", GENERATE],
  ["streamed", STREAM],
  ["streamed as an array", STREAM_ARRAY],
];

/** The two forms of a stream, each with what reads it. */
export const STREAMS: readonly (readonly [name: string, path: string, framing: typeof frames])[] = [
  ["server-sent events", STREAM, frames],
  ["a JSON array", STREAM_ARRAY, elements],
];

/** Headers that are in order, but for those that are changed; undefined leaves one out. */
const headersWith = (changes: Changes = {}): Record<string, string> => {
  const headers = { "content-type": "application/json", "x-goog-api-key": KEY, ...changes };
  return Object.fromEntries(Object.entries(headers).filter((header): header is [string, string] => header[1] != null));
};

/** A JSON request that is in order, but for headers that are changed. */
export const posting = (body: unknown, changes: Changes = {}): HostRequestInit => ({
  method: "POST",
  headers: headersWith(changes),
  body: JSON.stringify(body),
});

export const send = ({ request }: Stage, path: string, body: unknown, changes: Changes = {}): Promise<Response> =>
  request(path, posting(body, changes));

/** The chunks of a whole stream. */
export const chunksOf = (response: Response, framing: typeof frames = frames): Promise<Chunk[]> =>
  framesOf(response, framing);

/** A bare client of the messages endpoint, for what no SDK shows. */

import { EventSourceParserStream } from "eventsource-parser/stream";

export interface WireError {
  readonly type: string;
  readonly message: string;
  readonly code: string;
}

export interface Frame {
  readonly type: string;
  readonly delta?: { readonly text?: string; readonly stop_reason?: string };
  readonly error?: WireError;
}

export interface CallOptions {
  /** Default: the unlimited key. */
  readonly apiKey?: string;
  readonly signal?: AbortSignal;
  /** Fields of the body, over those that are usual. */
  readonly body?: object;
}

/** Says one thing to the model. */
export function post(
  url: string,
  content: string,
  { apiKey = "sk-demo", signal, body }: CallOptions = {},
): Promise<Response> {
  return fetch(`${url}/v1/messages`, {
    method: "POST",
    headers: { "x-api-key": apiKey, "compat-version": "2023-06-01", "content-type": "application/json" },
    body: JSON.stringify({ model: "demo-chat", max_tokens: 1_000, messages: [{ role: "user", content }], ...body }),
    ...(signal && { signal }),
  });
}

/** The frames of a streamed answer. */
export function framesOf(response: Response): ReadableStream<Frame> {
  if (!response.body) throw new Error("The response has no body.");
  return response.body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
    .pipeThrough(new TransformStream({ transform: ({ data }, out) => out.enqueue(JSON.parse(data) as Frame) }));
}

/** The next piece of text, or undefined where the stream has ended. */
export async function nextText(reader: ReadableStreamDefaultReader<Frame>): Promise<string | undefined> {
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return undefined;
    if (value.delta?.text !== undefined) return value.delta.text;
  }
}

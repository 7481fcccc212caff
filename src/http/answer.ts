/** A plain answer: what the gateway says, before a mount writes it in the way of its runtime. */

import { FastResponse } from "srvx";

const encoder = new TextEncoder();

/** An answer as data. A stream's frames come from its body, and are made only as they are asked for. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | AsyncIterableIterator<string> | null;
}

/** A body that is JSON already, and is sent word for word. */
export class RawJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A JSON answer. */
export const jsonAnswer = (status: number, body: unknown, headers: Readonly<Record<string, string>>): Answer => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: body instanceof RawJson ? body.text : JSON.stringify(body),
});

/** The answer to a route that the gateway does not own. */
export const NOT_FOUND: Answer = { status: 404, headers: {}, body: null };

/** Whether an answer's body is made piece by piece. */
export const isStream = (body: Answer["body"]): body is AsyncIterableIterator<string> =>
  typeof body === "object" && body !== null && Symbol.asyncIterator in body;

/** The answer to a HEAD request: it says how long its body would be, and has none. */
export function withoutBody({ status, headers, body }: Answer): Answer {
  if (body === null) return { status, headers, body };
  if (!isStream(body)) {
    const length = typeof body === "string" ? encoder.encode(body).length : body.length;
    return { status, headers: { "content-length": String(length), ...headers }, body: null };
  }
  void body.return?.();
  return { status, headers, body: null };
}

/** The answer as the fetch standard has it. */
export function toResponse({ status, headers, body }: Answer): Response {
  const content = isStream(body) ? byteStream(body) : (body as string | Uint8Array<ArrayBuffer> | null);
  const init = { status, headers };
  // srvx's own response is the faster one, but not known as a response where a host has replaced the platform's class, as Hono does.
  return FastResponse.prototype instanceof Response ? new FastResponse(content, init) : new Response(content, init);
}

/** The pieces as bytes, each made when the reader asks for it. */
function byteStream(pieces: AsyncIterableIterator<string>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const step = await pieces.next();
      if (step.done) controller.close();
      else controller.enqueue(encoder.encode(step.value));
    },
    cancel: () => void pieces.return?.(),
  });
}

/** An answer as plain data, before a mount writes it in its runtime's own way; the two sides of a WebSocket; and the CORS options. */

import { FastResponse } from "srvx";

const encoder = new TextEncoder();

/** An answer as data. A stream makes its frames only as they are read. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The values of `set-cookie`, which takes a line for each cookie. In place of that header in `headers`. */
  readonly cookies?: readonly string[];
  readonly body: string | Uint8Array | AsyncIterableIterator<string | Uint8Array> | null;
}

/** A body that is JSON already, and is sent unchanged. */
export class RawJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A body that is JSON already, and may be large: it is made piece by piece, as it is read. */
export class JsonPieces {
  readonly pieces: AsyncIterable<string>;
  /** The characters that the pieces hold from their beginning on. */
  readonly heldChars: number;

  constructor(pieces: AsyncIterable<string>, heldChars: number) {
    this.pieces = pieces;
    this.heldChars = heldChars;
  }
}

/** Returns a JSON answer. */
export const jsonAnswer = (status: number, body: unknown, headers: Readonly<Record<string, string>>): Answer => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: body instanceof RawJson ? body.text : JSON.stringify(body),
});

/** The answer to a route that the gateway does not own. */
export const NOT_FOUND: Answer = { status: 404, headers: {}, body: null };

/** Tells whether a body is a stream. */
export const isStream = (body: Answer["body"]): body is AsyncIterableIterator<string | Uint8Array> =>
  typeof body === "object" && body !== null && Symbol.asyncIterator in body;

/** Returns the answer to a HEAD request: the length of the body, without the body. */
export function withoutBody({ status, headers, body }: Answer): Answer {
  if (body === null) return { status, headers, body };
  if (!isStream(body)) {
    const length = typeof body === "string" ? encoder.encode(body).length : body.length;
    return { status, headers: { "content-length": String(length), ...headers }, body: null };
  }
  void body.return?.();
  return { status, headers, body: null };
}

/** Returns the answer as a fetch response. */
export function toResponse({ status, headers, body }: Answer): Response {
  const content = isStream(body) ? byteStream(body) : (body as string | Uint8Array<ArrayBuffer> | null);
  const init = { status, headers };
  // srvx's response is faster, but no instance of a response class that a host has put in place of the platform's, as Hono does.
  return FastResponse.prototype instanceof Response ? new FastResponse(content, init) : new Response(content, init);
}

/** Returns the pieces as bytes, each made when the reader asks for it. */
function byteStream(pieces: AsyncIterableIterator<string | Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const step = await pieces.next();
      if (step.done) controller.close();
      else controller.enqueue(typeof step.value === "string" ? encoder.encode(step.value) : step.value);
    },
    cancel: () => void pieces.return?.(),
  });
}

/**
 * The answers to browsers (https://fetch.spec.whatwg.org/#http-cors-protocol). The fields are those of h3's CORS rules.
 */
export interface CorsOptions {
  /**
   * The pages that may call, by origin, or a function that decides at once, by true or false; `"*"` is every page. A regular expression must
   * begin with `^` and end with `$`, and must match the whole origin; escape its dots.
   */
  origin: "*" | "null" | (string | RegExp)[] | ((origin: string) => boolean);
  /** The methods that a page may use. Default: all. */
  methods?: "*" | string[];
  /** The headers that a page may send. Default: all. With a replay store, a list gets `Idempotency-Key` as well. */
  allowHeaders?: "*" | string[];
  /** The headers of an answer that a page may read. Default: all; beside `credentials`, browsers read only those of a list. */
  exposeHeaders?: "*" | string[];
  /** Allows cookies and other credentials. `origin` must then be a list of known pages, or a function. Default: false. */
  credentials?: boolean;
  /** The seconds that a browser may remember a preflight. Default: the browser's own time. */
  maxAge?: string | false;
  /** `statusCode` is the status of the answer to a preflight. Default: 204. */
  preflight?: { statusCode?: number };
}

/** The gateway's end of a WebSocket, as a mount gives it. After `close`, and once the client is gone, its methods do nothing. */
export interface SocketPeer {
  /**
   * Sends a text message. Returns undefined when the client takes more, and otherwise a promise that resolves when the client does, or when
   * it is gone.
   */
  send(message: string): Promise<void> | undefined;
  /** Closes the connection, behind all messages. */
  close(code: number, reason: string): void;
  /** Ends the connection at once, and has the handler told so, even where the runtime can only ask the client to close. */
  terminate(): void;
}

/** Receives the events of a WebSocket. A mount calls `open` once, before anything else, and `closed` once, after everything else. */
export interface SocketHandler {
  open(peer: SocketPeer): void;
  /** A message has come, text or UTF-8. */
  message(message: string | Uint8Array): void;
  /**
   * A piece of a message has come, and the message's end has not. Returns false for a client to which no more memory is given: the mount
   * ends the connection. For mounts that collect messages of any size themselves; others do not call this.
   */
  arriving(bytes: number): boolean;
  /** The connection is closed. */
  closed(): void;
  /** The longest message, in bytes. */
  readonly maxMessageBytes: number;
}

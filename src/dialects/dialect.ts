/** What a dialect is: the routes of one wire format, each able to read its credential, decode, encode and dress an error. */

import type { GatewayError } from "../errors.ts";
import type { Limits } from "../limits.ts";
import type { CountTokens } from "../metering/estimate.ts";
import type { ChatRequest } from "../model/chat.ts";
import type { AnswerEvent } from "../model/event.ts";
import type { ApiKeyRecord } from "../ports/quota-store.ts";

export interface Dialect {
  /** The name that `native` parts of the neutral model carry. */
  readonly name: string;
  readonly endpoints: readonly Endpoint[];
}

export type Endpoint = ChatEndpoint | QueryEndpoint;

interface Route {
  readonly method: "GET" | "POST";
  /** A route pattern of h3, relative to where the gateway is mounted. */
  readonly path: string;
  /** The api key as the caller sent it; undefined when none was. */
  credential(request: Request): string | undefined;
  /** An error as this format says it. */
  dress(error: GatewayError, requestId: string): { readonly status: number; readonly body: unknown };
}

/** A route that a model answers. */
export interface ChatEndpoint extends Route {
  readonly kind: "chat";
  /** How callers spell the limit on the output, for an error that names it. */
  readonly maxOutputTokensPath: readonly string[];
  parse(request: Request, limits: Limits): Promise<ChatRequest>;
  /** The body of a complete answer. */
  complete(events: AsyncIterable<AnswerEvent>, answer: AnswerContext): Promise<unknown>;
  /** The same answer as a stream. */
  stream(events: AsyncIterable<AnswerEvent>, answer: AnswerContext): AnswerStream;
}

/** A route that the gateway answers by itself, at no charge. */
export interface QueryEndpoint extends Route {
  readonly kind: "query";
  /** Whether a key that has expired may still ask. */
  readonly expiredKeysMayAsk: boolean;
  answer(query: Query): unknown;
}

export interface Query {
  readonly request: Request;
  readonly key: ApiKeyRecord;
  readonly limits: Limits;
  readonly countTokens: CountTokens;
}

export interface AnswerContext {
  readonly request: ChatRequest;
  readonly requestId: string;
}

/** A stream in its wire format. */
export interface AnswerStream {
  readonly contentType: string;
  /** Whole frames, in order. */
  readonly frames: AsyncIterator<string, unknown>;
  /** The frame that says nothing and keeps the connection open. */
  readonly keepAlive: string;
  /** The frame that tells of a failure after the stream has begun. */
  readonly error: (error: GatewayError) => string;
}

/** A format in the direction of an upstream: requests are encoded, answers and errors are decoded. */

import type { GatewayError } from "../errors.ts";
import type { ChatRequest } from "../model/chat.ts";
import type { ChatEvent } from "../model/event.ts";
import type { FieldFate } from "../model/fate.ts";
import type { JsonLimits, JsonObject } from "../model/json.ts";

export interface ChatCodec {
  /** The dialect that it is the other direction of. */
  readonly dialect: string;
  /**
   * A request as this format says it. One that came in this format is its own native body, with what the gateway decided laid
   * over it (the model's name, a lowered output limit); any other is made of the neutral fields.
   */
  encodeRequest(request: ChatRequest): EncodedRequest;
  /** @param limits Bounds of the JSON in each frame, and in a complete answer. */
  answerDecoder(limits?: JsonLimits): AnswerDecoder;
  /** How an upstream of this format is asked for the tokens of a request; undefined where the format cannot ask. */
  readonly count?: CountCodec;
  /** The error that an upstream told of, by status, headers and body (parsed JSON, or a text). Its own message stays in `cause`. */
  decodeError(status: number, headers: Headers, body: unknown): GatewayError;
}

/** The format's question for the tokens of a request that is not to be answered. */
export interface CountCodec {
  encode(request: ChatRequest): Omit<EncodedRequest, "fates">;
  /** The count in an answer, which may be anything. */
  decode(answer: JsonObject): unknown;
}

export interface EncodedRequest {
  readonly body: JsonObject;
  /** Path and query below the upstream's base address, which names the version: `/messages`. */
  readonly path: string;
  /** Headers that belong to the format, beside the credential. */
  readonly headers: Readonly<Record<string, string>>;
  /** What became of fields that the format cannot say exactly; empty for a request of the same format. */
  readonly fates: readonly FieldFate[];
}

/** Turns one answer into events. Each of a chat's is `native`: what came, untouched, and what it means. */
export interface AnswerDecoder<Event = ChatEvent> {
  /** The event of one frame of a stream; none for a keep-alive. Throws the upstream's own error, or `backend_failed`. */
  frame(event: string | undefined, data: string): Event[];
  /** Throws `backend_failed` when the stream ended before its answer had. */
  end(): void;
  /** The event of a complete answer, from its body's text. Throws `backend_failed` for what is no answer. */
  answer(body: string): Event[];
}

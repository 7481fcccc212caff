/** Responses over a WebSocket: `GET /v1/responses` with an upgrade. Each `response.create` is a call; its events come as messages. */

import { GatewayError, invalidField } from "../../errors.ts";
import { chat, type ChatKind } from "../../kinds/chat/index.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import { isJsonObject, JsonBudget, type JsonLimits, PARSED_BEFORE, parseJson } from "../../model/json.ts";
import { NO_USAGE } from "../../model/usage.ts";
import type {
  AnswerContext,
  Endpoint,
  EndpointOf,
  FrameSource,
  Incoming,
  Query,
  QueryEndpoint,
  SocketMemory,
  SocketTurns,
} from "../format.ts";
import { chainBehind } from "./kept.ts";
import { ROUTES } from "./routes.ts";
import { Turns, turnsOf } from "./turns.ts";

export type Decode = (body: unknown, incoming: Incoming) => Promise<ChatRequest>;

/** The endpoints of messages. They share the path of the connection, and have no route of their own. */
interface MessageEndpoints {
  readonly generate: EndpointOf<ChatKind>;
  /** Prepares a response without output: `generate: false`. */
  readonly prepare: QueryEndpoint;
}

/** Makes the endpoint that accepts a WebSocket. Its calls are answered like those of `POST /v1/responses`. */
export function socketEndpoint(create: EndpointOf<ChatKind>, decode: Decode): QueryEndpoint {
  const endpoints: MessageEndpoints = {
    generate: {
      ...create,
      decode: (body, incoming) => decode(messageBody(body, incoming), incoming),
      // A response over a WebSocket is never made in the background.
      background: () => undefined,
    },
    prepare: {
      ...ROUTES.create,
      kind: "query",
      body: "json",
      expiredKeysMayAsk: false,
      answer: () => undefined,
      stream: (query, incoming) => new Preparation(create, decode, query, incoming),
    },
  };
  return {
    ...ROUTES.connect,
    kind: "query",
    body: "none",
    expiredKeysMayAsk: false,
    answer: ({ key }, { accept }) => {
      if (!accept)
        throw new GatewayError(
          "upgrade_required",
          "This service takes no WebSockets here. Use HTTP: POST /v1/responses.",
        );
      accept(key);
      return {};
    },
    socket: { open: (memory) => new ResponseTurns(endpoints, memory) },
  };
}

/** A message with more characters asks for a response, and cancels none. */
const SHORT_CHARS = 4_096;

/** Matches a message that may say `"generate": false`. Quotes inside a text have a backslash before them. */
const MAY_PREPARE = /"generate"\s*:\s*false/;

const CREATE = "response.create";
const CANCEL = "response.cancel";
const STEER = "response.steer";

/** Matches a message that may steer a response. */
const MAY_STEER = /"type"\s*:\s*"response\.steer"/;

class ResponseTurns implements SocketTurns {
  readonly turns: Turns;
  readonly #endpoints: MessageEndpoints;
  /** The lane of the running turn, which its events repeat. */
  lane: string | undefined;

  constructor(endpoints: MessageEndpoints, memory: SocketMemory) {
    this.#endpoints = endpoints;
    this.turns = new Turns(memory);
  }

  endpointOf(message: string, limits: JsonLimits): Endpoint {
    this.lane = undefined;
    const { generate, prepare } = this.#endpoints;
    if (!MAY_PREPARE.test(message)) return generate;
    // Leave a message that cannot be read to the call, which answers with the error.
    const event = parsedMessage(message, limits);
    return isJsonObject(event) && event["generate"] === false ? prepare : generate;
  }

  cancels(message: string, limits: JsonLimits): boolean {
    if (message.length >= SHORT_CHARS || !message.includes(CANCEL)) return false;
    const event = parsedMessage(message, limits);
    return isJsonObject(event) && event["type"] === CANCEL;
  }

  replyTo(message: string, limits: JsonLimits): string | undefined {
    const event = MAY_STEER.test(message) ? parsedMessage(message, limits) : undefined;
    if (!isJsonObject(event) || event["type"] !== STEER) return undefined;
    const { previous_response_id, input = null } = event;
    const failed = {
      type: "response.steer.failed",
      sequence_number: 0,
      error: {
        type: "invalid_request_error",
        code: "steering_not_supported",
        message: "This service steers no response. Send the input with the next response.create.",
      },
      steer: { previous_response_id: previous_response_id ?? null, input },
    };
    return this.#inLane(JSON.stringify(failed));
  }

  messagesOf(frames: string): readonly string[] {
    const messages: string[] = [];
    for (const frame of frames.split("\n\n")) {
      const data = dataOf(frame);
      if (data === "" || data === "[DONE]") continue;
      const type = /^event: (.*)$/m.exec(frame)?.[1] ?? typeOf(data);
      // The failed response behind it is the one end of the turn.
      if (type === "error") continue;
      if (LAST.test(type)) this.#end(type, data);
      messages.push(this.#inLane(data));
    }
    return messages;
  }

  refusal(status: number, body: unknown): string {
    this.turns.fail();
    const error = isJsonObject(body) ? body["error"] : undefined;
    return this.#inLane(JSON.stringify({ type: "error", status, error }));
  }

  lifeReached(): string {
    const message = "This connection has reached its longest life. Open a new one to go on.";
    const code = "websocket_connection_limit_reached";
    const error = { type: "invalid_request_error", code, message, param: null };
    return JSON.stringify({ type: "error", status: 400, error });
  }

  #end(type: string, data: string): void {
    const event = parseJson(data, PARSED_BEFORE);
    const response = isJsonObject(event) ? event["response"] : undefined;
    if (type !== "response.failed" && isJsonObject(response)) this.turns.complete(response, chainBehind);
    else this.turns.fail();
  }

  #inLane(json: string): string {
    return this.lane === undefined ? json : `${json.slice(0, -1)},"stream_id":${JSON.stringify(this.lane)}}`;
  }
}

/** The events that end a turn. */
const LAST = /^response\.(?:completed|incomplete|failed)$/;

/** Returns the data of a frame, whose lines come from the gateway's own encoder. */
const dataOf = (frame: string): string =>
  frame
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(line.startsWith("data: ") ? 6 : 5))
    .join("\n");

function typeOf(data: string): string {
  const event = parseJson(data, PARSED_BEFORE);
  return isJsonObject(event) && typeof event["type"] === "string" ? event["type"] : "";
}

/** Parses a message. Returns undefined for a message that is not JSON, or exceeds the limits. */
function parsedMessage(message: string, limits: JsonLimits): unknown {
  try {
    return parseJson(message, new JsonBudget(limits));
  } catch {
    return undefined;
  }
}

/** Returns the body of the request that a message makes. Throws `invalid_request` for another type, and for a background response. */
function messageBody(body: unknown, { socket }: Incoming): unknown {
  if (!isJsonObject(body)) return body;
  const { type, stream_id, stream_options: _options, generate: _generate, background, ...request } = body;
  if (type !== CREATE) throw invalidField(["type"], `must be "${CREATE}", not ${JSON.stringify(type)?.slice(0, 100)}`);
  if (stream_id != null && (typeof stream_id !== "string" || stream_id.length > MAX_LANE_CHARS))
    throw invalidField(["stream_id"], `must be a text of at most ${MAX_LANE_CHARS} characters`);
  if (socket instanceof ResponseTurns) socket.lane = stream_id ?? undefined;
  if (background === true) throw invalidField(["background"], "a WebSocket has no responses in the background");
  return { ...request, stream: true };
}

/** The longest name of a lane, in characters. */
const MAX_LANE_CHARS = 128;

/** Stands in for an input without items, which a request that generates an answer may not have. */
const PLACEHOLDER = { type: "message", role: "user", content: "…" };

/** Answers `generate: false`: checks the request, keeps its input for the next turn, and ends at once with an empty response. */
class Preparation implements FrameSource {
  readonly contentType = "text/event-stream; charset=utf-8";
  readonly keepAlive = "";
  readonly #create: EndpointOf<ChatKind>;
  readonly #decode: Decode;
  readonly #query: Query;
  readonly #incoming: Incoming;

  constructor(create: EndpointOf<ChatKind>, decode: Decode, query: Query, incoming: Incoming) {
    this.#decode = decode;
    this.#create = create;
    this.#query = query;
    this.#incoming = incoming;
  }

  async next(): Promise<{ readonly frames: string; readonly isLast: boolean }> {
    const incoming = this.#incoming;
    const body = messageBody(this.#query.body, incoming);
    const isEmpty = isJsonObject(body) && Array.isArray(body["input"]) && body["input"].length === 0;
    const request = await this.#decode(isEmpty ? { ...body, input: [PLACEHOLDER] } : body, incoming);
    await this.#query.authorize(chat, request.model);
    if (isEmpty) turnsOf(incoming)?.dropNewest();
    const context: AnswerContext = { request, requestId: incoming.id };
    const stream = this.#create.stream?.(context);
    const frames = stream
      ? stream.encode({ type: "start", id: undefined, model: request.model, usage: NO_USAGE }) +
        stream.encode({
          type: "finish",
          endings: [{ candidate: 0, reason: "stop", stopSequence: undefined }],
          usage: NO_USAGE,
        })
      : "";
    return { frames, isLast: true };
  }

  error(error: GatewayError): string {
    return `data: ${JSON.stringify({ type: "error", error: error.message })}\n\n`;
  }
}

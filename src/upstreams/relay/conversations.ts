/**
 * Conversations with an upstream of Responses over WebSockets. A connection belongs to one conversation of one API key: the upstream keeps
 * its last response there, so the next turn sends only the items behind it.
 */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { backendError, GatewayError, backendFailed } from "../../errors.ts";
import type { ConversationTurn } from "../../formats/module.ts";
import { frameOf } from "../../formats/shared/answer.ts";
import { spanAt } from "../../formats/shared/json-text.ts";
import { isJsonObject, type JsonLimits, type JsonObject, type JsonValue, parseJson } from "../../model/json.ts";
import { type Cancel, type Clock, EventLoopYielder } from "../../ports/clock.ts";
import type { Authorization } from "./credentials.ts";
import { type Pausable, QueuedResponse } from "./queued-response.ts";
import { openSocket as openOnNode } from "./socket.node.ts";
import { openSocket as openInRuntime } from "./socket.runtime.ts";
import { type OpenSocket, type SocketListener, SocketRefused, type UpstreamSocket } from "./socket.ts";
import type { Exchange, Phase, UpstreamRequest, UpstreamResponse } from "./transport.ts";

/** The age up to which a connection takes further turns, in milliseconds. The official service ends connections after an hour. */
const LIFE_MS = 55 * 60_000;
/** The time between a cancel and the cut of its connection, in milliseconds: the upstream can read the cancel meanwhile. */
const FAREWELL_MS = 1_000;
/** The statuses of an upstream that has no WebSockets at this address. */
const HAS_NONE: ReadonlySet<number> = new Set([400, 404, 405, 426, 501]);
/** After an upgrade was refused, or has failed, calls go over HTTP for this time, in milliseconds. */
const REST_MS = { refused: 10 * 60_000, failed: 30_000 };
/** The codes of a close before the upstream has begun an answer. RFC 6455, section 7.4.1, and IANA's registry. */
const NOT_BEGUN: ReadonlySet<number | undefined> = new Set([1000, 1001, 1008, 1009, 1012, 1013]);

/** Makes the conversations with the upstream at an origin such as `wss://api.example.com`. */
export type OpenConversations = (
  origin: string,
  headers: Readonly<Record<string, string>>,
  rules: ConversationRules,
  authorization?: Authorization,
) => Conversations;

/** The builds for runtimes without Node's modules replace `socket.node.ts`. */
const openSocket = "Bun" in globalThis || "Deno" in globalThis ? openInRuntime : openOnNode;

export const openConversations: OpenConversations = (origin, headers, rules, authorization) =>
  new Conversations(origin, headers, rules, openSocket, authorization);

interface ConversationRules {
  readonly clock: Clock;
  /** The bounds of the JSON in one message. */
  readonly json: JsonLimits;
  readonly maxSockets: number;
  readonly maxEventChars: number;
  readonly connectMs: number;
  readonly socketIdleMs: number;
}

export class Conversations {
  readonly #origin: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #rules: ConversationRules;
  readonly #open: OpenSocket;
  /** Undefined where the credential is one of the headers. */
  readonly #authorization: Authorization | undefined;
  /** The least recently used is first. A connection takes its place before the handshake. */
  readonly #connections: Set<Connection> = new Set();
  #restsUntil = 0;
  #isClosing = false;
  readonly #closed = Promise.withResolvers<void>();

  constructor(
    origin: string,
    headers: Readonly<Record<string, string>>,
    rules: ConversationRules,
    open: OpenSocket,
    authorization?: Authorization,
  ) {
    this.#authorization = authorization;
    this.#origin = origin;
    this.#headers = headers;
    this.#rules = rules;
    this.#open = open;
  }

  /**
   * Takes a turn over a WebSocket. Resolves with undefined when the upstream has not begun an answer and takes no turn here: the caller then
   * asks over HTTP. Rejects when the connection is lost after the request was sent, because the upstream may charge for its answer.
   *
   * @param path The path of the connection. It is the same for all turns.
   * @param wait The phase in which the answer begins.
   */
  async ask(
    turn: ConversationTurn,
    path: string,
    exchange: Exchange,
    wait: Phase,
  ): Promise<UpstreamResponse | undefined> {
    if (this.#isClosing || this.#rules.clock.now() < this.#restsUntil) return undefined;
    const asked = await this.#placed(turn);
    if (exchange.reason !== undefined) throw exchange.reason;
    const { known } = asked;
    if (known && !known.isUsed) {
      const answer = await known.ask(asked, exchange, wait);
      if (answer) return answer;
    }
    const fresh = await this.#connect(turn, path, exchange);
    return fresh?.ask({ ...asked, after: undefined }, exchange, wait);
  }

  /** Closes the connections as soon as their answers have ended. */
  close(): Promise<void> {
    this.#isClosing = true;
    for (const connection of this.#connections) if (!connection.isUsed) connection.close();
    if (this.#connections.size === 0) this.#closed.resolve();
    return this.#closed.promise;
  }

  /** Finds the connection whose conversation a turn continues. */
  async #placed(turn: ConversationTurn): Promise<PlacedTurn> {
    const { keyId, model, body } = turn;
    const items = itemsOf(body);
    const byCount = new Map<number, Connection[]>();
    for (const connection of this.#connections) {
      const { state } = connection;
      if (connection.isUsed || connection.keyId !== keyId || connection.model !== model || !state) continue;
      byCount.set(state.count, [...(byCount.get(state.count) ?? []), connection]);
    }
    const yielder = new EventLoopYielder();
    let digest = "";
    let known: Connection | undefined;
    let after: ConversationState | undefined;
    for (const [index, item] of items.entries()) {
      // The newest item is never part of an earlier turn.
      const found = byCount.get(index)?.find(({ state }) => state?.count === index && state.digest === digest);
      // Another turn may take the connection during a pause, so the state is kept that was found.
      if (found) [known, after] = [found, found.state];
      const text = canonical(item);
      digest = digestOf(digest, text);
      if (yielder.isDue(text.length)) await yielder.pause();
    }
    return { turn, items, digest, known, after };
  }

  async #connect(
    { keyId, model }: ConversationTurn,
    path: string,
    exchange: Exchange,
  ): Promise<Connection | undefined> {
    const { maxSockets, clock } = this.#rules;
    if (this.#connections.size >= maxSockets) {
      const [oldest] = [...this.#connections].filter(({ isUsed }) => !isUsed);
      if (!oldest) return undefined;
      oldest.close();
    }
    const connection = new Connection(keyId, model, this.#rules, {
      isRefusal: (status) => this.#authorization?.isRefusal(status) ?? false,
      ended: () => this.#forget(connection),
      idle: () => this.#rest(connection),
    });
    this.#connections.add(connection);
    const cut = Promise.withResolvers<never>();
    exchange.carrier = { cut: cut.reject };
    try {
      const opening = this.#opened(path, exchange, connection).then((socket) => connection.opened(socket));
      await Promise.race([opening, cut.promise]).catch((error: unknown) => {
        // A connection that opens behind the end of its call is not kept.
        opening.then(
          () => connection.close(),
          () => {},
        );
        throw error;
      });
      return connection;
    } catch (error) {
      this.#forget(connection);
      if (exchange.reason !== undefined) throw exchange.reason;
      // Without a credential, the request cannot be sent over HTTP either.
      if (error instanceof GatewayError) throw error;
      const hasNone = error instanceof SocketRefused && HAS_NONE.has(error.status);
      this.#restsUntil = clock.now() + (hasNone ? REST_MS.refused : REST_MS.failed);
      return undefined;
    } finally {
      exchange.carrier = undefined;
    }
  }

  /** Opens a socket with the credential, and once more with another one when the upstream refuses it. */
  async #opened(path: string, exchange: Exchange, connection: Connection): Promise<UpstreamSocket> {
    const { connectMs, maxEventChars } = this.#rules;
    const open = ({ path: asked, headers }: Pick<UpstreamRequest, "path" | "headers">): Promise<UpstreamSocket> =>
      this.#open(this.#origin + asked, { headers, connectMs, maxMessageBytes: maxEventChars }, connection);
    const request = { method: "GET", path, headers: this.#headers } as const;
    const authorization = this.#authorization;
    if (!authorization) return open(request);
    const authorized = await authorization.authorized(request, exchange);
    exchange.enter({ name: "connection", limitMs: connectMs });
    try {
      return await open(authorized.request);
    } catch (error) {
      const isRefused = error instanceof SocketRefused && authorization.isRefusal(error.status);
      const again = isRefused ? await authorization.reauthorized(request, authorized, exchange) : undefined;
      if (!again) throw error;
      exchange.enter({ name: "connection", limitMs: connectMs });
      return await open(again.request);
    }
  }

  /** Keeps a connection for the next turn. */
  #rest(connection: Connection): void {
    if (this.#isClosing) return connection.close();
    this.#connections.delete(connection);
    this.#connections.add(connection);
  }

  #forget(connection: Connection): void {
    this.#connections.delete(connection);
    if (this.#isClosing && this.#connections.size === 0) this.#closed.resolve();
  }
}

/** The end of the last turn of a connection: the upstream continues there. */
interface ConversationState {
  readonly responseId: string;
  /** The number of the items up to it, and their digest. */
  readonly count: number;
  readonly digest: string;
}

/** A turn, and its place in a conversation. */
interface PlacedTurn {
  readonly turn: ConversationTurn;
  readonly items: readonly JsonObject[];
  /** The digest of all items. */
  readonly digest: string;
  readonly known: Connection | undefined;
  readonly after: ConversationState | undefined;
}

interface ConnectionOwner {
  /** Tells whether a status refuses a credential that may be renewed. A connection keeps that of its handshake. */
  isRefusal(status: number): boolean;
  ended(): void;
  idle(): void;
}

interface RunningTurn extends Omit<PlacedTurn, "after"> {
  after: ConversationState | undefined;
  readonly exchange: Exchange;
  readonly first: PromiseWithResolvers<UpstreamResponse | undefined>;
  /** True once the upstream has sent an event of the answer. */
  hasBegun: boolean;
  /** Set once the caller can read a part of the answer. */
  answer: QueuedResponse | undefined;
}

class Connection implements SocketListener {
  readonly keyId: string;
  readonly model: string;
  state: ConversationState | undefined;
  readonly #rules: ConversationRules;
  readonly #owner: ConnectionOwner;
  readonly #openedAt: number;
  #socket: UpstreamSocket | undefined;
  #running: RunningTurn | undefined;
  #cancelIdle: Cancel | undefined;
  #cancelFarewell: Cancel | undefined;
  #isOver = false;

  constructor(keyId: string, model: string, rules: ConversationRules, owner: ConnectionOwner) {
    this.keyId = keyId;
    this.model = model;
    this.#rules = rules;
    this.#owner = owner;
    this.#openedAt = rules.clock.now();
  }

  get isUsed(): boolean {
    return this.#running !== undefined || this.#isOver || !this.#socket;
  }

  opened(socket: UpstreamSocket): void {
    this.#socket = socket;
  }

  /** Sends a turn. Resolves as `Conversations.ask` does. */
  async ask(asked: PlacedTurn, exchange: Exchange, wait: Phase): Promise<UpstreamResponse | undefined> {
    const socket = this.#socket;
    if (exchange.reason !== undefined) {
      this.close();
      throw exchange.reason;
    }
    // Another turn may have been faster.
    if (!socket || this.isUsed || (asked.after && asked.after !== this.state)) return undefined;
    this.#cancelIdle?.();
    socket.hold(true);
    this.state = undefined;
    const running = {
      ...asked,
      exchange,
      first: Promise.withResolvers<UpstreamResponse | undefined>(),
      hasBegun: false,
      answer: undefined,
    };
    this.#running = running;
    exchange.carrier = { cut: (reason) => this.#cut(running, reason) };
    exchange.enter(wait);
    socket.send(messageOf(asked));
    return running.first.promise;
  }

  message(text: string): void {
    if (this.#isOver) return;
    const running = this.#running;
    // The upstream has nothing to say between two turns.
    if (!running) return this.close();
    const type = typeOf(text, this.#rules.json);
    if (type === "error") return this.#refuse(running, text);
    if (type === undefined)
      return this.#break(running, backendFailed("The model backend's answer has not the shape of one."));
    if (!type.startsWith("response.")) return;
    running.hasBegun = true;
    const last = LAST.test(type) ? parsed(text, this.#rules.json) : undefined;
    const { stream } = running.turn;
    if (stream || last) {
      running.answer ??= new QueuedResponse(200, stream ? EVENT_STREAM : JSON_BODY, this.#during(running));
      running.answer.push(
        new TextEncoder().encode(last && !stream ? responseIn(text, last) : frameOf({ event: type, data: text })),
      );
      running.first.resolve(running.answer);
    }
    if (running.answer && running.answer.waitingBytes > 2 * this.#rules.maxEventChars)
      return this.#break(running, backendFailed("The model backend's answer is too large."));
    if (last) this.#end(running, type === FAILED ? undefined : last["response"]);
  }

  closed(code: number | undefined): void {
    this.#cancelFarewell?.();
    this.#over();
    const running = this.#take();
    if (!running) return;
    const lost = new Error(
      code === undefined ? "The connection was lost." : `The upstream closed the connection: ${code}.`,
    );
    if (running.answer) running.answer.fail(lost);
    else if (!running.hasBegun && NOT_BEGUN.has(code)) running.first.resolve(undefined);
    else running.first.reject(backendError("brokeOff", lost));
  }

  close(): void {
    this.#over();
    this.#socket?.close();
    this.#cancelFarewell ??= this.#rules.clock.after(FAREWELL_MS, () => this.#socket?.terminate());
  }

  /** The connection for one turn. An earlier answer that is read later must not resume the connection of the next turn. */
  #during(running: RunningTurn): Pausable {
    const socket = (): UpstreamSocket | undefined => (this.#running === running ? this.#socket : undefined);
    return { pause: () => socket()?.pause(), resume: () => socket()?.resume() };
  }

  /** Ends a turn with an error of the upstream. An answer that has not begun becomes the answer to the request, as over HTTP. */
  #refuse(running: RunningTurn, text: string): void {
    const { after, answer, first, hasBegun } = running;
    const event = parsed(text, this.#rules.json);
    const error = isJsonObject(event["error"]) ? event["error"] : {};
    if (answer) {
      answer.push(new TextEncoder().encode(frameOf({ event: "error", data: text })));
      this.#end(running, undefined);
      return this.close();
    }
    if (after && !hasBegun && error["code"] === NOT_FOUND) {
      // Its cache is gone: send the whole conversation.
      running.after = undefined;
      this.#socket?.send(messageOf(running));
      return;
    }
    this.#take();
    this.close();
    const status = Number(event["status"] ?? event["status_code"]);
    const isOld = error["code"] === LIFE_REACHED || this.#owner.isRefusal(status);
    if (!hasBegun && isOld) return first.resolve(undefined);
    const headers = isJsonObject(event["headers"]) ? textsOf(event["headers"]) : {};
    const isStatus = Number.isInteger(status) && status >= 400 && status <= 599;
    const refusal = new QueuedResponse(isStatus ? status : 500, { ...headers, ...JSON_BODY }, this.#during(running));
    refusal.push(new TextEncoder().encode(JSON.stringify({ error })));
    refusal.end();
    first.resolve(refusal);
  }

  /** @param response The final response; undefined for one that the upstream does not continue. */
  #end(running: RunningTurn, response: unknown): void {
    this.#take();
    running.answer?.end();
    this.#socket?.resume();
    this.state = stateBehind(running, response);
    const { clock, socketIdleMs } = this.#rules;
    if (this.#isOver || clock.now() - this.#openedAt >= LIFE_MS || !this.state) return this.close();
    this.#socket?.hold(false);
    this.#cancelIdle = clock.after(socketIdleMs, () => this.close());
    this.#owner.idle();
  }

  /** Ends a turn whose upstream breaks the rules. */
  #break(running: RunningTurn, error: Error): void {
    this.#cut(running, error);
    running.exchange.cut(error);
  }

  /** Cancels a turn whose caller is gone, or that takes too long. */
  #cut(running: RunningTurn, reason: Error): void {
    running.answer?.cut(reason);
    running.first.reject(reason);
    if (this.#running !== running) return;
    this.#take();
    this.#socket?.resume();
    this.#socket?.send(CANCEL);
    this.close();
  }

  #take(): RunningTurn | undefined {
    const running = this.#running;
    this.#running = undefined;
    return running;
  }

  #over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.state = undefined;
    this.#cancelIdle?.();
    this.#owner.ended();
  }
}

const EVENT_STREAM = { "content-type": "text/event-stream" } as const;
const JSON_BODY = { "content-type": "application/json" } as const;

const CANCEL = JSON.stringify({ type: "response.cancel" });
const FAILED = "response.failed";
const LAST = /^response\.(?:completed|incomplete|failed|cancelled|done)$/;
const NOT_FOUND = "previous_response_not_found";
const LIFE_REACHED = "websocket_connection_limit_reached";

/** Matches the type at the beginning of an event, as servers write it. */
const TYPE_FIRST = /^\s*\{\s*"type"\s*:\s*"([\w.]{1,100})"/;

/** Returns the type of an event; undefined for a text that is no event. */
function typeOf(text: string, limits: JsonLimits): string | undefined {
  const type = TYPE_FIRST.exec(text)?.[1] ?? parsed(text, limits)["type"];
  return typeof type === "string" && /^[\w.]{1,100}$/.test(type) ? type : undefined;
}

/** Returns the JSON of the response in an event, unchanged. */
function responseIn(text: string, event: JsonObject): string {
  const span = isJsonObject(event["response"]) ? spanAt(text, ["response"]) : undefined;
  return span ? text.slice(span.start, span.end) : "{}";
}

function parsed(text: string, limits: JsonLimits): JsonObject {
  try {
    const value: unknown = parseJson(text, limits);
    return isJsonObject(value) ? value : {};
  } catch {
    return {};
  }
}

const textsOf = (headers: JsonObject): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => {
      const isText = (typeof value === "string" && /^[\t\u0020-\u007e]*$/.test(value)) || typeof value === "number";
      return isText && /^[a-z0-9-]{1,64}$/i.test(name) ? [[name.toLowerCase(), String(value)]] : [];
    }),
  );

/** Returns the message that asks for an answer, without the fields that only HTTP has. */
function messageOf({ turn, items, after }: Pick<PlacedTurn, "turn" | "items" | "after">): string {
  const { stream: _stream, background: _background, ...body } = turn.body;
  const rest = after
    ? { ...body, previous_response_id: after.responseId, input: items.slice(after.count) as JsonValue[] }
    : body;
  return JSON.stringify({ type: "response.create", ...rest });
}

function stateBehind(
  { items, digest }: Pick<PlacedTurn, "items" | "digest">,
  response: unknown,
): ConversationState | undefined {
  if (!isJsonObject(response) || typeof response["id"] !== "string" || !Array.isArray(response["output"]))
    return undefined;
  const output = response["output"].filter((item) => isJsonObject(item));
  // Some servers leave the items out of the final response, because they have come before.
  if (output.length === 0) return undefined;
  let behind = digest;
  for (const item of output) behind = digestOf(behind, canonical(item));
  return { responseId: response["id"], count: items.length + output.length, digest: behind };
}

const digestOf = (before: string, item: string): string => bytesToHex(sha256(utf8ToBytes(before + item)));

const itemsOf = ({ input }: JsonObject): JsonObject[] =>
  typeof input === "string"
    ? [{ role: "user", content: input }]
    : Array.isArray(input)
      ? input.filter((item) => isJsonObject(item))
      : [];

/** The fields that an item has only in an answer. */
const ANSWERED: ReadonlySet<string> = new Set(["id", "status", "annotations", "logprobs"]);

/** Writes an item in the one way in which a request and an answer agree. */
function canonical(item: JsonObject): string {
  const { type = "message", content, ...rest } = item;
  const partType = item["role"] === "assistant" ? "output_text" : "input_text";
  const parts = typeof content === "string" ? [{ type: partType, text: content }] : content;
  return JSON.stringify({ ...rest, type, ...(parts !== undefined && { content: parts }) }, comparable);
}

const comparable = (_key: string, value: JsonValue): JsonValue =>
  isJsonObject(value)
    ? Object.fromEntries(
        Object.entries(value)
          .filter(([name, member]) => member !== null && !ANSWERED.has(name))
          .toSorted(([a], [b]) => (a < b ? -1 : 1)),
      )
    : value;

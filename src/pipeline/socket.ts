/** A WebSocket as a second door to the pipeline: each message that asks for an answer is a call, and its frames go out as messages. */

import { GatewayError } from "../errors.ts";
import type { Endpoint, QueryEndpoint, SocketProtocol, SocketTurns } from "../formats/format.ts";
import { wholeOf } from "../formats/shared/lazy.ts";
import { type Answer, isStream, type SocketHandler, type SocketPeer } from "../http/answer.ts";
import { rateOf } from "../http/body.ts";
import { parseJson } from "../model/json.ts";
import type { Cancel } from "../ports/clock.ts";
import type { BodyLease } from "../ports/shared-room.ts";
import { Call, type Mounted } from "./call.ts";
import { type Parts, serve, type SocketRequest } from "./pipeline.ts";
import { refusal } from "./respond.ts";
import type { Services } from "./services.ts";

/** The closing codes that the gateway sends. RFC 6455, section 7.4.1, has the first three; IANA registers the last. */
const NORMAL = 1000;
const GOING_AWAY = 1001;
const INTERNAL_ERROR = 1011;
const TRY_AGAIN = 1013;

/** The longest time that a client may take to read one message, in milliseconds. */
const PATIENCE_MS = 60_000;
/** The longest time that a client may take to answer a close, in milliseconds. Its connection then counts no more. */
const FAREWELL_MS = 30_000;
/** The most messages of one connection that wait for the running answer. */
const MAX_WAITING = 16;
/** The part of a message up to which its arrival is not booked, in bytes. */
const SMALL_BYTES = 4 * 1024;
/** The memory that each piece of an arriving message takes beside its bytes. */
const PIECE_BYTES = 256;

/** Asks for a WebSocket with a call of its own. Resolves with the refusal, or with the handler of the connection. */
export async function acceptSocket(
  services: Services,
  parts: Parts,
  asked: SocketRequest,
): Promise<Answer | SocketHandler> {
  const { endpoint, request, prefix, mounted } = asked;
  let keyId: string | undefined;
  const handshake = new MountOf(mounted, { accept: (key) => void (keyId = key.id) });
  const call = new Call(services, { endpoint, request, wildcardPath: "", prefix, mounted: handshake });
  const answer = await serve(call, parts);
  if (keyId === undefined || answer.status !== 200) return answer;
  // The cast is safe: only an endpoint with sockets is asked for one.
  const { socket } = (await wholeOf<Endpoint>(endpoint)) as QueryEndpoint & { readonly socket: SocketProtocol };
  const full = services.sockets.take(keyId, 1);
  if (!full) return new Connection(services, parts, asked, keyId, socket);
  const busy = new GatewayError("busy", `${FULL[full]} Try again later.`, { retryAfterMs: RETRY_AFTER_MS });
  return refusal(call, busy);
}

const FULL = {
  room: "The gateway holds as many WebSockets as it can.",
  share: "This API key has as many WebSockets as it may.",
} as const;

/** The pause before a client that found no room should retry, in milliseconds. */
const RETRY_AFTER_MS = 10_000;

/** The facts of a mount for one of the calls of its connection. The host's context is made anew for each. */
class MountOf implements Mounted {
  readonly onDisconnect: Mounted["onDisconnect"];
  readonly socket: SocketTurns | undefined;
  readonly accept: Mounted["accept"];
  readonly #mounted: Mounted;

  constructor(mounted: Mounted, { socket, accept, onDisconnect }: Pick<Mounted, "socket" | "accept" | "onDisconnect">) {
    this.#mounted = mounted;
    this.socket = socket;
    this.accept = accept;
    this.onDisconnect = onDisconnect ?? mounted.onDisconnect?.bind(mounted);
  }

  get path(): string | undefined {
    return this.#mounted.path;
  }

  get context(): unknown {
    return this.#mounted.context;
  }

  get clientAddress(): string | undefined {
    return this.#mounted.clientAddress;
  }

  get waitUntil(): Mounted["waitUntil"] {
    return this.#mounted.waitUntil;
  }
}

/** Takes memory for a lease. Returns false when there is none. */
function hasTaken(lease: BodyLease, bytes: number): boolean {
  try {
    lease.take(bytes);
    return true;
  } catch {
    return false;
  }
}

/** The headers that belong to the connection, and not to the requests that its messages make. */
const CONNECTION_HEADERS = /^(?:connection|upgrade|sec-websocket-.*|content-.*|transfer-encoding|idempotency-key)$/i;

class Connection implements SocketHandler {
  readonly maxMessageBytes: number;
  readonly #services: Services;
  readonly #parts: Parts;
  readonly #asked: SocketRequest;
  readonly #headers: Headers;
  readonly #keyId: string;
  readonly #turns: SocketTurns;
  readonly #waiting: string[] = [];
  /** The memory of the messages that wait or arrive. */
  #incoming: BodyLease | undefined;
  /** The memory of the format's own state. */
  #held: BodyLease | undefined;
  /** The memory of the message that arrives, in bytes. */
  #arrivedBytes = 0;
  /** Counts the bytes of a large message. Returns true when they come too slowly. */
  #crawls: ((bytes: number) => boolean) | undefined;
  /** The time of the last bytes, in milliseconds since the Unix epoch. */
  #arrivedAt = 0;
  #cancelStall: Cancel | undefined;
  /** Undefined before the connection is open, and once the gateway has closed it: nothing may be sent behind a close. */
  #peer: SocketPeer | undefined;
  #call: Call | undefined;
  /** Cuts the running call, because its client is gone. */
  #disconnect: (() => void) | undefined;
  /** True while the client has not read the reply to a message that is no call. */
  #isReplying = false;
  /** True once no new message is answered: the connection has reached its longest life, or closes. */
  #isEnding = false;
  #isOver = false;
  readonly #cancelLife: Cancel;
  #cancelFarewell: Cancel | undefined;
  readonly #forget: () => void;

  constructor(services: Services, parts: Parts, asked: SocketRequest, keyId: string, protocol: SocketProtocol) {
    const { limits, clock, connections } = services;
    this.maxMessageBytes = limits.maxJsonBytes;
    this.#services = services;
    this.#parts = parts;
    this.#asked = asked;
    this.#keyId = keyId;
    this.#headers = new Headers({ "content-type": "application/json" });
    for (const [name, value] of asked.request.headers)
      if (!CONNECTION_HEADERS.test(name)) this.#headers.append(name, value);
    this.#turns = protocol.open({ hold: (bytes) => this.#hold(bytes) });
    this.#cancelLife = clock.after(limits.socketLifeMs, () => {
      this.#isEnding = true;
      if (!this.#call) this.#endLife();
    });
    // In Workers no other request may touch the connection: the promise lets the connection close itself.
    const closing = Promise.withResolvers<void>();
    void closing.promise.then(() => this.#goAway());
    const goAway = asked.mounted.waitUntil ? closing.resolve : (): void => this.#goAway();
    connections.add(goAway);
    this.#forget = () => connections.delete(goAway);
  }

  open(peer: SocketPeer): void {
    this.#peer = peer;
    if (this.#services.inFlight.isClosing) this.#goAway();
  }

  arriving(bytes: number): boolean {
    const memory = bytes + PIECE_BYTES;
    this.#arrivedBytes += memory;
    this.#arrivedAt = this.#services.clock.now();
    this.#cancelStall ??= this.#stall(this.#services.limits.bodyStallMs);
    if (this.#arrivedBytes <= SMALL_BYTES) return true;
    const wasSmall = this.#arrivedBytes - memory <= SMALL_BYTES;
    const { clock, limits } = this.#services;
    if (wasSmall) this.#crawls = rateOf(clock, limits.minBodyBytesPerSecond);
    if (this.#crawls?.(bytes)) {
      this.#close(TRY_AGAIN, "the message comes too slowly");
      return false;
    }
    return this.#book(wasSmall ? this.#arrivedBytes : memory);
  }

  /** Ends the connection when the rest of a message does not come. One timer serves all messages. */
  #stall(afterMs: number): Cancel {
    const { clock, limits } = this.#services;
    return clock.after(afterMs, () => {
      this.#cancelStall = undefined;
      if (this.#arrivedBytes === 0 || this.#isOver) return;
      const leftMs = limits.bodyStallMs - (clock.now() - this.#arrivedAt);
      if (leftMs <= 0) this.#peer?.terminate();
      else this.#cancelStall = this.#stall(Math.min(leftMs, limits.bodyStallMs));
    });
  }

  message(message: string | Uint8Array): void {
    const arrived = this.#arrivedBytes > SMALL_BYTES ? this.#arrivedBytes : 0;
    this.#arrivedBytes = 0;
    if (this.#isOver || this.#isEnding) return;
    const text = typeof message === "string" ? message : new TextDecoder().decode(message);
    if (this.#call && this.#turns.cancels(text, this.#services.limits))
      return this.#call.cut(new GatewayError("client_closed", "The client has cancelled the response."));
    const reply = text.length <= SMALL_BYTES && !this.#isReplying ? this.#replyTo(text) : undefined;
    if (reply !== undefined) return this.#reply(reply);
    const isFull = this.#waiting.length >= MAX_WAITING || (arrived < text.length && !this.#book(text.length - arrived));
    if (isFull) return this.#close(TRY_AGAIN, "too many messages wait");
    this.#waiting.push(text);
    if (!this.#call && this.#waiting.length === 1) void this.#answerAll();
  }

  #replyTo(text: string): string | undefined {
    return this.#turns.replyTo(text, this.#services.limits);
  }

  /** Replies at once, also in the middle of an answer. Further messages wait for the answer while the client does not read. */
  #reply(reply: string): void {
    const sending = this.#send(reply);
    this.#isReplying = sending !== undefined;
    void sending?.finally(() => (this.#isReplying = false));
  }

  closed(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#waiting.length = 0;
    this.#cancelLife();
    this.#cancelStall?.();
    this.#cancelFarewell?.();
    this.#forget();
    this.#services.sockets.remove(this.#keyId, 1);
    this.#incoming?.[Symbol.dispose]();
    this.#held?.[Symbol.dispose]();
    this.#peer = undefined;
    this.#disconnect?.();
  }

  /** Answers the messages one after the other. */
  async #answerAll(): Promise<void> {
    for (let text = this.#waiting[0]; text !== undefined && !this.#isOver; text = this.#waiting[0]) {
      try {
        await this.#answer(text);
      } catch {
        // The answer broke off in a way that only its end tells: the client must not wait for the rest.
        this.#close(INTERNAL_ERROR, "the answer broke off");
      }
      this.#call = this.#disconnect = undefined;
      this.#waiting.shift();
      if (this.#waiting.length === 0) this.#release();
      if (this.#services.inFlight.isClosing) this.#goAway();
      else if (this.#isEnding) this.#endLife();
    }
  }

  async #answer(text: string): Promise<void> {
    const { request, prefix, mounted } = this.#asked;
    const reply = this.#replyTo(text);
    if (reply !== undefined) {
      await this.#send(reply);
      return;
    }
    const endpoint = this.#turns.endpointOf(text, this.#services.limits);
    const message = new MountOf(mounted, {
      socket: this.#turns,
      onDisconnect: (listener) => {
        this.#disconnect = listener;
      },
    });
    const body = new Request(request.url, { method: "POST", headers: this.#headers, body: text });
    const call = new Call(this.#services, { endpoint, request: body, wildcardPath: "", prefix, mounted: message });
    this.#call = call;
    const answer = await serve(call, this.#parts);
    if (isStream(answer.body)) {
      for await (const piece of answer.body)
        for (const one of this.#turns.messagesOf(String(piece))) await this.#send(one);
      return;
    }
    if (typeof answer.body === "string") await this.#send(this.#turns.refusal(answer.status, parseJson(answer.body)));
  }

  /** Sends a message. Ends the connection of a client that does not read. */
  #send(message: string): Promise<void> | undefined {
    const peer = this.#peer;
    const sending = peer?.send(message);
    if (!sending) return undefined;
    const cancel = this.#services.clock.after(PATIENCE_MS, () => peer?.terminate());
    return sending.finally(cancel);
  }

  /** Books memory for messages. Returns false when there is no room, or when the connection is over. */
  #book(bytes: number): boolean {
    if (this.#isOver) return false;
    this.#incoming ??= this.#services.bodies.lease(this.#keyId);
    return hasTaken(this.#incoming, bytes);
  }

  /** Returns the memory of the messages. A message that still arrives keeps its own. */
  #release(): void {
    this.#incoming?.[Symbol.dispose]();
    this.#incoming = undefined;
    if (this.#arrivedBytes > SMALL_BYTES && !this.#book(this.#arrivedBytes)) this.#close(TRY_AGAIN, "no room");
  }

  #hold(bytes: number): boolean {
    this.#held?.[Symbol.dispose]();
    this.#held = undefined;
    if (this.#isOver) return false;
    if (bytes === 0) return true;
    const lease = this.#services.bodies.lease(this.#keyId);
    if (!hasTaken(lease, bytes)) return false;
    this.#held = lease;
    return true;
  }

  #endLife(): void {
    void this.#send(this.#turns.lifeReached());
    this.#close(NORMAL, "the connection has reached its longest life");
  }

  /** The gateway closes: an idle connection ends at once, and any other one behind its answer. */
  #goAway(): void {
    if (!this.#call) this.#close(GOING_AWAY, "the gateway is closing");
  }

  /** Closes the connection. Drops the messages that wait, and cuts the running answer, because no client would get it. */
  #close(code: number, reason: string): void {
    const peer = this.#peer;
    this.#peer = undefined;
    this.#isEnding = true;
    this.#waiting.length = 0;
    this.#disconnect?.();
    if (!peer) return;
    this.#cancelFarewell = this.#services.clock.after(FAREWELL_MS, () => peer.terminate());
    peer.close(code, reason);
  }
}

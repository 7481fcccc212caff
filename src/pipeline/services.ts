/** The services that all calls of a gateway share, among them the exhausted keys and the calls in flight. */

import { type Port, GatewayError } from "../errors.ts";
import type { DocumentsCall, KeptDocuments } from "../formats/format.ts";
import type { KnownBodies } from "../http/known-bodies.ts";
import type { CountTokens } from "../kinds/count-tokens.ts";
import type { HostPrices } from "../kinds/kind.ts";
import type { Limits } from "../limits.ts";
import type { Breaker } from "../ports/circuit-breaker.ts";
import { type Clock, nextIteration } from "../ports/clock.ts";
import type { CodeRunner } from "../ports/code-runner.ts";
import type { ModelBackend, ModelInfo } from "../ports/model-backend.ts";
import type { LiveCall, Observer, OnCall, OnFailure, TelemetryNames } from "../ports/observer.ts";
import type { ApiKey, QuotaStore } from "../ports/quota-store.ts";
import type { RateLimiter } from "../ports/rate-limiter.ts";
import type { BodyRoom, SharedRoom } from "../ports/shared-room.ts";
import type { Hooks } from "./hooks.ts";
import type { Replays } from "./idempotency.ts";
import type { Settlements } from "./settlements.ts";

/** The host's store of responses. */
export interface Responses {
  /** Opens the documents of a call's key. */
  documentsOf(call: DocumentsCall, key: ApiKey): KeptDocuments;
}

export interface Services {
  readonly backend: ModelBackend;
  readonly quotas: QuotaStore;
  readonly rateLimiter: RateLimiter | undefined;
  readonly rateLimiterDown: "closed" | "open";
  /** Undefined when the host has no replay store: then idempotency keys mean nothing. */
  readonly replays: Replays | undefined;
  /** Undefined when the host has no store of responses, or no format that keeps answers. */
  readonly responses: Responses | undefined;
  readonly codeRunner: CodeRunner | undefined;
  readonly prices: HostPrices;
  /** The currency, such as `USD`, if a quota unit is a millionth of it; undefined for other units. */
  readonly currency: string | undefined;
  /** The names of the kinds that a backend may list for its models. */
  readonly kindNames: readonly string[];
  /** The backend's latest list of models; undefined before the backend was asked. Records of refused calls read the list. */
  readonly listed: { models: readonly ModelInfo[] | undefined };
  /** The models that the host has named in its prices and its routes, without patterns. */
  readonly namedModels: ReadonlySet<string>;
  readonly countTokens: CountTokens;
  readonly countInput: "estimate" | "backend";
  readonly limits: Limits;
  readonly clock: Clock;
  readonly onFailure: OnFailure;
  /** True in `quotas` until a health check has seen the quota store write: from the start on, and after each failure of a store. */
  readonly doubted: { quotas: boolean };
  readonly onCall: OnCall | undefined;
  readonly observer: Observer | undefined;
  /** The names of the formats for the observer, by format. */
  readonly telemetry: ReadonlyMap<string, TelemetryNames>;
  /** Undefined when the host has no hooks. */
  readonly hooks: Hooks | undefined;
  /** True when `onCall`, an observer or the `after` of a hook wants records. Otherwise nothing is noted for records. */
  readonly isRecorded: boolean;
  /** Returns the aliases of a model. */
  readonly aliasesOf: (model: string) => readonly string[];
  readonly inFlight: InFlightCalls;
  readonly lastWork: LastWork;
  /** The settlements of ended calls that the quota store has not taken yet. */
  readonly settlements: Settlements;
  readonly bodies: BodyRoom;
  readonly knownBodies: KnownBodies;
  /** Bounds the WebSockets, in all and of one key. */
  readonly sockets: SharedRoom;
  /** Ends each idle WebSocket, for a gateway that closes. */
  readonly connections: Set<() => void>;
  /** The keys that had no quota left when the store was last asked. */
  readonly exhausted: ExhaustedKeys;
  /** The circuit breakers of the store verbs that were used so far. */
  readonly breakers: Map<Port, Map<string, Breaker>>;
}

/** After so many events that were counted at the end of calls, the event loop serves other calls. An event of `relay` has some kilobytes. */
const EVENTS_A_TURN = 32;

/**
 * Counts what calls leave at their end one after the other, with turns of the event loop for other calls between: many clients may leave at
 * once.
 */
export class LastWork {
  /** Resolves when the next work may run; undefined when it may run at once. */
  #busy: Promise<unknown> | undefined = undefined;
  /** The events since the last turn. */
  #events = 0;

  /**
   * Runs work that must not throw, and returns the number of its events. Returns a promise that resolves behind the work; undefined when the
   * work is done.
   */
  run(work: () => number): Promise<unknown> | undefined {
    if (!this.#busy) {
      if (this.#isTurnDue(work())) this.#pause(nextIteration());
      return undefined;
    }
    const done = this.#busy.then(work);
    this.#pause(done.then((events) => (this.#isTurnDue(events) ? nextIteration() : undefined)));
    return done;
  }

  /** Counts events. Returns true when a turn is due. A turn takes a millisecond: one behind each call would delay thousands of ends. */
  #isTurnDue(events: number): boolean {
    this.#events += events;
    if (this.#events < EVENTS_A_TURN) return false;
    this.#events = 0;
    return true;
  }

  #pause(until: Promise<unknown>): void {
    this.#busy = until;
    void until.then(() => {
      if (this.#busy === until) this.#busy = undefined;
    });
  }
}

/** The most exhausted keys to remember, and the time to remember each key, in milliseconds. */
const MAX_EXHAUSTED = 10_000;
const EXHAUSTED_MS = 60_000;

/** Remembers keys that had no quota left, so that the store is asked before the next body of such a key is parsed. Refuses no call. */
export class ExhaustedKeys {
  readonly #clock: Clock;
  /** The time until which each key is remembered, the earliest first. */
  readonly #until = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  has(keyId: string): boolean {
    const until = this.#until.get(keyId);
    return until !== undefined && this.#clock.now() < until;
  }

  /** Notes the balance that the store has told. */
  noteBalance(keyId: string, available: number): void {
    this.#until.delete(keyId);
    if (available > 0) return;
    const now = this.#clock.now();
    for (const [earliest, until] of this.#until) {
      if (until > now && this.#until.size < MAX_EXHAUSTED) break;
      this.#until.delete(earliest);
    }
    this.#until.set(keyId, now + EXHAUSTED_MS);
  }
}

/** The pause before a refused caller should retry, in milliseconds: another instance can answer at once. */
const RETRY_AFTER_MS = 1_000;

/** The time that a call may take to end after its deadline, in milliseconds. */
const GRACE_MS = 30_000;

const closing = (): GatewayError =>
  new GatewayError("busy", "The gateway is closing.", { retryAfterMs: RETRY_AFTER_MS });

const BUSY = {
  room: "The gateway is serving as many calls as it can.",
  share: "This API key has as many calls at once as it may.",
} as const;

const stopped = (): GatewayError => new GatewayError("call_stopped", "An operator has stopped the call.");

/** The part of a call that its list needs. */
export interface InFlightCall {
  readonly id: string;
  /** True in a runtime that stops work whose client is gone, unless it is told to wait. */
  readonly hasWaitUntil: boolean;
  /** True when the call has ended and only waits for its settlement. Such a call cannot be cut. */
  readonly isOver: boolean;
  /** Ends the call early. */
  cut(reason: GatewayError): void;
  /**
   * Describes the call by its findings so far.
   *
   * @param beganAt The beginning of the call, in milliseconds since the Unix epoch.
   */
  live(beganAt: number): LiveCall;
}

/** The slot of one call: a link of the list of calls in flight. */
export interface InFlightSlot {
  /** Undefined once the call has left the list. */
  call: InFlightCall | undefined;
  /** Lets the call cut itself. Set for a call that others may not cut. */
  cutItself: ((reason: GatewayError) => void) | undefined;
  /** The key of the call, once the key is known and the call is admitted. */
  keyId: string | undefined;
  /** True when the answer of the call is streamed. */
  isStreamed: boolean;
  /** The beginning of the call, in milliseconds since the Unix epoch. */
  readonly beganAt: number;
  /** The slots of the calls that began just before and just after this one. */
  previous: InFlightSlot | undefined;
  next: InFlightSlot | undefined;
}

/**
 * The calls in flight, as a linked list in the order of their beginning. A list, because V8 grows a new table for a map whose entries
 * come and go, and each outgrown table keeps the next one and its calls in memory until the whole heap is collected.
 */
export class InFlightCalls {
  /** The number of calls in flight. */
  size = 0;
  /** The number of calls in flight whose answer is streamed. */
  streams = 0;
  #first: InFlightSlot | undefined = undefined;
  #last: InFlightSlot | undefined = undefined;
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #room: SharedRoom;
  #closed: PromiseWithResolvers<void> | undefined = undefined;

  /**
   * @param deadlineMs The longest time of one call, in milliseconds.
   * @param room Bounds the calls whose key is known, in all and of one key.
   */
  constructor(clock: Clock, deadlineMs: number, room: SharedRoom) {
    this.#clock = clock;
    this.#deadlineMs = deadlineMs;
    this.#room = room;
  }

  /** True from the call of `close` on. */
  get isClosing(): boolean {
    return this.#closed !== undefined;
  }

  /** Adds a new call; give its slot back with `end`. Throws `busy` when the gateway is closing. */
  begin(call: InFlightCall): InFlightSlot {
    if (this.#closed) throw closing();
    const now = this.#clock.now();
    // Drop calls that their runtime has stopped without a word, as Workers may once a client is gone.
    while (this.#first && this.#isOverdue(this.#first, now)) this.end(this.#first);
    const slot: InFlightSlot = {
      call,
      cutItself: call.hasWaitUntil ? cutterOf(call) : undefined,
      keyId: undefined,
      isStreamed: false,
      beganAt: now,
      previous: this.#last,
      next: undefined,
    };
    if (this.#last) this.#last.next = slot;
    else this.#first = slot;
    this.#last = slot;
    this.size++;
    return slot;
  }

  /** Counts the call of a slot for its key. Throws `busy` for too many calls, in all or of the key. */
  admit(slot: InFlightSlot, keyId: string): void {
    // A slot out of the list belongs to a call that has ended meanwhile.
    if (!slot.call) return;
    const refusal = this.#room.take(keyId, 1);
    if (refusal)
      throw new GatewayError("busy", `${BUSY[refusal]} Try again shortly.`, { retryAfterMs: RETRY_AFTER_MS });
    slot.keyId = keyId;
  }

  /** Counts the call of a slot as one whose answer is streamed, once. */
  stream(slot: InFlightSlot): void {
    if (!slot.call || slot.isStreamed) return;
    slot.isStreamed = true;
    this.streams++;
  }

  /** Resolves when the last call has ended and is settled. Cuts the calls that live after `deadlineMs` milliseconds. */
  close(deadlineMs: number): Promise<void> {
    if (this.#closed) return this.#closed.promise;
    const closed = (this.#closed = Promise.withResolvers<void>());
    const cancelCut = this.#clock.after(deadlineMs, () => this.#cutAll());
    const cancelWait = this.#clock.after(deadlineMs + GRACE_MS, closed.resolve);
    if (this.size === 0) closed.resolve();
    return closed.promise.finally(() => {
      cancelCut();
      cancelWait();
    });
  }

  #cutAll(): void {
    // Collect all slots first: a call that is cut may leave the list at once, and take calls along whose host depends on it.
    const slots: InFlightSlot[] = [];
    for (let slot = this.#first; slot; slot = slot.next) slots.push(slot);
    for (const slot of slots) cut(slot, closing());
  }

  /**
   * Describes the calls that run, the oldest first.
   *
   * @param limit The most calls. Default: all.
   */
  list(limit: number = Infinity): readonly LiveCall[] {
    const now = this.#clock.now();
    const calls: LiveCall[] = [];
    for (let slot = this.#first; slot && calls.length < limit; slot = slot.next)
      if (slot.call && !this.#isOverdue(slot, now)) calls.push(slot.call.live(slot.beganAt));
    return calls;
  }

  /** Counts the calls that run, without describing them. */
  count(): number {
    const now = this.#clock.now();
    let count = this.size;
    // The oldest calls are overdue first.
    for (let slot = this.#first; slot && this.#isOverdue(slot, now); slot = slot.next) count--;
    return count;
  }

  /** Cuts a call by its request id. Returns false when no such call runs, or when it only waits for its settlement. */
  stop(requestId: string): boolean {
    let slot = this.#first;
    while (slot && slot.call?.id !== requestId) slot = slot.next;
    if (!slot?.call || slot.call.isOver) return false;
    cut(slot, stopped());
    return true;
  }

  #isOverdue({ beganAt }: InFlightSlot, now: number): boolean {
    return beganAt + this.#deadlineMs + GRACE_MS <= now;
  }

  /** Removes a call that has ended and is settled. */
  end(slot: InFlightSlot): void {
    const { previous, next, keyId } = slot;
    if (!slot.call) return;
    if (keyId !== undefined) this.#room.remove(keyId, 1);
    if (previous) previous.next = next;
    else this.#first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
    // A slot outside the list must keep nothing alive.
    slot.call = slot.cutItself = slot.previous = slot.next = undefined;
    this.size--;
    if (slot.isStreamed) this.streams--;
    if (this.size === 0) this.#closed?.resolve();
  }
}

function cut({ call, cutItself }: InFlightSlot, reason: GatewayError): void {
  if (cutItself) cutItself(reason);
  else call?.cut(reason);
}

/** In Workers each request has its own context, and no other request may abort its work: a promise lets the call cut itself. */
function cutterOf(call: InFlightCall): (reason: GatewayError) => void {
  const { promise, resolve } = Promise.withResolvers<GatewayError>();
  void promise.then((reason) => call.cut(reason));
  return resolve;
}

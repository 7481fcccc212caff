/** The calls that a gateway is serving, so that it can close: no new ones, and an end to those there are. */

import { GatewayError } from "../errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { SharedRoom } from "../ports/shared-room.ts";

/** When a caller that was refused may come back, in milliseconds: another instance can be there at once. */
const COME_BACK_MS = 1_000;

const closing = (): GatewayError => new GatewayError("busy", "The gateway is closing.", { retryAfterMs: COME_BACK_MS });

const BUSY = {
  room: "The gateway is serving as many calls as it can.",
  share: "This API key has as many calls at once as it may.",
} as const;

/** How much longer than its deadline a call may take to end, in milliseconds. */
const GRACE_MS = 30_000;

/** A call, as far as closing concerns it. */
export interface InFlightCall {
  /** Whether its runtime stops work whose client is gone, unless it is told to wait. */
  readonly hasWaitUntil: boolean;
  /** Ends it early. */
  cut(reason: GatewayError): void;
}

/** The place of a call among those in flight: a link of the list of them. */
export interface InFlight {
  /** Undefined once the call is out of the list. */
  cut: (() => void) | undefined;
  /** Whose call it is, once that is known and the call is admitted. */
  keyId: string | undefined;
  /** When it must have ended, in milliseconds since the Unix epoch. */
  readonly overdueAt: number;
  /** The places of the calls that began just before and just after it. */
  previous: InFlight | undefined;
  next: InFlight | undefined;
}

/**
 * A linked list, in the order in which the calls began. A map would do, but for what V8 keeps of one: where entries come and go,
 * it gets a new table again and again, and each old one holds on to the next, and to its calls, until the whole heap is collected.
 */
export class InFlightCalls {
  #first: InFlight | undefined;
  #last: InFlight | undefined;
  #size = 0;
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #room: SharedRoom;
  #closed: PromiseWithResolvers<void> | undefined;

  /**
   * @param deadlineMs How long one call may take.
   * @param room How many calls whose key is known there may be, and how many of one key.
   */
  constructor(clock: Clock, deadlineMs: number, room: SharedRoom) {
    this.#clock = clock;
    this.#deadlineMs = deadlineMs;
    this.#room = room;
  }

  /** How many there are. */
  get size(): number {
    return this.#size;
  }

  /** Takes up a new call; its place is to be given back at its end. Throws `busy` where the gateway is closing. */
  begin(call: InFlightCall): InFlight {
    if (this.#closed) throw closing();
    const now = this.#clock.now();
    this.#forgetStopped(now);
    const overdueAt = now + this.#deadlineMs + GRACE_MS;
    const place: InFlight = { cut: cutOf(call), keyId: undefined, overdueAt, previous: this.#last, next: undefined };
    if (this.#last) this.#last.next = place;
    else this.#first = place;
    this.#last = place;
    this.#size++;
    return place;
  }

  /** Counts the call of this place for its key. Throws `busy` where there are too many calls, in all or of the key. */
  admit(place: InFlight, keyId: string): void {
    // A place out of the list is that of a call which has ended meanwhile.
    if (!place.cut) return;
    const refusal = this.#room.refuses(keyId, 1);
    if (refusal) throw new GatewayError("busy", `${BUSY[refusal]} Try again shortly.`, { retryAfterMs: COME_BACK_MS });
    this.#room.add(keyId, 1);
    place.keyId = keyId;
  }

  /** The call of this place has ended and is settled. */
  end(place: InFlight): void {
    this.#remove(place);
    if (this.#size === 0) this.#closed?.resolve();
  }

  /** Resolves when the last call has ended and is settled; those that live after `deadlineMs` are cut. */
  close(deadlineMs: number): Promise<void> {
    if (this.#closed) return this.#closed.promise;
    const closed = (this.#closed = Promise.withResolvers<void>());
    const cancelCut = this.#clock.after(deadlineMs, () => this.#cutAll());
    const cancelWait = this.#clock.after(deadlineMs + GRACE_MS, closed.resolve);
    if (this.#size === 0) closed.resolve();
    return closed.promise.finally(() => {
      cancelCut();
      cancelWait();
    });
  }

  #cutAll(): void {
    // All of them first: one that is cut may leave the list at once, and take others along whose host hangs on it.
    const places: InFlight[] = [];
    for (let place = this.#first; place; place = place.next) places.push(place);
    for (const place of places) place.cut?.();
  }

  /** Lets go of calls that their runtime has stopped without a word, as Workers may once a client is gone. */
  #forgetStopped(now: number): void {
    while (this.#first && this.#first.overdueAt <= now) this.#remove(this.#first);
  }

  #remove(place: InFlight): void {
    const { previous, next, keyId } = place;
    if (!place.cut) return;
    if (keyId !== undefined) this.#room.remove(keyId, 1);
    if (previous) previous.next = next;
    else this.#first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
    // Nothing hangs on a place that is not in the list.
    place.cut = place.previous = place.next = undefined;
    this.#size--;
  }
}

function cutOf(call: InFlightCall): () => void {
  const cut = (): void => call.cut(closing());
  if (!call.hasWaitUntil) return cut;
  // Where each request has a context of its own, as in Workers, none may abort what belongs to another: it cuts itself.
  const { promise, resolve } = Promise.withResolvers<void>();
  void promise.then(cut);
  return resolve;
}

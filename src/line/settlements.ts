/** Settlements that the quota store did not take at their call's end: retried while the process lives, reported where that ends. */

import { describeError, GatewayError } from "../errors.ts";
import { LATE, within } from "../http/within.ts";
import type { Limits } from "../limits.ts";
import type { CallInfo } from "../ports/call-info.ts";
import type { CallObserver } from "../ports/call-observer.ts";
import type { Cancel, Clock } from "../ports/clock.ts";
import type { OnFailure } from "../ports/observer.ts";
import type { Outcome, QuotaStore } from "../ports/quota-store.ts";
import { guarded } from "./failure.ts";
import { quietly } from "./watch.ts";

/** What the store must be told of a call that has ended. It holds nothing of the call but the host's own context. */
export interface Settlement extends Outcome {
  /** The id of the call, and of its hold. */
  readonly id: string;
  readonly keyId: string;
  /** Units that were held. */
  readonly granted: number;
  /** When the hold's lease ends, in milliseconds since the Unix epoch; read only for the observer. */
  readonly leasedUntil: number;
  /** The host's own: a store may find its database by it. */
  readonly context: unknown;
  readonly clientAddress: string | undefined;
  /** Hears what becomes of the hold. */
  readonly observer: CallObserver | undefined;
  /** Tells a runtime that waits for the settlement that it need not wait any longer. */
  readonly done: (() => void) | undefined;
}

/** What the queue works with. */
export interface SettlementServices {
  readonly quotas: QuotaStore;
  readonly clock: Clock;
  readonly limits: Pick<Limits, "storeTimeoutMs" | "maxWaitingSettlements">;
  readonly onFailure: OnFailure;
}

/** How long the pauses are between two tries, in milliseconds: the last one for as long as the store fails. */
const PAUSES_MS: readonly number[] = [500, 5_000, 30_000];

/** How many settlements are told at once while the store answers. While it fails, one at a time finds out whether it is back. */
const BATCH = 8;

/** How much longer than its time a pause or a batch may take before it counts as stopped by the runtime, in milliseconds. */
const GRACE_MS = 1_000;

/** How often the timer fires that keeps the process alive while the gateway closes, in milliseconds. It does nothing. */
const HELD_MS = 60_000;

/**
 * The queue of one gateway. All of its settlements share one pause, which grows while the store fails: a store that comes back is
 * not met by all of them at once, and one that hangs is left with one unanswered question a pause.
 */
export class Settlements {
  readonly #services: SettlementServices;
  /** In the order in which they are told: one that fails goes to the end, so that no settlement keeps another from its turn. */
  readonly #waiting = new Map<string, Settlement>();
  /** How often in a row the store has failed. */
  #failures = 0;
  #lastError: unknown;
  /** Counts pauses and batches, so that one that was given up does not go on beside the next. */
  #turn = 0;
  /** When the pause or the batch must be over, in milliseconds since the Unix epoch. */
  #busyUntil = 0;
  #cancelPause: Cancel | undefined;
  #closing: Promise<void> | undefined;
  #isClosed = false;
  /** Ends the wait of `close`. */
  #drained: (() => void) | undefined;

  constructor(services: SettlementServices) {
    this.#services = services;
  }

  /** How many settlements wait. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Takes over a settlement that the store has not taken. Where too many wait, the oldest is given up: stores forget it first. */
  add(settlement: Settlement): void {
    const { maxWaitingSettlements: most } = this.#services.limits;
    if (this.#isClosed) return this.#giveUp(settlement, "The gateway is closed.");
    for (const oldest of this.#waiting.values()) {
      if (this.#waiting.size < most) break;
      this.#waiting.delete(oldest.id);
      this.#giveUp(oldest, `More than ${most} settlements wait.`);
    }
    this.#waiting.set(settlement.id, settlement);
    if (this.#waiting.size > 1) return this.wake();
    // The failure that its call has met.
    this.#failures = 1;
    this.#pause();
  }

  /**
   * Goes on where a runtime has stopped the pause or the batch without a word, as Workers do with the timers of a request that is
   * over. Called whenever another call has settled.
   */
  wake(): void {
    if (this.#waiting.size > 0 && this.#services.clock.now() > this.#busyUntil + GRACE_MS) void this.#tellNext();
  }

  /**
   * Tells the store at once, and goes on until nothing waits or the time is over. What is left then is reported.
   *
   * @param callsEnded Resolves when the last call has ended, and nothing is added any more.
   */
  close(callsEnded: Promise<void>, deadlineMs: number): Promise<void> {
    return (this.#closing ??= this.#close(callsEnded, deadlineMs));
  }

  async #close(callsEnded: Promise<void>, deadlineMs: number): Promise<void> {
    const { clock } = this.#services;
    const closesAt = clock.now() + deadlineMs;
    // The clock's timers keep no process alive, and one that ends now would neither settle nor report what is left.
    const held = setInterval(() => {}, HELD_MS);
    try {
      if (this.#cancelPause) void this.#tellNext();
      await callsEnded;
      const leftMs = closesAt - clock.now();
      if (this.#waiting.size > 0 && leftMs > 0) {
        let cancel: Cancel | undefined;
        await new Promise<void>((resolve) => {
          this.#drained = resolve;
          cancel = clock.after(leftMs, resolve);
        });
        cancel?.();
      }
    } finally {
      clearInterval(held);
    }
    this.#isClosed = true;
    this.#endTurn();
    for (const settlement of this.#waiting.values()) this.#giveUp(settlement, "The gateway has closed.");
    this.#waiting.clear();
  }

  /** Begins a new turn in place of the one before. */
  #endTurn(): number {
    this.#cancelPause?.();
    this.#cancelPause = undefined;
    return ++this.#turn;
  }

  #pause(): void {
    const { clock } = this.#services;
    this.#endTurn();
    // A gateway that closes has no time for long pauses.
    const step = this.#closing ? 0 : Math.min(this.#failures, PAUSES_MS.length) - 1;
    const pauseMs = PAUSES_MS[step] ?? 0;
    this.#busyUntil = clock.now() + pauseMs;
    this.#cancelPause = clock.after(pauseMs, () => void this.#tellNext());
  }

  async #tellNext(): Promise<void> {
    const { clock, limits } = this.#services;
    const turn = this.#endTurn();
    this.#busyUntil = clock.now() + limits.storeTimeoutMs;
    const batch = [...this.#waiting.values()].slice(0, this.#failures === 0 ? BATCH : 1);
    const taken = await Promise.all(batch.map((settlement) => this.#tell(settlement)));
    if (turn !== this.#turn) return;
    this.#failures = taken.includes(false) ? this.#failures + 1 : 0;
    if (this.#waiting.size === 0) {
      this.#lastError = undefined;
      this.#failures = 0;
      this.#drained?.();
    } else if (this.#failures === 0) void this.#tellNext();
    else this.#pause();
  }

  /** Whether the store answers, and the settlement need not be told again. */
  async #tell(settlement: Settlement): Promise<boolean> {
    const { quotas, clock, limits } = this.#services;
    const { id, used, certainty, granted, leasedUntil, observer, done } = settlement;
    try {
      const settling = Promise.resolve(quotas.settle(id, { used, certainty }, detailsOf(settlement)));
      if ((await within(settling, limits.storeTimeoutMs, clock)) === LATE) throw tooLate(limits.storeTimeoutMs);
      if (!this.#waiting.delete(id)) return true;
      const expired = clock.now() >= leasedUntil;
      quietly(() => observer?.hold?.({ type: "settled", granted, expired, used, certainty }));
      done?.();
      return true;
    } catch (error) {
      this.#lastError = error;
      if (!this.#waiting.delete(id)) return true;
      // By the contract of the port: an amount that no store takes, however often it is told.
      if (error instanceof RangeError) {
        this.#giveUp(settlement, "The store refuses the amount.");
        return true;
      }
      this.#waiting.set(id, settlement);
      return false;
    }
  }

  /** Reports a settlement that is told no more, with all that a host needs to book it by hand. */
  #giveUp({ id, keyId, granted, used, certainty, observer, done }: Settlement, why: string): void {
    quietly(() => observer?.hold?.({ type: "abandoned", granted }));
    const what = `The call ${id} of the key ${keyId} is not settled: ${used} units, ${certainty}. ${why}`;
    const error = new GatewayError("store_unavailable", "A store of this service is not available.", {
      port: "quota-store",
      cause: new Error(what, this.#lastError === undefined ? {} : { cause: this.#lastError }),
    });
    const failure = { error, requestId: id, port: error.port, text: describeError(error) };
    void guarded(() => this.#services.onFailure({ ...failure, unsettled: { keyId, used, certainty } }));
    done?.();
  }
}

export const tooLate = (ms: number): Error => new Error(`The store took longer than ${ms} ms.`);

/** The call as its store may still know it. Its headers are gone with it: the caller's secret is among them. */
const detailsOf = ({ id, context, clientAddress }: Settlement): CallInfo => ({
  requestId: id,
  context,
  headers: new Headers(),
  clientAddress,
});

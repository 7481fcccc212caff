/**
 * Retries the settlements that the quota store did not take at the end of their calls, and reports those that are given up.
 */

import { describeError, storeUnavailable } from "../errors.ts";
import type { Limits } from "../limits.ts";
import type { CallInfo } from "../ports/call-info.ts";
import { LATE, within, type Cancel, type Clock } from "../ports/clock.ts";
import type { CallObserver, OnFailure } from "../ports/observer.ts";
import type { Outcome, QuotaStore } from "../ports/quota-store.ts";
import { quietly, tellFailure } from "./reports.ts";

/** The settlement of an ended call. Holds nothing of the call but the host's own context. */
interface Settlement extends Outcome {
  /** The id of the call and of its hold. */
  readonly id: string;
  readonly keyId: string;
  /** The units that were held. */
  readonly granted: number;
  /** The end of the hold's lease, in milliseconds since the Unix epoch; for the observer alone. */
  readonly leasedUntil: number;
  /** The host's own context: a store may find its database by it. */
  readonly context: unknown;
  readonly clientAddress: string | undefined;
  /** Hears the end of the hold. */
  readonly observer: CallObserver | undefined;
  /** Tells a runtime that waits for the settlement to stop waiting. */
  readonly done: (() => void) | undefined;
}

/** The services of the queue. */
interface SettlementServices {
  readonly quotas: QuotaStore;
  readonly clock: Clock;
  readonly limits: Pick<Limits, "storeTimeoutMs" | "maxWaitingSettlements">;
  readonly onFailure: OnFailure;
  /** Hears that the store has taken all settlements that waited, with their number. */
  readonly onRecovery?: ((count: number) => void) | undefined;
}

/** The pauses between two tries, in milliseconds. The last one repeats while the store fails. */
export const RETRY_PAUSES_MS: readonly number[] = [500, 5_000, 30_000];

/**
 * The number of settlements that are sent at once while the store answers. While the store fails, one at a time probes it.
 */
const BATCH = 8;

/** The time that a pause or a batch may overrun before it counts as stopped by the runtime, in milliseconds. */
const GRACE_MS = 1_000;

/**
 * The interval of the timer that keeps the process alive while the gateway closes, in milliseconds. The timer does nothing else.
 */
const HELD_MS = 60_000;

/**
 * The queue of one gateway. All settlements share one pause, which grows while the store fails: a store that comes back does not meet
 * all of them at once, and a store that hangs has one unanswered query per pause.
 */
export class Settlements {
  readonly #services: SettlementServices;
  /**
   * The settlements in the order of their turns. A failed one goes to the end, so that it keeps no other from its turn.
   */
  readonly #waiting = new Map<string, Settlement>();
  /** The number of failures in a row. */
  #failures = 0;
  /** The settlements that the store has taken since none waited. */
  #taken = 0;
  #lastError: unknown;
  /** Numbers pauses and batches, so that an abandoned one does not go on beside the next. */
  #turn = 0;
  /** The end of the pause or of the batch, at the latest, in milliseconds since the Unix epoch. */
  #busyUntil = 0;
  #cancelPause: Cancel | undefined;
  #closing: Promise<void> | undefined;
  #isClosed = false;
  /** Ends the wait of `close`. */
  #drained: (() => void) | undefined;

  constructor(services: SettlementServices) {
    this.#services = services;
  }

  /** The number of waiting settlements. */
  get size(): number {
    return this.#waiting.size;
  }

  /**
   * Adds a settlement that the store did not take. When too many wait, gives up the oldest, which the store forgets first.
   */
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
    // Counts the failure that the call has met.
    this.#failures = 1;
    this.#pause();
  }

  /**
   * Goes on when a runtime has stopped the pause or the batch without a word, as Workers do with the timers of an ended request. Called
   * after each settled call.
   */
  wake(): void {
    if (this.#waiting.size > 0 && this.#services.clock.now() > this.#busyUntil + GRACE_MS) void this.#tellNext();
  }

  /**
   * Sends the settlements at once, and goes on until none waits or the time is over. Reports those that are left.
   *
   * @param callsEnded Resolves when the last call has ended. No settlement is added after that.
   */
  close(callsEnded: Promise<void>, deadlineMs: number): Promise<void> {
    return (this.#closing ??= this.#close(callsEnded, deadlineMs));
  }

  async #close(callsEnded: Promise<void>, deadlineMs: number): Promise<void> {
    const { clock } = this.#services;
    const closesAt = clock.now() + deadlineMs;
    // The clock's timers keep no process alive, and a process that ends now would neither settle nor report the rest.
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

  /** Begins a new turn in place of the old one. */
  #endTurn(): number {
    this.#cancelPause?.();
    this.#cancelPause = undefined;
    return ++this.#turn;
  }

  #pause(): void {
    const { clock } = this.#services;
    this.#endTurn();
    // A closing gateway has no time for long pauses.
    const step = this.#closing ? 0 : Math.min(this.#failures, RETRY_PAUSES_MS.length) - 1;
    const pauseMs = RETRY_PAUSES_MS[step] ?? 0;
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
      this.#tellRecovery();
      this.#drained?.();
    } else if (this.#failures === 0) void this.#tellNext();
    else this.#pause();
  }

  #tellRecovery(): void {
    const count = this.#taken;
    this.#taken = 0;
    if (count > 0) quietly(() => this.#services.onRecovery?.(count));
  }

  /** Sends one settlement. Resolves with true when the store answers and the settlement is finished. */
  async #tell(settlement: Settlement): Promise<boolean> {
    const { quotas, clock, limits } = this.#services;
    const { id, used, certainty, granted, leasedUntil, observer, done } = settlement;
    try {
      const settling = Promise.resolve(quotas.settle(id, { used, certainty }, detailsOf(settlement)));
      if ((await within(settling, limits.storeTimeoutMs, clock)) === LATE) throw tooLate(limits.storeTimeoutMs);
      if (!this.#waiting.delete(id)) return true;
      this.#taken++;
      const expired = clock.now() >= leasedUntil;
      quietly(() => observer?.hold?.({ type: "settled", granted, expired, used, certainty }));
      done?.();
      return true;
    } catch (error) {
      this.#lastError = error;
      if (!this.#waiting.delete(id)) return true;
      // The port's contract: the store can never take this amount.
      if (quietly(() => error instanceof RangeError)) {
        this.#giveUp(settlement, "The store refuses the amount.");
        return true;
      }
      this.#waiting.set(id, settlement);
      return false;
    }
  }

  /** Reports a settlement that is given up, with everything that a host needs to book it by hand. */
  #giveUp({ id, keyId, granted, used, certainty, observer, done }: Settlement, why: string): void {
    quietly(() => observer?.hold?.({ type: "abandoned", granted }));
    const what = `The call ${id} of the key ${keyId} is not settled: ${used} units, ${certainty}. ${why}`;
    const cause = new Error(what, this.#lastError === undefined ? {} : { cause: this.#lastError });
    const error = storeUnavailable(cause, "quota-store");
    const failure = { error, requestId: id, port: error.port, text: describeError(error) };
    tellFailure(this.#services, { ...failure, unsettled: { keyId, used, certainty } });
    done?.();
  }
}

export const tooLate = (ms: number): Error => new Error(`The store took longer than ${ms} ms.`);

/** Returns the call as its store may still know it, without headers: they hold the caller's secret. */
const detailsOf = ({ id, context, clientAddress }: Settlement): CallInfo => ({
  requestId: id,
  context,
  headers: new Headers(),
  clientAddress,
});

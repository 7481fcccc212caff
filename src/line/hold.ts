/** The hold of one call on its key's quota: reserved for the worst case, renewed while the call lives, settled once. */

import type { Counted } from "../metering/meter.ts";
import type { Cancel } from "../ports/clock.ts";
import type { Outcome } from "../ports/quota-store.ts";
import { askStore, tellStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import { report } from "./failure.ts";

const NOTHING: Counted = { units: 0, certainty: "exact" };

/** By what part of a call's cost a note must be wrong before another is worth the store's work. */
const NOTE_SHARE = 1 / 100;
/** After what part of the time between two notes the first one comes: the input is known by then, and often most of the cost. */
const FIRST_NOTE = 1 / 10;

export class Hold {
  /** How many units are held. */
  readonly granted: number;
  /**
   * Counts what is charged: nothing, until a backend is asked. It is an object and not a function. V8 puts a function that is
   * written where it is assigned to a field into its old generation, and there it keeps its call until the whole heap is collected.
   */
  meter: Counted = NOTHING;
  readonly #call: Call;
  readonly #keyId: string;
  /** Cancels the hold's timer: the one that fires once the call has lasted a while, and after that the one of the next renewal. */
  #cancelTimer: Cancel;
  /** Whether that while is over: from then on, notes have timers of their own. */
  #lasts = false;
  /** Whether the backend has yielded an event. */
  #hasNews = false;
  /** Set while a note is due. */
  #cancelNote: Cancel | undefined;
  #renewing = false;
  /** What the store has noted: so much is charged where this process dies. */
  #noted = 0;
  /** Whether the last renewal failed: then notes wait until one has succeeded. */
  #isStoreDown = false;
  #settling: Promise<void> | undefined;
  #isSettled = false;
  /** Until when its lease runs, in milliseconds since the Unix epoch; noted for the observer alone. */
  #leasedUntil = 0;

  /** @param keyId Whose quota is held. */
  constructor(call: Call, keyId: string, granted: number) {
    this.#call = call;
    this.#keyId = keyId;
    this.granted = granted;
    const { clock, limits } = call.services;
    if (call.watch) {
      this.#leasedUntil = clock.now() + limits.leaseMs;
      call.watch.hold({ type: "reserved", granted });
    }
    // A short call, as most are, has no other timer than this.
    const firstMs = Math.min(limits.usageNoteMs * FIRST_NOTE, limits.leaseMs / 3);
    this.#cancelTimer = clock.after(firstMs, () => {
      this.#lasts = true;
      this.#renewAfter(limits.leaseMs / 3 - firstMs);
      if (this.#hasNews) this.#note();
    });
  }

  #renewAfter(ms: number): void {
    const { clock, limits } = this.#call.services;
    this.#cancelTimer = clock.after(ms, () => {
      this.#renewAfter(limits.leaseMs / 3);
      void this.#renew(this.#outcome().used);
    });
  }

  /**
   * Has the store note before long what the call has used, if it is not about to: a process that dies costs no more than what was
   * generated since the last note. For each event of the backend.
   */
  noteSoon(): void {
    this.#hasNews = true;
    if (!this.#lasts || this.#cancelNote || this.#settling) return;
    const { clock, limits } = this.#call.services;
    const delay = this.#noted === 0 ? limits.usageNoteMs * FIRST_NOTE : limits.usageNoteMs;
    this.#cancelNote = clock.after(delay, () => {
      this.#cancelNote = undefined;
      this.#note();
    });
  }

  #note(): void {
    if (this.#isStoreDown) return;
    if (this.#renewing) return this.noteSoon();
    const { used } = this.#outcome();
    if (Math.abs(used - this.#noted) > used * NOTE_SHARE) void this.#renew(used);
  }

  /** Renews the lease, and notes the units that the call has used so far. */
  async #renew(used: number): Promise<void> {
    // A renewal that a slow store is still busy with must not be overtaken by the next.
    if (this.#renewing) return;
    const { quotas, limits, clock } = this.#call.services;
    const leasedUntil = clock.now() + limits.leaseMs;
    this.#renewing = true;
    const renewal = { leaseMs: limits.leaseMs, used };
    try {
      await askStore(this.#call, "quota-store", "renew", () =>
        quotas.renew(this.#call.id, renewal, this.#call.details),
      );
      this.#leasedUntil = leasedUntil;
      this.#noted = used;
      this.#isStoreDown = false;
    } catch (error) {
      this.#isStoreDown = true;
      // One that a call's end has overtaken is needed no more.
      if (!this.#settling) report(this.#call, error, "quota-store");
    } finally {
      this.#renewing = false;
    }
  }

  /** The charge by now. Where a price of the host's fails, all that is held: an answer that was given is never free. */
  #outcome(): Outcome {
    try {
      const { units, certainty } = this.meter;
      return { used: units, certainty };
    } catch (error) {
      report(this.#call, error);
      return { used: this.granted, certainty: "estimated" };
    }
  }

  /**
   * Charges what was used, once. Resolves when the store has done so, has failed, or has taken too long: then the settlement is
   * retried beside the call.
   */
  settle(): Promise<void> {
    // Set before the store is asked: what the store does may cut the call, whose end settles as well.
    if (this.#settling) return this.#settling;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#settling = promise;
    const outcome = (this.#call.charged = this.#outcome());
    this.#settle(outcome).then(() => {
      this.#isSettled = true;
      resolve();
    }, reject);
    return promise;
  }

  /** Settles at the end of the call, where that was not done before. */
  release(): Promise<void> | undefined {
    return this.#isSettled ? undefined : this.settle();
  }

  async #settle(outcome: Outcome): Promise<void> {
    this.#cancelTimer();
    this.#cancelNote?.();
    const { watch, services, id, details } = this.#call;
    const { quotas, clock, settlements } = services;
    const expired = watch !== undefined && clock.now() >= this.#leasedUntil;
    if (await tellStore(this.#call, "quota-store", () => quotas.settle(id, outcome, details))) {
      watch?.hold({ type: "settled", granted: this.granted, expired, ...outcome });
      if (settlements.size > 0) settlements.wake();
    } else this.#handOver(outcome);
  }

  /** Leaves the settlement to the gateway, which outlives the call. */
  #handOver(outcome: Outcome): void {
    const { id, context, mounted, watch, services, hasWaitUntil } = this.#call;
    const settlement = {
      ...outcome,
      id,
      keyId: this.#keyId,
      granted: this.granted,
      leasedUntil: this.#leasedUntil,
      context,
      clientAddress: mounted.clientAddress,
      observer: watch?.observer,
      done: undefined,
    };
    if (!hasWaitUntil) return services.settlements.add(settlement);
    this.#call.waitUntil(new Promise<void>((done) => services.settlements.add({ ...settlement, done })));
  }
}

/** Reserves quota before anything is spent, and keeps the hold of a call until the call is settled. */

import { GatewayError, type GatewayErrorCode, type RefusedBy, toGatewayError } from "../errors.ts";
import type { Amounts, Counted, Metered } from "../kinds/meter.ts";
import { moneyOf } from "../model/money.ts";
import type { Certainty } from "../model/usage.ts";
import type { Cancel } from "../ports/clock.ts";
import { type Outcome, type ApiKey, furtherHoldId, type Refusal, type TightestBudget } from "../ports/quota-store.ts";
import { askStore, tellStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import { type CallWatch, report } from "./reports.ts";

const NOTHING: Counted = { units: 0, certainty: "exact" };

/** The least error of a note, as a part of the call's cost, that is worth another write to the store. */
const NOTE_SHARE = 1 / 100;
/** The wait for the first note, as a part of the time between two notes: the input, often most of the cost, is known by then. */
const FIRST_NOTE = 1 / 10;

export class Hold {
  /** The units that are held. */
  granted: number;
  /**
   * Counts the charge: nothing, until a backend is asked. An object, not a function: V8 puts a function that is written at a field into
   * its old generation, where the function keeps its call in memory until the whole heap is collected.
   */
  meter: Counted & Partial<Metered> = NOTHING;
  readonly #call: Call;
  readonly #keyId: string;
  /** Cancels the hold's timer: first the timer of the first note, later the timer of the next renewal. */
  #cancelTimer: Cancel;
  /** True after the first note: later notes have their own timers. */
  #lasts = false;
  /** True once the backend has yielded an event. */
  #hasNews = false;
  /** Set while a note is due. */
  #cancelNote: Cancel | undefined;
  #renewing = false;
  /** The units that the store has noted. A process that dies is charged so many. */
  #noted = 0;
  /** The name of the hold in the store. */
  #id: string;
  /** The number of holds that the call has asked for. */
  #asked = 1;
  /** False while the call has no hold in the store: after the end of one hold, and before the next. */
  #isHeld = true;
  /** True while the next hold takes the place of this one. */
  #isMoving = false;
  /** The charge that the store has been told to settle while the call goes on: the store keeps the first that it is told. */
  #told: Outcome | undefined = undefined;
  /** The units that earlier holds of this call were charged. */
  #charged = 0;
  /** The basis of the last of these charges. */
  #certainty: Certainty = "exact";
  /** True after a failed renewal: notes wait until a renewal has succeeded. */
  #isStoreDown = false;
  #settling: Promise<void> | undefined;
  #isSettled = false;
  /** The end of the lease, in milliseconds since the Unix epoch; for the observer alone. */
  #leasedUntil = 0;

  /** @param keyId The key whose quota is held. */
  constructor(call: Call, keyId: string, granted: number, id: string = call.id) {
    this.#call = call;
    this.#keyId = keyId;
    this.#id = id;
    this.granted = granted;
    const { clock, limits, watch } = call;
    if (watch) this.#tellReserved(watch);
    // Start with a single timer, because most calls end before it fires.
    const firstMs = Math.min(limits.usageNoteMs * FIRST_NOTE, limits.leaseMs / 3);
    this.#cancelTimer = clock.after(firstMs, () => {
      this.#lasts = true;
      this.#renewAfter(limits.leaseMs / 3 - firstMs);
      if (this.#hasNews) this.#note();
    });
  }

  #tellReserved(watch: CallWatch): void {
    const { clock, limits } = this.#call;
    this.#leasedUntil = clock.now() + limits.leaseMs;
    watch.tellHold({ type: "reserved", granted: this.granted });
  }

  /**
   * Settles the units so far, and makes another hold for the rest of the call. Rejects when the store fails or refuses, and when the call has
   * ended: the units so far are charged all the same.
   */
  async again(key: ApiKey, amounts: Amounts): Promise<void> {
    const call = this.#call;
    // No timer may renew a hold that is settled.
    this.#isMoving = true;
    try {
      if (this.#isHeld) await this.#close();
      const id = furtherHoldId(call.id, ++this.#asked);
      const granted = await grantedBy(call, key, amounts, id);
      // The end of the call has settled the hold before.
      if (this.#settling) void new Hold(call, key.id, granted, id).free();
      call.assertLive();
      this.#id = id;
      this.granted = granted;
      this.#noted = 0;
      this.#isHeld = true;
      call.found.holds = this.#asked;
      if (call.watch) this.#tellReserved(call.watch);
      assertGrant(granted, amounts);
    } finally {
      this.#isMoving = false;
    }
  }

  /** Settles the units so far, while the call goes on. */
  async #close(): Promise<void> {
    const call = this.#call;
    const outcome = (this.#told = this.#outcome());
    await askStore(call, "quota-store", "settle", () => call.services.quotas.settle(this.#id, outcome, call.details));
    // The end of the call settles, too.
    call.assertLive();
    call.watch?.tellHold({ type: "settled", granted: this.granted, expired: false, ...outcome });
    this.#isHeld = false;
    this.#told = undefined;
    this.#charged += outcome.used;
    this.#certainty = outcome.certainty;
    this.granted = 0;
  }

  #renewAfter(ms: number): void {
    const { clock, limits } = this.#call;
    this.#cancelTimer = clock.after(ms, () => {
      this.#renewAfter(limits.leaseMs / 3);
      void this.#renew(this.#outcome().used);
    });
  }

  /**
   * Plans a note of the used units for the store, after an event of the backend. A process that dies then costs no more than the output
   * since the last note.
   */
  noteSoon(): void {
    this.#hasNews = true;
    if (!this.#lasts || this.#cancelNote || this.#settling) return;
    const { clock, limits } = this.#call;
    const delay = this.#noted === 0 ? limits.usageNoteMs * FIRST_NOTE : limits.usageNoteMs;
    this.#cancelNote = clock.after(delay, () => {
      this.#cancelNote = undefined;
      this.#note();
    });
  }

  #note(): void {
    if (this.#isStoreDown) return;
    if (this.#renewing || this.#isMoving) return this.noteSoon();
    const { used } = this.#outcome();
    if (Math.abs(used - this.#noted) > used * NOTE_SHARE) void this.#renew(used);
  }

  /** Renews the lease, and notes the units used so far. */
  async #renew(used: number): Promise<void> {
    // Do not overtake a renewal that a slow store is still busy with.
    if (this.#renewing || this.#isMoving || !this.#isHeld) return;
    const id = this.#id;
    const { clock, limits } = this.#call;
    const { quotas } = this.#call.services;
    const leasedUntil = clock.now() + limits.leaseMs;
    this.#renewing = true;
    const renewal = { leaseMs: limits.leaseMs, used };
    try {
      await askStore(this.#call, "quota-store", "renew", () => quotas.renew(id, renewal, this.#call.details));
      this.#isStoreDown = false;
      // The next hold has a lease and notes of its own.
      if (id !== this.#id) return;
      this.#leasedUntil = leasedUntil;
      this.#noted = used;
    } catch (error) {
      this.#isStoreDown = true;
      // After the end of the call, a failed renewal does not matter.
      if (!this.#settling) report(this.#call, error, "quota-store");
    } finally {
      this.#renewing = false;
    }
  }

  /**
   * Returns the charge so far. When the host's price fails, charges everything held, or one unit for each token when nothing is held: a
   * given answer is never free.
   */
  #outcome(): Outcome {
    if (!this.#isHeld) return { used: 0, certainty: this.#certainty };
    if (this.#told) return this.#told;
    try {
      const { units, certainty } = this.meter;
      return { used: Math.max(0, units - this.#charged), certainty };
    } catch (error) {
      report(this.#call, error);
      const used = this.granted > 0 ? this.granted : Math.max(1, Math.ceil(this.meter.report?.tokens ?? 0));
      return { used, certainty: "estimated" };
    }
  }

  /**
   * Charges the used units, once. Resolves when the store has settled, has failed, or has taken too long. After a failure, the
   * settlement is retried beside the call.
   */
  settle(): Promise<void> {
    // Set this before the store is asked: the store may cut the call, and the end of the call settles too.
    if (this.#settling) return this.#settling;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#settling = promise;
    const outcome = this.#outcome();
    this.#call.found.charged = { ...outcome, used: this.#charged + outcome.used };
    this.#settle(outcome).then(resolve, reject);
    return promise;
  }

  /** Gives all units back. The call is charged by another hold, or not at all. */
  free(): Promise<void> {
    return this.#settle({ used: 0, certainty: "exact" });
  }

  /** Settles at the end of the call, unless the call is settled. */
  release(): Promise<void> | undefined {
    if (this.#isSettled) return undefined;
    const { counting } = this.#call.found;
    return counting ? counting.then(() => this.settle()) : this.settle();
  }

  async #settle(outcome: Outcome): Promise<void> {
    this.#cancelTimer();
    this.#cancelNote?.();
    if (!this.#isHeld) {
      this.#isSettled = true;
      return;
    }
    const { watch, clock, services, details } = this.#call;
    const { quotas, settlements } = services;
    const expired = watch !== undefined && clock.now() >= this.#leasedUntil;
    const retried = (cause: unknown): Error =>
      new Error(`The charge of ${outcome.used} units is tried again, or told as given up.`, { cause });
    if (await tellStore(this.#call, "quota-store", () => quotas.settle(this.#id, outcome, details), retried)) {
      watch?.tellHold({ type: "settled", granted: this.granted, expired, ...outcome });
      settlements.wake();
    } else this.#handOver(outcome);
    this.#isSettled = true;
  }

  /** Hands the settlement to the gateway, which outlives the call. */
  #handOver(outcome: Outcome): void {
    const { context, details, watch, services, hasWaitUntil } = this.#call;
    const settlement = {
      ...outcome,
      id: this.#id,
      keyId: this.#keyId,
      granted: this.granted,
      leasedUntil: this.#leasedUntil,
      context,
      clientAddress: details.clientAddress,
      observer: watch?.observer,
      done: undefined,
    };
    if (!hasWaitUntil) return services.settlements.add(settlement);
    this.#call.waitUntil(new Promise<void>((done) => services.settlements.add({ ...settlement, done })));
  }
}

/** The pause before a retry when other calls hold the rest of the quota, in milliseconds. */
const HELD_RETRY_MS = 1_000;

/**
 * Holds as much of `atMost` as the key has, and at least `atLeast`. The end of the call settles the hold. Throws `quota_exhausted`,
 * `quota_insufficient` or `quota_held`, depending on the balance that the store saw.
 */
export async function reserve(call: Call, key: ApiKey, amounts: Amounts): Promise<Hold> {
  const hold = new Hold(call, key.id, await grantedBy(call, key, amounts, call.id));
  call.defer(() => hold.release());
  call.assertLive();
  assertGrant(hold.granted, amounts);
  return hold;
}

/** Throws `store_unavailable` for a grant outside of the requested amounts: the call could cost more than its key has. */
function assertGrant(granted: number, { atLeast, atMost }: Amounts): void {
  if (Number.isSafeInteger(granted) && granted >= atLeast && granted <= atMost) return;
  throw toGatewayError(
    new RangeError(`The store granted ${granted} units, asked for ${atLeast} to ${atMost}.`),
    "quota-store",
  );
}

/** Asks the store for a hold. Resolves with the granted units. */
async function grantedBy(call: Call, key: ApiKey, { atLeast, atMost }: Amounts, id: string): Promise<number> {
  const { quotas, limits } = call.services;
  const request = { id, keyId: key.id, atLeast, atMost, leaseMs: limits.leaseMs };
  // Void a hold that the store grants after the call has ended.
  const reservation = await askStore(
    call,
    "quota-store",
    "reserve",
    () => quotas.reserve(request, call.details),
    (late) => (late.refused ? undefined : new Hold(call, key.id, late.granted, id).free()),
  );
  if (!reservation?.refused) return reservation?.granted;
  call.services.exhausted.noteBalance(key.id, reservation.available);
  throw refusalOf(call, key, reservation, { needed: atLeast, wanted: atMost });
}

/**
 * Returns the error for a key that lacks units. Units that live holds may give back do not count as used up. Other keys of a
 * budget may hold its units. A budget with a period says when it begins anew.
 *
 * @param needs What the call needs: at least, and with its whole output limit. Empty for a call whose cost is unknown, because its body is
 * not parsed.
 */
export function refusalOf(
  { clock, services }: Pick<Call, "clock" | "services">,
  key: ApiKey,
  { available, held, budget, endsAt }: Pick<Refusal, "available" | "held" | keyof TightestBudget>,
  { needed, wanted }: Pick<RefusedBy, "needed" | "wanted"> = {},
): GatewayError {
  const isBudget = budget !== undefined;
  const refusedBy: RefusedBy = { kind: isBudget ? "budget" : "quota", needed, wanted, available, held, budget, endsAt };
  // A parent of the key's own budget is not the caller's business.
  const named = isBudget ? (budget === key.budget ? `the budget "${budget}" of ` : "a budget of ") : "";
  const owner = `${named}this API key`;
  const left = available + held;
  const anew = endsAt === undefined ? undefined : Math.max(0, endsAt - clock.now());
  const [code, words, retryAfterMs]: [GatewayErrorCode, string, number | undefined] =
    left >= (needed ?? 1)
      ? ["quota_held", `The quota that is left of ${owner} is held by other calls.`, HELD_RETRY_MS]
      : left > 0
        ? ["quota_insufficient", `The remaining quota of ${owner} is too small for this request.`, anew]
        : ["quota_exhausted", `The quota of ${owner} is used up.`, anew];
  // Beside a quota that is used up, the least cost of this call would look like an amount that helps.
  const figures = code === "quota_exhausted" ? { ...refusedBy, needed: undefined } : refusedBy;
  return new GatewayError(code, words + limitText(figures, services.currency), { refusedBy, retryAfterMs });
}

/**
 * Says in words what a limit allows, what the call needs and what is left, without the names of groups and budgets.
 *
 * @param currency The currency, if a unit is a millionth of it.
 */
export function limitText(
  { kind, limit, windowMs, needed, available, model, endsAt }: RefusedBy,
  currency?: string,
): string {
  if (limit !== undefined) {
    const window = windowMs === undefined ? "" : ` in ${windowMs / 1_000} s`;
    const room = kind === "tokens" ? `; it needs ${needed}, and ${available} are left` : "";
    return ` The limit is ${limit} ${kind}${window}${model === undefined ? "" : " for this model"}${room}.`;
  }
  if (kind !== "quota" && kind !== "budget") return "";
  const anew = endsAt === undefined ? "" : ` The budget begins anew at ${new Date(endsAt).toJSON()}.`;
  if (needed === undefined || available === undefined) return anew;
  return currency === undefined
    ? ` Units needed: ${needed}, available: ${available}.${anew}`
    : ` Needed: ${moneyOf(needed, currency)}, available: ${moneyOf(available, currency)}.${anew}`;
}

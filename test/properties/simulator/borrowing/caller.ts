/** A caller of a store in a process: it reserves, renews and settles as the pipeline does, also when the store is away. */

import type { Outcome, QuotaStore } from "../../../../src/index.ts";
import type { Process } from "../process.ts";
import type { BorrowingCall, BorrowingLaws } from "./laws.ts";

/** The longest wait for a store, and the pause before a settlement is tried again, in milliseconds. */
export const PATIENCE_MS = 2_000;

const LATE = Symbol("late");

/** Resolves with the answer of a store. Resolves with undefined when the store fails or is late. */
async function answerOf<Answer>(process: Process, asked: Promise<Answer>): Promise<{ answer: Answer } | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<typeof LATE>();
  const cancel = process.clock.after(PATIENCE_MS, () => resolve(LATE));
  const answer = await Promise.race([asked.catch(() => LATE), late]);
  cancel();
  return answer === LATE ? undefined : { answer: answer as Answer };
}

const pause = (process: Process, ms: number): Promise<void> =>
  new Promise((resolve) => void process.clock.after(ms, resolve));

export class Caller {
  readonly process: Process;
  readonly store: QuotaStore;
  readonly #laws: BorrowingLaws;
  readonly #now: () => number;
  /** The calls that have not ended. */
  calls = 0;

  /** @param now Returns the true time. */
  constructor(process: Process, store: QuotaStore, laws: BorrowingLaws, now: () => number) {
    this.process = process;
    this.store = store;
    this.#laws = laws;
    this.#now = now;
  }

  /** Plays a call to its end. Returns false when the call was not admitted. */
  async play(call: BorrowingCall): Promise<boolean> {
    const { process, store } = this;
    const { key, plan, id } = call;
    this.calls++;
    try {
      if (plan.asksBalance) await this.#balance(call);
      this.#laws.began(call, process);
      const { atLeast, atMost, leaseMs, holdMs } = plan;
      const reserved = await answerOf(process, store.reserve({ id, keyId: key.id, atLeast, atMost, leaseMs }));
      if (!process.alive) return false;
      if (!reserved) {
        this.#laws.failed(call);
        await this.#settle(call, { used: 0, certainty: "exact" });
        return false;
      }
      if (reserved.answer.refused) {
        this.#laws.refused(call);
        return false;
      }
      this.#laws.granted(call, reserved.answer.granted);
      const used = Math.floor(plan.share * atMost);
      await this.#hold(call, holdMs, used);
      const estimated = Math.floor(used * plan.estimatedShare);
      const outcome: Outcome =
        plan.estimatedShare === 0 ? { used, certainty: "exact" } : { used, certainty: "estimated", estimated };
      this.#laws.settling(call, outcome);
      await this.#settle(call, outcome);
      this.#laws.settled(call);
      if (plan.settlesTwice) await this.#settle(call, outcome);
      return true;
    } finally {
      this.calls--;
    }
  }

  /** Waits for the backend, and notes what is used so far. */
  async #hold(call: BorrowingCall, holdMs: number, used: number): Promise<void> {
    const { process, store } = this;
    const { leaseMs, renews } = call.plan;
    const stepMs = leaseMs / 3;
    const end = process.clock.now() + holdMs;
    while (end - process.clock.now() > stepMs) {
      await pause(process, stepMs);
      if (!renews) continue;
      const soFar = Math.floor(used * Math.max(0, 1 - (end - process.clock.now()) / holdMs));
      const noted = Math.max(call.sent, Math.min(used, soFar));
      const sentAt = this.#now();
      call.sent = noted;
      const renewed = await answerOf(process, store.renew(call.id, { leaseMs, used: noted }));
      if (renewed) this.#laws.renewed(call, sentAt, noted);
    }
    await pause(process, Math.max(0, end - process.clock.now()));
  }

  async #settle(call: BorrowingCall, outcome: Outcome): Promise<void> {
    while (!(await answerOf(this.process, this.store.settle(call.id, outcome)))) await pause(this.process, PATIENCE_MS);
  }

  async #balance({ key }: BorrowingCall): Promise<void> {
    const taken = this.#laws.taken(key);
    const told = await answerOf(this.process, this.store.balance(key.id));
    if (told?.answer) this.#laws.balanced(key, told.answer, taken);
  }
}

/** The laws of lives: the charge of each call, however it ends. */

import { isDeepStrictEqual } from "node:util";
import type { Outcome, Renewal } from "../../../src/index.ts";
import type { Breaches } from "./laws.ts";
import type { LedgerLaws } from "./ledger-laws.ts";
import type { Life } from "./life.ts";
import { LIMITS } from "./plan.ts";
import type { Timeline } from "./timeline.ts";

export class LifeLaws {
  readonly #ledgers: LedgerLaws;
  readonly #breaches: Breaches;
  readonly #timeline: Timeline;

  constructor(ledgers: LedgerLaws, breaches: Breaches, timeline: Timeline) {
    this.#ledgers = ledgers;
    this.#breaches = breaches;
    this.#timeline = timeline;
  }

  /** Checks a call of a backend. */
  asked(life: Life): void {
    this.#breaches.check(this.#ledgers.holdOf(life) !== undefined, "no backend is asked without a hold", () => life.id);
  }

  /** Checks a settlement of the pipeline. */
  told(life: Life, outcome: Outcome): void {
    const { least, most } = life.bounds;
    const { used } = outcome;
    this.#breaches.check(
      used >= least && used <= most && (life.told === undefined || isDeepStrictEqual(outcome, life.told)),
      "what is charged is what was used",
      () => `${life.id}: ${JSON.stringify(outcome)}, between ${least} and ${most}, once ${JSON.stringify(life.told)}`,
    );
    life.told = outcome;
  }

  /** Checks a note of usage: the store charges it when the process crashes. */
  noted(life: Life, { used }: Renewal): void {
    const { least, most } = life.bounds;
    // A note for a call without a backend breaks another law.
    this.#breaches.check(
      !life.asked || (used >= least && used <= most),
      "what is noted is what was used",
      () => `${life.id}: ${used}, between ${least} and ${most}`,
    );
  }

  /** Checks a complete answer: its charge has reached the store, or the store was away. */
  delivered(life: Life): void {
    if (!life.asked) return;
    const { settleSentAt = Number.POSITIVE_INFINITY, told } = life;
    const isLate = this.#timeline.now - settleSentAt >= LIMITS.storeTimeoutMs;
    this.#breaches.check(
      life.settleWorked || life.settleFailed || isLate,
      "an answer that was delivered is charged",
      () => `${life.id}: nothing has reached the store`,
    );
    this.#breaches.check(
      told?.used === life.whole,
      "what is charged is what was used",
      () => `${life.id}: ${told?.used} for ${life.whole}`,
    );
  }

  /** Checks a call after its end, or after the end of its process. */
  ended(life: Life, processLives: boolean): void {
    const { id, records, told } = life;
    const hold = this.#ledgers.holdOf(life);
    const used = hold?.used ?? 0;
    this.#breaches.check(life.asked || used === 0, "a refused call costs nothing", () => `${id} is charged ${used}`);
    this.#breaches.check(
      !life.settleWorked || hold === undefined || (hold.state === "settled" && used === told?.used),
      "an answer that was delivered is charged",
      () => `${id}: ${JSON.stringify(hold)} after ${JSON.stringify(told)}`,
    );
    // A hold that was granted after its call had ended is released beside the calls. Without its release, its lease ends it at no charge.
    const isRelease = told?.used === 0 && !life.asked;
    this.#breaches.check(
      !processLives || told === undefined || isRelease || life.settleWorked || life.unsettled,
      "a charge reaches the store, or its host is told",
      () => `${id}: nobody knows of ${JSON.stringify(told)}`,
    );
    this.#breaches.check(
      records.length === 1 || (records.length === 0 && !processLives),
      "each call ends, and is recorded once",
      () => `${id} has ${records.length} records`,
    );
    const [record] = records;
    this.#breaches.check(
      record === undefined || (record.units === (told?.used ?? 0) && record.context === life),
      "each call ends, and is recorded once",
      () => `${id}: ${record?.units} units in the record of ${JSON.stringify(told)}`,
    );
  }
}

/** The laws of the ledgers: they compare a store with a separate account of each hold. */

import { isDeepStrictEqual } from "node:util";
import type { Balance, HoldRequest, Reservation } from "../../../src/index.ts";
import { type ExpectedHold, ExpectedLedger } from "../../testing/laws/expected-ledger.ts";
import type { Figures } from "./figures.ts";
import type { Breaches } from "./laws.ts";
import type { Life } from "./life.ts";
import type { Delivery } from "./messages.ts";
import { DAY_MS, type Plan, REDIS_SCALE } from "./plan.ts";
import type { Audit, BudgetAudit, PeriodAudit } from "./store.ts";

export class LedgerLaws {
  readonly #ledgers: ReadonlyMap<string, ExpectedLedger>;
  readonly #overdrafts = new Map<string, number>();
  /** The ids of keys whose holds were swept with those of another key: their overdraft may have grown. */
  readonly #sweptElsewhere = new Set<string>();
  /** The budgets of each key: its own, the parent, and so on. */
  readonly #chains: ReadonlyMap<string, readonly string[]>;
  /** The granted holds of keys with budgets, with the day of the reservation. */
  readonly #shares: { readonly keyId: string; readonly hold: ExpectedHold; readonly day: number }[] = [];
  readonly #plan: Pick<Plan, "keys" | "budgets" | "store">;
  readonly #breaches: Breaches;
  readonly #figures: Figures;

  constructor(
    { keys, budgets, store }: Pick<Plan, "keys" | "budgets" | "store">,
    breaches: Breaches,
    figures: Figures,
  ) {
    const chainOf = (id: string | undefined): readonly string[] =>
      id === undefined ? [] : [id, ...chainOf(budgets.find((budget) => budget.id === id)?.parent)];
    this.#chains = new Map(keys.map(({ id, budget }) => [id, chainOf(budget)]));
    this.#plan = { keys, budgets, store };
    this.#ledgers = new Map(keys.map(({ id, granted }) => [id, new ExpectedLedger(granted)]));
    this.#breaches = breaches;
    this.#figures = figures;
  }

  /** The expected hold of a life. Undefined when no hold was granted. */
  holdOf({ id, key }: Life): ExpectedHold | undefined {
    return this.#ledger(key.id).hold(id);
  }

  /** Applies a message that a store has carried out, or a sweep, at `now` by the clock of the store. */
  worked(delivery: Delivery, audit: Audit, now: number, budgets: readonly BudgetAudit[]): void {
    const ledger = this.#ledger(audit.keyId);
    const swept = ledger.expire(now);
    this.#figures["holds swept"] += swept;
    // The memory store charges the expired holds of all keys. A durable store charges those of the key that it works on.
    if (this.#plan.store === "memory")
      for (const [id, other] of this.#ledgers) {
        const sweptThere = other.expire(now);
        this.#figures["holds swept"] += sweptThere;
        if (sweptThere > 0) this.#sweptElsewhere.add(id);
      }
    this.#apply(delivery, ledger, { audit, budgets }, now);
    const isSwept = this.#sweptElsewhere.delete(audit.keyId) || swept > 0;
    this.#addUp(ledger, audit, !isSwept && delivery.message.verb === "settle");
    this.#budgetsAddUp(budgets);
  }

  #budgetsAddUp(budgets: readonly BudgetAudit[]): void {
    for (const { id, current, closed } of budgets) {
      const hasPeriod = this.#plan.budgets.find((budget) => budget.id === id)?.period !== undefined;
      const shares = this.#shares.filter(({ keyId }) => this.#chains.get(keyId)?.includes(id));
      const expect = (what: string, told: Units, day: number | undefined): void => {
        const expected = unitsOf(
          shares.filter((share) => day === undefined || share.day === day).map(({ hold }) => hold),
        );
        this.#breaches.check(
          isDeepStrictEqual(told, expected),
          "a budget has what its keys have used and hold, once each",
          () => `${id}, ${what}: ${JSON.stringify(told)} in place of ${JSON.stringify(expected)}`,
        );
      };
      const periods = [current, ...(closed ?? [])];
      for (const { day, granted, charged, held, overdraft } of periods) {
        this.#breaches.check(
          granted - charged - held >= 0 && Math.min(charged, held) >= 0,
          "what remains never falls below zero",
          () => `the budget ${id}: ${granted} granted, ${charged} charged, ${held} held`,
        );
        expect(`day ${day}`, { held, consumed: charged + overdraft }, hasPeriod ? day : undefined);
      }
      if (!closed) continue;
      const sum = (of: (period: PeriodAudit) => number): number => periods.reduce((total, each) => total + of(each), 0);
      const consumed = sum(({ charged, overdraft }) => charged + overdraft);
      expect("all days", { held: sum(({ held }) => held), consumed }, undefined);
    }
  }

  #apply(
    delivery: Delivery,
    ledger: ExpectedLedger,
    { audit, budgets }: { readonly audit: Audit; readonly budgets: readonly BudgetAudit[] },
    now: number,
  ): void {
    const { message } = delivery;
    if (message.life?.key.id !== audit.keyId) return;
    switch (message.verb) {
      case "reserve": {
        const { hold } = message;
        const granted = Math.max(0, audit.held - ledger.held);
        const available = remaining(ledger, audit) + granted;
        const chain = this.#chains.get(audit.keyId) ?? [];
        delivery.expected =
          chain.length === 0
            ? ledger.reserved(hold, available, now + hold.leaseMs)
            : reservedIn(chain, budgets, ledger, { ...hold, granted }, now);
        const known = ledger.hold(hold.id);
        if (known && chain.length > 0 && !this.#shares.some((share) => share.hold === known))
          this.#shares.push({ keyId: audit.keyId, hold: known, day: this.#dayAt(now) });
        this.#figures[delivery.expected.refused ? "holds refused" : "holds granted"]++;
        return;
      }
      case "renew":
        return ledger.renewed(message.life.id, message.renewal, now + message.renewal.leaseMs);
      case "settle": {
        const settled = ledger.settled(message.life.id, message.outcome);
        if (settled === "settlement") this.#figures["holds settled"]++;
        if (settled === "correction") this.#figures["settlements after the sweep"]++;
        message.life.settleWorked = true;
        return;
      }
      case "find":
      case "balance":
      case "recall":
      case "recalled":
      case "sweep":
    }
  }

  /** Checks the answer of a store. */
  answered({ message, expected }: Delivery, told: unknown): void {
    if (message.verb === "balance") this.#balanced(this.#ledger(message.keyId), told as Balance);
    if (message.verb === "reserve")
      this.#breaches.check(isDeepStrictEqual(told, expected), "exactly what fits is held", () => {
        const { id, atLeast, atMost } = message.hold;
        return `${id}, ${atLeast} to ${atMost}: ${JSON.stringify(told)} in place of ${JSON.stringify(expected)}`;
      });
  }

  /** Checks the ledgers after a sweep of all holds. */
  atRest(audits: readonly Audit[], now: number, budgets: readonly BudgetAudit[]): void {
    for (const audit of audits) {
      const ledger = this.#ledger(audit.keyId);
      this.#figures["holds swept"] += ledger.expire(now);
      this.#addUp(ledger, audit, false);
      this.#breaches.check(
        audit.held === 0 && ledger.liveHolds === 0,
        "no hold outlives its lease once it is swept",
        () => `${audit.keyId} holds ${audit.held}`,
      );
    }
    this.#budgetsAddUp(budgets);
  }

  #balanced({ granted }: ExpectedLedger, balance: Balance): void {
    const { used, available, held } = balance;
    this.#breaches.check(
      held <= used && available >= 0 && (granted === undefined || used + available === granted),
      "what was granted is what remains, is held and was used",
      () => `${JSON.stringify(balance)} of ${granted} granted`,
    );
  }

  #addUp(ledger: ExpectedLedger, audit: Audit, isSettlement: boolean): void {
    const { keyId, granted, charged, held, liveHolds, overdraft, estimated } = audit;
    const of = (what: string) => () => `${keyId}: ${what} of ${JSON.stringify(audit)}`;
    this.#breaches.check(
      granted === (ledger.granted ?? granted),
      "what was granted is what remains, is held and was used",
      of(`${ledger.granted} granted`),
    );
    this.#breaches.check(
      ledger.granted === undefined || (granted - charged - held >= 0 && charged >= 0),
      "what remains never falls below zero",
      of("what remains"),
    );
    this.#breaches.check(
      held === ledger.held && liveHolds === ledger.liveHolds,
      "no hold outlives its lease once it is swept",
      of(`${ledger.held} held by ${ledger.liveHolds}`),
    );
    this.#breaches.check(
      charged + overdraft === ledger.consumed,
      "each hold is charged once, and what was not covered is overdraft",
      of(`${ledger.consumed} used`),
    );
    this.#breaches.check(
      estimated >= 0 &&
        estimated <= charged &&
        estimated <= ledger.estimated &&
        estimated + overdraft >= ledger.estimated,
      "what rests on estimates is counted apart",
      of(`${ledger.estimated} by estimate`),
    );
    const before = this.#overdrafts.get(keyId) ?? 0;
    if (overdraft > before) this.#figures["charges beyond the balance"]++;
    this.#breaches.check(
      (ledger.granted !== undefined || overdraft === 0) &&
        (overdraft <= before || !isSettlement || remaining(ledger, audit) === 0),
      "there is no overdraft while something remains",
      of("overdraft"),
    );
    this.#overdrafts.set(keyId, overdraft);
  }

  /** The day of a moment of the world, by the clock of the store. */
  #dayAt(now: number): number {
    return Math.floor((now * (this.#plan.store === "redis" ? REDIS_SCALE : 1)) / DAY_MS);
  }

  #ledger(keyId: string): ExpectedLedger {
    const ledger = this.#ledgers.get(keyId);
    if (!ledger) throw new Error(`There is no key ${keyId}.`);
    return ledger;
  }
}

interface Units {
  readonly held: number;
  readonly consumed: number;
}

const unitsOf = (holds: readonly ExpectedHold[]): Units => {
  let [held, consumed] = [0, 0];
  for (const { state, granted, used } of holds) {
    if (state === "live") held += granted;
    else consumed += used;
  }
  return { held, consumed };
};

/** Returns the units that a key has left. An unlimited key is not counted. */
const remaining = ({ granted }: ExpectedLedger, audit: Audit): number =>
  granted === undefined ? 0 : Math.max(0, audit.granted - audit.charged - audit.held);

/** Returns the reservation that a key's budgets demand. The books are those after the reservation, which has held `granted` units. */
function reservedIn(
  chain: readonly string[],
  budgets: readonly BudgetAudit[],
  ledger: ExpectedLedger,
  { granted, ...hold }: HoldRequest & { readonly granted: number },
  now: number,
): Reservation {
  const [tightest] = chain
    .map((id) => {
      const { current } = budgets.find((budget) => budget.id === id) ?? {};
      if (!current) throw new Error(`There is no budget ${id}.`);
      const held = current.held - granted;
      const told = { available: Math.max(0, current.granted - current.charged - held), held, budget: id };
      return current.day === 0 ? told : { ...told, endsAt: (current.day + 1) * DAY_MS };
    })
    .toSorted((one, other) => one.available - other.available);
  const { available, held, ...budget } = tightest ?? { available: 0, held: 0 };
  const expected = ledger.reserved(
    { ...hold, atMost: Math.min(hold.atMost, available) },
    available,
    now + hold.leaseMs,
  );
  return expected.refused ? { refused: true, available, held, ...budget } : expected;
}

/** The memory store as a server: it survives the gateways. */

import { type LedgerReport, memoryQuotaStore, type MemoryQuotaStore, type QuotaStore } from "../../../src/index.ts";
import type { OpenedQuotaStore } from "../../../src/testing/laws/index.ts";
import { ask, type Delivery } from "./messages.ts";
import { DAY_MS } from "./plan.ts";
import type { Process } from "./process.ts";
import type { Audit, BudgetAudit, SimulatedStore } from "./store.ts";
import type { WorldParts } from "./world-parts.ts";

export class MemoryServer implements SimulatedStore {
  readonly inProcess = false;
  readonly #parts: WorldParts;
  readonly #store: MemoryQuotaStore;
  readonly #faulty: QuotaStore | undefined;
  /** The process whose message the store carries out: faults may read its clock. */
  #asking: Process | undefined;

  constructor(parts: WorldParts) {
    const { plan, mutant, timeline } = parts;
    this.#parts = parts;
    const clock = { now: () => timeline.now, after: never, every: never };
    const budgets = mutant?.budgets?.(plan.budgets) ?? plan.budgets;
    this.#store = memoryQuotaStore(mutant?.keys?.(plan.keys) ?? plan.keys, { clock, budgets });
    this.#faulty = mutant?.verbs?.(this.#opened(), () => this.#asking?.skewMs ?? 0);
  }

  async carryOut(delivery: Delivery, process: Process): Promise<unknown> {
    const { message } = delivery;
    this.#asking = process;
    const answer = await ask(this.#faulty ?? this.#store, message);
    const { life, verb } = message;
    if (life && verb !== "find")
      this.#parts.ledgerLaws.worked(delivery, this.#audit(life.key.id), this.#parts.timeline.now, this.#budgets());
    return answer;
  }

  /** The store in the form that the faults of the contract expect. */
  #opened(): OpenedQuotaStore {
    const store = this.#store;
    return { store, advance() {}, audit: (keyId) => reportOf(store, keyId), removeSecret() {} };
  }

  died(): void {}

  revoke(keyId: string): Promise<void> {
    return this.#store.keys.revoke(keyId);
  }

  async audits(): Promise<readonly Audit[]> {
    return this.#parts.plan.keys.map(({ id }) => this.#audit(id));
  }

  async budgets(): Promise<readonly BudgetAudit[]> {
    return this.#budgets();
  }

  #budgets(): readonly BudgetAudit[] {
    return this.#parts.plan.budgets.map(({ id }) => {
      const report = this.#store.budgetReport(id);
      if (!report) throw new Error(`The store has lost its budget ${id}.`);
      const day = Math.floor((report.startsAt ?? 0) / DAY_MS);
      return { id, current: { ...report, day, charged: report.used - report.held }, closed: undefined };
    });
  }

  async verify(): Promise<undefined> {}

  async close(): Promise<void> {}

  #audit(keyId: string): Audit {
    const { granted, used, held, liveHolds, overdraft, estimated } = reportOf(this.#store, keyId);
    const audit = { keyId, granted: granted ?? used, charged: used - held, held, liveHolds, overdraft, estimated };
    return this.#parts.mutant?.audit?.(audit) ?? audit;
  }
}

function reportOf(store: MemoryQuotaStore, keyId: string): LedgerReport {
  const report = store.report(keyId);
  if (!report) throw new Error(`The store has lost its key ${keyId}.`);
  return report;
}

/** Refuses timers: the memory store sweeps only on request. */
const never = (): never => {
  throw new Error("The memory store has set a timer.");
};

/** The shared store as a borrowing store sees it. Blocks get names that are the same each time. */

import type { HoldRequest, Outcome, QuotaRecalls, QuotaStore, Renewal, Reservation } from "../../../../src/index.ts";
import { Wire } from "../link.ts";
import type { Holder } from "../messages.ts";
import type { Process } from "../process.ts";
import type { SimulatedStore } from "../store.ts";
import type { WorldParts } from "../world-parts.ts";

/** A call, or a block. */
interface BorrowingHolder extends Holder {
  /** True once the shared store was asked to reserve it. */
  isReserved: boolean;
}

/** The owners of all holds of a world, by the ids that borrowing stores use. */
export class Holders {
  readonly #holders = new Map<string, BorrowingHolder>();
  readonly #figures: WorldParts["figures"];

  constructor(figures: WorldParts["figures"]) {
    this.#figures = figures;
  }

  add(id: string, keyId: string): void {
    const isBlock = id.startsWith("block-");
    if (this.#holders.has(id)) return;
    if (isBlock) this.#figures.blocks++;
    const name = isBlock ? `block-${this.#figures.blocks}` : id;
    this.#holders.set(id, {
      id: name,
      key: { id: keyId },
      settleFailed: false,
      settleWorked: false,
      isReserved: false,
    });
  }

  of(id: string): BorrowingHolder {
    const holder = this.#holders.get(id);
    if (!holder) throw new Error(`No hold ${id} was reserved.`);
    return holder;
  }
}

export class BorrowingLink implements QuotaStore, QuotaRecalls {
  readonly #parts: WorldParts;
  readonly #holders: Holders;
  readonly #wire: Wire;

  constructor(parts: WorldParts, holders: Holders, store: SimulatedStore, process: Process) {
    this.#parts = parts;
    this.#holders = holders;
    this.#wire = new Wire(parts, store, process, true);
  }

  find = (apiKey: string): ReturnType<QuotaStore["find"]> => this.#wire.send({ verb: "find", apiKey });

  balance = (keyId: string): ReturnType<QuotaStore["balance"]> => {
    const life = { id: "nobody", key: { id: keyId }, settleFailed: false, settleWorked: false };
    return this.#wire.send({ verb: "balance", life, keyId });
  };

  reserve = (hold: HoldRequest): Promise<Reservation> => {
    this.#holders.add(hold.id, hold.keyId);
    const life = this.#holders.of(hold.id);
    life.isReserved = true;
    return this.#wire.send({ verb: "reserve", life, hold: { ...hold, id: life.id } });
  };

  renew = (id: string, renewal: Renewal): Promise<void> =>
    this.#wire.send({ verb: "renew", life: this.#holders.of(id), renewal });

  settle = (id: string, outcome: Outcome): Promise<void> =>
    this.#wire.send({ verb: "settle", life: this.#holders.of(id), outcome });

  recall = (keyId: string): Promise<void> => {
    this.#parts.figures.recalls++;
    return this.#wire.send({ verb: "recall", keyId });
  };

  recalled = (withinMs: number): Promise<readonly string[]> => this.#wire.send({ verb: "recalled", withinMs });
}

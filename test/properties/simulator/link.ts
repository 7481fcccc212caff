/** The network between a process and its store: it loses, doubles, delays and reorders messages. */

import type { CallInfo, HoldRequest, Outcome, QuotaStore, Renewal, Reservation } from "../../../src/index.ts";
import { lifeOf } from "./life.ts";
import { MadeUpFailure, type Delivery, type Message } from "./messages.ts";
import { LONGEST_DELAY_MS, type Rates } from "./plan.ts";
import type { Process } from "./process.ts";
import type { SimulatedStore } from "./store.ts";
import type { WorldParts } from "./world-parts.ts";

type Call = CallInfo | undefined;

/** The store as the gateway of a process sees it. Each call has the name of its life. */
export class Link implements QuotaStore {
  readonly #parts: WorldParts;
  readonly #wire: Wire;

  constructor(parts: WorldParts, store: SimulatedStore, process: Process) {
    this.#parts = parts;
    this.#wire = new Wire(parts, store, process);
  }

  find = (apiKey: string, call: Call): ReturnType<QuotaStore["find"]> =>
    this.#send({ verb: "find", life: lifeOf(call), apiKey });

  balance = (keyId: string, call: Call): ReturnType<QuotaStore["balance"]> =>
    this.#send({ verb: "balance", life: lifeOf(call), keyId });

  reserve = (hold: HoldRequest, call: Call): Promise<Reservation> => {
    const life = lifeOf(call);
    return this.#send({ verb: "reserve", life, hold: { ...hold, id: life.id } });
  };

  renew = (_id: string, renewal: Renewal, call: Call): Promise<void> => {
    const life = lifeOf(call);
    this.#parts.lifeLaws.noted(life, renewal);
    return this.#send({ verb: "renew", life, renewal });
  };

  settle = (_id: string, outcome: Outcome, call: Call): Promise<void> => {
    const life = lifeOf(call);
    const { lifeLaws, timeline } = this.#parts;
    lifeLaws.told(life, outcome);
    life.settleSentAt ??= timeline.now;
    return this.#send({ verb: "settle", life, outcome });
  };

  /** Sweeps, as work outside of any call. */
  sweep(): Promise<unknown> {
    return this.#send({ verb: "sweep" });
  }

  #send<Answer>(message: Message): Promise<Answer> {
    return this.#wire.send(message);
  }
}

export class Wire {
  readonly #parts: WorldParts;
  readonly #store: SimulatedStore;
  readonly #process: Process;
  readonly #ordersRenewals: boolean;
  /** The number of the last renewal of each hold that was delivered. */
  readonly #renewals = new WeakMap<object, number>();
  #sent = 0;
  #lastDelivered = 0;

  /** @param ordersRenewals True when a renewal that a later one has overtaken is lost, as on a connection that was given up. */
  constructor(parts: WorldParts, store: SimulatedStore, process: Process, ordersRenewals = false) {
    this.#parts = parts;
    this.#store = store;
    this.#process = process;
    this.#ordersRenewals = ordersRenewals;
  }

  send<Answer>(message: Message): Promise<Answer> {
    const { random, figures, trace } = this.#parts;
    const { rates } = this.#parts.plan;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    if (this.#process.effect()) {
      figures.verbs++;
      const copies = random.chance(rates.duplicate) ? 2 : 1;
      figures["messages duplicated"] += copies - 1;
      for (let copy = 0; copy < copies; copy++) {
        const number = ++this.#sent;
        trace(() => `${this.#process.name} sends ${describe(message)}${copy > 0 ? " again" : ""}`);
        if (this.#isCut("out", reject)) continue;
        this.#travel(rates, () => this.#deliver(message, number, { resolve, reject }));
      }
    }
    // The caller knows which answer belongs to which request.
    return promise as Promise<Answer>;
  }

  /** Loses a message while the process is cut off. Some connections tell the process so. */
  #isCut(direction: "out" | "in", reject: (error: Error) => void): boolean {
    const { cut } = this.#process;
    if (!cut?.[direction]) return false;
    this.#parts.figures["messages lost"]++;
    if (cut.isTold) this.#process.later(1, () => reject(new MadeUpFailure("The store is unreachable.")));
    return true;
  }

  /** Delivers a message after a while, or never. */
  #travel(rates: Rates, arrive: () => void): void {
    const { random, figures, timeline } = this.#parts;
    if (random.chance(rates.drop)) return void figures["messages lost"]++;
    const isLate = random.chance(rates.delay);
    if (isLate) figures["messages delayed"]++;
    timeline.after(isLate ? random.int(100, LONGEST_DELAY_MS) : random.int(0, 12), arrive);
  }

  #deliver(message: Message, number: number, { resolve, reject }: Answering): void {
    const { random, figures, trace, ledgerLaws, breaches, plan } = this.#parts;
    const { rates } = plan;
    if (number < this.#lastDelivered) figures["messages overtaken"]++;
    this.#lastDelivered = Math.max(number, this.#lastDelivered);
    if (this.#ordersRenewals && message.verb === "renew") {
      if (number < (this.#renewals.get(message.life) ?? 0)) return void figures["messages lost"]++;
      this.#renewals.set(message.life, number);
    }
    // A store in the process dies with it. A message to another machine stays on its way.
    if (this.#store.inProcess && !this.#process.alive) return;
    const answer = (settle: () => void): void =>
      this.#travel(rates, () => {
        if (this.#isCut("in", reject)) return;
        this.#process.whenAwake(() => {
          if (this.#process.effect()) settle();
        });
      });
    const fail = (): void => {
      figures["failures told by a store"]++;
      answer(() => {
        if (message.verb === "settle") message.life.settleFailed = true;
        reject(new MadeUpFailure("The store is away."));
      });
    };
    if (random.chance(rates.fail)) return fail();
    const delivery: Delivery = { message };
    const working = this.#store.carryOut(delivery, this.#process);
    working.then(
      (told) => {
        trace(() => `the store answers ${describe(message)} with ${JSON.stringify(told)}`);
        ledgerLaws.answered(delivery, told);
        if (random.chance(rates.fail)) return fail();
        answer(() => resolve(told));
      },
      (error: unknown) => {
        if (error instanceof MadeUpFailure) return fail();
        breaches.broken("a store does what the pipeline asks of it", `${describe(message)}: ${String(error)}`);
      },
    );
  }
}

interface Answering {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

function describe(message: Message): string {
  const { verb, life } = message;
  const told = Object.entries(message).find(([name]) => name === "hold" || name === "renewal" || name === "outcome");
  return `${verb}${life ? ` of ${life.id}` : ""}${told ? ` ${JSON.stringify(told[1])}` : ""}`;
}

/** A world: gateways, their store and their clients, from a seed until everything is at rest. */

import { createGateway, type Failure } from "../../../src/index.ts";
import { backendOf } from "./backend.ts";
import { send } from "./client.ts";
import type { Figures } from "./figures.ts";
import type { Violation } from "./laws.ts";
import { Life, lifePlanOf } from "./life.ts";
import { Link } from "./link.ts";
import type { Mutant } from "./mutant.ts";
import { LIMITS, type Plan, planOf, REST_MS, type StoreName } from "./plan.ts";
import { Process } from "./process.ts";
import { MemoryServer } from "./store.memory.ts";
import type { SimulatedStore } from "./store.ts";
import { type WorldParts, worldPartsOf } from "./world-parts.ts";

export interface WorldOptions {
  readonly seed: number;
  /** Replaces the seed's choice. */
  readonly store?: StoreName | undefined;
  readonly plan?: Partial<Plan>;
  readonly mutant?: Mutant | undefined;
  /** Receives each step as a line of text. */
  readonly trace?: (line: string) => void;
  /** The effect at which the first process crashes. */
  readonly crashAtEffect?: number;
}

export interface Ended {
  readonly seed: number;
  readonly figures: Figures;
  readonly violation: Violation | undefined;
}

type OpenStore = (parts: WorldParts) => SimulatedStore | Promise<SimulatedStore>;

/** The stores by name. A durable store loads on first use, because few worlds of a thread need one. */
export const STORES: Readonly<Record<StoreName, OpenStore>> = {
  memory: (parts) => new MemoryServer(parts),
  sqlite: async (parts) => (await import("./store.sql.ts")).openSqlite(parts),
  redis: async (parts) => (await import("./store.redis.ts")).openRedis(parts),
};

/** Runs a world to its end, or to the first violation of a law. */
export async function runWorld({ seed, store, plan, mutant, trace, crashAtEffect }: WorldOptions): Promise<Ended> {
  const planned = { ...planOf(seed, store), ...plan };
  const parts = worldPartsOf(
    seed,
    planned,
    mutant,
    trace && ((line, { steps }) => trace(`${String(steps).padStart(7)}  ${line}`)),
  );
  const world = new World(parts, await STORES[planned.store](parts), crashAtEffect);
  return { seed, figures: parts.figures, violation: await world.run() };
}

class World {
  readonly #parts: WorldParts;
  readonly #store: SimulatedStore;
  readonly #processes: Process[] = [];
  readonly #lives: Life[] = [];
  #crashAtEffect: number | undefined;
  #born = 0;

  constructor(parts: WorldParts, store: SimulatedStore, crashAtEffect: number | undefined) {
    this.#parts = parts;
    this.#store = store;
    this.#crashAtEffect = crashAtEffect;
  }

  async run(): Promise<Violation | undefined> {
    const { plan, timeline, breaches, figures } = this.#parts;
    try {
      for (let index = 0; index < plan.processes; index++) this.#start();
      this.#planLives();
      await this.#until(timeline.now + plan.spanMs + REST_MS);
      this.#checkProcesses();
      await this.#sweep();
      for (const problem of (await this.#store.verify()) ?? []) breaches.broken("the journal adds up", problem);
      this.#count();
    } catch (error) {
      if (error !== breaches.first) throw error;
    } finally {
      await this.#store.close();
    }
    figures.steps = timeline.steps;
    return breaches.first;
  }

  #until(end: number): Promise<void> {
    const { timeline, breaches } = this.#parts;
    return timeline.runUntil(end, () => {
      if (breaches.first) throw breaches.first;
    });
  }

  #planLives(): void {
    const { plan, timeline, random } = this.#parts;
    for (let index = 0; index < plan.lives; index++) {
      const life = new Life(`life-${index + 1}`, random.pick(plan.keys), lifePlanOf(random));
      this.#lives.push(life);
      timeline.after(random.int(0, plan.spanMs), () => this.#begin(life));
    }
    if (plan.store === "memory") return;
    for (let sweeps = random.int(0, 6); sweeps > 0; sweeps--)
      timeline.after(random.int(0, plan.spanMs + LIMITS.leaseMs), () => {
        const process = this.#processes.find(({ alive }) => alive);
        if (process)
          this.#linkOf(process)
            .sweep()
            .catch(() => {});
      });
  }

  #linkOf(process: Process): Link {
    return new Link(this.#parts, this.#store, process);
  }

  /** Sends a life to a process, or waits until there is one. */
  #begin(life: Life): void {
    const { random, timeline } = this.#parts;
    const [first, ...others] = this.#processes.filter(
      ({ alive, closing }) => alive && (!closing || random.chance(0.1)),
    );
    if (first) send(this.#parts, life, random.pick([first, ...others]));
    else timeline.after(500, () => this.#begin(life));
  }

  /** Starts a process. Another replaces it after a crash or a close. */
  #start(): void {
    const { random, plan, trace, figures, timeline } = this.#parts;
    const name = `process-${++this.#born}`;
    const atEffect = this.#crashAtEffect ?? (random.chance(plan.crash) ? random.int(1, 800) : undefined);
    const after = random.chance(0.5);
    this.#crashAtEffect = undefined;
    const process: Process = new Process(name, timeline, {
      skewMs: random.int(-20_000, 20_000),
      crash: atEffect === undefined ? undefined : { atEffect, after },
      died: () => {
        trace(() => `${name} crashes at its effect ${process.effects}`);
        figures["processes that crashed"]++;
        this.#store.died(process);
        timeline.after(random.int(0, 3_000), () => this.#start());
      },
    });
    const options = {
      backend: backendOf(this.#parts, process),
      quotas: this.#linkOf(process),
      clock: process.clock,
      limits: LIMITS,
      countTokens: (text: string) => text.length,
      onFailure: ({ requestId, unsettled }: Failure) => unsettled && this.#unsettled(requestId),
      onCall: (record: { context: unknown }) => this.#record(process, record as never),
    };
    process.gateway = createGateway(this.#parts.mutant?.gateway?.(options) ?? options);
    this.#processes.push(process);
    trace(() => `${name} starts`);
    if (random.chance(plan.close)) process.later(random.int(0, plan.spanMs), () => void this.#close(process));
  }

  #record(process: Process, record: Life["records"][number]): void {
    if (process.alive && record.context instanceof Life) record.context.records.push(record);
  }

  #unsettled(requestId: string): void {
    for (const life of this.#lives) if (life.records[0]?.requestId === requestId) life.unsettled = true;
  }

  /** Closes a process as a host does: it ends after its calls, and another replaces it. */
  async #close(process: Process): Promise<void> {
    const { trace, figures, lifeLaws } = this.#parts;
    trace(() => `${process.name} closes`);
    process.closing = true;
    figures["processes that closed"]++;
    this.#start();
    await process.gateway?.close({ deadlineMs: 1_500 });
    if (!process.alive) return;
    for (const life of this.#lives) if (life.process === process) lifeLaws.ended(life, true);
    process.alive = false;
    this.#store.died(process);
    trace(() => `${process.name} ends`);
  }

  #checkProcesses(): void {
    const { lifeLaws, breaches } = this.#parts;
    for (const life of this.#lives) lifeLaws.ended(life, life.process?.alive ?? true);
    for (const { alive, timers, name } of this.#processes)
      if (alive && timers !== 0) breaches.broken("a call leaves no timer behind", `${timers} of ${name}`);
    if (breaches.first) throw breaches.first;
  }

  /** Sweeps the remaining holds from two new processes at the same time. */
  async #sweep(): Promise<void> {
    const { timeline, ledgerLaws, random } = this.#parts;
    timeline.now += LIMITS.leaseMs;
    for (const name of ["janitor", "other janitor"]) {
      const janitor = new Process(name, timeline, { skewMs: random.int(-20_000, 20_000), reliable: true });
      timeline.after(0, () => void this.#store.carryOut({ message: { verb: "sweep" } }, janitor));
    }
    await this.#until(timeline.now + REST_MS);
    ledgerLaws.atRest(await this.#store.audits(), timeline.now, await this.#store.budgets());
  }

  #count(): void {
    const { plan, figures } = this.#parts;
    figures.lives = this.#lives.length;
    for (const { records } of this.#lives) figures[records[0]?.outcome ?? "crashed"]++;
    figures[`worlds in ${plan.store}`]++;
  }
}

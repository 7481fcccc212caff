/** A memory of prefixes in this process. */

import type { Clock } from "../../ports/clock.ts";
import { type NotedPrefix, type PrefixMemory, type PrefixUse, RETAINED_LIFETIMES } from "../../ports/prefix-memory.ts";

interface Use {
  readonly upstream: string;
  readonly usedAt: number;
  readonly lifetimeMs: number;
}

/** The uses of each prefix of a tenant. The least recently used prefix is first. */
type Prefixes = Map<number, readonly Use[]>;

/** The time between two searches for old prefixes, in milliseconds. */
const SWEEP_MS = 60_000;

export class LocalPrefixes implements PrefixMemory {
  readonly #maxPrefixes: number;
  readonly #clock: Pick<Clock, "now">;
  readonly #byTenant = new Map<string, Prefixes>();
  #size = 0;
  #sweepAt = 0;

  constructor(maxPrefixes: number, clock: Pick<Clock, "now">) {
    this.#maxPrefixes = maxPrefixes;
    this.#clock = clock;
  }

  /** The number of prefixes of all tenants. */
  get size(): number {
    return this.#size;
  }

  find(tenant: string, ids: readonly number[]): readonly (readonly PrefixUse[])[] {
    const known = this.#byTenant.get(tenant);
    const now = this.#clock.now();
    return ids.map((id) => {
      const uses = known?.get(id)?.filter((use) => isKept(use, now)) ?? [];
      return uses.map(({ usedAt, ...use }) => ({ ...use, ageMs: Math.max(0, now - usedAt) }));
    });
  }

  note(tenant: string, upstream: string, prefixes: readonly NotedPrefix[]): void {
    const now = this.#clock.now();
    if (now >= this.#sweepAt || now < this.#sweepAt - SWEEP_MS) this.#sweep(now);
    let known = this.#byTenant.get(tenant);
    if (!known) this.#byTenant.set(tenant, (known = new Map()));
    for (const { id, lifetimeMs } of prefixes) {
      const others = known.get(id)?.filter((use) => use.upstream !== upstream && isKept(use, now)) ?? [];
      if (!known.delete(id)) this.#size++;
      known.set(id, [...others, { upstream, usedAt: now, lifetimeMs }]);
    }
    if (this.#size > this.#maxPrefixes) this.#makeRoom();
  }

  /** Halves the memory of each tenant that holds at least half of the mean: a tenant that holds little loses nothing to one that holds much. */
  #makeRoom(): void {
    const enough = this.#size / this.#byTenant.size / 2;
    for (const [tenant, known] of this.#byTenant) {
      if (known.size < enough) continue;
      const half = Math.floor(known.size / 2);
      for (const id of known.keys()) {
        if (known.size <= half) break;
        known.delete(id);
        this.#size--;
      }
      if (known.size === 0) this.#byTenant.delete(tenant);
    }
  }

  #sweep(now: number): void {
    this.#sweepAt = now + SWEEP_MS;
    for (const [tenant, known] of this.#byTenant) {
      for (const [id, uses] of known) {
        // Lifetimes differ, so an older prefix may stay behind a younger one. It goes when it is at the front.
        if (uses.some((use) => isKept(use, now))) break;
        known.delete(id);
        this.#size--;
      }
      if (known.size === 0) this.#byTenant.delete(tenant);
    }
  }
}

const isKept = ({ usedAt, lifetimeMs }: Use, now: number): boolean => now - usedAt < RETAINED_LIFETIMES * lifetimeMs;

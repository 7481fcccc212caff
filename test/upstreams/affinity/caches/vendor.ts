/** A model of a vendor's prompt cache in virtual time: lifetimes, a smallest size, evictions, misses and outages. */

import type { Usage } from "../../../../src/index.ts";
import { Random } from "../../../trial/random.ts";

export interface VendorOptions {
  readonly name: string;
  /** The time for which a prefix is cached after each use, in milliseconds. */
  readonly lifetimeMs: number;
  readonly minTokens: number;
  /** The mean time after which a prefix is lost before its lifetime ends, in milliseconds. */
  readonly evictedAfterMs: number;
  /** The chance that a call reaches a machine of the vendor that has not the cache. */
  readonly missChance: number;
  /** The time between two outages and their length, in milliseconds. */
  readonly outages?: { readonly everyMs: number; readonly lengthMs: number; readonly fromMs: number };
  /** Prices of a million tokens. */
  readonly rates: {
    readonly input: number;
    readonly cacheRead: number;
    readonly cacheWrite: number;
    readonly output: number;
  };
  /** True when the vendor counts the tokens that it writes to its cache. */
  readonly countsWrites: boolean;
}

/** A block of a prompt: its name stands for the text of the prompt up to its end. */
export interface Block {
  readonly prefix: string;
  /** The tokens of the prompt up to the end of the block. */
  readonly upTo: number;
}

export class Vendor {
  readonly options: VendorOptions;
  /** The end of the life of each prefix. */
  readonly #ends = new Map<string, number>();
  readonly #seed: number;

  constructor(options: VendorOptions, seed: number) {
    this.options = options;
    this.#seed = seed;
  }

  isOut(now: number): boolean {
    const { outages } = this.options;
    if (!outages) return false;
    const { everyMs, lengthMs, fromMs } = outages;
    return now >= fromMs && (now - fromMs) % everyMs < lengthMs;
  }

  /** Returns the tokens that a call would read from the cache, and changes nothing. Chance depends on the number of the call alone. */
  readable(blocks: readonly Block[], now: number, call: number): number {
    if (new Random(this.#seed + call * 7_919).chance(this.options.missChance)) return 0;
    return this.cached(blocks, now);
  }

  /** Returns the tokens that are in the cache. */
  cached(blocks: readonly Block[], now: number): number {
    const found = blocks.findLast(({ prefix }) => (this.#ends.get(prefix) ?? 0) > now);
    return found && found.upTo >= this.options.minTokens ? found.upTo : 0;
  }

  /** Answers a call: reads what is cached, and caches the whole prompt. */
  use(blocks: readonly Block[], now: number, call: number, outputTokens: number): Usage {
    const inputTokens = blocks.at(-1)?.upTo ?? 0;
    const cacheReadTokens = this.readable(blocks, now, call);
    const { lifetimeMs, evictedAfterMs, countsWrites } = this.options;
    const random = new Random(this.#seed + call * 104_729);
    for (const { prefix } of blocks) {
      const lives = Math.min(lifetimeMs, -Math.log(1 - random.next()) * evictedAfterMs);
      this.#ends.set(prefix, now + lives);
    }
    if (call % 1_000 === 0) for (const [prefix, end] of this.#ends) if (end <= now) this.#ends.delete(prefix);
    const cacheWriteTokens = countsWrites ? inputTokens - cacheReadTokens : 0;
    return { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens: 0 };
  }

  /** Returns the price of a call that reads so many tokens from the cache. */
  costOf(inputTokens: number, cacheReadTokens: number, outputTokens: number): number {
    const { rates, countsWrites } = this.options;
    const uncached = countsWrites ? rates.cacheWrite : rates.input;
    return cacheReadTokens * rates.cacheRead + (inputTokens - cacheReadTokens) * uncached + outputTokens * rates.output;
  }
}

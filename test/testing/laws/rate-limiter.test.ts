/** flexibleRateLimiter keeps the laws of the RateLimiter, and the laws notice each fault of a limiter. */

import { AssertionError } from "node:assert";
import { setImmediate } from "node:timers/promises";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { flexibleRateLimiter, type RateLimiter, type RateVerdict } from "../../../src/index.ts";
import {
  type OpenedRateLimiter,
  type OpenRateLimiter,
  rateLimiterLaws,
  type RateLimiterSetup,
} from "../../../src/testing/laws/index.ts";

// rate-limiter-flexible takes its time from the machine's clock, so that clock is wound by hand here.
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

const advance = async (ms: number): Promise<void> => void (await vi.advanceTimersByTimeAsync(ms));

const openFlexible: OpenRateLimiter = ({ requests, tokens, callsAtOnce, windowMs }) => {
  const counter = (points: number) => [new RateLimiterMemory({ points, duration: windowMs / 1_000 })];
  const limiter = flexibleRateLimiter({
    perKey: {
      ...(requests !== undefined && { requests: counter(requests) }),
      ...(tokens !== undefined && { tokens: counter(tokens) }),
      ...(callsAtOnce !== undefined && { callsAtOnce }),
    },
  });
  return { limiter, advance };
};

const ADMITTED: RateVerdict = { limits: [] };

/** The faults of `OwnLimiter`. */
interface Faults {
  /** Reads a count, and writes it a moment later. */
  readonly isLate?: boolean;
  readonly countsRefused?: boolean;
  readonly keepsSlotOfRefused?: boolean;
  readonly sharesKeys?: boolean;
  readonly neverBeginsAnew?: boolean;
  readonly givesRequestsBack?: boolean;
  readonly tellsNoState?: boolean;
  readonly endsTwice?: boolean;
  readonly keepsSlot?: boolean;
  readonly endsRefused?: boolean;
  readonly keepsEstimate?: boolean;
  readonly ignoresMore?: boolean;
  readonly enlargesNext?: boolean;
  readonly takesAfterEnd?: boolean;
  readonly countsRefusedTokens?: boolean;
  readonly tellsShortWait?: boolean;
}

/** A limiter that is written for these tests. */
class OwnLimiter implements RateLimiter {
  readonly #setup: RateLimiterSetup;
  readonly #faults: Faults;
  readonly #counts = new Map<string, number>();
  readonly #running = new Map<string, { readonly keyId: string; readonly at: number; tokens: number }>();

  constructor(setup: RateLimiterSetup, faults: Faults) {
    this.#setup = setup;
    this.#faults = faults;
  }

  #window(): number {
    return this.#faults.neverBeginsAnew ? 0 : Math.floor(Date.now() / this.#setup.windowMs);
  }

  #name(kind: string, keyId: string, window = this.#window()): string {
    return `${kind} ${this.#faults.sharesKeys ? "" : keyId} ${kind === "calls" ? "" : window}`;
  }

  #add(name: string, count: number): void {
    this.#counts.set(name, Math.max(0, (this.#counts.get(name) ?? 0) + count));
  }

  async #count(kind: "requests" | "tokens" | "calls", keyId: string, count: number): Promise<RateVerdict> {
    const limit = this.#setup[kind === "calls" ? "callsAtOnce" : kind];
    const name = this.#name(kind, keyId);
    const used = (this.#counts.get(name) ?? 0) + count;
    if (this.#faults.isLate) await setImmediate();
    if (limit !== undefined && used > limit) {
      if (this.#faults.countsRefusedTokens && kind === "tokens") this.#add(name, count);
      const refused = { by: kind, retryAfterMs: this.#faults.tellsShortWait ? 1 : this.#setup.windowMs };
      return { refused, limits: [] };
    }
    this.#add(name, count);
    if (limit === undefined || kind === "calls" || this.#faults.tellsNoState) return ADMITTED;
    return { limits: [{ kind, limit, remaining: limit - used, resetMs: this.#setup.windowMs }] };
  }

  async begin({ id, keyId }: { id: string; keyId: string }): Promise<RateVerdict> {
    if (this.#faults.countsRefused) this.#add(this.#name("requests", keyId), 1);
    const slot = await this.#count("calls", keyId, 1);
    if (slot.refused) return slot;
    const verdict = await this.#count("requests", keyId, this.#faults.countsRefused ? 0 : 1);
    if (!verdict.refused) this.#running.set(id, { keyId, at: this.#window(), tokens: 0 });
    else if (!this.#faults.keepsSlotOfRefused) this.#add(this.#name("calls", keyId), -1);
    return verdict;
  }

  async take({ id, keyId, tokens }: { id: string; keyId: string; tokens: number }): Promise<RateVerdict> {
    const verdict = await this.#count("tokens", keyId, tokens);
    const call = this.#running.get(id);
    if (verdict.refused && this.#faults.endsRefused) await this.end(id, 0);
    if (verdict.refused) return verdict;
    if (call) call.tokens = tokens;
    // The call has ended meanwhile.
    else if (!this.#faults.takesAfterEnd) this.#add(this.#name("tokens", keyId), -tokens);
    return verdict;
  }

  async end(id: string, tokens: number): Promise<void> {
    const call = this.#running.get(id);
    if (!call) return;
    if (!this.#faults.endsTwice) this.#running.delete(id);
    if (!this.#faults.keepsSlot) this.#add(this.#name("calls", call.keyId), -1);
    if (this.#faults.givesRequestsBack) this.#add(this.#name("requests", call.keyId, call.at), -1);
    const more = tokens - call.tokens;
    if (this.#faults.keepsEstimate && more < 0) return;
    if (this.#faults.ignoresMore && more > 0) return;
    this.#add(this.#name("tokens", call.keyId, this.#faults.enlargesNext ? this.#window() : call.at), more);
  }
}

const openOwn =
  (faults: Faults = {}): OpenRateLimiter =>
  (setup) => ({ limiter: new OwnLimiter(setup, faults), advance });

const mutants: readonly (readonly [fault: keyof Faults, breaks: string])[] = [
  ["isLate", "of calls that begin at once, as many are admitted as may run at once"],
  ["isLate", "of requests at once, as many are admitted as a window has"],
  ["isLate", "calls that take tokens at once stay within the window together"],
  ["takesAfterEnd", "a call that ends while it takes tokens leaves nothing counted"],
  ["neverBeginsAnew", "a request beyond the window is refused until the next window"],
  ["tellsNoState", "a request beyond the window is refused until the next window"],
  ["givesRequestsBack", "the end of a call does not give its request back"],
  ["sharesKeys", "keys are counted apart"],
  ["countsRefused", "a call that is refused for its concurrency counts no request"],
  ["keepsSlotOfRefused", "a call that is refused for its rate takes no slot"],
  ["keepsSlot", "an ended call makes room for another"],
  ["endsTwice", "ending a call twice, or an unknown call, changes nothing"],
  ["endsRefused", "a call that is refused its tokens runs until its end"],
  ["countsRefusedTokens", "a call that is refused its tokens counts none"],
  ["tellsShortWait", "a call that is refused its tokens is told a wait after which it has room"],
  ["keepsEstimate", "fewer tokens than were taken are given back at the end"],
  ["ignoresMore", "more tokens than were taken are counted at the end"],
  ["enlargesNext", "a call that ends after its window gives nothing to the next"],
];

/** The laws that a limiter breaks, and their errors. */
async function brokenBy(open: OpenRateLimiter): Promise<Map<string, unknown>> {
  const broken = new Map<string, unknown>();
  for (const law of rateLimiterLaws) await law.verify(open).catch((error: unknown) => broken.set(law.name, error));
  return broken;
}

describe("flexibleRateLimiter", () => {
  it.each(rateLimiterLaws)("$name", async (law) => {
    await expect(law.verify(openFlexible)).resolves.toBeUndefined();
  });
});

describe("rateLimiterLaws", () => {
  it.each(rateLimiterLaws)("are kept by a limiter without a fault: $name", async (law) => {
    await expect(law.verify(openOwn())).resolves.toBeUndefined();
  });

  it.each(mutants)("notice the fault %s: %s", async (fault, breaks) => {
    const broken = await brokenBy(openOwn({ [fault]: true }));
    expect([...broken.keys()]).toContain(breaks);
    expect(broken.get(breaks)).toBeInstanceOf(AssertionError);
    expect(broken.size, "a mutant has one fault, and keeps most laws").toBeLessThan(rateLimiterLaws.length / 2);
  });

  it("are each broken by a mutant at least", () => {
    const names = new Set(mutants.map(([, name]) => name));
    expect(rateLimiterLaws.map((law) => law.name).filter((name) => !names.has(name))).toEqual([]);
  });

  it.each([{}, { keepsSlot: true }])("close what they opened, with the faults %j", async (faults) => {
    let closed = 0;
    const open: OpenRateLimiter = async (setup) => ({
      ...((await openOwn(faults)(setup)) satisfies OpenedRateLimiter),
      close: () => void closed++,
    });
    await brokenBy(open);
    expect(closed).toBe(rateLimiterLaws.length);
  });
});

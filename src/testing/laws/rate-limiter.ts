/** The laws of the RateLimiter port, to be run on a limiter by any test runner: what `begin`, `take` and `end` promise. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { RateKind, RateLimiter, RateVerdict } from "../../index.ts";
import { atOnce, closing, type Law } from "./law.ts";

/** The setup of a limiter for one law. A limit that is absent does not exist. */
export interface RateLimiterSetup {
  /** The most requests of a key in one window. */
  readonly requests?: number;
  /** The most tokens of a key in one window. */
  readonly tokens?: number;
  /** The most concurrent calls of a key. */
  readonly callsAtOnce?: number;
  /** The length of a window, in milliseconds. */
  readonly windowMs: number;
}

/** A limiter under test. */
export interface OpenedRateLimiter {
  readonly limiter: RateLimiter;
  /** Lets `ms` milliseconds pass on the clock of the windows. */
  advance(ms: number): void | Promise<void>;
  /** Closes the limiter. It is called once for each limiter, also when the law was broken. */
  close?(): void | Promise<void>;
}

/**
 * Opens a limiter for one law. Ids of keys and calls are unique to each law: one database may serve all laws.
 *
 * @example
 * const open: OpenRateLimiter = ({ requests, tokens, callsAtOnce, windowMs }) => {
 *   const clock = manualClock();
 *   const limiter = myRateLimiter({ requests, tokens, callsAtOnce, windowMs, clock });
 *   return { limiter, advance: (ms) => clock.advance(ms) };
 * };
 */
export type OpenRateLimiter = (setup: RateLimiterSetup) => OpenedRateLimiter | Promise<OpenedRateLimiter>;

/** A promise of the RateLimiter port. */
export type RateLimiterLaw = Law<OpenRateLimiter>;

/** The length of the laws' windows: so long that a window of a limiter on a running clock does not end during a law. */
const WINDOW_MS = 600_000;

/** A limiter under test, with short verbs. Calls have short ids, which are made unique. */
class Gate {
  readonly #opened: OpenedRateLimiter;
  readonly #suffix = randomUUID().slice(0, 8);

  constructor(opened: OpenedRateLimiter) {
    this.#opened = opened;
  }

  begin(call: string, key = "key"): Promise<RateVerdict> {
    return this.#opened.limiter.begin({ id: this.#own(call), keyId: this.#own(key) });
  }

  take(call: string, tokens: number, key = "key"): Promise<RateVerdict> {
    const demand = { id: this.#own(call), keyId: this.#own(key), model: "any", tokens, outputTokens: 0 };
    return this.#opened.limiter.take(demand);
  }

  end(call: string, tokens = 0): Promise<void> {
    return this.#opened.limiter.end(this.#own(call), tokens);
  }

  async advance(ms: number): Promise<void> {
    await this.#opened.advance(ms);
  }

  #own(name: string): string {
    return `${name}-${this.#suffix}`;
  }
}

const law = (
  name: string,
  limits: Omit<RateLimiterSetup, "windowMs">,
  body: (gate: Gate) => Promise<void>,
): RateLimiterLaw => ({
  name,
  async verify(open) {
    const opened = await open({ ...limits, windowMs: WINDOW_MS });
    await closing(opened, () => body(new Gate(opened)));
  },
});

async function expectAdmitted(asked: Promise<RateVerdict>, why: string): Promise<RateVerdict> {
  const verdict = await asked;
  assert.equal(verdict.refused, undefined, why);
  return verdict;
}

async function expectRefused(asked: Promise<RateVerdict>, by: RateKind, why: string): Promise<RateVerdict> {
  const verdict = await asked;
  assert.equal(verdict.refused?.by, by, why);
  return verdict;
}

const admittedOf = (verdicts: readonly RateVerdict[]): number => verdicts.filter(({ refused }) => !refused).length;

const raceLaws: readonly RateLimiterLaw[] = [
  law("of calls that begin at once, as many are admitted as may run at once", { callsAtOnce: 3 }, async (gate) => {
    const verdicts = await atOnce(20, (index) => gate.begin(`call-${index}`));
    assert.equal(admittedOf(verdicts), 3, "as many calls as the limit says must be admitted");
  }),
  law("of requests at once, as many are admitted as a window has", { requests: 5 }, async (gate) => {
    const verdicts = await atOnce(20, (index) => gate.begin(`call-${index}`));
    assert.equal(admittedOf(verdicts), 5, "as many requests as the limit says must be admitted");
  }),
  law("calls that take tokens at once stay within the window together", { tokens: 100 }, async (gate) => {
    await atOnce(10, (index) => gate.begin(`call-${index}`));
    const verdicts = await atOnce(10, (index) => gate.take(`call-${index}`, 30));
    assert.equal(admittedOf(verdicts), 3, "three calls of 30 tokens fit into 100, and a fourth does not");
  }),
  law("a call that ends while it takes tokens leaves nothing counted", { tokens: 100 }, async (gate) => {
    await gate.begin("gone");
    await Promise.all([gate.take("gone", 100), gate.end("gone")]);
    await gate.begin("next");
    await expectAdmitted(gate.take("next", 100), "the ended call used no tokens, so all are left");
  }),
];

const requestLaws: readonly RateLimiterLaw[] = [
  law("a request beyond the window is refused until the next window", { requests: 2 }, async (gate) => {
    await expectAdmitted(gate.begin("one"), "the first request fits");
    const { limits } = await expectAdmitted(gate.begin("two"), "the second request fits");
    const state = limits.find(({ kind }) => kind === "requests");
    assert.deepEqual([state?.limit, state?.remaining], [2, 0], "the verdict tells the limit and what is left");
    const { refused } = await expectRefused(gate.begin("three"), "requests", "the third request does not fit");
    const waitMs = refused?.retryAfterMs ?? -1;
    assert.ok(waitMs > 0 && waitMs <= WINDOW_MS, "the time until a retry lies within the window");
    await gate.advance(WINDOW_MS);
    await expectAdmitted(gate.begin("four"), "the next window has room again");
  }),
  law("the end of a call does not give its request back", { requests: 1 }, async (gate) => {
    await gate.begin("one");
    await gate.end("one");
    await expectRefused(gate.begin("two"), "requests", "an ended call is still a request of the window");
  }),
  law("keys are counted apart", { requests: 1, callsAtOnce: 1 }, async (gate) => {
    await gate.begin("one", "first");
    await expectAdmitted(gate.begin("two", "second"), "another key has limits of its own");
  }),
  law("a call that is refused for its concurrency counts no request", { requests: 2, callsAtOnce: 1 }, async (gate) => {
    await gate.begin("one");
    for (const call of ["two", "three", "four"])
      await expectRefused(gate.begin(call), "calls", "one call may run at once");
    await gate.end("one");
    await expectAdmitted(gate.begin("five"), "the refused calls have counted no request");
  }),
  law("a call that is refused for its rate takes no slot", { requests: 1, callsAtOnce: 1 }, async (gate) => {
    await gate.begin("one");
    await gate.end("one");
    await expectRefused(gate.begin("two"), "requests", "the window has no request left");
    // The gateway does not end a call that `begin` has refused.
    await gate.advance(WINDOW_MS);
    await expectAdmitted(gate.begin("three"), "the refused call does not run");
  }),
];

const endLaws: readonly RateLimiterLaw[] = [
  law("an ended call makes room for another", { callsAtOnce: 1 }, async (gate) => {
    await gate.begin("one");
    await expectRefused(gate.begin("two"), "calls", "one call may run at once");
    await gate.end("one");
    await expectAdmitted(gate.begin("three"), "the call has ended");
  }),
  law("ending a call twice, or an unknown call, changes nothing", { callsAtOnce: 2 }, async (gate) => {
    await gate.begin("one");
    await gate.begin("two");
    for (const call of ["one", "one", "unknown"]) await gate.end(call);
    await expectAdmitted(gate.begin("three"), "one call has ended");
    await expectRefused(gate.begin("four"), "calls", "no other call has ended");
  }),
  law("a call that is refused its tokens runs until its end", { tokens: 10, callsAtOnce: 1 }, async (gate) => {
    await gate.begin("one");
    await expectRefused(gate.take("one", 20), "tokens", "the window has ten tokens");
    await expectRefused(gate.begin("two"), "calls", "the gateway has not ended the first call yet");
    await gate.end("one");
    await expectAdmitted(gate.begin("three"), "the first call has ended");
  }),
];

const tokenLaws: readonly RateLimiterLaw[] = [
  law("a call that is refused its tokens counts none", { tokens: 100 }, async (gate) => {
    for (const call of ["one", "two", "three"]) await gate.begin(call);
    await expectAdmitted(gate.take("one", 60), "60 tokens fit into 100");
    await expectRefused(gate.take("two", 60), "tokens", "60 more do not fit");
    const { limits } = await expectAdmitted(gate.take("three", 40), "the refused call has counted nothing");
    const state = limits.find(({ kind }) => kind === "tokens");
    assert.deepEqual([state?.limit, state?.remaining], [100, 0], "the verdict tells the limit and what is left");
  }),
  law("a call that is refused its tokens is told a wait after which it has room", { tokens: 100 }, async (gate) => {
    for (const call of ["one", "two"]) await gate.begin(call);
    await gate.take("one", 60);
    await gate.end("one", 60);
    const { refused } = await expectRefused(gate.take("two", 60), "tokens", "60 more do not fit");
    const waitMs = refused?.retryAfterMs ?? -1;
    assert.ok(waitMs > 0 && waitMs <= WINDOW_MS, "the time until a retry lies within the window");
    await gate.end("two");
    await gate.advance(waitMs);
    await gate.begin("three");
    await expectAdmitted(gate.take("three", 60), "the call has waited as long as it was told");
  }),
  law("fewer tokens than were taken are given back at the end", { tokens: 100 }, async (gate) => {
    await gate.begin("one");
    await gate.take("one", 80);
    await gate.end("one", 10);
    for (const call of ["two", "three"]) await gate.begin(call);
    await expectAdmitted(gate.take("two", 90), "the call has used 10 of its 80 tokens");
    await expectRefused(gate.take("three", 1), "tokens", "the call has used 10 tokens, which stay counted");
  }),
  law("more tokens than were taken are counted at the end", { tokens: 100 }, async (gate) => {
    await gate.begin("one");
    await gate.take("one", 10);
    await gate.end("one", 80);
    await gate.begin("two");
    await expectRefused(gate.take("two", 30), "tokens", "the call has used 80 tokens");
  }),
  law("a call that ends after its window gives nothing to the next", { tokens: 100 }, async (gate) => {
    await gate.begin("one");
    await gate.take("one", 60);
    await gate.advance(WINDOW_MS);
    for (const call of ["two", "three"]) await gate.begin(call);
    await expectAdmitted(gate.take("two", 100), "the next window is empty");
    await gate.end("one", 0);
    await expectRefused(gate.take("three", 30), "tokens", "the tokens of the first window are not those of the next");
  }),
];

/**
 * The promises of every RateLimiter that limits requests, tokens and concurrent calls by key. For a limiter without one of these limits,
 * leave out the laws that name it. The laws make up to 20 calls at once, and measure no time.
 *
 * @example
 * describe("my limiter", () => {
 *   for (const law of rateLimiterLaws) it(law.name, () => law.verify(openMyLimiter));
 * });
 */
export const rateLimiterLaws: readonly RateLimiterLaw[] = [...raceLaws, ...requestLaws, ...endLaws, ...tokenLaws];

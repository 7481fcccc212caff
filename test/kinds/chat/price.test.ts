/** What is held for a call: the dearest way in which its price could count the input and the output. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ChatRequest, Price, Usage } from "../../../src/index.ts";
import { affordable, charge, chatAmounts } from "../../../src/kinds/chat/price.ts";
import { counted, opened, speaking, WORD } from "../../pipeline/bench.ts";

const requestFor = (maxOutputTokens: number, changes: Partial<ChatRequest> = {}): ChatRequest => ({
  model: "m",
  messages: [],
  system: [],
  tools: [],
  maxOutputTokens,
  stopSequences: [],
  stream: false,
  ...changes,
});

const rate = fc.double({ min: 0, max: 20, noNaN: true });
const MODALITIES = ["text", "image", "audio", "video", "document"] as const;
const TIERS = [undefined, "standard", "priority", "batch", "flex", "of the caller's"] as const;

interface Rates {
  readonly plain: number;
  readonly read: number;
  readonly write: number;
  readonly write5m: number;
  readonly write1h: number;
  readonly tool: number;
  readonly output: number;
  readonly reasoning: number;
  readonly modalities: readonly number[];
  readonly tiers: readonly number[];
  readonly long: number;
}

const rates: fc.Arbitrary<Rates> = fc.record({
  plain: rate,
  read: rate,
  write: rate,
  write5m: rate,
  write1h: rate,
  tool: rate,
  output: rate,
  reasoning: rate,
  modalities: fc.array(rate, { minLength: 5, maxLength: 5 }),
  tiers: fc.array(fc.double({ min: 0.1, max: 3, noNaN: true }), { minLength: TIERS.length, maxLength: TIERS.length }),
  long: fc.double({ min: 1, max: 3, noNaN: true }),
});

/** A price as vendors have them: a rate for each kind of token, more for a long context, a factor for the tier. */
const priceOf =
  (rates: Rates): Price =>
  ({ inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens, ...usage }) => {
    const { "5m": write5m = 0, "1h": write1h = 0 } = usage.cacheWritesByTtl ?? {};
    const { toolUseTokens = 0, serviceTier, details } = usage;
    const input =
      (inputTokens - cacheReadTokens - cacheWriteTokens - toolUseTokens) * rates.plain +
      cacheReadTokens * rates.read +
      (cacheWriteTokens - write5m - write1h) * rates.write +
      write5m * rates.write5m +
      write1h * rates.write1h +
      toolUseTokens * rates.tool;
    const media = [...(details?.input ?? []), ...(details?.output ?? [])].reduce(
      (sum, { modality, tokens }) => sum + tokens * (rates.modalities[MODALITIES.indexOf(modality as "text")] ?? 0),
      0,
    );
    const output = (outputTokens - reasoningTokens) * rates.output + reasoningTokens * rates.reasoning;
    const factor = rates.tiers[TIERS.indexOf(serviceTier as undefined)] ?? 0.1;
    return factor * (input * (inputTokens > 200 ? rates.long : 1) + media + output);
  };

/** Cuts `whole` in so many parts and a rest. */
const cut = (whole: number, shares: readonly number[]): number[] => {
  let rest = whole;
  return shares.map((share) => {
    const part = Math.floor(rest * share);
    rest -= part;
    return part;
  });
};

const share = fc.double({ min: 0, max: 1, noNaN: true });
const usages = (most: { input: number; output: number }): fc.Arbitrary<Usage> =>
  fc
    .record({
      inputTokens: fc.nat(most.input),
      outputTokens: fc.nat(most.output),
      input: fc.array(share, { minLength: 5, maxLength: 5 }),
      modalities: fc.array(share, { minLength: 5, maxLength: 5 }),
      spoken: fc.array(share, { minLength: 3, maxLength: 3 }),
      reasoning: share,
      tier: fc.constantFrom(...TIERS),
    })
    .map(({ inputTokens, outputTokens, input, modalities, spoken, reasoning, tier }) => {
      const [read = 0, write = 0, write5m = 0, write1h = 0, tool = 0] = cut(inputTokens, input);
      const kinds = (whole: number, shares: readonly number[]) =>
        cut(whole, shares).map((tokens, at) => ({ modality: MODALITIES[at] ?? "text", tokens }));
      return {
        inputTokens,
        outputTokens,
        cacheReadTokens: read,
        cacheWriteTokens: write + write5m + write1h,
        cacheWritesByTtl: { "5m": write5m, "1h": write1h },
        toolUseTokens: tool,
        reasoningTokens: Math.floor(outputTokens * reasoning),
        details: { input: kinds(inputTokens, modalities), output: kinds(outputTokens, spoken) },
        ...(tier !== undefined && { serviceTier: tier }),
      };
    });

const plainOnly: Price = ({ inputTokens, cacheReadTokens }) => (cacheReadTokens > 0 ? Infinity : inputTokens);

describe("the hold", () => {
  it("covers every usage within the estimate and the limit, and what a lowered limit lets through", () => {
    const calls = fc
      .record({
        rates,
        input: fc.nat(400),
        output: fc.integer({ min: 1, max: 300 }),
        candidates: fc.integer({ min: 1, max: 3 }),
      })
      .chain((call) =>
        fc.tuple(fc.constant(call), usages({ input: call.input, output: call.output * call.candidates }), share),
      );
    fc.assert(
      fc.property(calls, ([{ rates: own, input, output, candidates }, usage, part]) => {
        const ownPrice = priceOf(own);
        const request = requestFor(output, { candidateCount: candidates, serviceTier: "of the caller's" });
        const { atLeast, atMost } = chatAmounts(request, input, ownPrice);
        expect(charge(ownPrice, usage, "m", "chat")).toBeLessThanOrEqual(atMost);
        const granted = Math.floor(atLeast + (atMost - atLeast) * part);
        const { maxOutputTokens } = affordable(request, input, ownPrice, granted);
        const outputTokens = Math.min(usage.outputTokens, maxOutputTokens * candidates);
        const reasoningTokens = Math.min(usage.reasoningTokens, outputTokens);
        const lowered = { ...usage, outputTokens, reasoningTokens, details: { input: usage.details?.input ?? [] } };
        expect(charge(ownPrice, lowered, "m", "chat")).toBeLessThanOrEqual(granted);
      }),
      { numRuns: 500 },
    );
  });

  it("leaves out a way that the price throws at, and no way that it counts", () => {
    const byTier: Record<string, number> = { standard: 1, batch: 0.5 };
    const byTiers: Price = ({ inputTokens, cacheWriteTokens, serviceTier = "standard" }) => {
      const factor = byTier[serviceTier];
      if (factor === undefined) throw new Error(`There is no price of ${serviceTier}.`);
      return factor * (inputTokens + cacheWriteTokens);
    };
    expect(chatAmounts(requestFor(1), 100, byTiers)).toEqual({ atLeast: 200, atMost: 200 });
  });

  it("leaves out a way that the price gives no finite number for", () => {
    expect(chatAmounts(requestFor(1), 100, plainOnly)).toEqual({ atLeast: 100, atMost: 100 });
  });
});

/** A token written to a cache for an hour costs five units. */
const price: Price = ({ inputTokens, outputTokens, cacheWritesByTtl: { "1h": hour = 0 } = {} }) =>
  inputTokens - hour + hour * 5 + outputTokens;

describe("a price with dear cache writes", () => {
  const written = { inputTokens: 1_000, cacheWriteTokens: 1_000, cacheWritesByTtl: { "1h": 1_000 }, outputTokens: 25 };
  const body = { messages: [{ role: "user", content: "x".repeat(1_000) }] };

  it("refuses a call whose key cannot pay for them", async () => {
    let asked = 0;
    const { send, report } = opened({
      key: { granted: 1_100 },
      price,
      backend: {
        async *chat() {
          asked++;
          yield WORD;
          yield { type: "finish", reason: "stop", usage: written };
        },
      },
    });
    expect((await send({ body })).status).toBe(429);
    expect([asked, report()?.used, report()?.overdraft]).toEqual([0, 0, 0]);
  });

  it("holds what they cost, and gives back what was not written", async () => {
    for (const [usage, used] of [
      [written, 5_025],
      [{ inputTokens: 1_000, outputTokens: 25 }, 1_025],
    ] as const) {
      const { send, report } = opened({
        key: { granted: 6_000 },
        price,
        backend: speaking(WORD, { type: "finish", reason: "stop", usage }),
      });
      await (await send({ body })).text();
      expect(report()).toMatchObject({ used, overdraft: 0, held: 0 });
    }
  });

  it("records as overdraft what a backend counts beyond the estimate", async () => {
    const { send, report } = opened({
      key: { granted: 100 },
      backend: speaking(WORD, {
        ...counted(7),
        usage: { inputTokens: 500, outputTokens: 7 },
      } as never),
    });
    await (await send()).text();
    expect(report()).toMatchObject({ used: 100, overdraft: 407, held: 0 });
  });
});

/** Twelve units for a token of a picture, and one for any other. */
const dearPictures: Price = ({ outputTokens, details }) =>
  (details?.output ?? [{ modality: "text", tokens: outputTokens }]).reduce(
    (sum, { modality, tokens }) => sum + tokens * (modality === "image" ? 12 : 1),
    0,
  );

const mostOf = (changes?: Partial<ChatRequest>): number =>
  chatAmounts(requestFor(1_000, changes), 10, dearPictures).atMost;

describe("a price that is dearer for pictures than for text", () => {
  it("is held for pictures only where the answer may have some", () => {
    expect(mostOf({ modalities: ["text"] })).toBe(1_000);
    expect(mostOf({ modalities: ["text", "image"] })).toBe(12_000);
    // Some models make pictures unasked.
    expect(mostOf()).toBe(12_000);
    expect(mostOf({ modalities: [] })).toBe(12_000);
  });

  it("does not shorten an answer of text that the balance affords", () => {
    const request = requestFor(1_000, { modalities: ["text"] });
    expect(affordable(request, 10, dearPictures, 1_000).maxOutputTokens).toBe(1_000);
  });
});

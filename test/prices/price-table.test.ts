/** Prices in a currency: which row a model has, what each part of a call costs, and which tables are refused. */

import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { createGateway, type Failure, memoryQuotaStore } from "../../src/index.ts";
import { NO_USAGE, type Usage } from "../../src/model/usage.ts";
import {
  type LongerRates,
  type ModelPrice,
  type PriceRows,
  priceTable,
  type TierRates,
} from "../../src/prices/index.ts";
import { opened } from "../pipeline/bench.ts";

const usage = (counts: Partial<Usage>): Usage => ({ ...NO_USAGE, ...counts });
const cost = (price: ModelPrice, counts: Partial<Usage>): number =>
  priceTable({ m: price }).price(usage(counts), "m", "chat");

const MILLION = 1_000_000;
const SONNET: ModelPrice = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75, cacheWrite1h: 6 };

describe("the parts of a call", () => {
  it.each<[string, ModelPrice, Partial<Usage>, number]>([
    ["input", SONNET, { inputTokens: 1_000 }, 3_000],
    ["output", SONNET, { inputTokens: 0, outputTokens: 10 }, 150],
    ["a cache that was read", SONNET, { inputTokens: 1_000, cacheReadTokens: 900 }, 100 * 3 + 270],
    ["a cache that was written", SONNET, { inputTokens: 1_000, cacheWriteTokens: 400 }, 600 * 3 + 1_500],
    [
      "caches of both lifetimes",
      SONNET,
      { inputTokens: 1_000, cacheWriteTokens: 400, cacheWritesByTtl: { "5m": 300, "1h": 100 } },
      600 * 3 + 300 * 3.75 + 600,
    ],
    ["reasoning at the price of output", SONNET, { outputTokens: 10, reasoningTokens: 8 }, 150],
    ["reasoning at its own price", { ...SONNET, reasoning: 20 }, { outputTokens: 10, reasoningTokens: 8 }, 30 + 160],
    [
      "sound in and out",
      { input: 1, output: 2, audioInput: 10, audioOutput: 20 },
      {
        inputTokens: 100,
        outputTokens: 50,
        details: { input: [{ modality: "audio", tokens: 60 }], output: [{ modality: "audio", tokens: 30 }] },
      },
      40 + 600 + 20 * 2 + 600,
    ],
    [
      "cached sound at the price of the cache",
      { input: 2, output: 0, audioInput: 10, cacheRead: 1 },
      {
        inputTokens: 100,
        cacheReadTokens: 40,
        details: { input: [{ modality: "audio", tokens: 60 }], cacheRead: [{ modality: "audio", tokens: 40 }] },
      },
      40 + 20 * 10 + 40 * 2,
    ],
    [
      "pictures of a chat model",
      { input: 1, output: 1, imageOutput: 30 },
      { inputTokens: 1, outputTokens: 12, details: { output: [{ modality: "image", tokens: 10 }] } },
      1 + 2 + 300,
    ],
    [
      "the provider's tools",
      { input: 1, output: 0, toolUses: { web_search: 0.01 } },
      { inputTokens: 1, serverToolUses: { web_search: 2, code_execution: 9 } },
      1 + 20_000,
    ],
    ["a share of a unit, rounded up once", { input: 0.1, output: 0.1 }, { inputTokens: 11, outputTokens: 11 }, 3],
    ["a price for one token", { input: 0.000_003, output: 0, per: 1 }, { inputTokens: 7 }, 21],
    ["a price in quota units", { input: 2, output: 0, per: 1, unit: "unit" }, { inputTokens: 7 }, 14],
    ["nothing", SONNET, {}, 0],
  ])("%s", (_name, price, counts, expected) => {
    expect(cost(price, counts)).toBe(expected);
  });

  it("costs all tokens of a longer call more, from one token above the bound", () => {
    const price = { input: 3, output: 15, longer: [{ above: 200_000, input: 6, output: 22.5 }] };
    expect(cost(price, { inputTokens: 200_000, outputTokens: 10 })).toBe(600_150);
    expect(cost(price, { inputTokens: 200_001, outputTokens: 10 })).toBe(1_200_006 + 225);
  });

  it("takes the longest of several bounds, in any order", () => {
    const price = {
      input: 1,
      output: 0,
      longer: [
        { above: 200, input: 4 },
        { above: 100, input: 2 },
      ],
    };
    expect([100, 101, 200, 201].map((inputTokens) => cost(price, { inputTokens }))).toEqual([100, 202, 400, 804]);
  });

  it("prices service tiers by the provider's word, and others as usual", () => {
    const price = { input: 2, output: 8, tiers: { priority: { input: 4 }, flex: { input: 1, output: 4 } } };
    const counts = { inputTokens: 10, outputTokens: 10 };
    expect(cost(price, { ...counts, serviceTier: "priority" })).toBe(40 + 80);
    expect(cost(price, { ...counts, serviceTier: "FLEX" })).toBe(10 + 40);
    expect(cost(price, { ...counts, serviceTier: "standard" })).toBe(20 + 80);
  });

  it("multiplies the prices of tokens by the factors of the speed and the region, and rounds up once", () => {
    const price = {
      input: 0.3,
      output: 1,
      toolUses: { web_search: 0.01 },
      pictures: 0.04,
      factors: { fast: 6, us: 1.1, Free: 0 },
    };
    const counts = { inputTokens: 10, cacheReadTokens: 4, outputTokens: 1 };
    expect(cost(price, { ...counts, speed: "fast" })).toBe(24);
    expect(cost(price, { ...counts, inferenceGeo: "us" })).toBe(5);
    expect(cost(price, { ...counts, speed: "FAST", inferenceGeo: "Us" })).toBe(27);
    expect(cost(price, { ...counts, speed: "standard", inferenceGeo: "global" })).toBe(4);
    // The official service multiplies no use of a tool.
    expect(cost(price, { ...counts, speed: "fast", serverToolUses: { web_search: 2 } })).toBe(24 + 20_000);
    expect(cost(price, { ...counts, inferenceGeo: "us", serverToolUses: { web_search: 2 } })).toBe(5 + 20_000);
    expect(cost(price, { ...counts, speed: "free", serverToolUses: { web_search: 2 } })).toBe(20_000);
    const { imagePrice } = priceTable({ m: price });
    expect(imagePrice({ model: "m", size: "auto", quality: undefined })).toBe(40_000);
  });

  it("multiplies the prices of tiers and of longer calls", () => {
    const price = {
      input: 1,
      output: 0,
      longer: [{ above: 100, input: 2 }],
      tiers: { priority: { input: 3 } },
      factors: { fast: 2.5 },
    };
    expect(cost(price, { inputTokens: 200, speed: "fast" })).toBe(1_000);
    expect(cost(price, { inputTokens: 2, speed: "fast", serviceTier: "priority" })).toBe(15);
  });

  it("multiplies exactly, where binary fractions would not", () => {
    const price = { input: 3, output: 0, factors: { us: 1.1, fast: 1.000_001 } };
    // 3 × 1.1 is 3.3000000000000003 for a binary number.
    expect(cost(price, { inputTokens: 10, inferenceGeo: "us" })).toBe(33);
    const tokens = 4_000_000_001;
    const expected = Number((BigInt(tokens) * 3n * 11n * 1_000_001n + 9_999_999n) / 10_000_000n);
    expect(cost(price, { inputTokens: tokens, inferenceGeo: "us", speed: "fast" })).toBe(expected);
  });

  it("is exact beyond the whole numbers that a sum of numbers holds", () => {
    const tokens = 9_007_199_254;
    const expected = Number((BigInt(tokens) * 1_234_567n + 999_999n) / MILLION_BIG);
    expect(cost({ input: 1.234_567, output: 0 }, { inputTokens: tokens })).toBe(expected);
  });

  it("is the exact sum for all usages, and never falls when a count grows", () => {
    const counts = fc.record({ inputTokens: fc.nat(10 * MILLION), outputTokens: fc.nat(MILLION) });
    const price = { input: 0.075, output: 0.3, cacheRead: 0.018_75 };
    fc.assert(
      fc.property(counts, fc.nat(10 * MILLION), (counted, cached) => {
        const cacheReadTokens = Math.min(cached, counted.inputTokens);
        const whole = cost(price, { ...counted, cacheReadTokens });
        const hundredThousandths =
          BigInt(counted.inputTokens - cacheReadTokens) * 7_500n +
          BigInt(cacheReadTokens) * 1_875n +
          BigInt(counted.outputTokens) * 30_000n;
        expect(BigInt(whole)).toBe((hundredThousandths + 99_999n) / 100_000n);
        const more = { ...counted, inputTokens: counted.inputTokens + 1, outputTokens: counted.outputTokens + 1 };
        expect(cost(price, { ...more, cacheReadTokens })).toBeGreaterThanOrEqual(whole);
      }),
    );
  });

  it("counts no more than the whole when parts contradict it", () => {
    expect(cost(SONNET, { inputTokens: 10, cacheReadTokens: 50, outputTokens: 1, reasoningTokens: 9 })).toBe(3 + 15);
  });
});

const MILLION_BIG = 1_000_000n;

describe("the row of a model", () => {
  const { price } = priceTable({
    "*": { input: 1, output: 0 },
    "claude-*": { input: 2, output: 0 },
    "claude-*-4*": { input: 3, output: 0 },
    "claude-sonnet-4-5": { input: 4, output: 0 },
    "*/gpt-*-mini": { input: 5, output: 0 },
  });
  const inputPrice = (model: string): number => price(usage({ inputTokens: 1 }), model, "chat");

  it.each([
    ["claude-sonnet-4-5", 4],
    ["claude-opus-4-1", 3],
    ["claude-3-haiku", 2],
    ["openai/gpt-5-mini", 5],
    ["gpt-5-mini", 1],
    ["claude-", 2],
    ["claude", 1],
    ["", 1],
    ["constructor", 1],
  ])("%s", (model, expected) => {
    expect(inputPrice(model)).toBe(expected);
    expect(inputPrice(model)).toBe(expected);
  });

  it("matches no text twice", () => {
    const twice = priceTable({ "ab*ba": { input: 1, output: 0 } }).price;
    expect(() => twice(usage({}), "aba", "chat")).toThrow('The model "aba" has no price.');
    expect(twice(usage({ inputTokens: 1 }), "abba", "chat")).toBe(1);
  });
});

describe("pictures", () => {
  const { price, imagePrice } = priceTable({
    drawer: { pictures: { "high/1024x1024": 0.167, "1024x1024": 0.042, high: 0.25, "*": 0.063 } },
    flat: { pictures: 0.04 },
    chat: { input: 1, output: 0 },
  });

  it.each([
    ["drawer", "1024x1024", "high", 167_000],
    ["drawer", "1024x1024", "low", 42_000],
    ["drawer", "1536x1024", "high", 250_000],
    ["drawer", "auto", undefined, 63_000],
    ["flat", "auto", undefined, 40_000],
  ])("%s of %s, %s", (model, size, quality, expected) => {
    expect(imagePrice({ model, size, quality })).toBe(expected);
  });

  it("have no price without a row", () => {
    expect(() => imagePrice({ model: "chat", size: "auto", quality: undefined })).toThrow(
      'Pictures by the model "chat" have no price.',
    );
  });

  it("are not the price of tokens", () => {
    expect(() => price(usage({ outputTokens: 1 }), "flat", "chat")).toThrow(
      'Tokens of the model "flat" have no price.',
    );
  });
});

describe("a table is refused", () => {
  it.each<[string, PriceRows, string]>([
    ["below 0", { m: { input: -1, output: 0 } }, 'The price of "m": input must be a number from 0 up, not -1'],
    [
      "not a number",
      { m: { input: Number.NaN, output: 0 } },
      'The price of "m": input must be a number from 0 up, not NaN',
    ],
    [
      "as a text",
      { m: { input: "3" as never, output: 0 } },
      'The price of "m": input must be a number from 0 up, not "3"',
    ],
    ["without input", { m: { output: 1 } }, 'The price of "m" needs input; 0 makes it free'],
    [
      "without output",
      { m: { input: 1, pictures: 2 } },
      'The price of "m" needs output; 0 is for models without output',
    ],
    ["without a price", { m: { cacheRead: 1 } }, 'The price of "m" needs input and output, or pictures'],
    ["per 300", { m: { input: 1, output: 0, per: 300 } }, 'The price of "m": per must be a power of ten'],
    [
      "in two units",
      { a: { input: 1, output: 0 }, b: { input: 1, output: 0, unit: "eur" } },
      'priceTable: all rows must have the same unit, but "a" has usd and "b" has eur.',
    ],
    [
      "in a unit that is no currency",
      { m: { input: 1, output: 0, unit: "xyz1" } },
      'The price of "m": unit must be "unit" or a code of three letters, such as "usd", not "xyz1"',
    ],
    ["with a wrong name", { m: { input: 1, ouput: 2 } as ModelPrice }, "ouput does not exist; did you mean output?"],
    ...(
      [
        ["cachedInput", "cacheRead"],
        ["cache_read_input_token_cost", "cacheRead"],
        ["cacheCreation", "cacheWrite"],
        ["input_cache_write", "cacheWrite"],
        ["reasoningOutput", "reasoning"],
        ["thinking", "reasoning"],
        ["prompt", "input"],
        ["completion", "output"],
        ["inputTokens", "input"],
        ["outputAudio", "audioOutput"],
        ["audio", "audioInput"],
      ] as const
    ).flatMap(([other, meant]) =>
      [
        { m: { input: 1, output: 2, [other]: 1 } },
        { m: { input: 1, output: 2, tiers: { fast: { [other]: 1 } } } },
        { m: { input: 1, output: 2, longer: [{ above: 5, [other]: 1 }] } },
      ].map((rows): [string, PriceRows, string] => [
        `with ${other}`,
        rows as PriceRows,
        `${other} does not exist; did you mean ${meant}? There are`,
      ]),
    ),
    [
      "with a wrong name in a tier",
      { m: { input: 1, output: 0, tiers: { priority: { inputs: 2 } as TierRates } } },
      "did you mean input?",
    ],
    [
      "with a tier that is a number",
      { m: { input: 1, output: 0, tiers: { flex: 2 as TierRates } } },
      'tiers["flex"]: expects an object',
    ],
    [
      "with a wrong name for longer calls",
      { m: { input: 1, output: 0, longer: [{ above: 9, abov: 2 } as LongerRates] } },
      "did you mean above?",
    ],
    [
      "with no list for longer calls",
      { m: { input: 1, output: 0, longer: {} as LongerRates[] } },
      "longer must be a list",
    ],
    ["that is nothing", { m: null as unknown as ModelPrice }, "expects an object of options"],
    [
      "with a factor below 0",
      { m: { input: 1, output: 0, factors: { fast: -1 } } },
      'The price of "m": factors["fast"] must be a number from 0 up, not -1',
    ],
    [
      "with a factor that is a text",
      { m: { input: 1, output: 0, factors: { fast: "6" as never } } },
      'The price of "m": factors["fast"] must be a number from 0 up, not "6"',
    ],
    [
      "with a factor of too many digits",
      { m: { input: 1, output: 0, factors: { fast: 1 / 3 } } },
      'The price of "m": factor fast has too many digits: 0.3333333333333333',
    ],
    [
      "with a factor that is too high",
      { m: { input: 1, output: 0, factors: { fast: 1e20 } } },
      'The price of "m": factor fast is too high: 100000000000000000000',
    ],
    ["with too many digits", { m: { input: 1 / 3, output: 0 } }, 'The price of "m": input has too many digits'],
    [
      "lower for longer calls",
      { m: { input: 2, output: 0, longer: [{ above: 10, input: 1 }] } },
      'The price of "m": input must not be lower for calls above 10 tokens',
    ],
    [
      "longer than no count",
      { m: { input: 2, output: 0, longer: [{ above: 1.5, input: 3 }] } },
      'The price of "m": longer[0]: above must be a count of tokens, not 1.5',
    ],
  ])("%s", (_name, rows, message) => {
    expect(() => priceTable(rows)).toThrow(message);
  });
});

it("a table without prices is refused, with what to write instead", () => {
  expect(() => priceTable({})).toThrow(
    'Give a price for each model, or one for all: { "*": { input: 3, output: 15 } }.',
  );
});

const open = () => {
  const failures: Failure[] = [];
  const quotas = memoryQuotaStore([{ id: "team", apiKey: "sk-team", granted: 1_000_000 }]);
  const gateway = createGateway({
    quotas,
    onFailure: (failure) => void failures.push(failure),
    ...priceTable({ "model-a": { input: 3, output: 15 } }),
    backend: {
      async *chat() {
        yield "Hello";
        yield { type: "usage", usage: { inputTokens: 100, outputTokens: 20 } };
        yield { type: "finish", reason: "stop" };
      },
    },
  });
  const ask = async (model: string): Promise<Response> =>
    gateway.fetch(
      new Request("http://gateway/v1/chat/completions", {
        method: "POST",
        headers: { authorization: "Bearer sk-team", "content-type": "application/json" },
        body: JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] }),
      }),
    );
  return { ask, quotas, failures };
};

describe("a gateway with a table", () => {
  it("charges millionths of the currency", async () => {
    const { ask, quotas } = open();
    expect((await ask("model-a")).status).toBe(200);
    expect(quotas.report("team")).toMatchObject({ used: 600 });
  });

  it("charges embeddings for their input alone", async () => {
    const { send, report } = opened({
      ...priceTable({ "vector-*": { input: 0.02, output: 99 } }),
      backend: {
        async *embed({ inputs }) {
          for (const _ of inputs) yield [1, 0];
          yield { type: "usage", usage: { inputTokens: 1_000 } };
        },
      },
    });
    const body = JSON.stringify({ model: "vector-1", input: ["one", "two"] });
    expect((await send({ path: "/v1/embeddings", body })).status).toBe(200);
    expect(report()).toMatchObject({ used: 20 });
  });

  it("refuses a model without a price, and charges nothing", async () => {
    const { ask, quotas } = open();
    const response = await ask("model-b");
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({
      error: { code: "model_not_found", message: 'The model "model-b" has no price.' },
    });
    expect(quotas.report("team")).toMatchObject({ used: 0 });
  });

  it("tells the host once of each model without a price, and what to do", async () => {
    const { ask, failures } = open();
    for (const model of ["model-b", "model-b", "model-c", "model-a", "model-b"]) await ask(model);
    expect(failures).toMatchObject([{ error: { code: "model_not_found" } }, { error: { code: "model_not_found" } }]);
    expect(failures[0]?.text).toContain(
      'priceTable has no row for the model "model-b". Its calls are refused. Add a row for it: "model-b": { input: …, output: … }. Or price all other models: "*": { input: …, output: … }.',
    );
    expect(failures[1]?.text).toContain("model-c");
  });

  it("tells the host of at most 100 models, because a key may ask for any name", async () => {
    const { ask, failures } = open();
    for (let at = 0; at < 105; at++) expect((await ask(`made-up-${at}`)).status).toBe(404);
    expect(failures).toHaveLength(100);
  });
});

describe("the upstream's name of a model", () => {
  const { price, imagePrice } = priceTable({
    fast: { input: 9, output: 0 },
    "large-1": { input: 5, output: 0, pictures: 2 },
    "large-*": { input: 4, output: 0 },
    "caller-*": { input: 3, output: 0 },
  });
  const costOf = (caller: string, upstream?: string): number =>
    price(
      usage({ inputTokens: 10 }),
      caller,
      "chat",
      upstream === undefined ? undefined : { name: "u", model: upstream },
    );

  it.each<[string, string | undefined, number]>([
    ["fast", "large-1", 50],
    ["fast", "large-2", 90],
    ["caller-1", "large-2", 40],
    ["caller-1", "unknown", 30],
    ["caller-1", undefined, 30],
  ])("decides before the caller's: %s at %s", (caller, upstream, units) => {
    expect(costOf(caller, upstream)).toBe(units);
  });

  it("is refused under the caller's name where neither has a price", () => {
    expect(() => costOf("nobody", "unknown")).toThrow(
      expect.objectContaining({
        message: 'The model "nobody" has no price.',
        cause: expect.objectContaining({
          message: expect.stringContaining('the model "unknown", which callers know as "nobody"'),
        }),
      }),
    );
  });

  it("decides the price of a picture too", () => {
    const kind = { model: "draw", size: "auto", quality: undefined, upstream: { name: "u", model: "large-1" } };
    expect(imagePrice(kind)).toBe(2 * MILLION);
  });
});

it("has the price of one upstream under its name and its own name of the model", () => {
  const { price } = priceTable({
    "near/m": { input: 1, output: 1 },
    m: { input: 2, output: 2 },
    "*": { input: 3, output: 3 },
  });
  const usage = { ...NO_USAGE, inputTokens: 1 };
  expect(price(usage, "caller", "chat", { name: "near", model: "m" })).toBe(1);
  expect(price(usage, "caller", "chat", { name: "far", model: "m" })).toBe(2);
  expect(price(usage, "caller", "chat", { name: "near", model: "other" })).toBe(3);
});

/** Returns the lines that a table prints. */
const printed = (rows: PriceRows): unknown[][] => {
  const print = vi.spyOn(console, "error").mockImplementation(() => {});
  try {
    priceTable(rows);
    return [...print.mock.calls];
  } finally {
    print.mockRestore();
  }
};

describe("a price of one token in place of a million", () => {
  it("is told once, with its row and its field", () => {
    const low = { input: 0.000_002_5, output: 0.000_01 };
    expect(printed({ small: low, large: { ...low, tiers: { flex: { input: 0.000_001 } } } })).toEqual([
      [
        'polygate: The price of "small": input is 0.0000025 for a million tokens. For the price of one token, write per: 1 in the row. 4 more are as low.',
      ],
    ]);
  });

  it.each<[string, PriceRows]>([
    ["is as low as that of the cheapest models", { small: { input: 0.0005, output: 0 } }],
    ["is for one token", { small: { input: 0.000_002_5, output: 0.000_01, per: 1 } }],
    ["is in quota units", { small: { input: 0.000_1, output: 0.000_1, unit: "unit" } }],
    [
      "is that of a picture or a tool",
      { small: { input: 1, output: 1, pictures: 0.0001, toolUses: { search: 0.0001 } } },
    ],
  ])("is not told of a price that %s", (_what, rows) => {
    expect(printed(rows)).toEqual([]);
  });
});

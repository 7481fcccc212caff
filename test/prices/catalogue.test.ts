/** Price files in the two shapes that many gateways share: what is read, what is skipped, and what is told to be wrong. */

import fc from "fast-check";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { NO_USAGE, type Usage } from "../../src/model/usage.ts";
import { priceCatalogue, priceTable } from "../../src/prices/index.ts";

const FILE = {
  sample_spec: { max_tokens: "the limit", input_cost_per_token: 0, mode: "one of: chat, embedding" },
  "claude-sonnet-4-5": {
    input_cost_per_token: 3e-6,
    output_cost_per_token: 1.5e-5,
    cache_read_input_token_cost: 3e-7,
    cache_creation_input_token_cost: 3.75e-6,
    cache_creation_input_token_cost_above_1hr: 6e-6,
    input_cost_per_token_above_200k_tokens: 6e-6,
    output_cost_per_token_above_200k_tokens: 2.25e-5,
    cache_read_input_token_cost_above_200k_tokens: 6e-7,
    search_context_cost_per_query: { search_context_size_low: 0.01, search_context_size_high: 0.01 },
    provider_specific_entry: { fast: 6, us: 1.1, eu: null, free_input_images: 3, schema: "titan" },
    max_tokens: 64_000,
    mode: "chat",
  },
  "gpt-5-mini": {
    input_cost_per_token: 0.000_01 / 40 + Number.EPSILON / 1_000_000_000,
    output_cost_per_token: 2e-6,
    input_cost_per_token_priority: 4.5e-7,
    output_cost_per_token_flex: 1e-6,
    provider_specific_entry: { schema: { fast: 9 } },
    input_cost_per_token_batches: 1.25e-7,
    mode: "chat",
  },
  "text-embedding-3-small": { input_cost_per_token: 2e-8, output_cost_per_token: 0, mode: "embedding" },
  "hd/1024-x-1792/dall-e-3": { input_cost_per_pixel: 6.539e-8, mode: "image_generation" },
  "1024-x-1024/dall-e-3": { output_cost_per_image: 0.04, mode: "image_generation" },
  "gemini-image": { input_cost_per_token: 3e-7, output_cost_per_token: 2.5e-6, output_cost_per_image: 0.039 },
  "long-and-cheap": {
    input_cost_per_token: 2e-6,
    output_cost_per_token: 4e-6,
    input_cost_per_token_above_200k_tokens: 1e-6,
    output_cost_per_token_above_200k_tokens: 8e-6,
    mode: "chat",
  },
  "embedding-without-output": { input_cost_per_token: 1e-6, mode: "embedding" },
  "no-output": { input_cost_per_token: 1e-6, output_cost_per_token: null, mode: "chat" },
  "no-input": { output_cost_per_token: 1e-6, output_cost_per_image: 0.01, mode: "chat" },
  "image-by-token": { input_cost_per_token: 1e-6, output_cost_per_image: 0.01, mode: "image_generation" },
  "whisper-1": { input_cost_per_second: 0.0001, mode: "audio_transcription" },
};

const catalogue = priceCatalogue(FILE, { date: "2026-11-01" });
const { price, imagePrice } = priceTable(catalogue.rows);
const cost = (model: string, counts: Partial<Usage>): number => price({ ...NO_USAGE, ...counts }, model, "chat");

const searches = { search_context_size_low: 0.01, search_context_size_medium: 0.03, search_context_size_high: 0.02 };
const both = { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6, search_context_cost_per_query: searches };

it.each<[name: string, entry: object, toolUses: object | undefined]>([
  ["gpt-5", both, { web_search: 0.03 }],
  [
    "gpt-5",
    {
      ...both,
      litellm_provider: "openai",
      file_search_cost_per_1k_calls: 2.5,
      code_interpreter_cost_per_session: 0.03,
    },
    { web_search: 0.03, file_search: 0.0025, code_interpreter: 0.03 },
  ],
  ["gpt-5", { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 }, undefined],
  // Google bills its older models by the prompt.
  [
    "gemini/gemini-2.5-flash",
    { ...both, litellm_provider: "gemini", google_maps_grounding_cost_per_query: 0.025 },
    { web_search_prompt: 0.03, maps_prompt: 0.025 },
  ],
  ["gemini-2.5-pro", { ...both, litellm_provider: "vertex_ai-language-models" }, { web_search_prompt: 0.03 }],
  [
    "gemini/gemini-3.5-flash",
    {
      ...both,
      litellm_provider: "gemini",
      google_maps_grounding_cost_per_query: 0.014,
      web_search_billing_unit: "per_query",
    },
    { web_search: 0.03, maps: 0.014 },
  ],
  ["claude-sonnet-5@20260101", { ...both, litellm_provider: "vertex_ai-anthropic_models" }, { web_search: 0.03 }],
  ["openrouter/google/gemini-2.5-pro", { ...both, litellm_provider: "openrouter" }, { web_search: 0.03 }],
])("reads the prices of tools of %s", (name, entry, toolUses) => {
  const { rows, wrong } = priceCatalogue({ [name]: entry }, { date: "2026-11-01" });
  expect([rows[name]?.toolUses, wrong]).toEqual([toolUses, []]);
});

it("tells a wrong price of a tool", () => {
  const wrong = { m: { ...both, file_search_cost_per_1k_calls: -1 } };
  expect(priceCatalogue(wrong, { date: "2026-11-01" }).wrong).toEqual([
    { model: "m", problem: `The price file's "m" has a wrong file_search_cost_per_1k_calls: -1` },
  ]);
});

it("keeps its date, and names the models without a price", () => {
  expect(catalogue).toMatchObject({ date: "2026-11-01", skipped: ["no-output", "no-input", "whisper-1"] });
  expect(Object.keys(catalogue.rows)).toEqual([
    "claude-sonnet-4-5",
    "gpt-5-mini",
    "text-embedding-3-small",
    "dall-e-3",
    "gemini-image",
    "long-and-cheap",
    "embedding-without-output",
    "image-by-token",
  ]);
});

it.each<[string, Partial<Usage>, number]>([
  ["claude-sonnet-4-5", { inputTokens: 1_000, cacheReadTokens: 900, outputTokens: 10 }, 300 + 270 + 150],
  ["claude-sonnet-4-5", { inputTokens: 300_000, cacheReadTokens: 100_000 }, 200_000 * 6 + 60_000],
  ["claude-sonnet-4-5", { inputTokens: 10, cacheWriteTokens: 10, cacheWritesByTtl: { "1h": 10 } }, 60],
  ["claude-sonnet-4-5", { inputTokens: 0, serverToolUses: { web_search: 3 } }, 30_000],
  ["claude-sonnet-4-5", { inputTokens: 100, speed: "fast", inferenceGeo: "us" }, 1_980],
  ["gpt-5-mini", { inputTokens: 1_000, outputTokens: 100 }, 250 + 200],
  ["gpt-5-mini", { inputTokens: 1_000, outputTokens: 100, serviceTier: "priority" }, 450 + 200],
  ["gpt-5-mini", { inputTokens: 1_000, outputTokens: 100, serviceTier: "flex" }, 250 + 100],
  ["gpt-5-mini", { inputTokens: 1_000, outputTokens: 100, serviceTier: "batch" }, 125 + 200],
  ["text-embedding-3-small", { inputTokens: 101 }, 3],
  ["embedding-without-output", { inputTokens: 101 }, 101],
  // A lower price for longer calls would not cover what is held.
  ["long-and-cheap", { inputTokens: 300_000, outputTokens: 10 }, 600_000 + 80],
])("prices %s", (model, counts, expected) => {
  expect(cost(model, counts)).toBe(expected);
});

it("has the factors of the words that answers have, and nothing else of one provider alone", () => {
  expect(catalogue.rows["claude-sonnet-4-5"]?.factors).toEqual({ fast: 6, us: 1.1 });
  expect(catalogue.rows["gpt-5-mini"]).not.toHaveProperty("factors");
});

it.each([
  ["dall-e-3", "1024x1024", "standard", 40_000],
  ["dall-e-3", "1024x1792", "hd", 119_991],
  ["gemini-image", "auto", undefined, 39_000],
])("prices a picture by %s of %s, %s", (model, size, quality, expected) => {
  expect(imagePrice({ model, size, quality })).toBe(expected);
});

it("has no price for a size that the file does not have", () => {
  expect(() => imagePrice({ model: "dall-e-3", size: "512x512", quality: "hd" })).toThrow("have no price");
});

it("reads only the chosen models", () => {
  const { rows } = priceCatalogue(FILE, { date: "2026-11-01", only: (model) => model.startsWith("gpt-") });
  expect(Object.keys(rows)).toEqual(["gpt-5-mini"]);
});

it.each<[string, unknown]>([
  ["a list", []],
  ["a text", "{}"],
])("refuses %s", (_name, file) => {
  expect(() => priceCatalogue(file, { date: "2026-11-01" })).toThrow(
    new TypeError("A price file must be an object of models"),
  );
});

it.each<[string, unknown, string]>([
  ["an entry that is no object", 3, `The price file's "m" must be an object`],
  [
    "a text as a price",
    { input_cost_per_token: "3e-6" },
    `The price file's "m" has a wrong input_cost_per_token: "3e-6"`,
  ],
  [
    "a text as a factor",
    { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6, provider_specific_entry: { fast: "6" } },
    `The price file's "m" has a wrong fast: "6"`,
  ],
  ["a price below 0", { output_cost_per_token: -1 }, `The price file's "m" has a wrong output_cost_per_token: -1`],
  [
    "a price with too many digits",
    { input_cost_per_token: 1e-20, output_cost_per_token: 1e-6 },
    `The price of "m": input has too many digits: 1e-20`,
  ],
])("tells %s by name, and keeps all other models", (_name, m, problem) => {
  const { rows, wrong, skipped } = priceCatalogue({ ...FILE, m }, { date: "2026-11-01" });
  expect(wrong).toEqual([{ model: "m", problem }]);
  expect([rows, skipped]).toEqual([catalogue.rows, catalogue.skipped]);
});

it("refuses a date that is no day", () => {
  expect(() => priceCatalogue(FILE, { date: "soon" })).toThrow('must be a day such as 2026-11-01, not "soon"');
});

it("lists the models with their kinds and limits, and dates every row with the file", () => {
  const { models, olderThan } = priceCatalogue(
    {
      "gpt-9": {
        ...FILE["gpt-5-mini"],
        litellm_provider: "openai",
        max_input_tokens: 400_000,
        max_output_tokens: 128_000,
      },
      "embed-9": { ...FILE["text-embedding-3-small"], max_input_tokens: "many" },
      "1024-x-1024/dall-e-3": FILE["1024-x-1024/dall-e-3"],
      "speech-9": { input_cost_per_token: 1e-6, mode: "audio_speech" },
    },
    { date: "2026-11-01" },
  );
  expect(models).toEqual([
    { id: "gpt-9", ownedBy: "openai", kinds: ["chat"], maxInputTokens: 400_000, maxOutputTokens: 128_000 },
    { id: "embed-9", kinds: ["embedding"] },
    { id: "dall-e-3", kinds: ["image"] },
    { id: "speech-9", kinds: [] },
  ]);
  expect(olderThan("2026-11-01")).toEqual([]);
  expect(olderThan("2026-11-02")).toHaveLength(4);
  expect(() => olderThan("yesterday")).toThrow('olderThan: the day must be a day such as 2026-11-01, not "yesterday"');
});

it("makes routes of LiteLLM's file, with the providers' own names", () => {
  const prices = { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 };
  const { routes } = priceCatalogue(
    {
      "gpt-9": { ...prices, litellm_provider: "openai" },
      "azure/gpt-9": { ...prices, litellm_provider: "azure" },
      "azure/*": { ...prices, litellm_provider: "azure" },
      "gpt-8": { litellm_provider: "openai", mode: "chat" },
    },
    { date: "2026-11-01" },
  );
  expect(routes({ azure: "a", openai: "o" })).toEqual({
    "gpt-9": {
      upstreams: [
        { backend: "a", name: "azure", model: "gpt-9" },
        { backend: "o", name: "openai", model: "gpt-9" },
      ],
    },
  });
  expect(() => routes({ openia: "o" })).toThrow('routes: the file has no model of the provider "openia".');
});

const facts = (cost: unknown, more: object = {}): object => ({
  name: "A model",
  release_date: "2026-01-15",
  last_updated: "2026-03-01",
  modalities: { input: ["text"], output: ["text"] },
  limit: { context: 200_000, output: 64_000 },
  cost,
  ...more,
});

const mode = (cost: object | undefined, body: object): object => ({ cost, provider: { body, headers: {} } });

describe("a file of models.dev", () => {
  const DEV = {
    anthropic: {
      id: "anthropic",
      name: "Anthropic",
      models: {
        "claude-9": facts({
          input: 3,
          output: 15,
          cache_read: 0.3,
          cache_write: 3.75,
          context_over_200k: { input: 6, output: 22.5 },
        }),
        "claude-8": facts({ input: 1, output: 5 }, { last_updated: "2025-02" }),
        free: facts(undefined),
        "no-output": facts({ input: 1 }),
      },
    },
    other: {
      id: "other",
      models: {
        "claude-9": facts({ input: 4, output: 16 }, { last_updated: "soon" }),
        "talk-1": facts({
          input: 1,
          output: 2,
          reasoning: 3,
          input_audio: 4,
          output_audio: 5,
          tiers: [
            { input: 2, output: 1, tier: { type: "context", size: 100 } },
            { input: 3, tier: { type: "context", size: 1_000 } },
          ],
        }),
        "text-embed-1": facts({ input: 0.1, output: 0 }),
        "draw-1": facts({ input: 1, output: 1 }, { modalities: { output: ["image"] } }),
      },
    },
  };
  const DATE = { date: "2026-11-01" };

  it("has rows by provider and model, at its own prices", () => {
    const { rows, skipped, wrong } = priceCatalogue(DEV, DATE);
    expect(Object.keys(rows)).toEqual([
      "anthropic/claude-9",
      "anthropic/claude-8",
      "other/claude-9",
      "other/talk-1",
      "other/text-embed-1",
      "other/draw-1",
    ]);
    expect([skipped, wrong]).toEqual([["anthropic/free", "anthropic/no-output"], []]);
    const table = priceTable(rows);
    const costs = (model: string, counts: Partial<Usage>): number =>
      table.price({ ...NO_USAGE, ...counts }, model, "chat");
    expect(costs("anthropic/claude-9", { inputTokens: 100, cacheReadTokens: 90, outputTokens: 10 })).toBe(
      30 + 27 + 150,
    );
    expect(costs("anthropic/claude-9", { inputTokens: 300_000 })).toBe(1_800_000);
    expect(costs("other/talk-1", { inputTokens: 10, outputTokens: 10, reasoningTokens: 4 })).toBe(10 + 12 + 12);
    // A lower price for longer calls is left out.
    expect(costs("other/talk-1", { inputTokens: 200, outputTokens: 10 })).toBe(400 + 20);
    expect(costs("other/talk-1", { inputTokens: 2_000 })).toBe(6_000);
  });

  it("has the models' own names for chosen providers: those of the first that has one", () => {
    const { rows, models } = priceCatalogue(DEV, { ...DATE, providers: ["other", "anthropic"] });
    expect(rows["claude-9"]).toEqual(rows["other/claude-9"]);
    expect(rows["claude-8"]).toEqual(rows["anthropic/claude-8"]);
    expect(models.map(({ id, kinds, ownedBy }) => [id, kinds, ownedBy])).toEqual([
      ["claude-9", ["chat"], "other"],
      ["talk-1", ["chat"], "other"],
      ["text-embed-1", ["embedding"], "other"],
      ["draw-1", ["image"], "other"],
      ["anthropic/claude-9", ["chat"], "anthropic"],
      ["claude-8", ["chat"], "anthropic"],
    ]);
    expect(models[0]).toMatchObject({
      displayName: "A model",
      createdAt: Date.UTC(2026, 0, 15) / 1_000,
      maxInputTokens: 200_000,
      maxOutputTokens: 64_000,
    });
  });

  it("has modes as a factor of the speed, or as the prices of a tier, that their bodies ask for", () => {
    const usual = { input: 4, output: 20, cache_read: 0.4, cache_write: 5 };
    const modes = {
      fast: mode({ input: 10, output: 50, cache_read: 1, cache_write: 12.5 }, { speed: "quick" }),
      priority: mode({ input: 8, output: 40 }, { service_tier: "priority" }),
      free: mode(undefined, { speed: "free" }),
      silent: mode({ input: 9, output: 9 }, { reasoning: "high" }),
      broken: 7,
    };
    const odd = (cost: object) => facts(usual, { experimental: { modes: { odd: mode(cost, { speed: "odd" }) } } });
    const models = {
      "claude-9": facts(usual, { experimental: { modes } }),
      uneven: odd({ input: 8, output: 41 }),
      unknown: odd({ input: 8, output: 40, input_audio: 9 }),
      zero: facts(
        { input: 0, output: 0 },
        { experimental: { modes: { fast: mode({ input: 0, output: 0 }, { speed: "fast" }) } } },
      ),
      wrong: odd({ input: "8" }),
    };
    const { rows, skipped, wrong } = priceCatalogue({ a: { models } }, DATE);
    expect(rows["a/claude-9"]).toMatchObject({
      input: 4,
      factors: { quick: 2.5 },
      tiers: { priority: { input: 8, output: 40 } },
    });
    expect(Object.keys(rows["a/claude-9"]?.factors ?? {})).toEqual(["quick"]);
    expect([rows["a/uneven"], rows["a/unknown"]]).toEqual([
      expect.not.objectContaining({ factors: expect.anything() as object }),
      expect.not.objectContaining({ factors: expect.anything() as object }),
    ]);
    expect(rows["a/zero"]).toMatchObject({ factors: { fast: 1 } });
    expect(skipped).toEqual(["a/uneven (odd)", "a/unknown (odd)"]);
    expect(wrong).toEqual([
      { model: "a/wrong", problem: `The price file's "a/wrong" has a wrong experimental.modes.odd.cost.input: "8"` },
    ]);
  });

  it("dates each row by itself; a row whose date cannot be read is old", () => {
    const { olderThan } = priceCatalogue(DEV, DATE);
    expect(olderThan("2025-01-01")).toEqual(["other/claude-9"]);
    expect(olderThan("2026-03-01")).toEqual(["anthropic/claude-8", "other/claude-9"]);
    expect(olderThan("2026-03-02")).toHaveLength(6);
  });

  it.each<[string, unknown, string]>([
    ["a model that is no object", 3, `The price file's "other/m" must be an object`],
    ["a cost that is no object", facts("free"), `The price file's "other/m" has a wrong cost`],
    ["a price below 0", facts({ input: -1, output: 1 }), `The price file's "other/m" has a wrong cost.input: -1`],
    ["a text as a price", facts({ input: 1, output: "1" }), `The price file's "other/m" has a wrong cost.output: "1"`],
    [
      "a tier that begins nowhere",
      facts({ input: 1, output: 1, tiers: [{ input: 2, tier: { size: -1 } }] }),
      `The price file's "other/m" has a wrong tier`,
    ],
    [
      "a price that fits beside no usual one",
      facts({ input: 1, output: 1e8 }),
      `The price of "other/m": output does not fit beside other prices: 100000000`,
    ],
    [
      "a price with too many digits",
      facts({ input: 1e-20, output: 1 }),
      `The price of "other/m": input has too many digits: 1e-20`,
    ],
  ])("tells %s by name, and keeps all others", (_name, m, problem) => {
    const broken = { ...DEV, other: { ...DEV.other, models: { ...DEV.other.models, m } }, empty: { id: "empty" } };
    const { rows, wrong } = priceCatalogue(broken, DATE);
    expect(wrong).toEqual([
      { model: "other/m", problem },
      { model: "empty", problem: `The price file's provider "empty" has no models` },
    ]);
    expect(rows).toEqual(priceCatalogue(DEV, DATE).rows);
  });

  it.each<[string, unknown, readonly string[], string]>([
    ["a provider that is not there", DEV, ["anthropc"], 'priceCatalogue: the file has no provider "anthropc".'],
    ["providers of a file of LiteLLM", FILE, ["openai"], "priceCatalogue: providers is only for a file of models.dev."],
  ])("refuses %s", (_name, file, providers, message) => {
    expect(() => priceCatalogue(file, { ...DATE, providers })).toThrow(new TypeError(message));
  });

  it("keeps every good row beside any others", () => {
    const amount = fc.oneof(
      fc.double(),
      fc.double({ min: 0, max: 1e9 }),
      fc.integer({ min: -12, max: 9 }).map((power) => 10 ** power),
    );
    // Of prices that are as low as those of one token, a line is printed.
    const print = vi.spyOn(console, "error").mockImplementation(() => {});
    onTestFinished(() => print.mockRestore());
    const value = fc.oneof(fc.anything(), amount, fc.record({ input: amount, output: amount }));
    fc.assert(
      fc.property(fc.dictionary(fc.string(), value), (costs) => {
        const models = Object.fromEntries(Object.entries(costs).map(([name, cost]) => [`x-${name}`, facts(cost)]));
        const { rows } = priceCatalogue({ ...DEV, fuzz: { models } }, DATE);
        expect(rows).toMatchObject(priceCatalogue(DEV, DATE).rows);
        expect(priceTable(rows)).toBeDefined();
      }),
      { numRuns: 200 },
    );
  });
});

/** A price file in the shape that many gateways share: what is read, what is skipped, and what is refused. */

import { expect, it } from "vitest";
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
    max_tokens: 64_000,
    mode: "chat",
  },
  "gpt-5-mini": {
    input_cost_per_token: 0.000_01 / 40 + Number.EPSILON / 1_000_000_000,
    output_cost_per_token: 2e-6,
    input_cost_per_token_priority: 4.5e-7,
    output_cost_per_token_flex: 1e-6,
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

it.each<[string, unknown, string]>([
  ["a list", [], "A price file must be an object of models"],
  ["a text", "{}", "A price file must be an object of models"],
  ["an entry that is no object", { m: 3 }, `The price file's "m" must be an object`],
  [
    "a text as a price",
    { m: { input_cost_per_token: "3e-6" } },
    `The price file's "m" has a wrong input_cost_per_token: "3e-6"`,
  ],
  [
    "a price below 0",
    { m: { output_cost_per_token: -1 } },
    `The price file's "m" has a wrong output_cost_per_token: -1`,
  ],
])("refuses %s", (_name, file, message) => {
  expect(() => priceCatalogue(file, { date: "2026-11-01" })).toThrow(new TypeError(message));
});

it("refuses a date that is no day", () => {
  expect(() => priceCatalogue(FILE, { date: "soon" })).toThrow('must be a day such as 2026-11-01, not "soon"');
});

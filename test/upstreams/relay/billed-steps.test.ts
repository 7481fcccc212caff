/** Answers of messages that an upstream bills in steps: each step costs what its own model costs, by its own length. */

import { describe, expect, it } from "vitest";
import {
  type CallRecord,
  createGateway,
  type Failure,
  memoryQuotaStore,
  type UpstreamObserver,
  type Usage,
} from "../../../src/index.ts";
import { type PriceRows, priceTable } from "../../../src/prices/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";

const NO_CACHE = { cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };

type Step = Readonly<Record<string, unknown>>;

const step = (type: string, input_tokens: number, output_tokens: number, more: Step = {}): Step => ({
  type,
  input_tokens,
  output_tokens,
  ...NO_CACHE,
  ...more,
});

/** A unit is a token of `small`. */
const ROWS: PriceRows = {
  small: { input: 1, output: 2, unit: "unit", per: 1, longer: [{ above: 1_000, input: 10, output: 20 }] },
  large: { input: 100, output: 200, unit: "unit", per: 1, tiers: { priority: { input: 300, output: 600 } } },
};

const TEXT = { type: "text", text: "Hello" };
const fallback = (category?: string | null, more: object = {}): object => ({
  type: "fallback",
  from: { model: "small" },
  to: { model: "large" },
  ...(category !== undefined && { trigger: { type: "refusal", category } }),
  ...more,
});

interface Said {
  readonly model?: string;
  readonly content?: readonly object[];
  readonly usage: object;
  /** The usage at the start of a stream. */
  readonly started?: object;
  /** The model at the start of a stream. */
  readonly startedBy?: string;
  /** True for a stream that breaks off before its end. */
  readonly isCut?: boolean;
}

const event = (type: string, data: object): string => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;

function wire(
  { model = "small", content = [TEXT], usage, started = {}, startedBy = model, isCut = false }: Said,
  isStream: boolean,
): Response {
  const message = { id: "msg_1", type: "message", role: "assistant", stop_sequence: null };
  if (!isStream) return Response.json({ ...message, model, content, stop_reason: "end_turn", usage });
  const begun = { input_tokens: 10, output_tokens: 1, ...NO_CACHE, ...started };
  const blocks = content.flatMap((block, index) => {
    const text = "text" in block ? block.text : undefined;
    const content_block = text === undefined ? block : { ...block, text: "" };
    const delta = { type: "text_delta", text };
    return [
      event("content_block_start", { index, content_block }),
      ...(text === undefined ? [] : [event("content_block_delta", { index, delta })]),
      event("content_block_stop", { index }),
    ];
  });
  const frames = [
    event("message_start", {
      message: { ...message, model: startedBy, content: [], stop_reason: null, usage: begun },
    }),
    ...blocks,
    ...(isCut
      ? []
      : [
          event("message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, usage }),
          event("message_stop", {}),
        ]),
  ];
  return new Response(frames.join(""), { headers: { "content-type": "text/event-stream" } });
}

interface Outcome {
  readonly units: number;
  readonly certainty: string;
  readonly model: string | undefined;
  /** The model that has answered, as an observer of the upstream hears of it. */
  readonly observed: string | undefined;
  readonly usage: Usage | undefined;
  readonly failures: readonly string[];
}

/** @param models The upstream's names of models, by the callers'. */
async function charged(
  said: Said,
  isStream: boolean,
  ask: object = {},
  rows: PriceRows = ROWS,
  models: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  const told: (string | undefined)[] = [];
  const upstream: UpstreamObserver = {
    headers: {},
    run: (work) => work(),
    end: ({ model }) => told.push(model),
  };
  const failures: Failure[] = [];
  const { promise, resolve } = Promise.withResolvers<CallRecord>();
  const gateway = createGateway({
    backend: relay({
      format: "messages",
      baseUrl: "http://up.test/v1",
      ...(Object.keys(models).length > 0 && { models }),
      fetch: () => Promise.resolve(wire(said, isStream)),
    }),
    quotas: memoryQuotaStore([{ apiKey: "sk-test", id: "one", granted: 1e12 }]),
    ...priceTable(rows),
    onCall: resolve,
    observer: { begin: () => ({ upstream: () => upstream, end: () => {} }) },
    onFailure: (failure) => failures.push(failure),
  });
  const headers = { "x-api-key": "sk-test", "content-type": "application/json", "anthropic-version": "2023-06-01" };
  const messages = [{ role: "user", content: "Hi" }];
  const body = JSON.stringify({ model: "small", max_tokens: 4_000, stream: isStream, messages, ...ask });
  const answer = await gateway.fetch(new Request("http://gw/v1/messages", { method: "POST", headers, body }));
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(text);
  const { units, certainty, modelAnswered: model, usage } = await promise;
  return { units, certainty, model, observed: told[0], usage, failures: failures.map(({ text: told }) => told) };
}

const many = (count: number): Step[] => Array.from({ length: count }, () => step("message", 1, 0));

const ADVISOR = { tools: [{ type: "advisor_20260301", name: "advisor", model: "large" }] };
const FALLBACKS = { fallbacks: [{ model: "large" }] };

describe.each([false, true])("the steps of an answer (stream: %s)", (isStream) => {
  it("have the price of the advisor that ran one of them, and of the answering model", async () => {
    const iterations = [
      step("message", 40, 5),
      step("advisor_message", 60, 30, { model: "large" }),
      step("message", 100, 10),
    ];
    const usage = { input_tokens: 140, output_tokens: 15, ...NO_CACHE, iterations };
    const { units, certainty, usage: counted, failures } = await charged({ usage }, isStream, ADVISOR);
    expect([units, certainty, failures]).toEqual([140 + 15 * 2 + 60 * 100 + 30 * 200, "exact", []]);
    expect(counted).toMatchObject({ inputTokens: 200, outputTokens: 45 });
    expect(counted?.steps).toEqual([
      { model: "large", inputTokens: 60, outputTokens: 30 },
      { inputTokens: 40, outputTokens: 5 },
      { inputTokens: 100, outputTokens: 10 },
    ]);
  });

  it("are long or short each by itself", async () => {
    const iterations = [
      step("compaction", 900, 20, { cache_read_input_tokens: 50 }),
      step("message", 900, 30),
      step("message", 1_001, 1),
    ];
    const usage = { input_tokens: 1_901, output_tokens: 31, ...NO_CACHE, iterations };
    const { units, usage: counted } = await charged({ usage }, isStream, { context_management: { edits: [] } });
    expect(units).toBe(950 + 40 + 900 + 60 + 10_010 + 20);
    expect(counted).toMatchObject({ inputTokens: 2_851, outputTokens: 51, cacheReadTokens: 50 });
  });

  it("are all charged where the totals have the input of the first alone", async () => {
    const writes = { cache_creation: { ephemeral_1h_input_tokens: 8 }, cache_creation_input_tokens: 8 };
    const iterations = [step("message", 40, 5), step("message", 100, 10, { cache_read_input_tokens: 40, ...writes })];
    const cache_creation = { ephemeral_1h_input_tokens: 3, ephemeral_5m_input_tokens: 0 };
    const usage = { input_tokens: 40, output_tokens: 15, ...NO_CACHE, cache_creation, iterations };
    const { units, certainty, usage: counted } = await charged({ usage }, isStream);
    expect([units, certainty]).toEqual([40 + 148 + 30, "exact"]);
    expect(counted).toMatchObject({ inputTokens: 188, cacheReadTokens: 40, cacheWritesByTtl: { "1h": 8 } });
  });

  it("tell nothing more than the totals where there is one", async () => {
    const usage = { input_tokens: 40, output_tokens: 5, ...NO_CACHE, iterations: [step("message", 40, 5)] };
    const { units, usage: counted } = await charged({ usage }, isStream);
    expect(units).toBe(50);
    expect(counted).not.toHaveProperty("steps");
  });

  it("leave the uses of tools, and counts that no step has, to the answering model", async () => {
    const iterations = [step("message", 40, 5), step("message", 60, 5), step("new", 5, 5)];
    const server_tool_use = { web_search_requests: 2 };
    const usage = { input_tokens: 110, output_tokens: 10, ...NO_CACHE, server_tool_use, iterations };
    const rows = { ...ROWS, small: { ...ROWS["small"], toolUses: { web_search: 7 } } };
    expect(await charged({ usage }, isStream, {}, rows)).toMatchObject({ units: 110 + 20 + 14, certainty: "exact" });
  });

  it("have the price of reasoning, as far as each has output", async () => {
    const iterations = [step("message", 1, 10), step("message", 1, 10)];
    const output_tokens_details = { thinking_tokens: 15 };
    const usage = { input_tokens: 2, output_tokens: 20, ...NO_CACHE, output_tokens_details, iterations };
    const rows = { small: { input: 1, output: 2, reasoning: 5, unit: "unit", per: 1 } };
    expect(await charged({ usage }, isStream, {}, rows)).toMatchObject({
      units: 2 + 15 * 5 + 5 * 2,
      certainty: "exact",
      usage: { steps: [{ reasoningTokens: 10 }, { reasoningTokens: 5 }] },
    });
  });

  it("give an advisor no tier and no speed of the answer, but its region", async () => {
    const iterations = [step("message", 1, 0), step("advisor_message", 10, 0, { model: "large" })];
    const words = { service_tier: "priority", speed: "fast", inference_geo: "us" };
    const usage = { input_tokens: 1, output_tokens: 0, ...NO_CACHE, ...words, iterations };
    const rows = {
      small: { ...ROWS["small"], factors: { fast: 7, us: 2 } },
      large: { ...ROWS["large"], factors: { fast: 7, us: 1.5 } },
    };
    const said = { usage, started: words, content: [] };
    expect((await charged(said, isStream, ADVISOR, rows)).units).toBe(1 * 7 * 2 + 10 * 100 * 1.5);
  });

  it("of a model without a price cost as the dearest model of the request, and the host hears of it", async () => {
    const iterations = [step("message", 1, 1), step("advisor_message", 10, 10, { model: "large-2026" })];
    const usage = { input_tokens: 1, output_tokens: 1, ...NO_CACHE, iterations };
    const { units, certainty, failures } = await charged({ usage }, isStream, ADVISOR);
    expect([units, certainty]).toEqual([3 + 3_000, "estimated"]);
    expect(failures).toEqual([expect.stringContaining('The model "large-2026" has answered, and has no price.')]);
  });

  it.each<[what: string, change: object]>([
    ["no count", { output_tokens: 1.5 }],
    ["more than any answer", { output_tokens: 900_000 }],
  ])("with %s are not believed", async (_what, change) => {
    const iterations = [step("advisor_message", 10, 10, { model: "large", ...change }), step("message", 40, 5)];
    const usage = { input_tokens: 40, output_tokens: 5, ...NO_CACHE, iterations };
    const { units, certainty, failures } = await charged({ usage }, isStream, ADVISOR);
    expect([units < 100, certainty, failures.length]).toEqual([true, "estimated", 1]);
  });

  it("are at most a thousand", async () => {
    const [believed, doubted] = [1_000, 1_001].map((count) => ({
      input_tokens: count,
      output_tokens: 1,
      ...NO_CACHE,
      iterations: many(count),
    })) as [object, object];
    expect(await charged({ usage: believed }, isStream)).toMatchObject({ units: 1_000 + 2, certainty: "exact" });
    const { certainty, failures } = await charged({ usage: doubted }, isStream);
    expect([certainty, failures]).toEqual(["estimated", [expect.stringContaining("steps")]]);
  });
});

describe.each([false, true])("an answer of a fallback (stream: %s)", (isStream) => {
  const served = step("fallback_message", 30, 7, { model: "large" });
  const totals = { input_tokens: 30, output_tokens: 7, ...NO_CACHE };
  const SERVED = 30 * 100 + 7 * 200;
  const of = (content: readonly object[], declined: readonly Step[], ask: object = FALLBACKS): Promise<Outcome> =>
    charged({ model: "large", content, usage: { ...totals, iterations: [...declined, served] } }, isStream, ask);

  it("has the price of the fallback", async () => {
    expect(await of([fallback("cyber"), TEXT], [step("message", 400, 0, { model: "small" })])).toMatchObject({
      units: SERVED,
      certainty: "exact",
      model: "large",
      usage: { inputTokens: 30, outputTokens: 7, steps: [{ model: "large", inputTokens: 30, outputTokens: 7 }] },
    });
  });

  it.each(["bio", "frontier_llm", "reasoning_extraction"])("costs a refusal of %s, too", async (category) => {
    const declined = step("message", 400, 0, { model: "small" });
    expect(await of([fallback(category), TEXT], [declined])).toMatchObject({
      units: SERVED + 400,
      usage: { inputTokens: 430 },
    });
  });

  it.each([null, undefined])("costs no refusal of the category %s", async (category) => {
    expect(await of([fallback(category), TEXT], [step("message", 400, 0, { model: "small" })])).toMatchObject({
      units: SERVED,
    });
  });

  it("costs a model that declined after some output, under the name of the request", async () => {
    const declined = [
      step("message", 400, 9, { model: "small-2026" }),
      step("message", 450, 0, { model: "small-2026" }),
    ];
    expect(await of([fallback("cyber"), TEXT], declined)).toMatchObject({
      units: SERVED + 400 + 9 * 2 + 450,
      certainty: "exact",
      failures: [],
      usage: { inputTokens: 880, outputTokens: 16 },
    });
  });

  it("tells each of several refusals apart", async () => {
    const rows = { ...ROWS, middle: { input: 10, output: 10, unit: "unit", per: 1 } };
    const content = [
      fallback("cyber", { to: { model: "middle" } }),
      fallback("bio", { from: { model: "middle" } }),
      TEXT,
    ];
    const iterations = [
      step("message", 400, 0, { model: "small" }),
      step("message", 500, 0, { model: "middle" }),
      step("message", 20, 1, { model: "large" }),
      served,
    ];
    const usage = { ...totals, iterations };
    const { units } = await charged({ model: "large", content, usage }, isStream, FALLBACKS, rows);
    expect(units).toBe(5_000 + 20 * 100 + 200 + SERVED);
  });

  it("has the tier, the speed and the region of the answer, and a model that declined has no such tier", async () => {
    const rows = {
      small: { ...ROWS["small"], tiers: { priority: { input: 900 } }, factors: { fast: 3, us: 2 } },
      large: { ...ROWS["large"], factors: { fast: 5, us: 7 } },
    };
    const words = { service_tier: "priority", speed: "fast", inference_geo: "us" };
    const usage = { ...totals, ...words, iterations: [step("message", 40, 1, { model: "small" }), served] };
    const said = { model: "large", content: [fallback("cyber"), TEXT], usage, started: words };
    const { units } = await charged(said, isStream, FALLBACKS, rows);
    expect(units).toBe((40 + 2) * 3 * 2 + (30 * 300 + 7 * 600) * 5 * 7);
  });

  it("has the price of the fallback in a step without a model, too", async () => {
    const iterations = [step("compaction", 3, 0), served];
    const said = { model: "large", content: [fallback("cyber"), TEXT], usage: { ...totals, iterations } };
    expect((await charged(said, isStream, { fallbacks: "default" })).units).toBe(300 + SERVED);
  });

  it("costs as the dearest model of the request where the fallback has no price", async () => {
    const iterations = [step("fallback_message", 30, 7, { model: "large-2026" })];
    const said = { model: "large-2026", usage: { ...totals, iterations } };
    expect(await charged(said, isStream, FALLBACKS)).toMatchObject({
      units: SERVED,
      certainty: "estimated",
      failures: [expect.stringContaining('The model "large-2026" has answered, and has no price.')],
    });
  });

  it("costs a model that declined what the caller's name of it costs", async () => {
    const iterations = [step("message", 400, 9, { model: "up-small" }), served];
    const content = [fallback("cyber", { from: { model: "up-small" } }), TEXT];
    const said = { model: "large", content, usage: { ...totals, iterations } };
    const rows = { small: { ...ROWS["small"] }, large: { ...ROWS["large"] } };
    expect(await charged(said, isStream, FALLBACKS, rows, { small: "up-small" })).toMatchObject({
      units: SERVED + 400 + 18,
      failures: [],
    });
  });

  it("has its own price where the request left the choice of the model to the upstream", async () => {
    expect(await of([TEXT], [], { fallbacks: "default" })).toMatchObject({ units: SERVED, certainty: "exact" });
  });
});

it("a stream that breaks off behind a fallback costs what the fallback costs", async () => {
  const said = { content: [TEXT, fallback("cyber"), TEXT], usage: {}, isCut: true };
  const { units, certainty, model, observed, usage } = await charged(said, true, { fallbacks: "default" });
  expect([certainty, model, observed]).toEqual(["estimated", "large", "large"]);
  expect(units).toBe(10 * 100 + (usage?.outputTokens ?? 0) * 200);
  const before = await charged({ content: [TEXT], usage: {}, isCut: true }, true, FALLBACKS);
  expect([before.model, before.units]).toEqual(["small", 10 + (before.usage?.outputTokens ?? 0) * 2]);
});

it("a stream that breaks off has the speed and the region of its start", async () => {
  const started = { speed: "fast", inference_geo: "us" };
  const rows = { small: { ...ROWS["small"], factors: { fast: 6, us: 1.5 } } };
  const { units, usage } = await charged({ usage: {}, started, isCut: true }, true, {}, rows);
  expect(usage).toMatchObject({ speed: "fast", inferenceGeo: "us" });
  expect(units).toBe((10 + (usage?.outputTokens ?? 0) * 2) * 9);
});

it.each([7, {}, null, ""])("a speed of %j and a region of it are none", async (word) => {
  const usage = { input_tokens: 1, output_tokens: 1, ...NO_CACHE, speed: word, inference_geo: word };
  const answer = await charged({ usage }, false);
  expect(answer).toMatchObject({ units: 3, certainty: "exact" });
  expect(answer.usage).not.toHaveProperty("speed");
  expect(answer.usage).not.toHaveProperty("inferenceGeo");
});

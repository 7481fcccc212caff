/** Calls in which other models run: the charge of each step by itself, and what is held for advisors, speeds and regions. */

import { describe, expect, it } from "vitest";
import type { ApiKeyOptions, ChatEvent, ModelBackend, Price, Usage } from "../../../src/index.ts";
import { INPUT, opened, speaking, WORD } from "../../pipeline/bench.ts";

const ended = (usage: Partial<Usage>): ChatEvent => ({ type: "finish", reason: "stop", usage });

/** Half a unit for each token. */
const half: Price = ({ inputTokens, outputTokens }) => (inputTokens + outputTokens) / 2;

const sound = (tokens: number) => ({ details: { input: [{ modality: "audio", tokens }] } }) as const;

/** A unit for each token of input, and ten more for one of sound. */
const bySound: Price = ({ inputTokens, details }) =>
  (details?.input ?? []).reduce(
    (sum, { modality, tokens }) => sum + (modality === "audio" ? 10 * tokens : 0),
    inputTokens,
  );

describe.each([false, true])("a backend that counts in steps (stream: %s)", (stream) => {
  const TOTALS = { inputTokens: 20, outputTokens: 8 };

  async function charged(usage: Partial<Usage>, price?: Price, ...before: ChatEvent[]) {
    const told: unknown[] = [];
    const noted: Price = (counts, model) => {
      told.push({ model, ...counts });
      return counts.inputTokens + counts.outputTokens;
    };
    const { send, failures, report } = opened({
      backend: speaking(...before, WORD, ended(usage)),
      price: price ?? noted,
      key: { granted: 1_000_000 },
    });
    await (await send({ body: { stream } })).text();
    const { used, estimated } = report() ?? {};
    return { used, estimated, told, failures };
  }

  it("has its price function asked for each step, and for the rest", async () => {
    const whole = {
      ...TOTALS,
      serverToolUses: { web_search: 2 },
      serviceTier: "flex",
      speed: "fast",
      cacheReadTokens: 3,
    };
    const steps = [
      { inputTokens: 5, outputTokens: 2, cacheReadTokens: 1 },
      { model: "other", inputTokens: 7, outputTokens: 4, inferenceGeo: "us" },
    ];
    const { used, estimated, told } = await charged({ ...whole, steps });
    expect([used, estimated]).toEqual([28, 0]);
    const zero = { cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
    const words = { serviceTier: "flex", speed: "fast" };
    const rest = { inputTokens: 8, outputTokens: 2, cacheReadTokens: 2, serverToolUses: { web_search: 2 }, ...words };
    expect(told.slice(-3)).toEqual([
      { ...zero, ...rest, model: "any" },
      { ...zero, inputTokens: 5, outputTokens: 2, cacheReadTokens: 1, ...words, model: "any" },
      { ...zero, inputTokens: 7, outputTokens: 4, inferenceGeo: "us", model: "other" },
    ]);
  });

  it("is not asked for a rest of nothing", async () => {
    const steps = [
      { inputTokens: 20, outputTokens: 3 },
      { model: "other", outputTokens: 5 },
    ];
    const { told } = await charged({ ...TOTALS, steps, details: { input: [{ modality: "text", tokens: 20 }] } });
    expect(told.slice(-2)).toMatchObject([
      { model: "any", outputTokens: 3 },
      { model: "other", outputTokens: 5 },
    ]);
    expect(told.at(-3)).not.toMatchObject({ inputTokens: 0 });
  });

  it("is asked for the uses of tools alone", async () => {
    const steps = [TOTALS];
    const { told } = await charged({ ...TOTALS, serverToolUses: { web_search: 1 }, steps });
    expect(told.at(-2)).toMatchObject({ inputTokens: 0, outputTokens: 0, serverToolUses: { web_search: 1 } });
  });

  it("is asked for no part without its whole", async () => {
    const parts = { cacheReadTokens: 4, cacheWriteTokens: 6, cacheWritesByTtl: { "1h": 6 }, reasoningTokens: 5 };
    const { told } = await charged({
      ...TOTALS,
      ...parts,
      toolUseTokens: 9,
      steps: [{ inputTokens: 16, outputTokens: 6 }],
    });
    expect(told.at(-2)).toEqual({
      model: "any",
      inputTokens: 4,
      outputTokens: 2,
      cacheReadTokens: 4,
      cacheWriteTokens: 0,
      cacheWritesByTtl: {},
      reasoningTokens: 2,
      toolUseTokens: 4,
    });
    expect((await charged({ ...TOTALS, cacheReadTokens: 4, steps: [TOTALS] })).told.at(-2)).not.toMatchObject({
      inputTokens: 0,
    });
  });

  it("has each step rounded up, and nothing else", async () => {
    const steps = [
      { inputTokens: 19, outputTokens: 0 },
      { inputTokens: 1, outputTokens: 8 },
    ];
    expect((await charged({ ...TOTALS, steps }, half)).used).toBe(10 + 5);
  });

  it("has the counts of a kind of content in the step alone", async () => {
    const steps = [{ inputTokens: 10, ...sound(4) }];
    expect((await charged({ ...TOTALS, ...sound(6), steps }, bySound)).used).toBe(10 + 40 + 10 + 20);
  });

  it.each<[what: string, steps: unknown]>([
    ["more input", [{ inputTokens: 21 }]],
    ["more output, in sum", [{ outputTokens: 5 }, { model: "other", outputTokens: 4 }]],
    ["more of a cache", [{ cacheReadTokens: 1 }]],
    ["more written for a time", [{ cacheWritesByTtl: { "1h": 1 } }]],
    ["more uses of tools", [{ serverToolUses: { web_search: 1 } }]],
  ])("of which steps have %s than the whole is charged by the whole, as an estimate", async (_what, steps) => {
    const { used, estimated, failures } = await charged({ ...TOTALS, steps } as Partial<Usage>);
    expect([used, estimated]).toEqual([28, 28]);
    expect(failures).toHaveLength(1);
    expect(failures[0]?.text).toContain("steps that are more than the whole");
  });

  it.each<[what: string, steps: unknown]>([
    ["no list", { length: 1 }],
    ["a text", ["step"]],
    ["nothing", [null]],
    ["a count below zero", [{ inputTokens: -1 }]],
    ["half a token", [{ outputTokens: 0.5 }]],
    ["a model that is no text", [{ model: 7 }]],
    ["steps of its own", [{ steps: [] }]],
    ["too many", Array.from({ length: 1_001 }, () => ({}))],
  ])("whose steps are %s is charged by estimate", async (_what, steps) => {
    const { estimated, used, failures } = await charged({ ...TOTALS, steps } as Partial<Usage>);
    expect(estimated).toBe(used);
    expect(failures).toHaveLength(1);
    expect(failures[0]?.text).toContain("a usage that is no count: steps.");
  });

  it("is charged by estimate where all its names are those of a wire format, and may have these beside its own", async () => {
    const wire = { prompt_tokens: 20, completion_tokens: 8 };
    const { estimated, used, failures } = await charged(wire as Partial<Usage>);
    expect(estimated).toBe(used);
    expect(failures).toHaveLength(1);
    expect(failures[0]?.text).toContain("a usage that is no count: prompt_tokens.");
    expect(await charged({ ...TOTALS, ...wire })).toMatchObject({ estimated: 0, failures: [] });
  });

  it("may have null for steps", async () => {
    const { used, estimated, failures } = await charged({ ...TOTALS, steps: null } as unknown as Partial<Usage>);
    expect([used, estimated, failures]).toEqual([28, 0, []]);
  });

  it("may name the model that goes on with its answer", async () => {
    const { told } = await charged(TOTALS, undefined, { type: "usage", usage: {}, model: "other" });
    expect(told.at(-1)).toMatchObject({ model: "other", inputTokens: 20, outputTokens: 8 });
    const named = { type: "usage", usage: {}, model: 7 } as unknown as ChatEvent;
    expect((await charged(TOTALS, undefined, named)).failures[0]?.text).toContain("model");
  });

  it("has the whole charged by the default price", async () => {
    const { send, report } = opened({
      backend: speaking(WORD, ended({ ...TOTALS, steps: [{ inputTokens: 20 }, { model: "other", outputTokens: 8 }] })),
    });
    await (await send({ body: { stream } })).text();
    expect(report()).toMatchObject({ used: 28, estimated: 0 });
  });
});

/** Prices of 1 for `any`, and 100 for `large`, of each token. */
const dear: Price = ({ inputTokens, outputTokens, speed, inferenceGeo }, model) => {
  if (model !== "any" && model !== "large") throw new Error("There is no such price.");
  const factor = (speed === "fast" ? 6 : 1) * (inferenceGeo === "us" ? 2 : 1);
  return factor * (model === "large" ? 100 : 1) * (inputTokens + outputTokens);
};

/** Returns the status of a request, and the units that its backend finds held. */
async function holdOf(
  body: object,
  granted = 1e9,
  price: Price = dear,
  path = "/v1/messages",
): Promise<{ status: number; held: number | undefined }> {
  let held: number | undefined;
  let find: (() => number | undefined) | undefined;
  const backend: ModelBackend = {
    takesUnknown: true,
    async *chat() {
      held = find?.();
      yield WORD;
    },
  };
  const key: Omit<ApiKeyOptions, "apiKey"> = { granted };
  const { send, report } = opened({ backend, price, key });
  find = () => report()?.held;
  const { status } = await send({ body, path });
  return { status, held };
}

/** The output limit of the bench. */
const LIMIT = 50;

const advisor = (more: object = {}): object => ({
  tools: [{ type: "advisor_20260301", name: "advisor", model: "large", ...more }],
});

/** The price without the advices. */
const free: Price = (usage, model, ...of) => (model === "large" ? 0 : dear(usage, model, ...of));

const byReasoning: Price = ({ inputTokens, outputTokens, reasoningTokens }) =>
  inputTokens + outputTokens - reasoningTokens + 3 * reasoningTokens;

describe("the hold of a request with an advisor", () => {
  it.each<[what: string, body: object, advices: number, tokens: number]>([
    ["four advices where the tool names no limit", advisor(), 4, 4_096],
    ["as many advices as the tool allows", advisor({ max_uses: 2 }), 2, 4_096],
    ["no more than four", advisor({ max_uses: 20 }), 4, 4_096],
    ["none where the tool allows none", advisor({ max_uses: 0 }), 0, 0],
    ["the output limit of the tool", advisor({ max_uses: 1, max_tokens: 1_024 }), 1, 1_024],
    ["four where its limits are none", advisor({ max_uses: -1, max_tokens: 1e300 }), 4, 4_096],
    ["nothing for a tool that is no advisor", { tools: [{ type: "draw_1", name: "advisor", model: "large" }] }, 0, 0],
    ["nothing for a tool of a similar name", { tools: [{ type: "advisory_1", name: "a", model: "large" }] }, 0, 0],
    ["nothing for an advisor of the requested model", { tools: [{ type: "advisor_1", name: "advisor" }] }, 0, 0],
  ])("is of %s", async (_what, body, advices, tokens) => {
    const { held: own = 0 } = await holdOf(body, 1e9, free);
    expect(own).toBeGreaterThan(LIMIT);
    expect(await holdOf(body)).toEqual({ status: 200, held: own + advices * 100 * (own + tokens) });
  });

  it("has no more reasoning in an advice than it has output", async () => {
    const only: Price = (usage, model, ...of) => (model === "large" ? 0 : byReasoning(usage, model, ...of));
    const body = advisor({ max_uses: 1, max_tokens: 10 });
    const { held: own = 0 } = await holdOf(body, 1e9, only);
    const input = own - 3 * LIMIT;
    expect((await holdOf(body, 1e9, byReasoning)).held).toBe(own + input + LIMIT + 3 * 10);
  });

  it("has the settings of another maker's tool", async () => {
    const parameters = { model: "large", max_uses: 1, max_completion_tokens: 100 };
    const body = { tools: [{ type: "openrouter:advisor", parameters }], max_completion_tokens: LIMIT };
    const { held: own = 0 } = await holdOf(body, 1e9, free, "/v1/chat/completions");
    const { held } = await holdOf(body, 1e9, dear, "/v1/chat/completions");
    expect(held).toBe(own + 100 * (own + 100));
  });

  it("has an advisor that a turn adds", async () => {
    const definition = { type: "advisor_20260301", name: "advisor", model: "large", max_uses: 1, max_tokens: 2_000 };
    const messages = [
      { role: "user", content: "ten tokens" },
      { role: "system", content: [{ type: "tool_addition", tool: { type: "tool_definition", definition } }] },
      { role: "user", content: "Hi" },
    ];
    const { held: own = 0 } = await holdOf({ messages }, 1e9, free);
    expect((await holdOf({ messages })).held).toBe(own + 100 * (own + 2_000));
  });

  it("needs no more than one advice", async () => {
    const { held: own = 0 } = await holdOf(advisor(), 1e9, free);
    const input = own - LIMIT;
    const least = input + 1 + 100 * (input + 1 + 4_096);
    expect(await holdOf(advisor(), least)).toEqual({ status: 200, held: least });
    expect(await holdOf(advisor(), least - 1)).toEqual({ status: 429, held: undefined });
    // The output limit is lowered only for what one advice leaves.
    const { send } = opened({ key: { granted: own + 100 * (own + 4_096) }, price: dear });
    expect((await send({ body: advisor() })).headers.get("polygate-output-limit")).toBeNull();
    const lowered = opened({ key: { granted: own - 1 + 100 * (own - 1 + 4_096) }, price: dear });
    expect((await lowered.send({ body: advisor() })).headers.get("polygate-output-limit")).toBe(String(LIMIT - 1));
  });

  it("is refused for an advisor without a price", async () => {
    const { status } = await holdOf(advisor({ model: "unknown" }));
    expect(status).toBeGreaterThanOrEqual(400);
  });
});

/** A unit for each token, and prices of the uses of tools, of which only these are known. */
const PER_USE = {
  web_search: 1_000,
  web_search_prompt: 3_500,
  maps: 1_400,
  maps_prompt: 2_500,
  file_search: 250,
  code_interpreter: 3_000,
  image_generation: 4_000,
  x_search: 500,
} as const;
const byUse: Price = ({ inputTokens, outputTokens, serverToolUses = {} }) =>
  Object.entries(serverToolUses).reduce((sum, [name, uses]) => {
    if (!Object.hasOwn(PER_USE, name)) throw new Error("There is no such price.");
    return sum + uses * PER_USE[name as keyof typeof PER_USE];
  }, inputTokens + outputTokens);

type Body = Readonly<Record<string, unknown>> & { readonly path: string };

describe("the hold of a request with a tool that its provider runs", () => {
  const CHAT = { path: "/v1/chat/completions", max_completion_tokens: LIMIT };
  const RESPONSES = { path: "/v1/responses", input: "ten tokens", max_output_tokens: LIMIT };
  const GEMINI = {
    path: "/v1beta/models/any:generateContent",
    contents: [{ role: "user", parts: [{ text: "ten tokens" }] }],
    generationConfig: { maxOutputTokens: LIMIT },
  };
  const MESSAGES = { path: "/v1/messages" };
  const SEARCH = { type: "web_search_20250305", name: "web_search" };

  it.each<[what: string, body: Body, uses: Readonly<Record<string, number>>]>([
    ["a search of messages", { ...MESSAGES, tools: [SEARCH] }, { web_search: 4 }],
    ["its own limit", { ...MESSAGES, tools: [{ ...SEARCH, max_uses: 2 }] }, { web_search: 2 }],
    ["a higher limit", { ...MESSAGES, tools: [{ ...SEARCH, max_uses: 9 }] }, { web_search: 9 }],
    ["a limit without end", { ...MESSAGES, tools: [{ ...SEARCH, max_uses: 1e9 }] }, { web_search: 64 }],
    ["no use", { ...MESSAGES, tools: [{ ...SEARCH, max_uses: 0 }] }, {}],
    ["a search that may not be called", { ...MESSAGES, tools: [SEARCH], tool_choice: { type: "none" } }, {}],
    ["a function of the name", { ...MESSAGES, tools: [{ name: "web_search", input_schema: {} }] }, {}],
    ["a tool without a price", { ...MESSAGES, tools: [SEARCH, { type: "constructor_2", name: "x" }] }, {}],
    ["a model that searches", { ...CHAT, web_search_options: {} }, { web_search: 1 }],
    ["a search of OpenRouter", { ...CHAT, tools: [{ type: "openrouter:web_search" }] }, { web_search: 4 }],
    ["a search of Responses", { ...RESPONSES, tools: [{ type: "web_search_preview_2025_03_11" }] }, { web_search: 4 }],
    ["a limit of all tools", { ...RESPONSES, tools: [{ type: "x_search" }], max_tool_calls: 3 }, { x_search: 3 }],
    [
      "code and files",
      {
        ...RESPONSES,
        tools: [
          { type: "code_interpreter", container: { type: "auto" } },
          { type: "file_search", vector_store_ids: ["vs_1"] },
        ],
      },
      { code_interpreter: 1, file_search: 4 },
    ],
    ["a search of Google", { ...GEMINI, tools: [{ googleSearch: {} }] }, { web_search: 4, web_search_prompt: 1 }],
    ["Google Maps", { ...GEMINI, tools: [{ google_maps: {} }] }, { maps: 4, maps_prompt: 1 }],
    ["code of Google", { ...GEMINI, tools: [{ codeExecution: {} }] }, { code_interpreter: 1 }],
  ])("has the price of %s", async (_what, { path, ...body }, uses) => {
    const { held: own = 0 } = await holdOf(body, 1e9, free, path);
    const ofTools = Object.entries(uses).reduce(
      (sum, [name, count]) => sum + count * PER_USE[name as keyof typeof PER_USE],
      0,
    );
    expect(own).toBeGreaterThan(LIMIT);
    expect(await holdOf(body, 1e9, byUse, path)).toEqual({ status: 200, held: own + ofTools });
  });

  it("needs no more than one use", async () => {
    const body = { tools: [SEARCH] };
    const { held: own = 0 } = await holdOf(body, 1e9, dear);
    const least = own - LIMIT + 1 + PER_USE.web_search;
    expect(await holdOf(body, least, byUse)).toEqual({ status: 200, held: least });
    expect(await holdOf(body, least - 1, byUse)).toEqual({ status: 429, held: undefined });
  });
});

/** A unit for each token, and a hundred for one of a picture by the model that draws. */
const byPicture: Price = ({ inputTokens, outputTokens, details }, model) => {
  if (model !== "any" && model !== "large") throw new Error("There is no such price.");
  const [written] = details?.output ?? [];
  const pictures = model === "large" && written?.modality === "image" ? written.tokens : 0;
  return inputTokens + outputTokens + 99 * pictures;
};

/** As before, and a million for a picture. */
const byNumber: Price = (usage, ...of) =>
  byPicture(usage, ...of) + 1_000_000 * (usage.serverToolUses?.["image_generation"] ?? 0);

/** A unit for each token that is none of a picture. */
const byText: Price = ({ inputTokens, outputTokens }, model) =>
  model === "any" && outputTokens <= LIMIT ? inputTokens + outputTokens : 0;

const heldBy = async (body: object, price: Price = byPicture): Promise<number | undefined> =>
  (await holdOf(body, 1e9, price, "/v1/responses")).held;

describe("the hold of a request with a tool that draws", () => {
  const RESPONSES = { input: "ten tokens", max_output_tokens: LIMIT };
  const drawing = (more: object = {}): object => ({ ...RESPONSES, tools: [{ type: "image_generation", ...more }] });

  const elsewhere = drawing({
    type: "openrouter:image_generation",
    parameters: { model: "large", quality: "medium" },
  });

  it.each<[what: string, body: object, pictures: number, tokens: number, factor: number]>([
    ["four pictures of the best quality", drawing({ model: "large" }), 4, 6_240, 100],
    ["a quality that is chosen later", drawing({ model: "large", quality: "auto" }), 4, 6_240, 100],
    ["its quality", drawing({ model: "large", quality: "medium" }), 4, 1_584, 100],
    ["the limit of all tools", { ...drawing({ model: "large", quality: "low" }), max_tool_calls: 1 }, 1, 408, 100],
    ["the settings of another maker's tool", elsewhere, 4, 1_584, 100],
    ["a model that it leaves open", drawing(), 4, 6_240, 1],
    ["a model without a price", drawing({ model: "unknown" }), 4, 6_240, 1],
    ["no picture that may not be drawn", { ...drawing({ model: "large" }), tool_choice: "none" }, 0, 0, 0],
  ])("has the tokens of %s", async (_what, body, pictures, tokens, factor) => {
    const own = (await heldBy(RESPONSES)) ?? 0;
    const plain = (await heldBy(body, byText)) ?? 0;
    expect(own).toBeGreaterThan(LIMIT);
    expect(await heldBy(body)).toBe(plain + pictures * (plain - LIMIT + factor * tokens));
  });

  it("has the price of a picture where this is higher", async () => {
    const body = drawing({ model: "large", quality: "low" });
    const pictures = ((await heldBy(body, byNumber)) ?? 0) - ((await heldBy({ ...body, tool_choice: "none" })) ?? 0);
    expect(pictures).toBe(4_000_000);
  });

  it("needs no more than one picture", async () => {
    const body = drawing({ model: "large", quality: "low" });
    const own = ((await heldBy({ ...body, tool_choice: "none" })) ?? 0) - LIMIT;
    const least = own + 1 + own + 100 * 408;
    expect(await holdOf(body, least, byPicture, "/v1/responses")).toEqual({ status: 200, held: least });
    expect(await holdOf(body, least - 1, byPicture, "/v1/responses")).toEqual({ status: 429, held: undefined });
  });
});

it.each<[what: string, body: object, factor: number]>([
  ["the usual words", {}, 1],
  ["a speed", { speed: "fast" }, 6],
  ["a region", { inference_geo: "us" }, 2],
  ["both", { speed: "fast", inference_geo: "us" }, 12],
  ["the speed of a fallback", { fallbacks: [{ model: "any" }, { model: "any", speed: "fast" }] }, 6],
  ["words that are none", { speed: 7, inference_geo: null, fallbacks: "default" }, 1],
])("the hold of a request has the price of %s", async (_what, body, factor) => {
  expect(await holdOf(body)).toEqual({ status: 200, held: factor * (INPUT + LIMIT) });
});

const byTokens: Price = ({ inputTokens, outputTokens }) => inputTokens + outputTokens;

const sendPriced = (body: object) =>
  opened({ key: { granted: 9_000_000 }, price: byTokens, backend: speaking(WORD) }).send({ body });

describe("a hostile request with prices", () => {
  it("may have a type of a tool of any length, which is read once", async () => {
    // A search from each version in such a type would take hours.
    const type = `x${"_0".repeat(500_000)}\n`;
    expect((await sendPriced({ tools: [{ type, name: "any" }] })).status).toBeLessThan(500);
  });

  it("may name at most 256 further models", async () => {
    const fallbacks = Array.from({ length: 257 }, (_, at) => ({ model: `model-${at}` }));
    expect((await sendPriced({ fallbacks: fallbacks.slice(1) })).status).toBe(200);
    const refused = await sendPriced({ fallbacks });
    expect([refused.status, await refused.text()]).toEqual([
      400,
      expect.stringContaining("fallbacks.256.model: A request may name at most 256 further models."),
    ]);
  });
});

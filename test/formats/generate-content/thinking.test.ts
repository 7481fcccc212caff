/** The thinking config that models of the generate-content format get: each only what it knows, and the difference is told. */

import { describe, expect, it } from "vitest";
import { generateContentCodec } from "../../../src/formats/generate-content/upstream.ts";
import {
  type ChatRequest,
  createGateway,
  type JsonObject,
  memoryQuotaStore,
  type Reasoning,
} from "../../../src/index.ts";
import type { ReasoningControl } from "../../../src/model/chat-request.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { rawUpstream, whole } from "../../upstreams/relay/raw-upstream.ts";

function thinking(
  model: string,
  reasoning: Reasoning,
  control?: ReasoningControl,
  maxOutputTokens = 100_000,
): { config: unknown; told: string[] } {
  const request: ChatRequest = {
    model,
    messages: [{ role: "user", parts: [{ type: "text", text: "Hi" }] }],
    system: [],
    tools: [],
    maxOutputTokens,
    stopSequences: [],
    stream: false,
    reasoning,
  };
  const { body, conversions } = generateContentCodec({ reasoning: () => control }).encodeRequest(request);
  const told = conversions.map(({ field, conversion }) => `${field} ${conversion}`);
  return { config: (body["generationConfig"] as JsonObject)["thinkingConfig"], told };
}

const budget = (budgetTokens: number): Reasoning => ({ type: "enabled", budgetTokens });
const effort = (level: NonNullable<Extract<Reasoning, { type: "adaptive" }>["effort"]>): Reasoning => ({
  type: "adaptive",
  effort: level,
});
const ADAPTIVE: Reasoning = { type: "adaptive" };
const DISABLED: Reasoning = { type: "disabled" };

const BUDGET = "reasoning.budgetTokens approximated";
const EFFORT = "reasoning.effort approximated";
const shown = (config: object): object => ({ includeThoughts: true, ...config });

describe.each<[model: string, cases: readonly [Reasoning, object | undefined, ...string[]][]]>([
  [
    "gemini-3-pro-preview",
    [
      [budget(1_024), shown({ thinkingLevel: "LOW" }), BUDGET],
      [budget(8_191), shown({ thinkingLevel: "HIGH" }), BUDGET],
      [budget(30_000), shown({ thinkingLevel: "HIGH" }), BUDGET],
      [effort("low"), shown({ thinkingLevel: "LOW" })],
      [effort("minimal"), shown({ thinkingLevel: "LOW" }), EFFORT],
      [effort("medium"), shown({ thinkingLevel: "HIGH" }), EFFORT],
      [effort("max"), shown({ thinkingLevel: "HIGH" }), EFFORT],
      [ADAPTIVE, shown({})],
      [DISABLED, { thinkingLevel: "LOW" }, EFFORT],
    ],
  ],
  [
    "gemini-3.1-pro-preview",
    [
      [effort("minimal"), shown({ thinkingLevel: "LOW" }), EFFORT],
      [effort("medium"), shown({ thinkingLevel: "MEDIUM" })],
    ],
  ],
  [
    "google/gemini-3-flash-preview",
    [
      [effort("minimal"), shown({ thinkingLevel: "MINIMAL" })],
      [budget(8_191), shown({ thinkingLevel: "MEDIUM" }), BUDGET],
      [DISABLED, { thinkingLevel: "MINIMAL" }, EFFORT],
    ],
  ],
  [
    "gemini-2.5-pro",
    [
      [budget(8_191), shown({ thinkingBudget: 8_191 })],
      [budget(1), shown({ thinkingBudget: 128 }), BUDGET],
      [budget(60_000), shown({ thinkingBudget: 32_768 }), BUDGET],
      [effort("high"), shown({ thinkingBudget: 16_384 }), EFFORT],
      [ADAPTIVE, shown({ thinkingBudget: -1 })],
      [DISABLED, { thinkingBudget: 128 }, BUDGET],
    ],
  ],
  [
    "gemini-2.5-flash",
    [
      [budget(1), shown({ thinkingBudget: 1 })],
      [budget(32_000), shown({ thinkingBudget: 24_576 }), BUDGET],
      [effort("max"), shown({ thinkingBudget: 24_576 }), EFFORT],
      [DISABLED, { thinkingBudget: 0 }],
    ],
  ],
  [
    "gemini-2.5-flash-lite",
    [
      [budget(100), shown({ thinkingBudget: 512 }), BUDGET],
      [DISABLED, { thinkingBudget: 0 }],
    ],
  ],
  ...["gemini-1.5-pro", "gemini-2.0-flash", "gemini-2.5-flash-image", "gemma-3-27b-it"].map(
    (model): [string, [Reasoning, object | undefined, ...string[]][]] => [
      model,
      [
        [budget(1_024), undefined, "reasoning dropped"],
        [effort("high"), undefined, "reasoning dropped"],
        [DISABLED, undefined],
      ],
    ],
  ),
  [
    "my-own",
    [
      [budget(1), shown({ thinkingBudget: 1 })],
      [budget(60_000), shown({ thinkingBudget: 60_000 })],
      [effort("medium"), shown({ thinkingLevel: "MEDIUM" })],
      [effort("xhigh"), shown({ thinkingLevel: "HIGH" }), EFFORT],
      [ADAPTIVE, shown({ thinkingBudget: -1 })],
      [DISABLED, { thinkingBudget: 0 }],
    ],
  ],
])("%s", (model, cases) => {
  it.each(cases)("is asked for %j with %j", (reasoning, config, ...told) => {
    expect(thinking(model, reasoning)).toEqual({ config, told });
  });
});

it("hides the thoughts that nobody wants to see", () => {
  const hidden = { ...budget(1_024), visible: false };
  expect(thinking("gemini-2.5-pro", hidden).config).toEqual({ includeThoughts: false, thinkingBudget: 1_024 });
  expect(thinking("gemini-3-pro", hidden).config).toEqual({ includeThoughts: false, thinkingLevel: "LOW" });
});

describe("a host's word overrides what is known of a name", () => {
  it.each<[string, ReasoningControl, object | undefined]>([
    ["my-own", "none", undefined],
    ["my-own", "effort", shown({ thinkingLevel: "LOW" })],
    ["my-own", "budget", shown({ thinkingBudget: 1_024 })],
    ["gemini-3-pro", "budget", shown({ thinkingBudget: 1_024 })],
    ["gemini-2.5-pro", "effort", shown({ thinkingLevel: "LOW" })],
    ["gemini-2.0-flash", "any", shown({ thinkingBudget: 1_024 })],
  ])("for %s by %s", (model, control, config) => {
    expect(thinking(model, budget(1_024), control).config).toEqual(config);
  });
});

const completion = (model: string): JsonObject => ({
  model,
  reasoning_effort: "high",
  messages: [{ role: "user", content: "When?" }],
});

const shownBudget = (thinkingBudget: number): object => shown({ thinkingBudget });

describe("the room for the answer beside a budget", () => {
  const OFF = { thinkingBudget: 0 };

  it.each<[model: string, limit: number, Reasoning, config: object, ...told: string[]]>([
    ["gemini-2.5-flash", 10_000, budget(8_000), shownBudget(8_000)],
    ["gemini-2.5-flash", 10_000, budget(8_191), shownBudget(8_000), BUDGET],
    ["gemini-2.5-flash", 10_000, effort("high"), shownBudget(8_000), EFFORT],
    ["gemini-2.5-flash", 10_000, ADAPTIVE, shownBudget(-1)],
    ["gemini-2.5-flash", 257, budget(8_191), shownBudget(1), BUDGET],
    ["gemini-2.5-flash", 256, budget(8_191), OFF, "reasoning dropped"],
    ["gemini-2.5-flash-lite", 767, effort("low"), OFF, "reasoning dropped"],
    ["gemini-2.5-flash-lite", 768, effort("low"), shownBudget(512), EFFORT],
    ["gemini-2.5-pro", 100, budget(8_191), shownBudget(128), BUDGET],
    ["model-a", 1_000, budget(8_191), shownBudget(744), BUDGET],
  ])("of %s in a limit of %i tokens", (model, limit, reasoning, config, ...told) => {
    expect(thinking(model, reasoning, undefined, limit)).toEqual({ config, told });
  });

  const ANSWER = {
    candidates: [{ content: { role: "model", parts: [{ text: "Noon." }] }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 3, totalTokenCount: 8 },
  };
  type Listed = readonly { id: string; maxOutputTokens?: number }[];

  /** Asks through a relay without an output limit. Returns the upstream's config, and the headers of the answer. */
  async function asked(path: string, request: JsonObject, granted = 1_000_000, models?: Listed) {
    await using upstream = await rawUpstream((socket) =>
      socket.end(whole(200, "application/json", JSON.stringify(ANSWER))),
    );
    const backend = relay({
      format: "generate-content",
      baseUrl: upstream.url,
      apiKey: "k",
      ...(models && { models }),
    });
    const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-test", granted }]) });
    const headers = { authorization: "Bearer sk-test", "content-type": "application/json" };
    const body = JSON.stringify(request);
    const response = await gateway.fetch(new Request(`http://gateway.test${path}`, { method: "POST", headers, body }));
    expect([await response.text(), response.status]).toEqual([expect.stringContaining("Noon."), 200]);
    await gateway.close();
    const sent = JSON.parse(upstream.requests[0]?.body ?? "{}") as JsonObject;
    const [dropped, approximated] = ["dropped", "approximated"].map((kind) => response.headers.get(`polygate-${kind}`));
    return { config: (sent["generationConfig"] ?? sent["generation_config"]) as JsonObject, dropped, approximated };
  }
  const NATIVE = "/v1beta/models/gemini-2.5-flash:generateContent";
  const contents = [{ role: "user", parts: [{ text: "When?" }] }];
  const ask = (thinkingBudget: number, granted?: number, models?: Listed) =>
    asked(
      NATIVE,
      { contents, generationConfig: { thinkingConfig: shownBudget(thinkingBudget) } } as JsonObject,
      granted,
      models,
    );
  const sentConfig = (maxOutputTokens: number, thinkingBudget: number): object => ({
    config: { maxOutputTokens, thinkingConfig: shownBudget(thinkingBudget) },
  });

  it("is in the limit that a caller does not name, whatever the budget", async () => {
    expect(await ask(8_191)).toMatchObject({ ...sentConfig(16_383, 8_191), dropped: null, approximated: null });
    // An answer of 8,192 tokens would be less than a fifth of the limit.
    expect(await ask(36_000)).toMatchObject({ ...sentConfig(45_000, 36_000), approximated: null });
  });

  it("is within the limit of the model, and within the balance", async () => {
    const listed = await ask(8_191, 1_000_000, [{ id: "gemini-2.5-flash", maxOutputTokens: 8_000 }]);
    expect(listed).toMatchObject({ ...sentConfig(8_000, 6_400), approximated: "reasoning.budgetTokens" });
    const { config, approximated } = await ask(8_191, 5_000);
    const limit = Number(config["maxOutputTokens"]);
    expect(limit).toBeGreaterThan(4_900);
    expect(limit).toBeLessThan(5_000);
    expect(config["thinkingConfig"]).toEqual(shownBudget(limit - Math.ceil(limit / 5)));
    expect(approximated).toBe("reasoning.budgetTokens");
    const poor = await ask(8_191, 200);
    expect(poor).toMatchObject({ config: { thinkingConfig: OFF }, dropped: "reasoning" });
    expect(poor.config["thinkingConfig"]).toEqual(OFF);
  });

  it("leaves the caller's own limit and spelling alone", async () => {
    const own = { max_output_tokens: 1_000, thinking_config: { include_thoughts: true, thinking_budget: 8_191 } };
    expect((await asked(NATIVE, { contents, generation_config: own })).config).toEqual(own);
    const { max_output_tokens: _limit, ...open } = own;
    const { config } = await asked(NATIVE, { contents, generation_config: open }, 5_000);
    const within = (config["thinking_config"] as JsonObject)["thinking_budget"];
    expect(within).toBeLessThan(4_000);
  });

  it("is made for an effort too, and not for a model that does not reason", async () => {
    const path = "/v1/chat/completions";
    expect(await asked(path, completion("gemini-2.5-flash"))).toMatchObject(sentConfig(8_192 + 16_384, 16_384));
    const { config, dropped } = await asked(path, completion("gemini-2.0-flash"));
    expect([config, dropped]).toEqual([{ maxOutputTokens: 8_192 }, "reasoning"]);
  });
});

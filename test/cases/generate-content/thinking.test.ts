/** The thinking config that models of the generate-content format get: each only what it knows, and the difference is told. */

import { describe, expect, it } from "vitest";
import { generateContentCodec } from "../../../src/formats/generate-content/index.ts";
import type { ChatRequest, JsonObject, Reasoning } from "../../../src/index.ts";
import type { ReasoningControl } from "../../../src/kinds/chat/request.ts";

function thinking(
  model: string,
  reasoning: Reasoning,
  control?: ReasoningControl,
): { config: unknown; told: string[] } {
  const request: ChatRequest = {
    model,
    messages: [{ role: "user", parts: [{ type: "text", text: "Hi" }] }],
    system: [],
    tools: [],
    maxOutputTokens: 100,
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

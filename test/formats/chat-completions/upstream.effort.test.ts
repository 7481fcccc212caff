/** How an upstream is asked to reason, and what its reasoning models refuse. */

import { describe, expect, it } from "vitest";
import { chatCompletionsCodec } from "../../../src/formats/chat-completions/upstream.ts";
import type { CodecOptions } from "../../../src/formats/format.ts";
import type { ChatRequest } from "../../../src/index.ts";
import { asking, type Sent } from "./upstream.stage.ts";

type Wanted = NonNullable<ChatRequest["reasoning"]>;
const effort = (level: NonNullable<Extract<Wanted, { type: "adaptive" }>["effort"]>): Wanted => ({
  type: "adaptive",
  effort: level,
});
const budget = (budgetTokens: number): Wanted => ({ type: "enabled", budgetTokens });

describe("the effort", () => {
  it.each<[string, Wanted, string | undefined, Sent["conversions"]]>([
    ["gpt-4o", effort("high"), undefined, { reasoning: "dropped" }],
    ["openai/gpt-4.1-mini", { type: "disabled" }, undefined, {}],
    ["gpt-3.5-turbo", budget(2_000), undefined, { reasoning: "dropped" }],
    ["gpt-5-chat-latest", effort("low"), undefined, { reasoning: "dropped" }],
    ["o3-mini", budget(8_192), "medium", { "reasoning.budgetTokens": "approximated" }],
    ["o4-mini", effort("minimal"), "low", { "reasoning.effort": "approximated" }],
    ["o3", { type: "disabled" }, "low", { "reasoning.effort": "approximated" }],
    ["gpt-5", effort("minimal"), "minimal", {}],
    ["gpt-5-mini", effort("max"), "high", { "reasoning.effort": "approximated" }],
    ["gpt-5-pro", effort("low"), "high", { "reasoning.effort": "approximated" }],
    ["gpt-5.1", { type: "disabled" }, "none", {}],
    ["gpt-5.2", effort("max"), "xhigh", { "reasoning.effort": "approximated" }],
    ["gpt-oss-120b", effort("high"), "high", {}],
    ["deepseek-v4", effort("max"), "max", {}],
  ])("for %s of %j is %s", (model, reasoning, level, conversions) => {
    const { body, conversions: told } = chatCompletionsCodec().encodeRequest(asking([], { model, reasoning }));
    expect(body["reasoning_effort"]).toBe(level);
    expect(Object.fromEntries(told.map(({ field, conversion }) => [field, conversion]))).toEqual(conversions);
  });

  it("is what the host says of a model", () => {
    const options: CodecOptions = { reasoning: (model) => (model === "plain" ? "none" : undefined) };
    const level = (model: string): unknown =>
      chatCompletionsCodec(options).encodeRequest(asking([], { model, reasoning: effort("high") })).body[
        "reasoning_effort"
      ];
    expect([level("plain"), level("other"), level("gpt-4o")]).toEqual([undefined, "high", undefined]);
  });

  it.each<[string, Wanted, CodecOptions, number]>([
    ["gpt-5", effort("high"), {}, 24_576],
    ["gpt-4o", effort("high"), {}, 8_192],
    ["gpt-4o", budget(16_384), {}, 8_192],
    ["local", effort("high"), {}, 8_192],
    ["local", effort("high"), { reasoning: () => "effort" }, 24_576],
    ["local", budget(16_384), {}, 24_576],
    ["local", budget(16_384), { reasoning: () => "none" }, 8_192],
  ])(
    "has room in the default limit only for a model that is known to reason: %s, %j, %o",
    (model, reasoning, options, limit) => {
      const raised = { maxOutputTokens: 24_576, maxAnswerTokens: 8_192 };
      const request = asking([], { model, reasoning, ...raised });
      const native = { format: "chat-completions", body: { model, messages: [] }, betas: [] };
      for (const one of [request, { ...request, native }])
        expect(chatCompletionsCodec(options).encodeRequest(one).body["max_completion_tokens"]).toBe(limit);
      const lowered = chatCompletionsCodec(options).encodeRequest({ ...request, maxOutputTokens: 10 });
      expect(lowered.body["max_completion_tokens"]).toBe(10);
    },
  );

  const sampling = {
    temperature: 0.5,
    topP: 0.9,
    presencePenalty: 1,
    frequencyPenalty: 0,
    logprobs: { top: 2 },
    stopSequences: ["END"],
  };
  const wire = {
    temperature: 0.5,
    top_p: 0.9,
    presence_penalty: 1,
    frequency_penalty: 0,
    logprobs: true,
    top_logprobs: 2,
    stop: ["END"],
  };

  it.each<[string, Partial<ChatRequest>, object, Sent["conversions"]]>([
    [
      "gpt-5",
      sampling,
      {},
      {
        temperature: "dropped",
        topP: "dropped",
        presencePenalty: "dropped",
        logprobs: "dropped",
        stopSequences: "emulated",
      },
    ],
    ["o3", { temperature: 1, topP: 1 }, {}, {}],
    [
      "gpt-5.1",
      { ...sampling, reasoning: { type: "disabled" } },
      { ...wire, stop: undefined, reasoning_effort: "none" },
      { stopSequences: "emulated" },
    ],
    ["gpt-4o", sampling, wire, {}],
    ["any-model", sampling, wire, {}],
  ])("of %s decides about sampling", (model, changes, fields, conversions) => {
    const { body, conversions: told } = chatCompletionsCodec().encodeRequest(asking([], { ...changes, model }));
    const { model: _model, messages: _messages, max_completion_tokens: _limit, ...others } = body;
    expect(others).toEqual(JSON.parse(JSON.stringify(fields)));
    expect(Object.fromEntries(told.map(({ field, conversion }) => [field, conversion]))).toEqual(conversions);
  });
});

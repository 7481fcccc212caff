/** Single requests that ask for thinking and sampling as agents do: in another format than the upstream's, each is adapted and accepted. */

import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/model/json.ts";
import { completionTools, googleTools, messagesTools, responseTools } from "./clients.ts";
import { TURNS } from "./script.ts";
import { KEY, MAKERS, type MakerName, relayedMaker, serveGateway } from "./stage.ts";

const ASKED = "Plan a day in Oslo.";

interface Form {
  readonly path: (model: string) => string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: (model: string) => JsonObject;
}

const FORMS: Readonly<Record<string, Form>> = {
  messages: {
    path: () => "/v1/messages",
    headers: { "x-api-key": KEY, "anthropic-version": "2023-06-01" },
    body: (model) => ({
      model,
      max_tokens: 8_192,
      messages: [{ role: "user", content: ASKED }],
      tools: messagesTools() as never,
    }),
  },
  "generate-content": {
    path: (model) => `/v1beta/models/${model}:generateContent`,
    headers: { "x-goog-api-key": KEY },
    body: () => ({ contents: [{ role: "user", parts: [{ text: ASKED }] }], tools: googleTools() as never }),
  },
  "chat-completions": {
    path: () => "/v1/chat/completions",
    headers: { authorization: `Bearer ${KEY}` },
    body: (model) => ({ model, messages: [{ role: "user", content: ASKED }], tools: completionTools() as never }),
  },
  responses: {
    path: () => "/v1/responses",
    headers: { authorization: `Bearer ${KEY}` },
    body: (model) => ({ model, input: ASKED, tools: responseTools() as never }),
  },
};

const google = (thinkingConfig: JsonObject, sampling: JsonObject = {}): JsonObject => ({
  generationConfig: { thinkingConfig, ...sampling },
});
const FORCED = { functionCallingConfig: { mode: "ANY" } };

const ASKS: readonly (readonly [caller: string, name: string, more: JsonObject])[] = [
  [
    "generate-content",
    "as Gemini CLI",
    google({ includeThoughts: true, thinkingBudget: 8_191 }, { temperature: 1, topP: 0.95, topK: 64 }),
  ],
  ["generate-content", "a budget of the model's choice", google({ includeThoughts: true, thinkingBudget: -1 })],
  ["generate-content", "no thinking", google({ thinkingBudget: 0 }, { temperature: 0.2, topP: 0.5 })],
  ["generate-content", "a level", google({ includeThoughts: true, thinkingLevel: "HIGH" }, { temperature: 1 })],
  ["generate-content", "a low level and a small limit", google({ thinkingLevel: "LOW" }, { maxOutputTokens: 500 })],
  ["generate-content", "a forced tool", { ...google({ thinkingBudget: 2_048 }), toolConfig: FORCED }],
  ["messages", "a budget", { thinking: { type: "enabled", budget_tokens: 4_000 }, temperature: 1 }],
  ["messages", "adaptive thinking", { thinking: { type: "adaptive" }, output_config: { effort: "max" } }],
  ["messages", "no thinking", { thinking: { type: "disabled" }, temperature: 0.3, top_k: 5 }],
  ["messages", "a forced tool", { tool_choice: { type: "any" }, temperature: 0 }],
  ["chat-completions", "an effort and sampling", { reasoning_effort: "high", temperature: 0.3, top_p: 0.9 }],
  ["chat-completions", "an effort and a forced tool", { reasoning_effort: "medium", tool_choice: "required" }],
  ["chat-completions", "an effort and a small limit", { reasoning_effort: "high", max_completion_tokens: 300 }],
  ["chat-completions", "the least effort", { reasoning_effort: "minimal" }],
  ["chat-completions", "no effort", { reasoning_effort: "none", temperature: 0.7 }],
  ["responses", "an effort and sampling", { reasoning: { effort: "high" }, temperature: 0.3, top_p: 0.9 }],
  ["responses", "as Codex", { reasoning: { effort: "medium", summary: "auto" }, store: false, tool_choice: "auto" }],
  ["responses", "a forced tool", { reasoning: { effort: "low" }, tool_choice: "required" }],
  ["responses", "the greatest effort and a small limit", { reasoning: { effort: "xhigh" }, max_output_tokens: 300 }],
  ["responses", "no effort", { reasoning: { effort: "none" }, temperature: 0.7 }],
];

const UPSTREAMS = [
  "messages",
  "messages-by-effort",
  "generate-content",
  "responses",
  "responses-without-thinking",
  "openai",
  "openai-without-thinking",
  "deepseek",
  "mistral",
] as const satisfies readonly MakerName[];

describe.each(UPSTREAMS)("before %s", (name) => {
  const { format } = MAKERS[name];

  it.each(ASKS.filter(([caller]) => caller !== format().format))("%s: %s", async (caller, _name, more) => {
    const form = FORMS[caller];
    if (!form) throw new Error(`There is no form of ${caller}.`);
    const forced = TURNS[0] ?? { thought: "", calls: [] };
    await using maker = await relayedMaker(name, { script: () => forced });
    await using gateway = await serveGateway(maker.backend);
    const response = await fetch(gateway.url + form.path(name), {
      method: "POST",
      headers: { ...form.headers, "content-type": "application/json" },
      body: JSON.stringify({ ...form.body(name), ...more }),
    });
    await response.body?.cancel();
    expect(maker.upstream.violations).toEqual([]);
    expect(response.status).toBe(200);
    for (const { body } of maker.upstream.requests) expect(roomOf(body)).toBeGreaterThanOrEqual(1_000);
  });
});

/** Returns the tokens for the answer beside the budget of its thinking. */
function roomOf({ max_tokens: limit, thinking }: JsonObject): number {
  const { budget_tokens: budget } = (thinking ?? {}) as { readonly budget_tokens?: number };
  return budget === undefined ? Number.POSITIVE_INFINITY : (limit as number) - budget;
}

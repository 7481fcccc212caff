/** What a backend is asked for a generate-content request: every field in the neutral model, and the request as it came. */

import { describe, expect, it } from "vitest";
import { type ChatRequest, DEFAULT_LIMITS, type Tool, type ToolChoice } from "../../../src/index.ts";
import { type Mount, openStage, sharedStage } from "../../hosts/stage.ts";
import { type Body, calling, CLOCK, configured, having, MINIMAL, withFunction, withTool } from "./bodies.ts";
import { GENERATE, METHODS, send } from "./calls.ts";
import { PARTS, SCHEMAS } from "./carried-parts.ts";
import { FIELDS, HI } from "./carried.ts";

const clock: Tool = {
  type: "function",
  name: "clock",
  inputSchema: { type: "object", properties: { zone: { type: "string" } } },
};

const TOOLS: readonly (readonly [name: string, body: Body, expected: readonly Tool[]])[] = [
  ["a function", withFunction({}), [clock]],
  ["a function's description", withFunction({ description: "Tells." }), [{ ...clock, description: "Tells." }]],
  [
    "a function without parameters",
    withFunction({ parameters: undefined }),
    [{ ...clock, inputSchema: { type: "object", properties: {} } }],
  ],
  [
    "a function of JSON Schema, word for word",
    withFunction({ parameters: undefined, parametersJsonSchema: { type: "object", min_length: 1 } }),
    [{ ...clock, inputSchema: { type: "object", min_length: 1 } }],
  ],
  ["code execution", withTool({ codeExecution: {} }), [{ type: "code-execution" }]],
  ["a single tool", having({ tools: { function_declarations: [CLOCK] } }), [clock]],
  [
    "the provider's own tools",
    having({ tools: [{ googleSearch: { timeRangeFilter: {} } }, { url_context: {} }] }),
    [
      { type: "provider", format: "generate-content", definition: { googleSearch: { timeRangeFilter: {} } } },
      { type: "provider", format: "generate-content", definition: { urlContext: {} } },
    ],
  ],
  [
    "tools of several kinds, in order",
    having({ tools: [{ codeExecution: {} }, { functionDeclarations: [CLOCK] }, { googleSearch: {} }] }),
    [
      { type: "code-execution" },
      clock,
      { type: "provider", format: "generate-content", definition: { googleSearch: {} } },
    ],
  ],
];

const CHOICES: readonly (readonly [name: string, config: Body, expected: ToolChoice | undefined])[] = [
  ["nothing", {}, undefined],
  ["MODE_UNSPECIFIED", { mode: "MODE_UNSPECIFIED" }, undefined],
  ["AUTO", { mode: "AUTO" }, { type: "auto", parallel: true }],
  ["NONE", { mode: "NONE" }, { type: "none" }],
  ["ANY", { mode: "ANY" }, { type: "required", parallel: true }],
  [
    "ANY of several",
    { mode: "ANY", allowedFunctionNames: ["clock", "ping"] },
    { type: "required", parallel: true, names: ["clock", "ping"] },
  ],
  ["ANY of one", { mode: "ANY", allowedFunctionNames: ["ping"] }, { type: "tool", name: "ping", parallel: true }],
  [
    "VALIDATED of several",
    { mode: "VALIDATED", allowedFunctionNames: ["clock", "ping"] },
    { type: "auto", parallel: true, names: ["clock", "ping"] },
  ],
];

/** Lists of nothing, and values that stand for none: as good as absent. */
const ABSENT: readonly (readonly [name: string, fields: Body, field: keyof ChatRequest])[] = [
  ["no modalities", { responseModalities: [] }, "modalities"],
  ["no media resolution", { mediaResolution: "MEDIA_RESOLUTION_UNSPECIFIED" }, "mediaResolution"],
  ["plain text", { responseMimeType: "text/plain" }, "responseFormat"],
  ["no logprobs", { responseLogprobs: false }, "logprobs"],
  ["an empty thinking config", { thinkingConfig: {} }, "reasoning"],
  ["a temperature of null", { temperature: null }, "temperature"],
];

const called = (name: string, id?: string): Body => ({ functionCall: { name, args: {}, ...(id && { id }) } });
const answered = (name: string, id?: string): Body => ({
  functionResponse: { name, response: {}, ...(id && { id }) },
});
const talk = (...turns: readonly (readonly Body[])[]): Body => ({
  contents: turns.map((parts, index) => ({ role: index % 2 === 0 ? "model" : "user", parts })),
});

export function neutralSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  async function asked(body: Body): Promise<ChatRequest> {
    const response = await send(stage(), GENERATE, body);
    expect(response.status).toBe(200);
    await response.text();
    return stage().backend.asked;
  }

  async function idsOf(body: Body): Promise<string[]> {
    const { messages } = await asked(body);
    return messages.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === "tool-call" ? part.id : part.type === "tool-result" ? part.callId : [])),
    );
  }

  it("fills nothing in that was not said, but for the limit of the output", async () => {
    expect(await asked(MINIMAL)).toEqual({
      model: "model-a",
      maxOutputTokens: DEFAULT_LIMITS.defaultMaxOutputTokens,
      limitedByDefault: true,
      messages: [HI],
      system: [],
      tools: [],
      stopSequences: [],
      stream: false,
      native: expect.objectContaining({ format: "generate-content", body: MINIMAL, betas: [] }) as object,
    });
  });

  it("takes the limit of the output from its host", async () => {
    await using own = await openStage(mount, { limits: { defaultMaxOutputTokens: 55 } });
    await (await send(own, GENERATE, MINIMAL)).text();
    expect(own.backend.asked.maxOutputTokens).toBe(55);
  });

  it.each(METHODS)("says whether the answer is streamed: %s", async (name, path) => {
    await (await send(stage(), path, MINIMAL)).text();
    expect(stage().backend.asked.stream).toBe(name !== "complete");
  });

  it.each(FIELDS)("carries %s", async (_name, body, expected) => {
    const request: Partial<ChatRequest> = await asked(body);
    for (const [field, value] of Object.entries(expected)) expect(request).toHaveProperty(field, value);
  });

  it.each(ABSENT)("takes %s for nothing", async (_name, fields, field) => {
    expect(await asked(configured(fields))).not.toHaveProperty(field);
  });

  it.each(PARTS)("carries %s as a part", async (_name, body, expected) => {
    const { messages } = await asked(body);
    expect(messages.at(-1)?.parts).toEqual([expected]);
  });

  it.each(TOOLS)("carries %s", async (_name, body, expected) => {
    expect((await asked(body)).tools).toEqual(expected);
  });

  it.each(CHOICES)("carries the calling of %s", async (_name, config, expected) => {
    expect((await asked(calling(config))).toolChoice).toEqual(expected);
  });

  it.each(SCHEMAS)("carries as JSON Schema %s", async (_name, body, expected) => {
    const { responseFormat } = await asked(body);
    expect(responseFormat).toEqual({ type: "json", schema: expected });
    expect(JSON.stringify(responseFormat)).toBe(JSON.stringify({ type: "json", schema: expected }));
  });

  describe("ids of function calls", () => {
    it("pair an answer with its call by name, whatever the order", async () => {
      const [a, b, forB, forA] = await idsOf(talk([called("a"), called("b")], [answered("b"), answered("a")]));
      expect([forA, forB]).toEqual([a, b]);
      expect(a).not.toBe(b);
    });

    it("pair the answers to one function in the order of its calls", async () => {
      const [first, second, ...answers] = await idsOf(talk([called("a"), called("a")], [answered("a"), answered("a")]));
      expect(answers).toEqual([first, second]);
    });

    it("pair an answer with the newest turn that calls", async () => {
      const [, second, paired] = await idsOf(talk([called("a")], [{ text: "Wait." }], [called("a")], [answered("a")]));
      expect(paired).toBe(second);
    });

    it("pair an answer without one with a call that none by id has answered", async () => {
      const ids = await idsOf(talk([called("a", "x"), called("a", "y")], [answered("a", "x"), answered("a")]));
      expect(ids).toEqual(["x", "y", "x", "y"]);
    });

    it("never are ones that the caller has given", async () => {
      const ids = await idsOf(
        talk([called("a"), called("b", "call_1"), called("c")], [answered("b", "call_1"), answered("x", "call_2")]),
      );
      const [a, b, c] = ids;
      expect(b).toBe("call_1");
      expect(new Set([a, b, c, "call_2"]).size).toBe(4);
    });

    it("are made for an answer without a call", async () => {
      const [id, other] = await idsOf(talk([{ text: "Hm." }], [answered("a"), answered("a")]));
      expect(id).toEqual(expect.any(String));
      expect(other).not.toBe(id);
    });
  });

  it.each(["args", "response"])("leaves the user's keys in %s alone, whatever they are", async (field) => {
    const json = '{"__proto__":{"polluted":true},"constructor":1,"mime_type":{"inlineData":[{"file_uri":null}]},"":0}';
    const own = JSON.parse(json) as object;
    const part =
      field === "args"
        ? { functionCall: { name: "f", args: own } }
        : { function_response: { name: "f", response: own } };
    const [message] = (await asked({ contents: [{ role: "model", parts: [part] }] })).messages;
    expect(JSON.stringify(message?.parts)).toContain(json);
    expect(Object.keys(Object.prototype)).toEqual([]);
  });

  it("keeps in the native body what the neutral model has no word for", async () => {
    const body = having({
      labels: { team: "t" },
      contents: [{ role: "user", parts: [{ text: "Hi", video_metadata: { fps: 1 } }], id: "m1" }],
      tools: [{ function_declarations: [{ ...CLOCK, behavior: "BLOCKING" }], mystery_tool: { deep_field: 1 } }],
      generation_config: { top_k: 3, thinking_config: { thinking_level: "HIGH" } },
    });
    expect((await asked(body)).native?.body).toEqual(body);
  });
}

/** The generate-content format in short: both directions of a request and of an answer, and what surprises in a body. */

import { describe, expect, it } from "vitest";
import { decodeRequest, encodeRequest } from "../../src/formats/generate-content/request.ts";
import {
  type ChatEvent,
  type ChatRequest,
  createGateway,
  type GatewayError,
  type JsonObject,
  memoryQuotaStore,
} from "../../src/index.ts";
import { readBody } from "../cases/generate-content/read-body.ts";
import { decodeAnswer, StreamDecoder } from "./generate-content.decoded.ts";

const TARGET = { model: "m", stream: false, defaultMaxOutputTokens: 100 };

const decoded = (raw: unknown): Omit<ChatRequest, "native"> => {
  const { native: _, ...request } = decodeRequest(readBody(JSON.parse(JSON.stringify(raw))), TARGET);
  return request;
};

function refusal(raw: unknown): Pick<GatewayError, "code" | "message"> {
  try {
    readBody(raw);
  } catch (error) {
    const { code, message } = error as GatewayError;
    return { code, message };
  }
  throw new Error("The body was accepted.");
}

const asking = (...parts: unknown[]): { contents: unknown } => ({ contents: [{ role: "user", parts }] });

describe("a generate-content request", () => {
  it("survives the wire and back", () => {
    const request: ChatRequest = {
      model: "m",
      messages: [
        { role: "user", parts: [{ type: "text", text: "Hi" }] },
        {
          role: "assistant",
          parts: [
            { type: "reasoning", text: "Hm.", signature: "c2ln", maker: "generate-content" },
            {
              type: "tool-call",
              id: "a",
              name: "clock",
              input: { topP: 1, top_p: 2 },
              signature: "c2ln",
              maker: "generate-content",
            },
          ],
        },
        {
          role: "user",
          parts: [{ type: "tool-result", callId: "a", name: "clock", parts: [{ type: "json", value: { t: "noon" } }] }],
        },
      ],
      system: [{ type: "text", text: "Be brief." }],
      tools: [
        {
          type: "function",
          name: "clock",
          inputSchema: { type: "object", properties: { any_of: { type: "string" } } },
        },
        { type: "code-execution" },
        { type: "provider", format: "generate-content", definition: { googleSearch: {} } },
      ],
      toolChoice: { type: "tool", name: "clock", parallel: true },
      maxOutputTokens: 300,
      stopSequences: ["END"],
      stream: false,
      temperature: 2,
      reasoning: { type: "enabled", budgetTokens: 5, visible: true },
      responseFormat: { type: "enum", values: ["a", "b"] },
      logprobs: { top: 3 },
      speech: { language: "de-DE", speakers: [{ speaker: "Joe", voice: "Kore" }] },
      safety: [{ category: "harassment", threshold: "off" }],
    };
    expect(decoded(encodeRequest(request))).toEqual(request);
  });

  it("keeps the user's keys, the dangerous ones too", () => {
    const args = JSON.parse('{"top_p":1,"__proto__":{"inline_data":2},"constructor":{"prototype":3}}') as JsonObject;
    const properties = JSON.parse(
      '{"__proto__":{"type":"STRING","min_length":"1"},"any_of":{"type":"NULL"}}',
    ) as JsonObject;
    const { messages, tools } = decodeRequest(
      readBody({
        contents: [{ role: "model", parts: [{ function_call: { name: "f", args } }] }],
        tools: [{ function_declarations: [{ name: "f", parameters: { type: "OBJECT", properties } }] }],
      }),
      TARGET,
    );
    const [part] = messages[0]?.parts ?? [];
    expect(JSON.stringify(part?.type === "tool-call" && part.input)).toBe(JSON.stringify(args));
    const [tool] = tools;
    expect(JSON.stringify(tool?.type === "function" && tool.inputSchema)).toBe(
      '{"type":"object","properties":{"__proto__":{"type":"string","minLength":1},"any_of":{"type":"null"}}}',
    );
  });

  it("is not copied where it is in camelCase", () => {
    const body = { ...asking({ inlineData: { mimeType: "image/png", data: "AAAA" } }), generationConfig: { topP: 1 } };
    expect(readBody(body)).toBe(body);
  });

  it.each([
    ["generation_config.top_p: must be between 0 and 1", { generation_config: { top_p: 2 } }],
    [
      "generation_config.logprobs: needs response_logprobs to be true",
      { generation_config: { logprobs: 2, response_logprobs: false } },
    ],
    ["generationConfig.top_p: is given twice, as top_p and as topP", { generationConfig: { top_p: 1, topP: 1 } }],
    ["contents.parts.inline_data.mime_type: is required", { contents: { parts: { inline_data: { data: "AAAA" } } } }],
    ["generationConfig: must be an object, not an array", { generationConfig: [] }],
  ])("is refused in its caller's words: %s", (message, fields) => {
    expect(refusal({ ...asking({ text: "Hi" }), ...fields })).toEqual({ code: "invalid_request", message });
  });

  it("takes null for absent, in either spelling", () => {
    expect(decoded({ ...asking({ text: "Hi" }), generation_config: { topP: null, top_p: 0.5 }, tools: null })).toEqual(
      decoded({ ...asking({ text: "Hi" }), generationConfig: { topP: 0.5, top_p: null } }),
    );
  });
});

/** The text of an answer that is made of these events. */
async function answer(events: readonly ChatEvent[], method: string): Promise<string> {
  const gateway = createGateway({
    backend: {
      async *chat() {
        yield* events;
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
  });
  const response = await gateway.fetch(
    new Request(`http://gateway.test/v1beta/models/m:${method}`, {
      method: "POST",
      headers: { "x-goog-api-key": "sk-test", "content-type": "application/json" },
      body: JSON.stringify({ contents: "Hi", generationConfig: { candidateCount: 2 } }),
    }),
  );
  return response.text();
}

const USAGE = { inputTokens: 9, outputTokens: 5, cacheReadTokens: 2, reasoningTokens: 1, toolUseTokens: 3 };
const EVENTS: readonly ChatEvent[] = [
  { type: "start", id: "r1", model: "m-1" },
  { type: "reasoning-delta", text: "Hm." },
  { type: "reasoning-signature", signature: "c2ln", maker: "generate-content" },
  { type: "text-delta", text: "\u2028Hi" },
  { type: "text-delta", text: "Other", candidate: 1 },
  { type: "tool-call", id: "a", name: "f", input: { x: [1] }, signature: "c2ln", maker: "generate-content" },
  { type: "annotation", annotation: { type: "safety", ratings: [{ category: "medical", probability: "low" }] } },
  { type: "annotation", annotation: { type: "token-count", tokens: 4 }, candidate: 1 },
  { type: "finish", reason: "tool-calls", usage: USAGE },
  { type: "finish", reason: "length", candidate: 1 },
];

const ofCandidate = (events: readonly ChatEvent[], candidate: number): ChatEvent[] =>
  events.filter((event) => (("candidate" in event && event.candidate) || 0) === candidate);

describe("a generate-content answer", () => {
  it("survives the wire and back", async () => {
    const text = await answer(EVENTS, "generateContent");
    const events = decodeAnswer(JSON.parse(text));
    expect(ofCandidate(events, 0)).toEqual(ofCandidate(EVENTS, 0));
    expect(ofCandidate(events, 1)).toEqual(ofCandidate(EVENTS, 1));
  });

  it("survives as a stream, wherever that is cut", async () => {
    const text = await answer(EVENTS, "streamGenerateContent?alt=sse");
    expect(text).not.toContain("\u2028");
    for (let cut = 0; cut <= text.length; cut++) {
      const decoder = new StreamDecoder();
      const events = [...decoder.feed(text.slice(0, cut)), ...decoder.feed(text.slice(cut)), ...decoder.end()];
      expect(events).toHaveLength(EVENTS.length);
      expect(events).toEqual(expect.arrayContaining([...EVENTS]));
    }
  });

  it("is the same in both forms of a stream", async () => {
    const array = JSON.parse(await answer(EVENTS, "streamGenerateContent")) as unknown[];
    const lines = (await answer(EVENTS, "streamGenerateContent?alt=sse")).split("\n\n").filter((line) => line !== "");
    expect(array).toEqual(lines.map((line) => JSON.parse(line.slice("data: ".length))));
  });

  it("gives the events before an upstream's error, and then that", () => {
    const decoder = new StreamDecoder();
    const chunk = { candidates: [{ content: { parts: [{ text: "Hel" }] } }] };
    const text = [chunk, {}, { error: { code: 503, message: "down at 10.0.0.7" } }].map(
      (data) => `data: ${JSON.stringify(data)}\n\n`,
    );
    expect(decoder.feed(text.join(""))).toEqual([{ type: "start" }, { type: "text-delta", text: "Hel" }]);
    expect(() => decoder.end()).toThrow("The model backend is not available.");
  });
});

/** Requests of other formats as an upstream of Responses accepts them. */

import { describe, expect, it } from "vitest";
import { responsesCodec } from "../../../src/formats/responses/upstream.ts";
import type { ChatRequest } from "../../../src/index.ts";

const codec = responsesCodec();

const asked = (more: Partial<ChatRequest> = {}): ChatRequest => ({
  model: "m",
  messages: [{ role: "user", parts: [{ type: "text", text: "Hi" }] }],
  system: [],
  tools: [],
  maxOutputTokens: 100,
  stopSequences: [],
  stream: false,
  ...more,
});

const told = (request: ChatRequest): string[] =>
  codec.encodeRequest(request).conversions.map(({ field, conversion }) => `${field} ${conversion}`);

describe("a request to an upstream of Responses", () => {
  it("asks for nothing that is stored, and for reasoning that can be sent back", () => {
    expect(codec.encodeRequest(asked())).toEqual({
      path: "/responses",
      headers: {},
      body: {
        model: "m",
        input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] }],
        max_output_tokens: 100,
        store: false,
        include: ["reasoning.encrypted_content"],
      },
      conversions: [],
    });
  });

  it("has the least limit that the official service accepts", () => {
    const request = asked({ maxOutputTokens: 1 });
    expect(codec.encodeRequest(request).body["max_output_tokens"]).toBe(16);
    expect(told(request)).toEqual(["maxOutputTokens approximated"]);
  });

  it("names its user in at most 64 characters, or not at all", () => {
    expect(codec.encodeRequest(asked({ endUser: "u".repeat(64) })).body).toHaveProperty("safety_identifier");
    const request = asked({ endUser: "u".repeat(65) });
    expect(codec.encodeRequest(request).body).not.toHaveProperty("safety_identifier");
    expect(told(request)).toEqual(["endUser dropped"]);
  });

  it("asks a model that does not reason for no reasoning, and for its sampling", () => {
    const request = asked({ model: "gpt-4.1", reasoning: { type: "adaptive", effort: "low" }, temperature: 0.5 });
    const { body } = codec.encodeRequest(request);
    expect(body).toMatchObject({ temperature: 0.5 });
    expect(body).not.toHaveProperty("reasoning");
    expect(body).not.toHaveProperty("include");
    expect(told(request)).toEqual(["reasoning dropped"]);
  });

  it("asks a model that reasons for the nearest effort, and not for sampling", () => {
    const request = asked({ model: "gpt-5", reasoning: { type: "adaptive", effort: "max" }, topP: 0.5 });
    const { body } = codec.encodeRequest(request);
    expect(body["reasoning"]).toEqual({ effort: "high", summary: "auto" });
    expect(body).not.toHaveProperty("top_p");
    expect(told(request).toSorted()).toEqual(["reasoning.effort approximated", "topP dropped"]);
  });

  it("has pictures and documents in the results of tools, and instructions as they are divided", () => {
    const picture = { type: "base64", mediaType: "image/png", data: "AAAA" } as const;
    const { body, conversions } = codec.encodeRequest(
      asked({
        system: [
          { type: "text", text: "Be brief." },
          { type: "text", text: "Be kind." },
        ],
        messages: [
          { role: "user", parts: [{ type: "text", text: "Hi" }] },
          { role: "assistant", parts: [{ type: "tool-call", id: "call_1", name: "look", input: {} }] },
          {
            role: "user",
            parts: [
              {
                type: "tool-result",
                callId: "call_1",
                parts: [
                  { type: "text", text: "Seen" },
                  { type: "media", kind: "image", source: picture },
                ],
              },
            ],
          },
        ],
      }),
    );
    expect(conversions).toEqual([]);
    expect((body["input"] as object[])[0]).toEqual({
      type: "message",
      role: "system",
      content: [
        { type: "input_text", text: "Be brief." },
        { type: "input_text", text: "Be kind." },
      ],
    });
    expect((body["input"] as object[]).at(-1)).toEqual({
      type: "function_call_output",
      call_id: "call_1",
      output: [
        { type: "input_text", text: "Seen" },
        { type: "input_image", image_url: "data:image/png;base64,AAAA", detail: "auto" },
      ],
    });
  });
});

/** Each format's table of conversions gives reasons, and a request in the upstream's own format keeps its body. */

import { describe, expect, it } from "vitest";
import { CONVERSIONS as CHAT_COMPLETIONS_CONVERSIONS } from "../../src/formats/chat-completions/conversions.ts";
import { CONVERSIONS as GENERATE_CONTENT_CONVERSIONS } from "../../src/formats/generate-content/conversions.ts";
import { CONVERSIONS as MESSAGES_CONVERSIONS } from "../../src/formats/messages/conversions.ts";
import { CONVERSIONS as RESPONSES_CONVERSIONS } from "../../src/formats/responses/conversions.ts";
import { CODECS, requestOf } from "./upstream-answers.ts";

describe.each([
  ["messages", MESSAGES_CONVERSIONS],
  ["generate-content", GENERATE_CONTENT_CONVERSIONS],
  ["chat-completions", CHAT_COMPLETIONS_CONVERSIONS],
  ["responses", RESPONSES_CONVERSIONS],
])("the conversions of %s", (_name, conversions) => {
  it("say why in a sentence", () => {
    for (const conversion of Object.values(conversions))
      expect("why" in conversion ? conversion.why : "Nothing.").toMatch(/^\w.*\.$/);
  });
});

describe("a request of the same format", () => {
  it("is its own body with the gateway's decisions laid over it (messages)", () => {
    const body = {
      model: "alias",
      max_tokens: 9_000,
      messages: [{ role: "user", content: "Hi" }],
      moon: { full: true },
    };
    const native = { format: "messages", body, betas: ["a-1", "b-2"], version: "2026-10-21" };
    const given = requestOf("messages", { model: "real", maxOutputTokens: 500, stream: false, native });
    expect(CODECS.messages.encodeRequest(given)).toEqual({
      body: { ...body, model: "real", max_tokens: 500 },
      path: "/messages",
      headers: { "anthropic-version": "2026-10-21", "anthropic-beta": "a-1,b-2" },
      conversions: [],
    });
    expect(CODECS.messages.encodeRequest({ ...given, stream: true }).body).toMatchObject({ stream: true });
  });

  it.each([
    ["generationConfig", "maxOutputTokens"],
    ["generation_config", "max_output_tokens"],
  ])("is its own body with the limit laid over it, in its own spelling (%s)", (config, limit) => {
    const body = { contents: "Hi", [config]: { [limit]: 9_000, moon: 1 }, safety_settings: [] };
    const native = { format: "generate-content", body, betas: [] };
    const given = requestOf("generate-content", { model: "org/gem:1 x", maxOutputTokens: 500, native });
    expect(CODECS["generate-content"].encodeRequest(given)).toEqual({
      body: { ...body, [config]: { [limit]: 500, moon: 1 } },
      path: "/models/org/gem%3A1%20x:streamGenerateContent?alt=sse",
      headers: {},
      conversions: [],
    });
  });

  it("names a limit where its caller named none", () => {
    const native = { format: "generate-content", body: { contents: "Hi" }, betas: [] };
    const given = requestOf("generate-content", { model: "tunedModels/t", stream: false, maxOutputTokens: 7, native });
    expect(CODECS["generate-content"].encodeRequest(given)).toMatchObject({
      body: { generationConfig: { maxOutputTokens: 7 } },
      path: "/tunedModels/t:generateContent",
    });
  });
});

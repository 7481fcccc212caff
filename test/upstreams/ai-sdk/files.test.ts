/** Files of plain text, as the models of each provider accept them: most providers refuse other types than `text/plain`. */

import { expect, it } from "vitest";
import type { ChatRequest } from "../../../src/index.ts";
import { encodeCall } from "../../../src/upstreams/ai-sdk/chat.ts";
import { traitsOf } from "../../../src/upstreams/ai-sdk/conversions.ts";
import { fakeModel } from "./fake-models.ts";

const asking = (mediaType: string): ChatRequest => ({
  model: "model-a",
  messages: [
    {
      role: "user",
      parts: [{ type: "document", title: "a.csv", source: { type: "base64", mediaType, data: "YSxiCg==" } }],
    },
  ],
  system: [],
  tools: [],
  stopSequences: [],
  maxOutputTokens: 100,
  stream: false,
});

const encoded = (provider: string, mediaType: string): readonly [unknown, unknown] => {
  const { options, conversions } = encodeCall(asking(mediaType), traitsOf(fakeModel({ provider, version: "v4" })), {});
  const { prompt } = options as { readonly prompt: readonly { readonly content: readonly unknown[] }[] };
  return [prompt[0]?.content[0], Object.fromEntries(conversions.map(({ field, conversion }) => [field, conversion]))];
};

const approximated = { "messages.document.text": "approximated" };

it.each(["openai.chat", "openai.responses", "other.chat"])("%s gets a file of text as a text", (provider) => {
  const text = { type: "text", text: "a.csv\n\na,b\n" };
  expect(encoded(provider, "text/csv")).toEqual([text, approximated]);
});

it("Claude gets a file of text as a text document", () => {
  const [file, conversions] = encoded("anthropic.messages", "application/json");
  expect(file).toMatchObject({ mediaType: "text/plain", data: { type: "text", text: "a,b\n" }, filename: "a.csv" });
  expect(conversions).toEqual({});
});

it.each([
  ["google.generative-ai", "text/csv"],
  ["openai.chat", "application/pdf"],
])("%s gets a file of %s as it is", (provider, mediaType) => {
  const [file, conversions] = encoded(provider, mediaType);
  expect(file).toMatchObject({ mediaType, data: { type: "data", data: "YSxiCg==" }, filename: "a.csv" });
  expect(conversions).toEqual({});
});

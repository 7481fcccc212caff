/** Files of plain text, as the models of each provider accept them: most providers refuse other types than `text/plain`. */

import { expect, it } from "vitest";
import type { ChatRequest, Part } from "../../../src/index.ts";
import { encodeCall } from "../../../src/upstreams/ai-sdk/chat.ts";
import { traitsOf } from "../../../src/upstreams/ai-sdk/conversions.ts";
import { fakeModel } from "./fake-models.ts";

const document = (mediaType: string): Part => ({
  type: "document",
  title: "a.csv",
  source: { type: "base64", mediaType, data: "YSxiCg==" },
});

const asking = (messages: ChatRequest["messages"]): ChatRequest => ({
  model: "model-a",
  messages,
  system: [],
  tools: [],
  stopSequences: [],
  maxOutputTokens: 100,
  stream: false,
});

interface Turn {
  readonly role: string;
  readonly content: readonly unknown[];
}

function prompted(provider: string, messages: ChatRequest["messages"]): readonly [readonly Turn[], unknown] {
  const { options, conversions } = encodeCall(asking(messages), traitsOf(fakeModel({ provider, version: "v4" })), {});
  const { prompt } = options as { readonly prompt: readonly Turn[] };
  return [prompt, Object.fromEntries(conversions.map(({ field, conversion }) => [field, conversion]))];
}

function encoded(provider: string, mediaType: string): readonly [unknown, unknown] {
  const [prompt, conversions] = prompted(provider, [{ role: "user", parts: [document(mediaType)] }]);
  return [prompt[0]?.content[0], conversions];
}

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

const DRAWN: ChatRequest["messages"] = [
  { role: "user", parts: [{ type: "text", text: "Draw." }] },
  {
    role: "assistant",
    parts: [
      { type: "text", text: "Here." },
      { type: "media", kind: "image", source: { type: "base64", mediaType: "image/png", data: "AAAA" } },
      document("application/pdf"),
    ],
  },
  { role: "user", parts: [{ type: "text", text: "Again." }] },
];

it.each(["anthropic.messages", "openai.chat", "openai.responses"])(
  "%s, whose provider would leave files of the assistant out in silence, gets none",
  (provider) => {
    const [prompt, conversions] = prompted(provider, DRAWN);
    expect(prompt[1]).toMatchObject({ role: "assistant", content: [{ type: "text", text: "Here." }] });
    expect(prompt[1]?.content).toHaveLength(1);
    expect(conversions).toEqual({ "messages.media": "dropped", "messages.document": "dropped" });
  },
);

it.each(["google.generative-ai", "gateway"])("%s gets files of the assistant", (provider) => {
  const [prompt, conversions] = prompted(provider, DRAWN);
  expect(prompt[1]?.content).toMatchObject([{ type: "text" }, { type: "file" }, { type: "file" }]);
  expect(conversions).toEqual({});
});

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
  "%s, whose provider would leave files of the assistant out in silence, gets them from the user",
  (provider) => {
    const [prompt, conversions] = prompted(provider, DRAWN);
    expect(prompt[1]).toMatchObject({ role: "assistant", content: [{ type: "text", text: "Here." }] });
    expect(prompt[1]?.content).toHaveLength(1);
    expect(prompt[2]).toMatchObject({
      role: "user",
      content: [{ type: "file" }, { type: "file" }, { text: "Again." }],
    });
    expect(conversions).toEqual({ "messages.media.moved": "approximated" });
  },
);

it.each(["google.generative-ai", "gateway"])("%s gets files of the assistant", (provider) => {
  const [prompt, conversions] = prompted(provider, DRAWN);
  expect(prompt[1]?.content).toMatchObject([{ type: "text" }, { type: "file" }, { type: "file" }]);
  expect(conversions).toEqual({});
});

const PICTURE: Extract<Part, { type: "media" }> = {
  type: "media",
  kind: "image",
  source: { type: "base64", mediaType: "image/png", data: "AAAA" },
};
const call = (id: string): Part => ({ type: "tool-call", id, name: "look", input: {} });
const result = (callId: string, isError = false): Part => ({
  type: "tool-result",
  callId,
  isError,
  parts: [{ type: "text", text: `Seen by ${callId}.` }, PICTURE],
});
const LOOKED: ChatRequest["messages"] = [
  { role: "user", parts: [{ type: "text", text: "Look." }] },
  { role: "assistant", parts: [call("a"), call("b")] },
  { role: "user", parts: [result("a")] },
  { role: "user", parts: [result("b", true), { type: "text", text: "So?" }] },
];

it.each(["openai.chat", "azure.chat", "other.chat"])(
  "%s, which would write files of results as base64 into a text, gets them from the user behind all results",
  (provider) => {
    const [prompt, conversions] = prompted(provider, LOOKED);
    expect(prompt.slice(2)).toMatchObject([
      {
        role: "tool",
        content: [
          { toolCallId: "a", output: { type: "text", value: "Seen by a." } },
          { toolCallId: "b", output: { type: "error-text", value: "Seen by b." } },
        ],
      },
      { role: "user", content: [{ type: "file" }, { type: "file" }, { type: "text", text: "So?" }] },
    ]);
    expect(conversions).toEqual({ "messages.tool-result.media": "approximated" });
  },
);

it("keeps the files of the last results", () => {
  const [prompt] = prompted("openai.chat", [
    ...LOOKED.slice(0, 2),
    { role: "user", parts: [result("a"), result("b")] },
  ]);
  expect(prompt.at(-1)).toMatchObject({ role: "user", content: [{ type: "file" }, { type: "file" }] });
});

it.each(["openai.responses", "anthropic.messages", "google.generative-ai"])("%s gets files in results", (provider) => {
  const [prompt, conversions] = prompted(provider, LOOKED.slice(0, 3));
  const output = { type: "content", value: [{ type: "text", text: "Seen by a." }, { type: "file" }] };
  expect(prompt.at(-1)).toMatchObject({ role: "tool", content: [{ toolCallId: "a", output }] });
  expect(conversions).toEqual({});
});

it.each(["openai.responses", "anthropic.messages", "google.generative-ai"])(
  "%s gets a document of text in a result as a text: its provider takes none there",
  (provider) => {
    const note: Part = { type: "document", title: "T", source: { type: "text", text: "Noon." } };
    const [prompt, conversions] = prompted(provider, [
      ...LOOKED.slice(0, 2),
      { role: "user", parts: [{ type: "tool-result", callId: "a", parts: [note, PICTURE] }] },
    ]);
    const output = { type: "content", value: [{ type: "text", text: "T\n\nNoon." }, { type: "file" }] };
    expect(prompt.at(-1)).toMatchObject({ role: "tool", content: [{ toolCallId: "a", output }] });
    expect(conversions).toEqual({ "messages.document.text": "approximated" });
  },
);

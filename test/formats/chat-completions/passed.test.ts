/** Answers of chat-completions upstreams that leave out fields: the official client and the AI SDK throw without them. */

import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import {
  CODECS,
  completedText,
  decodedText,
  metered,
  requestOf,
  streamedText,
} from "../../properties/upstream-answers.ts";

const HEAD = { id: "c", object: "chat.completion.chunk", created: 1, model: "m" };
const USAGE = { usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } };
const chunk = (...choices: readonly object[]) => ({ ...HEAD, choices });
const said = (delta: object = { content: "a" }, more: object = { index: 0 }) => chunk({ delta, ...more });
const FIRST = said({ role: "assistant", content: "a" });
const END = { ...said({}, { index: 0, finish_reason: "stop" }), ...USAGE };
const calling = (calls: readonly object[], delta: object = {}) => said({ ...delta, tool_calls: calls });
const CALLED = { ...said({}, { index: 0, finish_reason: "tool_calls" }), ...USAGE };
const call = (id: string | undefined, fields: object = {}) => ({
  ...(id !== undefined && { id }),
  type: "function",
  function: { name: "f", arguments: "{" },
  ...fields,
});
const WHOLE = { function: { name: "f", arguments: "{}" } };
const REST = { function: { arguments: "}" } };

function passed(chunks: readonly object[], showsUsage = true): string {
  const text = [...chunks.map((each) => JSON.stringify(each)), "[DONE]"].map((data) => `data: ${data}\n\n`).join("");
  const native = { format: "chat-completions", body: { stream_options: { include_usage: showsUsage } }, betas: [] };
  const request = requestOf("chat-completions", { native });
  return streamedText("chat-completions", metered(decodedText("chat-completions", text), request), request);
}

/** The message that the official client makes of a stream. */
async function read(text: string) {
  const headers = { "content-type": "text/event-stream" };
  const client = new OpenAI({ apiKey: "k", baseURL: "http://x", fetch: async () => new Response(text, { headers }) });
  const { choices } = await client.chat.completions.stream({ model: "m", messages: [] }).finalChatCompletion();
  return choices.map(({ message: { content, tool_calls } }) => ({
    content,
    calls: tool_calls?.map((each) => "function" in each && [each.id, each.function.name, each.function.arguments]),
  }));
}

const goesOn = (content: string, more: object = {}) => said({ content }, { finish_reason: null, ...more });

describe("a stream of an upstream", () => {
  it.each<[string, object[]]>([
    ["index", [said({ role: "assistant", content: "a" }, {}), { ...said({}, { finish_reason: "stop" }), ...USAGE }]],
    ["role", [said(), END]],
    ["role that is no text", [said({ role: null, content: "a" }), END]],
    [
      "list of choices beside its counts",
      [FIRST, said({}, { index: 0, finish_reason: "stop" }), { ...HEAD, ...USAGE }],
    ],
    ["finish reason", [FIRST, { ...chunk(), ...USAGE }]],
  ])("without a %s reaches the official client", async (_name, chunks) => {
    expect(await read(passed(chunks))).toEqual([{ content: "a", calls: undefined }]);
  });

  it("is completed behind chunks that lack nothing", async () => {
    const text = passed([FIRST, goesOn("b", { index: 0 }), goesOn('{"c"}', { index: 0 }), goesOn("d"), chunk()]);
    expect(text.match(/"index":0/g)).toHaveLength(5);
    expect(text.match(/"finish_reason":"stop"/g)).toHaveLength(1);
    expect(await read(text)).toEqual([{ content: 'ab{"c"}d', calls: undefined }]);
  });

  it.each<[string, object[]]>([
    [
      "indices",
      [calling([call("t")], { role: "assistant" }), calling([REST]), calling([call("u")]), calling([REST]), CALLED],
    ],
    [
      "indices of their own",
      [
        calling([call("t", { index: 0 })], { role: "assistant" }),
        calling([{ index: 0, ...REST }]),
        calling([call("u", { index: 0 })]),
        calling([{ index: 0, ...REST }]),
        CALLED,
      ],
    ],
    ["indices, in one chunk", [calling([call("t", WHOLE), call("u", WHOLE)], { role: "assistant" }), CALLED]],
    [
      "types",
      [
        calling([call("t", { index: 0, type: undefined })], { role: "assistant" }),
        calling([{ index: 0, ...REST }]),
        calling([call("u", { index: 1, type: "" })]),
        calling([{ index: 1, ...REST }]),
        CALLED,
      ],
    ],
  ])("whose calls have no %s reaches the official client", async (_name, chunks) => {
    expect(await read(passed(chunks))).toEqual([
      {
        content: null,
        calls: [
          ["t", "f", "{}"],
          ["u", "f", "{}"],
        ],
      },
    ]);
  });

  it("names the role of each of several choices", async () => {
    const both = [0, 1].map((index) => said({ content: "a" }, { index }));
    const ends = [0, 1].map((index) => said({}, { index, finish_reason: "stop" }));
    const text = [...both, ...ends, "[DONE]"]
      .map((each) => `data: ${typeof each === "string" ? each : JSON.stringify(each)}\n\n`)
      .join("");
    const request = requestOf("chat-completions", { candidateCount: 2 });
    const written = streamedText("chat-completions", metered(decodedText("chat-completions", text), request), request);
    expect(await read(written)).toEqual([0, 1].map(() => ({ content: "a", calls: undefined })));
  });

  it("that is whole passes to the letter", () => {
    const chunks = [FIRST, said(), calling([call("t", { index: 0 })]), calling([{ index: 0, ...REST }]), CALLED];
    expect(passed(chunks)).toBe(
      [...chunks.map((each) => JSON.stringify(each)), "[DONE]"].map((data) => `data: ${data}\n\n`).join(""),
    );
  });

  it("has no chunk of counts for a caller that has not asked, also without choices", () => {
    const end = said({}, { index: 0, finish_reason: "stop" });
    expect(passed([FIRST, end, { ...HEAD, ...USAGE }], false)).toBe(
      [FIRST, end].map((each) => `data: ${JSON.stringify(each)}\n\n`).join("") + "data: [DONE]\n\n",
    );
  });
});

it("a complete answer has the index, the role and the types that clients need", () => {
  const body = { ...HEAD, object: "chat.completion", ...USAGE };
  const message = { content: null, tool_calls: [{ id: "t", function: { name: "f", arguments: "{}" } }] };
  const events = CODECS["chat-completions"]
    .answerDecoder()
    .answer(JSON.stringify({ ...body, choices: [{ message, finish_reason: "tool_calls" }] }));
  const request = requestOf("chat-completions", { stream: false });
  expect(JSON.parse(completedText("chat-completions", metered(events, request), request))).toEqual({
    ...body,
    choices: [
      {
        index: 0,
        message: { ...message, role: "assistant", tool_calls: [{ ...message.tool_calls[0], type: "function" }] },
        finish_reason: "tool_calls",
      },
    ],
  });
});

/** What the answers of upstreams of the chat-completions format mean, also of servers that write them loosely. */

import { describe, expect, it } from "vitest";
import { chatCompletionsCodec } from "../../../src/formats/chat-completions/upstream.ts";
import { type ChatEvent, GatewayError } from "../../../src/index.ts";

const codec = chatCompletionsCodec();

/** What frames mean, one list after the other; each is passed on with its data. */
function decoded(...frames: readonly unknown[]): object[] {
  const decoder = codec.answerDecoder();
  const events: object[] = [];
  for (const frame of frames) {
    const data = typeof frame === "string" ? frame : JSON.stringify(frame);
    for (const event of decoder.frame(undefined, data)) {
      if (event.type !== "native") throw new Error(`A ${event.type} came without what it is made of.`);
      expect(event).toMatchObject({ format: "chat-completions", frames: [{ data }] });
      events.push(...event.events);
    }
  }
  decoder.end();
  return events;
}

const delta = (added: object, more: object = {}): object => ({ choices: [{ index: 0, delta: added, ...more }] });
const finish = (finish_reason: string): object => delta({}, { finish_reason });
/** Content that is not read, or not yet. */
const BEGUN: ChatEvent = { type: "usage", usage: {} };
const START: ChatEvent = { type: "start" };
const END: ChatEvent = { type: "finish", reason: "stop" };
const CALLED: ChatEvent = { type: "finish", reason: "tool-calls" };
/** The end of reasoning that an upstream showed in a field. */
const shownIn = (field: string, details?: object[]): ChatEvent => ({
  type: "reasoning-signature",
  signature: JSON.stringify({ field, details }),
  maker: "chat-completions",
});
const calls = (...tool_calls: object[]): object => delta({ tool_calls });
const starts = (id: string, name: string): ChatEvent => ({ type: "tool-call-start", id, name });
const adds = (id: string, json: string): ChatEvent => ({ type: "tool-call-delta", id, json });
const ends = (id: string): ChatEvent => ({ type: "tool-call-end", id });

describe("a stream", () => {
  it.each<[string, readonly unknown[], readonly ChatEvent[]]>([
    [
      "as the official service writes it",
      [
        { id: "c", model: "m", choices: [], usage: null, prompt_filter_results: [] },
        { id: "c", ...delta({ role: "assistant", content: "", refusal: null }, { finish_reason: null }) },
        { id: "c", ...delta({ content: "Hi" }) },
        { id: "c", ...finish("stop") },
        {
          id: "c",
          choices: [],
          usage: { prompt_tokens: 3, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 1 } },
        },
        "[DONE]",
      ],
      [
        { type: "start", id: "c", model: "m" },
        { type: "text-delta", text: "Hi" },
        END,
        { type: "usage", usage: { inputTokens: 3, outputTokens: 4, cacheReadTokens: 1 } },
      ],
    ],
    [
      "without indices, roles over and over, no [DONE]",
      [
        { choices: [{ delta: { role: "assistant", content: "A" } }] },
        { choices: [{ delta: { role: "assistant", content: "B" }, finish_reason: "stop" }] },
      ],
      [START, { type: "text-delta", text: "A" }, { type: "text-delta", text: "B" }, END],
    ],
    [
      "with counts in each chunk",
      [
        { ...delta({ content: "A" }), usage: { prompt_tokens: 3, completion_tokens: 1 } },
        { ...finish("stop"), usage: { prompt_tokens: 3, completion_tokens: 4 } },
      ],
      [
        { type: "start", usage: { inputTokens: 3, outputTokens: 1 } },
        { type: "text-delta", text: "A" },
        { type: "usage", usage: { inputTokens: 3, outputTokens: 1 } },
        END,
        { type: "usage", usage: { inputTokens: 3, outputTokens: 4 } },
      ],
    ],
    [
      "that ends with [DONE] alone",
      [delta({ content: "A" }), "[DONE]"],
      [START, { type: "text-delta", text: "A" }, END],
    ],
    ["with keep-alives", ["", " ", finish("stop")], [START, END]],
    [
      "of reasoning by any of its names",
      [
        delta({ reasoning_content: "a" }),
        delta({ reasoning: "b", content: null }),
        delta({ thinking: "c" }),
        finish("stop"),
      ],
      [
        START,
        ...["a", "b", "c"].map((text): ChatEvent => ({ type: "reasoning-delta", text })),
        shownIn("reasoning_content"),
        END,
      ],
    ],
    [
      "of a refusal",
      [delta({ refusal: "No" }), finish("stop")],
      [START, { type: "refusal-delta", text: "No" }, { type: "finish", reason: "refusal" }],
    ],
    [
      "of text in parts",
      [
        delta({
          content: [
            { type: "text", text: "A" },
            { type: "text", text: "B" },
          ],
        }),
        finish("length"),
      ],
      [START, { type: "text-delta", text: "AB" }, { type: "finish", reason: "length" }],
    ],
    [
      "of parallel calls",
      [
        calls({ index: 0, id: "a", type: "function", function: { name: "one", arguments: "" } }),
        calls({ index: 0, function: { arguments: '{"x":' } }),
        calls({ index: 0, function: { arguments: "1}" } }),
        calls({ index: 1, id: "b", function: { name: "two", arguments: "{}" } }),
        finish("tool_calls"),
      ],
      [
        START,
        starts("a", "one"),
        adds("a", '{"x":'),
        adds("a", "1}"),
        ends("a"),
        starts("b", "two"),
        adds("b", "{}"),
        ends("b"),
        CALLED,
      ],
    ],
    [
      "of calls that go on by turns",
      [
        calls(
          { index: 0, id: "a", function: { name: "one", arguments: "{" } },
          { index: 1, id: "b", function: { name: "two", arguments: "{" } },
        ),
        calls({ index: 0, function: { arguments: "}" } }, { index: 1, function: { arguments: "}" } }),
        finish("tool_calls"),
      ],
      [
        START,
        starts("a", "one"),
        adds("a", "{"),
        starts("b", "two"),
        adds("b", "{"),
        adds("a", "}"),
        adds("b", "}"),
        ends("a"),
        ends("b"),
        CALLED,
      ],
    ],
    [
      "of calls without ids and indices, whose finish says stop",
      [
        calls({ function: { name: "one", arguments: "{}" } }),
        calls({ function: { name: "two", arguments: { x: 1 } } }),
        finish("stop"),
      ],
      [
        START,
        starts("call_1", "one"),
        adds("call_1", "{}"),
        ends("call_1"),
        starts("call_2", "two"),
        adds("call_2", '{"x":1}'),
        ends("call_2"),
        CALLED,
      ],
    ],
    [
      "of calls that all have the index 0",
      [
        calls({ index: 0, id: "a", function: { name: "one", arguments: "{}" } }),
        calls({ index: 0, id: "b", function: { name: "two", arguments: "{}" } }),
        finish("tool_calls"),
      ],
      [START, starts("a", "one"), adds("a", "{}"), ends("a"), starts("b", "two"), adds("b", "{}"), ends("b"), CALLED],
    ],
    [
      "of calls that share an id",
      [
        calls({ index: 0, id: "a", function: { name: "one" } }, { index: 1, id: "a", function: { name: "two" } }),
        finish("tool_calls"),
      ],
      [START, starts("a", "one"), starts("a_2", "two"), ends("a"), ends("a_2"), CALLED],
    ],
    [
      "of a name that comes late, and again with each piece",
      [
        calls({ index: 0, id: "a", function: { arguments: "{" } }),
        calls({ index: 0, id: "a", function: { name: "one", arguments: "" } }),
        calls({ index: 0, id: "a", function: { name: "one", arguments: "}" } }),
        finish("tool_calls"),
      ],
      [START, BEGUN, starts("a", "one"), adds("a", "{"), adds("a", "}"), ends("a"), CALLED],
    ],
    [
      "of a function call, as it was before there were tools",
      [
        delta({ function_call: { name: "one", arguments: "{" } }),
        delta({ function_call: { arguments: "}" } }),
        finish("function_call"),
      ],
      [START, starts("call_1", "one"), adds("call_1", "{"), adds("call_1", "}"), ends("call_1"), CALLED],
    ],
    [
      "of a call beside the empty fields of a server that sends every field of the schema",
      [
        delta({
          function_call: { name: "", arguments: "" },
          tool_calls: [
            {
              index: 0,
              id: "a",
              type: "function",
              custom: { name: "", input: "" },
              function: { name: "one", arguments: "{}" },
            },
          ],
        }),
        finish("tool_calls"),
      ],
      [START, starts("a", "one"), adds("a", "{}"), ends("a"), CALLED],
    ],
    [
      "of a call that is cut short",
      [calls({ index: 0, id: "a", function: { name: "one", arguments: "{" } }), finish("length")],
      [START, starts("a", "one"), adds("a", "{"), { type: "finish", reason: "length" }],
    ],
    [
      "of a tool that takes a text",
      [
        calls({ index: 0, id: "a", type: "custom", custom: { name: "sql", input: "sel" } }),
        calls({ index: 0, custom: { input: "ect" } }),
        finish("tool_calls"),
      ],
      [START, BEGUN, BEGUN, { type: "tool-call", id: "a", name: "sql", input: { input: "select" } }, CALLED],
    ],
    [
      "of several choices",
      [
        {
          choices: [
            { index: 1, delta: { content: "B" } },
            { index: 0, delta: { content: "A" }, finish_reason: "stop" },
          ],
        },
        { choices: [{ index: 1, delta: {}, finish_reason: "content_filter" }] },
      ],
      [
        START,
        { type: "text-delta", text: "B", candidate: 1 },
        { type: "text-delta", text: "A" },
        END,
        { type: "finish", reason: "content-filter", candidate: 1 },
      ],
    ],
    [
      "of sound and pictures and sources",
      [
        delta({ audio: { transcript: "Hi", data: "UklGRg==" } }),
        delta({
          images: [{ image_url: { url: "data:image/png;base64,AAAA" } }, { image_url: { url: "https://a.b" } }],
        }),
        delta({ annotations: [{ type: "url_citation", url_citation: { url: "https://a.b", title: "A" } }, {}] }),
        finish("stop"),
      ],
      [
        START,
        { type: "text-delta", text: "Hi" },
        { type: "media", mediaType: "audio/wav", data: "UklGRg==" },
        { type: "media", mediaType: "image/png", data: "AAAA" },
        {
          type: "annotation",
          annotation: {
            type: "citations",
            citations: [{ uri: "https://a.b", title: "A" }],
            native: {
              format: "chat-completions",
              values: [{ type: "url_citation", url_citation: { url: "https://a.b", title: "A" } }, {}],
              hasPlaces: true,
            },
          },
        },
        { type: "usage", usage: { serverToolUses: { web_search: 1 } } },
        END,
      ],
    ],
    [
      "of calls that all have the index 0, in pieces by their ids",
      [
        calls(
          { index: 0, id: "a", function: { name: "one", arguments: "{" } },
          { index: 0, id: "b", function: { name: "two", arguments: "{" } },
        ),
        calls({ index: 0, id: "a", function: { arguments: "}" } }, { index: 0, id: "b", function: { arguments: "}" } }),
        finish("tool_calls"),
      ],
      [
        START,
        starts("a", "one"),
        adds("a", "{"),
        starts("b", "two"),
        adds("b", "{"),
        adds("a", "}"),
        adds("b", "}"),
        ends("a"),
        ends("b"),
        CALLED,
      ],
    ],
    [
      "of calls that all have the index 0 and no ids",
      [
        calls({ index: 0, function: { name: "one", arguments: '{"x":1}' } }),
        calls({ index: 0, function: { name: "one", arguments: { x: 2 } } }),
        calls({ index: 0, function: { name: "two", arguments: "" } }),
        finish("stop"),
      ],
      [
        START,
        starts("call_1", "one"),
        adds("call_1", '{"x":1}'),
        ends("call_1"),
        starts("call_2", "one"),
        adds("call_2", '{"x":2}'),
        ends("call_2"),
        starts("call_3", "two"),
        ends("call_3"),
        CALLED,
      ],
    ],
    [
      "of a call whose id changes after its first piece",
      [
        calls({ index: 0, id: "a", function: { name: "one", arguments: "{" } }),
        calls({ index: 0, id: "other", function: { name: "", arguments: "}" } }),
        finish("tool_calls"),
      ],
      [START, starts("a", "one"), adds("a", "{"), adds("a", "}"), ends("a"), CALLED],
    ],
    [
      "of a call whose arguments follow an empty object",
      [
        calls({ index: 0, id: "a", function: { name: "one", arguments: "{}" } }),
        calls({ index: 0, function: { arguments: '{"x":' } }),
        calls({ index: 0, function: { arguments: "1}" } }),
        finish("tool_calls"),
      ],
      [START, starts("a", "one"), adds("a", '{"x":'), adds("a", "1}"), ends("a"), CALLED],
    ],
    [
      "of a last chunk that repeats the whole message",
      [
        delta({ reasoning_content: "Hm" }),
        delta({ content: "Hi" }),
        {
          choices: [
            {
              index: 0,
              delta: { role: "assistant", content: "" },
              message: { role: "assistant", content: "Hi", reasoning_content: "Hm" },
              finish_reason: "stop",
            },
          ],
        },
      ],
      [
        START,
        { type: "reasoning-delta", text: "Hm" },
        shownIn("reasoning_content"),
        { type: "text-delta", text: "Hi" },
        END,
      ],
    ],
    [
      "of a whole message beside an empty delta",
      [{ choices: [{ delta: {}, message: { content: "Hi" }, finish_reason: "stop" }] }],
      [START, { type: "text-delta", text: "Hi" }, END],
    ],
    [
      "of deltas of null, and of blank parts",
      [
        { choices: [{ index: 0, delta: null }] },
        delta({ content: [{ type: "text", text: "" }, { type: "text" }] }),
        delta({
          content: [
            { type: "text", text: "Hi" },
            { type: "reference", reference_ids: [1] },
          ],
        }),
        { choices: [{ index: 0, delta: null, finish_reason: "stop" }] },
      ],
      [
        START,
        { type: "provider", format: "chat-completions", value: { type: "reference", reference_ids: [1] } },
        { type: "text-delta", text: "Hi" },
        END,
      ],
    ],
    [
      "of counts in a choice",
      [
        delta({ content: "Hi" }),
        delta({}, { finish_reason: "stop", usage: { prompt_tokens: 3, completion_tokens: 1, cached_tokens: 2 } }),
      ],
      [START, { type: "text-delta", text: "Hi" }, END, { type: "usage", usage: { inputTokens: 3, outputTokens: 1 } }],
    ],
    [
      "of a refusal that is called filtered",
      [delta({ refusal: "No" }), finish("content_filter")],
      [START, { type: "refusal-delta", text: "No" }, { type: "finish", reason: "refusal" }],
    ],
    ["of GLM's filter", [finish("sensitive")], [START, { type: "finish", reason: "content-filter" }]],
    ["of Mistral's window", [finish("model_length")], [START, { type: "finish", reason: "context-window" }]],
    ["of a reason that nobody knows", [finish("toString")], [START, { type: "finish", reason: "other" }]],
  ])("%s", (_name, frames, events) => {
    expect(decoded(...frames)).toEqual(events);
  });

  it("that breaks off is no answer", () => {
    const decoder = codec.answerDecoder();
    decoder.frame(undefined, JSON.stringify(delta({ content: "A" })));
    expect(() => decoder.end()).toThrow(expect.objectContaining({ code: "backend_failed" }));
  });

  it.each<[string, unknown, string]>([
    ["no JSON", "<html>", "backend_failed"],
    ["no object", "1", "backend_failed"],
    ["choices that are none", { choices: {} }, "backend_failed"],
    [
      "a call without a name",
      { choices: [{ delta: { tool_calls: [{ id: "a" }] }, finish_reason: "stop" }] },
      "backend_failed",
    ],
    ["an error", { error: { message: "secret", type: "server_error" } }, "backend_failed"],
    ["an error of the upstream's rate", { error: { message: "secret", code: 429 } }, "rate_limited"],
    ["an error of its load", { error: { type: "overloaded_error" } }, "backend_overloaded"],
    ["an error of a text", { error: "secret" }, "backend_failed"],
    [
      "an error as an object",
      { object: "error", message: "secret", type: "BadRequestError", code: 400 },
      "invalid_request",
    ],
    ["an error in a list", [{ error: { code: 503, message: "secret", status: "UNAVAILABLE" } }], "backend_unavailable"],
    ["an error in a choice", { choices: [{ delta: {}, error: { code: 429, message: "secret" } }] }, "rate_limited"],
    ["a code and a message", { code: "InvalidParameter", message: "secret", request_id: "r" }, "backend_failed"],
    ["a list of errors", { success: false, errors: [{ code: 7003, message: "secret" }] }, "backend_failed"],
    [
      "a status of MiniMax's",
      { base_resp: { status_code: 1013, status_msg: "secret" }, choices: null },
      "backend_failed",
    ],
    ["an end by an error", { choices: [{ delta: { content: "Hi" }, finish_reason: "error" }] }, "backend_failed"],
    ["GLM's end by an error", { choices: [{ delta: {}, finish_reason: "network_error" }] }, "backend_failed"],
    ["nothing but its end", "[DONE]", "backend_failed"],
  ])("of %s fails", (_name, frame, code) => {
    const failing = (): object[] => decoded(frame, ...(frame === "[DONE]" ? [] : ["[DONE]"]));
    expect(failing).toThrow(expect.objectContaining({ code, message: expect.not.stringContaining("secret") }));
  });

  it("of an event called error fails", () => {
    const decoder = codec.answerDecoder();
    expect(() => decoder.frame("error", '{"message":"x","code":503}')).toThrow(
      expect.objectContaining({ code: "backend_unavailable" }),
    );
  });
});

describe("a complete answer", () => {
  it("is its own text, and what it means", () => {
    const counts = { inputTokens: 3, outputTokens: 4, cacheReadTokens: 2, reasoningTokens: 1 };
    const body = JSON.stringify({
      id: "c",
      model: "m",
      service_tier: "flex",
      choices: [
        {
          message: {
            role: "assistant",
            content: null,
            reasoning: "Hm",
            tool_calls: [{ function: { name: "one", arguments: "{}" } }],
          },
          logprobs: { content: [{ token: "a", logprob: -1 }] },
          finish_reason: "tool_calls",
        },
        { message: { content: "B" }, finish_reason: "stop" },
      ],
      usage: {
        prompt_tokens: 3,
        completion_tokens: 4,
        prompt_cache_hit_tokens: 2,
        completion_tokens_details: { reasoning_tokens: 1 },
      },
    });
    expect(codec.answerDecoder().answer(body)).toEqual([
      {
        type: "native",
        format: "chat-completions",
        body,
        unsupported: expect.any(Function),
        events: [
          { type: "start", id: "c", model: "m", usage: { ...counts, serviceTier: "flex" } },
          { type: "reasoning-delta", text: "Hm" },
          shownIn("reasoning"),
          starts("call_c_1", "one"),
          adds("call_c_1", "{}"),
          {
            type: "annotation",
            annotation: { type: "logprobs", chosen: [{ token: "a", logProbability: -1 }], top: [[]] },
          },
          ends("call_c_1"),
          CALLED,
          { type: "text-delta", text: "B", candidate: 1 },
          { type: "finish", reason: "stop", candidate: 1 },
          { type: "usage", usage: counts },
        ],
      },
    ]);
  });

  it("may carry MiniMax's status of a success", () => {
    const body = { base_resp: { status_code: 0 }, choices: [{ message: { content: "Hi" }, finish_reason: "stop" }] };
    expect(codec.answerDecoder().answer(JSON.stringify(body))).toMatchObject([
      { events: [START, { text: "Hi" }, END] },
    ]);
  });

  it.each(["", "<html>", "{}", '{"choices":[]}', '{"choices":[1]}', "null", '{"error":{}}'])("is not %j", (body) => {
    expect(() => codec.answerDecoder().answer(body)).toThrow(GatewayError);
  });
});

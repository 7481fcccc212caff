/** What a chat-completions answer looks like, complete and streamed, for what a backend may yield. */

import { describe, expect, it } from "vitest";
import type { ChatEvent } from "../../../src/index.ts";
import { CREATED, framesOf, having, openStage, plays, type Play, type StageOptions } from "./stage.ts";

interface Chunk {
  readonly id: string;
  readonly choices: readonly {
    readonly index: number;
    readonly delta: object;
    readonly finish_reason: string | null;
  }[];
  readonly usage?: object | null;
}

async function completed(play: Play, changes: object = {}): Promise<{ choices: object[]; usage: object }> {
  const response = await openStage(play).ask(having(changes));
  expect(response.status).toBe(200);
  return (await response.json()) as { choices: object[]; usage: object };
}

async function streamed(play: Play, changes: object = {}, options?: StageOptions): Promise<Chunk[]> {
  const response = await openStage(play, options).ask(having({ stream: true, ...changes }));
  expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const frames = await framesOf(response);
  expect(frames.at(-1)).toBe("[DONE]");
  return frames.slice(0, -1).map((data) => JSON.parse(data) as Chunk);
}

/** The deltas of one choice, its beginning and its end apart. */
const deltasOf = (chunks: readonly Chunk[], index = 0): object[] =>
  chunks
    .flatMap(({ choices }) => choices)
    .filter((choice) => choice.index === index)
    .map(({ delta }) => delta)
    .slice(1, -1);

const stop: ChatEvent = { type: "finish", reason: "stop", usage: { inputTokens: 5, outputTokens: 7 } };

const CALLS: readonly ChatEvent[] = [
  { type: "tool-call-start", id: "a", name: "clock" },
  { type: "tool-call-delta", id: "a", json: '{"zone"' },
  { type: "tool-call-start", id: "b", name: "now" },
  { type: "tool-call-delta", id: "a", json: ':"Oslo"}' },
  { type: "text-delta", text: "Wait." },
  { type: "tool-call-end", id: "b" },
  { type: "tool-call-end", id: "a" },
  { type: "tool-call", id: "c", name: "far", input: { x: 1 } },
  { type: "tool-call-start", id: "d", name: "sql" },
  { type: "tool-call-delta", id: "d", json: '{"input"' },
  { type: "tool-call-delta", id: "d", json: ':"s"}' },
  { type: "tool-call-end", id: "d" },
  { type: "finish", reason: "stop" },
];

const SQL = { type: "custom", custom: { name: "sql" } };

type Answered = readonly [
  name: string,
  events: readonly (ChatEvent | string)[],
  message: object,
  deltas: readonly object[],
];

const note = { type: "annotation" } as const;

const ANSWERED: readonly Answered[] = [
  ["text", ["Hel", "", "lo."], { content: "Hello." }, [{ content: "Hel" }, { content: "lo." }]],
  ["nothing", [], { content: "" }, []],
  [
    "reasoning",
    [
      { type: "reasoning-delta", text: "Hm" },
      { type: "reasoning-signature", signature: "s" },
      { type: "redacted-reasoning", data: "r" },
      "Yes",
    ],
    {
      content: "Yes",
      reasoning_content: "Hm",
      reasoning_details: [
        { type: "reasoning.text", text: "Hm", signature: "s" },
        { type: "reasoning.encrypted", data: "r" },
      ],
    },
    [
      { reasoning_content: "Hm" },
      {
        reasoning_details: [
          { type: "reasoning.text", text: "Hm", signature: "s" },
          { type: "reasoning.encrypted", data: "r" },
        ],
      },
      { content: "Yes" },
    ],
  ],
  [
    "a refusal",
    [
      { type: "refusal-delta", text: "I " },
      { type: "refusal-delta", text: "won't" },
    ],
    { content: null, refusal: "I won't" },
    [{ refusal: "I " }, { refusal: "won't" }],
  ],
  [
    "code that was run",
    [
      { type: "code", language: "python", code: "1" },
      { type: "code-result", outcome: "ok", output: "1" },
    ],
    { content: "\n```python\n1\n```\n\n```\n1\n```\n" },
    [{ content: "\n```python\n1\n```\n" }, { content: "\n```\n1\n```\n" }],
  ],
  [
    "sources",
    [
      { ...note, annotation: { type: "grounding", chunks: [{ uri: "https://a.b", title: "A" }, { title: "none" }] } },
      { ...note, annotation: { type: "citations", citations: [{ uri: "https://c.d" }, {}] } },
      { ...note, annotation: { type: "safety", ratings: [] } },
    ],
    {
      content: "",
      annotations: [citation("https://a.b", "A"), citation("https://c.d", "https://c.d")],
    },
    [{ annotations: [citation("https://a.b", "A"), citation("https://c.d", "https://c.d")] }],
  ],
  [
    "a sound",
    [{ type: "media", mediaType: "audio/wav", data: "AAAA" }],
    {
      content: null,
      audio: { id: expect.stringMatching(/^audio_/), data: "AAAA", transcript: "", expires_at: CREATED + 3_600 },
    },
    [{ audio: { id: expect.stringMatching(/^audio_/), data: "AAAA", transcript: "", expires_at: CREATED + 3_600 } }],
  ],
  [
    "pictures, but not those of its thoughts",
    [
      { type: "media", mediaType: "image/png", data: "AAAA", thought: true },
      { type: "media", mediaType: "image/png", data: "BBBB" },
      { type: "media", mediaType: "image/png", data: "CCCC" },
    ],
    { content: null, images: [picture(0, "BBBB"), picture(1, "CCCC")] },
    [{ images: [picture(0, "BBBB")] }, { images: [picture(1, "CCCC")] }],
  ],
  [
    "what only another format knows",
    [{ type: "provider", format: "messages", value: { type: "server_tool_use" } }, "Yes"],
    { content: "Yes" },
    [{ content: "Yes" }],
  ],
];

function citation(url: string, title: string): object {
  return { type: "url_citation", url_citation: { start_index: 0, end_index: 0, url, title } };
}

function picture(index: number, data: string): object {
  return { type: "image_url", index, image_url: { url: `data:image/png;base64,${data}` } };
}

describe("an answer", () => {
  it.each(ANSWERED)("of %s", async (_name, events, message, deltas) => {
    const { choices } = await completed(plays(...events, stop));
    expect(choices).toEqual([
      { index: 0, message: { role: "assistant", refusal: null, ...message }, logprobs: null, finish_reason: "stop" },
    ]);
    const chunks = await streamed(plays(...events, stop));
    expect(deltasOf(chunks)).toEqual(deltas);
    // As a whole answer has it: a call is no text.
    const content = "tool_calls" in (deltas[0] ?? {}) ? null : "";
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: "assistant", content, refusal: null });
  });

  it("has an envelope made of the request's id and the clock's time", async () => {
    const response = await openStage(plays("Hi", stop)).ask(having());
    const id = response.headers.get("x-request-id")?.replace("req_", "chatcmpl-");
    expect(await response.json()).toEqual({
      id,
      object: "chat.completion",
      created: CREATED,
      model: "model-a",
      choices: [expect.anything()],
      usage: {
        prompt_tokens: 5,
        completion_tokens: 7,
        total_tokens: 12,
        prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
        completion_tokens_details: {
          reasoning_tokens: 0,
          audio_tokens: 0,
          accepted_prediction_tokens: 0,
          rejected_prediction_tokens: 0,
        },
      },
    });
  });

  it("tells what the backend knows of the model, the tier and the tokens", async () => {
    const usage = {
      inputTokens: 9,
      outputTokens: 8,
      cacheReadTokens: 3,
      cacheWriteTokens: 2,
      reasoningTokens: 4,
      serviceTier: "flex",
      details: { input: [{ modality: "audio", tokens: 1 }], output: [{ modality: "audio", tokens: 6 }] },
    } as const;
    const play = plays({ type: "start", id: "up-1", model: "model-a-2026" }, "Hi", {
      type: "finish",
      reason: "stop",
      usage,
    });
    expect(await completed(play)).toMatchObject({
      id: "up-1",
      model: "model-a-2026",
      service_tier: "flex",
      usage: {
        prompt_tokens: 9,
        completion_tokens: 8,
        total_tokens: 17,
        prompt_tokens_details: { cached_tokens: 3, audio_tokens: 1, cache_write_tokens: 2 },
        completion_tokens_details: { reasoning_tokens: 4, audio_tokens: 6 },
      },
    });
  });

  it("has the log probabilities of each step", async () => {
    const logprobs = {
      type: "logprobs",
      chosen: [{ token: "ä", logProbability: -0.5 }],
      top: [[{ token: "a", logProbability: -1 }]],
    } as const;
    const expected = {
      content: [
        { token: "ä", logprob: -0.5, bytes: [195, 164], top_logprobs: [{ token: "a", logprob: -1, bytes: [97] }] },
      ],
      refusal: null,
    };
    const play = plays("ä", { type: "annotation", annotation: logprobs }, stop);
    expect((await completed(play)).choices).toMatchObject([{ logprobs: expected }]);
    const chunks = await streamed(play);
    expect(chunks.flatMap(({ choices }) => choices)).toMatchObject([{}, {}, { delta: {}, logprobs: expected }, {}]);
  });

  it.each([
    ["stop", "stop"],
    ["stop-sequence", "stop"],
    ["length", "length"],
    ["context-window", "length"],
    ["tool-calls", "tool_calls"],
    ["refusal", "content_filter"],
    ["content-filter", "content_filter"],
    ["blocklist", "content_filter"],
    ["other", "stop"],
  ] as const)("that ended for %s says %s", async (reason, finish_reason) => {
    const play = plays("Hi", { type: "finish", reason });
    expect((await completed(play)).choices).toMatchObject([{ finish_reason }]);
    expect((await streamed(play)).at(-1)?.choices).toMatchObject([{ finish_reason }]);
  });
});

const call = (id: string, name: string, json: string): object => ({
  id,
  type: "function",
  function: { name, arguments: json },
});
const begins = (index: number, id: string, name: string): object => ({
  tool_calls: [{ index, ...call(id, name, "") }],
});
const adds = (index: number, json: string): object => ({ tool_calls: [{ index, function: { arguments: json } }] });

describe("calls", () => {
  it("are whole in a complete answer", async () => {
    const { choices } = await completed(plays(...CALLS), { tools: [SQL] });
    expect(choices).toMatchObject([
      {
        message: {
          content: "Wait.",
          tool_calls: [
            call("a", "clock", '{"zone":"Oslo"}'),
            call("b", "now", "{}"),
            call("c", "far", '{"x":1}'),
            { id: "d", type: "custom", custom: { name: "sql", input: "s" } },
          ],
        },
        finish_reason: "tool_calls",
      },
    ]);
  });

  it("come one by one in a stream, each with its index", async () => {
    const chunks = await streamed(plays(...CALLS), { tools: [SQL] });
    expect(deltasOf(chunks)).toEqual([
      begins(0, "a", "clock"),
      adds(0, '{"zone"'),
      adds(0, ':"Oslo"}'),
      { content: "Wait." },
      begins(1, "b", "now"),
      adds(1, "{}"),
      begins(2, "c", "far"),
      adds(2, '{"x":1}'),
      { tool_calls: [{ index: 3, type: "custom", id: "d", custom: { name: "sql", input: "" } }] },
      { tool_calls: [{ index: 3, custom: { input: "s" } }] },
    ]);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe("tool_calls");
  });

  it("that are cut short are told as far as they came", async () => {
    const { choices } = await completed(
      plays(
        { type: "tool-call-start", id: "a", name: "clock" },
        { type: "tool-call-delta", id: "a", json: '{"zo' },
        { type: "finish", reason: "length" },
      ),
    );
    expect(choices).toMatchObject([{ message: { tool_calls: [call("a", "clock", '{"zo')] }, finish_reason: "length" }]);
  });

  it.each<[string, ChatEvent[]]>([
    ["that never began", [{ type: "tool-call-delta", id: "a", json: "{}" }]],
    ["that begins twice", [1, 2].map(() => ({ type: "tool-call-start", id: "a", name: "clock" }))],
    [
      "that goes on after its end",
      [
        { type: "tool-call", id: "a", name: "clock", input: {} },
        { type: "tool-call-delta", id: "a", json: " " },
      ],
    ],
    [
      "of no JSON",
      [
        { type: "tool-call-start", id: "a", name: "clock" },
        { type: "tool-call-delta", id: "a", json: "{" },
        { type: "tool-call-end", id: "a" },
      ],
    ],
    [
      "of an array",
      [
        { type: "tool-call-start", id: "a", name: "clock" },
        { type: "tool-call-delta", id: "a", json: "[]" },
      ],
    ],
  ])("a call %s is the backend's failure", async (_name, events) => {
    const response = await openStage(plays("Hi", ...events, stop)).ask(having());
    expect([response.status, await response.json()]).toMatchObject([500, { error: { code: "backend_failed" } }]);
    const frames = await framesOf(await openStage(plays("Hi", ...events, stop)).ask(having({ stream: true })));
    expect(JSON.parse(frames.at(-1) ?? "")).toMatchObject({ error: { type: "server_error", code: "backend_failed" } });
  });
});

describe("several choices", () => {
  const play = plays(
    "A",
    { type: "text-delta", text: "B", candidate: 1 },
    { type: "finish", reason: "length", candidate: 1 },
    stop,
  );

  it("are told apart by their indices", async () => {
    expect((await completed(play, { n: 2 })).choices).toMatchObject([
      { index: 0, message: { content: "A" }, finish_reason: "stop" },
      { index: 1, message: { content: "B" }, finish_reason: "length" },
    ]);
    const chunks = await streamed(play, { n: 2 });
    expect([deltasOf(chunks, 0), deltasOf(chunks, 1)]).toEqual([[{ content: "A" }], [{ content: "B" }]]);
  });
});

describe("the counts of a stream", () => {
  it("are told where they were asked for, in a chunk without choices", async () => {
    const chunks = await streamed(plays("Hi", stop), { stream_options: { include_usage: true } });
    expect(chunks.map(({ usage }) => usage)).toEqual([null, null, null, expect.objectContaining({ total_tokens: 12 })]);
    expect(chunks.map(({ choices }) => choices.length)).toEqual([1, 1, 1, 0]);
  });

  it.each([undefined, null, {}, { include_usage: false }])(
    "are not told for stream_options %j",
    async (stream_options) => {
      const chunks = await streamed(plays("Hi", stop), { stream_options });
      for (const chunk of chunks) expect(chunk).not.toHaveProperty("usage");
      expect(chunks).toHaveLength(3);
    },
  );
});

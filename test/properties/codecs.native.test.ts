/** An answer of an upstream that speaks its caller's format goes through untouched, wherever its bytes were cut. */

import { describe, expect, it } from "vitest";
import { type ChatEvent, GatewayError } from "../../src/index.ts";
import {
  CODECS,
  completedText,
  decodedStream,
  decodedText,
  meant,
  metered,
  type Name,
  recording,
  recordings,
  requestOf,
  streamedText,
  streamOf,
} from "./upstream-answers.ts";

const NAMES: readonly Name[] = ["messages", "generate-content"];
/** Recordings that end in an error. */
const FAILING = new Set(["error", "failed", "broken-off", "vllm-error", "openrouter-error", "only-done"]);

/** What a caller must see of a recording: the gateway keeps the stream alive by itself, and ends its lines with LF. */
const expected = (text: string): string =>
  text.replaceAll("\r\n", "\n").replaceAll('event: ping\ndata: {"type":"ping"}\n\n', "");

/** A text without the counts that the gateway adds to messages frames (spec 2.7, 6.1). */
const withoutCounts = (text: string): string =>
  text
    .replaceAll(/,?"(?:input|output|cache_creation_input|cache_read_input)_tokens":\d+/g, "")
    .replaceAll("{,", "{")
    .replaceAll(/,?"usage":\{\}/g, "");

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** The most places at which a stream is cut in two. Every stream is also cut behind each of its bytes at once. */
const MOST_CUTS = 800;

/** Returns the places to cut at: all, or as many at equal distances. The distance is odd, so that cuts fall into every part of a frame. */
function placesIn(bytes: Uint8Array): number[] {
  const step = 2 * Math.floor(bytes.length / MOST_CUTS / 2) + 1;
  return Array.from({ length: Math.ceil((bytes.length + 1) / step) }, (_, index) => index * step);
}

describe.each(NAMES)("%s", (name) => {
  const streams = recordings(name, "txt").filter(([file]) => !FAILING.has(file));

  it.each(streams)("stream %s passes byte for byte", (_file, text) => {
    const request = requestOf(name);
    const written = streamedText(name, metered(decodedText(name, text), request));
    expect(withoutCounts(written)).toBe(withoutCounts(expected(text)));
  });

  it.each(streams)("stream %s passes wherever it was cut", (_file, text) => {
    const [bytes, request] = [bytesOf(text), requestOf(name)];
    const cutAt = (cut: number): string => {
      const events = decodedStream(name, bytes.subarray(0, cut), bytes.subarray(cut));
      return streamedText(name, metered(events, request));
    };
    const uncut = cutAt(0);
    expect(placesIn(bytes).filter((cut) => cutAt(cut) !== uncut)).toEqual([]);
    const singly = decodedStream(name, ...Array.from(bytes, (byte) => Uint8Array.of(byte)));
    expect(streamedText(name, metered(singly, request))).toBe(uncut);
  });

  it.each(recordings(name, "json"))("complete answer %s is its upstream's own text", (_file, text) => {
    const request = requestOf(name, { stream: false });
    const written = completedText(name, metered(CODECS[name].answerDecoder().answer(text), request), request);
    expect(withoutCounts(written)).toBe(withoutCounts(text));
  });

  it.each(streams)("stream %s began while its upstream was quiet, and begins once", (_file, text) => {
    const answer = metered(decodedText(name, text), requestOf(name), { quiet: true });
    const written = streamedText(name, answer);
    // The one format has a frame for the start alone, which the gateway has then written by itself.
    const ownFrames = name === "messages" ? 1 : 0;
    const rest = (frames: string): string => frames.split("\n\n").slice(ownFrames).join("\n\n");
    expect(withoutCounts(rest(written))).toBe(withoutCounts(rest(expected(text))));
    expect(written.includes('"id":"msg_1"')).toBe(name === "messages");
  });

  it("is decoded to the same meaning, whole or streamed", () => {
    const [streamed, whole] = [meant(decodedText(name, recording(name, "thinking-tools.txt"))), meant(complete(name))];
    for (const form of [streamed, whole]) expect(form.at(0)).toMatchObject({ type: "start", id: expect.any(String) });
    expect(summary(streamed)).toEqual(summary(whole));
  });

  it("tells an upstream's error in the middle without its words", () => {
    const [, text = ""] = recordings(name, "txt").find(([file]) => file === "error") ?? [];
    let thrown: unknown;
    try {
      decodedText(name, text);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(GatewayError);
    const told = streamOf(name).error(thrown as GatewayError);
    expect(told).not.toContain("10.0.0.7");
    expect(thrown).toMatchObject(
      name === "messages" ? { code: "backend_overloaded" } : { code: "rate_limited", retryAfterMs: 34_000 },
    );
  });

  it("is no answer where it broke off", () => {
    const [, text = ""] = recordings(name, "txt").find(([file]) => file === "broken-off") ?? [];
    expect(() => decodedText(name, text)).toThrow("The model backend's answer broke off.");
  });

  it.each(["", "null", "[]", "nothing", '{"type":"message"}', '{"candidates":7}', '{"content":"text"}'])(
    "is no complete answer where it is %o",
    (body) => {
      expect(() => CODECS[name].answerDecoder().answer(body)).toThrow(GatewayError);
    },
  );
});

/** The indices of calls that clients need, and that two upstreams leave out or repeat. */
const whole = (file: string, text: string): string => {
  let index = 0;
  if (file === "gemini-signatures")
    return text.replaceAll('"type":"function"}', (end) => `${end.slice(0, -1)},"index":${index++}}`);
  return file === "ollama-index-0" ? text.replaceAll('"index":0,"type"', () => `"index":${index++},"type"`) : text;
};

describe.each(["chat-completions", "responses"] as const)("%s", (name) => {
  const streams = recordings(name, "txt").filter(([file]) => !FAILING.has(file));
  const written = (...pieces: readonly Uint8Array[]): string =>
    streamedText(name, metered(decodedStream(name, ...pieces), requestOf(name)));

  it.each(streams)("stream %s passes byte for byte, wherever it was cut", (file, recorded) => {
    const bytes = bytesOf(recorded);
    const text = whole(file, recorded);
    expect(written(bytes)).toBe(text);
    expect(placesIn(bytes).filter((cut) => written(bytes.subarray(0, cut), bytes.subarray(cut)) !== text)).toEqual([]);
    expect(written(...Array.from(bytes, (byte) => Uint8Array.of(byte)))).toBe(text);
  });

  it.each(streams)("stream %s passes with lines that end in CR LF", (file, text) => {
    expect(written(bytesOf(text.replaceAll("\n", "\r\n")))).toBe(whole(file, text));
  });

  it.each(recordings(name, "json"))("complete answer %s is its upstream's own text", (_file, text) => {
    const request = requestOf(name, { stream: false });
    expect(completedText(name, metered(CODECS[name].answerDecoder().answer(text), request), request)).toBe(text);
  });
});

const complete = (name: Name) => CODECS[name].answerDecoder().answer(recording(name, "thinking-tools.json"));

/** Text and thoughts as one, calls with their arguments, and the end. */
function summary(events: ReturnType<typeof meant>): object {
  const told = { text: "", thoughts: "", calls: new Map<string, string>(), end: {} };
  for (const event of events) {
    if (event.type === "text-delta") told.text += event.text;
    if (event.type === "reasoning-delta") told.thoughts += event.text;
    if (event.type === "tool-call") told.calls.set(`${event.id} ${event.name}`, JSON.stringify(event.input));
    if (event.type === "tool-call-start") told.calls.set(`${event.id} ${event.name}`, "");
    if (event.type === "tool-call-delta")
      for (const [call, json] of told.calls)
        if (call.startsWith(`${event.id} `)) told.calls.set(call, json + event.json);
    if (event.type === "finish") told.end = event;
  }
  return { ...told, calls: Array.from(told.calls, ([call, json]) => [call, JSON.parse(json) as unknown]) };
}

describe("what messages frames mean", () => {
  it("is thinking, its seal, ciphertext, text and calls, each block by itself", () => {
    expect(meant(decodedText("messages", recording("messages", "thinking-tools.txt")))).toEqual([
      expect.objectContaining({ type: "start", id: "msg_01Thinking", model: "claude-sonnet-4-5-20250929" }),
      { type: "reasoning-delta", text: "Two cities – two ", block: "0" },
      { type: "reasoning-delta", text: "calls. 世界 🌍", block: "0" },
      { type: "reasoning-signature", signature: "EqQBCgIYAhIM1gbcDa9GJwZA2b3h==", maker: "messages" },
      { type: "redacted-reasoning", data: "EmwKAhgBEgy3va3pzix/LafPsn4a", maker: "messages" },
      { type: "text-delta", text: "I will look", block: "2" },
      { type: "text-delta", text: " at both.", block: "2" },
      { type: "tool-call-start", id: "toolu_01A", name: "get_weather" },
      { type: "tool-call-delta", id: "toolu_01A", json: '{"city": "Os' },
      { type: "tool-call-delta", id: "toolu_01A", json: 'lo"}' },
      { type: "tool-call-end", id: "toolu_01A" },
      { type: "tool-call-start", id: "toolu_01B", name: "get_time" },
      { type: "tool-call-delta", id: "toolu_01B", json: "{}" },
      { type: "tool-call-end", id: "toolu_01B" },
      {
        type: "finish",
        reason: "tool-calls",
        usage: {
          inputTokens: 21 + 2048 + 512,
          outputTokens: 187,
          cacheReadTokens: 512,
          cacheWriteTokens: 2048,
          cacheWritesByTtl: { "5m": 1024, "1h": 1024 },
          serviceTier: "standard",
        },
      },
    ]);
  });

  it("is the provider's own tool, what came of it, and citations of a block", () => {
    const events = meant(decodedText("messages", recording("messages", "web-search.txt")));
    expect(events.filter(({ type }) => type === "provider")).toMatchObject([
      { format: "messages", value: { type: "server_tool_use", input: { query: "weather oslo" } } },
      { format: "messages", value: { type: "web_search_tool_result", tool_use_id: "srvtoolu_01" } },
    ]);
    expect(events).toContainEqual({
      type: "annotation",
      annotation: expect.objectContaining({
        type: "citations",
        citations: [
          {
            start: 12,
            end: 33,
            uri: "https://example.com/oslo",
            title: expect.any(String) as unknown,
            quote: expect.any(String) as unknown,
          },
        ],
      }),
    });
    expect(events.at(-1)).toMatchObject({
      reason: "pause",
      usage: { inputTokens: 10_682, outputTokens: 510, serverToolUses: { web_search: 1 }, serviceTier: "priority" },
    });
  });

  it.each([
    ["refusal", { reason: "refusal", usage: { inputTokens: 13, outputTokens: 4 } }],
    ["window", { reason: "context-window" }],
    ["stop-sequence", { reason: "stop-sequence", stopSequence: "4" }],
    ["unknown", { reason: "other" }],
  ])("is how it ended: %s", (file, finish) => {
    expect(meant(decodedText("messages", recording("messages", `${file}.txt`))).at(-1)).toMatchObject(finish);
  });

  it.each([
    ['{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'],
    ['{"type":"message_start"}'],
    ['{"type":"message_start","message":{"usage":{"input_tokens":"7"}}}'],
    ["[1]"],
  ])("is an error where nothing like it can come first: %s", (data) => {
    expect(() => CODECS.messages.answerDecoder().frame(undefined, data)).toThrow(GatewayError);
  });
});

describe("what generate-content chunks mean", () => {
  it("counts what was cached in its prompt, and thoughts in its output", () => {
    expect(meant(decodedText("generate-content", recording("generate-content", "thinking-tools.txt"))).at(-1)).toEqual({
      type: "finish",
      reason: "tool-calls",
      usage: expect.objectContaining({
        inputTokens: 1200,
        cacheReadTokens: 1024,
        outputTokens: 91,
        reasoningTokens: 60,
      }) as unknown,
    });
  });

  it("holds parts of kinds that nobody knows as the provider's own", () => {
    expect(meant(decodedText("generate-content", recording("generate-content", "unknown.txt")))).toContainEqual({
      type: "provider",
      format: "generate-content",
      value: { hologram: { sides: [6] } },
    });
  });
});

describe("a messages stream that the gateway cuts", () => {
  it("closes what is open, and ends with its own reason", () => {
    const request = requestOf("messages", { maxOutputTokens: 1 });
    // Without the counts that keep the gateway from cutting it.
    const events = decodedText("messages", recording("messages", "thinking-tools.txt")).map((event): ChatEvent =>
      event.type === "native"
        ? { ...event, events: event.events.filter(({ type }) => type !== "start" && type !== "usage") }
        : event,
    );
    const cut = metered(events, request, { countTokens: (text) => (text.includes("look") ? 200 : 0) });
    const frames = streamedText("messages", cut, request).split("\n\n").slice(-6);
    expect(frames.map((frame) => frame.split("\n")[0])).toEqual([
      "event: content_block_start",
      "event: content_block_delta",
      "event: content_block_stop",
      "event: message_delta",
      "event: message_stop",
      "",
    ]);
    expect(frames[2]).toContain('"index":2');
    expect(frames[3]).toContain('"stop_reason":"max_tokens"');
  });

  it("goes on behind an upstream's frames, as one message", () => {
    const request = requestOf("messages");
    const [start, block] = decodedText("messages", recording("messages", "refusal.txt"));
    const mixed = [start, block].flatMap((event) => event ?? []);
    const answer = metered(
      [...mixed, { type: "text-delta", text: "Mine" }, { type: "finish", reason: "stop" }],
      request,
    );
    const frames = streamedText("messages", answer, request).split("\n\n");
    const types = frames.map((frame) => frame.split("\n")[0]?.replace("event: ", ""));
    expect(types.filter((type) => /^message_(?:start|stop)$/.test(type ?? ""))).toEqual([
      "message_start",
      "message_stop",
    ]);
    const ofMine = frames.find((frame) => frame.includes("Mine")) ?? "";
    const opened = frames.filter((frame) => frame.includes("content_block_start")).at(-1) ?? "";
    expect(/"index":(\d+)/.exec(ofMine)?.[1]).toBe(/"index":(\d+)/.exec(opened)?.[1]);
  });
});

it("a complete messages answer of a streaming upstream has its blocks, its reason and its counts", () => {
  const request = requestOf("messages", { stream: false });
  const events = decodedText("messages", recording("messages", "web-search.txt"));
  expect(JSON.parse(completedText("messages", metered(events, request), request))).toMatchObject({
    content: [
      { type: "text", text: "I'll search." },
      { type: "server_tool_use", id: "srvtoolu_01", name: "web_search", input: { query: "weather oslo" } },
      { type: "web_search_tool_result", tool_use_id: "srvtoolu_01" },
      { type: "text", text: "It is 12 °C in Oslo." },
    ],
    stop_reason: "pause_turn",
    usage: { input_tokens: 10_682, server_tool_use: { web_search_requests: 1 }, service_tier: "priority" },
  });
});

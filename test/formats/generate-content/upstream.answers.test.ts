/** What odd answers of upstreams of the generate-content format mean: of other gateways, and of older models. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { JoinedChunks } from "../../../src/formats/generate-content/answer.ts";
import { type ChatEvent, type FinishReason, GatewayError } from "../../../src/index.ts";
import {
  CODECS,
  completedText,
  decodedText,
  meant,
  metered,
  recording,
  requestOf,
  streamedText,
} from "../../properties/upstream-answers.ts";

const FOLDER = join(import.meta.dirname, "..", "..", "recordings", "upstream", "generate-content", "odd");
const odd = (file: string): string => readFileSync(join(FOLDER, file), "utf8");

/** The parts of a messages answer that callers of that format get. */
const content = (events: readonly ChatEvent[]): unknown => {
  const request = requestOf("messages", { stream: false });
  const body = JSON.parse(completedText("messages", metered(events, request), request)) as { content: unknown };
  return body.content;
};

describe("a stream", () => {
  it.each(["finish-first.txt", "finish-each.txt", "finish-empty-text.txt", "done.txt"])("of %s is whole", (file) => {
    const events = decodedText("generate-content", odd(file));
    expect(content(events)).toEqual([{ type: "text", text: "It is noon.", citations: [] }]);
    const finish = metered(events, requestOf("messages")).at(-1);
    expect(finish).toMatchObject({ type: "finish", usage: { inputTokens: 9, outputTokens: 4 } });
    expect(finish).toMatchObject({ endings: [{ reason: file === "finish-empty-text.txt" ? "length" : "stop" }] });
  });

  it("gives callers of messages the counts of its prompt with the start, where some clients read them", () => {
    const content = { candidates: [{ content: { parts: [{ text: "Noon." }] } }] };
    const first = { ...content, usageMetadata: { promptTokenCount: 9, cachedContentTokenCount: 4 } };
    const text = `data: ${JSON.stringify(first)}\n\n${odd("finish-each.txt")}`;
    const request = requestOf("messages");
    const written = streamedText("messages", metered(decodedText("generate-content", text), request), request);
    const [start = ""] = /(?<=^data: ).*/m.exec(written) ?? [];
    const usage = { input_tokens: 5, cache_read_input_tokens: 4, output_tokens: 0 };
    expect(JSON.parse(start)).toMatchObject({ type: "message_start", message: { usage } });
  });

  it("has no [DONE] for callers of the format, whose clients cannot read it", () => {
    const request = requestOf("generate-content");
    const written = streamedText(
      "generate-content",
      metered(decodedText("generate-content", odd("done.txt")), request),
    );
    const whole = '"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":""}]}}]';
    expect(written).toBe(odd("done.txt").replace("data: [DONE]\n\n", "").replace('"candidates":[]', whole));
  });

  const USAGE = { usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 4, totalTokenCount: 13 } };
  const TEXT = [{ text: "Noon." }];
  const EMPTY = { role: "model", parts: [{ text: "" }] };

  it.each([
    ["a content", { finishReason: "STOP" }, EMPTY],
    ["parts", { content: { role: "model" }, finishReason: "MAX_TOKENS" }, EMPTY],
    ["a part", { content: { parts: [] }, finishReason: "STOP" }, EMPTY],
    ["a field in its part", { content: { role: "model", parts: [{}] }, finishReason: "STOP" }, EMPTY],
    ["a role", { content: { parts: TEXT }, finishReason: "STOP" }, { role: "model", parts: TEXT }],
    ["a content, for it was blocked", { finishReason: "SAFETY" }, undefined],
  ])("gives callers of the format a candidate whole that lacks %s", (_name, candidate, content) => {
    const request = requestOf("generate-content");
    const bodies = [
      { candidates: [{ content: { role: "model", parts: TEXT } }] },
      { candidates: [candidate], ...USAGE },
    ];
    const text = bodies.map((body) => `data: ${JSON.stringify(body)}\n\n`).join("");
    const written = streamedText("generate-content", metered(decodedText("generate-content", text), request), request);
    const [, last = ""] = written.split("data: ").filter((frame) => frame !== "");
    const expected = { candidates: [{ ...candidate, ...(content && { content }) }], ...USAGE };
    expect(JSON.parse(last)).toEqual(expected);
    const events = CODECS["generate-content"].answerDecoder().answer(JSON.stringify(bodies[1]));
    expect(JSON.parse(completedText("generate-content", metered(events, request), request))).toEqual(expected);
  });

  it("has the letters of an upstream in a chunk that gets a role", () => {
    const json =
      '{"candidates":[ {"content":{"parts":[{"functionCall":{"name":"f","args":{"id":12345678901234567890,"at":1.0}}}]},"finishReason":"STOP"}]}';
    const request = requestOf("generate-content");
    const events = decodedText("generate-content", `data: ${json}\n\n`);
    expect(streamedText("generate-content", metered(events, request), request)).toBe(
      `data: ${json.replace("[ {", "[{").replace("}}}]}", '}}}],"role":"model"}')}\n\n`,
    );
  });

  it("that ends with an empty content calls its tools", () => {
    const events = decodedText("generate-content", odd("tool-then-empty.txt"));
    expect(meant(events)).toContainEqual({
      type: "tool-call",
      id: "call_r_todo_1",
      name: "write_todo",
      input: { update_by: "id" },
    });
    expect(meant(events).at(-1)).toMatchObject({ type: "finish", reason: "tool-calls" });
  });

  it("gives each call an id of its own, reads arguments that are text, and takes a repeated call for the same one", () => {
    const calls = meant(decodedText("generate-content", odd("calls.txt"))).filter(({ type }) => type === "tool-call");
    const seal = { signature: "CiQB0e2Kb5f3yq==", maker: "generate-content" };
    expect(calls).toEqual([
      { type: "tool-call", id: "read_file", name: "read_file", input: { path: "a.ts" }, ...seal },
      { type: "tool-call", id: "call_r_calls_1", name: "read_file", input: { path: "b.ts" } },
      { type: "tool-call", id: "call_r_calls_2", name: "list_files", input: {} },
      { type: "tool-call", id: "call_r_calls_3", name: "list_files", input: {} },
    ]);
  });

  it("never gives two answers the same id of a call, also without ids of their own", () => {
    const chunk = { candidates: [{ content: { parts: [{ functionCall: { name: "f" } }] }, finishReason: "STOP" }] };
    const ids = [1, 2].map(() => {
      const events = meant(CODECS["generate-content"].answerDecoder().answer(JSON.stringify(chunk)));
      return events.flatMap((event) => (event.type === "tool-call" ? event.id : []));
    });
    expect(new Set(ids.flat()).size).toBe(2);
  });

  it("refuses arguments that are no object", () => {
    const functionCall = { name: "f", args: "[1]" };
    const body = { candidates: [{ content: { parts: [{ functionCall }] }, finishReason: "STOP" }] };
    expect(() => CODECS["generate-content"].answerDecoder().answer(JSON.stringify(body))).toThrow(GatewayError);
  });

  it.each([
    ["error-array.txt", "backend_unavailable"],
    ["error-text.txt", "backend_failed"],
  ])("ends with the error in %s", (file, code) => {
    expect(() => decodedText("generate-content", odd(file))).toThrow(expect.objectContaining({ code }) as Error);
  });
});

const decodedArray = () => CODECS["generate-content"].answerDecoder().answer(odd("stream-as-array.json"));

describe("a JSON array where one answer was expected", () => {
  it("is the answer of its chunks", () => {
    expect(content(decodedArray())).toEqual([{ type: "text", text: "It is noon.", citations: [] }]);
  });

  it("reaches callers of the format as a stream, and as one answer", () => {
    const request = requestOf("generate-content");
    const written = streamedText("generate-content", metered(decodedArray(), request));
    const frames = written.split("\n\n").filter((frame) => frame !== "");
    const chunks = frames.map((frame) => JSON.parse(frame.slice("data: ".length)) as unknown);
    expect(chunks).toEqual(JSON.parse(odd("stream-as-array.json")));
    const whole = requestOf("generate-content", { stream: false });
    expect(JSON.parse(completedText("generate-content", metered(decodedArray(), whole), whole))).toMatchObject({
      candidates: [{ content: { parts: [{ text: "It is noon." }] }, finishReason: "STOP" }],
      usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 4 },
    });
  });

  it("has each chunk on one line, also for clients that end a line at further characters", () => {
    const ends = "a\u0085b\u2028c\u2029d";
    const chunk = {
      candidates: [{ content: { role: "model", parts: [{ text: ends }] }, finishReason: "STOP", index: 0 }],
    };
    const events = CODECS["generate-content"].answerDecoder().answer(JSON.stringify([chunk]));
    const written = streamedText("generate-content", metered(events, requestOf("generate-content")));
    expect(written).toContain(String.raw`a\u0085b\u2028c\u2029d`);
  });

  it("is the error in it", () => {
    const error = { code: "rate_limited", retryAfterMs: 34_000 };
    const decoder = CODECS["generate-content"].answerDecoder();
    expect(() => decoder.answer(odd("error-array.json"))).toThrow(expect.objectContaining(error) as Error);
  });
});

describe("a blocked prompt", () => {
  it.each([
    ["SAFETY", "safety", "content-filter"],
    ["OTHER", "other", "content-filter"],
    ["BLOCKLIST", "blocklist", "blocklist"],
    ["PROHIBITED_CONTENT", "prohibited-content", "prohibited-content"],
    ["IMAGE_SAFETY", "unsafe-image", "unsafe-image"],
    ["JAILBREAK", "prohibited-content", "prohibited-content"],
    ["MODEL_ARMOR", "safety", "content-filter"],
    ["BLOCKED_REASON_UNSPECIFIED", "unspecified", "content-filter"],
    ["NEWLY_INVENTED", "other", "content-filter"],
  ])("for %s is told, and ends as filtered", (wire, blockReason, reason) => {
    const body = JSON.stringify({ promptFeedback: { blockReason: wire }, responseId: "r" });
    expect(meant(CODECS["generate-content"].answerDecoder().answer(body))).toEqual([
      { type: "start", id: "r" },
      { type: "prompt-feedback", blockReason, ratings: [] },
      { type: "finish", reason },
    ]);
  });

  it("ends once where its candidate has no content, and its feedback is repeated", () => {
    const events = meant(decodedText("generate-content", odd("blocked-with-candidate.txt")));
    expect(events.filter(({ type }) => type === "finish")).toEqual([{ type: "finish", reason: "prohibited-content" }]);
  });

  it("ends a stream of its recording", () => {
    const events = meant(decodedText("generate-content", recording("generate-content", "blocked.txt")));
    expect(events.at(-1)).toMatchObject({ type: "finish", reason: "prohibited-content" });
  });
});

it.each<[string, FinishReason]>([
  ["SAFETY", "content-filter"],
  ["PROHIBITED_CONTENT", "prohibited-content"],
  ["BLOCKLIST", "blocklist"],
  ["SPII", "personal-data"],
  ["RECITATION", "recitation"],
  ["IMAGE_SAFETY", "unsafe-image"],
  ["LANGUAGE", "language"],
  ["OTHER", "other"],
  ["MALFORMED_FUNCTION_CALL", "malformed-tool-call"],
  ["UNEXPECTED_TOOL_CALL", "malformed-tool-call"],
  ["TOO_MANY_TOOL_CALLS", "malformed-tool-call"],
  ["MISSING_THOUGHT_SIGNATURE", "other"],
  ["MALFORMED_RESPONSE", "other"],
  ["IMAGE_PROHIBITED_CONTENT", "unsafe-image"],
  ["IMAGE_RECITATION", "recitation"],
  ["IMAGE_OTHER", "other"],
  ["NO_IMAGE", "other"],
  ["CONTINUATION", "length"],
  ["MODEL_ARMOR", "content-filter"],
])("an answer that ends with %s ends for %s", (finishReason, reason) => {
  const body = JSON.stringify({ candidates: [{ finishReason }] });
  expect(meant(CODECS["generate-content"].answerDecoder().answer(body)).at(-1)).toEqual({ type: "finish", reason });
});

/** The finish reason that callers of the format get. */
const finishReasonOf = (events: readonly ChatEvent[]): unknown => {
  const request = requestOf("generate-content", { stream: false });
  const body = JSON.parse(completedText("generate-content", metered(events, request), request)) as {
    candidates: [{ finishReason: string }];
  };
  return body.candidates[0].finishReason;
};

describe("a refusal of another upstream", () => {
  it.each<[string, readonly ChatEvent[]]>([
    ["that is named at the end", [{ type: "finish", reason: "refusal" }]],
    ["that a filter made", [{ type: "finish", reason: "content-filter" }]],
    [
      "that is only a text of its own",
      [
        { type: "refusal-delta", text: "No." },
        { type: "finish", reason: "stop" },
      ],
    ],
  ])("%s never ends as a complete answer", (_how, events) => {
    expect(finishReasonOf(events)).toBe("SAFETY");
  });

  it("leaves the reason of an answer that was cut short", () => {
    expect(
      finishReasonOf([
        { type: "refusal-delta", text: "No" },
        { type: "finish", reason: "length" },
      ]),
    ).toBe("MAX_TOKENS");
  });
});

it("joins chunks whose only candidate has no index", () => {
  const chunks = new JoinedChunks();
  for (const text of ["Hel", "lo"]) chunks.add({ candidates: [{ content: { parts: [{ text }] } }] });
  chunks.add({ candidates: [{ finishReason: "STOP" }] });
  expect(chunks.body).toEqual({
    candidates: [{ content: { role: "model", parts: [{ text: "Hello" }] }, finishReason: "STOP", index: 0 }],
  });
});

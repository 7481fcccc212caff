/** Answers of Converse as neutral events: the same, whether complete or streamed. */

import type { ContentBlock, ConverseResponse } from "@aws-sdk/client-bedrock-runtime";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ConverseDecoder } from "../../../src/clouds/converse/answer.decode.ts";
import { describeError } from "../../../src/errors.ts";
import type { ChatEvent, JsonObject } from "../../../src/index.ts";
import { answered } from "../converse-mock.ts";
import { answerBody, eventsOf } from "../converse-wire.ts";

const CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";

type Neutral = Exclude<ChatEvent, { type: "native" }>;

interface Read {
  readonly events: readonly Neutral[];
  readonly unsupported: readonly string[];
}

function readBy(pieces: readonly ChatEvent[]): Read {
  const events = pieces.flatMap((event) => (event.type === "native" ? event.events : [event]));
  const unsupported = pieces.flatMap((event) => (event.type === "native" ? (event.unsupported?.() ?? []) : []));
  return { events, unsupported };
}

const complete = (answer: ConverseResponse, model = CLAUDE): Read =>
  readBy(new ConverseDecoder(undefined, model).answer(answerBody(answer)));

/** Writes an event as AWS does: by the JSON of its member. */
const jsonOf = (value: unknown): string =>
  JSON.stringify(value, (_name, inner: unknown) => {
    const { type, data } = (inner ?? {}) as { type?: unknown; data?: unknown };
    // A buffer has become a list of bytes before it comes here.
    return type === "Buffer" ? Buffer.from(data as number[]).toString("base64") : inner;
  });

function streamed(answer: ConverseResponse, model = CLAUDE): Read {
  const decoder = new ConverseDecoder(undefined, model);
  const pieces = eventsOf(answer).flatMap((event) =>
    Object.entries(event).flatMap(([name, value]) => decoder.frame(name, jsonOf(value))),
  );
  decoder.end();
  return readBy(pieces);
}

/** Joins what a stream has divided. */
function joined(events: readonly Neutral[]): Neutral[] {
  const whole: Neutral[] = [];
  const json = new Map<string, string>();
  for (const event of events) {
    const last = whole.at(-1);
    if (
      (event.type === "text-delta" || event.type === "reasoning-delta") &&
      last?.type === event.type &&
      last.block === event.block
    )
      whole[whole.length - 1] = { ...last, text: last.text + event.text };
    else if (event.type === "tool-call-delta") json.set(event.id, (json.get(event.id) ?? "") + event.json);
    else if (event.type === "tool-call-start") whole.push({ ...event, type: "tool-call", input: {} });
    else if (event.type === "tool-call-end") {
      const at = whole.findIndex((one) => one.type === "tool-call" && one.id === event.id);
      whole[at] = {
        ...(whole[at] as Neutral & { type: "tool-call" }),
        input: JSON.parse(json.get(event.id) ?? "{}") as JsonObject,
      };
    } else whole.push(event);
  }
  return whole;
}

const of = (...content: ContentBlock[]): ConverseResponse =>
  answered({ output: { message: { role: "assistant", content } } });

const REDACTED = Buffer.from("An encrypted thought of some length.");
const IMAGE = Buffer.from("not quite a picture");

const BLOCKS: readonly (readonly [name: string, block: ContentBlock, events: readonly object[]])[] = [
  ["a text", { text: "Grüße" }, [{ type: "text-delta", text: "Grüße", block: "0" }]],
  [
    "a call",
    { toolUse: { toolUseId: "tooluse_1", name: "look", input: { at: "é" } } },
    [{ type: "tool-call", id: "tooluse_1", name: "look", input: { at: "é" } }],
  ],
  [
    "signed reasoning",
    { reasoningContent: { reasoningText: { text: "Hm, let me see.", signature: "c2ln" } } },
    [
      { type: "reasoning-delta", text: "Hm, let me see.", block: "0" },
      { type: "reasoning-signature", signature: "c2ln", maker: "bedrock-converse.anthropic" },
    ],
  ],
  [
    "reasoning without a signature",
    { reasoningContent: { reasoningText: { text: "Hm." } } },
    [{ type: "reasoning-delta", text: "Hm.", block: "0" }],
  ],
  [
    "encrypted reasoning",
    { reasoningContent: { redactedContent: REDACTED } },
    [{ type: "redacted-reasoning", data: REDACTED.toString("base64"), maker: "bedrock-converse.anthropic" }],
  ],
  [
    "a picture",
    { image: { format: "png", source: { bytes: IMAGE } } },
    [{ type: "media", mediaType: "image/png", data: IMAGE.toString("base64") }],
  ],
  [
    "a cited text",
    {
      citationsContent: {
        content: [{ text: "It rains." }],
        citations: [
          { title: "Weather", sourceContent: [{ text: "Rain." }], location: { web: { url: "https://example.com/w" } } },
          { source: "report", location: { documentPage: { documentIndex: 0, start: 1, end: 2 } } },
        ],
      },
    },
    [
      { type: "text-delta", text: "It rains.", block: "0" },
      {
        type: "annotation",
        annotation: {
          type: "citations",
          citations: [
            { start: 0, end: 9, uri: "https://example.com/w", title: "Weather", quote: "Rain." },
            { start: 0, end: 9, uri: "report" },
          ],
        },
      },
    ],
  ],
  [
    "a call of a tool of Bedrock's own",
    { toolUse: { toolUseId: "t1", name: "nova_grounding", input: { q: "x" }, type: "server_tool_use" } },
    [
      {
        type: "provider",
        format: "bedrock-converse",
        value: { toolUse: { toolUseId: "t1", name: "nova_grounding", input: { q: "x" }, type: "server_tool_use" } },
      },
      { type: "usage", usage: { serverToolUses: { web_search: 1 } } },
    ],
  ],
  [
    "a result of a tool of Bedrock's own",
    { toolResult: { toolUseId: "t1", content: [{ text: "found" }], type: "nova_grounding_result" } },
    [
      {
        type: "provider",
        format: "bedrock-converse",
        value: { toolResult: { toolUseId: "t1", content: [{ text: "found" }], type: "nova_grounding_result" } },
      },
    ],
  ],
];

describe("a block of Converse", () => {
  it.each(BLOCKS)("%s means the same, complete and streamed", (_name, block, expected) => {
    const around = [{ type: "start" }, ...expected, { type: "finish", reason: "stop" }, { type: "usage" }];
    expect(joined(complete(of(block)).events)).toMatchObject(around);
    expect(joined(streamed(of(block)).events)).toMatchObject(around);
  });

  it("counts each use of Bedrock's own tools, by the names of all vendors", () => {
    const uses = ["nova_grounding", "nova_code_interpreter", "nova_grounding", "other"].map(
      (name, at): ContentBlock => ({
        toolUse: { toolUseId: `t${at}`, name, input: {}, type: "server_tool_use" },
      }),
    );
    for (const { events } of [complete(of(...uses)), streamed(of(...uses))]) {
      const told = events.flatMap((event) => (event.type === "usage" ? [event.usage.serverToolUses] : []));
      expect(told.findLast(Boolean)).toEqual({ web_search: 2, code_interpreter: 1, other: 1 });
    }
  });

  it("counts the uses of as many tools as there may be, and no more", () => {
    const uses = Array.from({ length: 70 }, (_, at): ContentBlock => ({
      toolUse: { toolUseId: `t${at}`, name: `tool_${at}`, input: {}, type: "server_tool_use" },
    }));
    const told = complete(of(...uses)).events.flatMap((event) => (event.type === "usage" ? [event.usage] : []));
    expect(Object.keys(told.findLast(({ serverToolUses }) => serverToolUses)?.serverToolUses ?? {})).toHaveLength(64);
  });

  it("means the same in any order, complete and streamed", () => {
    const text = fc.string({ unit: "binary", minLength: 1, maxLength: 40 }).filter((one) => one.isWellFormed());
    const block = fc.oneof(
      text.map((one): ContentBlock => ({ text: one })),
      text.map((one): ContentBlock => ({ reasoningContent: { reasoningText: { text: one, signature: "c2ln" } } })),
      fc.uint8Array({ minLength: 1, maxLength: 40 }).map((bytes): ContentBlock => ({
        reasoningContent: { redactedContent: Buffer.from(bytes) },
      })),
      fc.tuple(fc.uuid(), text).map(([toolUseId, at]): ContentBlock => ({
        toolUse: { toolUseId, name: "look", input: { at } },
      })),
    );
    fc.assert(
      fc.property(fc.array(block, { maxLength: 8 }), (content) => {
        expect(joined(streamed(of(...content)).events)).toEqual(joined(complete(of(...content)).events));
      }),
    );
  });
});

/** The fields of a citation that are lost. */
const cited = (at: string): string[] => ["location.documentPage", "sourceContent"].map((name) => `${at}.${name}`);

describe("what the neutral model has no words for", () => {
  it("is told once, complete and streamed", () => {
    const answer = answered({
      ...of(BLOCKS[6]?.[1] as ContentBlock),
      trace: { promptRouter: { invokedModelId: "m" } },
      additionalModelResponseFields: { stop_sequence: "END", logits: [1] },
    });
    const common = ["additionalModelResponseFields.logits", "metrics", "trace"];
    expect([...complete(answer).unsupported].toSorted()).toEqual(
      [...common, ...cited("output.message.content.citationsContent.citations")].toSorted(),
    );
    expect([...streamed(answer).unsupported].toSorted()).toEqual([...common, ...cited("delta.citation")].toSorted());
  });

  it("is nothing of a usual answer but its latency", () => {
    const answer = of({ text: "Hi." }, { toolUse: { toolUseId: "a", name: "look", input: {} } });
    const usage = { inputTokens: 1, outputTokens: 2, totalTokens: 3, serverToolUsage: {}, cacheReadInputTokenCount: 0 };
    expect(complete({ ...answer, usage }).unsupported).toEqual(["metrics"]);
    expect(streamed({ ...answer, usage }).unsupported).toEqual(["metrics"]);
  });
});

describe("the counts", () => {
  it.each([
    [
      { inputTokens: 3, outputTokens: 4, totalTokens: 7 },
      { inputTokens: 3, outputTokens: 4 },
    ],
    [
      { inputTokens: 3, outputTokens: 4, totalTokens: 27, cacheReadInputTokens: 20, cacheWriteInputTokens: 0 },
      { inputTokens: 23, outputTokens: 4, cacheReadTokens: 20, cacheWriteTokens: 0 },
    ],
  ])("of %j are the whole input with its cached parts", (usage, expected) => {
    for (const { events } of [complete(answered({ usage })), streamed(answered({ usage }))])
      expect(events.at(-1)).toEqual({ type: "usage", usage: expected });
  });

  it("of an answer that cannot be read are told", () => {
    const decoder = new ConverseDecoder(undefined, CLAUDE);
    const body = JSON.stringify({ output: {}, usage: { inputTokens: 3, outputTokens: 4 } });
    expect(() => decoder.answer(body)).toThrow("has not the shape of one");
    expect(decoder.lost(body)).toEqual([{ type: "usage", usage: { inputTokens: 3, outputTokens: 4 } }]);
  });
});

describe("a stream", () => {
  it("without its start, with empty pieces, and with its counts before its end, is read", () => {
    const decoder = new ConverseDecoder(undefined, "us.amazon.nova-2-lite-v1:0");
    const frames: readonly (readonly [name: string, value: object])[] = [
      ["contentBlockStart", { contentBlockIndex: 0, start: {} }],
      ["contentBlockDelta", { contentBlockIndex: 0, delta: { text: "" } }],
      ["contentBlockDelta", { contentBlockIndex: 0, delta: { text: "Hi." } }],
      ["contentBlockStop", { contentBlockIndex: 0 }],
      ["contentBlockStop", { contentBlockIndex: 5 }],
      ["aNewEvent", { something: 1 }],
      ["metadata", { usage: { inputTokens: 1, outputTokens: 2 } }],
      ["messageStop", { stopReason: "end_turn" }],
    ];
    const { events, unsupported } = readBy(
      frames.flatMap(([name, value]) => decoder.frame(name, JSON.stringify(value))),
    );
    decoder.end();
    expect(events).toEqual([
      { type: "start" },
      { type: "text-delta", text: "Hi.", block: "0" },
      { type: "usage", usage: { inputTokens: 1, outputTokens: 2 } },
      { type: "finish", reason: "stop" },
    ]);
    expect(unsupported).toEqual(["aNewEvent"]);
  });

  it("of ever new events tells a few of their names", () => {
    const decoder = new ConverseDecoder(undefined, CLAUDE);
    const pieces = Array.from({ length: 1_000 }, (_, index) => decoder.frame(`new${index}`, "{}")).flat();
    expect(readBy(pieces).unsupported).toHaveLength(32);
  });

  it("with very many results of a tool of Bedrock's own is read", () => {
    const decoder = new ConverseDecoder(undefined, CLAUDE);
    const start = { toolResult: { toolUseId: "a" } };
    const toolResult = Array.from({ length: 200_000 }, () => ({}));
    decoder.frame("contentBlockStart", JSON.stringify({ contentBlockIndex: 0, start }));
    decoder.frame("contentBlockDelta", JSON.stringify({ contentBlockIndex: 0, delta: { toolResult } }));
    const { events } = readBy(decoder.frame("contentBlockStop", JSON.stringify({ contentBlockIndex: 0 })));
    expect(events).toEqual([
      { type: "provider", format: "bedrock-converse", value: { toolResult: { toolUseId: "a", content: toolResult } } },
    ]);
  });

  it.each([
    [{ text: "Hi." }, true],
    [{ reasoningContent: { text: "Hm." } }, true],
    [{ text: "Hi.", citation: { source: "a" } }, false],
    [{ reasoningContent: { text: "Hm.", redactedContent: "QUJD" } }, false],
  ])("is read without a parser only where its frames hold a text alone: %j", (delta, isAlone) => {
    const decoder = new ConverseDecoder(undefined, CLAUDE);
    const data = JSON.stringify({ contentBlockIndex: 0, delta });
    const frame = `event: contentBlockDelta\ndata: ${data}\n\n`;
    decoder.frame("messageStart", "{}");
    decoder.frame("contentBlockDelta", data);
    decoder.note(frame);
    expect(decoder.run(frame.repeat(4), 0, 10_000, true) !== undefined).toBe(isAlone);
  });

  it("is told when its bytes come in pieces that are not base64", () => {
    const decoder = new ConverseDecoder(undefined, CLAUDE);
    for (const redactedContent of ["QUJD", "?"])
      decoder.frame(
        "contentBlockDelta",
        JSON.stringify({ contentBlockIndex: 0, delta: { reasoningContent: { redactedContent } } }),
      );
    expect(() => decoder.frame("contentBlockStop", '{"contentBlockIndex":0}')).toThrow("bytes that are not base64");
  });

  it("is told when it holds more than fits in memory", () => {
    const decoder = new ConverseDecoder(undefined, CLAUDE);
    const piece = "QUJD".repeat(500_000);
    const data = JSON.stringify({ contentBlockIndex: 0, delta: { reasoningContent: { redactedContent: piece } } });
    let error: unknown;
    try {
      for (let index = 0; index < 10; index++) decoder.frame("contentBlockDelta", data);
    } catch (thrown) {
      error = thrown;
    }
    expect(describeError(error)).toContain("does not end what it has begun");
  });
});

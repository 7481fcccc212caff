/** Frames that differ by a text alone are not parsed. Their answer is the same in every byte, event and count as that of parsed frames. */

import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { FrameShape } from "../../../src/formats/shared/frame-shape.ts";
import {
  type CallRecord,
  createGateway,
  type HookAnswer,
  memoryQuotaStore,
  type ModelBackend,
} from "../../../src/index.ts";
import type { ChatEvent } from "../../../src/model/chat-event.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { answerOf } from "../../bench/agent/answers.ts";
import { CHAT_FORMATS, type ChatFormat } from "../../bench/agent/requests.ts";
import { recordings } from "../../properties/upstream-answers.ts";

afterEach(() => void vi.restoreAllMocks());

const ASK: Readonly<Record<ChatFormat, (most: number) => readonly [path: string, body: object]>> = {
  messages: (max_tokens) => ["/v1/messages", { max_tokens, messages: [{ role: "user", content: "Go." }] }],
  "chat-completions": (max_completion_tokens) => [
    "/v1/chat/completions",
    { max_completion_tokens, messages: [{ role: "user", content: "Go." }] },
  ],
  "generate-content": (maxOutputTokens) => [
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    { contents: [{ role: "user", parts: [{ text: "Go." }] }], generationConfig: { maxOutputTokens } },
  ],
  responses: (max_output_tokens) => ["/v1/responses", { max_output_tokens, input: "Go." }],
};

interface Asked {
  readonly by: ChatFormat;
  readonly upstream: ChatFormat;
  readonly maxTokens: number;
  /** True for an upstream that has another name for the model. */
  readonly isRenamed: boolean;
}

/** Asks a gateway for a stream, before an upstream that sends these pieces. Returns all that anyone can see of the call. */
async function seen({ by, upstream, maxTokens, isRenamed }: Asked, pieces: readonly string[]): Promise<object> {
  const left = pieces.map((piece) => Uint8Array.from(Buffer.from(piece, "latin1")));
  const answer = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      const piece = left.shift();
      if (piece) controller.enqueue(piece);
      else controller.close();
    },
  });
  const asked = relay({
    format: upstream,
    baseUrl: "http://up.test/v1",
    fetch: async () => new Response(answer, { headers: { "content-type": "text/event-stream" } }),
    ...(isRenamed && { models: { m: "bench" } }),
  });
  const events: ChatEvent[] = [];
  const backend: ModelBackend = {
    ...asked,
    async *chat(request, call) {
      for await (const event of asked.chat(request, call)) {
        if (typeof event === "object") events.push(event);
        yield event;
      }
    },
  };
  const quotas = memoryQuotaStore([{ apiKey: "sk-one", name: "one", granted: 1_000_000 }]);
  const [records, answers, failures]: [CallRecord[], HookAnswer[], string[]] = [[], [], []];
  const gateway = createGateway({
    backend,
    quotas,
    onCall: (record) => void records.push(record),
    onFailure: ({ text }) => void failures.push(text.replaceAll(/\n *at .*/g, "")),
    hooks: [{ after: (answer) => void answers.push(answer) }],
  });
  const [path, body] = ASK[by](maxTokens);
  const headers = { "content-type": "application/json", authorization: "Bearer sk-one", "anthropic-version": "1" };
  const request = { method: "POST", headers, body: JSON.stringify({ model: "m", stream: true, ...body }) };
  const response = await gateway.fetch(new Request(`http://gateway.test${path}`, request));
  const text = await response.text();
  await gateway.close();
  const told = { status: response.status, text, failures, records, answers, used: await quotas.balance("one") };
  return JSON.parse(
    JSON.stringify({ ...told, events: meaningOf(events) })
      .replaceAll(/[0-9a-f]{32}/g, "an-id")
      .replaceAll(/"(?:beganAt|firstEventMs|endMs)":\d+(?:\.\d+)?/g, '"time":0')
      .replaceAll(/"(?:created|created_at|completed_at)\\":\d+/g, '"time\\":0'),
  ) as object;
}

/** The frames and the events of an answer, however they were joined. */
function meaningOf(events: readonly ChatEvent[]): object {
  const natives = events.filter((event) => event.type === "native");
  const counts: string[] = [];
  const content: { kind: string; said: string }[] = [];
  for (const event of events.flatMap((each) => (each.type === "native" ? each.events : [each]))) {
    const count = JSON.stringify(event);
    if (event.type === "usage") counts.push(...(counts.at(-1) === count ? [] : [count]));
    else {
      const { text, json, ...others } = event as typeof event & { text?: string; json?: string };
      const [kind, last] = [JSON.stringify(others), content.at(-1)];
      if (last?.kind === kind && event.type.endsWith("delta")) last.said += text ?? json;
      else content.push({ kind, said: `${text ?? json}` });
    }
  }
  const frames = natives.flatMap((event) => event.frames ?? []);
  return { frames, counts, content, unsupported: natives.flatMap((event) => event.unsupported?.() ?? []) };
}

/** Where the stream is cut: in which frame, and how many bytes before its end. */
type Cut = readonly [frame: number, bytesBefore: number];

function piecesOf(frames: readonly string[], cuts: readonly Cut[]): string[] {
  const bytes = frames.map((frame) => Buffer.from(frame).toString("latin1"));
  const ends = bytes.map((_, index) => bytes.slice(0, index + 1).join("").length);
  const places = cuts.map(([frame, before]) => {
    const at = frame % frames.length;
    return (ends[at] ?? 0) - Math.min(before, (bytes[at] ?? "").length);
  });
  const whole = bytes.join("");
  const order = [0, ...places.toSorted((one, other) => one - other), whole.length];
  return order.slice(1).flatMap((end, index) => whole.slice(order[index], end) || []);
}

/** A line that no shape allows for: every frame with it is parsed. */
const parsed = (frames: readonly string[]): string[] => frames.map((frame) => `: parsed\n${frame}`);

const TEXT = /"(?:text|thinking|partial_json|content|arguments|delta|reasoning_content)": ?"(?:[^"\\]|\\.)*"/;
const NUMBER = /"(?:sequence_number|candidatesTokenCount|index|output_index)": ?\d+/;

/** What stands in place of a text: JSON strings in many spellings, other values, further fields, and what is no JSON. */
const VALUES = [
  '"word"',
  '"a \\"quoted\\" \\\\ word\\n"',
  '"W\\u00f6rld \\/ 世界"',
  '"\\ud83c\\udf0d 🌍"',
  '"\\ud83c"',
  '"\\udf0d"',
  '"\u2028"',
  '""',
  '"{}"',
  '"}"',
  '" "',
  '"\\x"',
  '"\\u12"',
  '"a\tb"',
  '"open',
  '"\\"',
  "null",
  "7",
  '["x"]',
  '{"a":"b"}',
  '"one","text":"two"',
  '"one","content":"two","delta":"three","arguments":"four","partial_json":"five"',
  '"one"},"delta":{"type":"text_delta","text":"two"',
  '"one","usage":{"output_tokens":70,"completion_tokens":70}',
  '"one","signature":"c2ln","thoughtSignature":"c2ln"',
  '"one"}',
  `"${"long ".repeat(900)}"`,
] as const;
const NUMBERS = ["0", "12", "1.0", "1e2", "-1", "01", "null", '"7"', "9007199254740993", "12,12"] as const;

/** A change of one frame. */
type Change = (frame: string) => string;

const CHANGES: readonly Change[] = [
  (frame) => frame + frame,
  () => "",
  (frame) => `event: ping\ndata: {"type":"ping"}\n\n${frame}`,
  (frame) => `: a comment\n\n${frame}`,
  (frame) => frame.replaceAll("\n", "\r\n"),
  (frame) => frame.replace("\n\n", "\r\n\r\n"),
  (frame) => frame.replaceAll(": ", ":"),
  (frame) => frame.replace("data: {", "data: {\ndata: "),
  (frame) => `id: 1\n${frame}`,
  (frame) => frame.replace(/^event: .*\n/, ""),
  (frame) => frame.replace(/^(?:event: .*\n)?/, "event: message\n"),
  (frame) => frame.replace("data: {", 'data: {"obfuscation":"x", '),
  (frame) => frame.replace("data: {", 'data: {"error":null,"x_new":1.0,'),
  (frame) => frame.replace("data: {", 'data: {"error":{"message":"No"},'),
  (frame) => frame.replace(/\}\n\n$/, ',"usage":null}\n\n'),
  (frame) => frame.replace(/\}\n\n$/, "\n\n"),
];

const changes: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.string().map(
      (text): Change =>
        (frame) =>
          valued(frame, JSON.stringify(text)),
    ),
  },
  {
    weight: 4,
    arbitrary: fc.constantFrom(...VALUES).map(
      (value): Change =>
        (frame) =>
          valued(frame, value),
    ),
  },
  fc.constantFrom(...NUMBERS).map(
    (value): Change =>
      (frame) =>
        frame.replace(NUMBER, (field) => field.replace(/\d+$/, () => value)),
  ),
  fc.constantFrom(...CHANGES),
);
const valued = (frame: string, value: string): string =>
  frame.replace(TEXT, (field) => field.replace(/"(?:[^"\\]|\\.)*"$/, () => value));

describe.each(CHAT_FORMATS)("%s", (format) => {
  const [, ...others] = [format, ...CHAT_FORMATS.filter((other) => other !== format)];
  const fixtures = [
    answerOf(format, 12).frames,
    ...recordings(format, "txt").map(([, text]) => text.split(/(?<=\n\n)/)),
  ];

  it("parses no frame in which nothing but a text has changed", async () => {
    const { frames } = answerOf(format, 300);
    const parse = vi.spyOn(JSON, "parse");
    await seen({ by: format, upstream: format, maxTokens: 8_192, isRenamed: false }, [frames.join("")]);
    expect(parse.mock.calls.filter(([text]) => /of|line/.test(text)).length).toBeLessThan(50);
  });

  it("is the same as if each frame were parsed, whatever all of them look like", async () => {
    const { frames } = answerOf(format, 60);
    for (const change of CHANGES) {
      const changed = frames.map(change);
      const call = { by: format, upstream: format, maxTokens: 8_192, isRenamed: false };
      expect(await seen(call, [changed.join("")])).toEqual(await seen(call, [parsed(changed).join("")]));
    }
  });

  it("is the same as if each frame were parsed, whatever an upstream sends, and wherever it is cut", async () => {
    const cuts = fc.array(fc.tuple(fc.nat(30), fc.nat(300)), { maxLength: 6 });
    const asked = fc.record({
      by: fc.oneof({ weight: 3, arbitrary: fc.constant(format) }, fc.constantFrom(...others)),
      upstream: fc.constant(format),
      maxTokens: fc.constantFrom(8_192, 8_192, 4),
      isRenamed: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(
        asked,
        fc.constantFrom(...fixtures),
        fc.array(fc.tuple(fc.nat(30), changes), { maxLength: 5 }),
        cuts,
        async (call, fixture, changed, places) => {
          const frames = [...fixture];
          for (const [at, change] of changed) {
            const index = at % frames.length;
            frames[index] = change(frames[index] ?? "");
          }
          const expected = await seen(call, piecesOf(parsed(frames), places));
          expect(await seen(call, piecesOf(frames, places))).toEqual(expected);
        },
      ),
      { numRuns: 80 },
    );
  });
});

it("finds no frame in a text of millions of escapes, which overflow the stack of an expression", () => {
  const data = '{"delta":"a"}';
  const shape = FrameShape.of(`data: ${data}\n\n`, data, { delta: "a" }, { text: ["delta"] });
  expect(shape?.match('data: {"delta":"b\\n"}\n\n', 0)).toBe(23);
  expect(shape?.match(`data: {"delta":"${"\\n".repeat(4_000_000)}"}\n\n`, 0)).toBe(-1);
});

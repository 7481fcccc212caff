/** Answers of an upstream that speaks chat completions too: they reach the caller as they were sent. */

import { describe, expect, it } from "vitest";
import type { ChatEvent } from "../../../src/index.ts";
import { having, openStage, plays } from "./stage.ts";

/** The choices of a complete answer. */
async function completed(...events: readonly ChatEvent[]): Promise<unknown> {
  const response = await openStage(plays(...events)).ask(having());
  return ((await response.json()) as { choices: unknown }).choices;
}

/** An upstream's own frames, with what no schema knows, and spaces that JSON does not need. */
const FRAMES = [
  '{"id":"x",  "choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"new":1}], "x_own": "☃"}',
  '{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
  '{"id":"x","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}',
  "[DONE]",
] as const;

const native = (...frames: readonly string[]): ChatEvent[] =>
  frames.map((data): ChatEvent => ({
    type: "native",
    format: "chat-completions",
    frames: [{ data }],
    events: MEANS.get(data) ?? [],
  }));

type Meant = Extract<ChatEvent, { type: "native" }>["events"];

const MEANS: ReadonlyMap<string, Meant> = new Map<string, Meant>([
  [
    FRAMES[0],
    [
      { type: "start", id: "x" },
      { type: "text-delta", text: "Hi" },
    ],
  ],
  [FRAMES[1], [{ type: "finish", reason: "stop" }]],
  [FRAMES[2], [{ type: "usage", usage: { inputTokens: 1, outputTokens: 2 } }]],
]);

const told = async (events: readonly ChatEvent[], changes: object = {}): Promise<string> =>
  (await openStage(plays(...events)).ask(having({ stream: true, ...changes }))).text();
const asSent = (...frames: readonly string[]): string => frames.map((data) => `data: ${data}\n\n`).join("");

/** A frame with room for counts before its last fields. */
const room = (data: string, rest = ""): string => `${data.slice(0, -1)}, "usage" : null${rest}}`;

describe("an upstream of the same format", () => {
  it("is passed on byte for byte", async () => {
    const include_usage = true;
    expect(await told(native(...FRAMES), { stream_options: { include_usage } })).toBe(asSent(...FRAMES));
  });

  it("is passed on without the counts that nobody asked for", async () => {
    expect(await told(native(...FRAMES))).toBe(asSent(FRAMES[0], FRAMES[1], FRAMES[3]));
  });

  it("is passed on without the room for them, and is the same but for that", async () => {
    const nested = '{"id":"x","choices":[{"index":0,"delta":{"a":1,"usage":null}}]}';
    const events = [{ type: "text-delta", text: "," }] as const;
    const frames: ChatEvent[] = [
      ...native(FRAMES[0]),
      ...[room(FRAMES[0], ',"obfuscation":"aB3"'), room(FRAMES[0]), nested].map((data): ChatEvent => ({
        type: "native",
        format: "chat-completions",
        frames: [{ data }],
        events,
      })),
      ...native(FRAMES[1]),
    ];
    const shorter = `${FRAMES[0].slice(0, -1)},"obfuscation":"aB3"}`;
    expect(await told(frames)).toBe(asSent(FRAMES[0], shorter, FRAMES[0], nested, FRAMES[1], FRAMES[3]));
  });

  it("gets the end that it left out", async () => {
    expect(await told(native(FRAMES[0], FRAMES[1]))).toBe(asSent(FRAMES[0], FRAMES[1], FRAMES[3]));
  });

  it("is passed on as its own text where it answers as a whole", async () => {
    const body = '{"id":"x",\n "choices":[ ],"own":"☃"}';
    const events: Meant = [{ type: "start" }, { type: "text-delta", text: "Hi" }, { type: "finish", reason: "stop" }];
    const event: ChatEvent = { type: "native", format: "chat-completions", body, events };
    const response = await openStage(plays(event)).ask(having());
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(await response.text()).toBe(body);
  });

  it("is encoded anew where the frames are another format's", async () => {
    const frames = native(...FRAMES).map((event) => ({ ...event, format: "messages" }) as ChatEvent);
    const text = await told(frames);
    expect(text).not.toContain("x_own");
    expect(text).toContain('"delta":{"content":"Hi"}');
    expect(await completed(...frames)).toMatchObject([{ message: { content: "Hi" } }]);
  });

  it("is collected where a complete answer was asked for", async () => {
    expect(await completed(...native(...FRAMES))).toMatchObject([{ message: { content: "Hi" } }]);
  });

  it("loses nothing where a whole answer follows an end in frames", async () => {
    const events = [{ type: "text-delta", text: "!" }] as const;
    const whole: ChatEvent = { type: "native", format: "chat-completions", body: "{}", events };
    expect(await completed(...native(...FRAMES), whole)).toMatchObject([{ message: { content: "Hi!" } }]);
  });
});

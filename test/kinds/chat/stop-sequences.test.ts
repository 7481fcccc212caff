/** Stop sequences hold for every backend: the text ends at the first, however it was cut into pieces. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ChatEvent, createGateway, DEFAULT_LIMITS, memoryQuotaStore } from "../../../src/index.ts";
import { assertSearchable, endAtStopSequences, type StopOptions } from "../../../src/kinds/chat/stop-sequences.ts";

async function* from(events: readonly (ChatEvent | string)[]): AsyncGenerator<ChatEvent | string> {
  yield* events;
}

const call = (type: "tool-call-start" | "tool-call-delta" | "tool-call-end", id = "1"): ChatEvent => ({
  type,
  id,
  name: "look",
  json: "{}",
});

const of = (candidateCount: number, onCut = (): void => {}): StopOptions => ({
  candidateCount,
  format: "messages",
  isOwnBody: true,
  onCut,
});

async function ended(
  events: readonly (ChatEvent | string)[],
  sequences: readonly string[],
  candidates = 1,
): Promise<{ texts: string[]; stops: (string | undefined)[]; types: string[] }> {
  const [texts, stops, types] = [[] as string[], [] as (string | undefined)[], [] as string[]];
  for await (const event of endAtStopSequences(from(events), sequences, of(candidates))) {
    types.push(event.type);
    const candidate = "candidate" in event ? (event.candidate ?? 0) : 0;
    if (event.type === "text-delta") texts[candidate] = (texts[candidate] ?? "") + event.text;
    if (event.type === "finish") stops[candidate] = event.stopSequence;
  }
  return { texts, stops, types };
}

/** Where the text ends: at the first end of any word; of those that end there, the longest. */
function expected(text: string, words: readonly string[]): { text: string; word: string | undefined } {
  for (let end = 1; end <= text.length; end++) {
    const [word] = words.filter((one) => text.slice(0, end).endsWith(one)).toSorted((a, b) => b.length - a.length);
    if (word !== undefined) return { text: text.slice(0, end - word.length), word };
  }
  return { text, word: undefined };
}

const note = (token: string): ChatEvent => ({
  type: "annotation",
  annotation: { type: "logprobs", chosen: [{ token, logProbability: -1 }], top: [] },
});

const native = (format: string): ChatEvent => ({
  type: "native",
  format,
  events: [
    { type: "text-delta", text: "one STOP two" },
    { type: "finish", reason: "stop", usage: { outputTokens: 9 } },
  ],
  body: "{}",
});

describe("a text", () => {
  it("ends at its first stop sequence, whatever the pieces and the words", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 4 }), { maxLength: 12 }),
        fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 5 }), {
          minLength: 1,
          maxLength: 5,
        }),
        async (pieces, words) => {
          const { text, word } = expected(pieces.join(""), words);
          const { texts, stops } = await ended(pieces, words);
          expect([texts[0] ?? "", stops[0]]).toEqual([text, word]);
        },
      ),
      { numRuns: 200 },
    ));

  it("keeps back no more than may still become a stop sequence", async () => {
    const events = endAtStopSequences(from(["Hello EN", "D of it"]), ["END."], of(1));
    expect((await events.next()).value).toMatchObject({ text: "Hello " });
    expect((await events.next()).value).toMatchObject({ text: "END of it" });
  });

  it("does not go on behind something else", async () => {
    const call: ChatEvent = { type: "tool-call", id: "1", name: "look", input: {} };
    const { texts, stops, types } = await ended(["EN", call, "D"], ["END"]);
    expect([texts[0], stops[0], types]).toEqual(["END", undefined, ["text-delta", "tool-call", "text-delta"]]);
  });

  it("goes on behind a note", async () => {
    const found = await ended(["a ST", note("ST"), "OP b", note("b")], ["STOP"]);
    expect(found).toEqual({ texts: ["a "], stops: ["STOP"], types: ["text-delta", "finish"] });
    const none = await ended(["a ST", note("ST"), "AY", note("AY")], ["STOP"]);
    expect(none).toEqual({
      texts: ["a STAY"],
      stops: [],
      types: ["text-delta", "text-delta", "annotation", "annotation"],
    });
  });

  it("stays in its block, and does not go on in the next", async () => {
    const deltas = ["helloX", "Yworld"].map((text, block) => ({
      type: "text-delta" as const,
      text,
      block: String(block),
    }));
    const events: unknown[] = [];
    for await (const event of endAtStopSequences(from(deltas), ["XY"], of(1))) events.push(event);
    expect(events).toEqual([{ ...deltas[0], text: "hello" }, { ...deltas[0], text: "X" }, deltas[1]]);
  });

  it("says nothing behind its end, though another goes on", async () => {
    const other: ChatEvent = { type: "text-delta", text: "B", candidate: 1 };
    const { texts, stops } = await ended(["A ST", "OP secret", other], ["STOP"], 2);
    expect([texts, stops]).toEqual([["A ", "B"], ["STOP"]]);
  });

  it("waits with its end for a call that was begun before it", async () => {
    const { texts, types } = await ended(
      [
        call("tool-call-start"),
        "Hi STOP",
        "x",
        call("tool-call-start", "2"),
        call("tool-call-delta"),
        call("tool-call-end"),
      ],
      ["STOP"],
    );
    expect(texts).toEqual(["Hi "]);
    expect(types).toEqual(["tool-call-start", "text-delta", "tool-call-delta", "tool-call-end", "finish"]);
    expect((await ended([call("tool-call-start"), "STOP"], ["STOP"])).types).toEqual(["tool-call-start", "finish"]);
  });

  it("waits for no call whose backend goes on without end", async () => {
    let yielded = 0;
    async function* endless(): AsyncGenerator<ChatEvent | string> {
      yield call("tool-call-start");
      for (;;) yield `${yielded++} STOP `;
    }
    const types: string[] = [];
    for await (const { type } of endAtStopSequences(endless(), ["STOP"], of(1))) types.push(type);
    expect(types).toEqual(["tool-call-start", "text-delta", "finish"]);
    expect(yielded).toBeLessThan(2_000);
  });

  it("that has ended keeps what its backend counted", async () => {
    const finish = { type: "finish", reason: "stop", usage: { inputTokens: 7, outputTokens: 50 } } as const;
    const events: unknown[] = [];
    for await (const event of endAtStopSequences(from(["STOP", finish]), ["STOP"], of(2))) events.push(event);
    expect(events).toContainEqual({ type: "usage", usage: finish.usage });
  });

  it("ends in another format's words too, and passes the caller's own", async () => {
    const events: ChatEvent[] = [];
    for (const format of ["messages", "chat-completions"])
      for await (const event of endAtStopSequences(from([native(format)]), ["STOP"], of(1))) events.push(event);
    expect(events).toEqual([
      native("messages"),
      {
        ...native("chat-completions"),
        events: [
          { type: "text-delta", text: "one " },
          { type: "finish", reason: "stop-sequence", stopSequence: "STOP" },
          { type: "usage", usage: { outputTokens: 9 } },
        ],
      },
    ]);
  });

  it("of each candidate ends by itself", async () => {
    const { texts, stops } = await ended(
      [
        "one STOP more",
        { type: "text-delta", text: "two", candidate: 1 },
        { type: "text-delta", text: " STOP", candidate: 1 },
        "x",
      ],
      ["STOP"],
      2,
    );
    expect([texts, stops]).toEqual([
      ["one ", "two "],
      ["STOP", "STOP"],
    ]);
  });

  it.each<[what: string, sequence: string]>([
    ["begins", `${"a".repeat(4_000)}b`],
    ["ends", `b${"a".repeat(4_000)}`],
  ])("is searched in linear time where it repeats how a sequence %s", async (_what, sequence) => {
    const text = "a".repeat(1_000_000);
    const before = process.cpuUsage().user;
    expect((await ended([text], [sequence])).texts).toEqual([text]);
    expect((await ended(Array.from(text.slice(0, 20_000)), [sequence])).texts).toEqual([text.slice(0, 20_000)]);
    // The product of both lengths would take seconds.
    expect((process.cpuUsage().user - before) / 1_000).toBeLessThan(1_000);
  });

  it("refuses more words than it can look for", () => {
    expect(() => assertSearchable(["y".repeat(4_097)], DEFAULT_LIMITS)).toThrow(
      expect.objectContaining({ code: "invalid_request" }) as Error,
    );
    expect(() => assertSearchable(["y".repeat(4_096)], DEFAULT_LIMITS)).not.toThrow();
  });
});

/** What a gateway says whose backend counts without end. */
async function ask(path: string, body: object): Promise<{ body: unknown; stopped: boolean }> {
  let stopped = false;
  const gateway = createGateway({
    backend: {
      async *chat() {
        try {
          for (;;) yield "one two three ";
        } finally {
          stopped = true;
        }
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
  });
  const headers = { "content-type": "application/json", authorization: "Bearer sk-one", "anthropic-version": "1" };
  const response = await gateway.fetch(
    new Request(`http://gateway.test${path}`, { method: "POST", headers, body: JSON.stringify(body) }),
  );
  return { body: await response.json(), stopped };
}

describe("a backend that knows nothing of stop sequences", () => {
  it("is ended, and told to stop, in the messages format", async () => {
    const messages = [{ role: "user", content: "Count." }];
    const asked = { model: "m", max_tokens: 1_000, stop_sequences: ["three", "two t"], messages };
    expect(await ask("/v1/messages", asked)).toMatchObject({
      body: { content: [{ text: "one " }], stop_reason: "stop_sequence", stop_sequence: "two t" },
      stopped: true,
    });
  });

  it("is ended in the generate-content format", async () => {
    const asked = { contents: "Count.", generationConfig: { stopSequences: ["two"], maxOutputTokens: 1_000 } };
    const { body } = await ask("/v1beta/models/m:generateContent", asked);
    expect(body).toMatchObject({ candidates: [{ content: { parts: [{ text: "one " }] }, finishReason: "STOP" }] });
  });
});

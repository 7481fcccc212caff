/** Generate-content answers as laws: they survive the wire and back, and no events can make one that breaks a client. */

import { type GenerateContentResponse, GoogleGenAI } from "@google/genai";
import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ChatEvent, type ContentEvent, createGateway, type Gateway, memoryQuotaStore } from "../../src/index.ts";
import { type Answer, answer, blocked, hostileEvents } from "./generate-content.arbitraries.answer.ts";
import { RUNS } from "./generate-content.arbitraries.ts";
import { type Chunk, collected } from "./generate-content.collected.ts";
import { decodeAnswer, StreamDecoder } from "./generate-content.decoded.ts";

const BODY = {
  contents: "Hi",
  generationConfig: { candidateCount: 3, maxOutputTokens: 1_000_000, thinkingConfig: { includeThoughts: true } },
};

/** The official client of such a model. */
function client(events: readonly ChatEvent[]): GoogleGenAI {
  const gateway = scripted(events);
  const fetch = (url: string | URL | Request, init?: RequestInit): Promise<Response> =>
    gateway.fetch(new Request(url instanceof Request ? url.url : url, init));
  return new GoogleGenAI({ apiKey: "sk-test", httpOptions: { baseUrl: "http://gateway.test", fetch } });
}

/** What it tells of an answer, without the headers that came with it. */
const fieldsOf = (response: GenerateContentResponse): Chunk =>
  JSON.parse(
    JSON.stringify(response, (key, value: unknown) => (key === "sdkHttpResponse" ? undefined : value)),
  ) as Chunk;

interface Asked {
  readonly status: number;
  readonly text: string;
}

/** A gateway whose model yields just these events. */
const scripted = (events: readonly ChatEvent[]): Gateway =>
  createGateway({
    backend: {
      async *chat() {
        yield* events;
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
    onFailure: () => {},
  });

/** What a client of such a model gets. */
async function asked(events: readonly ChatEvent[], method: string): Promise<Asked> {
  const headers = { "x-goog-api-key": "sk-test", "content-type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(BODY) };
  const response = await scripted(events).fetch(new Request(`http://gateway.test/v1/models/m:${method}`, init));
  return { status: response.status, text: await response.text() };
}

const SSE = "streamGenerateContent?alt=sse";

const eventsOf = ({ start, feedback, content, notes, finishes }: Answer): ChatEvent[] => [
  start,
  ...feedback,
  ...content,
  ...notes,
  ...finishes,
];

/** What a complete answer keeps of its events: candidate by candidate, and the pieces of one text as one. */
function whole({ start, feedback, content, notes, finishes }: Answer): ChatEvent[] {
  const candidates = finishes.flatMap((_, index) => {
    const own = ({ candidate }: ContentEvent): boolean => (candidate ?? 0) === index;
    return [...joined(content.filter(own)), ...notes.filter(own)];
  });
  return [start, ...feedback, ...candidates, ...finishes];
}

function joined(content: readonly ContentEvent[]): ContentEvent[] {
  const all: ContentEvent[] = [];
  for (const event of content) {
    const last = all.at(-1);
    if (last?.type === "text-delta" && event.type === "text-delta" && last.signature === undefined)
      all[all.length - 1] = { ...event, text: last.text + event.text };
    else if (last?.type === "reasoning-delta" && event.type === "reasoning-delta")
      all[all.length - 1] = { ...event, text: last.text + event.text };
    else all.push(event);
  }
  return all;
}

/** The events of a stream whose bytes come in pieces, without the counts of the chunks before the last one. */
function decodedFrom(...pieces: readonly Uint8Array[]): ChatEvent[] {
  const [text, decoder] = [new TextDecoder(), new StreamDecoder()];
  const events = pieces.flatMap((piece) => decoder.feed(text.decode(piece, { stream: true })));
  const all = [...events, ...decoder.feed(text.decode()), ...decoder.end()];
  return all.filter(({ type }) => type !== "usage").map(withoutCounts);
}

/** The start repeats the counts of the first chunk. The uses of tools are counted from what an answer shows of them. */
const withoutCounts = (event: ChatEvent): ChatEvent => {
  if (event.type === "start") {
    const { usage: _counts, ...start } = event;
    return start;
  }
  if (event.type !== "finish" || event.usage === undefined) return event;
  const { serverToolUses: _uses, ...usage } = event.usage;
  return { ...event, usage };
};

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("decode(encode(x)) = x", () => {
  it("for streams", async () => {
    await fc.assert(
      fc.asyncProperty(answer, async (given) => {
        const { text } = await asked(eventsOf(given), SSE);
        expect(decodedFrom(bytesOf(text))).toEqual(eventsOf(given));
      }),
      RUNS,
    );
  });

  it("for complete answers", async () => {
    await fc.assert(
      fc.asyncProperty(answer, async (given) => {
        const { text } = await asked(eventsOf(given), "generateContent");
        expect(decodeAnswer(JSON.parse(text)).map(withoutCounts)).toEqual(whole(given));
      }),
      RUNS,
    );
  });

  it("for prompts that were blocked", async () => {
    await fc.assert(
      fc.asyncProperty(blocked, async (events) => {
        expect(decodedFrom(bytesOf((await asked(events, SSE)).text))).toEqual(events);
        const { text } = await asked(events, "generateContent");
        expect(decodeAnswer(JSON.parse(text)).map(withoutCounts)).toEqual(events);
      }),
      RUNS,
    );
  });

  it.each([
    ["as it is", (text: string) => text],
    ["with other line breaks", (text: string) => text.replaceAll("\n", "\r\n")],
    ["with keep-alives", (text: string) => text.replaceAll("\n\n", "\n\ndata: {}\n\n")],
  ])("for streams that are cut at every byte: %s", async (_name, changed) => {
    await fc.assert(
      fc.asyncProperty(answer, async (given) => {
        const bytes = bytesOf(changed((await asked(eventsOf(given), SSE)).text));
        const expected = JSON.stringify(decodedFrom(bytes));
        const cutAt = (at: number): string => JSON.stringify(decodedFrom(bytes.subarray(0, at), bytes.subarray(at)));
        const places = Array.from({ length: bytes.length + 1 }, (_, at) => at);
        expect(places.filter((at) => cutAt(at) !== expected)).toEqual([]);
        expect(decodedFrom(...Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual(eventsOf(given));
      }),
      { ...RUNS, numRuns: 1 },
    );
  });
});

describe("the official client", () => {
  it("collects the chunks of any stream to the answer that is not streamed", async () => {
    await fc.assert(
      fc.asyncProperty(answer, async (given) => {
        const { models } = client(eventsOf(given));
        const { contents, generationConfig: config } = BODY;
        const chunks: Chunk[] = [];
        for await (const chunk of await models.generateContentStream({ model: "m", contents, config }))
          chunks.push(fieldsOf(chunk));
        const complete = fieldsOf(await models.generateContent({ model: "m", contents, config }));
        expect(collected(chunks)).toEqual(complete);
      }),
      { ...RUNS, numRuns: 20 },
    );
  });
});

describe("whatever a backend yields", () => {
  const anything = fc.oneof(hostileEvents, answer.map(eventsOf));

  it("both forms of the stream are of the same chunks, and a failure or an end is the last", async () => {
    await fc.assert(
      fc.asyncProperty(anything, async (events) => {
        const { status, text } = await asked(events, SSE);
        fc.pre(status === 200);
        const chunks = chunksOf(text);
        const array = JSON.parse((await asked(events, "streamGenerateContent")).text) as Chunk[];
        expect(withoutIds(array)).toEqual(withoutIds(chunks));
        const [last, ...others] = chunks.toReversed();
        expect(others.filter(isLast)).toEqual([]);
        expect(last).toSatisfy(isLast);
      }),
      RUNS,
    );
  });

  it("the chunks of a stream collect to the complete answer, or fail as it does", async () => {
    await fc.assert(
      fc.asyncProperty(anything, async (events) => {
        const complete = await asked(events, "generateContent");
        const [seen, wanted] = endings(complete, await asked(events, SSE));
        expect(seen).toEqual(wanted);
      }),
      RUNS,
    );
  });
});

/** An error, or the chunk with the count of the answer. The chunks before it count the prompt alone. */
const isLast = (chunk: Chunk): boolean =>
  "error" in chunk || (chunk["usageMetadata"] as { candidatesTokenCount?: number }).candidatesTokenCount !== undefined;

/** What a stream has come to, and what it must have come to as its complete answer has it. */
function endings(complete: Asked, streamed: Asked): readonly [seen: unknown, wanted: unknown] {
  if (streamed.status !== 200) return [streamed, complete];
  const [chunks, body] = [chunksOf(streamed.text), JSON.parse(complete.text) as Chunk];
  // An error in a stream also has an end of the answer, for clients that look for no error there.
  if (complete.status !== 200) return [{ ...chunks.at(-1), candidates: undefined }, body];
  return [withoutIds([collected(chunks)]), withoutIds([body])];
}

/** The chunks of a stream that has no lines but those of data, and an error's once more at its end. */
function chunksOf(text: string): Chunk[] {
  const chunks: Chunk[] = [];
  const parser = createParser({ onEvent: ({ data }) => void chunks.push(JSON.parse(data) as Chunk) });
  parser.feed(text);
  expect(text).toMatch(/^(?:data: \{[^\n\r\u0085\u2028\u2029]*\}\n\n)*(?:data: (\{"error":[^\n]*\})\n\n\1)?$/);
  return chunks;
}

/** Two requests have two ids. */
const withoutIds = (chunks: readonly Chunk[]): Chunk[] => chunks.map((chunk) => ({ ...chunk, responseId: "any" }));

/** Streams: chunks in their order, and that a stream says what a complete answer says. */

import type { GenerateContentParameters, GenerateContentResponse } from "@google/genai";
import { describe, expect, it } from "vitest";
import { bookFlight, weather } from "./schemas.ts";
import { say, type Stage, streamedText, textOf } from "./sdk.ts";

/** What of a stream is not as its clients need it (wire.md): every chunk whole, the end of each candidate in one. */
function* breachesOf(chunks: readonly GenerateContentResponse[], candidateCount: number): Generator<string> {
  const ended = new Set<number>();
  const [first] = chunks;
  for (const chunk of chunks) {
    const breach = JSON.stringify(chunk);
    if (chunk.responseId !== first?.responseId || chunk.modelVersion !== "demo-chat") yield breach;
    if (chunk.candidates?.length === 0) yield breach;
    for (const { index = 0, content, finishReason } of chunk.candidates ?? []) {
      // The SDK's chat forgets a turn that has a chunk without parts.
      if (ended.has(index) || content?.role !== "model" || !content.parts?.length) yield breach;
      if (finishReason !== undefined) ended.add(index);
    }
  }
  if (ended.size !== candidateCount) yield `${ended.size} of ${candidateCount} candidates ended`;
  const last = chunks.at(-1);
  if (!last?.usageMetadata || !last.candidates?.[0]?.finishReason) yield `the last chunk: ${JSON.stringify(last)}`;
}

const CASES: readonly (readonly [string, GenerateContentParameters])[] = [
  ["text", say("Tell me something")],
  ["no text at all", say("/repeat 0")],
  ["an answer cut at its limit", say("/repeat 9", { maxOutputTokens: 4 })],
  ["an answer cut at a stop sequence", say("one two three", { stopSequences: ["two"] })],
  ["thoughts and text", say("Think", { thinkingConfig: { includeThoughts: true } })],
  ["calls in parallel", say("Use every tool for Oslo", { tools: [{ functionDeclarations: [weather, bookFlight] }] })],
  [
    "thoughts and a call",
    say("The weather?", {
      thinkingConfig: { includeThoughts: true },
      tools: [{ functionDeclarations: [weather] }],
    }),
  ],
  ["a picture", say("Draw me", { responseModalities: ["TEXT", "IMAGE"] })],
  ["JSON", say("Tell me of Oslo", { responseMimeType: "application/json" })],
  ["log probabilities", say("Hello", { responseLogprobs: true, logprobs: 1 })],
  ["several candidates", say("Hello there", { candidateCount: 3 })],
];

export function streamingSuite({ ask, chunks, connect }: Stage): void {
  describe.each(CASES)("%s", (_what, asked) => {
    const candidateCount = asked.config?.candidateCount ?? 1;

    it("comes in well-formed chunks", async () => {
      expect([...breachesOf(await chunks(asked), candidateCount)]).toEqual([]);
    });

    it("says the same as the complete answer", async () => {
      const [complete, streamed] = [await ask(asked), await chunks(asked)];
      for (let candidate = 0; candidate < candidateCount; candidate++) {
        const parts = (complete.candidates?.[candidate]?.content?.parts ?? []).filter(({ text }) => text !== "");
        expect(merged(streamed, candidate)).toEqual(parts);
        const endings = streamed
          .flatMap(({ candidates }) => candidates ?? [])
          .filter(({ finishReason }) => finishReason);
        expect(endings.find(({ index }) => index === candidate)?.finishReason).toBe(
          complete.candidates?.[candidate]?.finishReason,
        );
      }
      expect(streamed.at(-1)?.usageMetadata).toEqual(complete.usageMetadata);
    });
  });

  it("comes word by word", async () => {
    const streamed = await chunks(say("Hello there"));
    const words = streamed.map((chunk) => textOf(chunk)).filter((text) => text !== "");
    expect(words).toEqual(["You", " said:", " Hello", " there"]);
  });

  it("ends with everything that ends it in one chunk", async () => {
    const last = (await chunks(say("Hello there"))).at(-1);
    expect(last?.candidates).toEqual([
      { content: { role: "model", parts: [{ text: "" }] }, finishReason: "STOP", index: 0, tokenCount: 4 },
    ]);
    expect(last?.usageMetadata).toMatchObject({ promptTokenCount: 2, candidatesTokenCount: 4, totalTokenCount: 6 });
  });

  it("is an event stream that names its request", async () => {
    const [first] = await chunks(say("Hello"));
    const headers = first?.sdkHttpResponse?.headers;
    expect(headers?.["content-type"]).toMatch(/^text\/event-stream/);
    expect(headers?.["cache-control"]).toContain("no-cache");
    expect(headers?.["request-id"]).toMatch(/^req_\w+$/);
  });

  it("is begun before it is complete", async () => {
    const controller = new AbortController();
    const asked = say("/delay 600000 /repeat 2", { abortSignal: controller.signal });
    const stream = await connect().models.generateContentStream(asked);
    for await (const chunk of stream) {
      expect(textOf(chunk)).toBe("word");
      break;
    }
    controller.abort();
  });

  it("carries any text unharmed", async () => {
    const text = 'naïve 😀 \u2028 line\u2029 "quoted" \\ data: y\n\nend';
    expect(streamedText(await chunks(say(text)))).toBe(`You said: ${text}`);
  });
}

/** The parts of a streamed candidate as the complete answer has them: neighbours of text, thoughts apart, made one. */
function merged(chunks: readonly GenerateContentResponse[], candidate: number): object[] {
  const parts: { text?: string | undefined; thought?: boolean | undefined; thoughtSignature?: string | undefined }[] =
    [];
  const all = chunks.flatMap(({ candidates }) => candidates ?? []).filter(({ index }) => (index ?? 0) === candidate);
  for (const part of all.flatMap(({ content }) => content?.parts ?? [])) {
    const last = parts.at(-1);
    if (part.text === undefined || last?.text === undefined || last.thought !== part.thought) parts.push({ ...part });
    else Object.assign(last, part, { text: last.text + part.text });
  }
  return parts.filter(({ text }) => text !== "");
}

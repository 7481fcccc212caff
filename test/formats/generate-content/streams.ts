/** The generate-content stream (spec 6.2) in both of its forms: its chunks, one by one, and its bytes. */

import { describe, expect, it } from "vitest";
import { type ChatEvent, type FinishEvent, GatewayError } from "../../../src/index.ts";
import { generateContent } from "../../drivers/generate-content.ts";
import { fails, type Mount, plays, sharedStage } from "../../hosts/stage.ts";
import { answersOnCue, QUIET_MS, timedStage } from "../../suites/timed.ts";
import { BACKEND_FAULTS, CONTENTS, type Events, FINISH_REASONS } from "./answer-cases.ts";
import { type Body, configured, MINIMAL } from "./bodies.ts";
import { chunksOf, send, STREAM, STREAM_ARRAY, STREAMS } from "./calls.ts";
import { chunk, lastChunk, textChunk } from "./chunks.ts";
import { refusal, requestIdOf } from "./refusal.ts";

const BEGIN: ChatEvent = { type: "start", id: "resp_1", usage: { inputTokens: 7 } };
const END: FinishEvent = { type: "finish", reason: "stop", usage: { outputTokens: 3 } };
const COUNTED: ChatEvent = { type: "finish", reason: "stop", usage: { outputTokens: 3 } };
const RATING = { category: "harassment", probability: "low" } as const;
const WIRE_RATING = { category: "HARM_CATEGORY_HARASSMENT", probability: "LOW" };

const LAST =
  '{"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP","index":0}],' +
  '"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":3,"totalTokenCount":10},' +
  '"modelVersion":"model-a","responseId":"resp_1"}';
const texted = (text: string): string =>
  `{"candidates":[{"content":{"role":"model","parts":[{"text":"${text}"}]},"index":0}],` +
  '"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7},"modelVersion":"model-a","responseId":"resp_1"}';
const BROKEN =
  '{"error":{"code":503,"message":"Gone.","status":"UNAVAILABLE","details":[]},"candidates":[{"content":{"role":"model",' +
  '"parts":[{"text":""}]},"finishReason":"OTHER","finishMessage":"Gone.","index":0}]}';

const ending = (index: number, finishReason: string): object => ({
  content: { role: "model", parts: [{ text: "" }] },
  finishReason,
  index,
});

/** An internal error, and an unusual end for clients that look for no error. */
const failedChunk = (): object => ({
  error: refusal(500, "INTERNAL"),
  candidates: [{ ...ending(0, "OTHER"), finishMessage: expect.any(String) as unknown }],
});

export function streamsSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  async function stream(path: string, events: Events, body: Body = MINIMAL): Promise<Response> {
    stage().backend.play = plays(...events);
    const response = await send(stage(), path, body);
    expect(response.status).toBe(200);
    return response;
  }

  describe("its bytes", () => {
    it("as server-sent events", async () => {
      const text = await (await stream(STREAM, [BEGIN, "Hel", "lo", END])).text();
      expect(text).toBe(`data: ${texted("Hel")}\n\ndata: ${texted("lo")}\n\ndata: ${LAST}\n\n`);
    });

    it("as a JSON array", async () => {
      const text = await (await stream(STREAM_ARRAY, [BEGIN, "Hel", "lo", END])).text();
      expect(text).toBe(`[${texted("Hel")},\n${texted("lo")},\n${LAST}]`);
    });

    it("of nothing", async () => {
      expect(await (await stream(STREAM, [BEGIN, END])).text()).toBe(`data: ${LAST}\n\n`);
      expect(await (await stream(STREAM_ARRAY, [BEGIN, END])).text()).toBe(`[${LAST}]`);
    });

    it("escape what clients may take for a line's end", async () => {
      const odd = "a\u2028b\u2029c\nd\re\u0085f";
      for (const path of [STREAM, STREAM_ARRAY]) {
        const text = await (await stream(path, [BEGIN, odd, END])).text();
        expect(text).toContain(String.raw`a\u2028b\u2029c\nd\re\u0085f`);
        expect(text).not.toMatch(/[\r\u0085\u2028\u2029]/);
      }
    });

    it("of a failure in the middle, and then a clean end", async () => {
      const gone = fails(new GatewayError("backend_unavailable", "Gone."), BEGIN, "Hel");
      stage().backend.play = gone;
      expect(await (await send(stage(), STREAM, MINIMAL)).text()).toBe(
        `data: ${texted("Hel")}\n\ndata: ${BROKEN}\n\n${BROKEN}`,
      );
      expect(await (await send(stage(), STREAM_ARRAY, MINIMAL)).text()).toBe(`[${texted("Hel")},\n${BROKEN}]`);
    });
  });

  it("is one array of JSON, wherever its keep-alives fall", async () => {
    await using quiet = await timedStage(mount, generateContent, answersOnCue);
    const sent = send(quiet, STREAM_ARRAY, MINIMAL);
    await quiet.cues.wait("asked");
    await quiet.clock.advance(QUIET_MS);
    const text = (await sent).text();
    await quiet.clock.advance(2 * QUIET_MS);
    quiet.cues.give("answer");
    expect(await text).toMatch(/^\n+\[/);
    expect(JSON.parse(await text)).toMatchObject([
      { candidates: [{ content: { parts: [{ text: "At last." }] } }] },
      { candidates: [{ finishReason: "STOP" }] },
    ]);
  });

  describe.each(STREAMS)("of %s", (name, path, framing) => {
    it.each(Object.entries(CONTENTS))("writes %s", async (_name, { events, parts, streamed }) => {
      const pieces = streamed ?? parts.map((part) => [part]);
      const chunks = await chunksOf(await stream(path, [BEGIN, ...events, COUNTED]), framing);
      expect(chunks).toEqual([...pieces.map((piece) => chunk(piece)), lastChunk("STOP", 3)]);
    });

    it.each(FINISH_REASONS)("ends %s with %s", async (reason, finishReason) => {
      const chunks = await chunksOf(await stream(path, [BEGIN, "x", { ...END, reason }]), framing);
      expect(chunks).toEqual([textChunk("x"), lastChunk(finishReason, 3)]);
    });

    it("has the headers of a stream that nothing on the way may hold back", async () => {
      const response = await stream(path, ["x"]);
      requestIdOf(response);
      const type = name === "a JSON array" ? /^application\/json\b/ : /^text\/event-stream\b/;
      expect(response.headers.get("content-type")).toMatch(type);
      expect(response.headers.get("cache-control")).toMatch(/no-cache.*no-transform/);
      expect(response.headers.get("x-accel-buffering")).toBe("no");
      expect(response.headers.has("content-length")).toBe(false);
      await response.text();
    });

    it("names itself alike in every chunk", async () => {
      const chunks = await chunksOf(await stream(path, ["a", "b"]), framing);
      const [id] = new Set(chunks.map(({ responseId }) => responseId));
      expect(id).toMatch(/^resp_[0-9a-f]{32}$/);
      expect(chunks).toEqual(chunks.map((one) => ({ ...one, responseId: id, modelVersion: "model-a" })));
    });

    it("says what was noted with its end", async () => {
      const note: ChatEvent = { type: "annotation", annotation: { type: "safety", ratings: [RATING] } };
      const chunks = await chunksOf(await stream(path, [BEGIN, "a", note, "b", END]), framing);
      expect(chunks.slice(0, 2)).toEqual([textChunk("a"), textChunk("b")]);
      expect(chunks[2]).toMatchObject({ candidates: [{ finishReason: "STOP", safetyRatings: [WIRE_RATING] }] });
      expect(chunks).toHaveLength(3);
    });

    it("says why a prompt was blocked, and nothing else", async () => {
      const feedback: ChatEvent = { type: "prompt-feedback", blockReason: "blocklist", ratings: [] };
      const events: Events = [
        BEGIN,
        feedback,
        { type: "finish", reason: "content-filter", usage: { outputTokens: 0 } },
      ];
      expect(await chunksOf(await stream(path, events), framing)).toEqual([
        {
          promptFeedback: { blockReason: "BLOCKLIST" },
          usageMetadata: { promptTokenCount: 7, candidatesTokenCount: 0, totalTokenCount: 7 },
          modelVersion: "model-a",
          responseId: "resp_1",
        },
      ]);
    });

    it("says once what was found in a prompt", async () => {
      const chunks = await chunksOf(
        await stream(path, [BEGIN, { type: "prompt-feedback", ratings: [RATING] }, "a", "b", END]),
        framing,
      );
      expect(chunks.map(({ promptFeedback }) => promptFeedback)).toEqual([
        { safetyRatings: [WIRE_RATING] },
        undefined,
        undefined,
      ]);
    });

    it("tells candidates apart, and ends them together", async () => {
      const events: Events = [
        BEGIN,
        { type: "text-delta", text: "b", candidate: 1 },
        "a",
        { type: "finish", reason: "length", candidate: 1 },
        "c",
        END,
      ];
      const chunks = await chunksOf(await stream(path, events, configured({ candidateCount: 2 })), framing);
      expect(chunks).toEqual([
        chunk([{ text: "b" }], { index: 1 }),
        textChunk("a"),
        textChunk("c"),
        { ...lastChunk("STOP", 3), candidates: [ending(0, "STOP"), ending(1, "MAX_TOKENS")] },
      ]);
    });

    it("keeps what a stranger's failure says to itself", async () => {
      stage().backend.play = fails(new Error("connect to 10.0.0.7 with sk-upstream"), BEGIN, "Hel");
      const chunks = await chunksOf(await send(stage(), path, MINIMAL), framing);
      expect(chunks).toEqual([textChunk("Hel"), failedChunk()]);
      expect(JSON.stringify(chunks)).not.toContain("10.0.0.7");
      expect(stage().failures.at(-1)?.text).toContain("10.0.0.7");
    });

    it.each(BACKEND_FAULTS)("ends with an error for %s", async (_name, events) => {
      const chunks = await chunksOf(await stream(path, [BEGIN, "x", ...events]), framing);
      expect(chunks[0]).toEqual(textChunk("x"));
      expect(chunks.at(-1)).toEqual(failedChunk());
      expect(JSON.stringify(chunks.slice(0, -1))).not.toContain("finishReason");
    });
  });
}

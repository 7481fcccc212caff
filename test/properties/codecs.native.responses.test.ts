/** A Responses upstream's answer goes through to a caller of the format untouched, wherever its bytes were cut. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createParser } from "eventsource-parser";
import { describe, expect, it } from "vitest";
import { responses, responsesCodec } from "../../src/formats/responses/index.ts";
import { RawJson } from "../../src/http/answer.ts";
import { type ChatEvent, GatewayError, systemClock } from "../../src/index.ts";
import { chatOf } from "../kinds/chat.ts";
import { meant, metered, requestOf } from "./upstream-answers.ts";

const FOLDER = join(import.meta.dirname, "..", "recordings", "upstream", "responses");
const recordings = (kind: "txt" | "json"): [string, string][] =>
  readdirSync(FOLDER)
    .filter((file) => file.endsWith(`.${kind}`))
    .map((file) => [file.slice(0, -kind.length - 1), readFileSync(join(FOLDER, file), "utf8")]);
const textOf = (name: string): string => readFileSync(join(FOLDER, `${name}.txt`), "utf8");

const FAILING = new Set(["error", "failed", "broken-off"]);
const streams = recordings("txt").filter(([file]) => !FAILING.has(file));

const endpoint = chatOf(responses({ clock: systemClock }));
const codec = responsesCodec();

const asking = (stream: boolean) =>
  requestOf("messages", { stream, native: { format: "responses", betas: [], body: {} } });

function decoded(...pieces: readonly Uint8Array[]): ChatEvent[] {
  const [decoder, text, events] = [codec.answerDecoder(), new TextDecoder(), [] as ChatEvent[]];
  const parser = createParser({ onEvent: ({ event, data }) => void events.push(...decoder.frame(event, data)) });
  for (const piece of pieces) parser.feed(text.decode(piece, { stream: true }));
  decoder.end();
  return events;
}

function written(events: readonly ChatEvent[]): string {
  const request = asking(true);
  const stream = endpoint.stream({ request, requestId: "req_1" });
  return metered(events, request)
    .map((event) => stream.encode(event))
    .join("");
}

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const read = (name: string): ChatEvent[] => meant(decoded(bytesOf(textOf(name))));
const said = (events: readonly ChatEvent[], type: string): string =>
  events.map((event) => (event.type === type && "text" in event ? event.text : "")).join("");

const isNoDelta = ({ type }: ChatEvent): boolean => !type.endsWith("delta");

describe("an answer of Responses", () => {
  it.each(streams)("%s passes byte for byte, wherever it was cut", (_file, text) => {
    const bytes = bytesOf(text);
    expect(written(decoded(bytes))).toBe(text);
    for (let cut = 0; cut <= bytes.length; cut += 7)
      expect(written(decoded(bytes.subarray(0, cut), bytes.subarray(cut)))).toBe(text);
    expect(written(decoded(...Array.from(bytes, (byte) => Uint8Array.of(byte))))).toBe(text);
  });

  it.each(streams)("%s passes with lines that end in CR LF", (_file, text) => {
    expect(written(decoded(bytesOf(text.replaceAll("\n", "\r\n"))))).toBe(text);
  });

  it.each(recordings("json"))("complete, %s is its upstream's own text", (_file, text) => {
    const request = asking(false);
    const collector = endpoint.complete({ request, requestId: "req_1" });
    for (const event of metered(codec.answerDecoder().answer(text), request)) collector.add(event);
    const body = collector.body();
    expect(body instanceof RawJson && body.text).toBe(text);
  });

  it.each(["thinking-tools", "web-search", "unknown"])("means the same complete as streamed: %s", (name) => {
    const complete = meant(codec.answerDecoder().answer(readFileSync(join(FOLDER, `${name}.json`), "utf8")));
    const streamed = read(name);
    for (const type of ["text-delta", "reasoning-delta"]) expect(said(streamed, type)).toBe(said(complete, type));
    expect(streamed.filter(isNoDelta)).toEqual(complete.filter(isNoDelta));
  });

  it("is read as what it says: parallel calls, thoughts, refusals, sources, hosted tools, what was cached", () => {
    const tools = read("thinking-tools");
    expect(tools.filter(({ type }) => type === "tool-call-start")).toMatchObject([{ id: "call_a" }, { id: "call_b" }]);
    expect(said(tools, "reasoning-delta")).toBe("**Two cities** 🤔Two calls.");
    expect(tools.filter(({ type }) => type === "reasoning-signature")).toEqual([
      { type: "reasoning-signature", signature: "gAAAAABmade-up==", maker: "responses" },
    ]);
    expect(tools).toContainEqual({
      type: "usage",
      usage: { inputTokens: 1200, outputTokens: 90, cacheReadTokens: 1024, reasoningTokens: 60 },
    });
    expect(said(read("refusal"), "refusal-delta")).toBe("I can't help with that.");
    expect(read("refusal").at(-1)).toEqual({ type: "finish", reason: "refusal" });
    const searched = read("web-search");
    expect(searched).toContainEqual({
      type: "annotation",
      annotation: { type: "grounding", chunks: [{ uri: "https://weather.example/oslo", title: "Oslo" }] },
    });
    expect(searched).toContainEqual({
      type: "provider",
      format: "responses",
      value: expect.objectContaining({ type: "web_search_call", action: expect.anything() as unknown }) as unknown,
    });
    expect(read("custom-tool")).toContainEqual({
      type: "tool-call",
      id: "call_p",
      name: "apply",
      input: { input: "*** Begin\n+x" },
    });
    expect(read("code")).toContainEqual({ type: "code", language: "python", code: "print(7)" });
    expect(read("code")).toContainEqual({ type: "code-result", outcome: "ok", output: "7\n" });
    expect(read("window").at(-1)).toEqual({ type: "finish", reason: "length" });
    expect(read("filtered").at(-1)).toEqual({ type: "finish", reason: "content-filter" });
  });

  it("is no answer where it broke off, or tells of an error, whose words stay with the host", () => {
    expect(() => read("broken-off")).toThrow("The model backend's answer broke off.");
    for (const [name, secret] of [
      ["failed", "10.0.0.7"],
      ["error", "org-secret"],
    ] as const) {
      let thrown: unknown;
      try {
        read(name);
      } catch (error) {
        thrown = error;
      }
      expect(thrown).toBeInstanceOf(GatewayError);
      expect((thrown as GatewayError).message).not.toContain(secret);
    }
    expect(() => read("error")).toThrow(expect.objectContaining({ code: "rate_limited" }));
  });
});

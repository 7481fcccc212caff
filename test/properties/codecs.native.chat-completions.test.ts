/** A chat-completions upstream's answer goes through to a caller of the format untouched, wherever its bytes were cut. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createParser } from "eventsource-parser";
import { describe, expect, it } from "vitest";
import { chatCompletionsCodec, chatCompletions } from "../../src/formats/chat-completions/index.ts";
import { RawJson } from "../../src/http/answer.ts";
import { type ChatEvent, GatewayError, systemClock } from "../../src/index.ts";
import { chatOf } from "../kinds/chat.ts";
import { metered, requestOf } from "./upstream-answers.ts";

const FOLDER = join(import.meta.dirname, "..", "recordings", "upstream", "chat-completions");
const recordings = (kind: "txt" | "json"): [string, string][] =>
  readdirSync(FOLDER)
    .filter((file) => file.endsWith(`.${kind}`))
    .map((file) => [file.slice(0, -kind.length - 1), readFileSync(join(FOLDER, file), "utf8")]);
const textOf = (name: string): string => readFileSync(join(FOLDER, `${name}.txt`), "utf8");

const FAILING = new Set(["error", "broken-off", "vllm-error", "openrouter-error", "only-done"]);
const streams = recordings("txt").filter(([file]) => !FAILING.has(file));

const endpoint = chatOf(chatCompletions({ clock: systemClock }));
const codec = chatCompletionsCodec();

const asking = (stream: boolean) =>
  requestOf("messages", {
    stream,
    native: { format: "chat-completions", betas: [], body: { stream_options: { include_usage: true } } },
  });

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
const meaning = (events: readonly ChatEvent[]): readonly ChatEvent[] =>
  events.flatMap((event): readonly ChatEvent[] => (event.type === "native" ? event.events : [event]));

describe("an answer of chat completions", () => {
  it.each(streams)("%s passes byte for byte, wherever it was cut", (_file, text) => {
    const bytes = bytesOf(text);
    const places = Array.from({ length: bytes.length + 1 }, (_, cut) => cut);
    expect(written(decoded(bytes))).toBe(text);
    expect(places.filter((cut) => written(decoded(bytes.subarray(0, cut), bytes.subarray(cut))) !== text)).toEqual([]);
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

  it("is read as what it says: parallel calls, thoughts, refusals, sources, what was cached", () => {
    const tools = meaning(decoded(bytesOf(textOf("thinking-tools"))));
    expect(tools.filter(({ type }) => type === "tool-call-start")).toMatchObject([{ id: "call_a" }, { id: "call_b" }]);
    expect(tools.map((event) => (event.type === "reasoning-delta" ? event.text : "")).join("")).toBe(
      "Two cities, two calls… 🤔",
    );
    expect(tools).toContainEqual({
      type: "usage",
      usage: expect.objectContaining({ inputTokens: 1200, cacheReadTokens: 1024, reasoningTokens: 60 }) as unknown,
    });
    const refusal = meaning(decoded(bytesOf(textOf("refusal"))));
    expect(refusal.map((event) => (event.type === "refusal-delta" ? event.text : "")).join("")).toBe(
      "I can't help with that.",
    );
    expect(meaning(decoded(bytesOf(textOf("citations"))))).toContainEqual({
      type: "annotation",
      annotation: { type: "grounding", chunks: [{ uri: "https://weather.example/oslo", title: "Oslo" }] },
    });
    expect(meaning(decoded(bytesOf(textOf("filtered"))))).toContainEqual({ type: "finish", reason: "content-filter" });
  });

  it("is no answer where it broke off, or tells of an error, whose words stay with the host", () => {
    expect(() => decoded(bytesOf(textOf("broken-off")))).toThrow("The model backend's answer broke off.");
    let thrown: unknown;
    try {
      decoded(bytesOf(textOf("error")));
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(GatewayError);
    expect(thrown).toMatchObject({ code: "backend_overloaded" });
    expect((thrown as GatewayError).message).not.toContain("10.0.0.7");
  });

  it.each([
    ["openrouter-reasoning", ["reasoning-signature"], []],
    ["mistral-thinking", ["reasoning-signature"], []],
    ["moonshot-usage-in-choice", ["reasoning-signature"], []],
    ["gemini-signatures", [], ["function-call-1", "function-call-2"]],
    ["ollama-index-0", [], ["call_o1", "call_o2"]],
    ["poolside-changing-ids", [], ["call_first"]],
    ["bedrock-empty-object", [], ["tooluse_1"]],
    ["repeated-message", [], []],
  ])("is read from %s as its server means it", (name, seals, ids) => {
    const events = meaning(decoded(bytesOf(textOf(name))));
    const typeOf = (type: string): ChatEvent[] => events.filter((event) => event.type === type);
    expect(typeOf("reasoning-signature").map(({ type }) => type)).toEqual(seals);
    expect(typeOf("tool-call-start").map((event) => "id" in event && event.id)).toEqual(ids);
    expect(typeOf("tool-call-end")).toHaveLength(ids.length);
    const pieces = typeOf("tool-call-delta").map((event) => ("json" in event ? event.json : ""));
    expect(pieces.join("").split("}{")).toHaveLength(Math.max(1, ids.length));
    const texts = typeOf("text-delta").map((event) => ("text" in event ? event.text : ""));
    expect(texts.join("").match(/Hello|Oslo/g) ?? []).toHaveLength(ids.length > 0 ? 0 : 1);
    // A usage without counts stands for content that is held back.
    const counted = typeOf("usage").filter((event) => "usage" in event && Object.keys(event.usage ?? {}).length > 0);
    expect(counted).toMatchObject([{ usage: { inputTokens: 20, outputTokens: 12 } }]);
    expect(typeOf("finish")).toMatchObject([{ reason: ids.length > 0 ? "tool-calls" : "stop" }]);
  });

  it.each(["vllm-error", "openrouter-error", "only-done"])("is none where it is %s", (name) => {
    expect(() => decoded(bytesOf(textOf(name)))).toThrow(GatewayError);
  });
});

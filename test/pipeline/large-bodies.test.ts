/**
 * Shows that no large answer of an upstream takes a turn of the event loop that is much longer than parsing it. The attack `grow` shows it of
 * every field of a request.
 */

import { setImmediate, setTimeout } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createGateway, type Gateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";

const many = <Value>(count: number, make: (index: number) => Value): Value[] =>
  Array.from({ length: count }, (_, index) => make(index));

/** The time that this thread has worked, in milliseconds: others on the machine do not count. */
const worked = (): number => {
  const { threadCpuUsage } = process as { threadCpuUsage?: () => { user: number; system: number } };
  if (!threadCpuUsage) return performance.now();
  const { user, system } = threadCpuUsage.call(process);
  return (user + system) / 1_000;
};

function workOf(work: () => void): number {
  const before = worked();
  work();
  return worked() - before;
}

/** What some work resolves with, and the longest turn of the event loop meanwhile, in milliseconds of work. */
async function longestTurn<Value>(work: () => Promise<Value>): Promise<{ value: Value; longestMs: number }> {
  await setTimeout(1);
  let [longestMs, last] = [0, worked()];
  const over = new AbortController();
  const watching = (async () => {
    while (!over.signal.aborted) {
      await setImmediate();
      const now = worked();
      longestMs = Math.max(longestMs, now - last);
      last = now;
    }
  })();
  const value = await work();
  over.abort();
  await watching;
  return { value, longestMs };
}

const gatewayTo = (backend: ModelBackend): Gateway =>
  createGateway({ quotas: memoryQuotaStore([{ apiKey: "sk-one" }]), backend, onFailure: () => {} });

const headers = {
  authorization: "Bearer sk-one",
  "x-goog-api-key": "sk-one",
  "compat-version": "2023-06-01",
  "content-type": "application/json",
};

/** A body that this machine parses in about 10 ms when it is quiet. */
const REFERENCE = JSON.stringify(many(60_000, (at) => ({ at, text: "a" })));

/** What the longest turn may take: as often as long as parsing its body, and as often as long as parsing `REFERENCE`. */
const TIMES = 3;
const REFERENCES = 5;
/** A busy machine has few moments in which both are measured alike. */
const TRIES = 25;

/**
 * Asks again and again until no turn takes longer than it may. Returns the longest turn of the best run, of what it may take. Both are
 * measured in the same moments, so the result does not depend on the machine or on what else it does.
 */
async function leastShare(bytes: Uint8Array<ArrayBuffer>, ask: () => Promise<Response>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < TRIES && least > 1; attempt++) {
    const parsing = workOf(() => void JSON.parse(new TextDecoder().decode(bytes)));
    const reference = workOf(() => void JSON.parse(REFERENCE));
    const { value, longestMs } = await longestTurn(async () => {
      const response = await ask();
      await response.arrayBuffer();
      return response.status;
    });
    expect([200, 400, 413, 415, 500]).toContain(value);
    least = Math.min(least, longestMs / (TIMES * parsing + REFERENCES * reference));
  }
  return least;
}

/** Answers of upstreams that hold the event loop where nothing bounds them: a complete body, or the data of one event. */
const nested = (levels: number): string => '{"a":'.repeat(levels) + "1" + "}".repeat(levels);
const callsOf = (count: number, json: string): object[] =>
  many(count, (index) => ({ index, id: `c${index}`, function: { name: "f", arguments: json } }));
const choice = (said: object): object => ({ choices: [{ index: 0, ...said, finish_reason: "tool_calls" }] });
const parts = (list: readonly object[]): object => ({
  candidates: [{ content: { parts: list }, finishReason: "STOP" }],
});
const blocks = (content: readonly object[]): object => ({ content, stop_reason: "end_turn" });
const keys = (count: number): object => Object.fromEntries(many(count, (at) => [`k${at}`, at]));

const ANSWERS = [
  ["60,000 tool calls", "chat-completions", choice({ message: { tool_calls: callsOf(60_000, "{}") } })],
  ["60,000 tool calls in an event", "chat-completions", choice({ delta: { tool_calls: callsOf(60_000, "{}") } })],
  [
    "arguments nested in 1,000 calls",
    "chat-completions",
    choice({ message: { tool_calls: callsOf(1_000, nested(150)) } }),
  ],
  ["arguments that are no JSON", "chat-completions", choice({ message: { tool_calls: callsOf(60_000, '{"a"') } })],
  ["500,000 keys", "chat-completions", { ...choice({ message: { content: "a" } }), more: keys(500_000) }],
  [
    "100,000 annotations",
    "chat-completions",
    choice({ message: { content: "a", annotations: many(100_000, () => ({ url_citation: { url: "http://a" } })) } }),
  ],
  ["100,000 calls", "generate-content", parts(many(100_000, () => ({ functionCall: { name: "f", args: { a: 1 } } })))],
  ["300,000 parts", "generate-content", parts(many(300_000, () => ({ text: "a" })))],
  [
    "100,000 calls",
    "messages",
    blocks(many(100_000, (at) => ({ type: "tool_use", id: `t${at}`, name: "f", input: {} }))),
  ],
  [
    "200,000 citations",
    "messages",
    blocks([{ type: "text", text: "a", citations: many(200_000, () => ({ url: "u" })) }]),
  ],
] as const;

describe("an upstream's answer", () => {
  it.each(ANSWERS)("of %s blocks nobody: %s", async (name, format, answer) => {
    const bytes = new TextEncoder().encode(JSON.stringify(answer));
    const isStream = name.endsWith("event");
    const type = isStream ? "text/event-stream" : "application/json";
    const text = new TextDecoder().decode(bytes);
    const fetch = (): Promise<Response> =>
      Promise.resolve(new Response(isStream ? `data: ${text}\n\n` : text, { headers: { "content-type": type } }));
    const gateway = gatewayTo(relay({ format, baseUrl: "http://upstream.test", fetch }));
    // A caller of another format: an answer in the upstream's own is the same work without the translation.
    const path = format === "messages" ? "/v1/chat/completions" : "/v1/messages";
    const messages = [{ role: "user", content: "hi" }];
    const body = JSON.stringify({ model: "m", stream: isStream, max_tokens: 1e9, messages });
    const ask = (): Promise<Response> =>
      gateway.fetch(new Request(`http://host${path}`, { method: "POST", headers, body }));
    expect(await leastShare(bytes, ask)).toBeLessThanOrEqual(1);
  });
});

/**
 * Grows each list, text and object of each chat format's schema, and shows that no turn of the event loop takes much longer than parsing
 * the body alone. A field that is added to a schema is grown here by itself.
 */

import { setImmediate, setTimeout } from "node:timers/promises";
import type * as v from "valibot";
import { describe, expect, it } from "vitest";
import { ChatCompletionsRequest } from "../../src/formats/chat-completions/schema.ts";
import { GenerateContentRequest } from "../../src/formats/generate-content/schema.ts";
import { messagesRequest } from "../../src/formats/messages/schema.ts";
import { isValid, mayBeAbsent, type Shape, shapeOf } from "../../src/http/validation.ts";
import { createGateway, DEFAULT_LIMITS, type Gateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { speaking, WORD } from "./bench.ts";

/** From the body's root to a field: keys, places in lists, and which of several schemas is meant. */
type Step = { readonly key: string } | { readonly option: v.GenericSchema } | "item" | "value";
type Growth = "text" | "list" | "object";
interface Field {
  readonly steps: readonly Step[];
  readonly growth: Growth;
}

/** The fields of a schema. An object that stands in several places, or holds itself, is looked into once. */
function* fieldsOf(schema: v.GenericSchema, seen: Set<unknown>, steps: readonly Step[] = []): Generator<Field> {
  const { type, wrapped, item, value, entries, options, getter } = shapeOf(schema);
  if (wrapped) return yield* fieldsOf(wrapped, seen, steps);
  if (getter) return yield* fieldsOf(getter({}), seen, steps);
  if (type === "string") yield { steps, growth: "text" };
  if (item) {
    yield { steps, growth: "list" };
    yield* fieldsOf(item, seen, [...steps, "item"]);
  }
  if (value) yield* fieldsOf(value, seen, [...steps, "value"]);
  if (entries && !seen.has(entries)) {
    if (Object.keys(entries).length > 0) seen.add(entries);
    yield { steps, growth: "object" };
    for (const [key, field] of Object.entries(entries)) yield* fieldsOf(field, seen, [...steps, { key }]);
  }
  if (type === "union" || type === "variant")
    for (const option of options ?? [])
      if (typeof option === "object") yield* fieldsOf(option, seen, [...steps, { option }]);
}

const TEXTS = [
  "a",
  "AAAA",
  "image/png",
  "https://a.example/x",
  "gpt",
  "STRING",
  "data:image/png;base64,AAAA",
  "base64",
];
const NUMBERS = [1, 0.5, 0, 2, 1_024, 2_048];

/** A small value that a schema takes; undefined where none was found. */
function sampleOf(schema: v.GenericSchema): unknown {
  const shape = shapeOf(schema) as Shape & { readonly literal?: unknown };
  const { type, wrapped, item, entries, options, getter, literal } = shape;
  if (wrapped) return sampleOf(wrapped);
  if (literal !== undefined) return literal;
  if (type === "picklist") return options?.[0];
  if (getter) return sampleOf(getter({}));
  if (item) return [sampleOf(item)];
  if (entries)
    return Object.fromEntries(
      Object.entries(entries).flatMap(([key, field]) => (mayBeAbsent(field) ? [] : [[key, sampleOf(field)]])),
    );
  if (type === "union" || type === "variant") return sampleOf(options?.[0] as v.GenericSchema);
  return [...TEXTS, ...NUMBERS, true, {}].find((each) => isValid(schema, each));
}

const many = <Value>(count: number, make: (index: number) => Value): Value[] =>
  Array.from({ length: count }, (_, index) => make(index));

const TEXT_CHARS = 4_000_000;
const textOf = (unit: string): string => unit.repeat(TEXT_CHARS / unit.length);
const isText = (value: unknown): value is string => typeof value === "string";

/** The value of a schema in which one field is grown. */
function grown(schema: v.GenericSchema, steps: readonly Step[], growth: Growth): unknown {
  const { wrapped, item, value, entries, getter } = shapeOf(schema);
  if (wrapped) return grown(wrapped, steps, growth);
  if (getter) return grown(getter({}), steps, growth);
  const [step, ...rest] = steps;
  if (step === undefined) return grownHere(schema, item, growth);
  if (step === "item" && item) return [grown(item, rest, growth)];
  if (step === "value" && value) return { p: grown(value, rest, growth) };
  if (typeof step === "object" && "option" in step) return grown(step.option, rest, growth);
  if (typeof step !== "object" || !entries) throw new Error("There is no such field.");
  const field = entries[step.key] as v.GenericSchema;
  return { ...(sampleOf(schema) as object), [step.key]: grown(field, rest, growth) };
}

function grownHere(schema: v.GenericSchema, item: v.GenericSchema | undefined, growth: Growth): unknown {
  const sample = sampleOf(schema);
  if (growth === "text") return textOf(isText(sample) ? sample : "a");
  if (growth === "object")
    return {
      ...(sample as object),
      ...Object.fromEntries(many(DEFAULT_LIMITS.maxJsonKeys - 100, (at) => [`k${at}`, { a: [at] }])),
    };
  const element: unknown = item ? sampleOf(item) : "a";
  const isCounted = typeof element === "object" && element !== null;
  const count = isCounted ? DEFAULT_LIMITS.maxJsonItems / 2 : DEFAULT_LIMITS.maxJsonItems - 100;
  return many(count, (at) => (isText(element) ? `${element}${at}` : element));
}

const FORMATS = [
  ["messages", messagesRequest({ vendorRanges: false, vendorSources: false }), "/v1/messages"],
  ["chat-completions", ChatCompletionsRequest, "/v1/chat/completions"],
  ["generate-content", GenerateContentRequest, "/v1beta/models/m:generateContent"],
] as const;

const nameOf = ({ steps, growth }: Field): string =>
  `${steps
    .map((step) => (typeof step === "string" ? "[]" : "key" in step ? step.key : ""))
    .filter((name) => name !== "")
    .join(".")} (${growth})`;

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
const TRIES = 5;

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

describe.each(FORMATS)("%s", (_name, schema, path) => {
  const gateway = gatewayTo(speaking(WORD));
  const fields = Array.from(fieldsOf(schema, new Set()), (field) => [nameOf(field), field] as const);
  const unique = [...new Map(fields)];

  it("has fields of every growth", () => {
    expect(new Set(unique.map(([, { growth }]) => growth)).size).toBe(3);
    expect(unique.length).toBeGreaterThan(40);
  });

  it.each(unique)("blocks nobody with %s", async (_field, { steps, growth }) => {
    const text = JSON.stringify(grown(schema, steps, growth));
    const bytes = new TextEncoder().encode(text);
    const request = { method: "POST", headers, body: bytes };
    const share = await leastShare(bytes, async () => {
      const response = await gateway.fetch(new Request(`http://host${path}`, request));
      expect(response.status).toBeLessThan(500);
      return response;
    });
    expect(share).toBeLessThanOrEqual(1);
  });
});

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
    for (const [path, more] of [
      ["/v1/messages", { max_tokens: 1e9 }],
      ["/v1/chat/completions", { max_tokens: 1e9 }],
    ] as const) {
      const body = JSON.stringify({
        model: "m",
        stream: isStream,
        messages: [{ role: "user", content: "hi" }],
        ...more,
      });
      const ask = (): Promise<Response> =>
        gateway.fetch(new Request(`http://host${path}`, { method: "POST", headers, body }));
      expect(await leastShare(bytes, ask)).toBeLessThanOrEqual(1);
    }
  });
});

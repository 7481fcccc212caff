/**
 * Affinity over real sockets: the official SDKs talk in several turns to a gateway, and its route has two upstreams of the same format, each
 * with a prompt cache of its own.
 */

import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI, type Content } from "@google/genai";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import type { ChatRequest, ModelBackend } from "../../src/index.ts";
import { promptCache } from "../../src/upstreams/affinity/index.ts";
import { relay, type RelayFormat } from "../../src/upstreams/relay/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { KEY, serveGateway } from "../agents/stage.ts";
import type { Served } from "../agents/strict.ts";
import { Random } from "../trial/random.ts";

const CONVERSATIONS = 6;
const TURNS = 4;
/** Long enough to be cached: a few thousand tokens. */
const program = (name: string): string => `You are ${name}. ${"Answer in one word, and never explain. ".repeat(600)}`;

/** The turns of a conversation, of the caller and of the model in turn. */
type Said = readonly string[];

/** Sends the turns of one conversation. Returns the text of the answer, and its input tokens with those from the cache. */
type Client = (url: string, system: string, said: Said) => Promise<{ text: string; input: number; cached: number }>;

const CLIENTS: Readonly<Record<Exclude<RelayFormat, "images">, Client>> = {
  async messages(url, system, said) {
    const client = new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 0 });
    const { content, usage } = await client.messages
      .stream({
        model: "model",
        max_tokens: 100,
        system: [{ type: "text", text: system, cache_control: { type: "ephemeral" } }],
        messages: said.map((text, at) => ({
          role: at % 2 === 0 ? "user" : "assistant",
          content: [{ type: "text", text, ...(at === said.length - 1 && { cache_control: { type: "ephemeral" } }) }],
        })),
      })
      .finalMessage();
    const cached = usage.cache_read_input_tokens ?? 0;
    const input = usage.input_tokens + cached + (usage.cache_creation_input_tokens ?? 0);
    return { text: content.map((block) => (block.type === "text" ? block.text : "")).join(""), input, cached };
  },
  async "generate-content"(url, system, said) {
    const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url } });
    const contents = said.map((text, at): Content => ({ role: at % 2 === 0 ? "user" : "model", parts: [{ text }] }));
    const config = { systemInstruction: system };
    const { text = "", usageMetadata } = await client.models.generateContent({ model: "model", contents, config });
    return { text, input: usageMetadata?.promptTokenCount ?? 0, cached: usageMetadata?.cachedContentTokenCount ?? 0 };
  },
  async "chat-completions"(url, system, said) {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });
    const stream = client.chat.completions.stream({
      model: "model",
      messages: [
        { role: "system", content: system },
        ...said.map((content, at) => ({ role: at % 2 === 0 ? ("user" as const) : ("assistant" as const), content })),
      ],
      stream_options: { include_usage: true },
    });
    const { choices, usage } = await stream.finalChatCompletion();
    const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
    return { text: choices[0]?.message.content ?? "", input: usage?.prompt_tokens ?? 0, cached };
  },
  async responses(url, system, said) {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });
    const { output_text: text, usage } = await client.responses.create({
      model: "model",
      instructions: system,
      input: said.map((content, at) => ({ role: at % 2 === 0 ? ("user" as const) : ("assistant" as const), content })),
      store: false,
    });
    return { text, input: usage?.input_tokens ?? 0, cached: usage?.input_tokens_details.cached_tokens ?? 0 };
  },
};

/** A model that answers with its name, and has a prompt cache: it counts the longest beginning that it has read before. */
class CachingModel implements ModelBackend {
  readonly name: string;
  readonly #beginnings = new Set<string>();
  /** The first turn of each request, and whether a turn before was cached. */
  readonly asked: string[] = [];

  constructor(name: string) {
    this.name = name;
  }

  async *chat({ system, messages }: ChatRequest): ReturnType<NonNullable<ModelBackend["chat"]>> {
    const parts = [...system, ...messages.flatMap((message) => message.parts)];
    const texts = parts.map((part) => (part.type === "text" ? part.text : ""));
    const beginnings = texts.map((_text, at) => texts.slice(0, at + 1).join("\n"));
    const cached = beginnings.findLast((beginning) => this.#beginnings.has(beginning)) ?? "";
    for (const beginning of beginnings) this.#beginnings.add(beginning);
    this.asked.push(texts[1] ?? "");
    const inputTokens = Math.ceil((beginnings.at(-1)?.length ?? 0) / 4);
    const cacheReadTokens = Math.floor(cached.length / 4);
    const usage = { inputTokens, outputTokens: 2, cacheReadTokens, cacheWriteTokens: inputTokens - cacheReadTokens };
    yield { type: "start", usage };
    yield this.name;
    yield { type: "finish", reason: "stop", usage };
  }
}

/** Holds all conversations by turns, as agents do at the same time. Returns the names that answered each, and the share that was cached. */
async function converse(
  format: keyof typeof CLIENTS,
  hasAffinity: boolean,
): Promise<{ names: string[][]; cached: number }> {
  const models = [new CachingModel("one"), new CachingModel("two")];
  const vendors: Served[] = [];
  for (const model of models) vendors.push(await serveGateway(model));
  const relays = vendors.map(({ url }) =>
    relay({ format, baseUrl: `${url}${format === "generate-content" ? "/v1beta" : "/v1"}`, apiKey: KEY }),
  );
  const random = new Random(1);
  const backend = route({
    routes: { model: { upstreams: relays, ...(hasAffinity && { affinity: promptCache() }) } },
    random: () => random.next(),
  });
  const gateway = await serveGateway(backend);
  try {
    const said = Array.from({ length: CONVERSATIONS }, (_, at) => [
      `Conversation ${at}. ${"Word by word. ".repeat(400)}`,
    ]);
    const names = said.map((): string[] => []);
    let [input, cached] = [0, 0];
    for (let turn = 0; turn < TURNS; turn++)
      for (const [at, turns] of said.entries()) {
        const answer = await CLIENTS[format](gateway.url, program(`agent ${at}`), turns);
        names[at]?.push(answer.text);
        turns.push(answer.text, `And turn ${turn}? ${"Further and further. ".repeat(100)}`);
        if (turn === 0) continue;
        input += answer.input;
        cached += answer.cached;
      }
    return { names, cached: cached / input };
  } finally {
    await gateway[Symbol.asyncDispose]();
    await backend.close();
    for (const vendor of vendors) await vendor[Symbol.asyncDispose]();
  }
}

describe.each(Object.keys(CLIENTS) as (keyof typeof CLIENTS)[])("conversations over %s", (format) => {
  it("stay where their beginning is cached, and use both upstreams", async () => {
    const { names, cached } = await converse(format, true);
    for (const answered of names) expect(new Set(answered).size).toBe(1);
    expect(new Set(names.flat())).toEqual(new Set(["one", "two"]));
    expect(cached).toBeGreaterThan(0.85);
    const without = await converse(format, false);
    expect(without.names.some((answered) => new Set(answered).size > 1)).toBe(true);
    expect(without.cached).toBeLessThan(cached - 0.03);
  });
});

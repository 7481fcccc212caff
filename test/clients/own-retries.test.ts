/** The official SDKs' own retries, unmodified: a call whose connections break is one call of the backend, and one charge. */

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import {
  createGateway,
  type Gateway,
  memoryQuotaStore,
  type MemoryQuotaStore,
  memoryReplayStore,
} from "../../src/index.ts";

const KEY = "sk-one";
const INPUT_TOKENS = 10;
const WORDS = ["One ", "two ", "three."];
const UNITS = INPUT_TOKENS + WORDS.length;

let gateway: Gateway;
let server: Server;
let quotas: MemoryQuotaStore;
let url: string;
let backendCalls: number;
/** The header of each attempt, in the order of their coming. */
let attempts: (string | undefined)[];
/** Breaks the connection of an attempt, by its number. */
let cut: (attempt: number, req: IncomingMessage, res: ServerResponse) => void;

beforeEach(async () => {
  backendCalls = 0;
  attempts = [];
  cut = () => {};
  quotas = memoryQuotaStore([{ apiKey: KEY, id: "one", granted: 10_000 }]);
  gateway = createGateway({
    quotas,
    replayStore: memoryReplayStore(),
    backend: {
      async *chat() {
        backendCalls++;
        for (const word of WORDS) {
          await new Promise((resolve) => setTimeout(resolve, 1));
          yield word;
        }
        yield { type: "finish", reason: "stop", usage: { inputTokens: INPUT_TOKENS, outputTokens: WORDS.length } };
      },
    },
  });
  const handler = toNodeHandler(gateway);
  server = createServer((req, res) => {
    attempts.push(req.headers["idempotency-key"]?.toString());
    handler(req, res);
    cut(attempts.length, req, res);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(async () => {
  await gateway.close();
  server.close().closeAllConnections();
});

/** Cuts the first attempts when their answer is about to be written, so that all work for them was done. */
const cutAnswers =
  (count: number): typeof cut =>
  (attempt, req, res) => {
    if (attempt > count) return;
    res.writeHead = () => {
      req.socket.destroy();
      return res;
    };
  };

/** Cuts the first attempts while the backend is at work for them. */
const cutWork =
  (count: number): typeof cut =>
  (attempt, req) => {
    if (attempt > count) return;
    const poll = (): void => void (backendCalls > 0 ? req.socket.destroy() : setImmediate(poll));
    poll();
  };

const prompt = [{ role: "user" as const, content: "Count." }];
const header = (): Record<string, string> => ({ "Idempotency-Key": randomUUID() });

type Ask = (headers: Record<string, string>) => Promise<string | null | undefined>;

const anthropic = () => new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 3 });
const openai = () => new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 3 });

const clients: readonly (readonly [name: string, ask: Ask])[] = [
  [
    "anthropic",
    async (headers) => {
      const { content } = await anthropic().messages.create(
        { model: "any", max_tokens: 50, messages: prompt },
        { headers },
      );
      return content.map((block) => (block.type === "text" ? block.text : "")).join("");
    },
  ],
  [
    "anthropic, streaming",
    (headers) =>
      anthropic().messages.stream({ model: "any", max_tokens: 50, messages: prompt }, { headers }).finalText(),
  ],
  [
    "openai",
    async (headers) =>
      (await openai().chat.completions.create({ model: "any", messages: prompt }, { headers })).choices[0]?.message
        .content,
  ],
  [
    "openai, streaming",
    (headers) => openai().chat.completions.stream({ model: "any", messages: prompt }, { headers }).finalContent(),
  ],
];

describe.each(clients)("%s", (_name, ask) => {
  it.each([
    ["as its answer is written", cutAnswers(2), 3],
    ["while the backend is at work", cutWork(1), 2],
  ])("retries by itself a call that was cut %s, and pays once", async (_when, cuts, expected) => {
    cut = cuts;
    expect(await ask(header())).toBe("One two three.");
    expect(new Set(attempts).size, "each attempt has the same header").toBe(1);
    expect([attempts.length, backendCalls]).toEqual([expected, 1]);
    expect(quotas.report("one")).toMatchObject({ used: UNITS, held: 0 });
  });

  it("pays twice without the header", async () => {
    cut = cutAnswers(1);
    expect(await ask({})).toBe("One two three.");
    expect([attempts, backendCalls]).toEqual([[undefined, undefined], 2]);
  });
});

describe("an application's own retries", () => {
  it("of a stream that broke in the middle get all of it, and pay once", async () => {
    cut = (attempt, req, res) => {
      if (attempt > 1) return;
      const write = res.write.bind(res);
      let pieces = 0;
      res.write = ((...args: Parameters<typeof write>) => {
        if (pieces++ === 1) req.socket.destroy();
        return write(...args);
      }) as typeof write;
    };
    const headers = header();
    const ask = () =>
      new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 }).chat.completions
        .stream({ model: "any", messages: prompt }, { headers })
        .finalContent();
    await expect(ask()).rejects.toBeInstanceOf(Error);
    expect(await ask()).toBe("One two three.");
    expect([attempts.length, backendCalls, quotas.report("one")]).toMatchObject([2, 1, { used: UNITS }]);
  });

  it("through the Gen AI SDK pay once", async () => {
    cut = cutAnswers(1);
    const httpOptions = { baseUrl: url, headers: header() };
    const ai = new GoogleGenAI({ apiKey: KEY, httpOptions });
    const ask = async () => (await ai.models.generateContent({ model: "any", contents: "Count." })).text;
    await expect(ask()).rejects.toBeInstanceOf(Error);
    expect(await ask()).toBe("One two three.");
    expect([attempts.length, backendCalls, quotas.report("one")]).toMatchObject([2, 1, { used: UNITS }]);
  });

  it("with another request under the same key are told so at once", async () => {
    const headers = header();
    const ask = (content: string) =>
      openai().chat.completions.create({ model: "any", messages: [{ role: "user", content }] }, { headers });
    await ask("Count.");
    await expect(ask("Count backwards.")).rejects.toMatchObject({ status: 409, code: "idempotency_key_reused" });
    expect([attempts.length, backendCalls]).toEqual([2, 1]);
  });
});

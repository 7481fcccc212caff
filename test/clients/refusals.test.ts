/** The official SDKs over a socket: what a caller is told of the limit, the quota or the budget that refuses a call. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { ApiError, GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import { type CallRecord, createGateway, flexibleRateLimiter, memoryQuotaStore } from "../../src/index.ts";
import { spanAt } from "../../src/stores/budgets.ts";

const MONTH = { period: "month", timeZone: "Europe/Berlin" } as const;

const records: CallRecord[] = [];
const quotas = memoryQuotaStore(
  [
    { apiKey: "sk-own", id: "own", granted: 3 },
    { apiKey: "sk-team", id: "team-key", budget: "team" },
    { apiKey: "sk-child", id: "child-key", budget: "child" },
    { apiKey: "sk-fast", id: "fast" },
    { apiKey: "sk-long", id: "long" },
    { apiKey: "sk-one", id: "one" },
  ],
  {
    budgets: [
      { id: "team", amount: 0, ...MONTH },
      { id: "cost-centre-4711", amount: 2, ...MONTH },
      { id: "child", amount: 1_000_000, parent: "cost-centre-4711" },
    ],
  },
);
let release = (): void => {};
const gateway = createGateway({
  quotas,
  backend: {
    models: () => [{ id: "any", kinds: ["chat"] }],
    async *chat(request) {
      yield "Hello.";
      if (JSON.stringify(request.messages).includes("wait")) await new Promise<void>((done) => (release = done));
    },
  },
  rateLimiter: flexibleRateLimiter({
    perKey: { callsAtOnce: 1 },
    models: {
      any: {
        requests: [new RateLimiterMemory({ points: 3, duration: 60 })],
        tokens: [new RateLimiterMemory({ points: 500, duration: 3_600 })],
      },
    },
    reservedOutputTokens: 0,
  }),
  onCall: (record) => records.push(record),
});
const server = createServer(toNodeHandler(gateway));
let url = "";

beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await gateway.close();
  server.closeAllConnections();
  server.close();
});

/** What a client's error says: its status, its message, and the seconds after which it may ask again. */
interface Told {
  readonly status: number | undefined;
  readonly message: string;
  readonly retryAfterS: number | undefined;
}

const secondsOf = (headers: Headers | undefined): number | undefined => {
  const text = headers?.get("retry-after");
  return text === null || text === undefined ? undefined : Number(text);
};

type Ask = (apiKey: string, content: string) => Promise<Told>;

const failureOf = async (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => expect.fail("The call was not refused."),
    (error: unknown) => error,
  );

const CLIENTS: readonly [name: string, ask: Ask][] = [
  [
    "openai",
    async (apiKey, content) => {
      const client = new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 2 });
      const call = client.chat.completions.create({ model: "any", messages: [{ role: "user", content }] });
      const error = (await failureOf(call)) as InstanceType<typeof OpenAI.APIError>;
      expect(error).toBeInstanceOf(OpenAI.RateLimitError);
      return { status: error.status, message: error.message, retryAfterS: secondsOf(error.headers) };
    },
  ],
  [
    "@anthropic-ai/sdk",
    async (apiKey, content) => {
      const client = new Anthropic({ apiKey, baseURL: url, maxRetries: 0 });
      const call = client.messages.create({ model: "any", max_tokens: 50, messages: [{ role: "user", content }] });
      const error = (await failureOf(call)) as InstanceType<typeof Anthropic.APIError>;
      expect(error).toBeInstanceOf(Anthropic.RateLimitError);
      const { error: body } = error.error as { error: { message: string } };
      return { status: error.status, message: body.message, retryAfterS: secondsOf(error.headers) };
    },
  ],
  [
    "@google/genai",
    async (apiKey, contents) => {
      const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } });
      const config = { maxOutputTokens: 50 };
      const error = (await failureOf(client.models.generateContent({ model: "any", contents, config }))) as ApiError;
      expect(error).toBeInstanceOf(ApiError);
      const { error: body } = JSON.parse(error.message) as {
        error: { message: string; details: { retryDelay?: string }[] };
      };
      const delay = body.details.find(({ retryDelay }) => retryDelay !== undefined)?.retryDelay;
      const retryAfterS = delay === undefined ? undefined : Math.ceil(Number(delay.slice(0, -1)));
      return { status: error.status, message: body.message, retryAfterS };
    },
  ],
];

describe.each(CLIENTS)("%s is told", (name, ask) => {
  const isGoogle = name === "@google/genai";

  it("what the quota of its key lacks", async () => {
    const told = await ask("sk-own", "some more words ".repeat(20));
    expect(told.message).toMatch(
      /The remaining quota of this API key is too small.* Units needed: \d+, available: 3\./,
    );
    expect(told).toMatchObject({ status: 429, retryAfterS: undefined });
    expect(records.at(-1)?.refusedBy).toMatchObject({ kind: "quota", available: 3, held: 0 });
  });

  it("the budget of its key, and when the budget begins anew", async () => {
    const { endsAt } = spanAt(MONTH, Date.now());
    const told = await ask("sk-team", "Hello");
    expect(told.status).toBe(isGoogle ? 403 : 429);
    expect(told.message).toContain(`The quota of the budget "team" of this API key is used up.`);
    expect(told.message).toContain(`The budget begins anew at ${new Date(endsAt).toISOString()}.`);
    // The end of the period, to the minute: the test itself takes some seconds.
    expect(Math.abs((told.retryAfterS ?? 0) - (endsAt - Date.now()) / 1_000)).toBeLessThan(60);
    expect(records.at(-1)?.refusedBy).toMatchObject({ kind: "budget", budget: "team", available: 0, endsAt });
  });

  it("that a parent of its budget refuses, without the parent's name", async () => {
    const told = await ask("sk-child", "Hello");
    expect(told.message).toContain("The remaining quota of a budget of this API key is too small for this request.");
    expect(told.message).not.toContain("4711");
    expect(records.at(-1)?.refusedBy).toMatchObject({ kind: "budget", budget: "cost-centre-4711", available: 2 });
  });

  it("the limit of tokens that is smaller than the call, in its window, and no time to wait", async () => {
    const told = await ask("sk-long", "a long text ".repeat(500));
    expect(told.message).toMatch(
      /This API key uses too many tokens in too short a time\. The limit is 500 tokens in 3600 s for this model; it needs \d+, and \d+ are left\./,
    );
    expect(told.retryAfterS).toBeUndefined();
    expect(records.at(-1)?.refusedBy).toMatchObject({ kind: "tokens", model: "any", limit: 500, windowMs: 3_600_000 });
  });
});

it("openai is told the most calls at once", async () => {
  const client = new OpenAI({ apiKey: "sk-one", baseURL: `${url}/v1`, maxRetries: 0 });
  const stream = await client.chat.completions.create({
    model: "any",
    stream: true,
    messages: [{ role: "user", content: "wait" }],
  });
  const told = (await failureOf(
    client.chat.completions.create({ model: "any", messages: [{ role: "user", content: "Hello" }] }),
  )) as Error;
  expect(told.message).toContain("This API key has too many calls at once. The limit is 1 calls.");
  expect(records.at(-1)?.refusedBy).toMatchObject({ kind: "calls", limit: 1 });
  release();
  for await (const _ of stream);
});

it("anthropic is told the limit of requests of a model", async () => {
  const client = new Anthropic({ apiKey: "sk-fast", baseURL: url, maxRetries: 0 });
  const ask = () =>
    client.messages.create({ model: "any", max_tokens: 5, messages: [{ role: "user", content: "Hi" }] });
  for (let calls = 0; calls < 3; calls++) await ask();
  const error = (await failureOf(ask())) as Error;
  expect(error.message).toContain(
    "This API key sends too many requests. The limit is 3 requests in 60 s for this model.",
  );
});

/** A key or a budget that is used up may call a model that costs nothing, always. Whoever can call no such model is refused early. */

import { describe, expect, it } from "vitest";
import {
  createGateway,
  type GatewayOptions,
  memoryQuotaStore,
  memoryResponseStore,
  type ModelBackend,
} from "../../src/index.ts";
import { type PriceRows, priceTable } from "../../src/prices/index.ts";
import { drawn } from "../hosts/stage.ts";
import { verbsOf } from "./bench.ts";

const LARGE_BYTES = 2_000;
const LIMITS = { mediumBodyBytes: 500, largeBodyBytes: LARGE_BYTES };
const ROWS: PriceRows = {
  free: { input: 0, output: 0 },
  paid: { input: 1, output: 1 },
  "image-model-2": { pictures: { "*": 0 } },
  "image-model-3": { pictures: 1 },
};
const PICTURES = "/v1/images/generations";

const backend: ModelBackend = {
  async *chat() {
    yield "Hello.";
  },
  async *embed() {
    yield [1];
  },
  async *image() {
    yield drawn(0);
  },
};

function opened(options: Partial<GatewayOptions>, granted = 0) {
  const asked: string[] = [];
  const store = memoryQuotaStore(
    [
      { apiKey: "sk-empty", id: "empty", granted },
      { apiKey: "sk-team", id: "team", budget: "team" },
      { apiKey: "sk-busy", id: "busy", granted: 5 },
    ],
    { budgets: [{ id: "team", amount: 1 }] },
  );
  const gateway = createGateway({
    backend,
    quotas: {
      ...verbsOf(store),
      balance: (keyId, call) => {
        asked.push(keyId);
        return store.balance(keyId, call);
      },
    },
    limits: LIMITS,
    onFailure: () => {},
    ...options,
  });
  return { gateway, store, asked };
}

type Opened = ReturnType<typeof opened>;

interface Asked {
  readonly key?: string;
  readonly path?: string;
  readonly bytes?: number;
  /** False for a body of unknown length. */
  readonly isDeclared?: boolean;
}

/** Asks for an answer of a model. Returns the status, and how many pieces of 100 bytes were read of the body. */
async function ask(
  { gateway }: Opened,
  model: string,
  { key = "sk-empty", path = "/v1/messages", bytes = 200, isDeclared = true }: Asked = {},
): Promise<readonly [status: number, pieces: number]> {
  const fields = path.endsWith("embeddings")
    ? { input: "Hi" }
    : path === PICTURES
      ? { prompt: "Hi" }
      : { max_tokens: 50, messages: [{ role: "user", content: "Hi" }] };
  const short = JSON.stringify({ model, ...fields, user: "" });
  const body = new TextEncoder().encode(short.replace(/""}$/, `"${"x".repeat(Math.max(0, bytes - short.length))}"}`));
  let pieces = 0;
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        controller.enqueue(body.subarray(100 * pieces++, 100 * pieces));
        if (100 * pieces >= body.length) controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  const headers = { authorization: `Bearer ${key}`, "compat-version": "1", "content-type": "application/json" };
  const request = new Request(`http://host${path}`, {
    method: "POST",
    headers: { ...headers, ...(isDeclared && { "content-length": String(body.length) }) },
    body: stream,
    duplex: "half",
  } as RequestInit);
  const answer = await gateway.fetch(request);
  await answer.text();
  return [answer.status, pieces];
}

const LENGTHS: readonly (readonly [name: string, Asked])[] = [
  ["of a small body", {}],
  ["of a medium body", { bytes: 1_000 }],
  ["of a large body", { bytes: 3 * LARGE_BYTES }],
  ["of a small body of unknown length", { isDeclared: false }],
  ["of a large body of unknown length", { bytes: 3 * LARGE_BYTES, isDeclared: false }],
];

describe("a free model of a table", () => {
  it.each(LENGTHS)("answers a call %s, before and after a call of another model was refused", async (_name, length) => {
    const on = opened(priceTable(ROWS));
    const statuses: Record<string, number[]> = {};
    const paths = ["/v1/messages", "/v1/chat/completions", "/v1/embeddings", PICTURES];
    for (const path of paths) {
      const models = path === PICTURES ? ["image-model-2", "image-model-3"] : ["free", "paid"];
      const of: number[] = (statuses[path] = []);
      for (const model of [...models, ...models]) of.push((await ask(on, model, { path, ...length }))[0]);
    }
    expect(statuses).toEqual(Object.fromEntries(paths.map((path) => [path, [200, 429, 200, 429]])));
    expect(on.asked).toEqual([]);
  });

  it("answers a key whose budget is used up, or whose units other calls hold", async () => {
    const on = opened(priceTable(ROWS));
    await on.store.reserve({ id: "one", keyId: "team", atLeast: 1, atMost: 1, leaseMs: 60_000 });
    await on.store.settle("one", { used: 3, certainty: "exact" });
    await on.store.reserve({ id: "two", keyId: "busy", atLeast: 5, atMost: 5, leaseMs: 60_000 });
    for (const key of ["sk-team", "sk-busy"])
      for (const [, length] of LENGTHS)
        for (const model of ["paid", "free"])
          expect((await ask(on, model, { key, ...length }))[0]).toBe(model === "free" ? 200 : 429);
  });

  it("answers behind a long conversation that the gateway keeps", async () => {
    const on = opened({ ...priceTable(ROWS), responseStore: memoryResponseStore() }, 10_000);
    const post = async (body: object): Promise<{ status: number; id: string }> => {
      const headers = { authorization: "Bearer sk-empty", "content-type": "application/json" };
      const init = { method: "POST", headers, body: JSON.stringify(body) };
      const answer = await on.gateway.fetch(new Request("http://host/v1/responses", init));
      return { status: answer.status, id: ((await answer.json()) as { id: string }).id };
    };
    const { id } = await post({ model: "free", input: "x".repeat(2 * LARGE_BYTES) });
    const { available = 0 } = (await on.store.balance("empty")) ?? {};
    await on.store.reserve({ id: "all", keyId: "empty", atLeast: available, atMost: available, leaseMs: 60_000 });
    expect((await post({ model: "free", input: "Hi", previous_response_id: id })).status).toBe(200);
    expect((await post({ model: "paid", input: "Hi", previous_response_id: id })).status).toBe(429);
  });
});

it("is no reason to count the tokens of more than a small body for a key without quota", async () => {
  const on = opened(priceTable(ROWS));
  const path = "/v1/messages/count_tokens";
  expect((await ask(on, "free", { path }))[0]).toBe(200);
  expect(await ask(on, "free", { path, isDeclared: false })).toEqual([429, 0]);
  expect((await ask(on, "free", { path, bytes: 1_000 }))[0]).toBe(429);
});

describe("a price that says that it has no free models", () => {
  it.each<[string, Partial<GatewayOptions>]>([
    ["the default", {}],
    ["a table", priceTable({ "*": { input: 1, output: 1, pictures: 1 }, half: { input: 0, output: 1 } })],
    ["a table of free tokens with searches", priceTable({ "*": { input: 0, output: 0, toolUses: { search: 1 } } })],
    ["a function", { price: Object.assign(() => 1, { hasFreeModels: false }) }],
  ])("%s: a key without quota is refused before its body is read", async (_name, prices) => {
    const on = opened(prices);
    expect(await ask(on, "m", { isDeclared: false })).toEqual([429, 0]);
    expect(await ask(on, "m", { bytes: 3 * LARGE_BYTES })).toEqual([429, 0]);
    expect((await ask(on, "m", { bytes: 1_000 }))[0]).toBe(429);
    expect(on.asked.length).toBe(3);
  });

  it("of pictures alone: the tokens decide for chats, and the pictures for pictures", async () => {
    const on = opened(priceTable({ "*": { input: 1, output: 1, pictures: { "*": 0 } } }));
    expect(await ask(on, "m", { isDeclared: false })).toEqual([429, 0]);
    const [status, pieces] = await ask(on, "image-model-2", { path: PICTURES, isDeclared: false });
    expect([status, pieces > 0]).toEqual([200, true]);
  });
});

describe("a price function that does not say so", () => {
  const prices = {
    price: ({ inputTokens }: { inputTokens: number }, model: string) => (model === "free" ? 0 : inputTokens),
  };

  it.each(LENGTHS.filter(([, { bytes = 0 }]) => bytes <= LARGE_BYTES))(
    "leaves a call %s to the reservation",
    async (_name, length) => {
      const on = opened(prices);
      for (const model of ["free", "paid", "free", "paid"])
        expect((await ask(on, model, length))[0]).toBe(model === "free" ? 200 : 429);
      expect(on.asked).toEqual([]);
    },
  );

  it("needs quota for a large body, which is read no further", async () => {
    const on = opened(prices);
    expect(await ask(on, "free", { bytes: 3 * LARGE_BYTES })).toEqual([429, 0]);
    const [status, pieces] = await ask(on, "free", { bytes: 100 * LARGE_BYTES, isDeclared: false });
    expect([status, pieces >= LARGE_BYTES / 100, pieces <= LARGE_BYTES / 100 + 3]).toEqual([429, true, true]);
    // Here the body ends before the store answers.
    expect((await ask(on, "free", { bytes: LARGE_BYTES + 50, isDeclared: false }))[0]).toBe(429);
    expect(on.asked).toEqual(["empty", "empty", "empty"]);
    const rich = opened(prices, 1_000_000);
    expect((await ask(rich, "paid", { bytes: 3 * LARGE_BYTES, isDeclared: false }))[0]).toBe(200);
    expect(rich.asked).toEqual(["empty"]);
  });
});

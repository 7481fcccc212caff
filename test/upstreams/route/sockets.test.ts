/** Routes between official SDKs and scripted upstreams, over real sockets: who is asked, cut, charged and told. */

import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { expect, it } from "vitest";
import { toNodeHandler } from "../../../adapters/node.ts";
import { type CallRecord, createGateway, memoryQuotaStore, type MemoryQuotaStore } from "../../../src/index.ts";
import { systemClock } from "../../../src/ports/clock.ts";
import { priceCatalogue, priceTable } from "../../../src/prices/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import {
  balance,
  canary,
  hedge,
  type Route,
  route,
  type RouteBackend,
  type RouteOptions,
  shadow,
  type ShadowAnswer,
} from "../../../src/upstreams/route/index.ts";

type Answer = (res: ServerResponse, number: number) => unknown;

interface Upstream {
  readonly url: string;
  /** The number of requests so far. */
  asked: number;
  /** Resolves when an answer was cut before its end. */
  readonly cut: Promise<void>;
}

async function listen(resources: AsyncDisposableStack, handle: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer(handle).listen(0, "127.0.0.1");
  await once(server, "listening");
  resources.defer(() => {
    server.close().closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function upstream(resources: AsyncDisposableStack, answer: Answer): Promise<Upstream> {
  const cut = Promise.withResolvers<void>();
  const url = await listen(resources, (req, res) => {
    res.on("close", () => (res.writableEnded ? undefined : cut.resolve()));
    req.resume().on("end", () => answer(res, one.asked++));
  });
  const one: Upstream = { url: `${url}/v1`, asked: 0, cut: cut.promise };
  return one;
}

const frame = (data: { readonly type: string }): string => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;

const start = (inputTokens: number): string =>
  frame({
    type: "message_start",
    message: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: inputTokens, output_tokens: 0 },
    },
  } as { type: string });

const rest = (text: string, outputTokens: number): string =>
  [
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } },
    { type: "content_block_stop", index: 0 },
    {
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: { output_tokens: outputTokens },
    },
    { type: "message_stop" },
  ]
    .map(frame)
    .join("");

const streaming = (res: ServerResponse, headers: Readonly<Record<string, string>> = {}): ServerResponse =>
  res.writeHead(200, { "content-type": "text/event-stream", ...headers });

/** Answers a messages stream with a text, for 10 input and 5 output tokens. */
const says =
  (text: string, headers: Readonly<Record<string, string>> = {}) =>
  (res: ServerResponse): unknown =>
    streaming(res, headers).end(start(10) + rest(text, 5));

interface Stage {
  readonly anthropic: (apiKey?: string) => Anthropic;
  readonly quotas: MemoryQuotaStore;
  readonly records: CallRecord[];
  readonly backend: RouteBackend;
  readonly failures: string[];
  /** Asks over a stream, and returns the text. */
  readonly ask: (apiKey?: string) => Promise<string>;
}

async function stage(
  resources: AsyncDisposableStack,
  target: Omit<Route, "upstreams">,
  upstreams: Readonly<Record<string, Upstream>>,
  routeOptions: Partial<RouteOptions> = {},
): Promise<Stage> {
  const backends = Object.entries(upstreams).map(([name, { url }], at) => ({
    name,
    backend: relay({ format: "messages", baseUrl: url, apiKey: "sk-up" }),
    weight: at === 0 || !target.hedge ? 1 : 0,
  }));
  const routes = { m: { ...target, upstreams: backends } };
  const backend = route({ routes, random: () => 0, retry: { rounds: 0 }, ...routeOptions });
  const quotas = memoryQuotaStore([
    { apiKey: "sk-1", id: "one", granted: 1_000_000 },
    { apiKey: "sk-2", id: "two", granted: 1_000_000, metadata: { ring: "early" } },
  ]);
  const records: CallRecord[] = [];
  const failures: string[] = [];
  const gateway = createGateway({
    backend,
    quotas,
    onCall: (record) => void records.push(record),
    onFailure: ({ error }) => void failures.push(error.code),
    ...priceTable({
      "one/m": { input: 1, output: 1 },
      "two/m": { input: 3, output: 3 },
      "*": { input: 100, output: 100 },
    }),
  });
  resources.defer(() => backend.close());
  resources.defer(() => gateway.close({ deadlineMs: 0 }));
  const baseURL = await listen(resources, toNodeHandler(gateway));
  const anthropic = (apiKey = "sk-1"): Anthropic => new Anthropic({ apiKey, baseURL, maxRetries: 0 });
  const ask: Stage["ask"] = (apiKey) =>
    anthropic(apiKey)
      .messages.stream({ model: "m", max_tokens: 100, messages: [{ role: "user", content: "Hello" }] })
      .finalText();
  return {
    anthropic,
    quotas,
    records,
    backend,
    failures,
    ask,
  };
}

async function recorded(records: readonly CallRecord[], count: number): Promise<void> {
  await expect.poll(() => records.length).toBe(count);
}

const left = (remaining: number): Readonly<Record<string, string>> => ({
  "anthropic-ratelimit-requests-limit": "100",
  "anthropic-ratelimit-requests-remaining": String(remaining),
  "anthropic-ratelimit-requests-reset": new Date(Date.now() + 3_000_000).toISOString(),
});

it("goes to the upstream that has more of its rate left, and to a used-up one only after the others", async () => {
  await using resources = new AsyncDisposableStack();
  const one = await upstream(resources, (res, number) => says("one", left(number === 0 ? 30 : 0))(res));
  const two = await upstream(resources, (res, number) => {
    if (number === 2) return res.writeHead(429, { "content-type": "application/json", "retry-after": "0" }).end("{}");
    return says("two", left(number === 0 ? 60 : 10))(res);
  });
  const { ask } = await stage(resources, { balance: balance({ by: "remaining" }) }, { one, two });
  const texts: string[] = [];
  for (let call = 0; call < 5; call++) texts.push(await ask());
  // 100 and 100, 30 and 100, 30 and 60, 30 and 10, 0 and 10.
  expect(texts).toEqual(["one", "two", "two", "one", "one"]);
  expect([one.asked, two.asked]).toEqual([3, 3]);
});

it("goes to the upstream that speaks first, as measured over the wire", async () => {
  await using resources = new AsyncDisposableStack();
  let now = Date.now();
  const slow = await upstream(resources, (res) => {
    now += 1_000;
    says("slow")(res);
  });
  const quick = await upstream(resources, says("quick"));
  const clock = { ...systemClock, now: () => now };
  const { ask } = await stage(resources, { balance: balance({ by: "latency" }) }, { slow, quick }, { clock });
  const texts: string[] = [];
  for (let call = 0; call < 6; call++) texts.push(await ask());
  expect(texts).toEqual(["slow", "quick", "quick", "quick", "quick", "quick"]);
});

it("cuts the first upstream when the second speaks first; the caller pays the second alone, and the record tells both", async () => {
  await using resources = new AsyncDisposableStack();
  const one = await upstream(resources, (res) => streaming(res).write(start(900)));
  const two = await upstream(resources, says("two"));
  const { ask, records, quotas, failures } = await stage(
    resources,
    { hedge: hedge({ afterMs: 5, share: 1 }) },
    { one, two },
  );
  expect(await ask()).toBe("two");
  await one.cut;
  await recorded(records, 1);
  expect(records[0]).toMatchObject({
    units: 15 * 3,
    outcome: "completed",
    usage: { inputTokens: 10, outputTokens: 5 },
    attempts: [
      { upstream: "one", errorCode: undefined, movedOn: "outrun", usage: { inputTokens: 900 } },
      { upstream: "two", status: 200, errorCode: undefined, movedOn: undefined, usage: undefined },
    ],
  });
  expect((await quotas.balance("one"))?.used).toBe(45);
  expect(failures).toEqual([]);
});

it("charges the price of the first upstream when the second was asked in vain, and cuts the second", async () => {
  await using resources = new AsyncDisposableStack();
  const asked = Promise.withResolvers<void>();
  const one = await upstream(resources, (res) => {
    streaming(res).write(start(10));
    void asked.promise.then(() => res.end(rest("one", 5)));
  });
  const two = await upstream(resources, (res) => {
    streaming(res).write(start(10));
    asked.resolve();
  });
  const { ask, records } = await stage(resources, { hedge: hedge({ afterMs: 5, share: 1 }) }, { one, two });
  expect(await ask()).toBe("one");
  await two.cut;
  await recorded(records, 1);
  expect(records[0]).toMatchObject({
    units: 15,
    attempts: [
      { upstream: "one", movedOn: undefined },
      { upstream: "two", movedOn: "outrun" },
    ],
  });
});

it("asks one upstream for a call with a tool that the provider runs", async () => {
  await using resources = new AsyncDisposableStack();
  const one = await upstream(resources, (res) => setTimeout(() => says("one")(res), 100));
  const two = await upstream(resources, says("two"));
  const { anthropic } = await stage(resources, { hedge: hedge({ afterMs: 1, share: 1 }) }, { one, two });
  const tools = [{ type: "web_search_20250305" as const, name: "web_search" as const }];
  const messages = [{ role: "user" as const, content: "Hello" }];
  const text = await anthropic().messages.stream({ model: "m", max_tokens: 100, messages, tools }).finalText();
  expect([text, two.asked]).toEqual(["one", 0]);
});

it("copies calls to a shadow that nobody pays for or waits for, and cuts it when the route is closed", async () => {
  await using resources = new AsyncDisposableStack();
  const one = await upstream(resources, says("one"));
  const next = await upstream(resources, (res, number) =>
    number === 0 ? says("copied")(res) : streaming(res).write(start(10)),
  );
  const answers: ShadowAnswer[] = [];
  const copies = shadow({
    upstream: {
      backend: relay({ format: "messages", baseUrl: next.url, apiKey: "sk-next" }),
      name: "next",
      model: "m-2",
    },
    share: 1,
    onAnswer: (answer) => void answers.push(answer),
  });
  const { ask, records, quotas, backend } = await stage(resources, { shadow: copies }, { one });
  expect(await ask()).toBe("one");
  await expect.poll(() => answers.length).toBe(1);
  const [answer] = answers;
  const text = answer?.events.map((event) =>
    typeof event === "object" && event.type === "text-delta" ? event.text : "",
  );
  expect(text?.join("")).toBe("copied");
  expect(answer).toMatchObject({
    usage: { inputTokens: 10, outputTokens: 5 },
    upstream: { name: "next", model: "m-2" },
  });
  // The second copy hangs. Its caller has its answer all the same.
  expect(await ask()).toBe("one");
  await expect.poll(() => next.asked).toBe(2);
  await recorded(records, 2);
  expect(records.map(({ units, attempts }) => [units, attempts.length])).toEqual([
    [15, 1],
    [15, 1],
  ]);
  expect(answer?.requestId).toBe(records[0]?.requestId);
  expect((await quotas.balance("one"))?.used).toBe(30);
  await backend.close();
  await next.cut;
  expect(answers[1]).toMatchObject({ errorCode: "busy", requestId: records[1]?.requestId });
});

it("sends the keys of a ring to a new upstream, and all others to the usual one", async () => {
  await using resources = new AsyncDisposableStack();
  const one = await upstream(resources, says("usual"));
  const two = await upstream(resources, says("new"));
  const rings = canary({ upstreams: ["two"], metadata: { ring: "early" } });
  const { ask } = await stage(resources, { canary: rings }, { one, two });
  const texts: string[] = [];
  for (const key of ["sk-1", "sk-2", "sk-1", "sk-2"]) texts.push(await ask(key));
  expect(texts).toEqual(["usual", "new", "usual", "new"]);
});

const model = (input: number): object => ({
  name: "Model M",
  release_date: "2026-01-02",
  last_updated: "2026-03-04",
  limit: { context: 8_000, output: 900 },
  cost: { input, output: input },
});

it("makes a route, its list and its prices from a file of models.dev", async () => {
  await using resources = new AsyncDisposableStack();
  const [near, far] = [await upstream(resources, says("near")), await upstream(resources, says("far"))];
  const file = {
    near: { id: "near", models: { "m-1": model(4), "m-near": model(1) } },
    far: { id: "far", models: { "m-1": model(2) } },
  };
  const catalogue = priceCatalogue(file, { date: "2026-11-01", providers: ["near", "far"] });
  const { price, imagePrice } = priceTable(catalogue.rows);
  const backendOf = ({ url }: Upstream): ReturnType<typeof relay> =>
    relay({ format: "messages", baseUrl: url, models: catalogue.models });
  const routes = Object.fromEntries(
    Object.entries(catalogue.routes({ near: backendOf(near), far: backendOf(far) })).map(([name, one]) => [
      name,
      { ...one, balance: balance({ by: "price", price }) },
    ]),
  );
  const backend = route({ routes });
  const quotas = memoryQuotaStore([{ apiKey: "sk-1", id: "one", granted: 1_000_000 }]);
  const gateway = createGateway({ backend, quotas, price, imagePrice });
  resources.defer(() => gateway.close({ deadlineMs: 0 }));
  resources.defer(() => backend.close());
  const baseURL = await listen(resources, toNodeHandler(gateway));
  const client = new Anthropic({ apiKey: "sk-1", baseURL, maxRetries: 0 });
  const { data } = await client.models.list();
  expect(data.map(({ id, display_name, max_tokens }) => [id, display_name, max_tokens])).toEqual([
    ["m-1", "Model M", 900],
    ["m-near", "Model M", 900],
  ]);
  const ask = (name: string): Promise<string> =>
    client.messages
      .stream({ model: name, max_tokens: 100, messages: [{ role: "user", content: "Hello" }] })
      .finalText();
  expect([await ask("m-1"), (await quotas.balance("one"))?.used]).toEqual(["far", 15 * 2]);
  expect([await ask("m-near"), (await quotas.balance("one"))?.used]).toEqual(["near", 15 * 2 + 15]);
});

/** Relays that hold WebSockets to upstreams of Responses: before polygate itself, and before upstreams that lie, stall and break off. */

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";
import { describe, expect, it } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { toNodeHandler } from "../../../adapters/node.ts";
import { toUpgradeHandler } from "../../../adapters/websocket.ts";
import {
  type CallRecord,
  createGateway,
  type Failure,
  type Gateway,
  memoryQuotaStore,
  memoryResponseStore,
} from "../../../src/index.ts";
import type { JsonObject } from "../../../src/model/json.ts";
import { manualClock } from "../../../src/testing/laws/index.ts";
import { Conversations } from "../../../src/upstreams/relay/conversations.ts";
import { relay, type RelayBackend, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { DEFAULT_RELAY_LIMITS, DEFAULT_RELAY_TIMEOUTS } from "../../../src/upstreams/relay/options.ts";
import type { OpenSocket } from "../../../src/upstreams/relay/socket.ts";
import { Exchange, type UpstreamResponse } from "../../../src/upstreams/relay/transport.ts";

interface Served extends AsyncDisposable {
  readonly url: string;
  /** The methods and kinds of the requests, in order: `upgrade`, or `POST`. */
  readonly seen: string[];
}

async function served(server: Server): Promise<Served> {
  const seen: string[] = [];
  server.prependListener("request", ({ method }: IncomingMessage) => seen.push(`${method}`));
  // Without a listener, Node answers an upgrade like any other request.
  if (server.listenerCount("upgrade") > 0) server.prependListener("upgrade", () => seen.push("upgrade"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await Promise.resolve();
    },
  };
}

/** Serves a gateway, with WebSockets unless told otherwise. */
function serve(gateway: Gateway, isWired = true): Promise<Served> {
  const server = createServer(toNodeHandler(gateway));
  if (isWired) server.on("upgrade", toUpgradeHandler(gateway));
  return served(server);
}

/** An upstream that says how many texts it was given, and what it was charged for. */
function countingUpstream(): { readonly gateway: Gateway; readonly records: CallRecord[] } {
  const records: CallRecord[] = [];
  const gateway = createGateway({
    backend: {
      async *chat({ messages }) {
        yield { type: "text-delta", text: `Turns: ${messages.length}` };
        yield { type: "finish", reason: "stop", usage: { inputTokens: 10 * messages.length, outputTokens: 3 } };
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-upstream", granted: 1_000_000 }]),
    onCall: (record) => void records.push(record),
  });
  return { gateway, records };
}

interface Stage extends AsyncDisposable {
  readonly url: string;
  readonly client: OpenAI;
  readonly records: CallRecord[];
  readonly failures: Failure[];
  readonly backend: RelayBackend;
}

async function stage(upstream: string, options: Partial<RelayOptions> = {}): Promise<Stage> {
  const records: CallRecord[] = [];
  const failures: Failure[] = [];
  const backend = relay({
    format: "responses",
    baseUrl: upstream,
    apiKey: "sk-upstream",
    transport: "websocket",
    ...options,
  });
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([
      { apiKey: "sk-one", id: "one", granted: 1_000_000 },
      { apiKey: "sk-two", id: "two", granted: 1_000_000 },
    ]),
    responseStore: memoryResponseStore(),
    onCall: (record) => void records.push(record),
    onFailure: (failure) => void failures.push(failure),
  });
  const server = await serve(gateway);
  return {
    url: server.url,
    client: new OpenAI({ apiKey: "sk-one", baseURL: `${server.url}/v1`, maxRetries: 0 }),
    records,
    failures,
    backend,
    async [Symbol.asyncDispose]() {
      await gateway.close({ deadlineMs: 0 });
      await backend.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

const usages = (records: readonly CallRecord[]): unknown[] =>
  records.map(({ units }) => units).filter((units) => units > 0);

describe("a relay before a gateway that takes WebSockets", () => {
  it("takes the turns of a conversation over one connection, streamed and complete", async () => {
    const { gateway, records } = countingUpstream();
    await using upstream = await serve(gateway);
    await using on = await stage(upstream.url);
    const texts: string[] = [];
    let previous: string | undefined;
    for (const [turn, stream] of [false, true, false, true].entries()) {
      const asked = {
        model: "m",
        input: `Question ${turn}`,
        ...(previous !== undefined && { previous_response_id: previous }),
      };
      if (stream) {
        for await (const event of await on.client.responses.create({ ...asked, stream })) {
          if (event.type === "response.output_text.done") texts.push(event.text);
          if (event.type === "response.completed") previous = event.response.id;
        }
      } else {
        const response = await on.client.responses.create(asked);
        texts.push(response.output_text);
        previous = response.id;
      }
    }
    expect(texts).toEqual(["Turns: 1", "Turns: 3", "Turns: 5", "Turns: 7"]);
    expect(upstream.seen).toEqual(["upgrade"]);
    expect(usages(on.records)).toEqual([13, 33, 53, 73]);
    expect(usages(records)).toEqual([13, 33, 53, 73]);
    expect(on.records.every(({ certainty }) => certainty === "exact")).toBe(true);
  });

  it("takes the turns of a WebSocket of a caller, also of responses that nobody keeps, over one connection", async () => {
    const { gateway } = countingUpstream();
    await using upstream = await serve(gateway);
    await using on = await stage(upstream.url);
    const ws = new ResponsesWS(on.client);
    const texts: string[] = [];
    ws.on("response.output_text.done", ({ text }) => texts.push(text));
    let id: string | null = null;
    for (const input of ["One.", "Two.", "Three."]) {
      const done = Promise.withResolvers<string>();
      ws.once("response.completed", ({ response }) => done.resolve(response.id));
      ws.send({ type: "response.create", model: "m", input, store: false, previous_response_id: id });
      id = await done.promise;
    }
    ws.close();
    expect(texts).toEqual(["Turns: 1", "Turns: 3", "Turns: 5"]);
    expect(upstream.seen).toEqual(["upgrade"]);
  });

  it("never shares a connection between two keys", async () => {
    const { gateway } = countingUpstream();
    await using upstream = await serve(gateway);
    await using on = await stage(upstream.url);
    const input = "The same words.";
    const mine = await on.client.responses.create({ model: "m", input, store: false });
    const other = new OpenAI({ apiKey: "sk-two", baseURL: `${on.url}/v1` });
    const items = [
      { role: "user" as const, content: input },
      ...mine.output,
      { role: "user" as const, content: "More." },
    ];
    const theirs = await other.responses.create({
      model: "m",
      input: items as OpenAI.Responses.ResponseInput,
      store: false,
    });
    const continued = await on.client.responses.create({ model: "m", input: items as OpenAI.Responses.ResponseInput });
    expect([theirs.output_text, continued.output_text]).toEqual(["Turns: 3", "Turns: 3"]);
    expect(upstream.seen).toEqual(["upgrade", "upgrade"]);
  });

  it("goes over HTTP where the upstream takes no WebSockets, and does not ask again at once", async () => {
    const { gateway } = countingUpstream();
    await using upstream = await serve(gateway, false);
    await using on = await stage(upstream.url);
    for (const input of ["One.", "Two."]) await on.client.responses.create({ model: "m", input });
    expect(upstream.seen).toEqual(["GET", "POST", "POST"]);
    expect(usages(on.records)).toEqual([13, 13]);
    // The end of the stage closes the relay again.
    await on.backend.close();
  });

  it("goes over HTTP when no connection has room, and closes the one that was not used for the longest time", async () => {
    const { gateway } = countingUpstream();
    await using upstream = await serve(gateway);
    await using on = await stage(upstream.url, { limits: { maxSockets: 1 } });
    await on.client.responses.create({ model: "m", input: "One." });
    await on.client.responses.create({ model: "m", input: "Another conversation." });
    const both = ["a", "b"].map((input) => on.client.responses.create({ model: "m", input }));
    await Promise.all(both);
    expect(upstream.seen.filter((kind) => kind === "POST")).toHaveLength(1);
    expect(usages(on.records)).toEqual([13, 13, 13, 13]);
  });

  it("closes idle connections after a time, and all of them when it is closed", async () => {
    const { gateway } = countingUpstream();
    await using upstream = await serve(gateway);
    const clock = manualClock();
    await using on = await stage(upstream.url, { clock, timeouts: { socketIdleMs: 1_000 } });
    const first = await on.client.responses.create({ model: "m", input: "One." });
    await clock.advance(1_000);
    const second = await on.client.responses.create({ model: "m", input: "Two.", previous_response_id: first.id });
    expect(second.output_text).toBe("Turns: 3");
    expect(upstream.seen).toEqual(["upgrade", "upgrade"]);
    await on.backend.close();
    expect(clock.pending).toBeLessThanOrEqual(2);
  });

  it("is refused by name for other formats, and beside a fetch of the host", () => {
    const asked = { baseUrl: "http://127.0.0.1:2", transport: "websocket" } as const;
    expect(() => relay({ ...asked, format: "messages" })).toThrow(/transport: upstreams of this format/);
    expect(() => relay({ ...asked, format: "responses", fetch })).toThrow(/transport: a WebSocket cannot/);
    expect(() => relay({ ...asked, format: "responses", transport: "quic" as never })).toThrow(/transport/);
  });
});

/** An upstream of which a test writes each message. Requests over HTTP get an answer of their own. */
async function scripted(
  answer: (ws: WebSocket, message: JsonObject, turn: number) => unknown,
): Promise<Served & { readonly messages: JsonObject[]; readonly headers: IncomingMessage["headers"][] }> {
  const messages: JsonObject[] = [];
  const headers: IncomingMessage["headers"][] = [];
  const server = createServer((req, res) => {
    res.setHeader("content-type", "application/json");
    req.resume().once("end", () => res.end(JSON.stringify(responseOf("http", "By HTTP"))));
  });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (ws, req) => {
    headers.push(req.headers);
    ws.on("error", () => {});
    ws.on("message", (data: Buffer) => {
      const message = JSON.parse(data.toString()) as JsonObject;
      messages.push(message);
      if (message["type"] === "response.create") answer(ws, message, messages.length - 1);
    });
  });
  const base = await served(server);
  return {
    ...base,
    messages,
    headers,
    async [Symbol.asyncDispose]() {
      for (const ws of sockets.clients) ws.terminate();
      await base[Symbol.asyncDispose]();
    },
  };
}

const responseOf = (id: string, text: string): JsonObject => ({
  id: `resp_${id}`,
  object: "response",
  created_at: 1,
  status: "completed",
  model: "m",
  output: [
    {
      id: `msg_${id}`,
      type: "message",
      status: "completed",
      role: "assistant",
      content: [{ type: "output_text", text, annotations: [] }],
    },
  ],
  usage: { input_tokens: 7, output_tokens: 2, total_tokens: 9 },
});

const said = (content: string): JsonObject => ({ role: "user", content });

/** Sends a whole answer, with indented JSON and events of unknown types between. */
function say(ws: WebSocket, id: string, text: string): void {
  const response = responseOf(id, text);
  const begun = { ...response, status: "in_progress", output: [], usage: null };
  const [item] = response["output"] as JsonObject[];
  const events = [
    { type: "response.created", response: begun },
    { type: "codex.rate_limits", primary: {} },
    { type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } },
    { type: "response.output_text.delta", output_index: 0, content_index: 0, item_id: `msg_${id}`, delta: text },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response },
  ];
  for (const [sequence_number, event] of events.entries())
    ws.send(JSON.stringify({ ...event, sequence_number }, null, sequence_number % 2));
}

const fail = (ws: WebSocket, status: number, code: string, headers: JsonObject = {}): void =>
  ws.send(
    JSON.stringify({ type: "error", status, headers, error: { type: "invalid_request_error", code, message: code } }),
  );

/** Conversations with an upstream in this process, which answers each turn at once with the same text. */
function inProcess(text: string): {
  readonly conversations: Conversations;
  readonly sent: JsonObject[];
  /** The connection's pauses and resumptions, in order. */
  readonly flow: string[];
  readonly ask: (input: JsonObject[], stream?: boolean) => Promise<UpstreamResponse | undefined>;
} {
  const sent: JsonObject[] = [];
  const flow: string[] = [];
  const open: OpenSocket = async (_address, _options, listener) => ({
    send(message) {
      const response = responseOf(`${sent.push(JSON.parse(message) as JsonObject)}`, "Yes.");
      if (text !== "Yes.") listener.message(JSON.stringify({ type: "response.output_text.delta", delta: text }));
      if (text === "Yes." || sent.length === 1)
        listener.message(JSON.stringify({ type: "response.completed", response }));
    },
    pause: () => void flow.push("pause"),
    resume: () => void flow.push("resume"),
    hold() {},
    close: () => listener.closed(1000),
    terminate() {},
  });
  const clock = manualClock();
  const json = { ...DEFAULT_RELAY_LIMITS, maxJsonBytes: 1e6 };
  const rules = { clock, json, ...DEFAULT_RELAY_LIMITS, ...DEFAULT_RELAY_TIMEOUTS };
  const conversations = new Conversations("ws://up.test", {}, rules, open);
  return {
    conversations,
    sent,
    flow,
    ask(input, stream = false) {
      const exchange = new Exchange(clock, new AbortController().signal);
      const turn = { keyId: "one", model: "m", body: { input }, stream };
      return conversations.ask(turn, "/v1/responses", exchange, { name: "complete answer", limitMs: 1e6 });
    },
  };
}

describe("a relay before an upstream over a WebSocket", () => {
  it("sends only the new items of a conversation, and the credential in the handshake alone", async () => {
    await using upstream = await scripted((ws, _message, turn) => say(ws, `${turn}`, `Answer ${turn}`));
    await using on = await stage(upstream.url);
    const first = await on.client.responses.create({ model: "m", input: "One." });
    await on.client.responses.create({ model: "m", input: "Two.", previous_response_id: first.id });
    const [one, two] = upstream.messages;
    expect(one).toMatchObject({ type: "response.create", model: "m", store: false });
    expect(one).not.toHaveProperty("stream");
    expect(two).toMatchObject({
      previous_response_id: "resp_0",
      input: [{ role: "user", content: [{ text: "Two." }] }],
    });
    expect(two?.["input"]).toHaveLength(1);
    expect(upstream.headers.map(({ authorization }) => authorization)).toEqual(["Bearer sk-upstream"]);
    expect(JSON.stringify(upstream.messages)).not.toContain("sk-upstream");
  });

  it("charges the tools that the upstream runs, and its tier", async () => {
    const found = { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "q" } };
    await using upstream = await scripted((ws) => {
      const { output, ...answer } = responseOf("1", "Yes.");
      const response = { ...answer, service_tier: "priority", output: [found, ...(output as JsonObject[])] };
      const events = [
        { type: "response.created", response: { ...response, status: "in_progress", output: [], usage: null } },
        { type: "response.output_item.added", output_index: 0, item: { ...found, status: "in_progress" } },
        { type: "response.output_item.done", output_index: 0, item: found },
        { type: "response.completed", response },
      ];
      for (const [sequence_number, event] of events.entries()) ws.send(JSON.stringify({ ...event, sequence_number }));
    });
    await using on = await stage(upstream.url);
    await on.client.responses.create({ model: "m", input: "One." });
    await on.client.responses.stream({ model: "m", input: "One." }).finalResponse();
    const usage = { inputTokens: 7, outputTokens: 2, serverToolUses: { web_search: 1 }, serviceTier: "priority" };
    expect(on.records.map((record) => record.usage)).toMatchObject([usage, usage]);
  });

  it("sends the whole conversation when the upstream has forgotten it", async () => {
    await using upstream = await scripted((ws, message, turn) =>
      message["previous_response_id"] === undefined
        ? say(ws, `${turn}`, "Yes.")
        : fail(ws, 404, "previous_response_not_found"),
    );
    await using on = await stage(upstream.url);
    const first = await on.client.responses.create({ model: "m", input: "One." });
    const next = await on.client.responses.create({ model: "m", input: "Two.", previous_response_id: first.id });
    expect(next.output_text).toBe("Yes.");
    expect(upstream.messages.slice(1).map(({ input }) => (input as unknown[]).length)).toEqual([1, 3]);
    expect(upstream.headers).toHaveLength(1);
  });

  it("gives the status of an error before the first event", async () => {
    // A header with a line break cannot be passed on.
    const headers = { "retry-after": 7, "x-note": "a\r\nb" };
    await using upstream = await scripted((ws) => fail(ws, 429, "rate_limit_exceeded", headers));
    await using on = await stage(upstream.url);
    const asking = on.client.responses.create({ model: "m", input: "One." });
    await expect(asking).rejects.toMatchObject({ status: 429 });
    expect(usages(on.records)).toEqual([]);
  });

  it.each([
    ["its life is over", (ws: WebSocket) => fail(ws, 400, "websocket_connection_limit_reached")],
    ["it goes away", (ws: WebSocket) => ws.close(1001)],
    ["it takes no message of this size", (ws: WebSocket) => ws.close(1009)],
  ])("goes over HTTP when the upstream says that %s, before an answer has begun", async (_why, end) => {
    await using upstream = await scripted(end);
    await using on = await stage(upstream.url);
    const response = await on.client.responses.create({ model: "m", input: "One." });
    expect(response.output_text).toBe("By HTTP");
    expect(usages(on.records)).toEqual([9]);
  });

  it.each([
    ["closes the connection", (ws: WebSocket) => ws.close(1000)],
    ["goes away", (ws: WebSocket) => ws.close(1001)],
    ["says that its life is over", (ws: WebSocket) => fail(ws, 400, "websocket_connection_limit_reached")],
  ])("asks nobody else when the upstream %s in the middle of an answer that is not streamed", async (_why, end) => {
    await using upstream = await scripted((ws) => {
      ws.send(JSON.stringify({ type: "response.created", response: responseOf("1", "") }));
      end(ws);
    });
    await using on = await stage(upstream.url);
    await expect(on.client.responses.create({ model: "m", input: "One." })).rejects.toThrow(/./);
    expect(upstream.seen).toEqual(["upgrade"]);
  });

  it("goes over HTTP when the answer to the upgrade does not end", async () => {
    const server = createServer((_req, res) => {
      res.setHeader("content-type", "application/json");
      res.end(JSON.stringify(responseOf("http", "By HTTP")));
    });
    const lost = Promise.withResolvers<void>();
    server.on("upgrade", (_req, socket) => {
      socket.write("HTTP/1.1 101 Switching Protocols\r\n");
      const trickle = setInterval(() => socket.write("x"), 5);
      socket.on("error", () => {});
      socket.once("close", () => {
        clearInterval(trickle);
        lost.resolve();
      });
    });
    await using upstream = await served(server);
    // The clock stands still, so that only the upgrade is cut, however slowly the machine connects over HTTP afterwards.
    await using on = await stage(upstream.url, { clock: manualClock(), timeouts: { connectMs: 50 } });
    expect((await on.client.responses.create({ model: "m", input: "One." })).output_text).toBe("By HTTP");
    await lost.promise;
  });

  it("does not resume the connection of a turn when the answer before it is read", async () => {
    const { ask, flow } = inProcess("x".repeat(300_000));
    const first = await ask([said("One.")], true);
    const [answer] = responseOf("1", "Yes.")["output"] as JsonObject[];
    const second = await ask([said("One."), answer as JsonObject, said("Two.")], true);
    const before = flow.join();
    await first?.read();
    expect([before, flow.join()]).toEqual(["pause,resume,pause", "pause,resume,pause"]);
    await second?.read();
    expect(flow.at(-1)).toBe("resume");
  });

  it("continues its own branch of a conversation when another turn takes the connection first", async () => {
    const { ask, sent, conversations } = inProcess("Yes.");
    await ask([said("One.")]);
    const [answer] = responseOf("1", "Yes.")["output"] as JsonObject[];
    const begun = [said("One."), answer as JsonObject];
    // So long that the event loop serves others before its place is known.
    const long = ask([...begun, ...Array.from({ length: 8 }, (_none, index) => said(`${index}`.repeat(1_000_000)))]);
    await ask([...begun, said("Short.")]);
    await long;
    expect(sent.map(({ previous_response_id: id, input }) => [id, (input as unknown[]).length])).toEqual([
      [undefined, 1],
      ["resp_1", 1],
      [undefined, 10],
    ]);
    await conversations.close();
  });

  it.each([
    ["lost before its first event", (ws: WebSocket) => ws.terminate()],
    ["closed for an internal error", (ws: WebSocket) => ws.close(1011)],
    [
      "lost in the middle of an answer",
      (ws: WebSocket) => {
        ws.send(JSON.stringify({ type: "response.created", sequence_number: 0, response: responseOf("1", "") }));
        ws.terminate();
      },
    ],
    ["no JSON", (ws: WebSocket) => ws.send("response.created")],
    ["too large a message", (ws: WebSocket) => ws.send(`{"type":"response.created","x":"${"x".repeat(2_000_000)}"}`)],
  ])("asks nobody else when the connection is %s: the upstream may charge for its answer", async (_why, end) => {
    await using upstream = await scripted(end);
    await using on = await stage(upstream.url, { limits: { maxEventChars: 1_000_000 } });
    const asking = on.client.responses.create({ model: "m", input: "One.", stream: true }).then(async (events) => {
      for await (const event of events)
        if (event.type === "response.failed") throw new Error(event.response.error?.code);
    });
    await expect(asking).rejects.toThrow(/./);
    expect(upstream.seen).toEqual(["upgrade"]);
  });

  it("cancels the answer of a caller who hangs up, and takes no further turn over that connection", async () => {
    const asked = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    await using upstream = await scripted((ws, _message, turn) => {
      if (turn > 0) return say(ws, "next", "Next.");
      ws.once("close", () => closed.resolve());
      ws.send(JSON.stringify({ type: "response.created", sequence_number: 0, response: responseOf("1", "") }));
      ws.send(
        JSON.stringify({ type: "response.output_text.delta", sequence_number: 1, output_index: 0, delta: "Well" }),
      );
      asked.resolve();
    });
    await using on = await stage(upstream.url);
    const stream = await on.client.responses.create({ model: "m", input: "One.", stream: true });
    await asked.promise;
    stream.controller.abort();
    await closed.promise;
    expect(upstream.messages.map(({ type }) => type)).toEqual(["response.create", "response.cancel"]);
    const next = await on.client.responses.create({ model: "m", input: "Two." });
    expect(next.output_text).toBe("Next.");
    expect(upstream.headers).toHaveLength(2);
  });

  it("drops a connection that speaks between two turns", async () => {
    await using upstream = await scripted((ws, _message, turn) => {
      say(ws, `${turn}`, "Yes.");
      ws.send(JSON.stringify({ type: "response.created", response: responseOf("forged", "Forged.") }));
    });
    await using on = await stage(upstream.url);
    const first = await on.client.responses.create({ model: "m", input: "One." });
    const next = await on.client.responses.create({ model: "m", input: "Two.", previous_response_id: first.id });
    expect([first.output_text, next.output_text]).toEqual(["Yes.", "Yes."]);
    expect(JSON.stringify(on.failures)).not.toContain("sk-upstream");
  });
});

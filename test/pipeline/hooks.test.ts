/** Hooks of a host: they refuse, change and watch calls, and their own failures cost nothing. */

import { runInThisContext } from "node:vm";
import { describe, expect, it } from "vitest";
import {
  type ChatRequest,
  createGateway,
  GatewayError,
  type Hook,
  type HookAnswer,
  type HookCall,
  type HookRequest,
  memoryQuotaStore,
  type ModelBackend,
} from "../../src/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { drawn } from "../hosts/stage.ts";
import { counted, INPUT, never, opened, PROMPT, speaking, type Step, WORD } from "./bench.ts";

const STREAMS = [false, true];
/** The lists of a request, which a hook must return. */
const EMPTY = { messages: [], system: [], tools: [], stopSequences: [] };

/** A backend that keeps what it was asked. */
function asked(): ModelBackend & { readonly requests: ChatRequest[] } {
  const requests: ChatRequest[] = [];
  return {
    requests,
    async *chat(request) {
      requests.push(request);
      yield WORD;
      yield counted(4);
    },
  };
}

const isChat = (request: HookRequest): request is ChatRequest => "messages" in request;

const redacting: Hook = {
  before(request) {
    if (!isChat(request)) return undefined;
    const messages = request.messages.map((message) => ({
      ...message,
      parts: message.parts.map((part) =>
        part.type === "text" ? { ...part, text: part.text.replaceAll("ten", "***") } : part,
      ),
    }));
    return { ...request, messages };
  },
};

const choosing = (model: string): Hook => ({ before: (request) => ({ ...request, model }) });

describe("before", () => {
  it.each(STREAMS)("may change what the backend is asked (stream: %s)", async (stream) => {
    const backend = asked();
    const { send } = opened({ backend, hooks: [redacting] });
    const response = await send({ body: { stream, system: "Be kind." } });
    expect(response.status).toBe(200);
    expect(await response.text()).toContain(WORD);
    expect(backend.requests).toMatchObject([
      { messages: [{ parts: [{ text: "*** tokens" }] }], system: [{ text: "Be kind." }] },
    ]);
  });

  it("runs in order, each with the request of the one before", async () => {
    const backend = asked();
    const seen: string[] = [];
    const naming = (name: string): Hook => ({
      before: async (request) => {
        seen.push(`${name} ${request.model}`);
        return { ...request, model: name };
      },
    });
    const { send } = opened({ backend, hooks: [naming("one"), { before: () => undefined }, naming("two")] });
    await (await send()).text();
    expect(seen).toEqual(["one any", "two one"]);
    expect(backend.requests).toMatchObject([{ model: "two" }]);
  });

  it("may refuse, with its own code and message, at no charge", async () => {
    const backend = asked();
    const refusing: Hook = {
      before() {
        throw new GatewayError("invalid_request", "Do not send card numbers.");
      },
    };
    const { send, report, failures } = opened({ backend, hooks: [refusing] });
    const response = await send();
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { message: "Do not send card numbers." } });
    expect(backend.requests).toEqual([]);
    expect(report()).toMatchObject({ used: 0, held: 0, timers: 0 });
    expect(failures).toEqual([]);
  });

  it("knows who asks for what, and no secret", async () => {
    const told: HookCall[] = [];
    const { send } = opened({ hooks: [{ before: (_request, call) => void told.push(call) }] });
    const response = await send();
    await response.text();
    expect(told).toEqual([
      {
        requestId: response.headers.get("request-id"),
        key: expect.objectContaining({ id: "one" }) as object,
        kind: "chat",
        format: "messages",
        model: "any",
        context: undefined,
      },
    ]);
    expect(JSON.stringify(told)).not.toContain("sk-one");
  });

  it("is not asked for a key that is unknown", async () => {
    let calls = 0;
    const { send } = opened({ hooks: [{ before: () => void calls++, after: () => void calls++ }] });
    const response = await send({ headers: { authorization: "Bearer sk-nobody" } });
    expect(response.status).toBe(401);
    expect(calls).toBe(0);
  });

  it("may choose a listed model that the key may not name, and no model that is not there", async () => {
    const backend: ModelBackend = { ...asked(), models: () => [{ id: "any" }, { id: "cheap" }] };
    const key = { granted: 1000, models: ["any"] };
    expect((await opened({ backend, key, hooks: [choosing("cheap")] }).send()).status).toBe(200);
    const gone = await opened({ backend, key, hooks: [choosing("gone")] }).send();
    expect(await gone.json()).toMatchObject({
      error: { message: 'There is no model "gone". This API key may use "any".' },
    });
  });

  it("sees requests of every kind", async () => {
    const prompts: string[] = [];
    const hook: Hook = { before: (request) => void ("prompt" in request && prompts.push(request.prompt)) };
    const backend: ModelBackend = {
      async *image() {
        yield drawn(0);
      },
    };
    const { send } = opened({ backend, hooks: [hook], key: { granted: 100_000 } });
    const response = await send({
      path: "/v1/images/generations",
      body: JSON.stringify({ model: "image-model-3", prompt: "a cat", response_format: "b64_json" }),
    });
    expect(response.status).toBe(200);
    expect(prompts).toEqual(["a cat"]);
  });
});

describe("a hook that fails", () => {
  const broken: readonly [string, NonNullable<Hook["before"]>][] = [
    ["throws", () => JSON.parse("{")],
    ["rejects", () => Promise.reject(new Error("down"))],
    ["throws nothing", () => Promise.reject(undefined)],
  ];

  it.each(broken)("closed: refuses the call when it %s", async (_name, before) => {
    const { send, report, failures } = opened({ hooks: [{ before }] });
    const response = await send();
    expect(response.status).toBe(503);
    expect(await response.text()).not.toContain("down");
    expect(report()).toMatchObject({ used: 0, held: 0, timers: 0 });
    expect(failures).toMatchObject([{ port: "hook" }]);
  });

  it.each(broken)("open: goes on when it %s", async (_name, before) => {
    const { send, failures } = opened({ hooks: [{ before, down: "open" }] });
    expect((await send()).status).toBe(200);
    expect(failures).toMatchObject([{ port: "hook" }]);
  });

  it.each(["closed", "open"] as const)("%s, when it never answers, after its time", async (down) => {
    const { send, clock, failures, report } = opened({ hooks: [{ before: () => never, timeoutMs: 300, down }] });
    const response = send();
    await clock.advance(299);
    expect(failures).toEqual([]);
    await clock.advance(1);
    expect((await response).status).toBe(down === "open" ? 200 : 503);
    expect(failures).toMatchObject([{ port: "hook", text: expect.stringContaining("longer than 300 ms") as string }]);
    expect(report()).toMatchObject({ held: 0, timers: 0 });
  });

  it.each<[string, unknown]>([
    ["a text", "no"],
    ["a request without a model", { messages: [] }],
    ["a request without messages", { model: "any", stream: false }],
    ["a limit that is no count", { model: "any", stream: false, ...EMPTY, maxOutputTokens: Number.NaN }],
    ["less than one answer", { model: "any", stream: false, ...EMPTY, maxOutputTokens: 9, candidateCount: -5 }],
    ["a stream where none was asked for", { model: "any", stream: true, messages: [] }],
  ])("refuses the call when it returns %s", async (_name, changed) => {
    const { send, failures, report } = opened({ hooks: [{ before: () => changed as ChatRequest, down: "open" }] });
    expect((await send()).status).toBe(500);
    expect(failures).toMatchObject([{ port: "hook" }]);
    expect(failures[0]?.text).toContain(
      "hooks[0].before must return nothing, or a request like the one that it was given",
    );
    expect(report()).toMatchObject({ used: 0, held: 0 });
  });

  it("is told by its place, with the value that it has returned", async () => {
    const wrong: Hook = { before: () => true as never, down: "open" };
    const { send, failures } = opened({ hooks: [{ before: () => undefined }, wrong] });
    expect((await send()).status).toBe(500);
    expect(failures[0]?.text).toContain("hooks[1].before must return nothing, or a request");
    expect(failures[0]?.text).toContain("{ ...request, messages }, not true.");
  });

  it.each<["before" | "after", number, string]>([
    ["before", 503, "caused by Error: "],
    ["after", 200, "GatewayError: "],
  ])("is told by its place when its %s throws", async (method, status, error) => {
    const { send, failures } = opened({ hooks: [{ before: () => undefined }, { [method]: () => JSON.parse("{") }] });
    expect((await send()).status).toBe(status);
    await new Promise((resolve) => void setImmediate(resolve));
    expect(failures[0]?.text).toContain(`${error}hooks[1].${method} has failed.\ncaused by SyntaxError: `);
  });

  it("leaves nothing when its caller leaves first", async () => {
    const leave = new AbortController();
    const { send, clock, report } = opened({ hooks: [{ before: () => never }] });
    const response = send({ signal: leave.signal });
    await clock.advance(1);
    leave.abort();
    expect((await response).status).toBe(499);
    expect(report()).toMatchObject({ used: 0, held: 0, timers: 0 });
  });
});

const callOf = (json: string): readonly Step[] => [
  { type: "tool-call-start", id: "c-1", name: "look" },
  { type: "tool-call-delta", id: "c-1", json },
  { type: "tool-call-end", id: "c-1" },
  counted(1),
];

class Watching implements Hook {
  readonly answers: HookAnswer[] = [];
  after(answer: HookAnswer): void {
    this.answers.push(answer);
  }
}

describe("after", () => {
  it.each(STREAMS)("sees the answer and its record once (stream: %s)", async (stream) => {
    const hook = new Watching();
    const backend = speaking(
      { type: "reasoning-delta", text: "Hm." },
      WORD,
      WORD,
      { type: "tool-call-start", id: "c-1", name: "weather" },
      { type: "tool-call-delta", id: "c-1", json: '{"city":' },
      { type: "tool-call-delta", id: "c-1", json: '"Paris"}' },
      { type: "tool-call-end", id: "c-1" },
      { type: "tool-call", id: "c-2", name: "time", input: {} },
      { type: "finish", reason: "tool-calls", usage: { inputTokens: INPUT, outputTokens: 30 } },
    );
    const { send, clock } = opened({ backend, hooks: [hook] });
    await (await send({ body: { stream } })).text();
    await clock.advance(0);
    expect(hook.answers).toMatchObject([
      {
        text: WORD + WORD,
        reasoning: "Hm.",
        toolCalls: [
          { id: "c-1", name: "weather", input: { city: "Paris" } },
          { id: "c-2", name: "time", input: {} },
        ],
        finishReason: "tool-calls",
        isCut: false,
        record: { units: INPUT + 30, status: 200, outcome: "completed" },
      },
    ]);
  });

  it("sees a call that fails, with what was said before", async () => {
    const hook = new Watching();
    const { send, clock } = opened({ backend: speaking(WORD, new Error("gone")), hooks: [hook] });
    await (await send({ body: { stream: true } })).text();
    await clock.advance(0);
    expect(hook.answers).toMatchObject([
      { text: WORD, finishReason: undefined, record: { outcome: "failed", errorCode: "backend_failed" } },
    ]);
  });

  it("sees a call that a hook has refused", async () => {
    const hook = new Watching();
    const refusing: Hook = {
      before() {
        throw new GatewayError("invalid_request", "No.");
      },
    };
    const { send, clock } = opened({ hooks: [hook, refusing] });
    await send();
    await clock.advance(0);
    expect(hook.answers).toMatchObject([{ text: "", record: { status: 400, outcome: "refused", units: 0 } }]);
  });

  it("sees no more of a long answer than its bound", async () => {
    const hook = new Watching();
    const long = "x".repeat(200_000);
    const { send, clock } = opened({
      backend: speaking(long, long, counted(1)),
      hooks: [hook],
      key: {},
    });
    await (await send({ body: { max_tokens: 10_000_000 } })).text();
    await clock.advance(0);
    expect(hook.answers).toMatchObject([{ isCut: true }]);
    expect(hook.answers[0]?.text).toHaveLength(262_144);
  });

  it("delays no answer, and its failures reach the host alone", async () => {
    const { send, clock, failures } = opened({
      hooks: [{ after: () => never, timeoutMs: 100 }, { after: () => Promise.reject(new Error("disk full")) }],
    });
    expect((await send()).status).toBe(200);
    await clock.advance(99);
    expect(failures).toEqual([]);
    await clock.advance(1);
    expect(failures).toMatchObject([
      { port: "hook", text: expect.stringContaining("longer than 100 ms") as string },
      { port: "hook", text: expect.stringContaining("disk full") as string },
    ]);
  });

  it("sees no answer beyond the memory of those that wait, and sees answers again when these are gone", async () => {
    const hook = new Watching();
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting: Hook = { after: () => promise };
    const long = "x".repeat(20_000);
    const { send, clock, failures } = opened({
      backend: speaking(long, counted(20_000)),
      hooks: [hook, waiting],
      key: {},
      limits: { maxWaitingHookBytes: 100_000 },
    });
    const ask = async (): Promise<void> => {
      expect((await send({ body: { max_tokens: 100_000 } })).status).toBe(200);
      await clock.advance(0);
    };
    for (let calls = 0; calls < 3; calls++) await ask();
    expect(hook.answers).toHaveLength(2);
    expect(failures).toMatchObject([
      { port: "hook", text: expect.stringContaining("limits.maxWaitingHookBytes, 100000 bytes") as string },
    ]);
    resolve();
    await clock.advance(0);
    await ask();
    expect(hook.answers).toHaveLength(3);
  });

  it("counts the memory of the arguments of tools before they are parsed", async () => {
    const hook = new Watching();
    const body = { max_tokens: 100_000 };
    const limits = { maxWaitingHookBytes: 200_000 };
    for (const json of [`{"a":[${"1,".repeat(5_000)}1]}`, `{"a":"${"1,".repeat(5_000)}1"}`]) {
      const { send, clock } = opened({ backend: speaking(...callOf(json)), hooks: [hook], key: {}, limits });
      await send({ body });
      await clock.advance(0);
    }
    // A list of 5,000 numbers may take a megabyte, and a text of the same length does not.
    expect(hook.answers).toMatchObject([{ toolCalls: [{ input: { a: expect.any(String) as string } }] }]);
  });

  it("is waited for until the deadline when the gateway closes, and no longer", async () => {
    const seen: string[] = [];
    const { send, gateway, clock, failures } = opened({
      hooks: [{ after: () => never, timeoutMs: 60_000 }, { after: () => void seen.push("second") }],
    });
    await (await send()).text();
    let isClosed = false;
    const closing = gateway.close({ deadlineMs: 500 }).then(() => (isClosed = true));
    await clock.advance(499);
    expect([isClosed, failures]).toEqual([false, []]);
    await clock.advance(1);
    await closing;
    expect(failures).toMatchObject([
      { port: "hook", text: expect.stringContaining("closed before hooks had seen this answer") as string },
    ]);
    await clock.advance(60_000);
    expect([failures.length, seen]).toEqual([1, []]);
  });

  it("is waited for when the gateway closes", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { send, gateway, clock } = opened({ hooks: [{ after: () => promise }] });
    await (await send()).text();
    let isClosed = false;
    const closing = gateway.close().then(() => (isClosed = true));
    await clock.advance(10);
    expect(isClosed).toBe(false);
    resolve();
    await clock.advance(0);
    await closing;
  });
});

const upstream = async (hooks: readonly Hook[], fields: object) => {
  const inner = asked();
  const quotas = memoryQuotaStore([{ apiKey: "sk-inner" }]);
  const behind = createGateway({ backend: inner, quotas });
  const bodies: Record<string, unknown>[] = [];
  const backend = relay({
    format: "messages",
    baseUrl: "http://upstream/v1",
    apiKey: "sk-inner",
    fetch: async (input, init) => {
      const request = new Request(input, init);
      bodies.push((await request.clone().json()) as Record<string, unknown>);
      return behind.fetch(request);
    },
  });
  const { send } = opened({ backend, hooks });
  const response = await send({ body: fields });
  return { response, body: bodies[0] ?? {} };
};

describe("before a relay of the caller's own format", () => {
  it("sends the changed texts, and tells the fields that are lost", async () => {
    const { response, body } = await upstream([redacting], { metadata: { user_id: "u-1" }, later: { x: 1 } });
    expect(response.status).toBe(200);
    expect(JSON.stringify(body)).toContain("*** tokens");
    expect(JSON.stringify(body)).not.toContain(PROMPT);
    expect(body).not.toHaveProperty("later");
    expect([...response.headers].join("\n")).toContain("later");
  });

  it.each<readonly [string, Required<Hook>["before"]]>([
    [
      "a text",
      (request) => {
        const [message] = (request as unknown as { messages: { parts: { text: string }[] }[] }).messages;
        for (const part of message?.parts ?? []) part.text = "***";
        return request;
      },
    ],
    ["the list of messages", (request) => Object.assign(request, { messages: [] })],
    // Scripts without strict mode, as CommonJS may be.
    ...[
      "request.temperature = 0",
      "request.messages[0] = {}",
      "delete request.system",
      "request.messages.length = 0",
    ].map((write) => [write, runInThisContext(`(request) => { ${write}; }`) as Required<Hook>["before"]] as const),
  ])(
    "refuses a call when it changes %s in place, instead of sending what it meant to change",
    async (_name, before) => {
      const { response, body } = await upstream([{ before }], {});
      expect(response.status).toBe(503);
      expect(body).toEqual({});
    },
  );

  it("shows the next hook the same copy, but none in which an open hook has written", async () => {
    const seen: object[] = [];
    const looking: Hook = { before: (request) => void seen.push(request) };
    const writing: Hook = { down: "open", before: (request) => void Object.assign(request, { temperature: 0 }) };
    const { response, body } = await upstream([looking, looking, writing, looking], {});
    expect([response.status, seen[0] === seen[1], seen[2]]).toEqual([
      200,
      true,
      expect.not.objectContaining({ temperature: 0 }),
    ]);
    expect(body).not.toHaveProperty("temperature");
  });

  it("counts tokens of the changed texts alone, without after", async () => {
    const bodies: string[] = [];
    const backend = relay({
      format: "messages",
      baseUrl: "http://upstream/v1",
      apiKey: "sk-inner",
      fetch: async (input, init) => {
        bodies.push(await new Request(input, init).text());
        return Response.json({ input_tokens: 7 });
      },
    });
    const afters: HookAnswer[] = [];
    const { send } = opened({ backend, hooks: [redacting, { after: (answer) => afters.push(answer) }] });
    const response = await send({ path: "/v1/messages/count_tokens" });
    expect(await response.json()).toEqual({ input_tokens: 7 });
    expect(bodies).toHaveLength(1);
    expect(bodies[0]).toContain("*** tokens");
    expect(bodies[0]).not.toContain(PROMPT);
    expect(afters).toEqual([]);
  });

  it("refuses a count", async () => {
    const refusing: Hook = {
      before() {
        throw new GatewayError("invalid_request", "Not here.");
      },
    };
    const { send } = opened({ backend: { ...asked(), countInputTokens: () => never }, hooks: [refusing] });
    const response = await send({ path: "/v1/messages/count_tokens" });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("Not here.");
  });

  it("keeps every field when only the model changes", async () => {
    const renaming: Hook = { before: (request) => ({ ...request, model: "other" }) };
    const { body } = await upstream([renaming], { later: { x: 1 } });
    expect(body).toMatchObject({ model: "other", later: { x: 1 } });
  });

  it("keeps every field when nothing changes", async () => {
    const { body } = await upstream([{ before: () => undefined }], { later: { x: 1 } });
    expect(body).toMatchObject({ model: "any", later: { x: 1 } });
  });
});

it.each<[string, unknown, string]>([
  ["nothing", {}, "hooks[0] must have a function before, during or after"],
  ["missing", undefined, "hooks[0]: expects an object of options, not undefined"],
  ["no function", { before: true }, "hooks[0]: before must be a function, not true"],
  [
    "a time of 0",
    { before: () => undefined, timeoutMs: 0 },
    "hooks[0]: timeoutMs must be an integer from 1 to 2147483647, not 0",
  ],
  [
    "a time that no timer waits",
    { after: () => undefined, timeoutMs: 2 ** 31 },
    "hooks[0]: timeoutMs must be an integer from 1 to 2147483647, not 2147483648",
  ],
  ["open by a wrong word", { before: () => undefined, down: "fail-open" }, 'down must be one of "closed", "open"'],
  ["given an unknown option", { before: () => undefined, timeout: 5 }, "did you mean timeoutMs?"],
])("a hook that is %s is refused by createGateway", (_name, hook, message) => {
  expect(() => opened({ hooks: [hook as Hook] })).toThrow(message);
});

/** Compaction: a summary by the conversation's own model, sealed for the key that asked, and opened before any upstream. */

import { describe, expect, it, vi } from "vitest";
import { COMPACTION_PROMPT, Compactions } from "../../../src/formats/responses/compaction.keys.ts";
import { opened } from "../../../src/formats/responses/compaction.ts";
import {
  type CallRecord,
  type ChatRequest,
  createGateway,
  type EncryptionKey,
  type Gateway,
  GatewayError,
  type GatewayOptions,
  memoryQuotaStore,
  memoryResponseStore,
  type ModelBackend,
} from "../../../src/index.ts";
import { manualClock } from "../../../src/testing/laws/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";
import { aborted } from "../../aborted.ts";

const keyOf = (name: string, byte: number): EncryptionKey => ({ name, secret: new Uint8Array(32).fill(byte) });
const [NEW, OLD] = [keyOf("2026", 1), keyOf("2025", 2)];

type Json = Record<string, unknown>;
interface Stage {
  readonly gateway: Gateway;
  readonly asked: ChatRequest[];
  readonly used: (id?: string) => Promise<number | undefined>;
  post(path: string, body: object, apiKey?: string): Promise<{ status: number; body: Json }>;
}

const SUMMARY = "Launch on Tuesday; support knows first.";

function stage(options: Partial<GatewayOptions> = {}, answer = SUMMARY): Stage {
  const asked: ChatRequest[] = [];
  const quotas = memoryQuotaStore([
    { apiKey: "sk-one", id: "one", granted: 100_000 },
    { apiKey: "sk-two", id: "two", granted: 100_000 },
    { apiKey: "sk-none", id: "none", granted: 0 },
  ]);
  const gateway = createGateway({
    quotas,
    onFailure: () => {},
    responses: { compaction: { keys: [NEW] } },
    backend: {
      async *chat(request) {
        asked.push(request);
        yield answer;
        yield { type: "finish", reason: "stop", usage: { inputTokens: 30, outputTokens: 12 } };
      },
    },
    ...options,
  });
  return {
    gateway,
    asked,
    used: async (id = "one") => (await quotas.balance(id))?.used,
    async post(path, body, apiKey = "sk-one") {
      const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
      const init = { method: "POST", headers, body: JSON.stringify(body) };
      const response = await gateway.fetch(new Request(`http://gateway.test${path}`, init));
      return { status: response.status, body: (await response.json()) as Json };
    },
  };
}

const CONVERSATION = [
  { type: "message", role: "user", content: "We launch on Tuesday." },
  { type: "message", role: "assistant", content: "Understood." },
  { type: "message", role: "user", content: [{ type: "input_text", text: "Tell support first." }] },
];

const compact = async (on: Stage, more: object = {}, apiKey?: string): Promise<Json[]> => {
  const { status, body } = await on.post("/v1/responses/compact", { model: "m", input: CONVERSATION, ...more }, apiKey);
  expect(status).toBe(200);
  return body["output"] as Json[];
};

const textsOf = ({ messages }: ChatRequest): unknown[] =>
  messages.map(({ role, parts }) => [role, ...parts.map((part) => ("text" in part ? part.text : part.type))]);

describe("an item that asks for a compaction", () => {
  const TRIGGER = { type: "compaction_trigger" };

  it("is answered with the sealed summary as the one item, complete and streamed, which the next request opens", async () => {
    const on = stage();
    const tools = [{ type: "function", name: "look", parameters: { type: "object" } }];
    const request = { model: "m", store: false, input: [...CONVERSATION, TRIGGER], tools, tool_choice: "auto" };
    const { body } = await on.post("/v1/responses", request);
    const item = { type: "compaction", id: expect.stringMatching(/^cmp_/), encrypted_content: expect.any(String) };
    expect(body).toMatchObject({ object: "response", status: "completed", output: [item] });
    const headers = { authorization: "Bearer sk-one", "content-type": "application/json" };
    const init = { headers, method: "POST" };
    const streamed = { ...init, body: JSON.stringify({ ...request, stream: true }) };
    const text = await (await on.gateway.fetch(new Request("http://gateway.test/v1/responses", streamed))).text();
    expect([...text.matchAll(/^event: (.*)$/gm)].map(([, type]) => type)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.output_item.done",
      "response.completed",
    ]);
    expect(text).not.toContain("support knows");
    expect(await on.used()).toBe(84);
    expect(on.asked.map(textsOf)[1]).toEqual([
      ["user", "We launch on Tuesday."],
      ["assistant", "Understood."],
      ["user", "Tell support first.", COMPACTION_PROMPT],
    ]);
    await on.post("/v1/responses", { model: "m", input: [...(body["output"] as Json[]), ...CONVERSATION.slice(0, 1)] });
    expect(JSON.stringify(textsOf(on.asked[2] as ChatRequest))).toContain(SUMMARY);
  });

  it("compacts what a response before it has kept, and is kept like any response", async () => {
    const on = stage({ responseStore: memoryResponseStore() });
    const { body: first } = await on.post("/v1/responses", { model: "m", input: CONVERSATION });
    const more = { previous_response_id: first["id"], input: [TRIGGER] };
    const { body: second } = await on.post("/v1/responses", { model: "m", ...more });
    expect(second).toMatchObject({ store: true, output: [{ type: "compaction" }] });
    await on.post("/v1/responses", { model: "m", previous_response_id: second["id"], input: "Go on." });
    expect(JSON.stringify(textsOf(on.asked[2] as ChatRequest))).toContain("replaced by this summary");
  });

  it("is refused in the background, and when the model writes nothing", async () => {
    const on = stage({ responseStore: memoryResponseStore() }, " ");
    const request = { model: "m", input: [...CONVERSATION, TRIGGER] };
    expect(await on.post("/v1/responses", { ...request, background: true })).toMatchObject({
      status: 400,
      body: { error: { param: "background" } },
    });
    expect((await on.post("/v1/responses", request)).status).toBe(500);
  });
});

describe("POST /v1/responses/compact", () => {
  it("gives the user's messages and a sealed summary, for one metered call of the conversation's model", async () => {
    const on = stage();
    const { body } = await on.post("/v1/responses/compact", { model: "m", input: CONVERSATION });
    expect(body).toMatchObject({
      object: "response.compaction",
      created_at: expect.any(Number),
      output: [
        { type: "message", role: "user", content: [{ type: "input_text", text: "We launch on Tuesday." }] },
        { type: "message", role: "user", content: [{ type: "input_text", text: "Tell support first." }] },
        {
          type: "compaction",
          id: expect.stringMatching(/^cmp_/),
          encrypted_content: expect.stringMatching(/^pgc\.2026:/),
        },
      ],
      usage: { input_tokens: 30, output_tokens: 12, total_tokens: 42 },
    });
    expect(JSON.stringify(body)).not.toContain("support knows");
    expect(await on.used()).toBe(42);
    expect(on.asked.map(textsOf)).toEqual([
      [
        ["user", "We launch on Tuesday."],
        ["assistant", "Understood."],
        ["user", "Tell support first.", COMPACTION_PROMPT],
      ],
    ]);
  });

  it("asks in the host's own words", async () => {
    const on = stage({ responses: { compaction: { keys: [NEW], prompt: "Short, please." } } });
    await compact(on);
    expect(textsOf(on.asked[0] as ChatRequest).at(-1)).toEqual(["user", "Tell support first.", "Short, please."]);
  });

  it("defines the tools of the conversation, and answers its open calls, which upstreams demand", async () => {
    const on = stage();
    const call = { type: "function_call", call_id: "c1", name: "look", arguments: "{}" };
    const output = { type: "function_call_output", call_id: "c1", output: "sunny" };
    const open = { type: "function_call", call_id: "c2", name: "walk", arguments: "{}" };
    await compact(on, { input: [...CONVERSATION, call, output, open] });
    const [asked] = on.asked as [ChatRequest];
    expect(asked.toolChoice).toEqual({ type: "none" });
    expect(asked.tools).toMatchObject([
      { type: "function", name: "look" },
      { type: "function", name: "walk" },
    ]);
    expect(asked.messages.at(-1)?.parts.map((part) => ("callId" in part ? part.callId : part.type))).toEqual([
      "c2",
      "text",
    ]);
  });

  it("continues a kept response", async () => {
    const on = stage({ responseStore: memoryResponseStore() });
    const { body } = await on.post("/v1/responses", { model: "m", input: "Remember Ann." });
    const output = await compact(on, { input: "And Bob.", previous_response_id: body["id"] });
    expect(output.map(({ type }) => type)).toEqual(["message", "message", "compaction"]);
  });

  it("is refused without a model, without quota, and where the host has no secret", async () => {
    const on = stage();
    const path = "/v1/responses/compact";
    expect(await on.post(path, { input: CONVERSATION })).toMatchObject({
      status: 400,
      body: { error: { param: "model" } },
    });
    expect(await on.post(path, { model: "m", input: CONVERSATION }, "sk-none")).toMatchObject({ status: 429 });
    const none = createGateway({ quotas: memoryQuotaStore([{ apiKey: "sk-one" }]), backend: { async *chat() {} } });
    const headers = { authorization: "Bearer sk-one", "content-type": "application/json" };
    const asked = new Request(`http://gateway.test${path}`, { method: "POST", headers, body: "{}" });
    expect((await none.fetch(asked)).status).toBe(404);
  });

  it("fails where the model writes nothing", async () => {
    const on = stage({}, " ");
    const path = "/v1/responses/compact";
    expect(await on.post(path, { model: "m", input: CONVERSATION })).toMatchObject({ status: 500 });
  });
});

describe("a sealed summary", () => {
  const goOn = [{ type: "message", role: "user", content: "Go on." }];

  it("comes back as a message before the next turn, in another process, also under a newer secret", async () => {
    const before = stage({ responses: { compaction: { keys: [OLD] } } });
    const output = await compact(before);
    const after = stage({ responses: { compaction: { keys: [NEW, OLD] } } });
    expect((await after.post("/v1/responses", { model: "m", input: [...output, ...goOn] })).status).toBe(200);
    expect(textsOf(after.asked[0] as ChatRequest)).toEqual([
      ["user", "We launch on Tuesday.", "Tell support first.", expect.stringContaining(SUMMARY), "Go on."],
    ]);
  });

  it("is opened in a chain of kept responses", async () => {
    const on = stage({ responseStore: memoryResponseStore() });
    const first = await on.post("/v1/responses", { model: "m", input: [...(await compact(on)), ...goOn] });
    await on.post("/v1/responses", { model: "m", input: "More.", previous_response_id: first.body["id"] });
    expect(JSON.stringify(on.asked.at(-1)?.messages)).toContain(SUMMARY);
  });

  it("is opened for its own key alone", async () => {
    const on = stage();
    const input = [...(await compact(on)), ...goOn];
    const stolen = await on.post("/v1/responses", { model: "m", input }, "sk-two");
    expect(stolen).toMatchObject({ status: 400, body: { error: { param: "input.2.encrypted_content" } } });
  });

  it("is refused by name when anything of it has changed: 10,000 ways", async () => {
    const on = stage();
    const output = await compact(on);
    const item = output.at(-1) as { encrypted_content: string };
    const sealed = item.encrypted_content;
    const other = ((await compact(on)).at(-1) as { encrypted_content: string }).encrypted_content;
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=.:-";
    const start = "pgc.2026:".length;
    const mutants = new Set<string>();
    for (let at = start; at < sealed.length; at++) {
      for (const char of alphabet) mutants.add(sealed.slice(0, at) + char + sealed.slice(at + 1));
      mutants
        .add(sealed.slice(0, at))
        .add(sealed.slice(0, at) + other.slice(at))
        .add(sealed.slice(0, at) + sealed.slice(at + 1));
    }
    mutants.delete(sealed);
    mutants.delete(other);
    const wanted = [...mutants].slice(0, 10_000 - 4);
    wanted.push("pgc.", "pgc.2026:", sealed.replace("2026", "2025"), sealed.replace("2026", "x".repeat(65)));
    expect(wanted.length).toBeGreaterThan(5_000);
    const compactions = new Compactions({ keys: [NEW] });
    const refusals = wanted.map((encrypted_content) =>
      opened([{ type: "compaction", encrypted_content }], compactions, { keyId: "one" }, 0).then(
        (items) => items,
        (error: GatewayError) => error.path,
      ),
    );
    expect(new Set((await Promise.all(refusals)).map(String))).toEqual(new Set(["input,0,encrypted_content"]));
    for (const encrypted_content of wanted.filter((_mutant, index) => index % 500 === 0)) {
      const input = [{ type: "compaction", encrypted_content }, ...goOn];
      const { status, body } = await on.post("/v1/responses", { model: "m", input });
      expect([status, (body["error"] as Json)["param"]]).toEqual([400, "input.0.encrypted_content"]);
    }
    // Two calls made the summaries, and no other one was made.
    expect(on.asked.length).toBe(2);
  });

  it("of an upstream passes as it is", async () => {
    const on = stage();
    const item = { type: "compaction", id: "cmp_1", encrypted_content: "gAAAA" };
    expect((await on.post("/v1/responses", { model: "m", input: [item, ...goOn] })).status).toBe(200);
  });
});

const make = (compaction: object) => (): unknown => stage({ responses: { compaction } as never });

it("the options are checked by name", () => {
  expect(make({ keys: [] })).toThrow("responses.compaction needs a key");
  expect(make({ keys: [{ name: "a", secret: "short" }] })).toThrow(
    "responses: compaction: keys[0]: secret must be a Uint8Array",
  );
  expect(make({ keys: [NEW], promt: "x" })).toThrow("promt");
  expect(make({ keys: [{ name: "a", secret: new Uint8Array(8) }] })).toThrow("32 bytes");
});

/** Summarizes where it is asked to, and otherwise tells how many turns it was given. */
const working: ModelBackend = {
  async *chat({ messages }) {
    const isSummary = JSON.stringify(messages.at(-1)).includes("Write a summary of this conversation");
    yield { type: "text-delta", text: isSummary ? SUMMARY : `Turns: ${messages.length}` };
    const usage = isSummary ? { inputTokens: 300, outputTokens: 12 } : { inputTokens: 40, outputTokens: 5 };
    yield { type: "finish", reason: "stop", usage };
  },
};

const LONG = "Remember that the launch is on Tuesday. ".repeat(40);
const WISH = { context_management: [{ type: "compaction", compact_threshold: 200 }] };
const CHAT = [
  { type: "message", role: "developer", content: "Be brief." },
  { type: "message", role: "user", content: LONG },
  { type: "message", role: "assistant", content: "Understood." },
  { type: "message", role: "user", content: "When do we launch?" },
];

interface Recording extends Stage {
  readonly records: CallRecord[];
  readonly seen: ChatRequest[];
}

function recording(options: Partial<GatewayOptions> = {}, backend: ModelBackend = working): Recording {
  const records: CallRecord[] = [];
  const seen: ChatRequest[] = [];
  const watched: ModelBackend = {
    ...backend,
    chat(request, call) {
      seen.push(request);
      // The cast is safe: each backend of these tests chats.
      return backend.chat?.(request, call) as ReturnType<NonNullable<ModelBackend["chat"]>>;
    },
  };
  const on = stage({ backend: watched, onCall: (record) => void records.push(record), ...options });
  return { ...on, records, seen };
}

const callOf = (call_id: string): Json => ({ type: "function_call", call_id, name: "look", arguments: "{}" });
const resultOf = (call_id: string): Json => ({ type: "function_call_output", call_id, output: "sunny" });

const outputOf = ({ body }: { readonly body: Json }): Json[] => body["output"] as Json[];

describe("context_management", () => {
  it("compacts a long conversation before the answer, in one call that is charged for both", async () => {
    const on = recording();
    const answer = await on.post("/v1/responses", { model: "m", input: CHAT, ...WISH });
    expect(answer.body).toMatchObject({
      status: "completed",
      output: [
        { type: "compaction", id: expect.stringMatching(/^cmp_/), encrypted_content: expect.stringMatching(/^pgc\./) },
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "Turns: 1" }] },
      ],
      usage: { input_tokens: 340, output_tokens: 17, total_tokens: 357 },
    });
    expect(await on.used()).toBe(357);
    expect(on.records).toMatchObject([
      { units: 357, certainty: "exact", usage: { inputTokens: 340, outputTokens: 17 } },
    ]);
    expect(on.seen.map(textsOf)).toEqual([
      [
        ["user", LONG],
        ["assistant", "Understood."],
        ["user", COMPACTION_PROMPT],
      ],
      [["user", expect.stringContaining(SUMMARY), "When do we launch?"]],
    ]);
    expect(on.seen.map(({ system }) => system.map(({ text }) => text))).toEqual([["Be brief."], ["Be brief."]]);
    expect(JSON.stringify(answer.body)).not.toContain("support knows");
    expect(JSON.stringify(on.seen.map(({ native }) => native?.body["context_management"]))).toBe("[null,null]");
  });

  it("leaves a short conversation, and one without earlier turns, as they are", async () => {
    const on = recording();
    const short = [...CHAT.slice(2), { type: "message", role: "user", content: "Hello." }];
    for (const input of [short, LONG]) {
      const answer = await on.post("/v1/responses", { model: "m", input, ...WISH });
      expect(outputOf(answer).map(({ type }) => type)).toEqual(["message"]);
    }
    expect(await on.used()).toBe(90);
  });

  it("takes the threshold from the model's window, where the caller names none", async () => {
    const on = recording({}, { ...working, models: () => [{ id: "m", maxInputTokens: 250 }, { id: "large" }] });
    const wish = { context_management: [{ type: "compaction" }] };
    const types: unknown[] = [];
    for (const model of ["m", "large"])
      types.push(outputOf(await on.post("/v1/responses", { model, input: CHAT, ...wish })).map(({ type }) => type));
    expect(types).toEqual([["compaction", "message"], ["message"]]);
  });

  it("keeps the newest calls with their results, and what comes back stands for everything before it", async () => {
    const on = recording();
    const call = { type: "function_call", call_id: "c1", name: "look", arguments: '{"at":"sky"}' };
    const result = { type: "function_call_output", call_id: "c1", output: "sunny" };
    const input = [...CHAT, call, result];
    const answer = await on.post("/v1/responses", { model: "m", input, ...WISH });
    const next = { type: "message", role: "user", content: "And then?" };
    for (const before of [input, []])
      await on.post("/v1/responses", { model: "m", input: [...before, ...outputOf(answer), next], ...WISH });
    const [, , whole, pruned] = on.seen.map(({ messages, system }) => ({ messages, system }));
    expect(pruned).toEqual(whole);
    expect(whole?.system).toMatchObject([{ text: "Be brief." }]);
    expect(whole?.messages.map(({ role, parts }) => [role, ...parts.map(({ type }) => type)])).toEqual([
      ["user", "text"],
      ["assistant", "tool-call"],
      ["user", "tool-result"],
      ["assistant", "text"],
      ["user", "text"],
    ]);
    expect(JSON.stringify(whole)).not.toContain(LONG.slice(0, 60));
  });

  it.each([
    ["a developer says something", [callOf("c1"), { type: "message", role: "developer", content: "Note." }]],
    ["another call is answered", [callOf("c1"), callOf("c2"), resultOf("c2")]],
  ])("keeps a call beside its result when %s between them", async (_what, calls) => {
    const on = recording();
    const turn = [...calls, { type: "message", role: "assistant", content: "Almost." }, resultOf("c1")];
    await on.post("/v1/responses", { model: "m", input: [...CHAT, ...turn], ...WISH });
    const { messages, native } = on.seen[1] as ChatRequest;
    expect(JSON.stringify(messages)).not.toContain(LONG.slice(0, 60));
    expect(messages.flatMap(({ parts }) => parts)).toContainEqual(expect.objectContaining({ id: "c1" }));
    expect((native?.body["input"] as Json[] | undefined)?.slice(-turn.length)).toEqual(turn);
  });

  it("works in a chain of kept responses, which the caller does not prune", async () => {
    const on = recording({ responseStore: memoryResponseStore() });
    const first = await on.post("/v1/responses", { model: "m", input: CHAT, ...WISH });
    const more = { model: "m", input: "And then?", previous_response_id: first.body["id"], ...WISH };
    await on.post("/v1/responses", more);
    const texts = on.seen.slice(2).map(textsOf);
    expect(texts).toEqual([
      [
        ["user", expect.stringContaining(SUMMARY), "When do we launch?"],
        ["assistant", "Turns: 1"],
        ["user", "And then?"],
      ],
    ]);
  });

  it("holds the cost of both, and asks nothing where the key has less", async () => {
    const quotas = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 8_000 }]);
    const on = recording({ quotas });
    const answer = await on.post("/v1/responses", { model: "m", input: CHAT, ...WISH });
    expect(answer.status).toBe(429);
    expect(on.seen).toEqual([]);
    expect((await quotas.balance("one"))?.used).toBe(0);
  });

  it("holds the cost of the answer also where another upstream goes on with the summary", async () => {
    const held: (number | undefined)[] = [];
    const quotas = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 1_000_000 }]);
    const breaking: ModelBackend = {
      async *chat(request, call) {
        held.push((await quotas.balance("one"))?.held);
        if (held.length > 1) return yield* working.chat?.(request, call) ?? [];
        yield { type: "start", usage: { inputTokens: 300 } };
        yield { type: "text-delta", text: SUMMARY.slice(0, 9) };
        throw new GatewayError("backend_failed", "Gone.");
      },
    };
    const upstreams = [breaking, breaking].map((backend) => ({ backend, prefill: true }));
    const backend = route({ routes: { m: { upstreams, onBreak: "continue" } } });
    const on = recording({ quotas }, backend);
    const limit = { max_output_tokens: 60_000 };
    const answer = await on.post("/v1/responses", { model: "m", input: CHAT, ...limit, ...WISH });
    expect([answer.status, held.length]).toEqual([200, 3]);
    // The limit of the answer is part of each hold.
    for (const units of held) expect(units).toBeGreaterThan(60_000);
    expect(await quotas.balance("one")).toMatchObject({ held: 0 });
  });

  it("charges for the summary where the answer fails, with the status of the failure", async () => {
    const failing: ModelBackend = {
      async *chat(request, call) {
        if (!JSON.stringify(request.messages).includes("Write a summary"))
          throw new GatewayError("rate_limited", "Busy.");
        yield* working.chat?.(request, call) ?? [];
      },
    };
    for (const stream of [false, true]) {
      const on = recording({}, failing);
      const answer = await on.post("/v1/responses", { model: "m", input: CHAT, stream, ...WISH });
      expect(answer.status).toBe(429);
      expect(await on.used()).toBe(312);
    }
  });

  it("charges for a summary that is cut, and asks for nothing more", async () => {
    const begun = Promise.withResolvers<void>();
    const on = recording(
      {},
      {
        async *chat(_request, { signal }) {
          yield SUMMARY;
          begun.resolve();
          await aborted(signal);
          signal.throwIfAborted();
        },
      },
    );
    const asking = on.post("/v1/responses", { model: "m", input: CHAT, ...WISH });
    await begun.promise;
    await on.gateway.close({ deadlineMs: 0 });
    expect((await asking).status).toBe(503);
    expect(on.seen).toHaveLength(1);
    expect(on.records).toMatchObject([{ certainty: "estimated" }]);
    expect(await on.used()).toBe(on.records[0]?.units);
    expect(on.records[0]?.units).toBeGreaterThan(LONG.length / 8);
  });

  it("asks for nothing more when the call is cut before the second request", async () => {
    const over = new AbortController();
    const seal = vi.spyOn(Compactions.prototype, "seal").mockImplementationOnce(async () => {
      over.abort();
      await new Promise((resolve) => setImmediate(resolve));
      return "pgc.";
    });
    let asked = 0;
    const eager: ModelBackend = {
      chat() {
        asked++;
        return (async function* () {
          yield SUMMARY;
        })();
      },
    };
    const on = recording({}, eager);
    const headers = { authorization: "Bearer sk-one", "content-type": "application/json" };
    const body = JSON.stringify({ model: "m", input: CHAT, ...WISH });
    const request = new Request("http://gateway.test/v1/responses", {
      method: "POST",
      headers,
      body,
      signal: over.signal,
    });
    expect((await on.gateway.fetch(request)).status).toBe(499);
    await seal.mock.results[0]?.value;
    await new Promise((resolve) => setImmediate(resolve));
    expect(asked).toBe(1);
    seal.mockRestore();
  });

  it("notes the cost of a summary while it is written, and serves others between its events", async () => {
    const clock = manualClock();
    const quotas = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 100_000 }], { clock });
    const renew = vi.spyOn(quotas, "renew");
    const noted = (): number[] => renew.mock.calls.map(([, { used }]) => used);
    const served: true[] = [];
    const on = recording(
      { quotas, clock },
      {
        async *chat(request, call) {
          if (!JSON.stringify(request.messages.at(-1)).includes("Write a summary"))
            return yield* working.chat?.(request, call) ?? [];
          yield SUMMARY;
          await clock.advance(3_000);
          yield SUMMARY.repeat(9);
          await clock.advance(3_000);
          expect(noted()).toHaveLength(2);
          setTimeout(() => served.push(true));
          // Endless without a turn of the event loop.
          while (served.length === 0) yield "";
        },
      },
    );
    const answer = await on.post("/v1/responses", { model: "m", input: CHAT, ...WISH });
    expect(answer.status).toBe(200);
    expect(noted()[1]).toBeGreaterThan(noted()[0] as number);
  });

  it("gives the answer the id and the model that its upstream tells", async () => {
    const on = recording(
      {},
      {
        async *chat(request, call) {
          yield { type: "start", id: "resp_up", model: "m-2026" };
          yield* working.chat?.(request, call) ?? [];
        },
      },
    );
    const answer = await on.post("/v1/responses", { model: "m", input: CHAT, ...WISH });
    expect(answer.body).toMatchObject({ id: "resp_up", model: "m-2026", output: [{ type: "compaction" }, {}] });
  });

  it("makes one summary for a request that ends with a trigger", async () => {
    const on = recording();
    const input = [...CHAT, { type: "compaction_trigger" }];
    const answer = await on.post("/v1/responses", { model: "m", input, ...WISH });
    expect(outputOf(answer).map(({ type }) => type)).toEqual(["compaction"]);
    expect(on.seen).toHaveLength(1);
  });

  it("refuses what is no threshold", async () => {
    const on = recording();
    for (const wrong of [0, 1.5, "many"]) {
      const context_management = [{ type: "compaction", compact_threshold: wrong }];
      const answer = await on.post("/v1/responses", { model: "m", input: CHAT, context_management });
      expect(answer).toMatchObject({
        status: 400,
        body: { error: { param: "context_management.0.compact_threshold" } },
      });
    }
  });

  it("leaves the field to a backend that compacts itself, and to one of a host without a secret", async () => {
    for (const options of [{ responses: {} }, {}]) {
      const on = recording(options, {
        ...working,
        compacts: (model: string) => options.responses === undefined && model === "m",
      });
      await on.post("/v1/responses", { model: "m", input: CHAT, ...WISH });
      expect(on.seen.map(({ native }) => native?.body["context_management"])).toEqual([WISH.context_management]);
    }
  });

  it("seals what a hook has left of the newest turn, and summarizes what it has left of the others", async () => {
    const hooks: GatewayOptions["hooks"] = [
      {
        before: (request) =>
          "messages" in request
            ? {
                ...request,
                messages: request.messages.map((message) => ({
                  ...message,
                  parts: message.parts.map((part) =>
                    part.type === "text" ? { ...part, text: part.text.replaceAll("launch", "***") } : part,
                  ),
                })),
              }
            : undefined,
      },
    ];
    const on = recording({ hooks });
    const answer = await on.post("/v1/responses", { model: "m", input: CHAT, ...WISH });
    expect(JSON.stringify(on.seen.map(({ messages }) => messages))).not.toContain("launch");
    const other = recording();
    await other.post("/v1/responses", { model: "m", input: outputOf(answer) });
    expect(JSON.stringify(other.seen[0]?.messages)).toContain("When do we ***?");
  });

  it("is refused by name when the item is forged, cut, swapped, or of another key", async () => {
    const on = recording();
    const [item] = outputOf(await on.post("/v1/responses", { model: "m", input: CHAT, ...WISH })) as [Json];
    const sealed = String(item["encrypted_content"]);
    const [explicit] = (await compact(stage())).slice(-1) as [{ encrypted_content: string }];
    const forgeries = Array.from({ length: 10_000 }, (_none, index) => {
      const at = 9 + (index % (sealed.length - 9));
      const char = String.fromCodePoint(33 + (index % 90));
      return index % 3 === 0 ? sealed.slice(0, at) : sealed.slice(0, at) + char + sealed.slice(at + (index % 2));
    }).filter((forged) => forged !== sealed);
    forgeries.push(sealed.slice(0, 60) + explicit.encrypted_content.slice(60));
    const compactions = new Compactions({ keys: [NEW] });
    const refusals = forgeries.map((encrypted_content) =>
      opened([{ type: "compaction", encrypted_content }], compactions, { keyId: "one" }, 0).then(
        () => "opened",
        (error: GatewayError) => String(error.path),
      ),
    );
    expect(new Set(await Promise.all(refusals))).toEqual(new Set(["input,0,encrypted_content"]));
    const stolen = await on.post("/v1/responses", { model: "m", input: [item, ...CHAT] }, "sk-two");
    expect(stolen).toMatchObject({ status: 400, body: { error: { param: "input.0.encrypted_content" } } });
  });
});

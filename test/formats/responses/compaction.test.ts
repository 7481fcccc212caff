/** Compaction: a summary by the conversation's own model, sealed for the key that asked, and opened before any upstream. */

import { describe, expect, it } from "vitest";
import { COMPACTION_PROMPT, Compactions, opened } from "../../../src/formats/responses/compaction.ts";
import {
  type ChatRequest,
  createGateway,
  type EncryptionKey,
  type Gateway,
  type GatewayError,
  type GatewayOptions,
  memoryQuotaStore,
  memoryResponseStore,
} from "../../../src/index.ts";

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

/** Tools that the provider runs itself: they pass to an upstream of the format, and become their like or are left out before any other. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { createGateway, type GatewayOptions, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { aiSdk } from "../../../src/upstreams/ai-sdk/index.ts";
import { relay, type RelayFormat } from "../../../src/upstreams/relay/index.ts";
import { fakeModel } from "../../upstreams/ai-sdk/fake-models.ts";

const FOLDER = join(import.meta.dirname, "../../recordings/upstream");
const recorded = (name: string): string => readFileSync(join(FOLDER, name), "utf8");

function connect(backend: ModelBackend, options: Partial<GatewayOptions> = {}): OpenAI {
  const quotas = memoryQuotaStore([{ apiKey: "sk-test" }]);
  const gateway = createGateway({ backend, quotas, onFailure: () => {}, ...options });
  return new OpenAI({
    apiKey: "sk-test",
    baseURL: "http://gateway.test/v1",
    maxRetries: 0,
    fetch: (url, init) => gateway.fetch(new Request(url instanceof Request ? url.url : url, init)),
  });
}

/** A client of a gateway before an upstream with one answer. */
function before(format: RelayFormat, answer: string, isStream = false) {
  const sent: Record<string, unknown>[] = [];
  const backend = relay({
    format,
    baseUrl: "http://up.test/v1",
    async fetch(_url, init) {
      sent.push(JSON.parse(init?.body as string) as Record<string, unknown>);
      return new Response(answer, {
        headers: { "content-type": isStream ? "text/event-stream" : "application/json" },
      });
    },
  });
  return { client: connect(backend), sent };
}

type Tool = OpenAI.Responses.Tool;

const HOSTED: readonly Tool[] = [
  { type: "web_search", search_context_size: "low" },
  { type: "file_search", vector_store_ids: ["vs_1"] },
  { type: "code_interpreter", container: { type: "auto" } },
  { type: "image_generation", quality: "low" },
  { type: "mcp", server_label: "docs", server_url: "https://example.com/mcp", require_approval: "never" },
  { type: "local_shell" },
];

describe("an upstream of Responses", () => {
  it("gets every hosted tool as it came, and its items come back as they are", async () => {
    const { client, sent } = before("responses", recorded("responses/web-search.json"));
    const { output } = await client.responses.create({ model: "m", input: "Hi", tools: [...HOSTED] });
    expect(sent[0]?.["tools"]).toEqual(HOSTED);
    expect(output).toEqual((JSON.parse(recorded("responses/web-search.json")) as { output: unknown }).output);
    // A client sends them back in its next request.
    const input = [...output, { role: "user", content: "And now?" }] as OpenAI.Responses.ResponseInput;
    await client.responses.create({ model: "m", input });
    expect((sent[1] as { input: unknown[] }).input[0]).toEqual(output[0]);
  });

  it("streams their events", async () => {
    const { client } = before("responses", recorded("responses/web-search.txt"), true);
    const types: string[] = [];
    for await (const event of await client.responses.create({ model: "m", input: "Hi", stream: true }))
      types.push(event.type);
    expect(types).toContain("response.web_search_call.searching");
    expect(types.at(-1)).toBe("response.completed");
  });
});

const MESSAGE = recorded("messages/thinking-tools.json");
const CONTENT = recorded("generate-content/thinking-tools.json");
const COMPLETION = recorded("chat-completions/thinking-tools.json");

const OTHERS: readonly (readonly [RelayFormat, string])[] = [
  ["messages", MESSAGE],
  ["generate-content", CONTENT],
  ["chat-completions", COMPLETION],
];

describe.each(OTHERS)("an upstream of %s", (format, answer) => {
  const lost: Tool[] = HOSTED.filter(
    ({ type }) =>
      (type !== "code_interpreter" || format !== "generate-content") &&
      (type !== "web_search" || format === "chat-completions"),
  );
  // A search of OpenAI's own copies has no like elsewhere.
  lost.push({ type: "web_search", external_web_access: false } as unknown as Tool);
  const own = { type: "function", name: "look", parameters: null, strict: null } as const;

  it.each(lost.map((tool) => [tool.type, tool] as const))(
    "is not asked for %s, and its loss is told",
    async (type, tool) => {
      const { client, sent } = before(format, answer);
      const asked = { model: "m", input: "Hi", tools: [own, tool] };
      const free = [
        undefined,
        "auto",
        { type: "allowed_tools", mode: "auto", tools: [own, { type }] },
        "required",
      ] as const;
      for (const tool_choice of free) {
        const { response } = await client.responses
          .create({ ...asked, ...(tool_choice && { tool_choice }) } as typeof asked)
          .withResponse();
        expect(response.headers.get("polygate-dropped")).toMatch(/tools\.(?:hosted|web-search|code-execution)/);
        expect(JSON.stringify(sent.pop())).not.toContain(`"${type}"`);
      }
      const demanding = [
        { tool_choice: { type } },
        { tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type }] } },
        { tool_choice: "required", tools: [tool] },
      ];
      for (const demand of demanding)
        await expect(client.responses.create({ ...asked, ...demand } as typeof asked)).rejects.toMatchObject({
          status: 400,
          message: expect.stringContaining("toolChoice.unmet") as string,
        });
      expect(sent).toEqual([]);
    },
  );
});

it("a model of the AI SDK is not asked for them, and the call is refused where one is demanded", async () => {
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  const answer = { content: [{ type: "text", text: "Hi" }], finishReason: { unified: "stop" }, usage, warnings: [] };
  const model = fakeModel({ answer: () => answer });
  const client = connect(aiSdk({ chat: { m: model } }));
  const look = { type: "function", name: "look", parameters: null, strict: null } as const;
  const asked = { model: "m", input: "Hi", tools: [look, ...HOSTED] };
  const { response } = await client.responses.create(asked).withResponse();
  expect(response.headers.get("polygate-dropped")).toMatch(/tools\.web-search.*tools\.hosted/);
  expect(model.asked).toMatchObject([{ tools: [{ type: "function", name: "look" }] }]);
  const demand = { ...asked, tool_choice: { type: "image_generation" } as const };
  await expect(client.responses.create(demand)).rejects.toMatchObject({ status: 400 });
  expect(model.asked).toHaveLength(1);
});

it("a search of the web is the provider's own, with its limits", async () => {
  const user_location = { type: "approximate", country: "NO", city: "Oslo" } as const;
  const tool: Tool = { type: "web_search", filters: { allowed_domains: ["yr.no"] }, user_location };
  const claude = before("messages", MESSAGE);
  const { response } = await claude.client.responses.create({ model: "m", input: "Hi", tools: [tool] }).withResponse();
  expect(claude.sent[0]?.["tools"]).toEqual([
    { type: "web_search_20250305", name: "web_search", allowed_domains: ["yr.no"], user_location },
  ]);
  expect(response.headers.get("polygate-approximated")).toContain("tools.web-search");
  const gemini = before("generate-content", CONTENT);
  await gemini.client.responses.create({ model: "m", input: "Hi", tools: [tool] });
  expect(gemini.sent[0]?.["tools"]).toEqual([{ googleSearch: {} }]);
  // A search can be demanded from one of them.
  const demand = {
    model: "m",
    input: "Hi",
    tools: [tool],
    tool_choice: { type: "web_search" as "web_search_preview" },
  };
  await claude.client.responses.create(demand);
  expect(claude.sent[1]?.["tool_choice"]).toEqual({ type: "tool", name: "web_search" });
  const { response: free } = await gemini.client.responses.create(demand).withResponse();
  expect(free.headers.get("polygate-dropped")).toBe("toolChoice");
});

it("code runs where the upstream runs code, and its output is shown", async () => {
  const { client, sent } = before("generate-content", recorded("generate-content/code.txt"), true);
  const tools: Tool[] = [{ type: "code_interpreter", container: { type: "auto" } }];
  const { output } = await client.responses.stream({ model: "m", input: "Hi", tools }).finalResponse();
  expect(sent[0]?.["tools"]).toEqual([{ codeExecution: {} }]);
  expect(output.find(({ type }) => type === "code_interpreter_call")).toMatchObject({
    code: expect.any(String) as string,
    outputs: [{ type: "logs" }],
  });
});

it("code runs on the gateway's own runner for a backend that has none", async () => {
  const backend: ModelBackend = {
    async *chat({ tools }, { runCode }) {
      if (!runCode || tools[0]?.type !== "code-execution") throw new Error("There is no runner.");
      yield { type: "code", language: "python", code: "print(6 * 7)" };
      yield { type: "code-result", ...(await runCode({ language: "python", code: "print(6 * 7)" })) };
      yield "It is 42.";
    },
  };
  const client = connect(backend, {
    codeRunner: { run: async ({ code }) => ({ outcome: "ok", output: `${code.length} 42` }) },
  });
  const tools: Tool[] = [{ type: "code_interpreter", container: { type: "auto" } }];
  for (const isStreamed of [false, true]) {
    const asked = { model: "m", input: "What is 6 * 7?", tools };
    const { output, output_text } = isStreamed
      ? await client.responses.stream(asked).finalResponse()
      : await client.responses.create(asked);
    expect(output[0]).toMatchObject({
      type: "code_interpreter_call",
      status: "completed",
      code: "print(6 * 7)",
      outputs: [{ type: "logs", logs: "12 42" }],
    });
    expect(output_text).toBe("It is 42.");
  }
});

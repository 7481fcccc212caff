/** Names of tools that an upstream does not accept: their replacements, in counts too, and for callers whose body a hook has removed. */

import { expect, it } from "vitest";
import { GOOGLE_TOOL_NAMES, TOOL_NAMES, toolNamesFor } from "../../../src/formats/shared/tool-names.ts";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import type { ChatRequest, FunctionTool } from "../../../src/model/chat-request.ts";
import type { Conversion } from "../../../src/model/conversion.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { callContext, chatRequest } from "./stage.ts";

const tool = (name: string): FunctionTool => ({ type: "function", name, inputSchema: { type: "object" } });
const asking = (...names: string[]): ChatRequest => chatRequest({ tools: names.map(tool) });

/** Returns the names that an upstream gets. */
const sentNames = (request: ChatRequest, accepted = TOOL_NAMES): unknown[] =>
  (toolNamesFor(request, accepted)?.inRequest(request) ?? request).tools.map((one) => "name" in one && one.name);

it("leaves a request alone whose names are accepted, or whose upstream has no rule", () => {
  expect(toolNamesFor(asking("a", "x".repeat(64)), TOOL_NAMES)).toBeUndefined();
  expect(toolNamesFor(asking("a.b:c"), GOOGLE_TOOL_NAMES)).toBeUndefined();
  expect(toolNamesFor(asking("a b"), undefined)).toBeUndefined();
});

it("keeps as much of each name as it can, and never has one name for two tools", () => {
  expect(sentNames(asking("srv.tool", "3.d", "über", "ok"))).toEqual(["srv_tool", "_3_d", "_ber", "ok"]);
  // The second is none of the format's own tools, and the others are none of the request's.
  const names = sentNames(asking("a.b", "web.search", "a_b", "a:b"));
  expect(names).toEqual([
    expect.stringMatching(/^a_b_\w{1,7}_$/),
    expect.stringMatching(/^web_search_\w{1,7}_$/),
    "a_b",
    expect.stringMatching(/^a_b_\w{1,7}_$/),
  ]);
  expect(new Set(names).size).toBe(4);
  const long = `mcp__${"server".repeat(10)}__${"read".repeat(10)}`;
  expect(sentNames(asking(long, `${long}_2`))).toEqual([
    expect.stringMatching(/^mcp__serverserverser_\w{1,7}_ead(?:read){8}$/),
    expect.stringMatching(/^mcp__serverserverser_\w{1,7}_d(?:read){8}_2$/),
  ]);
});

it("tells two names apart whose hashes and ends are the same", () => {
  const alike = [129599, 732382].map((number) => `${"a".repeat(40)}${number}.${"b".repeat(35)}`);
  const names = sentNames(asking(...alike));
  expect(new Set(names).size).toBe(2);
  expect(names[1]).toBe(`${"a".repeat(20)}_2_${"b".repeat(35)}`);
});

it("has another name for each of many tools whose names are alike, and the same names again", () => {
  const many = asking(...Array.from({ length: 3_000 }, (_, index) => `${".".repeat(100)}${index}${".".repeat(100)}`));
  const names = sentNames(many);
  expect(new Set(names).size).toBe(3_000);
  expect(names.every((name) => TOOL_NAMES.test(String(name)))).toBe(true);
  expect(sentNames(many)).toEqual(names);
});

const CALL = { id: "call_1", type: "function", function: { name: "srv_tool", arguments: "{}" } };
const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const COMPLETE = {
  id: "c",
  model: "m",
  choices: [{ message: { tool_calls: [CALL] }, finish_reason: "tool_calls" }],
  usage,
};
const CHUNKS = [
  { id: "c", model: "m", choices: [{ delta: { tool_calls: [{ index: 0, ...CALL }] } }] },
  { id: "c", model: "m", choices: [{ delta: {}, finish_reason: "tool_calls" }], usage },
];

/** Returns a relay whose upstream calls `srv_tool`, and the bodies that it was sent. */
function calling() {
  const bodies: { readonly tools: readonly { readonly function: { readonly name: string } }[] }[] = [];
  const backend = relay({
    format: "chat-completions",
    baseUrl: "http://upstream.test/v1",
    async fetch(url, init) {
      const body = (await new Request(url, init).json()) as (typeof bodies)[number] & { readonly stream?: boolean };
      bodies.push(body);
      if (!body.stream) return Response.json(COMPLETE);
      const frames = [...CHUNKS.map((chunk) => JSON.stringify(chunk)), "[DONE]"].map((data) => `data: ${data}\n\n`);
      return new Response(frames.join(""), { headers: { "content-type": "text/event-stream" } });
    },
  });
  return { backend, bodies };
}

it("leaves a request of the upstream's own format as it is, and its answer too", async () => {
  const { backend, bodies } = calling();
  const tools = [{ type: "function", function: { name: "srv.tool" } }];
  const body = { model: "m", messages: [{ role: "user", content: "Call." }], tools };
  const native = { format: "chat-completions", body, betas: [] };
  const told: Conversion[] = [];
  const context = { ...callContext(), reportConversions: (more: readonly Conversion[]) => void told.push(...more) };
  const events: unknown[] = [];
  for await (const event of backend.chat({ ...asking("srv.tool"), native }, context)) events.push(event);
  expect(bodies).toMatchObject([{ tools }]);
  expect(JSON.stringify(events)).not.toContain("srv.tool");
  expect(told).toEqual([]);
});

it("renames the calls of tools that are not offered any more", () => {
  const call = { type: "tool-call", id: "a", name: "srv.tool", input: {} } as const;
  const request = chatRequest({ messages: [{ role: "assistant", parts: [call] }] });
  expect(toolNamesFor(request, TOOL_NAMES)?.inRequest(request)).toMatchObject({
    messages: [{ parts: [{ name: "srv_tool" }] }],
  });
});

it("tells the replacement as the gateway's own work", async () => {
  const { backend } = calling();
  const told: Conversion[] = [];
  const context = { ...callContext(), reportConversions: (more: readonly Conversion[]) => void told.push(...more) };
  const events: unknown[] = [];
  for await (const event of backend.chat(asking("srv.tool"), context)) events.push(event);
  expect(JSON.stringify(events)).toContain('"name":"srv.tool"');
  expect(told).toEqual([
    { field: "tools.function.name", conversion: "emulated", why: expect.stringMatching(/^The gateway replaces/) },
  ]);
});

it.each([false, true])(
  "restores names for a caller of the format whose body a hook has removed, streamed: %s",
  async (stream) => {
    const { backend, bodies } = calling();
    const gateway = createGateway({
      backend: { ...backend, chat: ({ native: _native, ...request }, call) => backend.chat(request, call) },
      quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
    });
    const response = await gateway.fetch(
      new Request("http://gateway.test/v1/chat/completions", {
        method: "POST",
        headers: { authorization: "Bearer sk-one", "content-type": "application/json" },
        body: JSON.stringify({
          model: "m",
          stream,
          messages: [{ role: "user", content: "Call." }],
          tools: [{ type: "function", function: { name: "srv.tool" } }],
        }),
      }),
    );
    const text = await response.text();
    expect(text).toContain('"name":"srv.tool"');
    expect(text).not.toContain("srv_tool");
    expect(text).toContain('"finish_reason":"tool_calls"');
    expect(bodies[0]?.tools[0]?.function.name).toBe("srv_tool");
    await gateway.close();
  },
);

it("counts the tokens of the request as the upstream accepts it", async () => {
  const bodies: unknown[] = [];
  const backend = relay({
    format: "messages",
    baseUrl: "http://upstream.test/v1",
    async fetch(url, init) {
      bodies.push(await new Request(url, init).json());
      return Response.json({ input_tokens: 7 });
    },
  });
  expect(await backend.countInputTokens(asking("srv.tool"), callContext())).toBe(7);
  expect(bodies).toMatchObject([{ tools: [{ name: "srv_tool" }] }]);
});

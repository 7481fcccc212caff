/** Custom tools, whose input is a text, before upstreams of all formats: in requests, choices, history, complete answers and streams. */

import { expect, it } from "vitest";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay, type RelayFormat } from "../../../src/upstreams/relay/index.ts";

const QUERY = 'select "1"';
const format = { type: "grammar", grammar: { syntax: "regex", definition: "select .*" } };
const SQL = { type: "custom", custom: { name: "sql", description: "Runs SQL", format } };
const CALL = { id: "c_2", type: "custom", custom: { name: "sql", input: QUERY } };
const CHOSEN = { type: "custom", custom: { name: "sql" } };
const ALLOWED = { type: "allowed_tools", allowed_tools: { mode: "required", tools: [CHOSEN] } };
const ASKED = {
  model: "m",
  max_tokens: 50,
  messages: [
    { role: "user", content: "Hi" },
    { role: "assistant", content: null, tool_calls: [{ ...CALL, id: "c_1" }] },
    { role: "tool", tool_call_id: "c_1", content: "1" },
  ],
  tools: [SQL],
};
const input = { input: QUERY };

/** For each upstream: its answer, and the tool, the choice and the earlier call in the request that it gets. */
const UPSTREAMS: readonly (readonly [RelayFormat, answer: object, sent: readonly unknown[]])[] = [
  [
    "messages",
    {
      type: "message",
      content: [{ type: "tool_use", id: "c_2", name: "sql", input }],
      stop_reason: "tool_use",
      usage: { input_tokens: 1, output_tokens: 9 },
    },
    [{ name: "sql" }, { type: "tool", name: "sql" }, { type: "tool_use", id: "c_1", name: "sql", input }],
  ],
  [
    "generate-content",
    {
      candidates: [
        {
          content: { role: "model", parts: [{ functionCall: { id: "c_2", name: "sql", args: input } }] },
          finishReason: "STOP",
        },
      ],
    },
    [
      { name: "sql" },
      { mode: "ANY", allowedFunctionNames: ["sql"] },
      { functionCall: { id: "c_1", name: "sql", args: input } },
    ],
  ],
  [
    "responses",
    {
      id: "r",
      status: "completed",
      output: [{ type: "custom_tool_call", id: "i", call_id: "c_2", name: "sql", input: QUERY }],
    },
    [
      { type: "custom", name: "sql", format: { type: "grammar", syntax: "regex", definition: "select .*" } },
      { type: "custom", name: "sql" },
      { type: "custom_tool_call", call_id: "c_1", name: "sql", input: QUERY },
      { type: "custom_tool_call_output", call_id: "c_1", output: "1" },
    ],
  ],
  [
    "chat-completions",
    {
      id: "a",
      choices: [{ index: 0, message: { role: "assistant", tool_calls: [CALL] }, finish_reason: "tool_calls" }],
    },
    [SQL, CHOSEN, { ...CALL, id: "c_1" }],
  ],
];

interface Call {
  readonly id?: string;
  readonly type?: string;
  readonly custom?: { readonly name?: string; readonly input: string };
}

it.each(UPSTREAMS)("are sent to %s and called", async (upstream, answer, expected) => {
  const sent: string[] = [];
  const gateway = createGateway({
    backend: relay({
      format: upstream,
      baseUrl: "http://up.test/v1",
      async fetch(_url, init) {
        sent.push(init?.body as string);
        return Response.json(answer);
      },
    }),
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
  });
  const ask = (body: object): Promise<Response> =>
    gateway.fetch(
      new Request("http://gateway.test/v1/chat/completions", {
        method: "POST",
        headers: { authorization: "Bearer sk-test", "content-type": "application/json" },
        body: JSON.stringify({ ...ASKED, ...body }),
      }),
    );
  const whole = await ask({ tool_choice: CHOSEN });
  expect(whole.headers.get("polygate-dropped")).toBeNull();
  expect(((await whole.json()) as { choices: unknown }).choices).toMatchObject([
    { message: { tool_calls: [CALL] }, finish_reason: "tool_calls" },
  ]);
  expect(deepIn(JSON.parse(sent[0] ?? ""))).toEqual(
    expect.arrayContaining(expected.map((one) => expect.objectContaining(one as object) as unknown)),
  );
  expect(await ask({ tool_choice: ALLOWED })).toMatchObject({ status: 200 });
  const frames = (await (await ask({ tool_choice: "required", stream: true })).text()).split("\n\n");
  const calls = frames
    .filter((frame) => frame.startsWith("data: {"))
    .flatMap((frame) => (JSON.parse(frame.slice(6)) as { choices: { delta: { tool_calls?: Call[] } }[] }).choices)
    .flatMap(({ delta }) => delta.tool_calls ?? []);
  expect(calls[0]).toMatchObject({ id: "c_2", type: "custom", custom: { name: "sql" } });
  expect(calls.map(({ custom }) => custom?.input).join("")).toBe(QUERY);
});

/** Lists all objects inside a value. */
const deepIn = (value: unknown): unknown[] =>
  typeof value === "object" && value !== null ? [value, ...Object.values(value).flatMap(deepIn)] : [];

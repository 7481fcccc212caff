/** Holds the JSON inside bodies, answers and backends' events to the limits of the body around it. */

import { describe, expect, it } from "vitest";
import { relay } from "../../src/backends/relay/index.ts";
import { DEFAULT_JSON_LIMITS } from "../../src/model/json.ts";
import type { ChatEvent } from "../../src/index.ts";
import { errorCode, opened, type Opened, speaking } from "./bench.ts";

const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
const deepObject = (levels: number): string => `{"a":${nested(levels - 1)}}`;
const wideObject = (values: number): string => `{"a":[${Array.from({ length: values - 3 }, () => 0).join(",")}]}`;

const callOf = (id: string, json: string): object => ({
  id,
  type: "function",
  function: { name: "look", arguments: json },
});

const conversation = (...argumentTexts: readonly string[]): string =>
  JSON.stringify({
    model: "any",
    messages: [
      { role: "user", content: "hi" },
      { role: "assistant", tool_calls: argumentTexts.map((json, index) => callOf(`c${index}`, json)) },
    ],
  });

const PATH = "/v1/chat/completions";

const hi = { max_tokens: 1_000, messages: [{ role: "user", content: "hi" }] };

describe("the arguments of a request's tool calls", () => {
  const limits = { maxJsonDepth: 20, maxJsonValues: 1_000 };
  const key = { granted: 1_000_000 };

  it("are taken up to the depth of a body, and no level more", async () => {
    const { send } = opened({ limits, key });
    expect((await send({ path: PATH, body: conversation(deepObject(20)) })).status).toBe(200);
    const refused = await send({ path: PATH, body: conversation("{}", deepObject(21)) });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({
      error: {
        param: "messages.1.tool_calls.1.function.arguments",
        message: expect.stringContaining("is nested deeper than 20 levels") as string,
      },
    });
  });

  it("nested 6,000 deep are the caller's mistake, also for a key with nothing left", async () => {
    const { send } = opened({ key: { granted: 0 } });
    const body = conversation(deepObject(6_000));
    // A short body of a known length is read before the balance is asked for.
    const headers = { "content-length": String(body.length) };
    expect((await send({ path: PATH, body, headers })).status).toBe(400);
  });

  it("count together, and with the body around them", async () => {
    const { send } = opened({ limits, key });
    const few = Array.from({ length: 9 }, () => wideObject(90));
    expect((await send({ path: PATH, body: conversation(...few) })).status).toBe(200);
    const many = Array.from({ length: 10 }, () => wideObject(100));
    const refused = await send({ path: PATH, body: conversation(...many) });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain("holds more than 1000 values");
  });

  it("that are no JSON are carried as they are, as before", async () => {
    const { send } = opened({ limits, key });
    expect((await send({ path: PATH, body: conversation('{"a":', "[1]", "") })).status).toBe(200);
  });
});

/** A gateway before an upstream that answers every request with one body. */
function before(
  format: "messages" | "chat-completions" | "generate-content",
  body: string,
  { status = 200, type = "application/json" } = {},
): Opened {
  const fetch = (): Promise<Response> =>
    Promise.resolve(new Response(body, { status, headers: { "content-type": type } }));
  return opened({ key: { granted: 1_000_000 }, backend: relay({ format, baseUrl: "http://upstream.test", fetch }) });
}

const inOpenAi = (message: object): string =>
  JSON.stringify({ id: "a", model: "m", choices: [{ index: 0, message, finish_reason: "tool_calls" }] });

const failedAs = async (response: Response): Promise<readonly [number, unknown]> => [
  response.status,
  await errorCode(response),
];

const piece = (choice: object): string => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`;
const FAILED = [500, "backend_failed"];

describe("an upstream's answer", () => {
  const { maxJsonDepth } = DEFAULT_JSON_LIMITS;
  const beyond = JSON.stringify({ deep: 0 }).replace("0", nested(20_000));

  const bodies = [
    ["chat-completions", `{"choices":[{"message":{"content":"x"}}],"deep":${nested(20_000)}}`],
    ["chat-completions", inOpenAi({ tool_calls: [callOf("1", beyond)] })],
    ["chat-completions", inOpenAi({ tool_calls: [callOf("1", deepObject(maxJsonDepth + 1))] })],
    ["generate-content", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":${beyond}}}]}}]}`],
    ["messages", `{"content":[{"type":"server_thing","input":${beyond}}],"stop_reason":"end_turn"}`],
  ] as const;

  it.each(bodies)("of %s that nests too deep is the backend's failure", async (format, body) => {
    const bench = before(format, body);
    expect(await failedAs(await bench.send({ body: hi }))).toEqual(FAILED);
    expect(bench.failures.map(({ error }) => error.code)).toEqual(["backend_failed"]);
    expect(bench.report()).toMatchObject({ held: 0 });
  });

  it("may hold arguments as deep as a body may be", async () => {
    const { send } = before("chat-completions", inOpenAi({ tool_calls: [callOf("1", deepObject(maxJsonDepth))] }));
    expect((await send()).status).toBe(200);
  });

  it("that ends arguments in pieces is held to the same", async () => {
    const begin = { index: 0, id: "1", function: { name: "f", arguments: '{"a":' } };
    const text = [
      piece({ delta: { tool_calls: [begin] } }),
      ...Array.from({ length: 30 }, () =>
        piece({ delta: { tool_calls: [{ index: 0, function: { arguments: "[".repeat(10) } }] } }),
      ),
      piece({ delta: { tool_calls: [{ index: 0, function: { arguments: `${"]".repeat(300)}}` } }] } }),
      piece({ delta: {}, finish_reason: "tool_calls" }),
      "data: [DONE]\n\n",
    ].join("");
    const { send, report } = before("chat-completions", text, { type: "text/event-stream" });
    expect(await (await send({ body: { ...hi, stream: true } })).text()).toContain("nested deeper than 200 levels");
    expect(report()).toMatchObject({ held: 0 });
  });

  it("that tells of an error in deep JSON keeps its status", async () => {
    const { send } = before("messages", `{"error":${nested(20_000)}}`, { status: 503 });
    expect((await send({ body: hi })).status).toBe(503);
  });
});

const events = (value: object): readonly (readonly [string, ChatEvent])[] => [
  ["tool-call", { type: "tool-call", id: "1", name: "f", input: value } as ChatEvent],
  ["provider", { type: "provider", dialect: "messages", value } as ChatEvent],
  ["annotation", { type: "annotation", annotation: { type: "grounding", chunks: value } } as unknown as ChatEvent],
];

describe("what a backend yields", () => {
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  // Written out, it would hold 2^100 values.
  let doubled: object = {};
  for (let level = 0; level < 100; level++) doubled = [doubled, doubled];
  const deep = Array.from({ length: 20_000 }).reduce<object>((inner) => ({ inner }), {});
  const values = { cyclic, deep, doubled };
  const table = Object.entries(values).flatMap(([name, value]) =>
    events(value).flatMap(([kind, event]) => [
      [name, kind, event] as const,
      [name, `native ${kind}`, { type: "native", dialect: "x", frames: [], means: [event] } as ChatEvent] as const,
    ]),
  );

  it.each(table)("fails its own call alone where it is %s: %s", async (_name, _kind, event) => {
    const bench = opened({ backend: speaking(event) });
    for (const path of ["/v1/messages", PATH])
      expect(await failedAs(await bench.send({ path, body: hi }))).toEqual(FAILED);
    expect(bench.failures.map(({ error }) => error.code)).toEqual(["backend_failed", "backend_failed"]);
    expect(bench.report()).toMatchObject({ held: 0 });
  });
});

/** The demo model over Responses: chains, conversations, background, tools of every kind, reasoning, JSON, code, and failures. */

import { createParser } from "eventsource-parser";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/index.ts";
import { type Playground, startPlayground } from "../clients/playground.ts";

let playground: Playground;
beforeAll(async () => {
  playground = await startPlayground();
});
afterAll(() => playground.stop());

interface Item {
  readonly type: string;
  readonly id: string;
  readonly call_id?: string;
  readonly name?: string;
  readonly arguments?: string;
  readonly input?: string;
  readonly code?: string;
  readonly outputs?: readonly { readonly logs: string }[];
  readonly summary?: readonly { readonly text: string }[];
  readonly encrypted_content?: string;
  readonly content?: readonly { readonly text: string }[];
}

interface Answer {
  readonly id: string;
  readonly status: string;
  readonly output: readonly Item[];
  readonly error: { readonly message: string } | null;
  readonly incomplete_details: { readonly reason: string } | null;
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number } | null;
}

function ask(method: string, path: string, body?: object, key = "sk-demo"): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return fetch(`${playground.url}/v1${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
}

async function send<Body>(method: string, path: string, body?: object): Promise<Body> {
  const response = await ask(method, path, body);
  const answer = (await response.json()) as Body;
  expect({ status: response.status, answer }).toMatchObject({ status: 200 });
  return answer;
}

const create = (body: object): Promise<Answer> => send("POST", "/responses", { model: "demo-chat", ...body });

const textOf = ({ output }: Answer): string =>
  output.flatMap(({ type, content = [] }) => (type === "message" ? content.map(({ text }) => text) : [])).join("");

const itemOf = ({ output }: Answer, type: string): Item => {
  const item = output.find((one) => one.type === type);
  if (!item) throw new Error(`There is no ${type} in ${JSON.stringify(output)}`);
  return item;
};

type Event = JsonObject & { readonly type: string; readonly sequence_number: number };

/** The events of a stream, in order. */
async function eventsOf(response: Response): Promise<Event[]> {
  const events: Event[] = [];
  createParser({ onEvent: ({ data }) => void events.push(JSON.parse(data) as Event) }).feed(await response.text());
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(
    events.map((_, index) => index + (events[0]?.sequence_number ?? 0)),
  );
  return events;
}

const WEATHER = {
  type: "function",
  name: "get_weather",
  description: "The weather in a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  strict: false,
};

describe("a chain of responses", () => {
  it("goes on where the one before it ended: the result of its call is enough", async () => {
    const first = await create({ input: "What is the weather in Paris?", tools: [WEATHER] });
    const call = itemOf(first, "function_call");
    expect(JSON.parse(call.arguments ?? "")).toEqual({ city: "Paris" });
    const result = { type: "function_call_output", call_id: call.call_id, output: "Sunny" };
    const second = await create({ input: [result], tools: [WEATHER], previous_response_id: first.id });
    expect(textOf(second)).toBe("The tool get_weather answered: Sunny.");
    const third = await create({
      input: "And the weather in Rome?",
      tools: [WEATHER],
      previous_response_id: second.id,
    });
    expect(itemOf(third, "function_call").call_id).not.toBe(call.call_id);
    expect(third.usage?.input_tokens).toBeGreaterThan(second.usage?.input_tokens ?? Infinity);
  });

  it("is refused where nothing is before it, and to the key of somebody else", async () => {
    const { id } = await create({ input: "Hello" });
    const next = { model: "demo-chat", input: "Hello", previous_response_id: id };
    const answers = await Promise.all([
      ask("POST", "/responses", { ...next, previous_response_id: "resp_none" }),
      ask("POST", "/responses", next, "sk-metered"),
      ask("GET", `/responses/${id}`, undefined, "sk-metered"),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
  });

  it("is kept: it can be read again, with its input, and deleted", async () => {
    const made = await create({ input: "Hello" });
    expect(await send("GET", `/responses/${made.id}`)).toEqual(made);
    expect(await send("GET", `/responses/${made.id}/input_items`)).toMatchObject({
      data: [{ role: "user", content: [{ type: "input_text", text: "Hello" }] }],
    });
    await send("DELETE", `/responses/${made.id}`);
    expect((await ask("GET", `/responses/${made.id}`)).status).toBe(404);
  });
});

it("adds to a conversation what is said in it", async () => {
  const { id } = await send<{ id: string }>("POST", "/conversations", {});
  await create({ input: "One", conversation: id });
  await create({ input: "Two", conversation: { id } });
  const { data } = await send<{ data: readonly Item[] }>("GET", `/conversations/${id}/items?order=asc`);
  expect(data.map(({ content }) => content?.[0]?.text)).toEqual(["One", "You said: One", "Two", "You said: Two"]);
});

const background = (input: string): Promise<Answer> => create({ input, background: true });
const read = (id: string): Promise<Answer> => send("GET", `/responses/${id}`);

describe("a response in the background", () => {
  it("is told at once, and can be read when it is complete", async () => {
    const { id, status } = await background("Hello");
    expect(["queued", "in_progress"]).toContain(status);
    await expect.poll(async () => (await read(id)).status).toBe("completed");
    expect(textOf(await read(id))).toBe("You said: Hello");
  });

  it("can be streamed afterwards, from any event on", async () => {
    const { id } = await background("/repeat 3");
    await expect.poll(async () => (await read(id)).status).toBe("completed");
    const all = await eventsOf(await ask("GET", `/responses/${id}?stream=true`));
    expect(all.at(-1)?.type).toBe("response.completed");
    expect(await eventsOf(await ask("GET", `/responses/${id}?stream=true&starting_after=3`))).toEqual(all.slice(4));
  });

  it("can be cancelled", async () => {
    const { id } = await background("/delay 20 /repeat 100000");
    expect(await send("POST", `/responses/${id}/cancel`)).toMatchObject({ id, status: "cancelled" });
    expect((await read(id)).status).toBe("cancelled");
  });
});

const custom = (format?: object): object => ({ type: "custom", name: "write", ...(format && { format }) });

const inputFor = async (format?: object): Promise<string | undefined> =>
  itemOf(await create({ input: "Call the tool", tools: [custom(format)] }), "custom_tool_call").input;

describe("a custom tool", () => {
  it("takes a text, which may have to match a regular expression", async () => {
    expect(await inputFor()).toBe("Call the tool");
    expect(await inputFor({ type: "grammar", syntax: "regex", definition: "[a-f]{3}-\\d+" })).toMatch(/^[a-f]{3}-\d+$/);
    expect(await inputFor({ type: "grammar", syntax: "lark", definition: "start: /x+/" })).toBe("Call the tool");
  });

  it("is answered in words", async () => {
    const tools = [custom()];
    const first = await create({ input: "Call the tool", tools });
    const { call_id } = itemOf(first, "custom_tool_call");
    const result = { type: "custom_tool_call_output", call_id, output: "Done" };
    const second = await create({ input: [result], tools, previous_response_id: first.id });
    expect(textOf(second)).toBe("The tool write answered: Done.");
  });

  it("is not called where nothing matches its grammar", async () => {
    const format = { type: "grammar", syntax: "regex", definition: "a(?=b)c" };
    const body = { model: "demo-chat", input: "Call the tool", tools: [custom(format)] };
    const response = await ask("POST", "/responses", body);
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining('cannot satisfy the grammar of the tool \\"write\\"') as string,
    ]);
  });
});

it("thinks where it is asked to, and shows it where that is asked for", async () => {
  const shown = itemOf(await create({ input: "Hello", reasoning: { effort: "low", summary: "auto" } }), "reasoning");
  expect(shown.summary?.[0]?.text).toBe("The user wrote 1 words. I will tell them back what arrived.");
  expect(shown.encrypted_content).toMatch(/.+/);
  const hidden = await create({ input: "Hello", reasoning: { effort: "low" } });
  expect(JSON.stringify(hidden.output)).not.toContain("The user wrote");
  expect(hidden.usage).toMatchObject({ output_tokens_details: { reasoning_tokens: 12 } });
});

it("answers with JSON, by a schema or without", async () => {
  const schema = { type: "object", properties: { mood: { enum: ["calm"] } }, required: ["mood"] };
  const format = { type: "json_schema", name: "mood", schema, strict: false };
  expect(JSON.parse(textOf(await create({ input: "Hello", text: { format } })))).toEqual({ mood: "calm" });
  const free = await create({ input: "Hello in JSON", text: { format: { type: "json_object" } } });
  expect(JSON.parse(textOf(free))).toEqual({ answer: "You said: Hello in JSON" });
});

it("has code run", async () => {
  const tools = [{ type: "code_interpreter", container: { type: "auto" } }];
  const answer = await create({ input: "What is (17 + 4) * 2?", tools, include: ["code_interpreter_call.outputs"] });
  expect(itemOf(answer, "code_interpreter_call")).toMatchObject({
    code: "print((17 + 4) * 2)\n",
    outputs: [{ type: "logs", logs: "42\n" }],
  });
});

async function count(input: string): Promise<number> {
  const body = { model: "demo-chat", input };
  return (await send<{ input_tokens: number }>("POST", "/responses/input_tokens", body)).input_tokens;
}

it("counts the tokens of an input", async () => {
  const [short, long] = [await count("One"), await count("One two three four five six seven")];
  expect(short).toBeGreaterThan(0);
  expect(long).toBeGreaterThan(short);
});

const stream = async (input: string): Promise<Event[]> =>
  eventsOf(await ask("POST", "/responses", { model: "demo-chat", input, stream: true }));

describe("the hard cases", () => {
  it("streams words, and says at the end what it has said", async () => {
    const events = await stream("/repeat 3");
    const deltas = events.filter(({ type }) => type === "response.output_text.delta").map(({ delta }) => delta);
    const last = events.at(-1) as unknown as { readonly type: string; readonly response: Answer };
    expect([last.type, textOf(last.response)]).toEqual(["response.completed", "word word word"]);
    expect(deltas).toEqual(["word", " word", " word"]);
  });

  it("fails before an answer with a status, and in the middle with an event", async () => {
    expect((await ask("POST", "/responses", { model: "demo-chat", input: "/fail 503" })).status).toBe(503);
    const events = await stream("/break 500 This will never be told to its end.");
    expect(events.slice(-2)).toMatchObject([
      { type: "error", message: "The demo was asked to fail with 500." },
      { type: "response.failed", response: { status: "failed" } },
    ]);
  });

  it("ends early at its limit, and where the prompt is unsafe", async () => {
    const short = await create({ input: "/repeat 50", max_output_tokens: 16 });
    expect([short.status, short.incomplete_details]).toEqual(["incomplete", { reason: "max_output_tokens" }]);
    expect((await create({ input: "/block" })).incomplete_details).toEqual({ reason: "content_filter" });
  });
});

/** The official client before the playground: text, tools, JSON, several answers, errors, and calls that are aborted. */

import type OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { errorOf, type Sdk } from "../openai/sdk.ts";
import { usageOf, usedUntil } from "../playground.ts";
import { connect, say, TIME, WEATHER } from "./stage.ts";

export function demoSuite(sdk: Sdk, url: () => string): void {
  const client = (options = {}): OpenAI => connect({ sdk, url: url() }, options);

  it("answers", async () => {
    const { data: answer, request_id } = await client().chat.completions.create(say("Hello there")).withResponse();
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-\w+$/),
      object: "chat.completion",
      model: "demo-chat",
      choices: [{ index: 0, message: { role: "assistant", content: "You said: Hello there", refusal: null } }],
      usage: { prompt_tokens: 2, completion_tokens: 4, total_tokens: 6 },
    });
    expect(`chatcmpl-${request_id?.replace("req_", "")}`).toBe(answer.id);
    expect(Math.abs(answer.created - Date.now() / 1000)).toBeLessThan(3_600);
  });

  it("streams the same answer, with its counts where they are asked for", async () => {
    const pieces: string[] = [];
    const stream = client().chat.completions.stream({ ...say("Hello there"), stream_options: { include_usage: true } });
    stream.on("content", (piece) => void pieces.push(piece));
    const answer = await stream.finalChatCompletion();
    expect(pieces.join("")).toBe("You said: Hello there");
    expect(answer.choices).toMatchObject([{ message: { content: "You said: Hello there" }, finish_reason: "stop" }]);
    expect(await stream.totalUsage()).toMatchObject({ prompt_tokens: 2, completion_tokens: 4, total_tokens: 6 });
  });

  it("streams no counts where nobody asked for them", async () => {
    const stream = await client().chat.completions.create({ ...say("Hello"), stream: true });
    let last: OpenAI.ChatCompletionChunk | undefined;
    for await (const chunk of stream) {
      expect(chunk.usage).toBeUndefined();
      last = chunk;
    }
    expect(last?.choices).toEqual([{ index: 0, delta: {}, logprobs: null, finish_reason: "stop" }]);
  });

  it("gives several answers, streamed and complete", async () => {
    const { choices } = await client().chat.completions.create(say("Hi", { n: 2 }));
    const contents = ["You said: Hi", "Answer 2: You said: Hi"];
    expect(choices.map(({ message }) => message.content)).toEqual(contents);
    const streamed = await client()
      .chat.completions.stream(say("Hi", { n: 2 }))
      .finalChatCompletion();
    expect(streamed.choices.map(({ message }) => message.content)).toEqual(contents);
  });

  it("keeps to a schema", async () => {
    const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    const response_format = { type: "json_schema", json_schema: { name: "person", strict: true, schema } } as const;
    const { choices } = await client().chat.completions.create(say("A woman called Ada", { response_format }));
    expect(JSON.parse(choices[0]?.message.content ?? "")).toEqual({ name: "Ada" });
  });

  it("shows its reasoning as local servers do", async () => {
    const { choices, usage } = await client().chat.completions.create(say("Hi", { reasoning_effort: "low" }));
    expect(choices[0]?.message).toMatchObject({ content: "You said: Hi", reasoning_content: expect.any(String) });
    expect(usage?.completion_tokens_details?.reasoning_tokens).toBeGreaterThan(0);
  });

  describe("tools", () => {
    toolSuite(client);
  });
  describe("errors", () => {
    errorSuite(sdk, client);
  });
  describe("abort", () => {
    abortSuite(sdk, client, url);
  });
}

const tellWeather = (): string => "sunny";

type Connect = (options?: object) => OpenAI;

function toolSuite(client: Connect): void {
  const tools = [WEATHER, TIME];
  const content = "Use both tools for Oslo";

  it("are called in parallel, streamed and complete, and their results are read", async () => {
    const asked = say(content, { tools });
    const { choices } = await client().chat.completions.create(asked);
    const message = choices[0]?.message;
    const calls = message?.tool_calls ?? [];
    expect(choices[0]?.finish_reason).toBe("tool_calls");
    expect(calls.map((call) => call.type === "function" && call.function.name)).toEqual(["get_weather", "get_time"]);
    for (const call of calls)
      expect(JSON.parse(call.type === "function" ? call.function.arguments : "")).toEqual({ city: expect.any(String) });

    const stream = client().chat.completions.stream(asked);
    const done: string[] = [];
    stream.on("tool_calls.function.arguments.done", ({ index, name, arguments: json }) => {
      JSON.parse(json);
      done.push(`${index} ${name}`);
    });
    expect((await stream.finalChatCompletion()).choices[0]?.message.tool_calls).toMatchObject(calls);
    expect(done).toEqual(["0 get_weather", "1 get_time"]);

    if (!message) throw new Error("There is no answer.");
    const results = calls.map(
      ({ id }, index) => ({ role: "tool", tool_call_id: id, content: `result ${index}` }) as const,
    );
    const next = await client().chat.completions.create({
      ...asked,
      messages: [...asked.messages, message, ...results],
    });
    expect(next.choices[0]?.message.content).toBe(
      "The tool get_weather answered: result 0. The tool get_time answered: result 1.",
    );
  });

  it("are run by the client's own runner", async () => {
    const tool = { ...WEATHER, function: { ...WEATHER.function, function: tellWeather, parse: JSON.parse } };
    const runner = client().chat.completions.runTools({ ...say("What is the weather?"), tools: [tool as never] });
    expect(await runner.finalContent()).toBe("The tool get_weather answered: sunny.");
  });
}

function errorSuite(sdk: Sdk, client: Connect): void {
  const { OpenAI: Api } = sdk;

  it.each([
    ["/fail 400", 400, Api.BadRequestError],
    ["/fail 429", 429, Api.RateLimitError],
    ["/fail 503", 503, Api.InternalServerError],
    ["/break 500", 500, Api.InternalServerError],
  ] as const)("%s is %i in its own class", async (content, status, kind) => {
    const error = await errorOf(client().chat.completions.create(say(content)));
    expect(error).toBeInstanceOf(kind);
    expect(error).toMatchObject({ status, requestID: expect.stringMatching(/^req_\w+$/) });
  });

  it.each([
    ["a field", { temperature: 3 }, "sk-demo", 400, "invalid_value", "temperature"],
    ["a key that is used up", {}, "sk-empty", 429, "insufficient_quota", null],
  ])("name %s", async (_name, changes, apiKey, status, code, param) => {
    const error = await errorOf(client({ apiKey }).chat.completions.create(say("Hi", changes)));
    expect(error).toMatchObject({ status, code, param });
  });

  it("come in the middle of a stream, after what was said before", async () => {
    const stream = await client().chat.completions.create({ ...say("/break 500 /repeat 4"), stream: true });
    let said = "";
    const read = async (): Promise<void> => {
      for await (const { choices } of stream) said += choices[0]?.delta.content ?? "";
    };
    const error = await errorOf(read());
    expect(error).toBeInstanceOf(Api.APIError);
    expect(error).toMatchObject({ code: "backend_failed", type: "server_error" });
    expect(said).toBe("word word");
  });
}

function abortSuite({ OpenAI: Api }: Sdk, client: Connect, url: () => string): void {
  it.each(["stream", "complete"] as const)("ends a %s answer at once, and what was said is charged", async (form) => {
    const max_completion_tokens = 5_000;
    const { total_used: before } = await usageOf(url(), "sk-metered");
    const used = (expected: (now: number) => boolean) => usedUntil(url(), "sk-metered", expected);
    const controller = new AbortController();
    const asked = say("/delay 20 /repeat 1000", { max_completion_tokens });
    const { completions } = client({ apiKey: "sk-metered" }).chat;
    const { signal } = controller;
    const call =
      form === "stream" ? completions.stream(asked, { signal }).done() : completions.create(asked, { signal });
    const error = errorOf(call);
    await used((now) => now >= before + max_completion_tokens);
    controller.abort();
    expect(await error).toBeInstanceOf(Api.APIUserAbortError);
    expect(await used((now) => now < before + max_completion_tokens)).toBeLessThan(before + 1_000);
  });
}

/** The `ai` SDK with its openai chat model before the playground. */

import { APICallError, generateText, jsonSchema, Output, stepCountIs, streamText, tool, type Tool } from "ai";
import { expect, it } from "vitest";
import { chatModel } from "./stage.ts";

const inputSchema = jsonSchema<{ city: string }>({
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
});
const sunny: Tool<{ city: string }, string> = tool({ inputSchema, execute: () => "sunny" });

export function aiSuite(url: () => string): void {
  const plain = (apiKey?: string, id?: string) => ({ model: chatModel(url(), apiKey, id), maxRetries: 0 });

  it("answers, and tells what it took", async () => {
    const { text, usage, finishReason } = await generateText({ ...plain(), prompt: "Hello there" });
    expect([text, finishReason]).toEqual(["You said: Hello there", "stop"]);
    expect(usage).toMatchObject({ inputTokens: 2, outputTokens: 4, totalTokens: 6 });
  });

  it("streams the same answer", async () => {
    const result = streamText({ ...plain(), prompt: "Hello there" });
    const pieces: string[] = [];
    for await (const piece of result.textStream) pieces.push(piece);
    expect(pieces.length).toBeGreaterThan(1);
    expect(pieces.join("")).toBe("You said: Hello there");
    expect(await result.usage).toMatchObject({ inputTokens: 2, outputTokens: 4 });
  });

  it("calls tools in parallel, in both forms", async () => {
    const asked = {
      ...plain(),
      prompt: "Use both tools for Oslo",
      tools: { get_weather: sunny, get_time: sunny },
    };
    const complete = await generateText(asked);
    const streamed = streamText(asked);
    for (const calls of [complete.toolCalls, await streamed.toolCalls])
      expect(calls).toMatchObject([
        { toolName: "get_weather", input: { city: expect.any(String) } },
        { toolName: "get_time", input: { city: expect.any(String) } },
      ]);
    expect(await streamed.finishReason).toBe("tool-calls");
  });

  it("goes on with what its tools answer", async () => {
    const { text } = await generateText({
      ...plain(),
      prompt: "What is the weather?",
      tools: { get_weather: sunny },
      stopWhen: stepCountIs(2),
    });
    expect(text).toBe("The tool get_weather answered: sunny.");
  });

  it("keeps to a schema", async () => {
    const schema = jsonSchema<{ name: string }>({
      type: "object",
      properties: { name: { type: "string" } },
      required: ["name"],
      additionalProperties: false,
    });
    const result = await generateText({ ...plain(), prompt: "A woman called Ada", output: Output.object({ schema }) });
    expect(result.output).toEqual({ name: "Ada" });
  });

  it.each([
    ["/fail 503", "sk-demo", "demo-chat", 503],
    ["/fail 400", "sk-demo", "demo-chat", 400],
    ["Hi", "sk-nobody", "demo-chat", 401],
    ["Hi", "sk-empty", "demo-chat", 429],
    ["Hi", "sk-demo", "nobody", 404],
  ])("%s by %s for %s is an APICallError of %i", async (prompt, apiKey, id, statusCode) => {
    const error: unknown = await generateText({ ...plain(apiKey, id), prompt }).catch((thrown: unknown) => thrown);
    expect(APICallError.isInstance(error)).toBe(true);
    expect(error).toMatchObject({ statusCode });
  });

  it("tells of an error in the middle of a stream after what was said before", async () => {
    const errors: unknown[] = [];
    const onError = ({ error }: { error: unknown }): void => void errors.push(error);
    const result = streamText({ ...plain(), prompt: "/break 500 /repeat 4", onError });
    let said = "";
    for await (const part of result.fullStream) if (part.type === "text-delta") said += part.text;
    expect(said).toBe("word word");
    expect(errors).toHaveLength(1);
  });

  it("ends at once when it is aborted", async () => {
    const controller = new AbortController();
    const result = streamText({ ...plain(), prompt: "/delay 20 /repeat 1000", abortSignal: controller.signal });
    const types: string[] = [];
    for await (const { type } of result.fullStream) {
      types.push(type);
      if (type === "text-delta") controller.abort();
    }
    expect(types.at(-1)).toBe("abort");
  });
}

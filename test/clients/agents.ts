/** OpenAI's Agents SDK, unmodified: a runner with tools and handoffs, complete and streamed, and sessions of Responses. */

import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import { expect, it } from "vitest";
import { z } from "zod";
import { errorOf } from "./openai/sdk.ts";
import type { Client } from "./servers.ts";

const model = "demo-chat";

const weather = tool({
  name: "get_weather",
  description: "Tells the weather.",
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

const agent = (more: object = {}) => new Agent({ name: "Helper", instructions: "Be kind.", model, ...more });

export const agentsClient: Client = (playground) => {
  const runner = (apiKey = "sk-demo"): Runner => {
    const modelProvider = new OpenAIProvider({ baseURL: `${playground().url}/v1`, apiKey, useResponses: true });
    // Traces would go to OpenAI.
    return new Runner({ modelProvider, tracingDisabled: true });
  };

  it("answers", async () => {
    const result = await runner().run(agent(), "Hello there");
    expect(result.finalOutput).toBe("You said: Hello there");
    expect(result.lastResponseId).toMatch(/^resp_\w+$/);
    expect(result.rawResponses[0]?.usage).toMatchObject({ inputTokens: 4, outputTokens: 4, totalTokens: 8 });
  });

  it("runs tools in a loop, complete and streamed", async () => {
    const asking = agent({ tools: [weather] });
    const complete = await runner().run(asking, "What is the weather in Oslo?");
    expect(complete.finalOutput).toBe("The tool get_weather answered: sunny in Oslo.");
    const streamed = await runner().run(asking, "What is the weather in Oslo?", { stream: true });
    const names: string[] = [];
    let text = "";
    for await (const event of streamed) {
      if (event.type === "run_item_stream_event") names.push(event.name);
      if (event.type === "raw_model_stream_event" && event.data.type === "output_text_delta") text += event.data.delta;
    }
    await streamed.completed;
    expect(text).toBe("The tool get_weather answered: sunny in Oslo.");
    expect(streamed.finalOutput).toBe(text);
    expect(names).toEqual(["tool_called", "tool_output", "message_output_created"]);
  });

  it("reasons, and takes its reasoning back", async () => {
    const modelSettings = { reasoning: { effort: "low", summary: "auto" }, store: false } as const;
    const result = await runner().run(agent({ tools: [weather], modelSettings }), "What is the weather in Oslo?");
    expect(result.finalOutput).toBe("The tool get_weather answered: sunny in Oslo.");
    expect(result.history.map((item) => item.type)).toContain("reasoning");
  });

  it("keeps to a schema", async () => {
    const outputType = z.object({ name: z.string() });
    const result = await runner().run(agent({ outputType }), "A woman called Ada");
    expect(result.finalOutput).toEqual({ name: "Ada" });
  });

  it("hands over to another agent", async () => {
    const other = new Agent({ name: "Weatherman", handoffDescription: "Tells the weather.", model, tools: [weather] });
    const result = await runner().run(agent({ handoffs: [other] }), "Transfer to the weatherman");
    expect(result.lastAgent?.name).toBe("Weatherman");
    expect(result.finalOutput).toEqual(expect.any(String));
  });

  it("goes on from the response before, and in a conversation", async () => {
    const first = await runner().run(agent(), "one");
    const asked = { previousResponseId: first.lastResponseId ?? "" };
    const second = await runner().run(agent(), "two", asked);
    expect(second.finalOutput).toBe("You said: two");
    expect(second.rawResponses[0]?.usage.inputTokens).toBeGreaterThan(3);
    const response = await fetch(`${playground().url}/v1/conversations`, {
      method: "POST",
      headers: { authorization: "Bearer sk-demo", "content-type": "application/json" },
      body: "{}",
    });
    const { id: conversationId } = (await response.json()) as { id: string };
    for (const input of ["one", "two"]) {
      const { finalOutput } = await runner().run(agent({ tools: [weather] }), input, { conversationId });
      expect(finalOutput).toBe(`You said: ${input}`);
    }
  });

  it("is told what fails", async () => {
    expect(await errorOf(runner("sk-nobody").run(agent(), "Hi"))).toMatchObject({ status: 401 });
    expect(await errorOf(runner().run(agent(), "/fail 400"))).toMatchObject({ status: 400 });
    const streamed = await runner().run(agent(), "/break 500 /repeat 4", { stream: true });
    let text = "";
    const read = async (): Promise<void> => {
      for await (const { type, data } of streamed.toStream() as AsyncIterable<{
        readonly type: string;
        readonly data?: { readonly type: string; readonly delta?: string };
      }>)
        if (type === "raw_model_stream_event" && data?.type === "output_text_delta") text += data.delta;
      await streamed.completed;
    };
    expect((await errorOf(read())).message).toContain("500");
    expect(text).toBe("word word");
  });
};

/** OpenAI's Agents SDK, unmodified: a runner with tools and handoffs, complete and streamed, and sessions of Responses. */

import { Agent, OpenAIProvider, type OpenAIProviderOptions, Runner, tool, user } from "@openai/agents";
import OpenAI from "openai";
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

  it("holds a session over a WebSocket: tools in parallel, a compaction, a cut, and the next turn", async () => {
    const url = `${playground().url}/v1`;
    const options: OpenAIProviderOptions = { baseURL: url, apiKey: "sk-demo", useResponsesWebSocket: true };
    const population = tool({
      name: "get_population",
      description: "Tells the population.",
      parameters: z.object({ city: z.string() }),
      execute: async ({ city }) => `a million in ${city}`,
    });
    const asking = agent({ tools: [weather, population] });
    const open = (): { provider: OpenAIProvider; runner: Runner } => {
      const provider = new OpenAIProvider(options);
      return { provider, runner: new Runner({ modelProvider: provider, tracingDisabled: true }) };
    };
    const { provider, runner: over } = open();
    const told = await over.run(asking, "What are the weather and the population of Oslo?");
    expect(told.finalOutput).toMatch(/sunny in Oslo.*a million in Oslo/s);
    expect(told.newItems.map(({ type }) => type).slice(0, 2)).toEqual(["tool_call_item", "tool_call_item"]);
    const { output } = await new OpenAI({ apiKey: "sk-demo", baseURL: url }).responses.compact({
      model,
      previous_response_id: told.lastResponseId ?? "",
    });
    const [summary] = output.filter((item) => item.type === "compaction");
    const history = [
      { type: "compaction" as const, encrypted_content: summary?.encrypted_content ?? "" },
      user("Go on."),
    ];
    expect((await over.run(agent(), history)).finalOutput).toMatch(/Go on\.$/);

    const cut = await over.run(agent(), "/delay 50 /repeat 500", { stream: true });
    for await (const { type } of cut) if (type === "raw_model_stream_event") break;
    await provider.close();
    const { provider: second, runner: again } = open();
    const after = await again.run(agent(), "And now?", { previousResponseId: told.lastResponseId ?? "" });
    expect(after.finalOutput).toBe("You said: And now?");
    await second.close();
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

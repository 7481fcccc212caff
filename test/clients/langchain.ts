/** LangChain's OpenAI model over Responses, unmodified: text, tools, schemas, reasoning, streams, turns and errors. */

import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, type ChatOpenAIFields } from "@langchain/openai";
import { expect, it } from "vitest";
import { z } from "zod";
import { errorOf } from "./openai/sdk.ts";
import type { Client } from "./servers.ts";

const weather = tool(({ city }: { city: string }) => `sunny in ${city}`, {
  name: "get_weather",
  description: "Tells the weather.",
  schema: z.object({ city: z.string() }),
});

const inputTokensOf = ({ usage_metadata }: { readonly usage_metadata?: unknown }): number =>
  (usage_metadata as { readonly input_tokens: number }).input_tokens;

export const langchainClient: Client = (playground) => {
  const chat = (fields: Partial<ChatOpenAIFields> = {}): ChatOpenAI =>
    new ChatOpenAI({
      model: "demo-chat",
      apiKey: "sk-demo",
      useResponsesApi: true,
      maxRetries: 0,
      configuration: { baseURL: `${playground().url}/v1` },
      ...fields,
    });

  it("answers, complete and streamed", async () => {
    const answer = await chat().invoke("Hello there");
    expect(answer.text).toBe("You said: Hello there");
    expect(answer.usage_metadata).toMatchObject({ input_tokens: 2, output_tokens: 4, total_tokens: 6 });
    const pieces: string[] = [];
    let usage: unknown;
    for await (const chunk of await chat().stream("Hello there")) {
      if (chunk.text !== "") pieces.push(chunk.text);
      usage = chunk.usage_metadata ?? usage;
    }
    expect(pieces).toEqual(["You", " said:", " Hello", " there"]);
    expect(usage).toMatchObject({ input_tokens: 2, output_tokens: 4 });
  });

  it("calls tools, and reads their results", async () => {
    const model = chat().bindTools([weather]);
    const asked = new HumanMessage("What is the weather in Oslo?");
    const first = await model.invoke([asked]);
    expect(first.tool_calls).toMatchObject([{ name: "get_weather", args: { city: "Oslo" } }]);
    const results = await Promise.all(
      (first.tool_calls ?? []).map(
        async (call) =>
          new ToolMessage({ content: await weather.invoke(call.args as never), tool_call_id: call.id ?? "" }),
      ),
    );
    expect((await model.invoke([asked, first, ...results])).text).toBe("The tool get_weather answered: sunny in Oslo.");
    let json = "";
    for await (const chunk of await model.stream([asked]))
      json += (chunk.tool_call_chunks ?? []).map(({ args }) => args ?? "").join("");
    expect(JSON.parse(json)).toEqual({ city: "Oslo" });
  });

  it("keeps to a schema", async () => {
    const model = chat().withStructuredOutput(z.object({ name: z.string() }), { method: "jsonSchema" });
    expect(await model.invoke("A woman called Ada")).toEqual({ name: "Ada" });
  });

  it.each([true, false])("reasons, and takes its reasoning back (stored: %s)", async (stored) => {
    // The client sends its own field only to models whose names it knows.
    const model = chat({ modelKwargs: { reasoning: { effort: "low", summary: "auto" } }, zdrEnabled: !stored });
    const asked = new HumanMessage("Think of me");
    const first = await model.invoke([asked]);
    expect(first.text).toBe("You said: Think of me");
    expect(JSON.stringify(first.additional_kwargs)).toContain("summary_text");
    const second = await model.invoke([asked, first, new HumanMessage("And again")]);
    expect(second.text).toBe("You said: And again");
    const forgotten = await model.invoke([asked, new AIMessage(first.text), new HumanMessage("And again")]);
    expect(inputTokensOf(second)).toBeGreaterThan(inputTokensOf(forgotten));
  });

  it("goes on from the response before", async () => {
    const first = await chat().invoke("one");
    const second = await chat().invoke("two", { previous_response_id: String(first.response_metadata["id"]) });
    expect(second.text).toBe("You said: two");
    expect(inputTokensOf(second)).toBeGreaterThan(1);
  });

  it("is told what fails", async () => {
    expect(await errorOf(chat({ apiKey: "sk-nobody" }).invoke("Hi"))).toMatchObject({ status: 401 });
    expect(await errorOf(chat().invoke("/fail 400"))).toMatchObject({ status: 400 });
    let text = "";
    const read = async (): Promise<void> => {
      for await (const chunk of await chat().stream("/break 500 /repeat 4")) text += chunk.text;
    };
    expect((await errorOf(read())).message).toContain("500");
    expect(text).toBe("word word");
  });
};

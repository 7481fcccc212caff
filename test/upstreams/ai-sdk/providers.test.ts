/** The official clients call the official providers' models, whose upstream is the demo, in every pair of formats. */

import type { MessageParam } from "@anthropic-ai/sdk/resources/messages";
import type { Content } from "@google/genai";
import { describe, expect, it } from "vitest";
import { demoModel } from "../../../src/demo/backend.ts";
import { readSignature } from "../../../src/formats/shared/seal.ts";
import type { ModelBackend } from "../../../src/index.ts";
import { clientsOf } from "../../properties/backends-agree/clients.ts";
import { meaningOf, QUESTIONS, RESULT, WEATHER } from "../questions.ts";
import { backendOn, clientsBefore, PROVIDERS, upstreamOf } from "./stage.ts";

const direct = (): ModelBackend => ({ ...demoModel(), models: () => [{ id: "model-a" }] });

describe.each(PROVIDERS)("a model of the provider %s", (provider) => {
  const through = (): ModelBackend => backendOn(upstreamOf(), provider);

  describe.each([
    ["messages", 0],
    ["generate-content", 1],
  ] as const)("to a client of %s", (_name, index) => {
    it.each(Object.entries(QUESTIONS))("%s: the answer is the one that it gets directly", async (_case, question) => {
      const [here, there] = [clientsOf(direct())[index], clientsOf(through())[index]];
      if (!here || !there) throw new Error("A client is missing.");
      const expected = meaningOf(await here.complete(question));
      const complete = await there.complete(question);
      expect(meaningOf(complete)).toEqual(expected);
      expect(meaningOf(await there.stream(question))).toEqual(expected);
      expect(complete.tokens.input).toBeGreaterThan(0);
      expect(complete.tokens.output).toBeGreaterThan(0);
    });

    it("a tool's result reaches the model", async () => {
      const answer = await clientsOf(through())[index]?.complete(RESULT);
      expect(answer?.text).toMatch(/^The tool get_weather answered: .*degrees.*7/);
    });

    it.each([
      ["429", 429],
      ["503", 503],
      ["400", 400],
    ])("the upstream's %s before its first event is one for the caller", async (code, status) => {
      const client = clientsOf(through())[index];
      for (const ask of [client?.complete, client?.stream]) {
        const error: unknown = await ask?.({ turns: [{ text: `/fail ${code}` }] }).catch((thrown: unknown) => thrown);
        expect(client?.statusOf(error)).toBe(status);
      }
    });

    it("the upstream's error in mid-stream is one for the caller", async () => {
      const pieces: string[] = [];
      const question = { turns: [{ text: "/break 503 /repeat 9" }] };
      await expect(clientsOf(through())[index]?.stream(question, (piece) => pieces.push(piece))).rejects.toBeInstanceOf(
        Error,
      );
      expect(pieces.join("")).not.toBe("");
    });
  });

  it("to a client of chat completions: text, a stream, tools, an error", async () => {
    const { openai } = clientsBefore(through());
    const ask = { model: "model-a", messages: [{ role: "user" as const, content: "Hello there" }] };
    const complete = await openai.chat.completions.create(ask);
    expect(complete.choices[0]?.message.content).toContain("Hello there");
    expect(complete.model).toBe("model-a");
    expect(complete.usage?.completion_tokens).toBeGreaterThan(0);
    let text = "";
    for await (const chunk of await openai.chat.completions.create({ ...ask, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? "";
      expect(JSON.stringify(chunk)).not.toContain("upstream");
    }
    expect(text).toBe(complete.choices[0]?.message.content);
    const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const tools = [{ type: "function" as const, function: { name: "get_weather", parameters } }];
    const called = await openai.chat.completions.create({ ...ask, tools, tool_choice: "required" });
    const [message] = called.choices.map((choice) => choice.message);
    expect(called.choices[0]?.finish_reason).toBe("tool_calls");
    const [callId] = (message?.tool_calls ?? []).map(({ id }) => id);
    const next = await openai.chat.completions.create({
      ...ask,
      tools,
      messages: [...ask.messages, message as never, { role: "tool", tool_call_id: callId ?? "", content: "7 degrees" }],
    });
    expect(next.choices[0]?.message.content).toMatch(/get_weather answered: .*7 degrees/);
    const failing = openai.chat.completions.create({ ...ask, messages: [{ role: "user", content: "/fail 429" }] });
    await expect(failing).rejects.toMatchObject({ status: 429 });
  });
});

/** Lists all signatures in a body. */
const sealsIn = (body: unknown): string[] =>
  Array.from(JSON.stringify(body).matchAll(/"(?:signature|thoughtSignature)":"([^"]+)"/g), ([, seal = ""]) => seal);

describe("a thought's seal", () => {
  const thinking = { type: "enabled", budget_tokens: 1_024 } as const;

  it.each(["anthropic", "google"] as const)("of %s comes back to it, by a client of messages", async (provider) => {
    const upstream = upstreamOf();
    const { anthropic } = clientsBefore(backendOn(upstream, provider));
    const asked: MessageParam = { role: "user", content: "Think of me" };
    const request = { model: "model-a", max_tokens: 5_000, thinking };
    for (const stream of [false, true]) {
      const ask = { ...request, messages: [asked] };
      const answer = stream
        ? await anthropic.messages.stream(ask).finalMessage()
        : await anthropic.messages.create(ask);
      const [thought] = answer.content;
      expect(thought).toMatchObject({ type: "thinking", thinking: expect.stringContaining("The user wrote") });
      const turns: MessageParam[] = [
        asked,
        { role: "assistant", content: answer.content },
        { role: "user", content: "Again" },
      ];
      await anthropic.messages.create({ ...request, messages: turns });
      const { signature = "" } = thought as { signature?: string };
      expect(signature).not.toBe("");
      expect(sealsIn(upstream.sent.at(-1)?.body)).toEqual([readSignature(signature, "messages").signature]);
    }
  });

  it.each(["anthropic", "google"] as const)(
    "of %s comes back to it, by a client of generate-content",
    async (provider) => {
      const upstream = upstreamOf();
      const { genai } = clientsBefore(backendOn(upstream, provider));
      const config = { thinkingConfig: { includeThoughts: true, thinkingBudget: 1_024 }, maxOutputTokens: 5_000 };
      const asked: Content = { role: "user", parts: [{ text: "Think of me" }] };
      const answer = await genai.models.generateContent({ model: "model-a", contents: [asked], config });
      const content = answer.candidates?.[0]?.content ?? {};
      const seals = sealsIn(content);
      expect(seals).toHaveLength(1);
      await genai.models.generateContent({
        model: "model-a",
        contents: [asked, content, { role: "user", parts: [{ text: "Again" }] }],
        config,
      });
      expect(sealsIn(upstream.sent.at(-1)?.body)).toEqual(
        seals.map((seal) => readSignature(seal, "generate-content").signature),
      );
    },
  );

  it("on a tool's call comes back to it, complete and streamed", async () => {
    const upstream = upstreamOf();
    const { genai } = clientsBefore(backendOn(upstream, "google"));
    const config = {
      thinkingConfig: { includeThoughts: true, thinkingBudget: 1_024 },
      maxOutputTokens: 5_000,
      tools: [{ functionDeclarations: [{ name: "get_weather", parametersJsonSchema: WEATHER.schema }] }],
    };
    const asked: Content = { role: "user", parts: [{ text: "The weather?" }] };
    for (const stream of [false, true]) {
      const ask = { model: "model-a", contents: [asked], config };
      const parts = [];
      if (stream)
        for await (const chunk of await genai.models.generateContentStream(ask))
          parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
      else parts.push(...((await genai.models.generateContent(ask)).candidates?.[0]?.content?.parts ?? []));
      const call = parts.find(({ functionCall }) => functionCall);
      expect(call?.thoughtSignature).toBeDefined();
      const { id, name } = call?.functionCall ?? {};
      const result: Content = {
        role: "user",
        parts: [{ functionResponse: { id: id ?? "", name: name ?? "", response: { degrees: 7 } } }],
      };
      await genai.models.generateContent({ ...ask, contents: [asked, { role: "model", parts }, result] });
      expect(sealsIn(upstream.sent.at(-1)?.body)).toContain(call?.thoughtSignature);
    }
  });
});

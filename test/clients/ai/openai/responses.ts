/** The provider's default model, which speaks Responses: text, schemas, tools, reasoning, and turns that name earlier items. */

import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, jsonSchema, type LanguageModel, Output, streamText } from "ai";
import { describe, expect, it } from "vitest";
import { png } from "../../png.ts";
import {
  abortSuite,
  choiceSuite,
  conversationSuite,
  piecesSuite,
  refusedStreamSuite,
  takenBackSuite,
} from "../shared.suites.ts";
import { apiErrorOf, type ChatStage, partsOf, tides, weather } from "../shared.ts";

export function responsesSuite({ playground }: Pick<ChatStage, "playground">): void {
  const modelFor = (apiKey: string, id: string): LanguageModel =>
    createOpenAI({ baseURL: `${playground().url}/v1`, apiKey })(id);
  const plain = (apiKey = "sk-demo", id = "demo-chat") => ({ model: modelFor(apiKey, id), maxRetries: 0 });
  const stage: ChatStage = { playground, plain };
  const reasoning = { openai: { forceReasoning: true, reasoningEffort: "low", reasoningSummary: "auto" } } as const;

  describe("text", () => {
    it("answers, counts and names the request", async () => {
      const result = await generateText({ ...plain(), instructions: "Be very brief", prompt: "Hello there" });
      expect([result.text, result.finishReason]).toEqual(["You said: Hello there", "stop"]);
      expect(result.usage).toMatchObject({ inputTokens: 5, outputTokens: 4, totalTokens: 9 });
      expect(result.warnings).toEqual([]);
      expect(result.response.id).toMatch(/^resp_\w+$/);
      expect(result.response.modelId).toBe("demo-chat");
    });

    conversationSuite(stage);
    piecesSuite(stage);

    it("ends at its limit", async () => {
      const { text, finishReason } = await generateText({
        ...plain(),
        maxOutputTokens: 3,
        prompt: "one two three four",
      });
      expect([text, finishReason]).toEqual(["You said: one", "length"]);
    });

    it("shows the model an image and a PDF from bytes", async () => {
      const content = [
        { type: "file" as const, mediaType: "image", data: new Uint8Array(png(12, 34)) },
        {
          type: "file" as const,
          mediaType: "application/pdf",
          data: new Uint8Array(Buffer.from("%PDF-1.4\n%%EOF\n")),
          filename: "a.pdf",
        },
      ];
      const { text } = await generateText({ ...plain(), messages: [{ role: "user", content }] });
      expect(text).toBe(
        'I was shown an image (image/png, 12 × 34 pixels). I was given the document "a.pdf" (application/pdf, 15 bytes).',
      );
    });

    it("is an object of a schema, complete and in growing parts", async () => {
      const schema = jsonSchema<{ name: string }>({
        type: "object",
        properties: { name: { type: "string" } },
        required: ["name"],
        additionalProperties: false,
      });
      const asked = { ...plain(), prompt: "A woman called Ada", output: Output.object({ schema }) };
      expect((await generateText(asked)).output).toEqual({ name: "Ada" });
      const streamed = streamText(asked);
      const partial: unknown[] = [];
      for await (const part of streamed.partialOutputStream) partial.push(part);
      expect(partial.at(-1)).toEqual({ name: "Ada" });
    });
  });

  describe("tools", () => {
    choiceSuite(stage);

    it.each([true, false])("run over several steps to the answer (stored: %s)", async (store) => {
      const result = await generateText({
        ...plain(),
        prompt: "Use every tool for Oslo",
        tools: { weather, tides },
        stopWhen: isStepCount(5),
        providerOptions: { openai: { ...reasoning.openai, store } },
      });
      expect(result.steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "stop"]);
      expect(result.text).toBe("The tool weather answered: sunny in Oslo. The tool tides answered: at noon.");
    });

    it("are streamed in pieces, with the answer to them", async () => {
      const result = streamText({
        ...plain(),
        prompt: "What is the weather in Oslo?",
        tools: { weather },
        stopWhen: isStepCount(3),
        providerOptions: reasoning,
      });
      const parts = await partsOf(result.fullStream);
      const json = parts.map((part) => (part.type === "tool-input-delta" ? part.delta : "")).join("");
      expect(JSON.parse(json)).toEqual({ city: "Oslo" });
      const order = parts.map(({ type }) => type).filter((type, index, all) => type !== all[index - 1]);
      expect(order.filter((type) => type !== "custom")).toEqual([
        "start",
        "start-step",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "tool-input-start",
        "tool-input-delta",
        "tool-input-end",
        "tool-call",
        "tool-result",
        "finish-step",
        "start-step",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
      ]);
      expect(await result.text).toBe("The tool weather answered: sunny in Oslo.");
    });
  });

  describe("a turn that names the items of the one before", () => {
    takenBackSuite(stage, reasoning);

    it("sends their ids alone", async () => {
      const bodies: string[] = [];
      const listening: typeof fetch = (input, init) => {
        bodies.push(typeof init?.body === "string" ? init.body : "");
        return fetch(input, init);
      };
      const provider = createOpenAI({ baseURL: `${playground().url}/v1`, apiKey: "sk-demo", fetch: listening });
      const asked = { role: "user" as const, content: "first" };
      const first = await generateText({ model: provider("demo-chat"), messages: [asked] });
      const again = { role: "user" as const, content: "second" };
      const messages = [asked, ...first.response.messages, again];
      const second = await generateText({ model: provider("demo-chat"), messages });
      expect(second.text).toBe("You said: second");
      expect(second.usage.inputTokens).toBe(5);
      expect(JSON.parse(bodies[1] ?? "")).toMatchObject({
        input: [{ role: "user" }, { type: "item_reference", id: expect.stringMatching(/^msg_/) }, { role: "user" }],
      });
    });
  });

  describe("failures", () => {
    refusedStreamSuite(stage);
    abortSuite(stage);

    it.each([
      ["/fail 503", "sk-demo", "demo-chat", 503],
      ["/fail 400", "sk-demo", "demo-chat", 400],
      ["Hi", "sk-nobody", "demo-chat", 401],
      ["Hi", "sk-empty", "demo-chat", 429],
      ["Hi", "sk-demo", "nobody", 404],
    ])("%s by %s for %s is an APICallError of %i", async (prompt, apiKey, id, statusCode) => {
      const error = await apiErrorOf(generateText({ ...plain(apiKey, id), prompt }));
      expect(error).toMatchObject({ statusCode });
    });

    it("in the middle of a stream come after what was said before, and once", async () => {
      const errors: unknown[] = [];
      const onError = ({ error }: { error: unknown }): void => void errors.push(error);
      const result = streamText({ ...plain(), prompt: "/break 500 /repeat 4", onError });
      let said = "";
      for await (const part of result.fullStream) if (part.type === "text-delta") said += part.text;
      expect(said).toBe("word word");
      expect(errors).toHaveLength(1);
    });
  });
}

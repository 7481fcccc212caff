/** What every provider of the `ai` SDK must do alike. */

import { generateText, isStepCount, streamText, tool } from "ai";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { usageOf, usedUntil } from "../playground.ts";
import { type ChatStage, citySchema, partsOf, tides, weather } from "./shared.ts";

/** Keeps the SDK from warning on the console of models that it does not know, while the tests beside this run. */
export function withoutWarnings(): void {
  beforeAll(() => void vi.stubGlobal("AI_SDK_LOG_WARNINGS", false));
  afterAll(() => void vi.unstubAllGlobals());
}

/** A streamed text. */
export function piecesSuite({ plain }: ChatStage): void {
  it("streams the text in pieces", async () => {
    const result = streamText({ ...plain(), prompt: "Hello there" });
    const pieces: string[] = [];
    for await (const piece of result.textStream) pieces.push(piece);
    expect(pieces.length).toBeGreaterThan(1);
    expect(pieces.join("")).toBe("You said: Hello there");
    expect(await result.finishReason).toBe("stop");
    expect(await result.usage).toMatchObject({ inputTokens: 2, outputTokens: 4, totalTokens: 6 });
  });

  it("streams every part in its order", async () => {
    const parts = await partsOf(streamText({ ...plain(), prompt: "Hi" }).fullStream);
    // The provider's own parts are not the SDK's promise.
    const types = parts.map(({ type }) => type).filter((type) => type !== "custom");
    expect(types).toEqual([
      "start",
      "start-step",
      "text-start",
      "text-delta",
      "text-delta",
      "text-delta",
      "text-end",
      "finish-step",
      "finish",
    ]);
  });
}

/** Calls that their client ends. */
export function abortSuite({ plain, playground }: ChatStage): void {
  it.each(["stream", "complete"] as const)("ends a %s answer at once, and what was said is charged", async (form) => {
    const maxOutputTokens = 5_000;
    const { total_used: before } = await usageOf(playground().url, "sk-metered");
    const used = (expected: (now: number) => boolean) => usedUntil(playground().url, "sk-metered", expected);
    const controller = new AbortController();
    const asked = {
      ...plain("sk-metered"),
      maxOutputTokens,
      prompt: "/delay 20 /repeat 1000",
      abortSignal: controller.signal,
    };
    const answers = {
      stream: async () => (await partsOf(streamText(asked).fullStream)).at(-1)?.type,
      complete: () =>
        generateText(asked).then(
          () => "finish",
          (error: Error) => error.name,
        ),
    };
    const call = answers[form]();
    await used((now) => now >= before + maxOutputTokens);
    controller.abort();
    expect(await call).toBe(form === "stream" ? "abort" : "AbortError");
    expect(await used((now) => now < before + maxOutputTokens)).toBeLessThan(before + 1_000);
  });
}

type ProviderOptions = NonNullable<Parameters<typeof generateText>[0]["providerOptions"]>;

/** Thoughts of one turn in the next, which some provider options ask for. */
export function takenBackSuite({ plain }: ChatStage, providerOptions: ProviderOptions): void {
  it("is taken back in the next turn", async () => {
    const asked = { role: "user" as const, content: "Think of me" };
    const first = await generateText({ ...plain(), messages: [asked], providerOptions });
    const again = { role: "user" as const, content: "And again" };
    const turns = [asked, ...first.response.messages, again];
    const second = await generateText({ ...plain(), messages: turns, providerOptions });
    const answer = { role: "assistant" as const, content: first.text };
    const without = await generateText({ ...plain(), messages: [asked, answer, again], providerOptions });
    expect(second.text).toBe("You said: And again");
    expect(second.usage.inputTokens ?? 0).toBeGreaterThan(without.usage.inputTokens ?? 0);
  });
}

/** A stream that is refused. */
export function refusedStreamSuite({ plain }: ChatStage): void {
  it("come before a stream begins with their status", async () => {
    const errors: unknown[] = [];
    const onError = ({ error }: { error: unknown }): void => void errors.push(error);
    const parts = await partsOf(streamText({ ...plain(), prompt: "/fail 503", onError }).fullStream);
    expect(parts.map(({ type }) => type)).toContain("error");
    expect(errors).toMatchObject([{ statusCode: 503, isRetryable: true }]);
  });
}

/** Several turns. */
export function conversationSuite({ plain }: ChatStage): void {
  it("carries a conversation", async () => {
    const { text, usage } = await generateText({
      ...plain(),
      messages: [
        { role: "user", content: "first question" },
        { role: "assistant", content: "first answer" },
        { role: "user", content: "and more" },
      ],
    });
    expect(text).toBe("You said: and more");
    expect(usage.inputTokens).toBe(6);
  });
}

/** Which tools are called. */
export function choiceSuite({ plain }: ChatStage): void {
  it.each([
    ["required", "Hello", ["weather"]],
    ["none", "Use every tool", []],
    ["auto", "Hello", []],
    [{ type: "tool", toolName: "tides" }, "The weather?", ["tides"]],
  ] as const)("obeys the choice %o", async (toolChoice, prompt, called) => {
    const { toolCalls } = await generateText({ ...plain(), prompt, tools: { weather, tides }, toolChoice });
    expect(toolCalls.map(({ toolName }) => toolName)).toEqual(called);
  });
}

/** Tools that the SDK runs by itself. */
export function runningSuite({ plain }: ChatStage): void {
  it("runs them over several steps to the answer", async () => {
    const result = await generateText({
      ...plain(),
      prompt: "What is the weather in Oslo?",
      tools: { weather, tides },
      stopWhen: isStepCount(5),
    });
    expect(result.steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "stop"]);
    const [first] = result.steps;
    expect(first?.toolCalls).toMatchObject([{ toolName: "weather", input: { city: "Oslo" } }]);
    expect(first?.toolResults).toMatchObject([{ toolName: "weather", output: "sunny in Oslo" }]);
    expect(result.text).toMatch(/^The tool weather answered: .*sunny in Oslo/);
  });

  it("runs calls in parallel", async () => {
    const prompt = "Use every tool for Oslo";
    const { text } = await generateText({ ...plain(), prompt, tools: { weather, tides }, stopWhen: isStepCount(2) });
    expect(text).toMatch(/^The tool weather answered: .*sunny in Oslo.* The tool tides answered: .*at noon/);
  });

  it("tells the model of a tool that fails", async () => {
    const broken = tool({
      description: "Tells the weather.",
      inputSchema: citySchema,
      execute: (): string => {
        throw new Error("the station is down");
      },
    });
    const asked = { ...plain(), prompt: "The weather?", tools: { broken }, stopWhen: isStepCount(2) };
    expect((await generateText(asked)).text).toMatch(/^The tool broken (?:failed|answered): .*the station is down/);
  });
}

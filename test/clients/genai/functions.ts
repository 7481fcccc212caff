/** Functions: who decides on them, what they are called with, and how their answers come back. */

import {
  type CallableTool,
  type Content,
  type FunctionCallingConfig,
  FunctionCallingConfigMode as Mode,
  type FunctionDeclaration,
  type GenerateContentConfig,
  type GenerateContentResponse,
  type Part,
} from "@google/genai";
import { describe, expect, it } from "vitest";
import { bookFlight, expectFlight, tides, weather } from "./schemas.ts";
import { all, partsOf, recordingFetch, say, type Stage, streamedText, textOf } from "./sdk.ts";

const declared = (...functionDeclarations: FunctionDeclaration[]): GenerateContentConfig => ({
  tools: [{ functionDeclarations }],
});
const everyTool = declared(weather, bookFlight, tides);

const callsOf = (response: GenerateContentResponse) => response.functionCalls ?? [];
const namesOf = (response: GenerateContentResponse) => callsOf(response).map(({ name }) => name);

export function functionsSuite(stage: Stage): void {
  describe("choice", () => {
    choiceSuite(stage);
  });
  describe("calls", () => {
    callsSuite(stage);
  });
  describe("responses", () => {
    responsesSuite(stage);
  });
  describe("automatic calling", () => {
    automaticSuite(stage);
  });
}

function choiceSuite({ ask }: Stage): void {
  const choose = (text: string, functionCallingConfig: FunctionCallingConfig): Promise<GenerateContentResponse> =>
    ask(say(text, { ...everyTool, toolConfig: { functionCallingConfig } }));

  it("is the model's where nothing is said: it calls the function that the message speaks of", async () => {
    const response = await ask(say("What is the weather in Oslo?", everyTool));
    expect(namesOf(response)).toEqual(["get_weather"]);
    expect(response.candidates?.[0]?.finishReason).toBe("STOP");
  });

  it("ANY forces one, though the message speaks of none", async () => {
    expect(namesOf(await choose("Hello", { mode: Mode.ANY }))).toHaveLength(1);
  });
}

function callsSuite({ ask, chunks }: Stage): void {
  it("satisfy their schemas, each under its own id", async () => {
    const [first, second, third] = callsOf(await ask(say("Use every tool for Oslo", everyTool)));
    expect(first?.args).toMatchObject({ city: "Oslo" });
    expect(["celsius", "fahrenheit"]).toContain(first?.args?.["unit"]);
    expectFlight(second?.args);
    expect(third?.args).toEqual({});
    expect(new Set([first?.id, second?.id, third?.id]).size).toBe(3);
  });

  it("come whole in a stream, in their order", async () => {
    const streamed = await chunks(say("Use every tool for Oslo", everyTool));
    const parts = streamed.flatMap((chunk) => partsOf(chunk)).filter(({ functionCall }) => functionCall);
    expect(parts.map(({ functionCall }) => functionCall)).toEqual(
      callsOf(await ask(say("Use every tool for Oslo", everyTool))),
    );
  });

  it("carry the signature of the thoughts behind them", async () => {
    const thinking: GenerateContentConfig = { ...everyTool, thinkingConfig: { thinkingBudget: 500 } };
    const complete = partsOf(await ask(say("The weather?", thinking)));
    const streamed = (await chunks(say("The weather?", thinking))).flatMap((chunk) => partsOf(chunk));
    for (const parts of [complete, streamed])
      expect(parts.find(({ functionCall }) => functionCall)?.thoughtSignature).toMatch(/^[\w+/]+=*$/);
  });
}

const responseTo = ({ functionCall }: Part, response: Record<string, unknown>): Part => ({
  functionResponse: { name: functionCall?.name ?? "", response },
});

function responsesSuite({ ask, chunks }: Stage): void {
  const config = declared(weather, tides);

  /** Asks, answers each call by hand, and asks again. */
  async function roundTrip(text: string, respond: (call: Part) => Part, role: string): Promise<string> {
    const question: Content = { role: "user", parts: [{ text }] };
    const first = await ask(say([question], config));
    const turn = first.candidates?.[0]?.content ?? {};
    const answers = partsOf(first).flatMap((part) => (part.functionCall ? [respond(part)] : []));
    const contents = [question, turn, { role, parts: answers }];
    const second = await ask(say(contents, config));
    expect(streamedText(await chunks(say(contents, config)))).toBe(textOf(second));
    return textOf(second);
  }

  it.each(["user", "function", "tool"])("come back with the role %s", async (role) => {
    const told = await roundTrip("The weather?", (call) => responseTo(call, { output: "sunny" }), role);
    expect(told).toBe('The tool get_weather answered: {"output":"sunny"}.');
  });

  it("come back with the ids of their calls, in any order", async () => {
    const first = await ask(say("Use every tool", config));
    const answers = callsOf(first)
      .map(({ id, name }) => ({ functionResponse: { id, name, response: { of: name } } }))
      .toReversed();
    const turn = first.candidates?.[0]?.content ?? {};
    const second = await ask(
      say([{ role: "user", parts: [{ text: "Use every tool" }] }, turn, { parts: answers as Part[] }], config),
    );
    expect(textOf(second)).toBe(
      'The tool get_tides answered: {"of":"get_tides"}. The tool get_weather answered: {"of":"get_weather"}.',
    );
  });

  it("come back with the signature of their call, which is counted", async () => {
    const thinking: GenerateContentConfig = { ...config, thinkingConfig: { thinkingBudget: 500 } };
    const question: Content = { role: "user", parts: [{ text: "The weather?" }] };
    const call = partsOf(await ask(say([question], thinking))).find(({ functionCall }) => functionCall);
    const answer: Content = { role: "user", parts: [responseTo(call ?? {}, { output: "sunny" })] };
    const again = (parts: Part[]) => ask(say([question, { role: "model", parts }, answer], thinking));
    const whole = await again([call ?? {}]);
    const without = await again([{ functionCall: call?.functionCall ?? {} }]);
    expect(textOf(whole)).toBe('The tool get_weather answered: {"output":"sunny"}.');
    expect(whole.usageMetadata?.promptTokenCount).toBeGreaterThan(without.usageMetadata?.promptTokenCount ?? 0);
  });
}

/** Functions that the SDK calls by itself. */
const callable = (asked: string[]): CallableTool => ({
  tool: () => Promise.resolve({ functionDeclarations: [weather, tides] }),
  callTool(calls) {
    asked.push(...calls.map(({ name }) => name ?? ""));
    const answers = calls.map((call) => ({
      functionResponse: { ...call, args: undefined, response: { output: "fine" } },
    }));
    return Promise.resolve(answers as unknown as Part[]);
  },
});

function automaticSuite({ connect }: Stage): void {
  it("runs to the final answer", async () => {
    const asked: string[] = [];
    const { fetch, sent } = recordingFetch();
    const response = await connect({ fetch }).models.generateContent(
      say("Use every tool", { tools: [callable(asked)] }),
    );
    expect(asked).toEqual(["get_weather", "get_tides"]);
    expect(textOf(response)).toBe(
      'The tool get_weather answered: {"output":"fine"}. The tool get_tides answered: {"output":"fine"}.',
    );
    expect(sent).toHaveLength(2);
  });

  it("runs to the final answer in a stream", async () => {
    const asked: string[] = [];
    const stream = await connect().models.generateContentStream(say("The weather?", { tools: [callable(asked)] }));
    const chunks = await all(stream);
    expect(asked).toEqual(["get_weather"]);
    expect(streamedText(chunks)).toBe('The tool get_weather answered: {"output":"fine"}.');
  });
}

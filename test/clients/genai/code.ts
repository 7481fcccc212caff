/** Code that the model writes and has run, by a real Python. */

import type { GenerateContentConfig, GenerateContentResponse } from "@google/genai";
import { beforeAll, expect, it } from "vitest";
import { weather } from "./schemas.ts";
import { partsOf, say, type Stage, textOf } from "./sdk.ts";

const config: GenerateContentConfig = { tools: [{ codeExecution: {} }] };
const besideFunctions = { tools: [{ codeExecution: {} }, { functionDeclarations: [weather] }] };

const SUM = "What is 6 * 7?";
const FAILING = 'Run this:\n```python\nprint(1)\nraise ValueError("no")\n```';

const kindOf = (part: object): string => Object.keys(part).join("+");
const kindsOf = (response: GenerateContentResponse): string[] => partsOf(response).map(kindOf);

export function codeSuite({ ask, chunks }: Stage): void {
  let complete: GenerateContentResponse;
  let streamed: GenerateContentResponse[];
  let failed: GenerateContentResponse;
  // A run takes seconds, so that each is looked at by several tests.
  beforeAll(async () => {
    [complete, streamed, failed] = await Promise.all([
      ask(say(SUM, config)),
      chunks(say(SUM, config)),
      ask(say(FAILING, besideFunctions)),
    ]);
  });

  it("comes with its result, between texts", () => {
    expect(partsOf(complete)).toMatchObject([
      { text: "Let me run that." },
      { executableCode: { language: "PYTHON", code: "print(6 * 7)\n" } },
      { codeExecutionResult: { outcome: "OUTCOME_OK", output: "42\n" } },
      { text: "The code printed: 42." },
    ]);
    expect(kindsOf(complete)).toEqual(["text", "executableCode", "codeExecutionResult", "text"]);
    expect(complete.executableCode).toBe("print(6 * 7)\n");
    expect(complete.codeExecutionResult).toBe("42\n");
    expect(complete.candidates?.[0]?.finishReason).toBe("STOP");
  });

  it("comes in the same order in a stream", () => {
    // While the code runs, empty texts keep the connection alive.
    const parts = streamed.flatMap((chunk) => partsOf(chunk)).filter(({ text }) => text !== "");
    const kinds = parts.map(kindOf).filter((kind, index, all) => kind !== all[index - 1]);
    expect(kinds).toEqual(kindsOf(complete));
    expect(parts.filter(({ text }) => text === undefined)).toEqual(partsOf(complete).slice(1, 3));
    expect(streamed.at(-1)?.usageMetadata).toEqual(complete.usageMetadata);
  });

  it("that fails is told to have failed, also beside functions", () => {
    expect(partsOf(failed)).toMatchObject([
      {},
      { executableCode: { code: 'print(1)\nraise ValueError("no")\n' } },
      {
        codeExecutionResult: {
          outcome: "OUTCOME_FAILED",
          output: expect.stringMatching(/^1\n[^]*ValueError: no/) as unknown,
        },
      },
      { text: expect.stringMatching(/^The code failed: [^]*ValueError: no/) as unknown },
    ]);
  });

  it("goes back up with the next turn", async () => {
    const asked = { role: "user", parts: [{ text: SUM }] };
    const turn = complete.candidates?.[0]?.content ?? {};
    const again = { role: "user", parts: [{ text: "And again" }] };
    const second = await ask(say([asked, turn, again], config));
    expect(textOf(second)).toBe("You said: And again");
    const text = { role: "model", parts: [{ text: textOf(complete) }] };
    const without = await ask(say([asked, text, again], config));
    expect(second.usageMetadata?.promptTokenCount).toBeGreaterThan(without.usageMetadata?.promptTokenCount ?? 0);
  });
}

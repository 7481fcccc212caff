/** What the drivers of all chat formats share: the backend behind them is the same. */

import { expect } from "vitest";
import type { ChatRequest } from "../../src/index.ts";
import type { ScriptedBackend, StageOptions } from "../hosts/stage.ts";
import type { Pieces } from "./driver.ts";

const USAGE = { inputTokens: 3, outputTokens: 4 };

/** What an answer to its end is charged: what its backend says that it took. */
export const COST = (): number => USAGE.inputTokens + USAGE.outputTokens;

export const anyString: string = expect.any(String) as string;

export const chatPlays = (pieces: Pieces): StageOptions => ({
  async *play(request, { signal }) {
    yield* pieces({ prompt: promptIn(request), stream: request.stream, signal });
    if (!signal.aborted) yield { type: "finish", reason: "stop", usage: USAGE };
  },
});

export const promptOfChat = (backend: ScriptedBackend): string => promptIn(backend.asked);

const promptIn = ({ messages }: ChatRequest): string =>
  (messages.at(-1)?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");

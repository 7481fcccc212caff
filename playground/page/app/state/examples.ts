/** Examples to try with a click: common cases and hard cases. */

import type { ChatDraft } from "../formats/draft.ts";
import { FIRST_SCHEMA } from "./draft.ts";

export interface Example {
  readonly name: string;
  /** The result that the user should see. */
  readonly about: string;
  readonly draft: Partial<ChatDraft> & Pick<ChatDraft, "prompt">;
}

export const EXAMPLES: readonly Example[] = [
  {
    name: "Think",
    about: "The model thinks before it answers.",
    draft: { prompt: "/delay 40 How many words did I write?", thinking: "low" },
  },
  {
    name: "Call a tool",
    about: "The model asks for the weather tool. Then you send its result.",
    draft: { prompt: "/delay 60 What is the weather in Paris?", thinking: "low", tools: true },
  },
  {
    name: "JSON by a schema",
    about: "The answer satisfies a JSON Schema.",
    draft: { prompt: "Tell me about Paris", schema: FIRST_SCHEMA },
  },
  {
    name: "Run code",
    about:
      "The model writes Python, has it run, and reads the result. The first run starts Python, which takes seconds.",
    draft: { prompt: "What is (17 + 4) * 2?", codeExecution: true },
  },
];

export const HARD_CASES: readonly Example[] = [
  { name: "/repeat 200", about: "An answer of 200 words.", draft: { prompt: "/repeat 200" } },
  {
    name: "/delay 50",
    about: "50 ms between words: time to stop it.",
    draft: { prompt: "/delay 50 /repeat 100" },
  },
  { name: "/fail 503", about: "An error before the answer begins.", draft: { prompt: "/fail 503" } },
  {
    name: "/break 500",
    about: "An error in the middle of the stream.",
    draft: { prompt: "/break 500 This sentence will never be told to its end." },
  },
  { name: "/silent 5000", about: "Nothing for 5 seconds, then the answer.", draft: { prompt: "/silent 5000 Hello" } },
];

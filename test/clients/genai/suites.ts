/** All that the official SDK tries on a server, by name. */

import { chatSuite } from "./chat.ts";
import { codeSuite } from "./code.ts";
import { countTokensSuite } from "./count-tokens.ts";
import { embeddingSuite } from "./embedding.ts";
import { errorsSuite } from "./errors.ts";
import { functionsSuite } from "./functions.ts";
import { mediaSuite } from "./media.ts";
import { outputSuite } from "./output.ts";
import { pathsSuite } from "./paths.ts";
import { quotaSuite } from "./quota.ts";
import { safetySuite } from "./safety.ts";
import type { Stage } from "./sdk.ts";
import { streamingSuite } from "./streaming.ts";
import { textSuite } from "./text.ts";
import { thinkingSuite } from "./thinking.ts";

type Suite = readonly [name: string, suite: (stage: Stage) => void];

export const suites: readonly Suite[] = [
  ["text", textSuite],
  ["streaming", streamingSuite],
  ["chat", chatSuite],
  ["functions", functionsSuite],
  ["output", outputSuite],
  ["media", mediaSuite],
  ["thinking", thinkingSuite],
  ["safety", safetySuite],
  ["countTokens", countTokensSuite],
  ["embedding", embeddingSuite],
  ["paths", pathsSuite],
  ["errors", errorsSuite],
  ["quota", quotaSuite],
  ["code", codeSuite],
];

/** The `ai` SDK with its google provider, unmodified, against the real playground over a real socket. */

import { afterAll, beforeAll, describe, vi } from "vitest";
import { errorsSuite } from "./ai-google/errors.ts";
import { outputSuite } from "./ai-google/output.ts";
import { reasoningSuite } from "./ai-google/reasoning.ts";
import { stageOf } from "./ai-google/stage.ts";
import { textSuite } from "./ai-google/text.ts";
import { toolsSuite } from "./ai-google/tools.ts";
import { type Playground, startPlayground } from "./playground.ts";

let playground: Playground;
beforeAll(async () => {
  // The SDK's own switch: it warns on the console of models that it does not know.
  vi.stubGlobal("AI_SDK_LOG_WARNINGS", false);
  playground = await startPlayground();
});
afterAll(() => playground.stop());

describe.each([
  ["text", textSuite],
  ["tools", toolsSuite],
  ["reasoning", reasoningSuite],
  ["structured output", outputSuite],
  ["errors", errorsSuite],
] as const)("%s", (_name, suite) => {
  suite(stageOf(() => playground));
});

/** The official Google Gen AI SDK, both majors of it and unmodified, against the real playground in each host, over a real socket. */

import { describe, expect, it, vi } from "vitest";
import { chatSuite } from "./genai/chat.ts";
import { codeSuite } from "./genai/code.ts";
import { countTokensSuite } from "./genai/count-tokens.ts";
import { errorsSuite } from "./genai/errors.ts";
import { functionsSuite } from "./genai/functions.ts";
import { mediaSuite } from "./genai/media.ts";
import { outputSuite } from "./genai/output.ts";
import { pathsSuite } from "./genai/paths.ts";
import { quotaSuite } from "./genai/quota.ts";
import { safetySuite } from "./genai/safety.ts";
import { sdks, type Stage, stageOf } from "./genai/sdk.ts";
import { streamingSuite } from "./genai/streaming.ts";
import { textSuite } from "./genai/text.ts";
import { thinkingSuite } from "./genai/thinking.ts";
import { onEachServer } from "./servers.ts";

type Suite = readonly [name: string, suite: (stage: Stage) => void];

const suites: readonly Suite[] = [
  ["text", textSuite],
  ["streaming", streamingSuite],
  ["chat", chatSuite],
  ["functions", functionsSuite],
  ["output", outputSuite],
  ["media", mediaSuite],
  ["thinking", thinkingSuite],
  ["safety", safetySuite],
  ["countTokens", countTokensSuite],
  ["paths", pathsSuite],
  ["errors", errorsSuite],
  ["quota", quotaSuite],
];

onEachServer((playground, server) =>
  describe.each(sdks)("$name", (sdk) => {
    // The SDK warns on the console of answers that it finds strange.
    const warn = vi.spyOn(console, "warn");

    const code: Suite = ["code", codeSuite];
    const runsCode = sdk === sdks[0] || server.runsCodeFor === "all";
    describe.each(runsCode ? [...suites, code] : suites)("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });

    it("has found nothing strange", () => {
      expect(warn).not.toHaveBeenCalled();
    });
  }),
);

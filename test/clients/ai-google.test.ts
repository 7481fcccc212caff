/** The `ai` SDK with its google provider, unmodified, against the real playground in each host, over a real socket. */

import { beforeAll, describe, vi } from "vitest";
import { errorsSuite } from "./ai-google/errors.ts";
import { outputSuite } from "./ai-google/output.ts";
import { reasoningSuite } from "./ai-google/reasoning.ts";
import { type Stage, stageOf } from "./ai-google/stage.ts";
import { textSuite } from "./ai-google/text.ts";
import { codeSuite, toolsSuite } from "./ai-google/tools.ts";
import { onEachServer, suitesOn } from "./servers.ts";

// The SDK's own switch: it warns on the console of models that it does not know.
beforeAll(() => void vi.stubGlobal("AI_SDK_LOG_WARNINGS", false));

type Suite = readonly [name: string, suite: (stage: Stage) => void];

const suites: readonly Suite[] = [
  ["text", textSuite],
  ["tools", toolsSuite],
  ["reasoning", reasoningSuite],
  ["structured output", outputSuite],
  ["errors", errorsSuite],
  ["code", codeSuite],
];

onEachServer((playground, server) => {
  describe.each(suitesOn(server, suites, ["text", "tools", "errors"]))("%s", (_name, suite) => {
    suite(stageOf(playground));
  });
});

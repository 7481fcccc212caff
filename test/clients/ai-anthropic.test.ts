/** The `ai` SDK with its anthropic provider, unmodified, against the real playground in each host, over a real socket. */

import { beforeAll, describe, vi } from "vitest";
import { errorsSuite } from "./ai-anthropic/errors.ts";
import { outputSuite } from "./ai-anthropic/output.ts";
import { reasoningSuite } from "./ai-anthropic/reasoning.ts";
import { stageOf } from "./ai-anthropic/stage.ts";
import { textSuite } from "./ai-anthropic/text.ts";
import { toolsSuite } from "./ai-anthropic/tools.ts";
import { onEachServer, suitesOn } from "./servers.ts";

// The SDK's own switch: it warns on the console of models that it does not know.
beforeAll(() => void vi.stubGlobal("AI_SDK_LOG_WARNINGS", false));

const suites = [
  ["text", textSuite],
  ["tools", toolsSuite],
  ["reasoning", reasoningSuite],
  ["structured output", outputSuite],
  ["errors", errorsSuite],
] as const;

onEachServer((playground, server) =>
  describe.each(suitesOn(server, suites, ["text", "tools", "errors"]))("%s", (_name, suite) => {
    suite(stageOf(playground));
  }),
);

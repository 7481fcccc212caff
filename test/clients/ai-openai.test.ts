/** The `ai` SDK with its openai image models, unmodified, against the real playground in each host, over a real socket. */

import { beforeAll, describe, vi } from "vitest";
import { editingSuite } from "./ai-openai/editing.ts";
import { errorsSuite } from "./ai-openai/errors.ts";
import { generatingSuite } from "./ai-openai/generating.ts";
import { stageOf } from "./ai-openai/stage.ts";
import { onEachServer, suitesOn } from "./servers.ts";

// The SDK's own switch: it warns on the console of models that it does not know.
beforeAll(() => void vi.stubGlobal("AI_SDK_LOG_WARNINGS", false));

const suites = [
  ["generating", generatingSuite],
  ["editing", editingSuite],
  ["errors", errorsSuite],
] as const;

onEachServer((playground, server) =>
  describe.each(suitesOn(server, suites, ["editing", "errors"]))("%s", (_name, suite) => {
    suite(stageOf(playground));
  }),
);

/** The `ai` SDK with its anthropic provider, unmodified. */

import { describe } from "vitest";
import type { Client } from "../../servers.ts";
import { withoutWarnings } from "../shared.suites.ts";
import { errorsSuite } from "./errors.ts";
import { outputSuite } from "./output.ts";
import { reasoningSuite } from "./reasoning.ts";
import { stageOf } from "./stage.ts";
import { textSuite } from "./text.ts";
import { toolsSuite } from "./tools.ts";

const suites = [
  ["text", textSuite],
  ["tools", toolsSuite],
  ["reasoning", reasoningSuite],
  ["structured output", outputSuite],
  ["errors", errorsSuite],
] as const;

export const anthropicProvider: Client = (playground) => {
  withoutWarnings();
  describe.each(suites)("%s", (_name, suite) => {
    suite(stageOf(playground));
  });
};

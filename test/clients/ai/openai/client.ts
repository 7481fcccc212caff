/** The `ai` SDK with its openai image models, unmodified. */

import { describe } from "vitest";
import { type Client, suitesOn } from "../../servers.ts";
import { withoutWarnings } from "../shared.suites.ts";
import { editingSuite } from "./editing.ts";
import { errorsSuite } from "./errors.ts";
import { generatingSuite } from "./generating.ts";
import { stageOf } from "./stage.ts";

const suites = [
  ["generating", generatingSuite],
  ["editing", editingSuite],
  ["errors", errorsSuite],
] as const;

export const openaiProvider: Client = (playground, server) => {
  withoutWarnings();
  describe.each(suitesOn(server, suites, ["editing", "errors"]))("%s", (_name, suite) => {
    suite(stageOf(playground));
  });
};

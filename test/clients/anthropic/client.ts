/** The official Anthropic SDK, both majors of it and unmodified. */

import { describe } from "vitest";
import { type Client, suitesOfMajor } from "../servers.ts";
import { sdks, stageOf } from "./sdk.ts";
import { suitesOf } from "./suites.ts";

export const anthropicClient: Client = (playground) =>
  describe.each(sdks)("$name", (sdk) => {
    const ofOlder = ["streaming", "tools", "errors"];
    describe.each(suitesOfMajor(sdk === sdks[0], suitesOf(sdk), ofOlder))("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });
  });

/** The official Anthropic SDK, both majors of it and unmodified. */

import { describe } from "vitest";
import { type Client, suitesOn, versionsOn } from "../servers.ts";
import { sdks, stageOf } from "./sdk.ts";
import { suitesOf } from "./suites.ts";

export const anthropicClient: Client = (playground, server) =>
  describe.each(versionsOn(server, sdks))("$name", (sdk) => {
    describe.each(suitesOn(server, suitesOf(sdk), ["streaming", "tools", "errors"]))("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });
  });

/** The official OpenAI SDK, both majors of it and unmodified. */

import { describe } from "vitest";
import { type Client, suitesOn, versionsOn } from "../servers.ts";
import { sdks, stageOf } from "./sdk.ts";
import { suites } from "./suites.ts";

export const openaiClient: Client = (playground, server) =>
  describe.each(versionsOn(server, sdks))("$name", (sdk) => {
    describe.each(suitesOn(server, suites, ["uploading", "streaming", "responses", "errors"]))("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });
  });

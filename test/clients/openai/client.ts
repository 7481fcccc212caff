/** The official OpenAI SDK, both majors of it and unmodified. */

import { describe } from "vitest";
import { type Client, suitesOfMajor } from "../servers.ts";
import { sdks, stageOf } from "./sdk.ts";
import { suites } from "./suites.ts";

export const openaiClient: Client = (playground) =>
  describe.each(sdks)("$name", (sdk) => {
    const ofOlder = ["uploading", "streaming", "responses", "responses over a WebSocket", "errors"];
    describe.each(suitesOfMajor(sdk === sdks[0], suites, ofOlder))("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });
  });

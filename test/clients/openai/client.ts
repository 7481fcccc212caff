/** The official OpenAI SDK, both majors of it and unmodified. */

import { describe } from "vitest";
import { editingSuite } from "./editing.ts";
import { errorsSuite } from "./errors.ts";
import { generatingSuite } from "./generating.ts";
import { quotaSuite } from "./quota.ts";
import { sdks, stageOf } from "./sdk.ts";
import { streamingSuite } from "./streaming.ts";
import { uploadingSuite } from "./uploading.ts";
import { type Client, suitesOn, versionsOn } from "../servers.ts";

const suites = [
  ["generating", generatingSuite],
  ["uploading", uploadingSuite],
  ["editing", editingSuite],
  ["streaming", streamingSuite],
  ["errors", errorsSuite],
  ["quota", quotaSuite],
] as const;

export const openaiClient: Client = (playground, server) =>
  describe.each(versionsOn(server, sdks))("$name", (sdk) => {
    describe.each(suitesOn(server, suites, ["uploading", "streaming", "errors"]))("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });
  });

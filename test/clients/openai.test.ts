/** The official OpenAI SDK, both majors of it and unmodified, against the real playground in each host, over a real socket. */

import { describe } from "vitest";
import { editingSuite } from "./openai/editing.ts";
import { errorsSuite } from "./openai/errors.ts";
import { generatingSuite } from "./openai/generating.ts";
import { quotaSuite } from "./openai/quota.ts";
import { sdks, stageOf } from "./openai/sdk.ts";
import { streamingSuite } from "./openai/streaming.ts";
import { uploadingSuite } from "./openai/uploading.ts";
import { onEachServer, suitesOn, versionsOn } from "./servers.ts";

const suites = [
  ["generating", generatingSuite],
  ["uploading", uploadingSuite],
  ["editing", editingSuite],
  ["streaming", streamingSuite],
  ["errors", errorsSuite],
  ["quota", quotaSuite],
] as const;

onEachServer((playground, server) =>
  describe.each(versionsOn(server, sdks))("$name", (sdk) => {
    describe.each(suitesOn(server, suites, ["uploading", "streaming", "errors"]))("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });
  }),
);

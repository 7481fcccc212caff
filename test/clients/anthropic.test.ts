/** The official Anthropic SDK, both majors of it and unmodified, against the real playground in each host, over a real socket. */

import { describe } from "vitest";
import { sdks, stageOf } from "./anthropic/sdk.ts";
import { suitesOf } from "./anthropic/suites.ts";
import { onEachServer, suitesOn, versionsOn } from "./servers.ts";

onEachServer((playground, server) =>
  describe.each(versionsOn(server, sdks))("$name", (sdk) => {
    describe.each(suitesOn(server, suitesOf(sdk), ["streaming", "tools", "errors"]))("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });
  }),
);

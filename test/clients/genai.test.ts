/** The official Google Gen AI SDK, both majors of it and unmodified, against the real playground in each host, over a real socket. */

import { describe, expect, it, vi } from "vitest";
import { sdks, stageOf } from "./genai/sdk.ts";
import { suites } from "./genai/suites.ts";
import { onEachServer, suitesOn, versionsOn } from "./servers.ts";

onEachServer((playground, server) =>
  describe.each(versionsOn(server, sdks))("$name", (sdk) => {
    // The SDK warns on the console of answers that it finds strange.
    const warn = vi.spyOn(console, "warn");

    const everywhere = ["streaming", "functions", "media", "errors"];
    describe.each(suitesOn(server, suites, everywhere))("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });

    it("has found nothing strange", () => {
      expect(warn).not.toHaveBeenCalled();
    });
  }),
);

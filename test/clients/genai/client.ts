/** The official Google Gen AI SDK, both majors of it and unmodified. */

import { afterAll, beforeAll, describe, expect, it, type Mock, vi } from "vitest";
import { type Client, suitesOn, versionsOn } from "../servers.ts";
import { sdks, stageOf } from "./sdk.ts";
import { suites } from "./suites.ts";

export const genaiClient: Client = (playground, server) =>
  describe.each(versionsOn(server, sdks))("$name", (sdk) => {
    // The SDK warns on the console of answers that it finds strange.
    let warn: Mock;
    beforeAll(() => void (warn = vi.spyOn(console, "warn")));
    afterAll(() => warn.mockRestore());

    const everywhere = ["streaming", "functions", "media", "errors"];
    describe.each(suitesOn(server, suites, everywhere))("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });

    it("has found nothing strange", () => {
      expect(warn).not.toHaveBeenCalled();
    });
  });

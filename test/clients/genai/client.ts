/** The official Google Gen AI SDK, both majors of it and unmodified. */

import { afterAll, beforeAll, describe, expect, it, type Mock, vi } from "vitest";
import { type Client, suitesOfMajor } from "../servers.ts";
import { sdks, stageOf } from "./sdk.ts";
import { suites } from "./suites.ts";

export const genaiClient: Client = (playground) =>
  describe.each(sdks)("$name", (sdk) => {
    // The SDK warns on the console of answers that it finds strange.
    let warn: Mock;
    beforeAll(() => void (warn = vi.spyOn(console, "warn")));
    afterAll(() => warn.mockRestore());

    const ofOlder = ["streaming", "functions", "media", "errors"];
    describe.each(suitesOfMajor(sdk === sdks[0], suites, ofOlder))("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });

    it("has found nothing strange", () => {
      expect(warn).not.toHaveBeenCalled();
    });
  });

/**
 * The official clients, unmodified, before a gateway that relays to a second one, in every pair of formats: each runs all that it can
 * do directly. What the conversions of fields make differ stands in a list, case by case; where both speak the same, that is empty.
 */

import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { sdks as anthropicSdks, stageOf as anthropicStageOf } from "./anthropic/sdk.ts";
import { suitesOf as anthropicSuitesOf } from "./anthropic/suites.ts";
import { aiSuite } from "./chat-completions/ai.ts";
import { demoSuite } from "./chat-completions/demo.ts";
import { sdks as genaiSdks, stageOf as genaiStageOf } from "./genai/sdk.ts";
import { suites as genaiSuites } from "./genai/suites.ts";
import { sdks as openaiSdks } from "./openai/sdk.ts";
import { DECLARED } from "./pairs/declared.ts";
import { describeHeld, type Held } from "./pairs/differences.ts";
import { BEFORE_CHAT_COMPLETIONS, POLICIES, SAME_FORMAT } from "./pairs/policies.ts";
import { type Format, FORMATS, type Relayed, relayed } from "./pairs/relayed.ts";
import type { Site } from "./playground.ts";

/** What each client runs on a site: of its majors, the newest, which stands first. */
const CLIENTS: Readonly<Record<Format, (site: () => Site) => void>> = {
  messages(site) {
    for (const sdk of anthropicSdks.slice(0, 1))
      describe.each(anthropicSuitesOf(sdk))("%s", (_name, suite) => {
        suite(anthropicStageOf(sdk, site));
      });
  },
  "generate-content"(site) {
    for (const sdk of genaiSdks.slice(0, 1)) {
      // The SDK warns on the console about answers that it finds strange.
      const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
      // Relays of embeddings have official clients of their own, in test/upstreams/relay/embeddings.test.ts.
      describe.each(genaiSuites.filter(([name]) => name !== "embedding"))("%s", (_name, suite) => {
        suite(genaiStageOf(sdk, site));
      });
      it("has found nothing strange", () => {
        expect(warn).not.toHaveBeenCalled();
      });
    }
  },
  "chat-completions"(site) {
    // That SDK's own switch: it warns on the console of models that it does not know.
    beforeAll(() => void vi.stubGlobal("AI_SDK_LOG_WARNINGS", false));
    for (const sdk of openaiSdks.slice(0, 1)) demoSuite(sdk, () => site().url);
    describe("ai", () => {
      aiSuite(() => site().url);
    });
  },
};

describe.each(FORMATS)("relayed as %s", (upstream, version) => {
  let pair: Relayed;
  beforeAll(async () => {
    pair = await relayed(upstream, version);
  });
  afterAll(() => pair[Symbol.asyncDispose]());

  for (const [caller] of FORMATS) {
    const held: Held = {
      caller,
      differences: DECLARED[upstream][caller],
      policies: [
        ...POLICIES[caller],
        ...(caller === upstream ? SAME_FORMAT[caller] : []),
        ...(upstream === "chat-completions" ? BEFORE_CHAT_COMPLETIONS[caller] : []),
      ],
      records: () => pair.records,
    };
    describeHeld(held, () => CLIENTS[caller](() => pair));
  }
});

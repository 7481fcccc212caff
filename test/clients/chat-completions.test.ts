/** Chat completions by the official clients, unmodified, over a real socket: before the playground, and a scripted backend. */

import { afterAll, beforeAll, describe, vi } from "vitest";
import { aiSuite } from "./chat-completions/ai.ts";
import { demoSuite } from "./chat-completions/demo.ts";
import { scriptedSuite } from "./chat-completions/scripted.ts";
import { sdks } from "./openai/sdk.ts";
import { type Playground, startPlayground } from "./playground.ts";

// The SDK's own switch: it warns on the console of models that it does not know.
beforeAll(() => void vi.stubGlobal("AI_SDK_LOG_WARNINGS", false));

describe("on the playground", () => {
  let playground: Playground;
  beforeAll(async () => void (playground = await startPlayground()));
  afterAll(() => playground.stop());
  const url = (): string => playground.url;

  describe.each(sdks)("$name", (sdk) => {
    demoSuite(sdk, url);
  });
  describe("ai", () => {
    aiSuite(url);
  });
});

describe("with a scripted backend", () => {
  scriptedSuite();
});

/** The official OpenAI SDK, both majors of it and unmodified, against the real playground over a real socket. */

import { afterAll, beforeAll, describe } from "vitest";
import { editingSuite } from "./openai/editing.ts";
import { errorsSuite } from "./openai/errors.ts";
import { generatingSuite } from "./openai/generating.ts";
import { quotaSuite } from "./openai/quota.ts";
import { sdks, stageOf } from "./openai/sdk.ts";
import { streamingSuite } from "./openai/streaming.ts";
import { type Playground, startPlayground } from "./playground.ts";

const suites = [
  ["generating", generatingSuite],
  ["editing", editingSuite],
  ["streaming", streamingSuite],
  ["errors", errorsSuite],
  ["quota", quotaSuite],
] as const;

describe.each(sdks)("$name", (sdk) => {
  let playground: Playground;
  beforeAll(async () => {
    playground = await startPlayground();
  });
  afterAll(() => playground.stop());

  describe.each(suites)("%s", (_name, suite) => {
    suite(stageOf(sdk, () => playground));
  });
});

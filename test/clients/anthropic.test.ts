/** The official Anthropic SDK, both majors of it and unmodified, against the real playground in each host, over a real socket. */

import { describe } from "vitest";
import { countTokensSuite } from "./anthropic/count-tokens.ts";
import { errorsSuite } from "./anthropic/errors.ts";
import { mediaSuite } from "./anthropic/media.ts";
import { messagesSuite } from "./anthropic/messages.ts";
import { quotaSuite } from "./anthropic/quota.ts";
import { sdks, type Stage, stageOf } from "./anthropic/sdk.ts";
import { streamingSuite } from "./anthropic/streaming.ts";
import { thinkingSuite } from "./anthropic/thinking.ts";
import { threadsSuite } from "./anthropic/threads.ts";
import { toolResultsSuite } from "./anthropic/tool-results.ts";
import { toolRunnerSuite } from "./anthropic/tool-runner.ts";
import { toolsSuite } from "./anthropic/tools.ts";
import { onEachServer } from "./servers.ts";

type Suite = readonly [name: string, suite: (stage: Stage) => void];

const suites: readonly Suite[] = [
  ["messages", messagesSuite],
  ["countTokens", countTokensSuite],
  ["streaming", streamingSuite],
  ["tools", toolsSuite],
  ["tool results", toolResultsSuite],
  ["tool runner", toolRunnerSuite],
  ["thinking", thinkingSuite],
  ["media", mediaSuite],
  ["errors", errorsSuite],
  ["quota", quotaSuite],
];

onEachServer((playground) =>
  describe.each(sdks)("$name", (sdk) => {
    const threads: Suite = ["threads", threadsSuite];
    describe.each(sdk.hasThreads ? [...suites, threads] : suites)("%s", (_name, suite) => {
      suite(stageOf(sdk, playground));
    });
  }),
);

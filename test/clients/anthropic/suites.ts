/** All that the official SDK tries on a server, by name. */

import { countTokensSuite } from "./count-tokens.ts";
import { errorsSuite } from "./errors.ts";
import { mediaSuite } from "./media.ts";
import { messagesSuite } from "./messages.ts";
import { quotaSuite } from "./quota.ts";
import type { Sdk, Stage } from "./sdk.ts";
import { streamingSuite } from "./streaming.ts";
import { thinkingSuite } from "./thinking.ts";
import { threadsSuite } from "./threads.ts";
import { toolResultsSuite } from "./tool-results.ts";
import { toolRunnerSuite } from "./tool-runner.ts";
import { toolsSuite } from "./tools.ts";

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

const threads: Suite = ["threads", threadsSuite];

export const suitesOf = ({ hasThreads }: Sdk): readonly Suite[] => (hasThreads ? [...suites, threads] : suites);

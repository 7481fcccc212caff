/** The `ai` SDK with its google provider, unmodified. */

import { createGoogle } from "@ai-sdk/google";
import type { EmbeddingModel } from "ai";
import { describe } from "vitest";
import type { Client } from "../../servers.ts";
import { embeddingSuite } from "../embedding.ts";
import { withoutWarnings } from "../shared.suites.ts";
import { errorsSuite } from "./errors.ts";
import { outputSuite } from "./output.ts";
import { reasoningSuite } from "./reasoning.ts";
import { type Stage, stageOf } from "./stage.ts";
import { textSuite } from "./text.ts";
import { codeSuite, toolsSuite } from "./tools.ts";

type Suite = readonly [name: string, suite: (stage: Stage) => void];

const suites: readonly Suite[] = [
  ["text", textSuite],
  ["tools", toolsSuite],
  ["reasoning", reasoningSuite],
  ["structured output", outputSuite],
  ["errors", errorsSuite],
  ["code", codeSuite],
  ["embedding", ({ playground }) => embeddingSuite(() => embeddingModel(playground().url))],
];

const embeddingModel = (url: string): EmbeddingModel =>
  createGoogle({ baseURL: `${url}/v1beta`, apiKey: "sk-demo" }).embedding("demo-embedding");

export const googleProvider: Client = (playground) => {
  withoutWarnings();
  describe.each(suites)("%s", (_name, suite) => {
    suite(stageOf(playground));
  });
};

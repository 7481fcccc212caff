/** The `ai` SDK with its openai provider: the default model, images and embeddings, unmodified. */

import { createOpenAI } from "@ai-sdk/openai";
import type { EmbeddingModel } from "ai";
import { describe } from "vitest";
import type { Client } from "../../servers.ts";
import { embeddingSuite } from "../embedding.ts";
import { withoutWarnings } from "../shared.suites.ts";
import { generatingSuite } from "./generating.ts";
import { responsesSuite } from "./responses.ts";
import { type Stage, stageOf } from "./stage.ts";

type Suite = readonly [name: string, suite: (stage: Stage) => void];

const suites: readonly Suite[] = [
  ["generating", generatingSuite],
  ["responses", responsesSuite],
  ["embedding", ({ playground }) => embeddingSuite(() => embeddingModel(playground().url))],
];

const embeddingModel = (url: string): EmbeddingModel =>
  createOpenAI({ baseURL: `${url}/v1`, apiKey: "sk-demo" }).embedding("demo-embedding");

export const openaiProvider: Client = (playground) => {
  withoutWarnings();
  describe.each(suites)("%s", (_name, suite) => {
    suite(stageOf(playground));
  });
};

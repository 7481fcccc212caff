/** The recorded generate-content cases about what is noted on an answer, and how it may end (spec 2.9). */

import {
  type FinishReason,
  GatewayError,
  type HarmCategory,
  type HarmProbability,
  type PromptFeedback,
  type SafetyRating,
} from "../../../src/index.ts";
import { finish, note, type Recorded, start, text } from "./recorded-events.ts";

const rating = (category: HarmCategory, probability: HarmProbability, blocked?: boolean): SafetyRating => ({
  category,
  probability,
  ...(blocked !== undefined && { blocked }),
});

/** Ended before its end for a reason that a filter or the model gave. */
const ended = (reason: FinishReason): Recorded => [start(`resp_${reason}`, 6), text("Well"), finish(reason, 2)];

/** Not answered at all. */
const blocked = (blockReason: NonNullable<PromptFeedback["blockReason"]>): Recorded => [
  start(`resp_blocked_${blockReason}`, 6),
  { type: "prompt-feedback", blockReason, ratings: [rating("dangerous-content", "high", true)] },
  { type: "finish", reason: "content-filter", usage: { outputTokens: 0 } },
];

export const NOTES: Readonly<Record<string, Recorded>> = {
  safety: [
    start("resp_safety", 6),
    { type: "prompt-feedback", ratings: [rating("harassment", "negligible")] },
    text("Why did"),
    note({
      type: "safety",
      ratings: [
        rating("harassment", "negligible"),
        rating("hate-speech", "low", false),
        rating("sexually-explicit", "medium"),
        rating("dangerous-content", "high", true),
        rating("civic-integrity", "unspecified"),
        rating("unspecified", "negligible"),
        rating("derogatory", "negligible"),
        rating("toxicity", "negligible"),
        rating("violence", "negligible"),
        rating("sexual", "negligible"),
        rating("medical", "negligible"),
        rating("dangerous", "negligible"),
      ],
    }),
    finish("content-filter", 3),
  ],
  grounding: [
    start("resp_grounding", 5),
    text("The home team won."),
    note({
      type: "grounding",
      chunks: [{ uri: "https://news.example/1", title: "news.example" }, { uri: "https://sport.example/2" }],
      supports: [
        {
          chunkIndices: [0, 1],
          confidenceScores: [0.75, 1],
          segment: { partIndex: 0, start: 0, end: 18, text: "The home team won." },
        },
      ],
      searchQueries: ["who won"],
      searchEntryPoint: { renderedContent: "<b>who won</b>", sdkBlob: "W10=" },
      dynamicRetrievalScore: 0.5,
    }),
    finish("stop", 5),
  ],
  citations: [
    start("resp_citations", 7),
    text("Call me Ishmael."),
    note({
      type: "citations",
      citations: [{ start: 0, end: 16, uri: "https://books.example/whale", license: "public domain" }],
    }),
    text(" Some years ago"),
    note({ type: "citations", citations: [{ start: 16, end: 31, uri: "https://books.example/whale" }] }),
    finish("stop", 8),
  ],
  attributions: [
    start("resp_attributions", 8),
    text("That it works."),
    note({
      type: "attributions",
      attributions: [
        { passage: { id: "passage-1", partIndex: 0 }, text: "It works." },
        { chunk: { source: "corpora/c/documents/d", chunk: "corpora/c/documents/d/chunks/1" }, text: "It does." },
      ],
    }),
    finish("stop", 4),
  ],
  "url-context": [
    start("resp_urls", 200),
    note({ type: "retrieved-urls", urls: ["https://a.example/"] }),
    note({
      type: "url-context",
      urls: [
        { url: "https://a.example/", status: "success" },
        { url: "https://b.example/", status: "error" },
        { url: "https://c.example/", status: "unspecified" },
      ],
    }),
    text("Only one can be read."),
    note({ type: "token-count", tokens: 6 }),
    finish("stop", 6),
  ],
  usage: [
    start("resp_usage", 100),
    text("Counted."),
    {
      type: "finish",
      reason: "stop",
      usage: {
        inputTokens: 100,
        outputTokens: 50,
        cacheReadTokens: 40,
        reasoningTokens: 20,
        toolUseTokens: 10,
        details: {
          input: [
            { modality: "text", tokens: 50 },
            { modality: "image", tokens: 10 },
            { modality: "video", tokens: 10 },
            { modality: "audio", tokens: 10 },
            { modality: "document", tokens: 10 },
          ],
          output: [{ modality: "text", tokens: 30 }],
          cacheRead: [{ modality: "text", tokens: 40 }],
          toolUse: [{ modality: "unspecified", tokens: 10 }],
        },
      },
    },
  ],
};

export const ENDINGS: Readonly<Record<string, Recorded>> = {
  "finish-safety": ended("content-filter"),
  "blocked-safety": blocked("safety"),
  "error-mid-stream": [
    start("resp_error", 9),
    text("Let me th"),
    new GatewayError("backend_unavailable", "The model is overloaded."),
  ],
};

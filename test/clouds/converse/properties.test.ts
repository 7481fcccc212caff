/** Laws of requests by Converse: Bedrock takes what is sent, and nothing of a conversation is lost untold. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { converseCodec } from "../../../src/clouds/converse/upstream.ts";
import type { ChatRequest, Part } from "../../../src/index.ts";
import { checkConverse } from "../../agents/converse.rules.ts";
import { chatRequest as messages } from "../../properties/arbitraries.ts";
import { chatRequest as chatCompletions } from "../../properties/chat-completions.arbitraries.request.ts";
import { chatRequest as generateContent } from "../../properties/generate-content.arbitraries.request.ts";
import { chatRequest as responses } from "../../properties/responses.arbitraries.request.ts";

const MODELS = [
  "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
  "anthropic.claude-3-haiku-20240307-v1:0",
  "global.anthropic.claude-opus-4-7-v1",
  "us.amazon.nova-2-lite-v1:0",
  "amazon.nova-micro-v1:0",
  "us.openai.gpt-5.6-luna",
  "openai.gpt-oss-120b-1:0",
  "us.meta.llama4-maverick-17b-instruct-v1:0",
  "mistral.mistral-large-2407-v1:0",
  "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3",
] as const;

const model = fc.constantFrom(...MODELS);

/** Bedrock's limits on these are the caller's to keep: a conversation without a user, names of tools, pairs of calls and results. */
const OF_CALLER =
  /must start with a user message|is no name of a tool|no name of a tool|toolResult blocks|Too many cache points|must be one of the following: object/;

/** Returns all texts in a value. */
function textsIn(value: unknown, found: Set<string> = new Set()): Set<string> {
  if (typeof value === "string") found.add(value);
  else if (typeof value === "object" && value !== null) for (const inner of Object.values(value)) textsIn(inner, found);
  return found;
}

/** Returns the words of a part that a model must read, where none of its fields is told. */
const wordsOf = (part: Part): readonly string[] =>
  part.type === "text" || part.type === "refusal" ? [part.text] : part.type === "tool-call" ? [part.name] : [];

describe.each([
  ["messages", messages],
  ["generate-content", generateContent],
  ["chat-completions", chatCompletions],
  ["responses", responses],
] as const)("a request of %s", (_name, requests) => {
  it("is one that Bedrock takes, with all words that are not told as lost", () =>
    fc.assert(
      fc.property(requests, model, fc.boolean(), (asked, name, stream) => {
        const request: ChatRequest = { ...asked, model: name, stream };
        const { body, conversions } = converseCodec({}, {}).encodeRequest(request);
        if (conversions.some(({ conversion }) => conversion === "rejected")) return;
        let refusal = "";
        try {
          checkConverse({ body, model: name, streamed: stream });
        } catch (error) {
          refusal = String(error);
        }
        expect(OF_CALLER.test(refusal) ? "" : refusal).toBe("");
        const sent = textsIn(body);
        const told = new Set(conversions.map(({ field }) => field));
        const words = [...request.system, ...request.messages.flatMap(({ parts }) => parts)].flatMap(wordsOf);
        const lost = words.filter(
          (text) => text !== "" && !sent.has(text) && !(text.trim() === "" && told.has("messages.text")),
        );
        // White space at the end of the last turn is the one change of a text.
        expect(lost.filter((text) => !(told.has("messages.prefill") && sent.has(text.trimEnd())))).toEqual([]);
        const isOffered = !told.has("toolChoice.names") && request.toolChoice?.type !== "none";
        const offered = isOffered ? request.tools.filter(({ type }) => type === "function") : [];
        const names = textsIn(body["toolConfig"]);
        expect(offered.filter((tool) => !("name" in tool && names.has(tool.name ?? "")))).toEqual([]);
      }),
      { numRuns: 200 },
    ));
});

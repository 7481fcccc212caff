/** Messages requests on their way into generate-content: what is not declared lost arrives. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeRequest as decodeGenerateContent } from "../../src/formats/generate-content/request.ts";
import type { ChatRequest, JsonObject, Part, ToolResultPart } from "../../src/index.ts";
import type { Conversion } from "../../src/model/conversion.ts";
import { readBody } from "../formats/generate-content/read-body.ts";
import { chatRequest as messagesRequest } from "./arbitraries.ts";
import { callNames, json, kept, LOSSY_RUNS as RUNS, names, turns, without } from "./codecs.lossy.ts";
import { CODECS } from "./upstream-answers.ts";

/** Parts that the other format says as they are; its tool results are text alone. */
const sayable = (part: Part): Part | undefined => {
  if (part.type === "document") return part.source.type === "base64" ? part : undefined;
  if (part.type === "media")
    return part.source.type === "base64" && part.source.mediaType !== "image/gif" ? part : undefined;
  if (part.type === "tool-result") return { ...part, parts: part.parts.filter(({ type }) => type === "text") };
  return part;
};
const request = messagesRequest.map((given) => ({
  ...given,
  messages: turns(given.messages, sayable),
  stopSequences: given.stopSequences.slice(0, 5),
}));

const told = ({ parts, isError }: ToolResultPart): JsonObject => {
  const texts = parts.flatMap((part) => (part.type === "text" ? part.text : []));
  return { [isError ? "error" : "output"]: texts.join("\n") };
};

/** The reasoning beside which a fifth of the output limit, and at least 256 tokens, are left for the answer. */
function withRoom({ reasoning, maxOutputTokens }: ChatRequest, fields: readonly string[]): ChatRequest["reasoning"] {
  if (reasoning?.type !== "enabled") return reasoning;
  const most = maxOutputTokens - Math.max(256, Math.ceil(maxOutputTokens / 5));
  expect(fields.includes("reasoning")).toBe(most < 1);
  expect(fields.includes("reasoning.budgetTokens")).toBe(most >= 1 && most < reasoning.budgetTokens);
  return most < 1 ? { type: "disabled" } : { ...reasoning, budgetTokens: Math.min(most, reasoning.budgetTokens) };
}

function arriving(given: ChatRequest, conversions: readonly Conversion[]): object {
  const called = callNames(given.messages);
  const { reasoning: _reasoning, toolChoice, ...others } = kept(given, conversions);
  const reasoning = withRoom(given, names(conversions));
  const part = (one: Part): Part | undefined => {
    if (one.type === "provider" || one.type === "redacted-reasoning") return undefined;
    // Nobody is named as the maker, so the signature stands raw, and reads as the format's own.
    if (one.type === "reasoning") return { ...one, maker: "generate-content" };
    // A text that says nothing is not sent.
    if (one.type === "text" && one.text === "") return undefined;
    if (one.type !== "tool-result") return without(one, "cache", "title", "context", "citations");
    const name = called.get(one.callId) ?? one.callId;
    return { type: one.type, callId: one.callId, name, parts: [{ type: "json", value: told(one) }] };
  };
  return {
    ...others,
    messages: turns(given.messages, part),
    system: given.system.map((text) => without(text, "cache")),
    tools: given.tools.filter(({ type }) => type !== "provider").map((tool) => without(tool, "cache")),
    ...(reasoning && { reasoning: reasoning.type === "disabled" ? reasoning : { visible: true, ...reasoning } }),
    ...(toolChoice && { toolChoice: "parallel" in toolChoice ? { ...toolChoice, parallel: true } : toolChoice }),
  };
}

describe("messages → generate-content", () => {
  it("loses what is declared, and nothing else", () => {
    fc.assert(
      fc.property(request, (given) => {
        fc.pre(given.messages.some(({ parts }) => parts.some(({ type }) => type !== "provider")));
        fc.pre(!given.model.startsWith("tunedModels"));
        const { body, conversions, path } = CODECS["generate-content"].encodeRequest(given);
        const { native: _, ...decoded } = decodeGenerateContent(readBody(json(body)), {
          model: given.model,
          stream: given.stream,
          defaultMaxOutputTokens: 1,
        });
        // A demand for a tool that is left out refuses the request.
        const isUnmet = names(conversions).includes("toolChoice.unmet");
        expect(isUnmet && given.tools.length > 0 && given.tools.every(({ type }) => type === "function")).toBe(false);
        if (isUnmet) return;
        expect(json(decoded)).toEqual(json(arriving(given, conversions)));
        expect(path.endsWith(given.stream ? ":streamGenerateContent?alt=sse" : ":generateContent")).toBe(true);
        expect(names(conversions)).toEqual(Array.from(new Set(names(conversions))));
        // Each conversion is of something that is there.
        expect(names(conversions).includes("endUser")).toBe(given.endUser !== undefined);
        expect(names(conversions).includes("tools.provider")).toBe(given.tools.some(({ type }) => type === "provider"));
        expect(names(conversions).includes("messages.provider")).toBe(
          given.messages.some(({ parts }) => parts.some(({ type }) => type === "provider")),
        );
      }),
      RUNS,
    );
  });

  it("never fails, whatever the request holds", () => {
    fc.assert(
      fc.property(messagesRequest, (given) => {
        fc.pre(given.messages.some(({ parts }) => parts.some(({ type }) => type === "text")));
        const { body } = CODECS["generate-content"].encodeRequest(given);
        expect(() => readBody(json(body))).not.toThrow();
        expect(JSON.stringify(body)).not.toContain('"search_result"');
        expect(JSON.stringify(body)).not.toContain("bash_20241022");
      }),
      RUNS,
    );
  });
});

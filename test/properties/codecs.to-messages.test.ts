/** Generate-content requests on their way into messages: what is not declared lost arrives. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeRequest as decodeMessages } from "../../src/formats/messages/request.ts";
import type { MessagesRequest } from "../../src/formats/messages/schema.ts";
import { argumentsSchema } from "../../src/formats/shared/held-schema.ts";
import { withFilesOfUsers } from "../../src/formats/shared/moved-files.ts";
import type { ChatMessage, ChatRequest, FunctionTool, JsonObject, Part } from "../../src/index.ts";
import type { Conversion } from "../../src/model/conversion.ts";
import { isJsonObject } from "../../src/model/json.ts";
import { formIn, json, kept, LOSSY_RUNS as RUNS, names, turns, without } from "./codecs.lossy.ts";
import { chatRequest as generateContentRequest } from "./generate-content.arbitraries.request.ts";
import { CODECS, requestOf } from "./upstream-answers.ts";

const sayable = (one: Part): Part | undefined => {
  // Nobody is named as the maker of a signature, so that the signature stands raw.
  const part = without(one, "maker");
  if (part.type === "code" || part.type === "code-result") return undefined;
  if (part.type === "reasoning") return part.signature === undefined ? undefined : part;
  if (part.type === "text") return part.text.trim() === "" ? undefined : part;
  if (part.type === "tool-result") return { ...part, parts: part.parts.filter(({ type }) => type === "json") };
  return part;
};

/** Turns whose last has no reasoning and no white space at its end, if it is a prefill. */
function withPrefill(messages: readonly ChatMessage[]): ChatMessage[] {
  const last = messages.at(-1);
  if (last?.role !== "assistant") return [...messages];
  const parts = last.parts
    .filter(({ type }) => type !== "reasoning")
    .map((part, index, all) =>
      part.type === "text" && index === all.findLastIndex((one) => !isFile(one))
        ? { ...part, text: part.text.trimEnd() }
        : part,
    );
  return [...messages.slice(0, -1), { ...last, parts }].filter((message) => message.parts.length > 0);
}

const request = generateContentRequest.map((given) => ({
  ...without(given, "cachedContent"),
  messages: withPrefill(turns(given.messages, sayable)),
  maxOutputTokens: given.maxOutputTokens + 2_000,
}));

const TYPES = ["image/jpeg", "image/png", "image/gif", "image/webp"];
const isLost = (part: Part): boolean =>
  part.type === "media" &&
  (part.kind !== "image" || (part.source.type === "base64" && !TYPES.includes(part.source.mediaType)));

const isFile = ({ type }: Part): boolean => type === "media" || type === "document";

const arrivingPart = (one: Part): Part | undefined => {
  if (isLost(one)) return undefined;
  if (one.type === "reasoning") return { ...one, maker: "messages" };
  const plain = without(one, "signature", "thought");
  if (plain.type !== "tool-result") return plain;
  const texts = plain.parts.flatMap((inner) => (inner.type === "json" ? JSON.stringify(inner.value) : []));
  return { ...without(plain, "name"), parts: texts.map((text) => ({ type: "text", text })) };
};

/** Texts and files follow the results of their turn. */
const resultsFirst = (turn: ChatMessage): ChatMessage => ({
  ...turn,
  parts: turn.parts.toSorted((one, other) => Number(isResult(other)) - Number(isResult(one))),
});
const isResult = ({ type }: Part): boolean => type === "tool-result";

function arriving(given: ChatRequest, conversions: readonly Conversion[]): object {
  const { toolChoice, responseFormat, reasoning, temperature, topP, ...others } = kept(given, conversions);
  // Only users send files in this format.
  const sent = withFilesOfUsers(given.messages, (part) => !isLost(part), new Set());
  const choice = toolChoice && without(toolChoice, "names");
  const allowed = given.toolChoice && "names" in given.toolChoice ? given.toolChoice.names : undefined;
  const tools = given.tools.filter(
    (tool): tool is FunctionTool => tool.type === "function" && (allowed === undefined || allowed.includes(tool.name)),
  );
  return {
    ...without(others as object, "candidateCount", "modalities", "speech"),
    messages: turns(sent.map(resultsFirst), arrivingPart),
    tools: tools.map((tool) => ({ ...tool, inputSchema: argumentsSchema(tool.inputSchema, new Set()) })),
    ...(temperature !== undefined && { temperature: Math.min(1, temperature) }),
    // All that is likely at all is what the format takes by itself.
    ...(topP !== undefined && topP < 1 && { topP: topP === 0 ? 1e-6 : topP }),
    ...(choice && tools.length > 0 && { toolChoice: choice }),
    ...(given.reasoning && {
      reasoning: reasoning ? reasoningOf(reasoning, given.maxOutputTokens) : { type: "disabled" },
    }),
    stopSequences: given.stopSequences.filter((stop) => stop.trim() !== ""),
    ...(responseFormat && formIn(given, turns(sent, arrivingPart), responseFormat)),
  };
}

/** A model of no known name takes budgets. A fifth of the output limit, and at least 256 tokens, is left for the answer. */
function reasoningOf(reasoning: NonNullable<ChatRequest["reasoning"]>, max: number): object {
  if (reasoning.type === "disabled") return { type: "disabled" };
  const asked = reasoning.type === "enabled" ? reasoning.budgetTokens : 8_192;
  return { type: "enabled", budgetTokens: Math.min(Math.max(1024, asked), max - Math.max(256, Math.ceil(max / 5))) };
}

const thinks = ({ thinking }: JsonObject): boolean => isJsonObject(thinking) && thinking["type"] === "enabled";

describe("generate-content → messages", () => {
  it("loses what is declared, and nothing else", () => {
    fc.assert(
      fc.property(request, (given) => {
        fc.pre(given.messages.some(({ parts }) => parts.some((part) => !isLost(part))));
        const { body, conversions, headers } = CODECS.messages.encodeRequest(given);
        const { native: _, ...decoded } = decodeMessages(json(body) as unknown as MessagesRequest, { betas: [] });
        expect(json(decoded)).toEqual(json(arriving(given, conversions)));
        expect(headers).toEqual({ "anthropic-version": "2023-06-01" });
        expect(names(conversions).includes("seed")).toBe(given.seed !== undefined);
        const { temperature = 1 } = given;
        const isRefused = thinks(body) && temperature < 1;
        expect(names(conversions).includes("temperature")).toBe(temperature > 1 || isRefused);
        expect(names(conversions).includes("candidateCount")).toBe((given.candidateCount ?? 1) > 1);
        const hasNames = given.toolChoice !== undefined && "names" in given.toolChoice;
        expect(names(conversions).includes("toolChoice.names")).toBe(hasNames);
      }),
      RUNS,
    );
  });

  it("joins reasoning with the seal that comes after it, and leaves out what has none", () => {
    const parts: Part[] = [
      { type: "reasoning", text: "Hm. " },
      { type: "reasoning", text: "", signature: "c2VhbA==" },
      { type: "text", text: "Yes.", signature: "b3RoZXI=" },
      { type: "reasoning", text: "Unsealed." },
    ];
    const question: ChatMessage = { role: "user", parts: [{ type: "text", text: "Why?" }] };
    const given = requestOf("generate-content", { messages: [{ role: "assistant", parts }, question] });
    const { body, conversions } = CODECS.messages.encodeRequest(given);
    expect(body["messages"]).toMatchObject([
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm. ", signature: "c2VhbA==" },
          { type: "text", text: "Yes." },
        ],
      },
      { role: "user" },
    ]);
    expect(names(conversions)).toEqual(["messages.signature", "messages.reasoning.unsealed"]);
  });

  // Sizes that a request within the gateway's limits can have: work that is quadratic in them would not end.
  it("says requests of very many parts and tools", () => {
    const many = Array.from({ length: 200_000 }, (_, index) => `tool-${index}`);
    const given = requestOf("generate-content", {
      messages: [
        { role: "assistant", parts: many.map((text) => ({ type: "reasoning", text })) },
        { role: "user", parts: [{ type: "text", text: "Yes." }] },
      ],
      tools: many.map((name) => ({ type: "function", name, inputSchema: {} })),
      toolChoice: { type: "auto", parallel: true, names: many },
    });
    const { body, conversions } = CODECS.messages.encodeRequest(given);
    expect(body["tools"]).toHaveLength(many.length);
    expect(names(conversions)).toContain("messages.reasoning.unsealed");
  });

  it("says code with very many fences in it", () => {
    const code = "```\n".repeat(200_000);
    const parts: Part[] = [{ type: "code", id: "1", language: "python", code }];
    const { body } = CODECS.messages.encodeRequest(
      requestOf("generate-content", { messages: [{ role: "assistant", parts }] }),
    );
    expect(JSON.stringify(body["messages"])).toContain("\\n````python\\n");
  });

  it("rejects what cannot be left out", () => {
    const cached = requestOf("generate-content", { cachedContent: "cachedContents/1" });
    expect(CODECS.messages.encodeRequest(cached).conversions).toMatchObject([
      { field: "cachedContent", conversion: "rejected" },
    ]);
    const sound: Part = { type: "media", kind: "audio", source: { type: "base64", mediaType: "audio/wav", data: "" } };
    const unsupported = requestOf("generate-content", { messages: [{ role: "user", parts: [sound] }] });
    const sealed: Part = { type: "redacted-reasoning", data: "AAAA" };
    const hidden = requestOf("messages", { messages: [{ role: "assistant", parts: [sealed] }] });
    const none = {
      field: "messages.none",
      conversion: "rejected",
      why: "No part of the conversation can be sent in this format.",
    };
    expect(CODECS.messages.encodeRequest(unsupported).conversions).toContainEqual(none);
    expect(CODECS["generate-content"].encodeRequest(hidden).conversions).toContainEqual(none);
  });
});

/** One question, as callers of either format ask it. */

import type { MessageCreateParamsNonStreaming, MessageParam } from "@anthropic-ai/sdk/resources/messages";
import { type Content, FunctionCallingConfigMode, type GenerateContentParameters } from "@google/genai";
import type { JsonObject } from "../../../src/index.ts";

export interface Question {
  readonly turns: readonly Turn[];
  readonly system?: string;
  readonly tools?: readonly Tool[];
  /** The tool that must be called; true for any of them, false for none. */
  readonly mustCall?: string | boolean;
  /** The JSON Schema that the answer keeps to. */
  readonly schema?: JsonObject;
  readonly stop?: readonly string[];
  readonly temperature?: number;
  readonly maxTokens?: number;
  /** How many tokens may be thought for. */
  readonly thinking?: number;
}

/** What one side says: the caller's turns and the model's, by turns. */
export interface Turn {
  readonly text?: string;
  /** Base64 of a PNG. */
  readonly picture?: string;
  readonly calls?: readonly Call[];
  readonly results?: readonly Result[];
}

interface Tool {
  readonly name: string;
  readonly description: string;
  readonly schema: JsonObject;
}

export interface Call {
  readonly id: string;
  readonly name: string;
  readonly input: JsonObject;
}

interface Result {
  readonly id: string;
  readonly name: string;
  readonly value: JsonObject;
}

const MAX_TOKENS = 5_000;

export function asMessages(question: Question): MessageCreateParamsNonStreaming {
  const { turns, system, tools, mustCall, schema, stop, temperature, maxTokens, thinking } = question;
  return {
    model: "model-a",
    max_tokens: maxTokens ?? MAX_TOKENS,
    messages: turns.map((turn, index) => ({ role: index % 2 === 0 ? "user" : "assistant", content: blocksOf(turn) })),
    ...(system !== undefined && { system }),
    ...(tools && {
      tools: tools.map(({ name, description, schema: properties }) => ({
        name,
        description,
        input_schema: { type: "object" as const, ...properties },
      })),
    }),
    ...(mustCall !== undefined && { tool_choice: toolChoice(mustCall) }),
    ...(schema && { output_config: { format: { type: "json_schema", schema } } }),
    ...(stop && { stop_sequences: [...stop] }),
    ...(temperature !== undefined && { temperature }),
    ...(thinking !== undefined && { thinking: { type: "enabled", budget_tokens: thinking } }),
  };
}

const blocksOf = ({ text, picture, calls = [], results = [] }: Turn): Exclude<MessageParam["content"], string> => [
  ...results.map(({ id, value }) => ({
    type: "tool_result" as const,
    tool_use_id: id,
    content: JSON.stringify(value),
  })),
  ...(picture === undefined
    ? []
    : [
        {
          type: "image" as const,
          source: { type: "base64" as const, media_type: "image/png" as const, data: picture },
        },
      ]),
  ...(text === undefined ? [] : [{ type: "text" as const, text }]),
  ...calls.map(({ id, name, input }) => ({ type: "tool_use" as const, id, name, input })),
];

function toolChoice(mustCall: string | boolean): NonNullable<MessageCreateParamsNonStreaming["tool_choice"]> {
  if (typeof mustCall === "string") return { type: "tool", name: mustCall };
  return { type: mustCall ? "any" : "none" };
}

export function asGenerateContent(question: Question): GenerateContentParameters {
  const { turns, system, tools, mustCall, schema, stop, temperature, maxTokens, thinking } = question;
  return {
    model: "model-a",
    contents: turns.map((turn, index): Content => ({ role: index % 2 === 0 ? "user" : "model", parts: partsOf(turn) })),
    config: {
      maxOutputTokens: maxTokens ?? MAX_TOKENS,
      ...(system !== undefined && { systemInstruction: system }),
      ...(tools && {
        tools: [
          {
            functionDeclarations: tools.map(({ name, description, schema: properties }) => ({
              name,
              description,
              parametersJsonSchema: { type: "object", ...properties },
            })),
          },
        ],
      }),
      ...(mustCall !== undefined && { toolConfig: { functionCallingConfig: callingConfig(mustCall) } }),
      ...(schema && { responseMimeType: "application/json", responseJsonSchema: schema }),
      ...(stop && { stopSequences: [...stop] }),
      ...(temperature !== undefined && { temperature }),
      ...(thinking !== undefined && { thinkingConfig: { thinkingBudget: thinking, includeThoughts: true } }),
    },
  };
}

const partsOf = ({ text, picture, calls = [], results = [] }: Turn): NonNullable<Content["parts"]> => [
  ...results.map(({ id, name, value }) => ({ functionResponse: { id, name, response: value } })),
  ...(picture === undefined ? [] : [{ inlineData: { mimeType: "image/png", data: picture } }]),
  ...(text === undefined ? [] : [{ text }]),
  ...calls.map(({ id, name, input }) => ({ functionCall: { id, name, args: input } })),
];

function callingConfig(mustCall: string | boolean) {
  if (typeof mustCall === "string") return { mode: FunctionCallingConfigMode.ANY, allowedFunctionNames: [mustCall] };
  return { mode: mustCall ? FunctionCallingConfigMode.ANY : FunctionCallingConfigMode.NONE };
}

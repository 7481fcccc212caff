/** What tests of requests that cross formats share: a request without what is declared lost. */

import {
  argumentsSchema,
  heldSchema,
  instructionFor,
  isStrict,
  schemaOf,
} from "../../src/formats/shared/held-schema.ts";
import type { ChatMessage, ChatRequest, Part } from "../../src/index.ts";
import type { Conversion } from "../../src/model/conversion.ts";

/** How often a law of what crosses formats is tried. */
export const LOSSY_RUNS = { numRuns: 100 } as const;

export type Path = readonly string[];
export const names = (conversions: readonly Conversion[]): Path => conversions.map(({ field }) => field);

/** A request without the fields that are declared dropped. */
export function kept(request: ChatRequest, conversions: readonly Conversion[]): ChatRequest {
  const lost = new Set(names(conversions.filter(({ conversion }) => conversion === "dropped")));
  const fields = Object.entries(request).filter(([field]) => !lost.has(field));
  return Object.fromEntries(fields) as unknown as ChatRequest;
}

/**
 * A request as it arrives through a format of OpenAI: with the instruction that asks for JSON, and with schemas of arguments that OpenAI takes.
 *
 * @param lax The word in place of `strict` beside a schema that is not.
 */
export function throughOpenAI(request: ChatRequest, conversions: readonly Conversion[], lax?: false): ChatRequest {
  const { system, responseFormat: format } = request;
  const isInWords = format && names(conversions).includes("responseFormat");
  const tools = request.tools.map((tool) => {
    if (tool.type !== "function") return tool;
    const inputSchema = argumentsSchema(tool.inputSchema, new Set());
    if (tool.strict !== true || isStrict(inputSchema)) return { ...tool, inputSchema };
    return { ...without(tool, "strict"), inputSchema, ...(lax === false && { strict: lax }) };
  });
  return {
    ...request,
    tools,
    system: isInWords ? [...system, { type: "text", text: instructionFor(format) }] : system,
  };
}

/** The changes that `throughOpenAI` knows, and the prefill, which arrives. */
export const isOfOpenAI = ({ field }: Conversion): boolean =>
  /^(?:messages\.prefill|responseFormat|tools\.function\.(?:strict|schema))$/.test(field);

/** The form of the answer as it arrives in messages: a model is held to the schema, or asked in words. */
export function formIn(
  { system }: Pick<ChatRequest, "system">,
  messages: readonly ChatMessage[],
  format: NonNullable<ChatRequest["responseFormat"]>,
): Partial<ChatRequest> {
  const schema = schemaOf(format);
  const isCited = messages.some(({ parts }) => parts.some((part) => part.type === "document" && part.citations));
  const held = schema && messages.at(-1)?.role !== "assistant" && !isCited ? heldSchema(schema) : undefined;
  if (held) return { responseFormat: { type: "json", schema: held.schema } };
  return { system: [...system, { type: "text", text: instructionFor(format) }] };
}

/** Turns with their parts changed; those that nothing is left of are gone, and neighbours of one role are one. */
export function turns(messages: readonly ChatMessage[], change: (part: Part) => Part | undefined): ChatMessage[] {
  const merged: { role: ChatMessage["role"]; parts: Part[] }[] = [];
  for (const { role, parts } of messages) {
    const left = parts.flatMap((part) => change(part) ?? []);
    const last = merged.at(-1);
    if (left.length > 0 && last?.role === role) last.parts.push(...left);
    else if (left.length > 0) merged.push({ role, parts: left });
  }
  return merged;
}

export const without = <T extends object>(value: T, ...keys: Path): T =>
  Object.fromEntries(Object.entries(value).filter(([key]) => !keys.includes(key))) as T;

export const callNames = (messages: readonly ChatMessage[]): ReadonlyMap<string, string> =>
  new Map(
    messages.flatMap(({ parts }) =>
      parts.flatMap((part): [string, string][] => (part.type === "tool-call" ? [[part.id, part.name]] : [])),
    ),
  );

export const json = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/** Decides which tools the demo calls, and makes arguments that satisfy their schemas. */

import type { ChatRequest, JsonObject, Tool } from "../../src/index.ts";
import { satisfy } from "./satisfy.ts";

type CallableTool = Exclude<Tool, { type: "code-execution" }>;

export interface PlannedCall {
  readonly id: string;
  readonly name: string;
  readonly input: JsonObject;
}

/** The calls that answer this request: the forced one, those that the message speaks of, or none. */
export function planCalls(request: ChatRequest, text: string, candidate: number): readonly PlannedCall[] {
  const choice = request.toolChoice ?? { type: "auto", parallel: true };
  if (choice.type === "none") return [];
  const first = callsBefore(request) + 1;
  return chosen(request, text, choice).map((tool, index) => ({
    id: `${ID}${first + index}${candidate > 0 ? `_${candidate}` : ""}`,
    name: tool.name ?? "",
    input: argumentsFor(tool, text),
  }));
}

const ID = "call_demo_";

/** The highest number that a call of the conversation has, whatever turns its client has left out. */
function callsBefore({ messages }: ChatRequest): number {
  let highest = 0;
  for (const { parts } of messages)
    for (const part of parts)
      if (part.type === "tool-call" && part.id.startsWith(ID))
        highest = Math.max(highest, Number.parseInt(part.id.slice(ID.length)) || 0);
  return highest;
}

type Choice = Exclude<NonNullable<ChatRequest["toolChoice"]>, { type: "none" }>;

function chosen({ tools, messages }: ChatRequest, text: string, choice: Choice): readonly CallableTool[] {
  const callable = tools.filter(
    (tool): tool is CallableTool =>
      tool.type !== "code-execution" && tool.name !== undefined && mayBeCalled(tool.name, choice),
  );
  if (choice.type === "tool") return callable;
  const answered = messages.at(-1)?.parts.some((part) => part.type === "tool-result") ?? false;
  // A result that has just come is answered, not asked for again, unless a call is forced.
  const spokenOf = answered && choice.type === "auto" ? [] : callable.filter((tool) => isSpokenOf(tool, text));
  const calls = choice.type === "required" && spokenOf.length === 0 ? callable.slice(0, 1) : spokenOf;
  return choice.parallel ? calls : calls.slice(0, 1);
}

const mayBeCalled = (name: string, choice: Choice): boolean =>
  choice.type === "tool" ? name === choice.name : (choice.names?.includes(name) ?? true);

/** Words too common to tell which tool is meant. */
const COMMON = new Set(
  "this that with from into what when where which your have will the and for get set its use are".split(" "),
);

function isSpokenOf(tool: CallableTool, text: string): boolean {
  const said = new Set(significantWords(text));
  if (said.has("tool") || said.has("tools") || said.has("function")) return true;
  return significantWords(`${tool.name ?? ""} ${tool.type === "function" ? (tool.description ?? "") : ""}`).some(
    (word) => said.has(word),
  );
}

const significantWords = (text: string): string[] =>
  text
    .replaceAll(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word.length > 2 && !COMMON.has(word));

/** What the provider's own tools take; their schemas are not part of a request. */
const PROVIDER_INPUT: Readonly<Record<string, JsonObject>> = {
  computer: { action: "screenshot" },
  bash: { command: "echo hello" },
  str_replace_editor: { command: "view", path: "/" },
};

function argumentsFor(tool: CallableTool, text: string): JsonObject {
  if (tool.type === "provider") return PROVIDER_INPUT[tool.name ?? ""] ?? {};
  const made = satisfy(tool.inputSchema, text, `the input schema of the tool "${tool.name}"`);
  return typeof made === "object" && made !== null && !Array.isArray(made) ? made : {};
}

/** Decides which tools the demo calls, and makes arguments that satisfy their schemas. */

import type { ChatRequest, JsonObject, Part, Tool } from "../index.ts";
import { lastUserParts } from "./last-words.ts";
import { Loop } from "./loop.ts";
import { nameOfCall } from "./reply.ts";
import { satisfyAside } from "./satisfy-aside.ts";
import { piecesOf } from "./words.ts";

type CallableTool = Exclude<Tool, { type: "code-execution" }>;
type FunctionTool = Extract<Tool, { type: "function" }>;

export interface PlannedCall {
  readonly id: string;
  readonly name: string;
  readonly input: JsonObject;
}

/** The calls that answer this request: the forced one, those that the message speaks of, or none. */
export async function planCalls(
  request: ChatRequest,
  text: string,
  candidate: number,
): Promise<readonly PlannedCall[]> {
  const choice = request.toolChoice ?? { type: "auto", parallel: true };
  if (choice.type === "none") return [];
  const first = callsBefore(request) + 1;
  const calls: PlannedCall[] = [];
  for (const tool of await chosen(request, text, choice)) {
    const id = `${ID}${first + calls.length}${candidate > 0 ? `_${candidate}` : ""}`;
    calls.push({ id, name: tool.name ?? "", input: await argumentsFor(tool, text) });
  }
  return calls;
}

const ID = "call_demo_";

/** The highest number that a call of the conversation has, whatever turns its client has left out. */
function callsBefore({ messages }: ChatRequest): number {
  let highest = 0;
  for (const { parts } of messages)
    for (const part of parts)
      for (const id of idsIn(part)) {
        const number = Number.parseInt(id.slice(ID.length));
        // Beyond these, the next number would be the same one.
        if (id.startsWith(ID) && Number.isSafeInteger(number)) highest = Math.max(highest, number);
      }
  return highest;
}

/** The texts of a part that may be the id of a call: a format's own part has its id under any name. */
function idsIn(part: Part): readonly string[] {
  if (part.type === "tool-call") return [part.id];
  if (part.type !== "provider") return [];
  return Object.values(part.value).filter((value) => typeof value === "string");
}

type Choice = Exclude<NonNullable<ChatRequest["toolChoice"]>, { type: "none" }>;

async function chosen(request: ChatRequest, text: string, choice: Choice): Promise<readonly CallableTool[]> {
  const callable = request.tools.filter(
    (tool): tool is CallableTool =>
      tool.type !== "code-execution" && tool.name !== undefined && mayBeCalled(tool.name, choice),
  );
  // A text may be long: nobody looks through it for tools that there are not.
  if (callable.length === 0) return [];
  const answered = justAnswered(request);
  if (answered.size > 0) return stillForced(callable, choice, answered);
  if (choice.type === "tool") return callable;
  const spokenOf = await toolsIn(text, callable);
  const calls = choice.type === "required" && spokenOf.length === 0 ? callable.slice(0, 1) : spokenOf;
  return choice.parallel ? calls : calls.slice(0, 1);
}

type Answered = ReadonlySet<string | undefined>;

/** The tools whose results the last user turn brings; undefined for a call that the conversation does not have. */
function justAnswered(request: ChatRequest): Answered {
  const results = lastUserParts(request).filter((part) => part.type === "tool-result");
  return new Set(results.map(({ callId, name = nameOfCall(callId, request) }) => name));
}

/**
 * What is still to be called though results have just come. Where any tool is forced, that is the last one: clients put the
 * tool there that ends an agent's loop, as for structured output. None is called twice in a row, so that every loop ends.
 */
function stillForced(callable: readonly CallableTool[], choice: Choice, answered: Answered): readonly CallableTool[] {
  if (choice.type === "auto" || answered.has(undefined)) return [];
  return callable.slice(-1).filter(({ name }) => !answered.has(name));
}

const mayBeCalled = (name: string, choice: Choice): boolean =>
  choice.type === "tool" ? name === choice.name : (choice.names?.includes(name) ?? true);

/** Words too common to tell which tool is meant. */
const COMMON = new Set(
  "this that with from into what when where which your have will the and for get set its use are".split(" "),
);

/** Words that speak of every tool. */
const ANY_TOOL = new Set(["tool", "tools", "function"]);

/** The tools that a text speaks of, in their own order. */
async function toolsIn(text: string, tools: readonly CallableTool[]): Promise<readonly CallableTool[]> {
  const byWord = new Map<string, Set<CallableTool>>();
  for (const tool of tools) {
    const purpose = tool.type === "function" ? firstSentence(tool.description ?? "") : "";
    for await (const word of significantWords(`${tool.name ?? ""} ${purpose}`))
      byWord.set(word, (byWord.get(word) ?? new Set()).add(tool));
  }
  const spokenOf = new Set<CallableTool>();
  for await (const word of significantWords(text)) {
    if (ANY_TOOL.has(word)) return tools;
    for (const tool of byWord.get(word) ?? []) spokenOf.add(tool);
    // Said once is enough.
    byWord.delete(word);
  }
  return tools.filter((tool) => spokenOf.has(tool));
}

/** What a description says a tool is for. What follows are instructions, whose words a text may have for any reason. */
function firstSentence(description: string): string {
  const begun = description.trimStart();
  const end = begun.search(SENTENCE_END);
  return end < 0 ? begun : begun.slice(0, end);
}

const SENTENCE_END = /[.!?](?=\s)|[。！？\n]/u;

async function* significantWords(text: string): AsyncGenerator<string> {
  const loop = new Loop();
  for (const piece of piecesOf(text)) {
    const words = piece
      .replaceAll(/([a-z])([A-Z])/g, "$1 $2")
      .toLowerCase()
      .split(/[^\p{L}\p{N}]+/u);
    yield* words.filter((word) => word.length > 2 && !COMMON.has(word));
    await loop.yield();
  }
}

/** What the provider's own tools take; their schemas are not part of a request. */
const PROVIDER_INPUT: Readonly<Record<string, JsonObject>> = {
  computer: { action: "screenshot" },
  bash: { command: "echo hello" },
  str_replace_editor: { command: "view", path: "/" },
};

async function argumentsFor(tool: CallableTool, text: string): Promise<JsonObject> {
  if (tool.type === "provider") return PROVIDER_INPUT[tool.name ?? ""] ?? {};
  if (tool.custom) return { input: await inputFor(tool.custom, tool.name, text) };
  const made = await satisfyAside(tool.inputSchema, text, `the input schema of the tool "${tool.name}"`);
  return typeof made === "object" && made !== null && !Array.isArray(made) ? made : {};
}

/** The text that a custom tool takes: of its grammar if that is a regular expression, else the message itself. */
async function inputFor({ format }: NonNullable<FunctionTool["custom"]>, name: string, text: string): Promise<string> {
  if (format?.["syntax"] !== "regex" || typeof format["definition"] !== "string") return text;
  const schema = {
    type: "object",
    properties: { input: { type: "string", pattern: `^(?:${format["definition"]})$` } },
    required: ["input"],
  };
  const made = (await satisfyAside(schema, text, `the grammar of the tool "${name}"`)) as { readonly input: string };
  return made.input;
}

/** Decides which tools the demo calls, and makes arguments that satisfy their schemas. */

import type { ChatRequest, JsonObject, Part, Tool } from "../index.ts";
import { lastUserParts } from "./reply.ts";
import { satisfyAside } from "./satisfy-aside.ts";
import { Loop, piecesOf } from "./words.ts";

type CallableTool = Exclude<Tool, { type: "code-execution" }>;
type FunctionTool = Extract<Tool, { type: "function" }>;

export interface PlannedCall {
  readonly id: string;
  readonly name: string;
  readonly input: JsonObject;
}

/** Returns the calls that answer a request: calls of the forced tool, or of tools that the message names. */
export async function planCalls(
  request: ChatRequest,
  text: string,
  candidate: number,
): Promise<readonly PlannedCall[]> {
  const choice = request.toolChoice ?? { type: "auto", parallel: true };
  if (choice.type === "none") return [];
  const first = highestCallNumber(request) + 1;
  const calls: PlannedCall[] = [];
  for (const tool of await chooseTools(request, text, choice)) {
    const id = `${ID_PREFIX}${first + calls.length}${candidate > 0 ? `_${candidate}` : ""}`;
    calls.push({ id, name: tool.name ?? "", input: await argumentsFor(tool, text) });
  }
  return calls;
}

const ID_PREFIX = "call_demo_";

/** Returns the highest number of a call in the conversation. A count of calls could repeat an id, because clients may omit turns. */
function highestCallNumber({ messages }: ChatRequest): number {
  let highest = 0;
  for (const { parts } of messages)
    for (const part of parts)
      for (const id of idsIn(part)) {
        const number = Number.parseInt(id.slice(ID_PREFIX.length));
        // Adding 1 to a larger number would not change the number.
        if (id.startsWith(ID_PREFIX) && Number.isSafeInteger(number)) highest = Math.max(highest, number);
      }
  return highest;
}

/** Returns the texts of a part that may be the id of a call. A provider's own part may have its id in any field. */
function idsIn(part: Part): readonly string[] {
  if (part.type === "tool-call") return [part.id];
  if (part.type !== "provider") return [];
  return Object.values(part.value).filter((value) => typeof value === "string");
}

type Choice = Exclude<NonNullable<ChatRequest["toolChoice"]>, { type: "none" }>;

async function chooseTools(request: ChatRequest, text: string, choice: Choice): Promise<readonly CallableTool[]> {
  const callable = request.tools.filter(
    (tool): tool is CallableTool =>
      tool.type !== "code-execution" && tool.name !== undefined && mayBeCalled(tool.name, choice),
  );
  // Skip the search of a text, which may be long, if no tool can be called.
  if (callable.length === 0) return [];
  // After results, only a forced call follows. Clients put the tool that ends an agent's loop last, as for structured output.
  if (lastUserParts(request).some(({ type }) => type === "tool-result"))
    return choice.type === "auto" ? [] : callable.slice(-1);
  if (choice.type === "tool") return callable;
  const named = await toolsNamedIn(text, callable);
  const calls = choice.type === "required" && named.length === 0 ? callable.slice(0, 1) : named;
  return choice.parallel ? calls : calls.slice(0, 1);
}

const mayBeCalled = (name: string, choice: Choice): boolean =>
  choice.type === "tool" ? name === choice.name : (choice.names?.includes(name) ?? true);

/** Words that are too common to identify a tool. */
const COMMON_WORDS = new Set(
  "this that with from into what when where which your have will the and for get set its use are".split(" "),
);

/** Words that name all tools. */
const ALL_TOOLS_WORDS = new Set(["tool", "tools", "function"]);

/** Returns the tools that a text names, in the order of the request. */
async function toolsNamedIn(text: string, tools: readonly CallableTool[]): Promise<readonly CallableTool[]> {
  const byWord = new Map<string, Set<CallableTool>>();
  for (const tool of tools) {
    const purpose = tool.type === "function" ? firstSentence(tool.description ?? "") : "";
    for await (const word of significantWords(`${tool.name ?? ""} ${purpose}`))
      byWord.set(word, (byWord.get(word) ?? new Set()).add(tool));
  }
  const named = new Set<CallableTool>();
  for await (const word of significantWords(text)) {
    if (ALL_TOOLS_WORDS.has(word)) return tools;
    for (const tool of byWord.get(word) ?? []) named.add(tool);
    // Later occurrences of the word add nothing.
    byWord.delete(word);
  }
  return tools.filter((tool) => named.has(tool));
}

/** Returns the first sentence of a description, which tells the purpose. The words of later instructions would match too many texts. */
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
    yield* words.filter((word) => word.length > 2 && !COMMON_WORDS.has(word));
    await loop.yield();
  }
}

/** The arguments of provider tools, whose schemas are not in the request. */
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

/** Returns the input of a custom tool: a match of its grammar if that is a regular expression, or else the message. */
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

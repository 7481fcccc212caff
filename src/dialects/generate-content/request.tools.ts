/** Tools and the choice among them (spec 2.8), in both directions. */

import type { ChatRequest, FunctionTool, Tool, ToolChoice } from "../../model/chat.ts";
import type { JsonObject } from "../../model/json.ts";
import { DIALECT } from "./schema.base.ts";
import type { FunctionCallingConfig, FunctionDeclaration, Tool as WireTool } from "./schema.ts";
import { withTypeNames } from "./schema.keywords.ts";
import { toJsonSchema } from "./schema.openapi.ts";

export const decodeTools = (tools: readonly WireTool[]): Tool[] => tools.flatMap((tool) => [...toolsIn(tool)]);

/** One wire tool may hold several: each of its fields is one, and one that is not known here is the backend's to know. */
function* toolsIn(tool: WireTool): Generator<Tool> {
  for (const [kind, value] of Object.entries<unknown>(tool)) {
    if (value === null) continue;
    if (kind === "functionDeclarations") yield* (tool.functionDeclarations ?? []).map(decodeFunction);
    else if (kind === "codeExecution") yield { type: "code-execution" };
    else yield { type: "provider", dialect: DIALECT, definition: Object.fromEntries([[kind, value]]) };
  }
}

/** Functions that stand side by side share a wire tool, so that their order among the others holds. */
export function encodeTools(tools: readonly Tool[]): WireTool[] {
  const encoded: WireTool[] = [];
  let functions: FunctionDeclaration[] | undefined;
  for (const tool of tools) {
    if (tool.type === "function") {
      if (!functions) encoded.push({ functionDeclarations: (functions = []) });
      functions.push(encodeFunction(tool));
      continue;
    }
    functions = undefined;
    if (tool.type === "code-execution") encoded.push({ codeExecution: {} });
    // Another provider's own tool has no name in this format.
    else if (tool.dialect === DIALECT) encoded.push(tool.definition);
  }
  return encoded;
}

const NO_PARAMETERS: JsonObject = { type: "object", properties: {} };

const decodeFunction = (declaration: FunctionDeclaration): FunctionTool => ({
  type: "function",
  name: declaration.name,
  ...(declaration.description != null && { description: declaration.description }),
  inputSchema: inputSchemaOf(declaration),
});

const inputSchemaOf = ({ parameters, parametersJsonSchema }: FunctionDeclaration): JsonObject =>
  parameters == null ? withTypeNames(parametersJsonSchema ?? NO_PARAMETERS) : toJsonSchema(parameters);

const encodeFunction = ({ name, description, inputSchema }: FunctionTool): FunctionDeclaration => ({
  name,
  ...(description !== undefined && { description }),
  parametersJsonSchema: inputSchema,
});

/** The format cannot forbid calls in parallel. */
const parallel = true;

export function decodeCalling({ mode, allowedFunctionNames }: FunctionCallingConfig): ToolChoice | undefined {
  const names = allowedFunctionNames ?? [];
  const [only, ...others] = names;
  if (mode == null || mode === "MODE_UNSPECIFIED") return undefined;
  if (mode === "NONE") return { type: "none" };
  if (mode === "ANY" && only !== undefined && others.length === 0) return { type: "tool", name: only, parallel };
  return { type: mode === "ANY" ? "required" : "auto", parallel, ...(names.length > 0 && { names }) };
}

/** The choice among functions; the format takes one that names none of them for an error. */
export function sayableChoice({ tools, toolChoice }: ChatRequest): ToolChoice | undefined {
  const names = new Set(tools.flatMap((tool) => (tool.type === "function" ? tool.name : [])));
  switch (toolChoice?.type) {
    case "tool":
      return names.has(toolChoice.name) ? toolChoice : undefined;
    case "required":
    case "auto": {
      const { names: wanted, ...choice } = toolChoice;
      const known = wanted?.filter((name) => names.has(name));
      if (choice.type === "required" && names.size === 0) return undefined;
      return known && known.length > 0 ? { ...choice, names: known } : choice;
    }
    default:
      return toolChoice;
  }
}

export function encodeCalling(choice: ToolChoice): FunctionCallingConfig {
  if (choice.type === "none") return { mode: "NONE" };
  if (choice.type === "tool") return { mode: "ANY", allowedFunctionNames: [choice.name] };
  const names = choice.names ?? [];
  if (names.length === 0) return { mode: choice.type === "required" ? "ANY" : "AUTO" };
  return { mode: choice.type === "required" ? "ANY" : "VALIDATED", allowedFunctionNames: [...names] };
}

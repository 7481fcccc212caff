/** Converts the tools of a request (spec 2.8), and the choice among them, in both directions. */

import type { ChatRequest, FunctionTool, Tool, ToolChoice } from "../../kinds/chat/request.ts";
import type { JsonObject } from "../../model/json.ts";
import { choiceAmong, type ConvertedFields } from "../shared/conversions.ts";
import { CODE_TOOL, isWebSearch } from "../shared/hosted-tools.ts";
import { toJsonSchema, withTypeNames } from "./schema.openapi.ts";
import type { FunctionCallingConfig, FunctionDeclaration, RequestTool } from "./schema.ts";
import { FORMAT, given } from "./schema.wire.ts";

/** Decodes the tools. Each field of a wire tool becomes a neutral tool. A tool that is unknown here is passed on for the backend. */
export function decodeTools(wireTools: readonly RequestTool[]): Tool[] {
  const tools: Tool[] = [];
  for (const wireTool of wireTools)
    for (const [kind, value] of Object.entries<unknown>(wireTool)) {
      if (value === null) continue;
      if (kind === "functionDeclarations")
        for (const declaration of wireTool.functionDeclarations ?? []) tools.push(decodeFunction(declaration));
      else if (kind === "codeExecution") tools.push({ type: "code-execution" });
      else tools.push({ type: "provider", format: FORMAT, definition: Object.fromEntries([[kind, value]]) });
    }
  return tools;
}

/** Encodes the tools. Consecutive functions share one wire tool, so that all tools keep their order. */
export function encodeTools(tools: readonly Tool[]): RequestTool[] {
  const encoded: RequestTool[] = [];
  let functions: FunctionDeclaration[] | undefined;
  for (const tool of tools) {
    if (tool.type === "function") {
      if (!functions) encoded.push({ functionDeclarations: (functions = []) });
      const { name, description, inputSchema } = tool;
      functions.push({ name, ...given({ description }), parametersJsonSchema: inputSchema });
      continue;
    }
    functions = undefined;
    if (tool.type === "code-execution") encoded.push({ codeExecution: {} });
    else if (isWebSearch(tool)) encoded.push({ googleSearch: {} });
    // Leave out tools of other formats.
    else if (tool.format === FORMAT) encoded.push(tool.definition);
  }
  return encoded;
}

const NO_PARAMETERS: JsonObject = { type: "object", properties: {} };

function decodeFunction({ name, description, parameters, parametersJsonSchema }: FunctionDeclaration): FunctionTool {
  const inputSchema =
    parameters == null ? withTypeNames(parametersJsonSchema ?? NO_PARAMETERS) : toJsonSchema(parameters);
  return { type: "function", name, ...given({ description }), inputSchema };
}

export function decodeCalling({ mode, allowedFunctionNames }: FunctionCallingConfig): ToolChoice | undefined {
  const names = allowedFunctionNames ?? [];
  const [only, ...others] = names;
  // The format cannot forbid parallel calls.
  const parallel = true;
  if (mode == null || mode === "MODE_UNSPECIFIED") return undefined;
  if (mode === "NONE") return { type: "none" };
  if (mode === "ANY" && only !== undefined && others.length === 0) return { type: "tool", name: only, parallel };
  return { type: mode === "ANY" ? "required" : "auto", parallel, ...(names.length > 0 && { names }) };
}

export function encodeCalling(choice: ToolChoice): FunctionCallingConfig {
  if (choice.type === "none") return { mode: "NONE" };
  if (choice.type === "tool") return { mode: "ANY", allowedFunctionNames: [choice.name] };
  const names = choice.names ?? [];
  if (names.length === 0) return { mode: choice.type === "required" ? "ANY" : "AUTO" };
  return { mode: choice.type === "required" ? "ANY" : "VALIDATED", allowedFunctionNames: [...names] };
}

/**
 * Returns the tool choice with only the names of functions, because the format refuses others, and adds the fields that the choice loses.
 * Undefined if no choice is left.
 */
export function sayableChoice(
  { tools, toolChoice }: ChatRequest,
  fields: ConvertedFields = new Set(),
): ToolChoice | undefined {
  // These two stand beside any tools, also none.
  if (!toolChoice || toolChoice.type === "none" || (toolChoice.type === "auto" && !toolChoice.names)) return toolChoice;
  const functions = new Set<string>();
  // The other tools that are offered: the model may use them, and nothing can make it.
  const others = new Set<string | undefined>();
  for (const tool of tools)
    if (tool.type === "function") functions.add(tool.name);
    else if (tool.type === "code-execution") others.add(CODE_TOOL);
    else if (tool.format === FORMAT || isWebSearch(tool)) others.add(tool.name);
  if (toolChoice.type === "tool" || toolChoice.type === "required") {
    const names = toolChoice.type === "tool" ? [toolChoice.name] : (toolChoice.names ?? [...functions, ...others]);
    const isAmong = (offered: ReadonlySet<string | undefined>): boolean => names.some((name) => offered.has(name));
    if (!isAmong(functions) && isAmong(others)) return void fields.add("toolChoice");
  }
  return choiceAmong(toolChoice, functions, functions.size + others.size > 0, fields);
}

/** Tools and the choice among them, in both directions. */

import type { Tool, ToolChoice } from "../../model/chat.ts";
import type { Losses } from "../shared/fates.ts";
import { DIALECT } from "./schema.base.ts";
import { type NamedTool, nameOf, type Tool as WireTool, type ToolChoice as WireChoice } from "./schema.tool.ts";

export function decodeTool(tool: WireTool): Tool {
  if (tool.type === "custom") return { type: "provider", dialect: DIALECT, name: tool.custom.name, definition: tool };
  const { name, description, parameters, strict } = tool.function;
  return {
    type: "function",
    name,
    // A function without parameters takes none.
    inputSchema: parameters ?? { type: "object", properties: {} },
    ...(description != null && { description }),
    ...(strict != null && { strict }),
  };
}

/** The tool, or nothing where the format has none like it. */
export function encodeTool(tool: Tool, losses: Losses): WireTool[] {
  if (tool.type === "provider" && tool.dialect === DIALECT) return [tool.definition as WireTool];
  losses.add(`tools.${tool.type}`);
  if (tool.type !== "function") return [];
  if (tool.cache) losses.add("messages.cache");
  const { name, description, inputSchema: parameters, strict } = tool;
  return [
    {
      type: "function",
      function: {
        name,
        ...(description !== undefined && { description }),
        parameters,
        ...(strict !== undefined && { strict }),
      },
    },
  ];
}

/** Whether calls may run in parallel belongs to the choice: said without one, the choice is free. */
export function decodeToolChoice(
  choice: WireChoice | null | undefined,
  parallelCalls: boolean | null | undefined,
): ToolChoice | undefined {
  if (choice == null) return parallelCalls == null ? undefined : { type: "auto", parallel: parallelCalls };
  if (choice === "none") return { type: "none" };
  const parallel = parallelCalls ?? true;
  if (typeof choice === "string") return { type: choice, parallel };
  if (choice.type !== "allowed_tools") return { type: "tool", name: nameOf(choice), parallel };
  const { mode, tools } = choice.allowed_tools;
  return { type: mode, parallel, names: tools.map(nameOf) };
}

const namesIn = (choice: ToolChoice): number => ("names" in choice ? (choice.names?.length ?? 0) : 0);

interface Choosing {
  tool_choice?: WireChoice;
  parallel_tool_calls?: false;
}

/** A choice among no tools, or of one that is not there, is an error to the format. */
export function encodeToolChoice(choice: ToolChoice, tools: readonly WireTool[], losses: Losses): Choosing {
  const kinds = new Map(tools.map((tool) => [nameOf(tool), tool.type]));
  const names = "names" in choice ? choice.names?.filter((name) => kinds.has(name)) : undefined;
  const isThere = choice.type === "tool" ? kinds.has(choice.name) : !names || names.length > 0;
  if (tools.length === 0 || !isThere || (names?.length ?? 0) < namesIn(choice)) losses.add("toolChoice");
  if (tools.length === 0 || !isThere) return {};
  if (choice.type === "none") return { tool_choice: "none" };
  const named = (name: string): NamedTool =>
    kinds.get(name) === "custom" ? { type: "custom", custom: { name } } : { type: "function", function: { name } };
  const single = choice.parallel ? {} : { parallel_tool_calls: false as const };
  if (choice.type === "tool") return { tool_choice: named(choice.name), ...single };
  if (!names) return { tool_choice: choice.type, ...single };
  const allowed_tools = { mode: choice.type, tools: names.map(named) };
  return { tool_choice: { type: "allowed_tools", allowed_tools }, ...single };
}

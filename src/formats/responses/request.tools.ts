/**
 * The tools of a request in one list. This format groups tools in namespaces, and has items that add tools in the middle of a conversation.
 * Other formats have only one flat list, so a tool of a namespace is called by both names there.
 */

import type { WireObject } from "../../kinds/chat/request.ts";
import {
  additionalTools,
  flatName,
  isNamespace,
  type NamedInSpace,
  type NamespaceTool,
  type ResponsesRequest,
  type WireTool,
} from "./schema.ts";

/** The names of a tool on the wire. A tool outside of namespaces has only its own. */
export interface WireName {
  readonly name: string;
  readonly namespace?: string;
}

/**
 * Returns all tools under flat names. The description of a namespace stands before that of its first tool. A tool that comes again, as in a
 * continued conversation, replaces the earlier one.
 */
export function flatTools({ tools, input }: Pick<ResponsesRequest, "tools" | "input">): readonly WireTool[] {
  const added = additionalTools(input).flatMap((item) => item.tools);
  if (added.length === 0 && !tools?.some(isNamespace)) return tools ?? [];
  const named = new Map<string, WireTool>();
  const others: WireTool[] = [];
  for (const tool of [...(tools ?? []), ...added]) {
    if (tool.type !== "function" && tool.type !== "custom" && !isNamespace(tool)) others.push(tool);
    // The cast is safe: of the tools with such a type, only namespaces hold others.
    else for (const inner of isNamespace(tool) ? innerTools(tool) : [tool as InnerTool]) named.set(inner.name, inner);
  }
  return [...named.values(), ...others];
}

type InnerTool = NamespaceTool["tools"][number];

const innerTools = ({ name: namespace, description, tools }: NamespaceTool): InnerTool[] =>
  tools.map((tool, index) => {
    const described = [index === 0 ? description : "", tool.description].filter(Boolean).join("\n\n");
    return { ...tool, name: flatName({ ...tool, namespace }), ...(described !== "" && { description: described }) };
  });

/** Returns a function that finds the flat name of a chosen tool. A choice may name a tool of a namespace by its own name alone. */
export function chooser(body: WireObject, tools: readonly WireTool[]): (choice: NamedInSpace) => string {
  const flat = new Map<string, string>();
  for (const [name, wire] of wireNames(body)) flat.set(wire.name, name);
  // A tool outside of namespaces comes first.
  for (const tool of tools) if ("name" in tool && typeof tool.name === "string") flat.set(tool.name, tool.name);
  return (choice) => (choice.namespace ? flatName(choice) : (flat.get(choice.name) ?? choice.name));
}

/** Returns the names on the wire of the tools in namespaces, by their flat names. */
export function wireNames(body: WireObject): ReadonlyMap<string, WireName> {
  // The cast is safe: the body was decoded.
  const { tools, input } = body as ResponsesRequest;
  const names = new Map<string, WireName>();
  for (const tool of [...(tools ?? []), ...additionalTools(input).flatMap((item) => item.tools)])
    if (isNamespace(tool))
      for (const { name } of tool.tools)
        names.set(flatName({ name, namespace: tool.name }), { name, namespace: tool.name });
  return names;
}

/** The tools of a chat-completions request, and the choice among them. */

import * as v from "valibot";
import { object, textOr, variant } from "../../http/validation.ts";
import { atMost, text } from "../shared/schema.parts.ts";
import { whole } from "../shared/schema.unsaid.ts";
import { jsonObject } from "./schema.base.ts";

/** The official service stops at 64; agents name tools by their servers too, and local servers take those. */
const toolName = atMost(text, 128);

const FunctionTool = object({
  type: v.literal("function"),
  function: object({
    name: toolName,
    description: v.nullish(v.string()),
    parameters: v.nullish(jsonObject),
    strict: v.nullish(v.boolean()),
  }),
});
export type FunctionTool = v.InferOutput<typeof FunctionTool>;

/** A tool whose input is a text; carried whole. */
const CustomTool = whole(
  object({
    type: v.literal("custom"),
    custom: whole(object({ name: toolName, description: v.nullish(v.string()), format: v.nullish(jsonObject) })),
  }),
);

export const Tool = variant([FunctionTool, CustomTool]);
export type Tool = v.InferOutput<typeof Tool>;

const FunctionChoice = object({ type: v.literal("function"), function: object({ name: text }) });
const CustomChoice = object({ type: v.literal("custom"), custom: object({ name: text }) });

const NamedTool = variant([FunctionChoice, CustomChoice]);
export type NamedTool = v.InferOutput<typeof NamedTool>;

const AllowedTools = object({
  type: v.literal("allowed_tools"),
  allowed_tools: object({
    mode: v.picklist(["auto", "required"]),
    tools: v.pipe(v.array(NamedTool), v.minLength(1, "must name at least one tool")),
  }),
});

const AUTO = ["none", "auto", "required"] as const;
const ChosenTools = variant([FunctionChoice, CustomChoice, AllowedTools]);

export type ToolChoice = (typeof AUTO)[number] | v.InferOutput<typeof ChosenTools>;
export const ToolChoice = textOr(ChosenTools, v.picklist(AUTO)) as v.GenericSchema<unknown, ToolChoice>;

/** The name of a tool, or of one that is chosen. */
export const nameOf = (tool: Tool | NamedTool): string =>
  tool.type === "function" ? tool.function.name : tool.custom.name;

/** Answers for real agents: whatever their tools are called, they are made to read three files at once, and then one more. */

import type { JsonObject } from "../../src/model/json.ts";
import type { Call, Heard, OfferedTool, Script, Turn } from "./script.ts";

/** Names of tools that read one file, most exact first. */
const READERS = ["Read", "read_file", "read", "ReadFile", "view"];

/** Names of tools that run a command in a shell, for agents that read files with it. */
const SHELLS = ["exec_command"];

/** Names of the argument with the path. */
const PATHS = ["file_path", "absolute_path", "filePath", "path"];

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
}

/** @param files The files to read, with the text that each must bring: the first three at once, and the last by itself. */
export function agentScript(files: ReadonlyMap<string, string>): Script {
  const paths = [...files.keys()];
  return (heard) => {
    const reader = readerIn(heard);
    // Agents ask beside their work, such as for a title.
    if (!reader)
      return said(heard.schema === undefined ? "A chat about files." : JSON.stringify(sampleOf(heard.schema)));
    const read = (path: string): Call => ({ name: reader.name, args: argumentsOf(reader, path) });
    if (heard.stepsOfTurn === 0) return { thought: "Three files first.", calls: paths.slice(0, 3).map(read) };
    if (heard.stepsOfTurn === 1)
      return { thought: "One is left.", isRedacted: true, text: "One more file.", calls: paths.slice(3).map(read) };
    const history = heard.facts.join("\n");
    for (const [path, text] of files)
      if (!history.includes(text)) throw new Error(`The history does not hold the text of ${path}.`);
    return said("All files are read.");
  };
}

const said = (text: string): Turn => ({ thought: "Nothing is left to do.", text, calls: [] });

function readerIn({ tools }: Heard): OfferedTool | undefined {
  for (const name of [...READERS, ...SHELLS]) {
    const found = tools.find((tool) => tool.name === name);
    if (found) return found;
  }
  return undefined;
}

function argumentsOf({ name, schema }: OfferedTool, path: string): JsonObject {
  const { properties = {}, required = [] } = (schema ?? {}) as Schema;
  const args = Object.fromEntries(required.map((field) => [field, sampleOf(properties[field])]));
  if ("cmd" in properties) return { ...args, cmd: `cat '${path}'` };
  const field = PATHS.find((field) => field in properties);
  if (field === undefined) throw new Error(`The tool ${name} has no path: ${JSON.stringify(schema)}`);
  return { ...args, [field]: path } as JsonObject;
}

/** Returns a value that fits a simple schema. */
function sampleOf(schema: unknown): unknown {
  const { type, enum: values, properties = {}, required = Object.keys(properties) } = (schema ?? {}) as Schema;
  if (values) return values[0];
  switch (typeof type === "string" ? type.toLowerCase() : type?.[0]) {
    case "object":
      return Object.fromEntries(required.map((name) => [name, sampleOf(properties[name])]));
    case "array":
      return [];
    case "number":
    case "integer":
      return 1;
    case "boolean":
      return false;
    default:
      return "a text";
  }
}

/** Writes values as the JavaScript that a person would write. */

import type { Json } from "./json.ts";

const WIDTH = 88;

/** Returns a value as JavaScript source. A short value stays on a single line. */
export function toSource(value: Json | undefined, depth = 0): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value ?? null);
  const isList = Array.isArray(value);
  const entries = isList
    ? (value as readonly Json[]).map((item) => toSource(item, depth + 1))
    : Object.entries(value)
        .filter(([, item]) => item !== undefined)
        .map(([name, item]) => `${keyOf(name)}: ${toSource(item as Json, depth + 1)}`);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) return open + close;
  const line = isList ? `[${entries.join(", ")}]` : `{ ${entries.join(", ")} }`;
  if (line.length + 2 * depth <= WIDTH && !line.includes("\n")) return line;
  const indent = "  ".repeat(depth + 1);
  return `${open}\n${entries.map((entry) => `${indent}${entry},\n`).join("")}${"  ".repeat(depth)}${close}`;
}

const keyOf = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));

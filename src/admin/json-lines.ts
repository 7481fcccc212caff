/** The JSON lines of an import: reads a JSON object from each line, and says which lines are wrong. */

import * as v from "valibot";
import { given, isJsonObject, type JsonObject, parseJson } from "../model/json.ts";
import { oneLine } from "../options.ts";
import { masked } from "./masked.ts";
import { type AdminErrorCode, codeOf } from "./refusal-codes.ts";
import { nearestHint } from "./values.ts";

/** A line that is wrong, or whose amount is doubtful. */
export interface WrongLine {
  readonly line: number;
  /** The first wrong character, from 1, of a line that is no JSON. Set for the first lines alone, which errors name. */
  readonly character?: number;
  readonly error: string;
  readonly code: AdminErrorCode;
}

/** The lines of a file. */
interface Lines<Value> {
  readonly lines: readonly { readonly line: number; readonly value: Value }[];
  readonly wrong: readonly WrongLine[];
  /** A sentence about the whole file, with a space before it; empty for a file of lines. */
  readonly hint: string;
}

/** The things that an import makes. */
type Owner = "key" | "budget";

/**
 * Reads all lines. Skips the byte order mark that Windows writes before them.
 *
 * @param valueOf Reads the object of a line. Throws an error that describes the problem without the secrets of the line.
 */
export function linesIn<Value extends { readonly id?: string }>(
  text: string,
  owner: Owner,
  valueOf: (object: JsonObject) => Value,
): Lines<Value> {
  const lines: { readonly line: number; readonly value: Value }[] = [];
  const wrong: WrongLine[] = [];
  const lineOfId = new Map<string, number>();
  for (const [index, json] of text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .entries()) {
    if (json.trim() === "") continue;
    const line = index + 1;
    try {
      const value = valueOf(objectIn(json, owner));
      const first = value.id === undefined ? undefined : lineOfId.get(value.id);
      if (first !== undefined) throw new RangeError(`The id ${value.id} is on line ${first} already.`);
      if (value.id !== undefined) lineOfId.set(value.id, line);
      lines.push({ line, value });
    } catch (error) {
      // The search takes long, and errors name only the first wrong lines.
      const character = error instanceof BrokenJson && wrong.length < MOST_NAMED ? brokenAt(json) : undefined;
      wrong.push({ line, ...given({ character }), ...told(error) });
    }
  }
  const hint = /^\uFEFF?\s*\[/.test(text)
    ? " The file is a JSON list: write its objects on a line each, without brackets and commas."
    : "";
  return { lines, wrong, hint };
}

/** Checks the fields of a line. Throws a RangeError for a field that is unknown, missing or of a wrong type. */
export function fieldsOfLine<Entries extends v.ObjectEntries>(
  object: JsonObject,
  owner: Owner,
  schema: v.StrictObjectSchema<Entries, undefined>,
): v.InferOutput<v.StrictObjectSchema<Entries, undefined>> {
  const { success, output, issues } = v.safeParse(schema, object);
  if (success) return output;
  const [{ path, expected, received, type }] = issues;
  const name = path?.map(({ key }) => String(key)).join(".") ?? "the line";
  if (received === "undefined") throw new RangeError(`${name} is missing.`);
  throw new RangeError(
    type === "strict_object"
      ? `${name} is no field of a ${owner}.${nearestHint(name, Object.keys(schema.entries))}`
      : `${name} must be of the type ${expected}.`,
  );
}

/** Tells an error of a line without secrets. */
export const told = (error: unknown): Pick<WrongLine, "error" | "code"> => ({
  error: masked(oneLine((error as Error).message)),
  code: codeOf(error),
});

/** The most wrong lines that an error names. */
export const MOST_NAMED = 10;

/** Names wrong lines in their order, as data and in words. Of too many, names the first that are given. */
export function namedLines(wrong: readonly WrongLine[]): {
  readonly lines: readonly WrongLine[];
  readonly words: string;
} {
  const lines = wrong.slice(0, MOST_NAMED).toSorted((one, other) => one.line - other.line);
  const words = lines.map(
    ({ line, character, error }) =>
      `line ${line}${character === undefined ? "" : `, character ${character}`}: ${error}`,
  );
  const more = wrong.length - lines.length;
  return { lines, words: [...words, ...(more > 0 ? [`and ${more} more.`] : [])].join("\n") };
}

/** The error of a line that is no JSON. A parser may quote the text in its error, and the text may contain a secret. */
class BrokenJson extends RangeError {
  override readonly name = "BrokenJson";
}

function objectIn(json: string, owner: Owner): JsonObject {
  let value: unknown;
  try {
    value = parseJson(json);
  } catch {
    throw new BrokenJson(
      `This is no JSON. Each line must be a JSON object of a ${owner}, as ${owner}s export writes it.`,
    );
  }
  if (!isJsonObject(value)) throw new RangeError("This is no JSON object.");
  return value;
}

/**
 * Finds the first wrong character of a text that is no JSON, from 1. A beginning of the text is right while JSON can follow it, which only the
 * parser of V8 tells.
 */
function brokenAt(json: string): number | undefined {
  if ("Bun" in globalThis) return undefined;
  let [right, wrong] = [0, json.length + 1];
  while (wrong - right > 1) {
    const middle = Math.floor((right + wrong) / 2);
    if (isBeginning(json.slice(0, middle))) right = middle;
    else wrong = middle;
  }
  return wrong;
}

/** True for a beginning of JSON: the parser then complains about the end of the text. */
function isBeginning(text: string): boolean {
  try {
    parseJson(text);
    return true;
  } catch (error) {
    const { message } = error as Error;
    const [, at] = /at position (\d+)/.exec(message) ?? [];
    return /end of JSON|Unterminated string/.test(message) || Number(at) === text.length;
  }
}

/** Keys as JSON lines: one JSON object for each key, for hosts with many keys. */

import * as v from "valibot";
import { given, isJsonObject, parseJson } from "../model/json.ts";
import type { RefusedChange } from "../model/refused-units.ts";
import { oneLine } from "../options.ts";
import {
  type DurableKeyOptions,
  type DurableQuotaStore,
  type KeyReport,
  newDurableKeyOf,
  newKeyId,
  revokedKey,
} from "../stores/durable.ts";
import { knownKey, modelsOf, noSuchBudget } from "../stores/ledger.ts";
import { changedFields, fieldsOf, masked } from "./change-log.ts";
import { type KeyAdmin, newApiKey } from "./key-admin.ts";
import { type AdminErrorCode, codeOf } from "./refusal-codes.ts";
import { nearestHint } from "./values.ts";

/** Formats a key as the line that imports it: without secrets, and without holds. */
export function exportedLine(key: KeyReport): string {
  const { id, name, granted, used, expiresAt, paused, budget, metadata } = key;
  const models = modelsOf(key);
  return JSON.stringify({
    id,
    name,
    ...(granted !== null && { granted }),
    used,
    models,
    expiresAt,
    paused,
    budget,
    metadata,
  });
}

/** A key to import, and the number of its line. */
export interface KeyLine {
  readonly line: number;
  readonly key: DurableKeyOptions;
}

const LINE = v.strictObject({
  id: v.optional(v.string()),
  name: v.optional(v.string()),
  granted: v.optional(v.number()),
  used: v.optional(v.number()),
  models: v.optional(v.array(v.string())),
  expiresAt: v.optional(v.number()),
  paused: v.optional(v.boolean()),
  budget: v.optional(v.string()),
  metadata: v.optional(v.record(v.string(), v.string())),
  apiKey: v.optional(v.union([v.string(), v.array(v.string())])),
});

/** A line that is wrong, or whose amount is doubtful. */
export interface WrongLine {
  readonly line: number;
  /** The first wrong character, from 1, of a line that is no JSON. */
  readonly character?: number;
  readonly error: string;
  readonly code: AdminErrorCode;
}

/** The lines of a file. */
interface Lines {
  readonly lines: readonly KeyLine[];
  readonly wrong: readonly WrongLine[];
  /** A sentence about the whole file, with a space before it; empty for a file of lines. */
  readonly hint: string;
}

/** Reads all lines. Skips the byte order mark that Windows writes before them. */
export function readLines(text: string): Lines {
  const lines: KeyLine[] = [];
  const wrong: WrongLine[] = [];
  const lineOfId = new Map<string, number>();
  for (const [index, json] of text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .entries()) {
    if (json.trim() === "") continue;
    const line = index + 1;
    try {
      const key = keyOf(json);
      const first = key.id === undefined ? undefined : lineOfId.get(key.id);
      if (first !== undefined) throw new RangeError(`The id ${key.id} is on line ${first} already.`);
      if (key.id !== undefined) lineOfId.set(key.id, line);
      lines.push({ line, key });
    } catch (error) {
      const { at: character } = error instanceof BrokenJson ? error : {};
      wrong.push({ line, ...given({ character }), ...told(error) });
    }
  }
  const hint = /^\uFEFF?\s*\[/.test(text)
    ? " The file is a JSON list: write its objects on a line each, without brackets and commas."
    : "";
  return { lines, wrong, hint };
}

const told = (error: unknown): Pick<WrongLine, "error" | "code"> => ({
  error: masked(oneLine((error as Error).message)),
  code: codeOf(error),
});

/** Returns the lines with a budget that does not exist. */
export async function withoutBudget(
  lines: readonly KeyLine[],
  store: Pick<DurableQuotaStore, "budgetReport">,
): Promise<readonly WrongLine[]> {
  const missing = new Set<string>();
  for (const id of new Set(lines.flatMap(({ key }) => key.budget ?? [])))
    if (!(await hasBudget(id, store))) missing.add(id);
  return lines.flatMap(({ line, key: { budget } }) => {
    if (budget === undefined || !missing.has(budget)) return [];
    return { line, ...told(noSuchBudget(budget)) };
  });
}

/** False for a removed budget, too. */
async function hasBudget(id: string, store: Pick<DurableQuotaStore, "budgetReport">): Promise<boolean> {
  const report = await store.budgetReport(id);
  return report !== undefined && !report.removed;
}

/** The most wrong lines that an error names. */
const MOST_NAMED = 10;

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

/** Reads a single line. Throws an error that describes the problem without the secrets of the line. */
function keyOf(json: string): DurableKeyOptions {
  const value = parsed(json);
  if (!isJsonObject(value)) throw new RangeError("This is no JSON object.");
  const { success, output, issues } = v.safeParse(LINE, value);
  if (!success) {
    const [{ path, expected, type }] = issues;
    const name = path?.map(({ key }) => String(key)).join(".") ?? "the line";
    throw new RangeError(
      type === "strict_object"
        ? `${name} is no field of a key.${nearestHint(name, Object.keys(LINE.entries))}`
        : `${name} must be of the type ${expected}.`,
    );
  }
  // The cast drops `undefined` from the types of absent fields: JSON has no undefined.
  const key = output as DurableKeyOptions;
  // Check the metadata as they were read: the schema leaves out an entry of the name "__proto__".
  newDurableKeyOf({ ...key, ...(key.metadata && { metadata: value["metadata"] as Record<string, string> }) });
  return key;
}

/** The error of a line that is no JSON. */
class BrokenJson extends RangeError {
  override readonly name = "BrokenJson";
  /** The first character that is wrong, from 1; undefined if it is not known. */
  readonly at: number | undefined;

  constructor(at: number | undefined) {
    // A parser may quote the text in its error, and the text may contain a secret.
    super("This is no JSON.");
    this.at = at;
  }
}

function parsed(json: string): unknown {
  try {
    return parseJson(json);
  } catch {
    throw new BrokenJson(brokenAt(json));
  }
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

/** The target of `importLines`, and its output. */
export interface Import {
  readonly keys: KeyAdmin;
  readonly store: DurableQuotaStore;
  /** Changes keys that are known already, except their quota and secrets. */
  readonly update: boolean;
  readonly print: (line: string) => void;
}

/** A line whose key the store has refused. */
interface FailedLine {
  readonly line: number;
  /** True for the id of a key that is there already. */
  readonly isKnown: boolean;
}

/** The keys that are made at the same time, so that they share writes of the store and of the log of changes. */
const AT_ONCE = 64;

/** The work of an import for a line. */
interface Step {
  /** Why the line is refused before anything is done. */
  readonly refusal?: RefusedChange;
  /** The object that is printed before `run`. */
  readonly told?: { readonly id: string; readonly apiKey?: string | readonly string[] };
  /** Does the work. Returns the object to print afterwards, if there is one. */
  readonly run?: () => Promise<object | void>;
}

/**
 * Makes the keys, and prints a JSON line for each. Secrets are printed before their keys are made, so that an import that is killed has made no
 * key whose secret is lost. Goes on after a key that the store refuses: its error takes the printed secret back with `"apiKey": null`. Returns
 * such lines.
 */
export async function importLines(
  lines: readonly KeyLine[],
  { print, ...into }: Import,
): Promise<readonly FailedLine[]> {
  const failed: FailedLine[] = [];
  const tellRefused = ({ line, key: { id } }: KeyLine, error: RangeError, told: Step["told"]): void => {
    const { message } = error;
    failed.push({ line, isKnown: id !== undefined && message === knownKey(id).message });
    const takenBack = told?.apiKey === undefined ? given({ id }) : { id: told.id, apiKey: null };
    print(JSON.stringify({ line, ...takenBack, error: message, code: codeOf(error) }));
  };
  for (let at = 0; at < lines.length; at += AT_ONCE) {
    const group = lines.slice(at, at + AT_ONCE);
    const steps = await Promise.all(group.map(async (one) => ({ one, ...(await stepOf(one.key, into)) })));
    for (const { one, refusal, told } of steps) {
      if (refusal) tellRefused(one, refusal, told);
      if (told) print(JSON.stringify(told));
    }
    const works = steps.map(({ one, told, run }) => ({ one, told, work: run?.() }));
    // All of these are awaited below, one after the other.
    for (const { work } of works) work?.catch(() => {});
    const broken: unknown[] = [];
    for (const { one, told, work } of works)
      try {
        const done = await work;
        if (done) print(JSON.stringify(done));
      } catch (error) {
        if (error instanceof RangeError) tellRefused(one, error, told);
        else broken.push(error);
      }
    // Any other error comes from the connection: the next keys would fail as well.
    if (broken.length > 0) throw broken[0];
  }
  return failed.toSorted((one, other) => one.line - other.line);
}

async function stepOf(
  { apiKey, ...key }: DurableKeyOptions,
  { keys, store, update }: Omit<Import, "print">,
): Promise<Step> {
  const { id = newKeyId() } = key;
  const known = key.id === undefined ? undefined : await store.report(id);
  if (known && !update) return { refusal: knownKey(id) };
  if (!known) {
    const made = { ...key, id, apiKey: apiKey ?? newApiKey() };
    return {
      told: { id, ...(apiKey === undefined && { apiKey: made.apiKey }) },
      run: async () => void (await store.add(made)),
    };
  }
  if (known.revoked) return { refusal: revokedKey(id) };
  const { granted: _granted, used: _used, id: _id, ...fields } = key;
  // The log of changes has only what changes.
  const { budget: moved, ...changes } = changedFields(fields, fieldsOf(known)) as typeof fields;
  return {
    async run() {
      if (moved !== undefined) await store.assignBudget(id, moved);
      if (Object.keys(changes).length > 0) await keys.update(id, changes);
      return { id, updated: [...Object.keys(changes), ...(moved === undefined ? [] : ["budget"])] };
    },
  };
}

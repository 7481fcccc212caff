/** Keys as JSON lines: one JSON object for each key, for hosts with many keys. */

import * as v from "valibot";
import { given, isJsonObject, parseJson } from "../model/json.ts";
import { RefusedChange } from "../model/refused-units.ts";
import { oneLine } from "../options.ts";
import {
  changedDurableKeyOf,
  type DurableKeyOptions,
  type DurableQuotaStore,
  type KeyReport,
  newDurableKeyOf,
  newKeyId,
  revokedKey,
} from "../stores/durable.ts";
import { hashOfSecret, knownKey, knownSecret, modelsOf, noSuchBudget } from "../stores/ledger.ts";
import { changedFields, fieldsOf } from "./change-log.ts";
import { timeIn } from "./columns.ts";
import { type KeyAdmin, newApiKey, type NewKeyTold, withoutNulls } from "./key-admin.ts";
import { type KeyState, stateOf } from "./key-state.ts";
import { assertNoNewSecret, assertNoSecret, masked } from "./masked.ts";
import { type AdminErrorCode, codeOf } from "./refusal-codes.ts";
import { nearestHint } from "./values.ts";

/** Formats a key as the line that imports it: without secrets, and without holds. */
export function exportedLine(key: KeyReport): string {
  const { id, name, granted, used, expiresAt, paused, budget, metadata } = key;
  const models = modelsOf(key) ?? null;
  return JSON.stringify({ id, name, granted, used, models, expiresAt, paused, budget, metadata });
}

/** A key of a line: null stands for a key without a quota of its own, and for every model. */
type NewKey = NewKeyTold & Pick<DurableKeyOptions, "apiKey">;

/** A key to import, and the number of its line. */
export interface KeyLine {
  readonly line: number;
  readonly key: NewKey;
}

const LINE = v.strictObject({
  id: v.optional(v.string()),
  name: v.optional(v.string()),
  granted: v.optional(v.nullable(v.number())),
  used: v.optional(v.number()),
  models: v.optional(v.nullable(v.array(v.string()))),
  expiresAt: v.optional(v.number()),
  paused: v.optional(v.boolean()),
  budget: v.optional(v.string()),
  metadata: v.optional(v.record(v.string(), v.string())),
  apiKey: v.optional(v.union([v.string(), v.array(v.string())])),
});

/** A line that is wrong, or whose amount is doubtful. */
export interface WrongLine {
  readonly line: number;
  /** The first wrong character, from 1, of a line that is no JSON. Set for the first lines alone, which errors name. */
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

/** Reads a single line. Throws an error that describes the problem without the secrets of the line. */
function keyOf(json: string): NewKey {
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
  const key = output as NewKey;
  // Check the metadata as they were read: the schema leaves out an entry of the name "__proto__".
  newDurableKeyOf({
    ...withoutNulls(key),
    ...(key.metadata && { metadata: value["metadata"] as Record<string, string> }),
  });
  assertNoSecret("key", key);
  return key;
}

/** The error of a line that is no JSON. A parser may quote the text in its error, and the text may contain a secret. */
class BrokenJson extends RangeError {
  override readonly name = "BrokenJson";
  override readonly message = "This is no JSON. Each line must be a JSON object of a key, as keys export writes it.";
}

function parsed(json: string): unknown {
  try {
    return parseJson(json);
  } catch {
    throw new BrokenJson();
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

/** A line whose key the store refuses. */
export interface FailedLine {
  readonly line: number;
  /** True for the id of a key that is there already. */
  readonly isKnown: boolean;
}

/** The keys that are made at the same time, so that they share writes of the store and of the log of changes. */
const AT_ONCE = 64;

/** The work of an import for a line. */
interface Step {
  /** Why the line is refused before anything is done. */
  readonly refusal?: RangeError;
  /** True for a line that is refused because its key is there already. */
  readonly isKnown?: boolean;
  /** The new key, which is printed before `run`. */
  readonly made?: { readonly id: string; readonly apiKey?: string | readonly string[] };
  /** The known key and the names of what differs, which are printed after `run`. */
  readonly changed?: { readonly id: string; readonly updated: readonly string[] };
  /** What decides whether the key takes calls after the import. */
  readonly rights?: Pick<KeyReport, "revoked" | "paused" | "expiresAt">;
  readonly run?: () => Promise<unknown>;
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
  const tellRefused = (
    { line, key: { id } }: KeyLine,
    error: RangeError,
    { made, isKnown = false }: Pick<Step, "made" | "isKnown">,
  ): void => {
    failed.push({ line, isKnown });
    const takenBack = made?.apiKey === undefined ? given({ id }) : { id: made.id, apiKey: null };
    print(JSON.stringify({ line, ...takenBack, ...told(error) }));
  };
  for (let at = 0; at < lines.length; at += AT_ONCE) {
    const steps = await stepsOf(lines.slice(at, at + AT_ONCE), into);
    for (const { one, ...step } of steps) {
      if (step.refusal) tellRefused(one, step.refusal, step);
      if (step.made) print(JSON.stringify(step.made));
    }
    const works = steps.map((step) => ({ ...step, work: step.run?.() }));
    // All of these are awaited below, one after the other.
    for (const { work } of works) work?.catch(() => {});
    const broken: unknown[] = [];
    for (const { one, made, changed, work } of works)
      try {
        await work;
        if (changed) print(JSON.stringify(changed));
      } catch (error) {
        if (!(error instanceof RangeError)) broken.push(error);
        else
          tellRefused(one, error, { ...given({ made }), isKnown: await isOfKnownKey(error, one.key.id, into.store) });
      }
    // Any other error comes from the connection: the next keys would fail as well.
    if (broken.length > 0) throw broken[0];
  }
  return failed.toSorted((one, other) => one.line - other.line);
}

/** True for the refusal of a key that somebody has made meanwhile. */
const isOfKnownKey = async (
  error: RangeError,
  id: string | undefined,
  store: Pick<DurableQuotaStore, "report">,
): Promise<boolean> =>
  id !== undefined &&
  error instanceof RefusedChange &&
  error.code === "conflict" &&
  (await store.report(id)) !== undefined;

const stepsOf = (lines: readonly KeyLine[], into: Omit<Import, "print">) =>
  Promise.all(lines.map(async (one) => ({ one, ...(await stepOf(one.key, into)) })));

async function stepOf({ apiKey, ...key }: NewKey, { keys, store, update }: Omit<Import, "print">): Promise<Step> {
  const { id = newKeyId() } = key;
  const known = key.id === undefined ? undefined : await store.report(id);
  const { paused = known?.paused ?? false, expiresAt = known?.expiresAt ?? 0 } = key;
  const rights = { revoked: false, paused, expiresAt };
  if (known && !update) return { refusal: knownKey(id), isKnown: true };
  if (!known) {
    const added = { ...withoutNulls(key), id, apiKey: apiKey ?? newApiKey() };
    return {
      rights,
      made: { id, ...(apiKey === undefined && { apiKey: added.apiKey }) },
      run: () => store.add(added),
    };
  }
  if (known.revoked) return { refusal: revokedKey(id) };
  const { granted: _granted, used: _used, id: _id, ...fields } = key;
  // The log of changes has only what changes.
  const { budget: moved, ...changes } = changedFields(fields, fieldsOf(known)) as typeof fields;
  try {
    // A key must not be moved to a budget if its other changes are refused.
    changedDurableKeyOf(known, changes);
    assertNoNewSecret("key", known, changes);
  } catch (error) {
    if (error instanceof RangeError) return { refusal: error };
    throw error;
  }
  return {
    rights,
    changed: { id, updated: [...Object.keys(changes), ...(moved === undefined ? [] : ["budget"])] },
    async run() {
      if (moved !== undefined) await store.assignBudget(id, moved);
      if (Object.keys(changes).length > 0) await keys.update(id, changes);
    },
  };
}

/** The plan of an import for a line. */
interface PlannedLine extends Partial<Pick<WrongLine, "error" | "code">> {
  readonly line: number;
  /** Absent for a new key whose id will be random. */
  readonly id?: string;
  /** `none` for a known key in which nothing differs. Absent for a line that would be refused, which has an `error`. */
  readonly action?: "create" | "update" | "none";
  /** The names of the fields that would be changed. */
  readonly updated?: readonly string[];
  /** The state of a key that would take no calls after the import. */
  readonly state?: Extract<KeyState, "paused" | "expired">;
  /** The time at which an expired key has ended: Unix time in seconds. */
  readonly expiresAt?: number | undefined;
}

/** The plan of an import: its lines, and the number of the keys that it would make, change and refuse. */
export interface ImportPlan {
  readonly create: number;
  readonly update: number;
  readonly refuse: number;
  readonly lines: readonly PlannedLine[];
}

/** Says what `importLines` would do, and changes nothing. Returns the lines that would be refused, too. */
export async function planOf(
  lines: readonly KeyLine[],
  into: Omit<Import, "print">,
): Promise<ImportPlan & { readonly refused: readonly FailedLine[] }> {
  const planned: PlannedLine[] = [];
  const refused: FailedLine[] = [];
  const taken = new Set<string>();
  for (let at = 0; at < lines.length; at += AT_ONCE)
    for (const { one, refusal, isKnown = false, changed, rights } of await stepsOf(
      lines.slice(at, at + AT_ONCE),
      into,
    )) {
      const { line, key } = one;
      const { id, apiKey = [] } = key;
      const error = refusal ?? (changed ? undefined : await refusalOf([apiKey].flat(), taken, into.store));
      if (error) refused.push({ line, isKnown });
      planned.push({ line, ...given({ id }), ...(error ? told(error) : planIn(changed, rights)) });
    }
  const countOf = (action: PlannedLine["action"]): number => planned.filter((one) => one.action === action).length;
  return { create: countOf("create"), update: countOf("update"), refuse: refused.length, lines: planned, refused };
}

function planIn(changed: Step["changed"], rights: Step["rights"]): Omit<PlannedLine, "line" | "id"> {
  const { updated = [] } = changed ?? {};
  const state = rights && stateOf(rights, Date.now());
  return {
    action: changed ? (updated.length > 0 ? "update" : "none") : "create",
    ...(updated.length > 0 && { updated }),
    ...(state === "paused" && { state }),
    ...(state === "expired" && { state, expiresAt: rights?.expiresAt }),
  };
}

/** Returns the refusal of secrets that another key or an earlier line has. */
async function refusalOf(
  secrets: readonly string[],
  taken: Set<string>,
  store: Pick<DurableQuotaStore, "find">,
): Promise<RefusedChange | undefined> {
  const hashes = new Map(secrets.map((secret) => [hashOfSecret(secret), secret.replace(/^sk-/, "")]));
  for (const [hash, secret] of hashes) if (taken.has(hash) || (await store.find(secret))) return knownSecret();
  for (const hash of hashes.keys()) taken.add(hash);
  return undefined;
}

/** Writes a plan for people: a line for each line, and the sums. */
export function planInWords({ create, update, refuse, lines }: ImportPlan): string {
  const sentences = lines.map(({ line, id, action, updated = [], state, expiresAt, error }) => {
    const name = id === undefined ? "a key with a random id" : oneLine(id);
    const words = {
      create: "would be made",
      update: `would get another ${updated.join(", ")}`,
      none: "would stay as it is",
    };
    const since = expiresAt === undefined ? "" : ` since ${timeIn("UTC", expiresAt * 1_000)} UTC`;
    return `line ${line}: ${name}: ${action ? words[action] : error}${state ? `, and is ${state}${since}` : ""}`;
  });
  const sums = `Nothing was changed. An import would make ${create} keys, change ${update} and refuse ${refuse}.`;
  return [...sentences, sums].join("\n");
}

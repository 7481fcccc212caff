/** Keys as JSON lines: one JSON object for each key, for hosts with many keys. */

import * as v from "valibot";
import { given, type JsonObject } from "../model/json.ts";
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
import { fieldsOfLine, linesIn, told, type WrongLine } from "./json-lines.ts";
import { type KeyAdmin, newApiKey, type NewKeyTold, withoutNulls } from "./key-admin.ts";
import { type KeyState, stateOf } from "./key-state.ts";
import { assertNoNewSecret, assertNoSecret } from "./masked.ts";

/** Formats a key as the line that imports it: without secrets, and without holds. */
export function exportedLine(key: KeyReport): string {
  const { id, name, granted, used, expiresAt, paused, budget, metadata, revoked } = key;
  const models = modelsOf(key) ?? null;
  const line = { id, name, granted, used, models, expiresAt, paused, budget, metadata };
  return JSON.stringify({ ...line, ...(revoked && { revoked }) });
}

/** A key of a line: null stands for a key without a quota of its own, and for every model. */
type NewKey = NewKeyTold & Pick<DurableKeyOptions, "apiKey">;

/** A key to import, and the number of its line. */
export interface KeyLine {
  readonly line: number;
  readonly key: NewKey;
}

/** True for a key with all fields that an export writes of every key: its amounts are units, and were meant before. */
export const isExported = ({ name, granted, used, models, expiresAt }: NewKey): boolean =>
  [name, granted, used, models, expiresAt].every((value) => value !== undefined);

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
  revoked: v.optional(v.boolean()),
  apiKey: v.optional(v.union([v.string(), v.array(v.string())])),
});

/** Reads all lines. */
export function readLines(text: string): {
  readonly lines: readonly KeyLine[];
  readonly wrong: readonly WrongLine[];
  readonly hint: string;
} {
  const { lines, ...rest } = linesIn(text, "key", keyOf);
  return { ...rest, lines: lines.map(({ line, value }) => ({ line, key: value })) };
}

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

/** Reads the key of a line. Throws an error that describes the problem without the secrets of the line. */
function keyOf(object: JsonObject): NewKey {
  // The cast drops `undefined` from the types of absent fields: JSON has no undefined.
  const { revoked, ...read } = fieldsOfLine(object, "key", LINE) as NewKey & Pick<Partial<KeyReport>, "revoked">;
  if (revoked) throw new RangeError("The key is revoked: an import would make it usable again. Leave its line out.");
  // The schema leaves out metadata of the names "__proto__", "constructor" and "prototype".
  const key = { ...read, ...(read.metadata && { metadata: object["metadata"] as Record<string, string> }) };
  newDurableKeyOf(withoutNulls(key));
  assertNoSecret("key", key);
  return key;
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
interface ImportStep {
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
    { made, isKnown = false }: Pick<ImportStep, "made" | "isKnown">,
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

async function stepOf({ apiKey, ...key }: NewKey, { keys, store, update }: Omit<Import, "print">): Promise<ImportStep> {
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

function planIn(changed: ImportStep["changed"], rights: ImportStep["rights"]): Omit<PlannedLine, "line" | "id"> {
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

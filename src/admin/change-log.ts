/** Makes changes that are in the log of changes, over HTTP and by commands: notes each one before it is made, and how it ended. */

import { copyOf, isJsonObject, parseJson } from "../model/json.ts";
import { type AuditEntry, type AuditLog, type AuditOutcome, shortened } from "../ports/audit-log.ts";
import { type Clock, LATE, readSoon, within } from "../ports/clock.ts";
import type { BudgetReport } from "../stores/budgets.ts";
import type { BudgetDirectory, KeyDirectory, KeyReport } from "../stores/durable.ts";
import { modelsOf } from "../stores/ledger.ts";
import { isRevokedAlready } from "./key-state.ts";
import { masked, mayBeSecret, withoutSecrets } from "./masked.ts";

type Store = KeyDirectory & Partial<BudgetDirectory>;
type Fields = Readonly<Record<string, unknown>>;

/** The log, and the store in which the changes are made. */
export interface ChangeLog {
  readonly audit: AuditLog;
  readonly store: Store;
  readonly clock: Clock;
  /** Hears of an end that could not be noted. */
  readonly onFailure: (error: unknown) => void;
}

/** A change that a user asks for. */
export interface Change extends Pick<AuditEntry, "user" | "action"> {
  readonly target?: string | undefined;
  /** The fields of the request. A secret in `apiKey` is not noted. */
  readonly fields?: Fields;
  /** Former values that the store does not tell, such as the currency of earlier amounts. */
  readonly former?: Fields;
  /**
   * Set for an edit that is refused when somebody has changed what its user has seen: returns true for that state of the key or the budget. The
   * log leaves out the fields that stay.
   */
  readonly isSeen?: (state: object) => boolean;
}

/** Makes a change; with a condition, only while the key or the budget meets it, in one step. */
export type Make<Made> = (condition?: (state: object) => boolean) => Promise<Made>;

/** Reads the end of a change. */
interface Ends<Made> {
  /** Returns the id of what was made. */
  readonly idOf: (made: Made) => string | undefined;
  /** Returns the end of a change that was not made; undefined when the store may have made the change. */
  readonly endOf: (error: unknown) => AuditOutcome | undefined;
}

/** The longest wait for the former values, and for the end to be noted, in milliseconds. A change must not hang for these. */
const FORMER_MS = 2_000;
const END_MS = 5_000;
/** The most bytes of the fields of a change in the log, and of their former values, as JSON. A refused change must not fill the log. */
const MOST_FIELDS = 16 * 1024;
/** The most characters of a target and of a reason, which have texts of the request. Ids have at most 190. */
const [MOST_TARGET, MOST_REASON] = [200, 1_000];

/**
 * Makes a change, and notes it before and after. A change that cannot be noted is not made. An edit that changes nothing is not noted, nor is
 * another revocation of a key. A change without a known end, such as one whose store was cut off, is noted without an end.
 */
export async function withLog<Made>(
  log: ChangeLog,
  { user, action, target, fields: { apiKey: _secret, ...fields } = {}, former: known, isSeen }: Change,
  make: Make<Made>,
  { idOf, endOf }: Ends<Made>,
): Promise<Made> {
  const { audit, store, clock, onFailure } = log;
  const id = crypto.randomUUID();
  // A store that is away makes no change, and the log still has the attempt.
  const before = await readSoon(fieldsBefore(store, action, target, isSeen), FORMER_MS, clock);
  // Without the tag of this very state, an edit may undo a change that is made just now: log all of its fields.
  const changes = isSeen && before ? changedFields(fields, before) : fields;
  // The store looks once more whether somebody has changed what the user has seen.
  if (before && Object.keys(changes).length === 0) return make();
  const same = !isSeen && before && (await madeWhileSame(action, fields, before, make));
  if (same) return same.made;
  const former = { ...(before && namedIn(changes, before)), ...known };
  const mask = await maskOf(log, { action, target, fields });
  await audit.begin({
    id,
    at: clock.now(),
    user: withoutSecrets(user),
    action,
    ...(target !== undefined && { target: beginning(mask(target), MOST_TARGET) }),
    ...(Object.keys(changes).length > 0 && { changes: maskedFields(shortened(changes, MOST_FIELDS), mask) }),
    ...(Object.keys(former).length > 0 && { former: maskedFields(shortened(former, MOST_FIELDS), withoutSecrets) }),
  });
  // The end of a change is not worth its failure: without it, the log says that the end is unknown.
  const end = async (outcome: AuditOutcome): Promise<void> => {
    try {
      const ended = await within(audit.end(id, outcome), END_MS, clock);
      if (ended === LATE) throw new Error("The log of changes has not taken the end of a change in time.");
    } catch (error) {
      onFailure(error);
    }
  };
  try {
    const made = await make();
    const madeId = idOf(made);
    await end({ state: "done", ...(madeId !== undefined && { target: withoutSecrets(madeId) }) });
    return made;
  } catch (error) {
    const outcome = endOf(error);
    const { reason } = outcome ?? {};
    if (outcome)
      await end({ ...outcome, ...(reason !== undefined && { reason: beginning(masked(reason), MOST_REASON) }) });
    throw error;
  }
}

/**
 * Makes an edit that changes nothing, while it still changes nothing. Returns undefined for any other edit, and for an edit that
 * would undo a change which somebody has made just now.
 */
async function madeWhileSame<Made>(
  action: string,
  fields: Fields,
  before: Fields,
  make: Make<Made>,
): Promise<{ readonly made: Made } | undefined> {
  const stateOf = STATES.get(action);
  const isSame = (state: Fields): boolean => Object.keys(changedFields(fields, state)).length === 0;
  if (!stateOf || !isSame(before)) return undefined;
  let isStale = false;
  try {
    // The cast is safe: the store tells the state that the action edits.
    return { made: await make((state) => !(isStale = !isSame(stateOf(state as KeyReport & BudgetReport)))) };
  } catch (error) {
    if (isStale) return undefined;
    throw error;
  }
}

/** Returns the beginning of a long text. */
const beginning = (text: string, most: number): string =>
  text.length > most ? `${copyOf(text.slice(0, most)).toWellFormed()}…` : text;

/** The fields that name a budget. A key and a budget that are made get an id. */
const IDS = ["id", "budget", "parent"] as const;

/**
 * Returns a function that masks a text of a change. Ids that the store has, or that it is about to get, stay as they are: a text
 * that nobody knows may be a secret without its prefix.
 */
async function maskOf(
  { store, clock }: ChangeLog,
  { action, target, fields = {} }: Pick<Change, "action" | "target" | "fields">,
): Promise<(text: string) => string> {
  const has = async (id: string, isBudget: boolean): Promise<boolean> => {
    const look = async (): Promise<unknown> => (isBudget ? store.budgetReport?.(id) : store.report(id));
    return (await readSoon(look(), FORMER_MS, clock)) !== undefined;
  };
  const isMade = action.endsWith(".create");
  const ofBudgets = action.startsWith("budgets.");
  const known = new Set<string>();
  for (const name of ["target", ...IDS] as const) {
    const id = name === "target" ? target : fields[name];
    if (typeof id !== "string" || !mayBeSecret(id)) continue;
    const isOwn = name === "target" || name === "id";
    if ((isOwn && isMade) || (await has(id, ofBudgets || !isOwn))) known.add(id);
  }
  return (text) => (known.has(text) ? withoutSecrets(text) : masked(text));
}

/** Returns fields with masked texts. Values in metadata are what people write: only secrets with their prefix are masked. */
const maskedFields = (fields: Fields, mask: (text: string) => string): Fields =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      if (typeof value === "string") return [name, mask(value)];
      if (Array.isArray(value)) return [name, value.map((one: unknown) => (typeof one === "string" ? mask(one) : one))];
      return [name, isJsonObject(value) ? maskedEntries(value) : value];
    }),
  );

/** Returns entries of metadata with masked names, which are numbered where they would be the same. */
function maskedEntries(entries: Fields): Fields {
  const kept = new Map<string, unknown>();
  for (const [name, value] of Object.entries(entries)) {
    const short = masked(name);
    let own = short;
    for (let count = 2; kept.has(own); count++) own = `${short} (${count})`;
    kept.set(own, typeof value === "string" ? withoutSecrets(value) : value);
  }
  return Object.fromEntries(kept);
}

/**
 * Reads the fields that edits name, as they are before an edit. Returns undefined for other changes, for what is no such field, and for a state
 * that the user of the edit has not seen.
 */
async function fieldsBefore(
  store: Store,
  action: string,
  id: string | undefined,
  isSeen: Seen = () => true,
): Promise<Fields | undefined> {
  const read = id === undefined ? undefined : EDITS.get(action);
  const fields = read && (await read(store, id ?? "", isSeen));
  // The store of a host may tell anything. The text is what the log can keep.
  return fields && (parseJson(JSON.stringify(fields)) as Fields);
}

type Seen = NonNullable<Change["isSeen"]>;

async function keyBefore(store: Store, id: string, isSeen: Seen): Promise<Fields | undefined> {
  const key = await store.report(id);
  return key && isSeen(key) ? fieldsOf(key) : undefined;
}

/** Returns the fields of a key that an edit can name. */
export function fieldsOf(key: KeyReport): Fields {
  const { name, expiresAt, paused = false, metadata = {}, budget = null, unlimited } = key;
  // The key of a condition does not tell the units of its quota. The cast says so.
  const { granted = unlimited ? null : undefined } = key as Partial<KeyReport>;
  return { name, expiresAt, paused, metadata, budget, granted, models: modelsOf(key) ?? null };
}

async function budgetBefore(store: Store, id: string, isSeen: Seen): Promise<Fields | undefined> {
  const budget = await store.budgetReport?.(id);
  return budget && isSeen(budget) ? fieldsOfBudget(budget) : undefined;
}

const fieldsOfBudget = ({ name, amount, granted }: BudgetReport): Fields => ({ name, amount, granted });

type StateOf = (state: KeyReport & BudgetReport) => Fields;

/** The edits that the store can make on a condition, and the fields of the state that it tells. */
const STATES: ReadonlyMap<string, StateOf> = new Map<string, StateOf>([
  ["keys.update", fieldsOf],
  ["keys.assign-budget", fieldsOf],
  ["budgets.update", fieldsOfBudget],
]);

/** Another revocation changes no field, and nothing else. */
async function revokedBefore(store: Store, id: string): Promise<Fields | undefined> {
  const key = await store.report(id);
  return key && isRevokedAlready(key) ? {} : undefined;
}

/** The edits, which change fields of a key or a budget. */
const EDITS: ReadonlyMap<string, typeof keyBefore> = new Map<string, typeof keyBefore>([
  ["keys.revoke", revokedBefore],
  ...(["update", "assign-budget", "grant", "lower"] as const).map((verb) => [`keys.${verb}`, keyBefore] as const),
  ...(["update", "top-up", "lower"] as const).map((verb) => [`budgets.${verb}`, budgetBefore] as const),
]);

/** Returns the fields that an edit names, and the entries of its metadata, as they were. Units are added to those that were granted. */
function namedIn(changes: Fields, before: Fields): Fields {
  const named = Object.entries(changes).flatMap(([name, after]): [string, unknown][] => {
    const field = name === "units" ? "granted" : name;
    if (!Object.hasOwn(before, field)) return [];
    const value = before[field];
    return [[field, isJsonObject(value) && isJsonObject(after) ? entriesOf(after, value) : value]];
  });
  return Object.fromEntries(named);
}

const entriesOf = (names: object, of: Fields): Fields =>
  Object.fromEntries(Object.keys(names).map((name) => [name, Object.hasOwn(of, name) ? of[name] : null]));

/** Returns the fields of an edit, and the entries of its metadata, that differ from those that are there. */
export function changedFields(fields: Fields, seen: Fields): Fields {
  const changed = Object.entries(fields).flatMap(([name, after]): [string, unknown][] => {
    // The value undefined stands for an unknown one: no value of the edit equals it.
    const before = Object.hasOwn(seen, name) ? seen[name] : null;
    if (!isJsonObject(before) || !isJsonObject(after)) return isSame(before, after) ? [] : [[name, after]];
    const entries = changedFields(after, before);
    return Object.keys(entries).length > 0 ? [[name, entries]] : [];
  });
  return Object.fromEntries(changed);
}

/** Compares texts, numbers, and lists of models, in which order and repetition mean nothing. */
function isSame(before: unknown, after: unknown): boolean {
  if (!Array.isArray(before) || !Array.isArray(after)) return before === after;
  const models = new Set(before);
  return after.every((model) => models.has(model)) && new Set(after).size === models.size;
}

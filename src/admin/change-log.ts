/** Makes changes that are in the log of changes, over HTTP and by commands: notes each one before it is made, and how it ended. */

import { copyOf, isJsonObject, parseJson } from "../model/json.ts";
import { type AuditEntry, type AuditLog, type AuditOutcome, shortened } from "../ports/audit-log.ts";
import { type Clock, LATE, readSoon, within } from "../ports/clock.ts";
import type { BudgetDirectory, KeyDirectory, KeyReport } from "../stores/durable.ts";
import { modelsOf } from "../stores/ledger.ts";
import { isRevokedAlready } from "./key-state.ts";

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
  make: () => Promise<Made>,
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
  const former = { ...(before && namedIn(changes, before)), ...known };
  await audit.begin({
    id,
    at: clock.now(),
    user: surelyMasked(user),
    action,
    ...(target !== undefined && { target: beginning(await targetOf(log, action, target), MOST_TARGET) }),
    ...withoutSecrets({
      ...(Object.keys(changes).length > 0 && { changes: shortened(changes, MOST_FIELDS) }),
      ...(Object.keys(former).length > 0 && { former: shortened(former, MOST_FIELDS) }),
    }),
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
    await end({ state: "done", ...(madeId !== undefined && { target: surelyMasked(madeId) }) });
    return made;
  } catch (error) {
    const outcome = endOf(error);
    const { reason } = outcome ?? {};
    if (outcome)
      await end({ ...outcome, ...(reason !== undefined && { reason: beginning(masked(reason), MOST_REASON) }) });
    throw error;
  }
}

/** Returns the beginning of a long text. */
const beginning = (text: string, most: number): string =>
  text.length > most ? `${copyOf(text.slice(0, most)).toWellFormed()}…` : text;

/** A secret that this admin has made, as a word of its own. People take it for the id of its key. */
const SECRET = /(?:\b|(?<=_))sk-[\w-]{43}(?![\w-])/g;

/**
 * A secret without `sk-`, or beside other characters: a word as long as a secret, with a digit, and with a capital behind a small letter. Of a
 * thousand secrets, at most one has neither; long ids that people write, and those in hexadecimal digits, lack one of them.
 */
const LIKE_SECRET = /(?<![\w-])(?=[\w-]*[a-z][A-Z])(?=[\w-]*\d)[\w-]{43,}/g;

/** Replaces only what cannot be anything else than a secret: logins give random ids and names that are as long. */
const surelyMasked = (text: string): string => text.replaceAll(SECRET, "sk-…");

/** Returns a target for the log. An id that the store has stays as it is. */
async function targetOf({ store, clock }: ChangeLog, action: string, id: string): Promise<string> {
  if (masked(id) === id) return id;
  const found = action.startsWith("budgets.") ? store.budgetReport?.(id) : store.report(id);
  return (await readSoon(Promise.resolve(found), FORMER_MS, clock)) ? surelyMasked(id) : masked(id);
}

/** Returns a copy as plain JSON. The cast is safe: only texts and names are changed. */
const withoutSecrets = <Noted extends object>(noted: Noted): Noted =>
  parseJson(
    JSON.stringify(noted, (_name, value: unknown) => {
      if (typeof value === "string") return masked(value);
      if (!isJsonObject(value)) return value;
      return Object.fromEntries(Object.entries(value).map(([name, field]) => [masked(name), field]));
    }),
  ) as Noted;

/** Returns a text for people without the secrets of keys. */
export const masked = (text: string): string => surelyMasked(text.replaceAll(LIKE_SECRET, "sk-…"));

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
  const { name, expiresAt, paused = false, metadata = {}, budget = null, granted } = key;
  return { name, expiresAt, paused, metadata, budget, granted, models: modelsOf(key) ?? null };
}

async function budgetBefore(store: Store, id: string, isSeen: Seen): Promise<Fields | undefined> {
  const budget = await store.budgetReport?.(id);
  return budget && isSeen(budget) ? { name: budget.name, amount: budget.amount, granted: budget.granted } : undefined;
}

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
    const before = seen[name] ?? null;
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

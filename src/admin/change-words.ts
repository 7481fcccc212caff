/** The words for the log of changes: what was done, and the fields of a change as people write them. */

import { isJsonObject, type JsonObject } from "../model/json.ts";
import { currencyCode } from "../model/money.ts";
import { limitIn, limitInWords } from "../model/refused-units.ts";
import { visible, withEscapes } from "../model/visible.ts";
import type { AuditEntry } from "../ports/audit-log.ts";

/** The action of a user in words, by the name of the operation. */
const ACTION_WORDS = {
  "keys.create": "New key",
  "keys.update": "Edit key",
  "keys.rotate": "New secret",
  "keys.add-secret": "One more secret",
  "keys.revoke": "Revoke key",
  "keys.grant": "Add quota",
  "keys.lower": "Take quota",
  "keys.assign-budget": "Set budget of key",
  "secrets.remove": "Remove secret",
  "budgets.create": "New budget",
  "budgets.update": "Edit budget",
  "budgets.top-up": "Top up budget",
  "budgets.lower": "Take from budget",
  "budgets.remove": "Remove budget",
  "live.stop": "Stop call",
  "live.stop-key": "Stop calls of key",
} as const;

/** The name of an operation that the log has. */
export type Action = keyof typeof ACTION_WORDS;

// The cast is safe: these are the names of the operations.
export const ACTIONS = Object.keys(ACTION_WORDS) as readonly Action[];

/** Returns the words for an operation, and the name of an unknown one. */
export const actionInWords = (action: string): string =>
  Object.hasOwn(ACTION_WORDS, action) ? ACTION_WORDS[action as Action] : action;

/** The periods of a budget in words. */
export const PERIODS = { day: "each day", week: "each week", month: "each month" } as const;

/** Writes amounts, times (Unix time in milliseconds) and spans of time (milliseconds). */
export interface Writer {
  /** `currency` is the one in which a command has noted the amount. */
  readonly amount: (units: number, currency?: string) => string;
  readonly time: (at: number) => string;
  readonly span: (ms: number) => string;
}

/** Writes a value. Returns undefined for a value of another type. */
type Write = (value: unknown, writer: Writer) => string | undefined;

const amount: Write = (value, writer) =>
  value === null ? "none" : typeof value === "number" ? writer.amount(value) : undefined;
const text: Write = (value) => (value === null ? "none" : typeof value === "string" ? clear(value) : undefined);

/** Texts that could be taken for words of the log, for several texts or for a line of their own. */
const UNCLEAR = /[,;="]|\s{2}|^\s|\s$|\b(?:from|to|removed|as before)\b|^(?:none|every model|)$/;

/** Returns a text as it is, or in quotes if it could be taken for something else. */
const clear = (text: string): string => (UNCLEAR.test(text) ? withEscapes(JSON.stringify(text)) : visible(text));
const yesOr =
  (yes: string, no: string): Write =>
  (value) =>
    typeof value === "boolean" ? (value ? yes : no) : undefined;

/** The fields of changes: the words for their names, and for their values. */
const FIELDS = new Map<string, readonly [word: string, write: Write]>([
  ["name", ["Name", text]],
  ["granted", ["Quota", amount]],
  ["units", ["Amount", amount]],
  ["amount", ["Amount", amount]],
  ["currency", ["Currency", text]],
  [
    "models",
    [
      "Models",
      (value) =>
        value === null ? "every model" : Array.isArray(value) ? value.map(wordOf).join(", ") || "none" : undefined,
    ],
  ],
  [
    "expiresAt",
    [
      "Expires",
      (value, { time }) => (typeof value !== "number" ? undefined : value > 0 ? time(value * 1_000) : "never"),
    ],
  ],
  ["paused", ["Paused", yesOr("yes", "no")]],
  [
    "overlapMs",
    [
      "Older secrets end",
      (value, { span }) => (typeof value !== "number" ? undefined : value > 0 ? `after ${span(value)}` : "at once"),
    ],
  ],
  ["metadata", ["Metadata", text]],
  ["budget", ["Budget", text]],
  ["period", ["Begins anew", (value, writer) => PERIODS[value as keyof typeof PERIODS] ?? text(value, writer)]],
  ["timeZone", ["Time zone", text]],
  ["rollover", ["Unused rest", yesOr("goes into the next period", "ends with the period")]],
  ["parent", ["Parent", text]],
  [
    "books",
    [
      "Used already",
      (value, { amount }) => {
        const { used, granted } = Object(value) as Record<string, unknown>;
        return typeof used === "number" && typeof granted === "number"
          ? `${amount(used)} of ${amount(granted)}`
          : undefined;
      },
    ],
  ],
]);

/**
 * Returns the fields of a change in words, with their former values and without the id, which has its own column. Writes what has no words as
 * JSON. A new key with neither a quota nor a budget has no field that says so.
 */
export function fieldsInWords(
  { changes = {}, former = {}, action }: Pick<AuditEntry, "changes" | "former" | "action">,
  writer: Writer,
): readonly string[] {
  const writerOf = ({ currency }: Readonly<Record<string, unknown>>): Writer =>
    typeof currency === "string"
      ? { ...writer, amount: (units) => writer.amount(units, currencyCode(currency)) }
      : writer;
  const words = Object.entries(changes).flatMap(([name, value]) => {
    if (name === "id") return [];
    const [word, write] = FIELDS.get(name) ?? [clear(name), text];
    if (name === "metadata" && isJsonObject(value)) return `${word}: ${entriesInWords(value, former[name])}`;
    const inWords = (one: unknown, by: Writer = writerOf(changes)): string =>
      write(one, by) ?? withEscapes(JSON.stringify(one));
    const formerInWords = (one: unknown): string => inWords(one, writerOf({ ...changes, ...former }));
    if (name === "units" && Object.hasOwn(former, "granted"))
      return [`${word}: ${inWords(value)}`, `Granted before: ${formerInWords(former["granted"])}`];
    if (!Object.hasOwn(former, name)) return `${word}: ${inWords(value)}`;
    const [before, after] = [formerInWords(former[name]), inWords(value)];
    if (name === "currency") return `${word}: from ${before} to ${after}, for all amounts`;
    return isSame(before, after) ? `${word}: ${after}, as before` : `${word}: from ${before} to ${after}`;
  });
  const isUnlimited = action === "keys.create" && !("granted" in changes) && !("budget" in changes);
  return isUnlimited ? ["Quota: unlimited", ...words] : words;
}

/** Returns the reason of a refusal, with its amount as people write it. The log has it in units. */
export function reasonInWords(reason: string, { amount }: Writer): string {
  const limit = limitIn(reason);
  return withEscapes(limit ? limitInWords(limit, amount) : reason);
}

/** Returns the entries of a key's metadata in words. An entry that was not there has no former text. */
function entriesInWords(entries: JsonObject, former: unknown): string {
  const before = isJsonObject(former) ? former : {};
  const words = Object.entries(entries).map(([key, entry]) => {
    const [after, was] = [wordOf(entry), Object.hasOwn(before, key) ? wordOf(before[key]) : undefined];
    const name = clear(key);
    if (after === undefined) return was === undefined ? `${name} removed` : `${name} removed, it was ${was}`;
    if (was === undefined) return `${name}=${after}`;
    return isSame(was, after) ? `${name}=${after} as before` : `${name} from ${was} to ${after}`;
  });
  return words.join(", ") || "none";
}

/** Compares texts. The log has "…" for different long ones. */
const isSame = (before: string, after: string): boolean => before === after && !after.includes("…");

const wordOf = (entry: unknown): string | undefined =>
  typeof entry === "string" ? clear(entry) : entry === null ? undefined : withEscapes(JSON.stringify(entry));

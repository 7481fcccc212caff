/** The words for the log of changes: what was done, and the fields of a change as people write them. */

import { amountInWords, shownTime, spanInWords } from "./amounts.ts";

/** What a user has done, by the name of the operation. */
const ACTIONS = new Map([
  ["keys.create", "New key"],
  ["keys.update", "Edit key"],
  ["keys.rotate", "New secret"],
  ["keys.add-secret", "One more secret"],
  ["keys.revoke", "Revoke key"],
  ["keys.grant", "Add quota"],
  ["keys.lower", "Take quota"],
  ["keys.assign-budget", "Set budget of key"],
  ["secrets.remove", "Remove secret"],
  ["budgets.create", "New budget"],
  ["budgets.update", "Edit budget"],
  ["budgets.top-up", "Top up budget"],
  ["budgets.lower", "Take from budget"],
  ["budgets.remove", "Remove budget"],
  ["live.stop", "Stop call"],
]);

/** Returns the words for an operation, and the name of an unknown one. */
export const actionInWords = (action: string): string => ACTIONS.get(action) ?? action;

/** The periods of a budget in words. */
export const PERIODS = { day: "each day", week: "each week", month: "each month" } as const;

type Write = (value: unknown) => string | undefined;

const amount: Write = (value) => (typeof value === "number" ? amountInWords(value) : undefined);
const text: Write = (value) => (value === null ? "none" : typeof value === "string" ? value : undefined);
const yesOr =
  (yes: string, no: string): Write =>
  (value) =>
    typeof value === "boolean" ? (value ? yes : no) : undefined;

/** The fields of changes: the words for their names, and for their values. A value of another type has no words. */
const FIELDS = new Map<string, readonly [word: string, write: Write]>([
  ["name", ["Name", text]],
  ["granted", ["Quota", amount]],
  ["units", ["Amount", amount]],
  ["amount", ["Amount", amount]],
  [
    "models",
    [
      "Models",
      (value) => (value === null ? "every model" : Array.isArray(value) ? value.join(", ") || "none" : undefined),
    ],
  ],
  [
    "expiresAt",
    ["Expires", (value) => (typeof value !== "number" ? undefined : value > 0 ? shownTime(value * 1_000) : "never")],
  ],
  ["paused", ["Paused", yesOr("yes", "no")]],
  [
    "overlapMs",
    [
      "Older secrets end",
      (value) => (typeof value !== "number" ? undefined : value > 0 ? `after ${spanInWords(value)}` : "at once"),
    ],
  ],
  [
    "metadata",
    [
      "Metadata",
      (value) =>
        typeof value === "object" && value !== null
          ? Object.entries(value)
              .map(([name, entry]) => (entry === null ? `${name} removed` : `${name}=${entry}`))
              .join(", ") || "none"
          : undefined,
    ],
  ],
  ["budget", ["Budget", text]],
  ["period", ["Begins anew", (value) => PERIODS[value as keyof typeof PERIODS] ?? text(value)]],
  ["timeZone", ["Time zone", text]],
  ["rollover", ["Unused rest", yesOr("goes into the next period", "ends with the period")]],
  ["parent", ["Parent", text]],
]);

/**
 * Returns the fields of a change in words, without the id, which has its own column. Writes what has no words as JSON. A new key with neither a
 * quota nor a budget has no field that says so.
 */
export function fieldsInWords(changes: Readonly<Record<string, unknown>>, action = ""): readonly string[] {
  const isUnlimited = action === "keys.create" && !("granted" in changes) && !("budget" in changes);
  const words = Object.entries(changes).flatMap(([name, value]) => {
    if (name === "id") return [];
    const [word, write] = FIELDS.get(name) ?? [name, text];
    return `${word}: ${write(value) ?? JSON.stringify(value)}`;
  });
  return isUnlimited ? ["Quota: unlimited", ...words] : words;
}

/** Puts the changes that commands make into the log of changes, under the names and with the fields that HTTP has for them. */

import { systemClock } from "../ports/clock.ts";
import type { BudgetChanges, BudgetOptions } from "../stores/budgets.ts";
import type { DurableKeyOptions, DurableQuotaStore } from "../stores/durable.ts";
import type { KeyChanges } from "../stores/ledger.ts";
import { type Change, type Make, withLog } from "./change-log.ts";
import type { Action } from "./change-words.ts";
import type { KeyAdmin, NewKeyOptions, NewSecret, Rotation } from "./key-admin.ts";
import type { OpenedStore } from "./open-store.ts";

/** A change that a verb makes. */
type LoggedChange = Omit<Change, "user"> & { readonly action: Action };

/** Says what each verb that changes a key changes. The compiler completes the table. */
const KEY_VERBS = {
  create: (key: NewKeyOptions = {}) => ({ action: "keys.create", target: key.id, fields: { ...key } }),
  update: (target: string, fields: KeyChanges) => ({ action: "keys.update", target, fields: { ...fields } }),
  rotate: (target: string, fields: Rotation = {}) => ({ action: "keys.rotate", target, fields: { ...fields } }),
  addSecret: (target: string, fields: NewSecret = {}) => ({ action: "keys.add-secret", target, fields: { ...fields } }),
  removeSecret: () => ({ action: "secrets.remove" }),
  revoke: (target: string) => ({ action: "keys.revoke", target }),
  grant: (target: string, units: number) => ({ action: "keys.grant", target, fields: { units } }),
  lower: (target: string, units: number) => ({ action: "keys.lower", target, fields: { units } }),
} satisfies Verbs<Pick<KeyAdmin, Exclude<keyof KeyAdmin, "list" | "usage">>>;

/** Says what each verb of a store that commands use changes. The other changes of keys go through `KeyAdmin`. */
const STORE_VERBS = {
  add: (key: DurableKeyOptions = {}) => ({ action: "keys.create", target: key.id, fields: { ...key } }),
  assignBudget: (target: string, budget: string | undefined) => ({
    action: "keys.assign-budget",
    target,
    fields: { budget: budget ?? null },
  }),
  addBudget: (fields: BudgetOptions) => ({ action: "budgets.create", target: fields.id, fields: { ...fields } }),
  updateBudget: (target: string, fields: BudgetChanges) => ({
    action: "budgets.update",
    target,
    fields: { ...fields },
  }),
  topUpBudget: (target: string, units: number) => ({ action: "budgets.top-up", target, fields: { units } }),
  lowerBudget: (target: string, units: number) => ({ action: "budgets.lower", target, fields: { units } }),
  removeBudget: (target: string) => ({ action: "budgets.remove", target }),
} satisfies Verbs<
  Pick<
    DurableQuotaStore,
    "add" | "assignBudget" | "addBudget" | "updateBudget" | "topUpBudget" | "lowerBudget" | "removeBudget"
  >
>;

type Method = (...args: never[]) => unknown;
type Verbs<Port> = {
  readonly [Verb in keyof Port]: (...args: Port[Verb] extends Method ? Parameters<Port[Verb]> : never) => LoggedChange;
};

/**
 * Returns keys and a store whose changes are in the log, if the store has one.
 *
 * @param by The name of the user, who is named as one of the command line, and the currency of the amounts, which the log has beside them.
 *   `formerCurrency` is that of earlier amounts, which an amount corrects.
 * @param onFailure Hears of the first end of a change that could not be noted.
 */
export function loggedStore(
  keys: KeyAdmin,
  { store, audit }: Pick<OpenedStore, "store" | "audit">,
  by: { readonly user: string; readonly currency: string | undefined; readonly formerCurrency: string | undefined },
  onFailure: (error: unknown) => void,
): { readonly keys: KeyAdmin; readonly store: DurableQuotaStore } {
  if (!audit) return { keys, store };
  let hasFailed = false;
  const log = {
    audit,
    store,
    clock: systemClock,
    onFailure: (error: unknown) => {
      if (!hasFailed) onFailure(error);
      hasFailed = true;
    },
  };
  const make = (change: LoggedChange, work: Make<unknown>): Promise<unknown> =>
    withLog(log, { user: `${by.user} (command line)`, ...withCurrency(change, by) }, work, {
      idOf: (made) => (typeof made === "string" ? made : (Object(made) as { readonly id?: string }).id),
      endOf: (error) => (error instanceof RangeError ? { state: "refused", reason: error.message } : undefined),
    });
  return { keys: watched(keys, KEY_VERBS, make), store: watched(store, STORE_VERBS, make) };
}

/** Adds the currency to a change that has an amount, and the former one if it differs. */
function withCurrency(
  change: LoggedChange,
  { currency, formerCurrency }: Pick<Parameters<typeof loggedStore>[2], "currency" | "formerCurrency">,
): LoggedChange {
  const { fields = {} } = change;
  const hasAmount = [fields["units"], fields["amount"], fields["granted"]].some((value) => typeof value === "number");
  if (!hasAmount || currency === undefined) return change;
  const isOther = formerCurrency !== undefined && formerCurrency !== currency;
  return { ...change, fields: { ...fields, currency }, ...(isOther && { former: { currency: formerCurrency } }) };
}

/** Returns a port whose verbs of a table are made by `make`. The port may be of a class with private fields. */
function watched<Port extends object>(
  port: Port,
  verbs: object,
  make: (change: LoggedChange, work: Make<unknown>) => Promise<unknown>,
): Port {
  return new Proxy(port, {
    get(target, name) {
      const verb: unknown = Reflect.get(target, name);
      if (typeof verb !== "function") return verb;
      const run = verb.bind(target) as (...args: unknown[]) => Promise<unknown>;
      if (!Object.hasOwn(verbs, name)) return run;
      // The cast is safe: the tables have functions.
      const describe = Reflect.get(verbs, name) as (...args: unknown[]) => LoggedChange;
      return (...args: unknown[]) =>
        make(describe(...args), (condition) => run(...(condition ? onCondition(args, condition) : args)));
    },
  });
}

/** Returns the arguments of `update`, `assignBudget` or `updateBudget` with one more condition. */
const onCondition = (
  [id, changes, isExpected = () => true]: readonly unknown[],
  condition: (state: object) => boolean,
): unknown[] => [
  id,
  changes,
  // The cast is safe: each of these verbs takes such a condition.
  (state: object) => condition(state) && (isExpected as typeof condition)(state),
];

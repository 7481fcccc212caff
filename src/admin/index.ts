/** The exports of "polygate/admin": makes, rotates, revokes and lists api keys, and grants them units. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

export type { BudgetOptions, BudgetPeriod, BudgetReport } from "../stores/budgets.ts";
export type {
  BudgetDirectory,
  BudgetPage,
  DurableKeyOptions,
  DurableQuotaStore,
  KeyDirectory,
  KeyPage,
  KeyReport,
  Retention,
} from "../stores/durable.ts";
export { type IssuedKey, type KeyAdmin, keyAdmin, newApiKey, type NewKeyOptions, type Rotation } from "./key-admin.ts";

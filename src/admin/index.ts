/** The exports of "polygate/admin": makes, changes, rotates, revokes and lists api keys, and grants them units. */

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
export type { KeyChanges } from "../stores/ledger.ts";
export {
  type IssuedKey,
  type KeyAdmin,
  keyAdmin,
  type KeyAdminOptions,
  type KeyFilter,
  type KeyState,
  newApiKey,
  type NewKeyOptions,
  type NewSecret,
  type Rotation,
} from "./key-admin.ts";

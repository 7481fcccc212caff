/** The exports of "polygate/admin": manages api keys and their units, and reports about recorded calls. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

export type {
  BudgetChanges,
  BudgetOptions,
  BudgetPeriod,
  BudgetPeriodReport,
  BudgetReport,
} from "../stores/budgets.ts";
export type {
  BudgetDirectory,
  BudgetPage,
  DurableKeyOptions,
  DurableQuotaStore,
  KeyDirectory,
  KeyPage,
  KeyReport,
  PeriodPage,
  Retention,
} from "../stores/durable.ts";
export type {
  CallFilter,
  CallReader,
  RecordedCall,
  RecordedDays,
  UsageColumn,
  UsageQuery,
  UsageReport,
  UsageRow,
  UsageSums,
} from "../stores/calls.ts";
export {
  type CallAdmin,
  callAdmin,
  type CallAdminOptions,
  type CallReason,
  type NextStep,
  usageCsv,
  type UsageCsvOptions,
} from "./call-admin.ts";
export { unitsOfMoney } from "../model/money.ts";
export type { RefusalCode, RefusedChange, RefusedUnits, UnitsLimit } from "../model/refused-units.ts";
export type { Spreadsheet } from "./columns.ts";
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
  type RotatedKey,
  type Rotation,
} from "./key-admin.ts";

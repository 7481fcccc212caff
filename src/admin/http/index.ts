/** The exports of "polygate/admin/http": the admin's verbs over HTTP, behind the host's own login. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

export type { AuditEntry, AuditLog, AuditOutcome, AuditPage, AuditRecord } from "../../ports/audit-log.ts";
export { memoryAuditLog, type MemoryAuditOptions } from "../../stores/memory-audit.ts";
export {
  type AdminHandler,
  adminHandler,
  type AdminHandlerOptions,
  type AdminPage,
  type AdminPageFile,
} from "./handler.ts";
export type { Login } from "./login.ts";
export type { AdminGateway, AdminUser } from "./operation.ts";

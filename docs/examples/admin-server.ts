// admin-server.ts
import { createServer } from "node:http";
import { adminHandler } from "polygate/admin/http";
import { toNodeHandler } from "polygate/node";
import { openStores } from "polygate/stores";

const stores = await openStores("sqlite::memory:");
const admin = adminHandler(stores.ports.quotas, {
  // Use the sessions of your own login.
  authorize: ({ headers }) => (headers.get("cookie") === "session=9f2c" ? { name: "ann@example.com" } : undefined),
  calls: stores.calls,
  audit: stores.auditLog,
});
createServer(toNodeHandler(admin, { prefix: "/admin/api" })).listen(3000);

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
export const server = createServer(toNodeHandler(admin, { prefix: "/admin/api" })); // server.listen(3000)

const headers = { cookie: "session=9f2c", "content-type": "application/json" };
const body = JSON.stringify({ id: "bob", granted: 1_000_000 });
const made = await admin.fetch(new Request("http://host/keys", { method: "POST", headers, body }));
console.log((await made.json()).apiKey.length);
const { data } = await (await admin.fetch(new Request("http://host/audit", { headers }))).json();
for (const { user, action, target, state } of data) console.log(user, action, target, state);
console.log((await admin.fetch(new Request("http://host/keys"))).status);
await stores.close();

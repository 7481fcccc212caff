/** The admin page at /admin: keys, budgets, spend, refusals and running calls. It is closed until ADMIN_PASSWORD is set. */

import { createHash, timingSafeEqual } from "node:crypto";
import { type AdminHandler, adminHandler } from "polygate/admin/http";
import { adminPage } from "polygate/admin/page";
import { stop } from "./env.ts";
import { gateway } from "./gateway.ts";
import { stores } from "./stores.ts";

const { ADMIN_PASSWORD } = process.env;
if (ADMIN_PASSWORD && ADMIN_PASSWORD.length < 16) stop("ADMIN_PASSWORD needs 16 characters or more.");

const digestOf = (text: string): Buffer => createHash("sha256").update(text).digest();
const expected = digestOf(ADMIN_PASSWORD ?? "");

/** The login: a name for the log of changes, and the password. Put the sessions of your own login in its place. */
function userOf(request: Request): { name: string } | undefined {
  const [, basic = ""] = /^Basic ([\w+/=]+)$/i.exec(request.headers.get("authorization") ?? "") ?? [];
  const [, name = "", password = ""] = /^([^:]*):(.*)$/s.exec(Buffer.from(basic, "base64").toString()) ?? [];
  return timingSafeEqual(digestOf(password), expected) ? { name: name || "admin" } : undefined;
}

/** Makes the browser ask for a name and the password. */
const whoAreYou = (): Response =>
  new Response("Log in.", { status: 401, headers: { "www-authenticate": 'Basic realm="admin", charset="UTF-8"' } });

/** Tells everybody how to open the admin. */
const closed = (): Response =>
  new Response("The admin is closed. Set ADMIN_PASSWORD to 16 characters or more, and start the server again.\n", {
    status: 403,
  });

export const admin: AdminHandler = adminHandler(stores.ports.quotas, {
  authorize: ADMIN_PASSWORD ? (request) => userOf(request) ?? whoAreYou() : closed,
  gateway,
  calls: stores.calls,
  audit: stores.auditLog,
  page: adminPage(),
});

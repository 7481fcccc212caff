/** The admin page at /admin: keys, budgets, spend, refusals and running calls. It is closed until a password is set. */

import { createHash, timingSafeEqual } from "node:crypto";
import { type AdminHandler, adminHandler, type AdminUser } from "polygate/admin/http";
import { adminPage } from "polygate/admin/page";
import { stop } from "./env.ts";
import { gateway } from "./gateway.ts";
import { stores } from "./stores.ts";

const { ADMIN_PASSWORD, ADMIN_READ_PASSWORD } = process.env;
for (const [name, password] of Object.entries({ ADMIN_PASSWORD, ADMIN_READ_PASSWORD }))
  if (password && password.length < 16) stop(`${name} needs 16 characters or more.`);
if (ADMIN_PASSWORD && ADMIN_PASSWORD === ADMIN_READ_PASSWORD) stop("ADMIN_READ_PASSWORD must not be ADMIN_PASSWORD.");

const digestOf = (text: string): Buffer => createHash("sha256").update(text).digest();
/** Tells whether a password is the expected one. Nobody has an empty one. */
const isPassword = (password: string, expected = ""): boolean =>
  timingSafeEqual(digestOf(password), digestOf(expected)) && expected !== "";

/** The login: a name for the log of changes, and a password. Put the sessions of your own login in its place. */
function userOf(request: Request): AdminUser | undefined {
  const [, basic = ""] = /^Basic ([\w+/=]+)$/i.exec(request.headers.get("authorization") ?? "") ?? [];
  const [, name = "", password = ""] = /^([^:]*):(.*)$/s.exec(Buffer.from(basic, "base64").toString()) ?? [];
  if (isPassword(password, ADMIN_PASSWORD)) return { name: name || "admin" };
  // For colleagues who only look, such as those of finance.
  return isPassword(password, ADMIN_READ_PASSWORD) ? { name: name || "reader", readOnly: true } : undefined;
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
  authorize: ADMIN_PASSWORD || ADMIN_READ_PASSWORD ? (request) => userOf(request) ?? whoAreYou() : closed,
  gateway,
  calls: stores.calls,
  audit: stores.auditLog,
  replayStore: stores.ports.replayStore, // A repeated change is made once, also by another process.
  page: adminPage(),
});

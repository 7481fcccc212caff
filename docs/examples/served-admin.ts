// served-admin.ts
import { createHash, timingSafeEqual } from "node:crypto";
import { defineServer } from "polygate/serve";
import { myBackend } from "./backend.ts";

const { ADMIN_PASSWORD = "", ADMIN_READ_PASSWORD = "" } = process.env;
if (ADMIN_PASSWORD.length < 16) throw new Error("ADMIN_PASSWORD needs 16 characters or more.");
if (ADMIN_READ_PASSWORD && ADMIN_READ_PASSWORD.length < 16)
  throw new Error("ADMIN_READ_PASSWORD needs 16 characters or more.");

const digestOf = (text: string) => createHash("sha256").update(text).digest();

/**
 * Lets each name in that has a password; with ADMIN_READ_PASSWORD, only to look. Put the check of your own session, or of your proxy's
 * signed token, in its place.
 */
function userOf(request: Request) {
  const [, basic = ""] = /^Basic (.+)$/i.exec(request.headers.get("authorization") ?? "") ?? [];
  const [, name = "", password = ""] = /^([^:]+):(.*)$/s.exec(Buffer.from(basic, "base64").toString()) ?? [];
  const isPassword = (expected: string) => timingSafeEqual(digestOf(password), digestOf(expected)) && expected !== "";
  if (name === "") return undefined;
  if (isPassword(ADMIN_PASSWORD)) return { name };
  return isPassword(ADMIN_READ_PASSWORD) ? { name, readOnly: true } : undefined;
}

const askForPassword = () =>
  new Response("Log in.", { status: 401, headers: { "www-authenticate": 'Basic realm="admin", charset="UTF-8"' } });

export default defineServer({
  stores: "sqlite:gateway.db",
  gateway: () => ({ backend: myBackend }),
  admin: { authorize: (request) => userOf(request) ?? askForPassword() },
});

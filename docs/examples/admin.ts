// admin.ts
import { createHash, randomUUID, timingSafeEqual } from "node:crypto";
import express, { type Express } from "express";
import type { Gateway } from "polygate";
import { adminHandler, type AdminUser } from "polygate/admin/http";
import { adminPage } from "polygate/admin/page";
import { toExpressHandler } from "polygate/express";
import type { OpenedStores } from "polygate/stores";

/** Users by the session in their cookie. A session ends after a working day. */
const sessions = new Map<string, AdminUser>();
const SESSION_MS = 10 * 3_600_000;
const sessionOf = (cookie: string | null | undefined) => /(?:^|; )session=([\w-]+)/.exec(cookie ?? "")?.[1] ?? "";

const digestOf = (text: unknown) => createHash("sha256").update(String(text)).digest();

/** Returns a path of this site. Sends everything else, such as `//evil.example`, to the admin. */
function ownPath(next: unknown): string {
  const here = "http://here.invalid";
  const url = typeof next === "string" ? URL.parse(next, here) : null;
  const path = url?.origin === here ? url.pathname + url.search : "";
  return /^\/[^/]/.test(path) ? path : "/admin";
}

/** Adds the admin and its page at `/admin`, and a login. */
export function addAdmin(app: Express, stores: OpenedStores, gateway: Gateway): void {
  const admin = adminHandler(stores.ports.quotas, {
    authorize: (request) => sessions.get(sessionOf(request.headers.get("cookie"))),
    gateway, // For its running calls and its health.
    calls: stores.calls,
    audit: stores.auditLog,
    // The page adds the path to lead back to: /login?next=...
    page: adminPage({ loginUrl: "/login", logoutUrl: "/logout" }),
  });
  app.use("/admin", toExpressHandler(admin));
  app.get("/login", (_req, res) => {
    // The form posts to its own address, which has the path to go back to.
    res.send(
      '<form method="post"><input name="name"><input name="password" type="password"><button>Log in</button></form>',
    );
  });
  app.post("/login", express.urlencoded({ extended: false }), (req, res) => {
    // Without a form, Express 5 leaves no body.
    const { name, password } = req.body ?? {};
    // Check the password of your user here. Finn of finance may look, and change nothing.
    const { ADMIN_PASSWORD, ADMIN_READ_PASSWORD } = process.env;
    const isReader = name === "finn";
    const expected = isReader ? ADMIN_READ_PASSWORD : name === "ann" && ADMIN_PASSWORD;
    if (!expected || !timingSafeEqual(digestOf(password), digestOf(expected)))
      return void res.status(401).send("The password is wrong.");
    const session = randomUUID();
    sessions.set(session, { name, readOnly: isReader });
    setTimeout(() => sessions.delete(session), SESSION_MS).unref();
    res.cookie("session", session, { httpOnly: true, sameSite: "lax", secure: req.secure, maxAge: SESSION_MS });
    res.redirect(303, ownPath(req.query["next"]));
  });
  app.get("/logout", (req, res) => {
    sessions.delete(sessionOf(req.headers.cookie));
    res.clearCookie("session").redirect(303, "/login");
  });
}

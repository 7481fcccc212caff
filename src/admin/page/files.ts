/** The files of the admin's page, as the handler of the admin serves them. */

import { readFile } from "node:fs/promises";
import { assertOptions } from "../../options.ts";
import type { AdminPage, AdminPageFile } from "../http/handler.ts";

/** Options of `adminPage`. */
export interface AdminPageOptions {
  /** The heading and the title of the page. Default: `polygate`. */
  readonly title?: string;
  /**
   * Shows units as money of this currency, such as `USD`: a unit is a millionth, as `polygate/prices` counts. While calls are recorded in
   * another currency, units are shown as they are. Default: the currency in which calls are recorded, or that of the prices of the admin's
   * `gateway`, or else units.
   */
  readonly currency?: string;
  /**
   * The address of your login: a browser that opens the page or the link of a report without a session is sent there, and a link to it stands
   * beside the notice that a session has ended. Both add the parameter `next`, the path and query to lead back to, unless the address has it.
   * A path of this server, such as `/login`, or an absolute http or https address. Default: a 401, and no link.
   */
  readonly loginUrl?: string;
  /** The address that ends a session: a link in the header. A path of this server, or an absolute http or https address. Default: no link. */
  readonly logoutUrl?: string;
}

const TYPES = {
  "": "text/html; charset=utf-8",
  "app.js": "text/javascript; charset=utf-8",
  "style.css": "text/css; charset=utf-8",
} as const;

/**
 * Makes the page from the files in a folder.
 *
 * @param hint A sentence below the header, such as what this admin lacks.
 */
export function pageIn(folder: URL, options: AdminPageOptions = {}, hint = ""): AdminPage {
  assertOptions<AdminPageOptions>("adminPage", options, {
    title: "string?",
    currency: "string?",
    loginUrl: "string?",
    logoutUrl: "string?",
  });
  const { title = "polygate", currency = "", loginUrl = "", logoutUrl = "" } = options;
  assertAddress("loginUrl", loginUrl);
  assertAddress("logoutUrl", logoutUrl);
  if (currency !== "" && !/^[A-Z]{3}$/.test(currency))
    throw new TypeError("adminPage: currency must be three capital letters, such as USD.");
  const texts = new Map<string, Promise<string>>();
  const textOf = (name: string): Promise<string> => {
    const text = texts.get(name) ?? readFile(new URL(name || "index.html", folder), "utf8");
    texts.set(name, text);
    // Read a file again after a failure: a process may have had too many open files for a moment.
    text.catch(() => texts.delete(name));
    return text;
  };
  return {
    loginUrl: loginUrl || undefined,
    async file(name, base): Promise<AdminPageFile | undefined> {
      if (!Object.hasOwn(TYPES, name)) return undefined;
      const text = await textOf(name);
      const values: Readonly<Record<string, string>> = { title, currency, loginUrl, logoutUrl, hint, base };
      const shown =
        name === "" ? text.replaceAll(/\{(\w+)\}/g, (_all, value: string) => escaped(values[value] ?? "")) : text;
      return { type: TYPES[name as keyof typeof TYPES], text: shown };
    },
  };
}

/** Throws for an address that would run code, or that looks like a path and leads to another host. */
function assertAddress(name: "loginUrl" | "logoutUrl", address: string): void {
  const own = "http://own.invalid";
  const isPath = address.startsWith("/") && URL.parse(address, own)?.origin === own;
  if (address === "" || isPath || (/^https?:\/\//i.test(address) && URL.canParse(address))) return;
  throw new TypeError(`adminPage: ${name} must be a path, such as /login, or an absolute http or https address.`);
}

const escaped = (text: string): string => text.replaceAll(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);

/** The files of the admin's page, as the handler of the admin serves them. */

import { readFile } from "node:fs/promises";
import { assertOptions } from "../../options.ts";
import type { AdminPage, AdminPageFile } from "../http/handler.ts";

/** Options of `adminPage`. */
export interface AdminPageOptions {
  /** The heading and the title of the page. Default: `polygate`. */
  readonly title?: string;
  /**
   * Shows units as money of this currency, such as `USD`: a unit is a millionth, as `polygate/prices` counts. Default: units are shown as
   * they are.
   */
  readonly currency?: string;
}

const TYPES = {
  "": "text/html; charset=utf-8",
  "app.js": "text/javascript; charset=utf-8",
  "style.css": "text/css; charset=utf-8",
} as const;

/** Makes the page from the files in a folder. */
export function pageIn(folder: URL, options: AdminPageOptions = {}): AdminPage {
  assertOptions<AdminPageOptions>("adminPage", options, { title: "string?", currency: "string?" });
  const { title = "polygate", currency = "" } = options;
  if (currency !== "" && !/^[A-Z]{3}$/.test(currency))
    throw new RangeError("adminPage: currency must be three capital letters, such as USD.");
  const texts = new Map<string, Promise<string>>();
  const textOf = (name: string): Promise<string> => {
    const text = texts.get(name) ?? readFile(new URL(name || "index.html", folder), "utf8");
    texts.set(name, text);
    return text;
  };
  return {
    async file(name, base): Promise<AdminPageFile | undefined> {
      if (!Object.hasOwn(TYPES, name)) return undefined;
      const text = await textOf(name);
      const values: Readonly<Record<string, string>> = { title, currency, base };
      const shown =
        name === "" ? text.replaceAll(/\{(\w+)\}/g, (_all, value: string) => escaped(values[value] ?? "")) : text;
      return { type: TYPES[name as keyof typeof TYPES], text: shown };
    },
  };
}

const escaped = (text: string): string => text.replaceAll(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);

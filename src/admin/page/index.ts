/** The exports of "polygate/admin/page": a page for keys, budgets, upstreams and changes, for the admin over HTTP. */

import { assertNodeVersion } from "../../node-version.ts";
import type { AdminPage } from "../http/handler.ts";
import { type AdminPageOptions, pageIn } from "./files.ts";

assertNodeVersion();

export type { AdminPage, AdminPageFile } from "../http/handler.ts";
export type { AdminPageOptions } from "./files.ts";

/**
 * Makes the page of the admin. Its files are parts of the package: a browser loads nothing from elsewhere.
 *
 * @throws TypeError or RangeError for a wrong option.
 * @example adminHandler(stores.ports.quotas, { authorize, page: adminPage({ currency: "USD" }) });
 */
export function adminPage(options: AdminPageOptions = {}): AdminPage {
  return pageIn(new URL("./page/", import.meta.url), options);
}

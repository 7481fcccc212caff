/** Where the cases run: once, in this process, with no server between. What they hold cannot differ by host. */

import { inProcess as start } from "../hosts/fetch.ts";
import type { Mount } from "../hosts/stage.ts";

export const inProcess: Mount = {
  host: { name: "fetch", available: true, mounts: ["/ai"], ownRoutes: false, start },
  prefix: "/ai",
};

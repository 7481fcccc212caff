/** The token usage format for hosts that choose their formats. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { tokenUsage as format } from "../formats/token-usage/index.ts";
import type { GatewayFormat } from "../gateway.ts";

/** The token usage format: `GET /api/usage/token`, the quota of the caller's key. */
export const tokenUsage = (): GatewayFormat<"token-usage"> => ({
  name: "token-usage",
  options: {},
  make: () => format(),
});

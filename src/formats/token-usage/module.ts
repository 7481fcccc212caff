/** The token usage format as a value, for the gateways of `polygate/core`. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import type { FormatModule, GatewayFormat } from "../module.ts";
import { FORMAT, tokenUsage as served } from "./index.ts";

/** The token usage format: `GET /api/usage/token`, the quota of the caller's key. */
export const tokenUsage = (): GatewayFormat<"token-usage"> => ({
  name: FORMAT,
  rank: 7,
  make: () => served(),
});

/** The token usage format with all its sides, as a `FormatModule`. */
export const tokenUsageFormat: FormatModule<"token-usage", object, never> = { name: FORMAT, serve: tokenUsage };

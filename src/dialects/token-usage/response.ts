/** The token usage answer (spec 2.5). */

import type { ApiKey, Balance } from "../../ports/quota-store.ts";

export interface TokenUsageResponse {
  code: true;
  message: string;
  data: {
    object: "token_usage";
    name: string;
    total_granted: number;
    total_used: number;
    total_available: number;
    unlimited_quota: boolean;
    model_limits: Readonly<Record<string, boolean>>;
    model_limits_enabled: boolean;
    expires_at: number;
  };
}

/** Whole seconds; stores may keep -1 for "never", of which callers are told 0. */
const expiryOf = ({ expiresAt }: ApiKey): number =>
  Number.isFinite(expiresAt) ? Math.ceil(Math.max(0, expiresAt)) : 0;

export const encodeUsage = (key: ApiKey, { used, available }: Balance): TokenUsageResponse => ({
  code: true,
  message: "ok",
  data: {
    object: "token_usage",
    name: key.name,
    total_granted: used + available,
    total_used: used,
    total_available: available,
    unlimited_quota: key.unlimited,
    model_limits: key.modelLimits,
    model_limits_enabled: key.modelLimitsEnabled,
    expires_at: expiryOf(key),
  },
});

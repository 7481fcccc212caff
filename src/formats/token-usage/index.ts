/** The token usage format: `GET /api/usage/token` returns the quota of the caller's key (spec 2.5, 7.1). */

import { type GatewayErrorCode, GatewayError } from "../../errors.ts";
import { bearerToken } from "../../http/request.ts";
import type { ApiKey, Balance } from "../../ports/quota-store.ts";
import type { Format } from "../format.ts";
import type { TokenUsageAnswer, TokenUsageError } from "./schema.ts";

export const FORMAT = "token-usage";

export const tokenUsage = (): Format => ({
  name: FORMAT,
  telemetry: undefined,
  endpoints: [
    {
      format: FORMAT,
      kind: "query",
      method: "GET",
      path: "/api/usage/token",
      expiredKeysMayAsk: true,
      credential: (request) => bearerToken(request.headers),
      body: "none",
      answer: async ({ key, balance }) => {
        const left = await balance();
        // The key was deleted after the host's cache had read it.
        if (!left) throw new GatewayError("invalid_api_key", "The API key is not valid.");
        return encodeUsage(key, left);
      },
      encodeError: (error) => ({ status: errorStatus(error), body: encodeError(error) }),
    },
  ],
});

export const encodeUsage = (key: ApiKey, { used, available }: Balance): TokenUsageAnswer => ({
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
    // Round to whole seconds. A store may keep -1 or infinity for "never"; on the wire, 0 means never.
    expires_at: Number.isFinite(key.expiresAt) ? Math.ceil(Math.max(0, key.expiresAt)) : 0,
  },
});

/** The messages that the spec prescribes. Any other error keeps its own message. */
const MESSAGE: Partial<Record<GatewayErrorCode, string>> = {
  missing_api_key: "No Authorization header",
  malformed_credential: "Invalid Bearer token",
  invalid_api_key: "token not found",
};

// All other errors are a 500. An error about a body or a model would be the gateway's own fault, because the query has neither.
const STATUS: Partial<Record<GatewayErrorCode, number>> = {
  missing_api_key: 401,
  malformed_credential: 401,
  invalid_api_key: 401,
  method_not_allowed: 405,
  upgrade_required: 426,
  rate_limited: 429,
  busy: 503,
  store_unavailable: 503,
  client_closed: 499,
  call_stopped: 403,
  deadline_exceeded: 504,
};

export const errorStatus = (error: GatewayError): number => STATUS[error.code] ?? 500;

export const encodeError = (error: GatewayError): TokenUsageError => ({
  success: false,
  message: MESSAGE[error.code] ?? error.message,
});

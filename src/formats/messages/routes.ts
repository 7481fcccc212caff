/** The routes of the messages format, and its options: all that a gateway needs before the format's first request. */

import type { GatewayError } from "../../errors.ts";
import { bearerToken } from "../../http/request.ts";
import type { Shapes } from "../../options.ts";
import type { TelemetryNames } from "../../ports/observer.ts";
import type { LazyRoute } from "../format.ts";
import { anthropicRateHeaders, isModelAddress } from "../shared/errors.ts";
import { encodeError, errorStatus, keyPlace } from "./errors.ts";

/** The name of the format in routes, and in the native parts of requests and answers. */
export const FORMAT = "messages";

export const TELEMETRY: TelemetryNames = { provider: "anthropic" };

/** The options of a host that make the messages format behave as the official service does, where the spec differs. */
export interface MessagesOptions {
  /**
   * The ranges of numbers and lengths for which the spec (2.6, 8) is stricter than the official service. `spec` (default) has
   * `max_tokens` above 1, `top_p` between 0 and 1, `top_k` above 0, and a tool's `name` of 1 to 64 characters. `vendor` has the
   * official ranges: it also takes `max_tokens` 1, `top_p` 0 and 1, `top_k` 0, -1 for a `top_p` or `top_k` that is not set, a `name` of up to
   * 128 characters, and a thinking budget of `max_tokens` and more. `spec` takes such a budget only with the beta `interleaved-thinking-2025-05-14`.
   */
  readonly ranges?: "spec" | "vendor";
  /** `spec` (default) accepts images only as base64. `vendor` also accepts URLs and file ids, which the backend must fetch. */
  readonly imageSources?: "spec" | "vendor";
  /**
   * The statuses and types of errors. `spec` (default) has four types (7.2), and 400 for an unknown or a forbidden model. `vendor` has those of
   * Anthropic, also in streams: 404 `not_found_error`, 403 `permission_error`, 413 `request_too_large`, 504 `timeout_error`, 529
   * `overloaded_error`, and from 500 on otherwise `api_error`. `code` is the same.
   */
  readonly errors?: "spec" | "vendor";
}

const SPEC_OR_VENDOR = { optional: ["spec", "vendor"] } as const;

export const MESSAGES_SHAPES: Shapes<MessagesOptions> = {
  ranges: SPEC_OR_VENDOR,
  imageSources: SPEC_OR_VENDOR,
  errors: SPEC_OR_VENDOR,
};

/** Tells whether the caller uses this format, by its headers. Needed for paths that several formats share. */
const isOurs = ({ headers }: Request): boolean =>
  ["x-api-key", "compat-version", "anthropic-version"].some((name) => headers.has(name));

/** Returns the routes of a messages format with some options. */
export function routesOf({ errors }: MessagesOptions = {}): Readonly<
  Record<"generate" | "count" | "list" | "read", LazyRoute>
> {
  const isVendor = errors === "vendor";
  const route = {
    format: FORMAT,
    rateHeaders: anthropicRateHeaders,
    credential: (request: Request) => request.headers.get("x-api-key") || bearerToken(request.headers),
    keyPlace,
    encodeError: (error: GatewayError, requestId: string) => ({
      status: errorStatus(error, isVendor),
      body: encodeError(error, requestId, isVendor),
    }),
  } as const;
  return {
    generate: { ...route, kind: "chat", method: "POST", path: "/v1/messages" },
    count: { ...route, kind: "query", method: "POST", path: "/v1/messages/count_tokens" },
    list: { ...route, kind: "query", method: "GET", path: "/v1/models", owns: (_tail, request) => isOurs(request) },
    read: {
      ...route,
      kind: "query",
      method: "GET",
      path: "/v1/models/**",
      owns: (wildcardPath, request) => isModelAddress(wildcardPath) && isOurs(request),
    },
  };
}

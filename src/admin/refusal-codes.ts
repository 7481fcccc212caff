/** The codes of the admin's errors, over HTTP and with `--json`. In code, a refused change has the same `code`. */

import { RefusedChange } from "../model/refused-units.ts";
import { UNMIGRATED } from "../ports/quota-store.ts";
import { isPassing } from "../stores/away.ts";

/** The codes of errors over HTTP, by status. A refused change has a code of its own. */
const CODES = {
  400: "invalid_request",
  401: "not_logged_in",
  403: "forbidden",
  404: "not_found",
  405: "method_not_allowed",
  409: "conflict",
  412: "changed_meanwhile",
  413: "body_too_large",
  415: "unsupported_media_type",
  428: "confirmation_required",
  500: "failed",
  503: "unavailable",
} as const;

/** The code for every other status: h3 gives some by itself. */
const OTHER = "refused";

/** The codes of a repeated change: the first request may have made it, or has made it and its answer was too large to keep. */
const REPEATED = ["outcome_unknown", "answer_not_kept"] as const;

export type AdminErrorCode =
  | RefusedChange["code"]
  | (typeof CODES)[keyof typeof CODES]
  | (typeof REPEATED)[number]
  | typeof OTHER;

export const ADMIN_ERROR_CODES: readonly AdminErrorCode[] = [
  ...Object.values(CODES),
  "limit_reached",
  ...REPEATED,
  OTHER,
];

export const codeOfStatus = (status: number): AdminErrorCode =>
  Object.hasOwn(CODES, status) ? CODES[status as keyof typeof CODES] : OTHER;

/** Returns the code of an error that is not of HTTP. */
export function codeOf(error: unknown): AdminErrorCode {
  if (error instanceof RefusedChange) return error.code;
  if (isPassing(error) || (Object(error) as { readonly code?: unknown }).code === UNMIGRATED) return "unavailable";
  return error instanceof RangeError ? "invalid_request" : "failed";
}

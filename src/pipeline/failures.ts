/** Reports failures to the host, and calls functions of the host whose errors must change nothing. */

import { type GatewayErrorCode, type Port, describeError, GatewayError, toGatewayError } from "../errors.ts";
import { redact } from "../http/request.ts";
import { manyLines } from "../options.ts";
import type { FailedUpstream, OnFailure } from "../ports/observer.ts";

/** The call that a failure belongs to. */
interface Reported {
  readonly id: string;
  /** The API key as the caller sent it, after it was read. */
  readonly secret: string | undefined;
  readonly services: { readonly onFailure: OnFailure };
  /** The attempts of the call, with the errors that were reported already. */
  readonly attempts?: readonly { readonly reported: GatewayError | undefined }[];
}

/** Codes whose cause the caller is not told. */
const OUTLINED: ReadonlySet<GatewayErrorCode> = new Set([
  "internal",
  "backend_failed",
  "backend_refused",
  "backend_unavailable",
  "store_unavailable",
]);

/** Turns anything thrown into a GatewayError, and reports it when the caller is not told its cause. */
export function failureOf(call: Reported, thrown: unknown): GatewayError {
  const error = toGatewayError(thrown);
  if (isOutline(error)) report(call, error);
  return error;
}

/** A cause tells why an upstream refused or was too slow, or why a model has no price. */
const isOutline = ({ code, port, cause }: GatewayError): boolean =>
  OUTLINED.has(code) || ((port === "model-backend" || code === "model_not_found") && cause !== undefined);

/**
 * Reports a failure to the host, unless the host has heard of the same error as the failure of an attempt. A reporter that throws or rejects
 * changes nothing.
 */
export function report(call: Reported, thrown: unknown, port?: Port): void {
  const known = toGatewayError(thrown, port);
  if (!call.attempts?.some(({ reported }) => reported === known)) tell(call, known);
}

/** Reports the failure of one attempt. Returns false when the caller is told its cause, so that there is nothing to report. */
export function reportAttempt(call: Reported, error: GatewayError, upstream: FailedUpstream): boolean {
  if (!isOutline(error)) return false;
  tell(call, error, upstream);
  return true;
}

function tell(call: Reported, known: GatewayError, upstream?: FailedUpstream): void {
  const described = upstream ? `${titleOf(upstream)}\n${describeError(known)}` : describeError(known);
  const redacted = redact(described, call.secret);
  const text = manyLines(redacted);
  // A host that prints the error object must not print the caller's key.
  const error = redacted === described ? known : withoutCause(known, text, call.secret);
  const failure = { error, requestId: call.id, port: error.port, ...(upstream && { upstream }), text };
  void guarded(() => call.services.onFailure(failure));
}

const titleOf = ({ name, address, model, status }: FailedUpstream): string =>
  `The upstream ${name}${address === undefined ? "" : ` at ${address}`} failed for the model ${model}${status === undefined ? "" : `, with the status ${status}`}.`;

/** Returns the same error with its causes as one text without secrets. */
function withoutCause(
  { code, message, ...details }: GatewayError,
  text: string,
  secret: string | undefined,
): GatewayError {
  const { path, retryAfterMs, allow, context, port } = details;
  return new GatewayError(code, redact(message, secret), {
    cause: new Error(text),
    ...(path && { path }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(allow && { allow }),
    ...(context && { context }),
    ...(port && { port }),
  });
}

/** Reports an impossible count of the backend. The answer goes on. */
export const doubt = (call: Reported, why: string): void =>
  report(call, new GatewayError("backend_failed", why, { port: "model-backend" }));

/**
 * Calls a function of the host, and drops whatever it throws, now or later. The promise never rejects; pass it to `waitUntil`.
 */
export function guarded(call: () => unknown): Promise<unknown> {
  // The promise catches both an error thrown at once and a rejection.
  return new Promise((resolve) => resolve(call())).catch(ignore);
}

/** Outside `guarded`: a function inside would keep `call` in memory until the host's promise settles. */
const ignore = (): void => {};

/** Returns the result of an observer's function; undefined when the function throws. */
export function quietly<Result>(ask: () => Result): Result | undefined {
  try {
    const said = ask();
    // A function that is async by mistake may reject later.
    if (said instanceof Promise) void guarded(() => said);
    return said;
  } catch {
    return undefined;
  }
}

/** Tells the host of failures whose inside no caller is shown. */

import { describeError, GatewayError, type GatewayErrorCode, type Port, toGatewayError } from "../errors.ts";
import { redact } from "../http/credential.ts";
import type { OnFailure } from "../ports/observer.ts";

/** The call that a failure belongs to. */
interface Reported {
  readonly id: string;
  /** The api key as the caller sent it, once it was read. */
  readonly secret: string | undefined;
  readonly services: { readonly onFailure: OnFailure };
}

/** Codes under which the caller is told less than the host should know. */
const OUTLINED: ReadonlySet<GatewayErrorCode> = new Set([
  "internal",
  "backend_failed",
  "backend_refused",
  "backend_unavailable",
  "store_unavailable",
]);

/** Normalises what ended a call, and reports it where the caller hears only an outline of it. */
export function failureOf(call: Reported, thrown: unknown): GatewayError {
  const error = toGatewayError(thrown);
  if (isOutline(error)) report(call, error);
  return error;
}

/** Also where the caller knows the code: why an upstream has refused a request, or when it was too slow, is in the cause alone. */
const isOutline = ({ code, port, cause }: GatewayError): boolean =>
  OUTLINED.has(code) || (port === "model-backend" && cause !== undefined);

/** Reports what failed. A host's reporter that throws or rejects changes nothing. */
export function report(call: Reported, thrown: unknown, port?: Port): void {
  const known = toGatewayError(thrown, port);
  const described = describeError(known);
  const text = redact(described, call.secret);
  // Who prints the error and not its text must not print the caller's key.
  const error = text === described ? known : withoutCause(known, text, call.secret);
  void guarded(() => call.services.onFailure({ error, requestId: call.id, port: error.port, text }));
}

/** The same error, its causes as a text that holds no secret. */
function withoutCause(
  { code, message, ...details }: GatewayError,
  text: string,
  secret: string | undefined,
): GatewayError {
  const { path, retryAfterMs, allow, port } = details;
  return new GatewayError(code, redact(message, secret), {
    cause: new Error(text),
    ...(path && { path }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(allow && { allow }),
    ...(port && { port }),
  });
}

/** Reports what a backend said of itself that cannot be true; its answer is given all the same. */
export const doubt = (call: Reported, why: string): void =>
  report(call, new GatewayError("backend_failed", why, { port: "model-backend" }));

/**
 * Calls a function of the host's whose outcome nothing depends on: what it throws, now or later, is dropped. The promise, which
 * never rejects, is for who keeps it alive.
 */
export function guarded(call: () => unknown): Promise<unknown> {
  // The promise takes up both: what is thrown at once, and what a promise of the host's rejects with.
  return new Promise((resolve) => resolve(call())).catch(ignore);
}

/** Stands outside of `guarded`: a function written in there would keep `call` for as long as the host's promise does not settle. */
const ignore = (): void => {};

/** Converts the failures of an upstream to errors for the caller, with causes for the host's log. */

import {
  BACKEND_WORDS,
  backendError,
  changedError,
  GatewayError,
  type GatewayErrorCode,
  SettingMistake,
  toGatewayError,
  type VendorLimits,
} from "../../errors.ts";
import type { ChatCodec } from "../../formats/format.ts";
import { errorObject, statusIn } from "../../formats/shared/errors.decode.ts";
import { GrowingBytes } from "../../http/body.ts";
import { redact } from "../../http/request.ts";
import { parseJson } from "../../model/json.ts";
import { manyLines } from "../../options.ts";
import { type MessageRules, shownMessage, shownReason } from "../messages.ts";
import { mistakeOfConnection } from "../mistakes.ts";
import { type Exchange, type UpstreamResponse, PhaseTimeout } from "./transport.ts";

const MAX_ERROR_BYTES = 64 * 1024;

/** The time limit for reading an error's body, in milliseconds. It is short, because the status already shows the error. */
const ERROR_BODY_MS = 5_000;

/** The most characters of an upstream's message that are kept. */
const MAX_SHOWN_CHARS = 1_024;

/** The most causes of causes that are shown, and the most errors of an AggregateError. */
const MAX_CAUSES = 4;
const MAX_ERRORS = 4;

/** Codes of errors about the host's own account with the upstream. Callers get `backend_refused` instead. */
const OWN_ACCOUNT: ReadonlySet<GatewayErrorCode> = new Set([
  "missing_api_key",
  "malformed_credential",
  "invalid_api_key",
  "expired_api_key",
  "model_not_allowed",
  "quota_exhausted",
  "quota_insufficient",
  "quota_held",
  "backend_refused",
]);

export class Failures {
  readonly #secrets: readonly string[];
  readonly #rules: MessageRules;
  /** Errors that this object has already made safe for the caller. */
  readonly #told = new WeakSet<GatewayError>();
  /** Causes in the gateway's own words, around parts of the upstream without secrets. */
  readonly #safe: WeakSet<Error>;

  /** @param secrets Values that are removed from every text of the upstream, because the upstream may repeat them. */
  constructor(secrets: readonly string[], rules: MessageRules, safe: WeakSet<Error> = new WeakSet()) {
    this.#secrets = secrets;
    this.#rules = rules;
    this.#safe = safe;
  }

  /** Returns the failures of a call whose caller must read another name of the model than the upstream's. */
  renaming(from: string, to: string): Failures {
    return new Failures(this.#secrets, { ...this.#rules, rename: { from, to } }, this.#safe);
  }

  /**
   * Returns the error of a response whose status is not 2xx.
   *
   * @param hidden The whole path of the request, which no message shows because it belongs to the host. Undefined for that of a vendor's route.
   */
  async ofResponse(
    response: UpstreamResponse,
    codec: Pick<ChatCodec, "decodeError" | "limitsOf">,
    exchange: Exchange,
    hidden: string | undefined,
  ): Promise<GatewayError> {
    const { status } = response;
    const { body, cause } = await this.#unexpected(response, exchange);
    // Do not follow a redirect: it would send the key to an address that the host has not named. `fetch` may give a redirect the
    // status 0.
    if (status < 400) return this.#final(backendError("failed", cause));
    let parsed: unknown;
    try {
      parsed = parseJson(body);
    } catch {
      // The body is not JSON, for example an HTML page of a proxy in front of the upstream, so it has no message to show.
    }
    const error = codec.decodeError(status, response.headers(), parsed ?? body);
    const isForbidden = status === 401 || (status === 403 && error.code !== "content_refused");
    if (isForbidden || OWN_ACCOUNT.has(error.code)) return this.#final(backendError("refused", cause));
    const isShown = status === 429 && this.#rules.show !== false;
    const limits = isShown ? this.#withoutSecrets(codec.limitsOf?.(response.headers())) : undefined;
    const said = messageOf(errorObject(parsed));
    const message = hidden ? said?.replaceAll(this.redacted(hidden), () => "[path]") : said;
    return this.#final(this.#reworded(error, cause, message, status, limits));
  }

  /** Returns the error of a 2xx response whose body is of the wrong type, such as a page of HTML. */
  async ofWrongType(response: UpstreamResponse, exchange: Exchange): Promise<GatewayError> {
    const { cause } = await this.#unexpected(response, exchange);
    return this.#final(backendError("failed", cause));
  }

  /** Converts any error of an exchange to an error that is safe to show to the caller. */
  told(thrown: unknown): GatewayError {
    const known = toGatewayError(thrown, "model-backend");
    // A GatewayError of another version may have a code that is unknown here.
    if (known !== thrown) return this.#reworded(known, this.#shown(thrown), undefined);
    if (this.#told.has(known)) return known;
    const cause = this.#shown(known.cause);
    if (OWN_ACCOUNT.has(known.code)) return backendError("refused", cause);
    // Do not show the message of an `Error`: it comes from the connection or this library, and may contain the host's addresses.
    if (known.cause instanceof Error) return this.#reworded(known, cause, undefined);
    const error = errorObject(known.cause);
    return this.#reworded(known, cause, messageOf(error), statusIn(error));
  }

  redacted(text: string): string {
    return this.#secrets.reduce(redact, text);
  }

  /** Leaves out the headers that repeat a secret. */
  #withoutSecrets(limits: VendorLimits | undefined): VendorLimits | undefined {
    if (!limits) return undefined;
    const headers = Object.entries(limits.headers).filter(([, value]) => this.redacted(value) === value);
    return { ...limits, headers: Object.fromEntries(headers) };
  }

  #final(error: GatewayError): GatewayError {
    this.#told.add(error);
    return error;
  }

  /** Reads the beginning of an unexpected body, and describes the response for the host. */
  async #unexpected(response: UpstreamResponse, exchange: Exchange): Promise<{ body: string; cause: Error }> {
    exchange.enter({ name: "error", limitMs: ERROR_BODY_MS });
    const bytes = new GrowingBytes(MAX_ERROR_BYTES);
    try {
      while (bytes.length < MAX_ERROR_BYTES) {
        const piece = await response.read();
        if (!piece) break;
        bytes.append(piece.subarray(0, MAX_ERROR_BYTES - bytes.length));
      }
    } catch {
      // Ignore the error: the status and the part of the body read so far are enough.
    }
    const body = this.redacted(new TextDecoder().decode(bytes.seal()));
    const type = this.redacted(response.header("content-type") ?? "no content type");
    const shown = JSON.stringify(body.slice(0, MAX_SHOWN_CHARS));
    const cause = new Error(`The upstream answered ${response.status}, ${type}: ${shown}`);
    this.#safe.add(cause);
    return { body, cause };
  }

  /**
   * @param message The upstream's own message.
   * @param status The status of the upstream's response, or the one that an error in the middle of a stream names.
   */
  #reworded(
    error: GatewayError,
    cause: unknown,
    message: string | undefined,
    status?: number,
    limits?: VendorLimits,
  ): GatewayError {
    const { code, path } = error;
    const safe = message && this.redacted(message.slice(0, MAX_ERROR_BYTES));
    // The upstream names the path of a field, which the error's own message repeats.
    const own = BACKEND_WORDS.has(error.message) ? error.message : this.redacted(error.message);
    const shown = (text: string | undefined): string | undefined => shownMessage(text, code, this.#rules, status);
    const told = shown(safe)?.slice(0, MAX_SHOWN_CHARS);
    const words = told ?? own;
    const reason = told ? shownReason(error.reason, (text) => shown(this.redacted(text))) : undefined;
    if (words === error.message && cause === error.cause && reason === error.reason) return error;
    return changedError(error, words, {
      cause,
      port: "model-backend",
      path: own === error.message ? path : undefined,
      limits,
      reason,
    });
  }

  /** Removes secrets before shortening the text: a secret that was cut in two would not be found. */
  #shortened(text: string): string {
    return manyLines(this.redacted(text.slice(0, MAX_ERROR_BYTES)).slice(0, MAX_SHOWN_CHARS));
  }

  /**
   * Copies an error's name, code and message without secrets, and its causes in the same way. Leaves other fields out, because
   * libraries store data of the upstream there: undici keeps the bytes that it could not parse in `data`.
   */
  #shown(cause: unknown, depth = 0): Error | undefined {
    if (cause === undefined || cause instanceof PhaseTimeout) return cause;
    if (!(cause instanceof Error)) return new Error(`The upstream's error: ${this.#shortened(jsonOf(cause))}`);
    if (this.#safe.has(cause)) return cause;
    try {
      const { name, message, code, cause: inner, errors } = cause as Error & Record<"code" | "errors", unknown>;
      // An AggregateError of several attempts to connect has no message of its own.
      const words =
        message === "" && Array.isArray(errors)
          ? errors
              .slice(0, MAX_ERRORS)
              .map((one) => (one instanceof Error ? one.message : ""))
              .join("; ")
          : message;
      const deeper = depth < MAX_CAUSES ? this.#shown(inner, depth + 1) : undefined;
      const isOwn = cause instanceof SettingMistake;
      const safe = (text: string): string => (isOwn ? text : this.#shortened(text));
      const shown = new Error(safe(words), deeper && { cause: deeper });
      this.#safe.add(shown);
      shown.name = safe(name);
      return typeof code === "string" ? Object.assign(shown, { code: this.#shortened(code) }) : shown;
    } catch {
      // Getters may throw.
      return new Error("The connection failed with what cannot be read.");
    }
  }
}

const messageOf = ({ message }: { readonly message?: unknown }): string | undefined =>
  typeof message === "string" ? message : undefined;

/** Error codes of a connection that was not made, or that ended before the answer. */
const UNREACHED = new Set(["UND_ERR_CONNECT_TIMEOUT", "UND_ERR_SOCKET"]);

/**
 * Returns the error to throw for an error of the transport before the answer's headers.
 *
 * @param upstream The upstream; undefined for another address than that of its `baseUrl`.
 */
export function connectionError(
  thrown: unknown,
  { isConnecting, reason }: Exchange,
  upstream: { readonly origin: string; readonly failures: Failures } | undefined,
): unknown {
  if (thrown instanceof GatewayError || reason !== undefined) return thrown;
  const { code, cause } = (thrown ?? {}) as { code?: unknown; cause?: { code?: unknown } };
  const known = String(code ?? cause?.code);
  // `fetch` throws a TypeError for every failure to get an answer, also for timeouts, which are excluded here.
  const isOfFetch = thrown instanceof TypeError && !/TIMEOUT|TIMEDOUT/.test(known);
  if (!isConnecting && !isOfFetch && !UNREACHED.has(known)) return thrown;
  const mistake = upstream && mistakeOfConnection(thrown, upstream.origin, "baseUrl of the relay");
  if (!mistake) return backendError("unreachable", thrown);
  const words = `The upstream at ${upstream.failures.redacted(upstream.origin)} ${mistake.words}`;
  return backendError(mistake.isCertain ? "failed" : "unreachable", new SettingMistake(words, { cause: thrown }));
}

/** Returns the error to throw for an error of the transport after the headers. */
export const brokenOff = (thrown: unknown): GatewayError =>
  thrown instanceof GatewayError ? thrown : backendError("brokeOff", thrown);

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return "none that can be shown";
  }
}

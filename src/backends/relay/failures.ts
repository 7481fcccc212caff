/** What goes wrong with an upstream, as the caller and the host are told of it. */

import type { ChatCodec } from "../../dialects/codec.ts";
import { GatewayError, type GatewayErrorCode, toGatewayError } from "../../errors.ts";
import { redact } from "../../http/credential.ts";
import { isJsonObject, parseJson } from "../../model/json.ts";
import { readBeginning } from "./body.ts";
import { type Exchange, PhaseTimeout } from "./exchange.ts";
import type { UpstreamResponse } from "./transport.ts";

/** How much of a body that tells of an error is read, in bytes. */
const MAX_ERROR_BYTES = 64 * 1024;

/** How long that body may take, in milliseconds: what it tells is known by its status already. */
const ERROR_BODY_MS = 5_000;

/** How much of a body that is none is kept for the host, in characters. */
const MAX_SHOWN_CHARS = 1_024;

/** How many causes of causes are shown, and how many of the errors that one stands for. */
const MAX_CAUSES = 4;
const MAX_ERRORS = 4;

/** Codes that speak of the relay's own account with the upstream, which is none of the caller's business. */
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

export interface FailureOptions {
  /** Secrets that are sent upstream and never logged. */
  readonly secrets: readonly string[];
  /** Whether callers see the upstream's own messages. */
  readonly showMessages: boolean;
}

/** The failures of one upstream. */
export class Failures {
  readonly #secrets: readonly string[];
  readonly #showMessages: boolean;
  /** Errors that are in words for the caller already: those are not put into other words. */
  readonly #told = new WeakSet<GatewayError>();

  constructor({ secrets, showMessages }: FailureOptions) {
    this.#secrets = secrets;
    this.#showMessages = showMessages;
  }

  /** The error of a response whose status is not 2xx. */
  async ofResponse(
    response: UpstreamResponse,
    codec: Pick<ChatCodec, "decodeError">,
    exchange: Exchange,
  ): Promise<GatewayError> {
    const { status } = response;
    const body = await this.#beginning(response, exchange);
    const cause = this.#unexpected(response, body);
    // The host has named the address: a redirect would take the key elsewhere. Opaque ones have the status 0.
    if (status < 400) return this.#own(failed(cause));
    const parsed = parsedJson(body);
    const error = codec.decodeError(status, response.headers(), parsed ?? body);
    if (status === 401 || status === 403 || OWN_ACCOUNT.has(error.code)) return this.#own(ownAccount(cause));
    // A page of HTML, such as a proxy's before the upstream, is no message.
    return this.#own(this.#inWords(error, cause, messageIn(parsed)));
  }

  /** The error of a 2xx response whose body is of the wrong type: a page of HTML, say. */
  async ofWrongType(response: UpstreamResponse, exchange: Exchange): Promise<GatewayError> {
    return this.#own(failed(this.#unexpected(response, await this.#beginning(response, exchange))));
  }

  async #beginning(response: UpstreamResponse, exchange: Exchange): Promise<string> {
    exchange.enter({ name: "error", limitMs: ERROR_BODY_MS });
    return this.redacted(await readBeginning(response, MAX_ERROR_BYTES));
  }

  /** An error in the relay's own words, which stand whatever the upstream said. */
  #own(error: GatewayError): GatewayError {
    this.#told.add(error);
    return error;
  }

  /** A text of the upstream's without the relay's own secrets, which it may send back. */
  redacted(text: string): string {
    return this.#secrets.reduce(redact, text);
  }

  /** Any error of an exchange, fit for the caller: the upstream's own, or one of the connection to it. */
  told(thrown: unknown): GatewayError {
    if (!(thrown instanceof GatewayError)) {
      const error = toGatewayError(thrown, "model-backend");
      return this.#inWords(error, this.#shown(thrown), undefined);
    }
    if (this.#told.has(thrown)) return thrown;
    const cause = this.#shown(thrown.cause);
    if (OWN_ACCOUNT.has(thrown.code)) return ownAccount(cause);
    // An Error is the connection's or this library's own, and may name addresses of the host's.
    const said = thrown.cause instanceof Error ? undefined : messageIn(thrown.cause);
    return this.#inWords(thrown, cause, said);
  }

  /** @param said The upstream's own words. */
  #inWords(error: GatewayError, cause: unknown, said: string | undefined): GatewayError {
    const words = this.#showMessages && said ? this.#shortened(said) : error.message;
    if (words === error.message && cause === error.cause) return error;
    const { code, path, retryAfterMs } = error;
    return new GatewayError(code, words, {
      cause,
      port: "model-backend",
      ...(path && { path }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    });
  }

  /** The beginning of a text of the upstream's. Cut after the secrets are gone: a piece of one would not be known for it. */
  #shortened(text: string): string {
    return this.redacted(text.slice(0, MAX_ERROR_BYTES)).slice(0, MAX_SHOWN_CHARS);
  }

  /**
   * A cause as the host may read it: its name, its code and its words without secrets, and so of what caused it. All else is left behind,
   * because a library notes on its errors what the upstream has sent: undici the bytes that it could not read, in `data`.
   */
  #shown(cause: unknown, depth = 0): Error | undefined {
    if (cause === undefined || cause instanceof PhaseTimeout) return cause;
    if (!(cause instanceof Error)) return new Error(this.#shortened(`The upstream's error: ${jsonOf(cause)}`));
    try {
      const { name, message, code, cause: inner, errors } = cause as Error & Record<"code" | "errors", unknown>;
      // What several attempts to connect came to has no words of its own.
      const words =
        message === "" && Array.isArray(errors) ? errors.slice(0, MAX_ERRORS).map(messageOf).join("; ") : message;
      const deeper = depth < MAX_CAUSES ? this.#shown(inner, depth + 1) : undefined;
      const shown = new Error(this.#shortened(words), deeper && { cause: deeper });
      shown.name = this.#shortened(name);
      return typeof code === "string" ? Object.assign(shown, { code: this.#shortened(code) }) : shown;
    } catch {
      // Getters may throw.
      return new Error("The connection failed with what cannot be read.");
    }
  }

  #unexpected(response: UpstreamResponse, beginning: string): Error {
    const type = response.header("content-type") ?? "no content type";
    const said = JSON.stringify(beginning.slice(0, MAX_SHOWN_CHARS));
    return new Error(`The upstream answered ${response.status}, ${this.redacted(type)}: ${said}`);
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : "");

const ownAccount = (cause: unknown): GatewayError =>
  new GatewayError("backend_refused", "The model backend refused this service.", { port: "model-backend", cause });

const failed = (cause: unknown): GatewayError =>
  new GatewayError("backend_failed", "The model backend failed.", { port: "model-backend", cause });

/** Codes of a connection that was not made, or that ended before anything was answered. */
const UNREACHED = new Set(["UND_ERR_CONNECT_TIMEOUT", "UND_ERR_SOCKET"]);

/** An error of the transport before the answer's headers. */
export function connectionError(thrown: unknown, { isConnecting, reason }: Exchange): unknown {
  if (thrown instanceof GatewayError || reason !== undefined) return thrown;
  const { code, cause } = (thrown ?? {}) as { code?: unknown; cause?: { code?: unknown } };
  const known = String(code ?? cause?.code);
  // A fetch has a TypeError for all that keeps it from an answer, but for time.
  const isOfFetch = thrown instanceof TypeError && !/TIMEOUT|TIMEDOUT/.test(known);
  if (!isConnecting && !isOfFetch && !UNREACHED.has(known)) return thrown;
  return new GatewayError("backend_unavailable", "The model backend cannot be reached.", {
    port: "model-backend",
    cause: thrown,
  });
}

/** An error of the transport after the headers. */
export function brokenOff(thrown: unknown): unknown {
  if (thrown instanceof GatewayError) return thrown;
  return new GatewayError("backend_failed", "The model backend's answer broke off.", {
    port: "model-backend",
    cause: thrown,
  });
}

function parsedJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return "none that can be shown";
  }
}

/** How deep in an error its words may be: no format puts them deeper than in an array's object's object. */
const MAX_DEPTH = 4;

/** The words of an error, wherever the formats put them. */
function messageIn(said: unknown, depth = 0): string | undefined {
  if (typeof said === "string") return said;
  if (depth === MAX_DEPTH) return undefined;
  if (Array.isArray(said)) return messageIn(said[0], depth + 1);
  if (!isJsonObject(said)) return undefined;
  const { message, error } = said;
  return typeof message === "string" ? message : messageIn(error, depth + 1);
}

/** A call of a provider's model: its time limits, its end, and its errors. */

import {
  backendError,
  changedError,
  GatewayError,
  type GatewayErrorCode,
  inOwnWords,
  SettingMistake,
  toGatewayError,
} from "../../errors.ts";
import {
  decodeUpstreamError,
  errorObject,
  retryAfterOf,
  statusIn,
  upstreamError,
} from "../../formats/shared/errors.decode.ts";
import { isJsonObject, type JsonObject, parseJson } from "../../model/json.ts";
import type { Clock } from "../../ports/clock.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import type { AskedUpstream, UpstreamObserver, UpstreamOutcome } from "../../ports/observer.ts";
import { type FailureNotes, Pending } from "../backend.ts";
import { type MessageRules, shownMessage, shownReason } from "../messages.ts";
import { lackingModel, mistaken, mistakeOfConnection, refusesKey } from "../mistakes.ts";
import { isAboutRoute } from "../relay/address.ts";
import { Exchange, UNREAD } from "../relay/transport.ts";
import type { AiSdkModel } from "./options.ts";

/** A call of a model that may hang and may ignore its signal. Every call must be matched by `end()`. */
export class ModelCall {
  /** The phases of the call and their time limits. */
  readonly exchange: Exchange;
  /** Releases an answer that was not read to its end. */
  release: (() => void) | undefined;
  readonly #pending: Pending = new Pending();
  readonly #abort: AbortController = new AbortController();
  readonly #clock: Clock;
  readonly #lastFailures: FailureNotes;
  /** Undefined until the model is asked. */
  #asked: (Pick<AiSdkModel, "provider" | "modelId"> & Pick<AskedUpstream, "modelListed">) | undefined;
  readonly #context: Pick<CallContext, "signal" | "observeUpstream" | "key">;
  /** Undefined until the model is asked. */
  #attempt: UpstreamObserver | undefined;
  #askedAt = 0;
  #outcome: Omit<UpstreamOutcome, "endMs"> = {};

  constructor(
    { clock, lastFailures }: { readonly clock: Clock; readonly lastFailures: FailureNotes },
    context: Pick<CallContext, "signal" | "observeUpstream" | "key">,
  ) {
    this.#clock = clock;
    this.#lastFailures = lastFailures;
    this.#context = context;
    this.exchange = new Exchange(clock, context.signal);
    const cut = (reason: Error): void => {
      this.#pending.fail(reason);
      this.#abort.abort(reason);
    };
    this.exchange.carrier = { cut };
    // If the signal has aborted already, the exchange was cut before it had a carrier: cut the call now.
    if (this.exchange.reason instanceof Error) cut(this.exchange.reason);
  }

  /** The signal for the model. It aborts when the call is cut, and when the call ends. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  asks({ provider, modelId }: AiSdkModel, asked: Pick<AskedUpstream, "kind" | "stream" | "modelListed">): void {
    this.#askedAt = this.#clock.now();
    this.#asked = { provider, modelId, modelListed: asked.modelListed };
    this.#attempt = this.#context.observeUpstream?.({ ...asked, name: provider, model: modelId, format: "ai-sdk" });
  }

  /** Notes the error that ends the call, and returns it with the mistake that it shows. */
  failed(thrown: GatewayError): GatewayError {
    const asked = this.#asked;
    const error = asked?.modelListed
      ? lackingModel(thrown, asked.provider, asked.modelId, "where the provider's model is made")
      : thrown;
    const { code } = error;
    // The error of a call that was cut is not the provider's.
    this.#outcome = this.#context.signal.aborted ? { errorCode: code } : { errorCode: code, error };
    return error;
  }

  /** Waits for a promise of the model. Rejects at once when the call is cut. */
  wait<Value>(promise: PromiseLike<Value>): Promise<Value> {
    return this.#pending.of(promise);
  }

  /** Ends the call, after success or failure. */
  end(): void {
    if (this.#asked && !this.#context.signal.aborted) {
      const { provider, modelListed } = this.#asked;
      this.#lastFailures.note(provider, this.#outcome.error, this.#clock.now(), this.#context, modelListed);
    }
    this.#attempt?.end({ ...this.#outcome, endMs: Math.max(0, this.#clock.now() - this.#askedAt) });
    this.exchange.end();
    this.#abort.abort(UNREAD);
    try {
      this.release?.();
    } catch {
      // The answer is the model's own object, and its methods may throw.
    }
  }
}

/** The most characters of a provider's message that are kept, and of the body of its error that are read. */
const MAX_SHOWN_CHARS = 1_024;
const MAX_BODY_CHARS = 64 * 1_024;

/** The AI SDK's own errors by their names, each with its code and the message for the caller. */
const NAMED: Readonly<Record<string, readonly [GatewayErrorCode, string]>> = {
  AI_UnsupportedFunctionalityError: ["failed_precondition", "The model does not support all of this request."],
  AI_InvalidPromptError: ["invalid_request", "The model backend does not take this request."],
  AI_InvalidArgumentError: ["invalid_request", "The model backend does not take this request."],
  AI_NoSuchModelError: ["model_not_found", "The model backend does not know this model."],
};

/**
 * Converts an error that a provider threw, or sent within a stream, to a GatewayError. Keeps the provider's message in `cause`, but
 * not the request that the AI SDK's error contains.
 */
export function decodeError(thrown: unknown, rules: MessageRules): GatewayError {
  try {
    if (thrown instanceof GatewayError) return toGatewayError(thrown, "model-backend");
    const error = errorOf(thrown);
    const { code } = error;
    // Do not show callers an error about the host's key or account.
    if (code === "backend_refused") return error;
    const { statusCode } = propertiesOf(thrown);
    const status = typeof statusCode === "number" ? statusCode : statusIn(wireErrorOf(thrown));
    const message = shownMessage(messageOf(thrown), code, rules, status);
    const shown = (text: string): string | undefined =>
      text.search(KEY_LIKE) < 0 ? shownMessage(text, code, rules, status) : undefined;
    const reason = message ? shownReason(error.reason, shown) : undefined;
    return changedError(error, message?.slice(0, MAX_SHOWN_CHARS) ?? error.message, { reason });
  } catch {
    // Getters may throw.
    return toGatewayError(new Error("The provider threw what cannot be read."), "model-backend");
  }
}

function errorOf(thrown: unknown): GatewayError {
  const { name, statusCode, isRetryable } = propertiesOf(thrown);
  const named = typeof name === "string" && Object.hasOwn(NAMED, name) ? NAMED[name] : undefined;
  if (named) return inOwnWords(new GatewayError(named[0], named[1], { port: "model-backend", cause: causeOf(thrown) }));
  const mistake = mistakeIn(thrown);
  if (mistake) return backendError("failed", mistake);
  const unreached = unreachedBy(thrown);
  if (unreached) return unreached;
  // A status of success means that the answer could not be read.
  if (typeof statusCode === "number") return errorOfStatus(statusCode < 400 ? 500 : statusCode, thrown);
  // The provider could not be reached.
  if (name === "AI_APICallError" && isRetryable === true) return upstreamError(503, causeOf(thrown), undefined);
  const error = errorOfStatus(undefined, thrown);
  if (error.code !== "backend_failed") return error;
  // `toGatewayError` finds the runtime's connection errors anywhere in the chain of causes.
  const { code, message } = toGatewayError(thrown, "model-backend");
  return new GatewayError(code, message, { port: "model-backend", cause: causeOf(thrown) });
}

/** Returns the mistake in the provider's address that its answer shows: the address lacks the route, or serves a page. */
function mistakeIn(thrown: unknown): SettingMistake | undefined {
  const { name, statusCode, requestBodyValues, responseBody, responseHeaders, url } = propertiesOf(thrown);
  if (name !== "AI_APICallError" || typeof statusCode !== "number" || typeof url !== "string") return undefined;
  const type = isJsonObject(responseHeaders) ? responseHeaders["content-type"] : undefined;
  const isPage = statusCode < 400 && typeof type === "string" && type.startsWith("text/html");
  const { origin = "", pathname = "" } = URL.parse(url) ?? {};
  const { model } = propertiesOf(requestBodyValues);
  const isMissing = (body: string): boolean => isAboutRoute(statusCode, parsedOrText(body), pathname, String(model));
  if (!isPage && !(typeof responseBody === "string" && isMissing(responseBody))) return undefined;
  // The query and the user's name in an address may hold a key.
  const shown = (origin + pathname).slice(0, MAX_SHOWN_CHARS).replaceAll(KEY_LIKE, "[redacted]");
  const does = isPage ? "answers with a page of HTML to" : "does not serve";
  return new SettingMistake(`The provider ${does} POST ${shown}. Check its baseURL.`, { cause: causeOf(thrown) });
}

/** Returns the error of a connection that shows a mistake in the provider's address. */
function unreachedBy(thrown: unknown): GatewayError | undefined {
  const { name, statusCode, cause, url } = propertiesOf(thrown);
  if (name !== "AI_APICallError" || statusCode !== undefined || typeof url !== "string") return undefined;
  const mistake = mistakeOfConnection(cause, url, "baseURL of the provider");
  if (!mistake) return undefined;
  const words = `The provider at ${URL.parse(url)?.origin ?? "its address"} ${mistake.words}`;
  const kind = mistake.isCertain ? "failed" : "unreachable";
  return backendError(kind, new SettingMistake(words, { cause: causeOf(thrown) }));
}

function parsedOrText(body: string): unknown {
  try {
    return parseJson(body.slice(0, MAX_BODY_CHARS));
  } catch {
    return body;
  }
}

/** Returns the error of the provider's API: the body of an error response, an error within a stream, or an error thrown directly. */
function wireErrorOf(thrown: unknown): JsonObject {
  const { data, error, responseBody } = propertiesOf(thrown);
  // The provider's schema has removed fields from `data`.
  const body = typeof responseBody === "string" ? responseBody.slice(0, MAX_BODY_CHARS) : (data ?? error);
  return { message: messageOf(thrown) ?? "", ...errorObject(body ?? thrown) };
}

const propertiesOf = (value: unknown): Readonly<Record<string, unknown>> =>
  (value ?? {}) as Readonly<Record<string, unknown>>;

const REFUSED_KEY = "The provider's service refuses its credential. Check its apiKey and headers.";
const REFUSED_ACCOUNT =
  "The provider's service refuses its credential or account. Check its apiKey, what it may use, and its credit.";

/** @param status Undefined for an error within a stream. */
function errorOfStatus(status: number | undefined, thrown: unknown): GatewayError {
  const { responseHeaders } = propertiesOf(thrown);
  const headers = new Headers();
  for (const name of ["retry-after", "retry-after-ms", "date"]) {
    const value = isJsonObject(responseHeaders) ? responseHeaders[name] : undefined;
    if (typeof value === "string" && /^[\t\u0020-\u007e]*$/.test(value)) headers.set(name, value);
  }
  const said = causeOf(thrown, status === 401 || status === 403);
  const error = decodeUpstreamError(status, wireErrorOf(thrown), retryAfterOf(headers), said);
  if (error.code === "backend_refused")
    return mistaken(error, refusesKey(status, messageOf(thrown)) ? REFUSED_KEY : REFUSED_ACCOUNT);
  // The provider names the path of a field, which the error's message repeats.
  return error.message.search(KEY_LIKE) < 0 ? error : upstreamError(400, said, undefined);
}

/**
 * Returns the cause that the host may log: the provider's message, without the request and the address that the AI SDK adds to it.
 *
 * @param mayHoldKey Leaves the message out. Some providers repeat a wrong key in their message, and this backend does not know the
 * host's key.
 */
function causeOf(thrown: unknown, mayHoldKey = false): Error {
  const { name, statusCode } = propertiesOf(thrown);
  const status = typeof statusCode === "number" ? ` ${statusCode}` : "";
  const words = mayHoldKey ? "words in which your key may stand" : (messageOf(thrown) ?? "no words that can be shown");
  return new Error(`The provider failed: ${typeof name === "string" ? name : "error"}${status}: ${words}`);
}

function messageOf(thrown: unknown): string | undefined {
  const { message, error } = propertiesOf(thrown);
  const text = typeof thrown === "string" ? thrown : message;
  if (typeof text !== "string") return isJsonObject(error) ? messageOf(error) : undefined;
  return text
    .slice(0, 2 * MAX_SHOWN_CHARS)
    .replaceAll(KEY_LIKE, "[redacted]")
    .slice(0, MAX_SHOWN_CHARS);
}

/**
 * Matches texts that look like a key or a part of a key: text after a usual prefix of keys, a UUID, or eight or more characters with
 * a digit and a letter. Names of models and of parameters rarely match.
 */
const KEY_LIKE =
  /\b(?:sk|pk|rk|gsk|xai|hf|r8|pplx|csk|bearer|basic)[-_ ][\w+/=.~-]{8,}|\b[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b|\b(?=[a-z_]*\d)(?=[\d_]*[a-z])\w{8,}/gi;

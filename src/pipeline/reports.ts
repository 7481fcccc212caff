/** Tells the host of failures, and its observer of each call. Whatever these functions of the host do, the call goes on. */

import {
  changedError,
  type GatewayErrorCode,
  type Port,
  describeError,
  type GatewayError,
  toGatewayError,
  untoldFailure,
  backendFailed,
} from "../errors.ts";
import { redact } from "../http/request.ts";
import { manyLines, printError } from "../options.ts";
import type { ModelKind } from "../ports/call-info.ts";
import type {
  FailedUpstream,
  Failure,
  OnFailure,
  AskedUpstream,
  CallObserver,
  HoldChange,
  Observer,
  RateDecision,
  TelemetryNames,
  UpstreamObserver,
  UpstreamOutcome,
  CallRecord,
} from "../ports/observer.ts";

/** The call that a failure belongs to. */
interface Reported {
  readonly id: string;
  /** The API key as the caller sent it, after it was read. */
  readonly secret: string | undefined;
  readonly services: { readonly onFailure: OnFailure };
  /** The attempts of the call, with the errors that were reported already. */
  readonly found?: { readonly attempts: readonly { readonly reported: GatewayError | undefined }[] };
}

/** What the host is told of a failure beside its error. */
type FailureDetails = Pick<Failure, "upstream" | "waiting">;

/** Codes whose cause the caller is not told. */
const OUTLINED: ReadonlySet<GatewayErrorCode> = new Set([
  "internal",
  "backend_failed",
  "backend_refused",
  "backend_unavailable",
  "store_unavailable",
  "misconfigured",
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
export function report(call: Reported, thrown: unknown, port?: Port, more?: FailureDetails): void {
  const known = toGatewayError(thrown, port);
  if (!call.found?.attempts.some(({ reported }) => reported === known)) tell(call, known, more);
}

/** Reports the failure of one attempt. Returns false when the caller is told its cause, so that there is nothing to report. */
export function reportAttempt(call: Reported, error: GatewayError, upstream: FailedUpstream): boolean {
  if (!isOutline(error)) return false;
  tell(call, error, { upstream });
  return true;
}

/** True when the host asks for all stacks. */
export const isDebugged = (): boolean => globalThis.process?.env?.["DEBUG"]?.includes("polygate") ?? false;

/** The least status of an answer that is an error. */
const ERROR_STATUS = 400;

function tell(call: Reported, known: GatewayError, more: FailureDetails = {}): void {
  const { upstream } = more;
  // The stacks of an error that an upstream has answered with lead through this library alone.
  const isAnswered = (upstream?.status ?? 0) >= ERROR_STATUS;
  const text = describeError(known, !isAnswered || isDebugged());
  const described = upstream ? `${titleOf(upstream)}\n${text}` : text;
  const redacted = redact(described, call.secret);
  const shown = manyLines(redacted);
  // A host that prints the error object must not print the caller's key, which libraries keep in fields such as `config.headers`.
  const { path, reason, limits, refusedBy } = known;
  const kept = <Detail>(detail: Detail): Detail | undefined => (repeats(detail, call.secret) ? undefined : detail);
  const isSafe = redacted === described && !repeats(known, call.secret);
  const error = isSafe
    ? known
    : changedError(known, redact(known.message, call.secret), {
        reason: kept(reason),
        limits: kept(limits),
        refusedBy: kept(refusedBy),
        path: path?.map((step) => (typeof step === "string" ? redact(step, call.secret) : step)),
        cause: new Error(shown),
      });
  tellFailure(call.services, {
    error,
    requestId: call.id,
    port: error.port,
    ...more,
    text: shown,
  });
}

/** The method that a runtime calls before it prints an object: it returns the text to print. */
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

/** Tells the host of a failure. A console that prints the object shows each stack once, although `error` and `text` both have it. */
export function tellFailure(services: Reported["services"], failure: Failure): void {
  Object.defineProperty(failure, INSPECT, { value: () => printable(failure, `\n${failure.text}`) });
  void guarded(() => services.onFailure(failure));
}

/** Prints a failure with a text. */
export type PrintFailure = (failure: Failure, text: string) => void;

export const printFailure: PrintFailure = (failure, text) => {
  const { requestId, error, port, upstream, waiting } = failure;
  const isWarning = upstream || waiting;
  printError(printable(failure, text), { requestId, code: error.code, port, upstream }, isWarning && "warn");
};

/**
 * Indents the text of a failure: a line of a stranger's message looks like no failure of its own. Names the attempt, because another may answer
 * the call, and a charge that waits, because its call may be complete.
 */
const printable = ({ error, requestId, upstream, waiting }: Failure, text: string): string => {
  const part = waiting ? "the charge of " : upstream ? `attempt ${upstream.attempt} of ` : "";
  const end = waiting ? "waits" : "failed";
  return `polygate: ${part}${requestId} ${end} (${error.code})${text}`.replaceAll("\n", "\n  ");
};

/**
 * The most objects, values and characters that are searched for a secret. The search is part of each failed call, and calls fail in numbers: the
 * error of a client for HTTP may lead to all its sockets, and that of another one to a list of a million numbers.
 */
const MOST_OBJECTS = 200;
const MOST_VALUES = 1_000;
const MOST_CHARS = 200_000;

/**
 * Tells whether something contains the secret anywhere that a console or a logger would read. True for what cannot be searched, too: for more
 * than the bounds, and for an object with a getter that throws.
 */
function repeats(detail: unknown, secret: string | undefined): boolean {
  if (secret === undefined) return false;
  const objects = new Set<object>();
  const texts: string[] = [];
  let [values, chars] = [0, 0];
  const isWithin = (part: unknown): boolean => {
    if (typeof part === "string") chars += texts.push(part) && part.length;
    else if (typeof part === "object" && part !== null) objects.add(part);
    return ++values <= MOST_VALUES && chars <= MOST_CHARS && objects.size <= MOST_OBJECTS;
  };
  try {
    isWithin(detail);
    // The set grows while it is read.
    for (const object of objects) for (const part of partsOf(object)) if (!isWithin(part)) return true;
  } catch {
    return true;
  }
  // One search takes far less time than one for each text. No key has a line break.
  const all = texts.join("\n");
  return redact(all, secret) !== all;
}

/** Yields what a console shows of an object: the names and values of its fields, and what its class holds. */
function* partsOf(object: object): Generator<unknown, void> {
  if (ArrayBuffer.isView(object)) return;
  const isList = Array.isArray(object);
  // Yield the elements first: the names of a long list would be as many texts.
  if (isList) yield* object as readonly unknown[];
  for (const name of Reflect.ownKeys(object)) {
    if (isList && typeof name === "string" && /^\d+$/.test(name)) continue;
    if (typeof name === "string") yield name;
    // The cast lets an object be read by any name.
    yield (object as Record<PropertyKey, unknown>)[name];
  }
  // Libraries bring their own classes of Fetch, which are no instances of the platform's.
  switch (Object.prototype.toString.call(object).slice("[object ".length, -1)) {
    case "Map":
    case "Headers":
    case "FormData":
    case "URLSearchParams":
      for (const [name, value] of object as Iterable<readonly unknown[]>) {
        yield name;
        yield value;
      }
      return;
    case "Set":
      yield* object as Iterable<unknown>;
      return;
    case "URL":
      yield (object as URL).href;
      return;
    case "Request":
    case "Response":
      yield (object as Request | Response).url;
      yield (object as Request | Response).headers;
  }
}

const titleOf = ({ name, address, model, status }: FailedUpstream): string =>
  `The upstream ${name}${address === undefined ? "" : ` at ${address}`} failed for the model ${model}${status === undefined ? "" : `, with the status ${status}`}.`;

/** Reports an impossible count of the backend. The answer goes on. */
export const doubt = (call: Reported, why: string): void => report(call, backendFailed(why));

/**
 * Calls a function of the host. The promise never rejects; pass it to `waitUntil`.
 *
 * @param failed Receives whatever the function throws, now or later. Default: drops it.
 */
export function guarded(run: () => unknown, failed: (thrown: unknown) => void = ignore): Promise<unknown> {
  // The promise catches both an error thrown at once and a rejection.
  return new Promise((resolve) => resolve(run())).catch(failed);
}

/**
 * Returns a reporter of errors of a host's function. It holds only what a report needs: the function may take long.
 *
 * @param name The function that fails, such as `onCall`. Default: the name that the reporter is given, and none for an error that tells all.
 */
export function reporterOf(
  { id, secret, services }: Reported,
  name?: string,
): (thrown: unknown, failed?: string) => void {
  return (thrown, failed = name) =>
    report({ id, secret, services }, failed === undefined ? thrown : untoldFailure(failed, thrown), "hook");
}

/** Outside `guarded`: a function inside would keep `run` in memory until the host's promise settles. */
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

/** The facts that an observer receives at the beginning of a call. */
interface Begun {
  readonly id: string;
  readonly context: unknown;
  readonly request: Request;
  readonly endpoint: {
    readonly format: string;
    readonly kind: { readonly name: ModelKind } | ModelKind | "query" | "public";
    readonly path: string;
  };
  /** The API key as the caller sent it, after it was read. */
  readonly secret: string | undefined;
  readonly services: { readonly telemetry: ReadonlyMap<string, TelemetryNames> };
}

/** Returns the watch on a call that begins; undefined when the observer does not want one. */
export function watchOf(observer: Observer, call: Begun): CallWatch | undefined {
  const { id, context, request, endpoint } = call;
  const begun = {
    requestId: id,
    context,
    headers: request.headers,
    format: endpoint.format,
    telemetry: call.services.telemetry.get(endpoint.format),
    kind: typeof endpoint.kind === "string" ? endpoint.kind : endpoint.kind.name,
    method: request.method,
    route: endpoint.path,
  };
  const watching = quietly(() => observer.begin(begun));
  return watching && new CallWatch(watching, call);
}

export class CallWatch {
  /** The host's own observer, which may throw: call it only within `quietly`. */
  readonly observer: CallObserver;
  readonly #call: Begun;

  constructor(observer: CallObserver, call: Begun) {
    this.observer = observer;
    this.#call = call;
  }

  /** Returns the backend's events. The backend runs inside the context that the observer has made active. */
  source<Event>(events: () => AsyncIterable<Event>): AsyncIterator<Event> {
    const source = this.#run(() => events()[Symbol.asyncIterator]());
    return {
      next: () => this.#run(() => source.next()),
      return: () => this.#run(() => source.return?.() ?? Promise.resolve({ done: true, value: undefined })),
    };
  }

  #run<Result>(work: () => Result): Result {
    const { observer } = this;
    return observer.run ? ran((inner) => observer.run?.(inner), work) : work();
  }

  rateLimit(decision: RateDecision): void {
    quietly(() => this.observer.rateLimit?.(decision));
  }

  tellHold(change: HoldChange): void {
    quietly(() => this.observer.hold?.(change));
  }

  upstream(asked: AskedUpstream): UpstreamObserver {
    // A model's name is the caller's own text, and a caller may write its key anywhere.
    const { secret, services } = this.#call;
    const model = redact(asked.model, secret);
    const telemetry = asked.telemetry ?? services.telemetry.get(asked.format);
    return new UpstreamWatch(
      quietly(() => this.observer.upstream?.({ ...asked, telemetry, model })),
      secret,
    );
  }

  end(record: CallRecord): void {
    quietly(() => this.observer.end(record));
  }
}

class UpstreamWatch implements UpstreamObserver {
  readonly headers: Readonly<Record<string, string>>;
  readonly #observer: UpstreamObserver | undefined;
  readonly #secret: string | undefined;

  constructor(observer: UpstreamObserver | undefined, secret: string | undefined) {
    this.#observer = observer;
    this.#secret = secret;
    this.headers = quietly(() => validHeaders(observer?.headers)) ?? {};
  }

  run<Result>(work: () => Result): Result {
    return ran((inner) => this.#observer?.run(inner), work);
  }

  end(outcome: UpstreamOutcome): void {
    const { model } = outcome;
    const told = model === undefined ? outcome : { ...outcome, model: redact(model, this.#secret) };
    quietly(() => this.#observer?.end(told));
  }
}

/** Returns the headers that are valid in a request; drops all others. */
function validHeaders(headers: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name, value]) => /^[\w-]+$/.test(name) && /^[\t\u0020-\u007e]*$/.test(value)),
  );
}

/**
 * Runs `work` exactly once: inside `around` if `around` calls it, and by itself otherwise. Returns or throws the outcome of `work`.
 */
function ran<Result>(around: (work: () => Result) => unknown, work: () => Result): Result {
  let outcome: { readonly value: Result } | { readonly error: unknown } | undefined;
  const once = (): Result => {
    if (!outcome)
      try {
        outcome = { value: work() };
      } catch (error) {
        outcome = { error };
      }
    if ("error" in outcome) throw outcome.error;
    return outcome.value;
  };
  // An error of `work` is thrown below; any other error is the observer's.
  quietly(() => {
    const said = around(once);
    // Do not await the work's promise here; the caller does.
    return outcome && "value" in outcome && said === outcome.value ? undefined : said;
  });
  return once();
}

/** The findings of a call, and the record that is made of them once, at the end. Also the requests to upstreams, which the record lists. */

import {
  type FieldPath,
  type GatewayError,
  type GatewayErrorCode,
  isInOwnWords,
  LACKS_MODEL,
  mistakeOf,
  toGatewayError,
} from "../errors.ts";
import type { AnyEndpoint } from "../formats/format.ts";
import { redact } from "../http/request.ts";
import type { Metered } from "../kinds/meter.ts";
import type { Conversion } from "../model/conversion.ts";
import { copyOf } from "../model/json.ts";
import type { UnreadEvents } from "../ports/model-backend.ts";
import {
  type CallRecord,
  type CallOutcome,
  type LiveCall,
  type AskedUpstream,
  MOST_MESSAGE_CHARS,
  type OnFailure,
  type UpstreamAttempt,
  type UpstreamObserver,
  type UpstreamOutcome,
} from "../ports/observer.ts";
import type { ApiKey, Outcome } from "../ports/quota-store.ts";
import type { RateLimit } from "../ports/rate-limiter.ts";
import type { HookedCall } from "./hooks.ts";
import { type CallWatch, guarded, reportAttempt, reporterOf } from "./reports.ts";
import type { Services } from "./services.ts";

const NO_RATES: readonly RateLimit[] = [];
const NO_CONVERSIONS: readonly Conversion[] = [];
const NO_ATTEMPTS: readonly Attempt[] = [];

/**
 * The findings of a call so far, for those who tell them: the headers of its answer, its record, and the steps that run at its end. A step
 * notes what it finds here, and passes its results on as arguments.
 */
export class Findings {
  /** The state of the key's rate limits: at most one of each kind. */
  rates: readonly RateLimit[] = NO_RATES;
  /** The requested model, after decoding. */
  model: string | undefined = undefined;
  /** True when the backend lists that model. */
  modelListed = false;
  /** True for a streamed answer. */
  stream = false;
  /** The fields that the backend could not pass on as they are. */
  conversions: readonly Conversion[] = NO_CONVERSIONS;
  /** The fields of the answer that the caller's format cannot say, each once. */
  answerConversions: readonly Conversion[] = NO_CONVERSIONS;
  /** Returns the events that the backend has received and not yielded. */
  unread: UnreadEvents | undefined = undefined;
  /** The requests to upstreams. */
  attempts: readonly Attempt[] = NO_ATTEMPTS;
  /** The upstream that was asked last, which decides the price. */
  answering: Attempt | undefined = undefined;
  /** The meter of the answer, once a backend is asked. */
  meter: Metered | undefined = undefined;
  /** Resolves when the meter has counted all that is charged; undefined when it has. */
  counting: Promise<unknown> | undefined = undefined;
  /** The time of the first event, in milliseconds since the Unix epoch. */
  firstEventAt: number | undefined = undefined;
  /** The output limit of a chat, in tokens, where the hold does not cover that of the request. */
  affordedOutputTokens: number | undefined = undefined;
  /** The number of holds that the call has asked for, once there are several. */
  holds: number | undefined = undefined;
  /** The charge, after settlement. */
  charged: Outcome | undefined = undefined;
  /** The id of the call whose answer is repeated. */
  replayOf: string | undefined = undefined;
  /** The status of the answer, once its head is decided. */
  status: number | undefined = undefined;
  /** The error that the caller is told, instead of an answer or at the end of a part of it. */
  error: GatewayError | undefined = undefined;
  /** Collects the answer for the host's hooks, once they have seen the request. */
  hooked: HookedCall | undefined = undefined;
}

/** The parts of a call that describe it. `Call` documents each field. */
interface Described {
  readonly id: string;
  readonly endpoint: AnyEndpoint;
  readonly request: Request;
  readonly secret: string | undefined;
  readonly key: ApiKey | undefined;
  readonly found: Findings;
}

/** The parts of a call that its record is made from, beside its findings. `Call` documents each field. */
interface Recorded extends Described {
  readonly services: Pick<Services, "onCall" | "onFailure" | "currency" | "listed" | "namedModels">;
  readonly context: unknown;
  readonly watch: CallWatch | undefined;
  readonly abort: { readonly reason: GatewayError | undefined; readonly isClientGone: boolean };
  /** The time of the call's beginning, in milliseconds since the Unix epoch. */
  readonly beganAt: number;
  waitUntil(work: Promise<unknown>): void;
}

/** Passes the record of a call to the host and to its observer, and returns it. An error of either changes nothing; the host's is reported. */
export function recordCall(call: Recorded, endedAt: number): CallRecord {
  const { onCall } = call.services;
  const record = recordOf(call, endedAt);
  call.watch?.end(record);
  // A runtime that stops after the answer must wait for the host's write.
  if (onCall) call.waitUntil(guarded(() => onCall(record), reporterOf(call, "onCall")));
  return record;
}

function recordOf(call: Recorded, endedAt: number): CallRecord {
  const { found } = call;
  const { attempts, charged, error, firstEventAt } = found;
  const { usage, images, model } = found.meter?.report ?? {};
  const { refusedBy } = error ?? {};
  const facts = factsOf(call);
  const told = attempts.map((one, at) => one.record(at === attempts.length - 1, endedAt, error?.code));
  return {
    ...facts,
    context: call.context,
    modelListed: isListed(call),
    modelAnswered: model === undefined ? undefined : redact(model, call.secret),
    usage,
    images,
    units: charged?.used ?? 0,
    ...(found.holds !== undefined && { holds: found.holds }),
    currency: call.services.currency,
    certainty: charged?.certainty ?? "exact",
    replayOf: found.replayOf,
    affordedOutputTokens: found.affordedOutputTokens,
    outcome: outcomeOf(call),
    status: statusOf(call),
    errorCode: error?.code,
    errorPath: error?.path && namesIn(error.path, call.secret),
    errorMessage: error && isOwn(error, call, told) ? withoutTexts(error, call.secret) : undefined,
    refusedBy: refusedBy?.model === undefined ? refusedBy : { ...refusedBy, model: facts.modelAsked ?? "" },
    beganAt: call.beganAt,
    firstEventMs: firstEventAt === undefined ? undefined : msBetween(call.beganAt, firstEventAt),
    endMs: msBetween(call.beganAt, endedAt),
    attempts: told,
    dropped: found.conversions,
    droppedFromAnswer: found.answerConversions,
  };
}

/** True when the host knows the requested model, also for a call that was refused before its model was looked up. */
const isListed = ({ found, services: { listed, namedModels } }: Recorded): boolean =>
  found.modelListed ||
  (found.model !== undefined &&
    (namedModels.has(found.model) || (listed.models ?? []).some(({ id }) => id === found.model)));

/**
 * True for an error in the gateway's own words. Those of an upstream may quote the prompt, and so may those of a backend, except where it
 * refuses a field.
 */
const isOwn = (error: GatewayError, { abort, found }: Recorded, attempts: readonly UpstreamAttempt[]): boolean =>
  error === abort.reason ||
  isInOwnWords(error) ||
  (attempts.every(({ movedOn }) => movedOn === "resting") && (found.meter === undefined || error.path !== undefined));

/** The name of a field, a model or a tool, and no content. */
const NAME = /^[\w$.:/-]{1,64}$/;

/**
 * Matches a quotation, which ends with the message at the latest. Otherwise, each of many quotes in a long message would be compared with all
 * behind it: a hook may quote megabytes of its caller.
 */
const QUOTATION = /"((?:[^"\\]|\\[^])*)(?:"|\\?$)|(?<!\w)'([^']*)(?:'(?!\w)|$)/g;

/** Returns the message of an error without the texts of the request that it quotes. Of a mistake in the host's settings, its cause. */
function withoutTexts({ code, message, path = [], cause }: GatewayError, secret: string | undefined): string {
  let text = redact(code === "misconfigured" && cause instanceof Error ? cause.message : message, secret);
  for (const step of path)
    if (typeof step === "string" && step.trim() !== "" && !NAME.test(step)) text = text.replaceAll(step, "?");
  return copyOf(
    text
      // The caller's value stands at the end of a message, such as: must be an integer, not "ten".
      .replace(/, not ["'{[].*$/s, ", not …")
      .replaceAll(QUOTATION, (quoted, double?: string, single?: string) =>
        NAME.test(double ?? single ?? "") ? quoted : `${quoted[0]}…${quoted[0]}`,
      )
      .slice(0, MOST_MESSAGE_CHARS),
  );
}

/** The most steps of a path in a record. */
const MAX_STEPS = 16;

/** Returns a path with the names of fields alone. A caller may write its prompt or its key where the name of a field is expected. */
const namesIn = (path: FieldPath, secret: string | undefined): FieldPath =>
  path
    .slice(0, MAX_STEPS)
    .map((step) => (typeof step === "number" ? step : /^[\w$.-]{1,64}$/.test(step) ? redact(step, secret) : "?"));

/** Returns the time between two moments; 0 when the clock was set back between them. */
const msBetween = (from: number, to: number): number => Math.max(0, to - from);

/** The facts of a call that are known before its end. */
function factsOf({
  id,
  endpoint,
  request,
  secret,
  key,
  found,
}: Described): Pick<LiveCall, "requestId" | "key" | "format" | "method" | "route" | "modelAsked" | "stream"> {
  return {
    requestId: id,
    key: key && { id: key.id, name: key.name, budget: key.budget, metadata: key.metadata },
    format: endpoint.format,
    method: request.method,
    route: endpoint.path,
    // A model's name is the caller's own text, and a caller may write its key anywhere.
    modelAsked: found.model === undefined ? undefined : redact(found.model, secret),
    stream: found.stream,
  };
}

/** Describes a call that runs. */
export function liveCallOf(call: Described & { readonly socket: unknown }, beganAt: number): LiveCall {
  const { meter, answering } = call.found;
  const { usage, images } = meter?.report ?? {};
  return {
    ...factsOf(call),
    webSocket: call.socket !== undefined,
    upstream: answering?.name,
    usage,
    images,
    beganAt,
  };
}

function outcomeOf(call: Recorded): CallOutcome {
  const { abort, found } = call;
  const { error } = found;
  // A call that goes on without its client may be stopped later.
  if (abort.isClientGone && abort.reason?.code !== "call_stopped") return "client-closed";
  // An expired image is answered without an error.
  if (!error) return statusOf(call) < 400 ? "completed" : "refused";
  // A backend may fail with the codes of a cut, so compare the error object itself.
  if (error === abort.reason) return OUTCOME_OF_CUT[error.code] ?? "shutdown";
  const isRefused = found.meter ? isOfRequest(error, call) : isRefusal(call);
  return isRefused ? "refused" : "failed";
}

/** True when an upstream has found a mistake of the caller before it answered, or refuses the content at any time. */
const isOfRequest = ({ code }: GatewayError, call: Recorded): boolean =>
  code === "content_refused" ||
  (call.found.firstEventAt === undefined && (OF_REQUEST.has(code) || (LACKS_MODEL.has(code) && isNameOfCaller(call))));

/** True for a model's name that only the caller has written: the host has no other name for the model, and does not know this one. */
const isNameOfCaller = (call: Recorded): boolean =>
  !isListed(call) && call.found.attempts.every(({ model }) => model === call.found.model);

const OF_REQUEST: ReadonlySet<GatewayErrorCode> = new Set([
  "invalid_request",
  "malformed_body",
  "unsupported_media_type",
  "body_too_large",
  "context_length_exceeded",
  "failed_precondition",
]);

/** The outcomes of calls that were cut, by the code of the reason. */
const OUTCOME_OF_CUT: Readonly<Partial<Record<GatewayErrorCode, CallOutcome>>> = {
  deadline_exceeded: "deadline",
  call_stopped: "stopped",
  // The client has cancelled the response, and is still there.
  client_closed: "client-closed",
};

const isRefusal = (call: Recorded): boolean => statusOf(call) < 500 || call.found.error?.code === "busy";

/** Returns the status of the answer: the decided one, or the status of the error. */
function statusOf({ endpoint, found, id }: Recorded): number {
  const { error, status } = found;
  if (status !== undefined) return status;
  return error ? endpoint.encodeError(error, id).status : 200;
}

/** The most attempts that a call keeps. A backend may report as many as it likes. */
const MAX_ATTEMPTS = 64;

/** The parts of a call that its attempts need. */
interface Attempting {
  readonly id: string;
  readonly secret: string | undefined;
  readonly services: { readonly onFailure: OnFailure };
  readonly clock: { now(): number };
  readonly isEnded: boolean;
  readonly abort: { readonly reason: GatewayError | undefined };
  readonly watch: { upstream(asked: AskedUpstream): UpstreamObserver } | undefined;
  readonly found: Findings;
}

/**
 * Begins an attempt. From now on, the call is charged as one that this upstream answers. Throws before anything is spent when the host's
 * price has none for this upstream: quota was held without it where the backend does not tell its upstreams.
 */
export function beginAttempt(call: Attempting, asked: AskedUpstream): Attempt {
  const { found, isEnded } = call;
  const attempt = new Attempt(call, asked);
  // Set this first: a backend that ignores the error below, and answers, is not charged the price of the caller's name.
  if (!asked.resting) found.answering = attempt;
  // An attempt with a time of its own is over already.
  if (!asked.resting && asked.beganAt === undefined)
    try {
      found.meter?.assertPrice({ name: attempt.name, model: asked.model });
    } catch (error) {
      throw toGatewayError(error);
    }
  if (found.attempts.length < MAX_ATTEMPTS && !isEnded) found.attempts = [...found.attempts, attempt];
  return attempt;
}

const NO_HEADERS = {};

export class Attempt implements UpstreamObserver {
  readonly name: string;
  /** The upstream's name of the model. */
  readonly model: string;
  readonly isResting: boolean;
  readonly isBrief: boolean;
  /** The error that `onFailure` has heard of. */
  reported: GatewayError | undefined = undefined;
  readonly #call: Attempting;
  readonly #asked: AskedUpstream;
  readonly #beganAt: number;
  readonly #observer: UpstreamObserver | undefined;
  /** The number of the attempt in its call. Resting upstreams do not count, because the call does not ask them. */
  readonly #number: number;
  /** Undefined until the end. */
  #outcome: UpstreamOutcome | undefined = undefined;

  constructor(call: Attempting, asked: AskedUpstream) {
    this.#call = call;
    this.#asked = asked;
    this.name = asked.name ?? asked.address ?? asked.format;
    this.model = asked.model;
    this.isResting = asked.resting === true;
    this.#number = call.found.attempts.filter(({ isResting }) => !isResting).length + 1;
    this.#beganAt = asked.beganAt ?? call.clock.now();
    this.#observer = this.isResting ? undefined : call.watch?.upstream(asked);
    this.isBrief = this.#observer === undefined;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#observer?.headers ?? NO_HEADERS;
  }

  run<Result>(work: () => Result): Result {
    return this.#observer ? this.#observer.run(work) : work();
  }

  chosen(): void {
    this.#call.found.answering = this;
  }

  /** Ends the attempt. Only the first end counts. */
  end(outcome: UpstreamOutcome): void {
    if (this.#outcome) return;
    this.#outcome = outcome;
    // A call that has ended has cut its backend, so the error tells nothing about the upstream.
    if (outcome.error && !this.#call.isEnded) this.#report(outcome.error);
    if (!this.#observer) return;
    const { error: _, ...told } = outcome;
    this.#observer.end(this.#isCut ? { ...told, cut: true } : told);
  }

  /** True when the call was cut during the attempt. */
  get #isCut(): boolean {
    const { reason } = this.#call.abort;
    if (!reason) return false;
    if (!this.#outcome) return true;
    const { error, errorCode, movedOn } = this.#outcome;
    // Backends leave out the error of a call that was cut, or pass it on. An error of the upstream may have the same code.
    return errorCode === reason.code && movedOn === undefined && (!error || error === reason);
  }

  #report(error: GatewayError): void {
    const { address, port, model } = this.#asked;
    const told = reportAttempt(this.#call, error, {
      name: this.name,
      address: address === undefined || port === undefined ? address : `${address}:${port}`,
      model: redact(model, this.#call.secret),
      attempt: this.#number,
      status: this.#outcome?.status,
    });
    if (told) this.reported = error;
  }

  /**
   * Returns the attempt for the record of its call.
   *
   * @param isLast True when no attempt follows.
   * @param endedAt The end of the call, for an attempt that has not ended.
   * @param callError The error of the call, for the same.
   */
  record(isLast: boolean, endedAt: number, callError: GatewayErrorCode | undefined): UpstreamAttempt {
    const outcome = this.#outcome;
    const { movedOn } = outcome ?? {};
    const mistake = outcome?.mistake ?? (outcome?.error && mistakeOf(outcome.error));
    return {
      upstream: this.name,
      // A model's name is the caller's own text, and a caller may write its key anywhere.
      model: redact(this.#asked.model, this.#call.secret),
      status: outcome?.status,
      beganAt: this.#beganAt,
      endMs: Math.max(0, outcome ? outcome.endMs : endedAt - this.#beganAt),
      errorCode: outcome ? outcome.errorCode : callError,
      ...(this.#isCut && { cut: true }),
      movedOn: isLast && movedOn !== "resting" && movedOn !== "outrun" ? undefined : movedOn,
      ...(mistake !== undefined && { mistake: redact(mistake, this.#call.secret) }),
      usage: movedOn === "outrun" ? outcome?.usage : undefined,
    };
  }
}

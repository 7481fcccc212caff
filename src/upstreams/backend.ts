/**
 * Functions that the backends with upstreams share: for hang-ups, for failures, for promises that may never settle, and for the caller's
 * name of a model.
 */

import { type GatewayError, type GatewayErrorCode, mistakeOf } from "../errors.ts";
import { type ChatEvent, type StartEvent, textOfRun } from "../model/chat-event.ts";
import { isJsonObject, jsonLine, type JsonObject, PARSED_BEFORE, parseJson } from "../model/json.ts";
import { assertOptions, type Check, FROM_ZERO, listOf, nearest, overridden, type Shapes } from "../options.ts";
import type { HangUp } from "../ports/model-backend.ts";
import type { UpstreamFailure, UpstreamStatus } from "../ports/observer.ts";

const CANCEL: Exclude<HangUp, "cancel"> = { drainMs: 0 };

/** Checks what happens to a call whose client hangs up. Throws a RangeError for a `drainMs` that no timer can wait. */
export const HANG_UP: Check = (path, hangUp) => {
  if (hangUp === "cancel") return;
  if (typeof hangUp !== "object" || hangUp === null || Array.isArray(hangUp))
    throw new TypeError(`${path} must be "cancel" or { drainMs }.`);
  overridden(path, CANCEL, hangUp, { drainMs: FROM_ZERO });
};

/** As `HANG_UP`, or a function of the model, whose result is known only when it is called. */
export const HANG_UP_BY_MODEL: { readonly optional: Check } = {
  optional: (path, hangUp) => typeof hangUp === "function" || HANG_UP(path, hangUp),
};

/** The options of a check of upstreams. */
export interface CheckOptions {
  /** The longest wait for an upstream, and for each function of a host's own backend, in milliseconds. Default: 10 seconds. */
  readonly timeoutMs?: number;
  /**
   * Models that must be there beside those of the backend's own options, by the names of its callers. A route asks its upstreams for the models
   * that it sends to them. Default: none.
   */
  readonly models?: readonly string[];
}

/** The default of `timeoutMs` in `CheckOptions`. */
export const CHECK_MS = 10_000;

const CHECK_SHAPES: Shapes<CheckOptions> = { timeoutMs: "timerMs?", models: { optional: listOf("string") } };

/** Throws a TypeError for a wrong option of a check, and a RangeError for a wrong timeout. */
export const assertCheckOptions = (options: unknown): void => assertOptions("check", options, CHECK_SHAPES);

/** The most models that a sentence lists. */
const MOST_LISTED = 10;

const fewOf = (names: readonly string[]): string =>
  names.slice(0, MOST_LISTED).join(", ") + (names.length > MOST_LISTED ? ", …" : "");

/** Returns a sentence about models that a list does not have, with the names that were probably meant. */
export function notListed(missing: readonly string[], listed: readonly string[]): string {
  const quoted = (names: readonly string[]): string => fewOf(names.map((name) => JSON.stringify(name)));
  const meant = new Set(missing.flatMap((name) => nearest(name, listed) ?? []));
  const question = meant.size === 0 ? "" : ` Did you mean ${quoted([...meant])}?`;
  return `The upstream does not list ${quoted(missing)}.${question} It lists ${listed.length === 0 ? "none" : fewOf(listed)}.`;
}

/** The errors that are failures of an upstream, for circuit breakers and the state of upstreams. */
export const UPSTREAM_FAILURES: ReadonlySet<GatewayErrorCode> = new Set([
  "backend_failed",
  "backend_unavailable",
  "backend_overloaded",
  "deadline_exceeded",
  "internal",
]);

/** Tells whether an error is a failure of the upstream. A failure of the gateway's code runner is none. */
export const isUpstreamFailure = ({ code, port }: GatewayError): boolean =>
  UPSTREAM_FAILURES.has(code) && port !== "code-runner";

/** Returns the state of an upstream that has failed. */
export function failureAt(error: GatewayError, at: number): UpstreamFailure {
  const mistake = mistakeOf(error);
  return { code: error.code, at, ...(mistake !== undefined && { mistake }) };
}

/** The part of a call that its errors are counted by: the caller's API key. */
export interface FailedCall {
  readonly key?: { readonly id: string } | undefined;
}

/** Remembers the errors of upstreams that have no circuit breaker. */
export interface FailureNotes {
  /**
   * Notes the end of a call: its error, or a complete answer.
   *
   * @param call The same object for all attempts of a call.
   * @param modelListed True when the host has named the model.
   */
  note(name: string, error: GatewayError | undefined, at: number, call: FailedCall, modelListed: boolean): void;
  /** @param names The upstreams that are known without a failure. */
  status(names: Iterable<string>): readonly UpstreamStatus[];
}

/** The most upstreams whose errors are remembered: a function of the host may name a provider for each model that callers ask for. */
export const MOST_UPSTREAMS = 100;

/** A map of the entries that were set last, for names that callers or hosts choose: no number of names fills the memory. */
export class LatestMap<Value> {
  readonly #most: number;
  readonly #entries = new Map<string, Value>();

  /** @param most The most entries. */
  constructor(most: number) {
    this.#most = most;
  }

  get(name: string): Value | undefined {
    return this.#entries.get(name);
  }

  /** Sets an entry, which becomes the latest, and forgets the oldest one of too many. */
  set(name: string, value: Value): void {
    this.#entries.delete(name);
    this.#entries.set(name, value);
    if (this.#entries.size <= this.#most) return;
    const [oldest = name] = this.#entries.keys();
    this.#entries.delete(oldest);
  }

  delete(name: string): void {
    this.#entries.delete(name);
  }

  /** The names, the oldest first. */
  keys(): Iterable<string> {
    return this.#entries.keys();
  }
}

/** The last failure of each upstream since its last complete answer: the state of upstreams that have no circuit breaker. */
export class LastFailures implements FailureNotes {
  readonly #byName = new LatestMap<UpstreamFailure>(MOST_UPSTREAMS);

  /** A refusal of the request tells nothing about the upstream. */
  note(name: string, error: GatewayError | undefined, at: number): void {
    if (error && !isUpstreamFailure(error)) return;
    if (error) this.#byName.set(name, failureAt(error, at));
    else this.#byName.delete(name);
  }

  status(names: Iterable<string>): readonly UpstreamStatus[] {
    return Array.from(new Set([...names, ...this.#byName.keys()]), (upstream) => ({
      route: "*",
      upstream,
      state: "closed",
      waitMs: 0,
      lastFailure: this.#byName.get(upstream),
    }));
  }
}

/** Waits for one promise at a time, which may never settle: `fail` rejects the wait at once. */
export class Pending {
  #reject: ((error: unknown) => void) | undefined;
  #failed: { readonly error: unknown } | undefined;

  of<Value>(promise: PromiseLike<Value>): Promise<Value> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      if (this.#failed) reject(this.#failed.error);
      promise.then(resolve, reject);
    });
  }

  /** Rejects the wait, and every later one. */
  fail(error: unknown): void {
    this.#failed = { error };
    this.#reject?.(error);
  }
}

/** Replaces the upstream's name of the model in an event by the caller's name. Events of other kinds than chat name no model. */
export const renamed = <Event>(event: Event, model: string): Event =>
  namesModel(event) ? (renamedEvent(event, model) as typeof event) : event;

const namesModel = <Event>(event: Event): event is Event & NamingEvent => {
  if (typeof event !== "object" || event === null || !("type" in event)) return false;
  return event.type === "start" || event.type === "native";
};

type NamingEvent = Extract<ChatEvent, { readonly type: "start" | "native" }>;

function renamedEvent(event: NamingEvent, model: string): NamingEvent {
  if (event.type === "start") return renamedStart(event, model);
  const text = event.frames && textOfRun(event.frames);
  if (text !== undefined && !NAMING.test(text)) return event;
  const events = event.events.map((known) => (known.type === "start" ? renamedStart(known, model) : known));
  if (event.frames === undefined) return { ...event, events, body: renamedJson(event.body, model) };
  const frames = event.frames.map((frame) => ({ ...frame, data: renamedJson(frame.data, model) }));
  return { ...event, events, frames };
}

const renamedStart = (event: StartEvent, model: string): StartEvent =>
  event.model === undefined ? event : { ...event, model, upstreamModel: event.upstreamModel ?? event.model };

/** The fields that name the model. They are at the top of a chunk or a body, and in the message that begins a stream. */
const NAMES = ["model", "modelVersion", "model_version"] as const;
const NAMING = /"model(?:_?[vV]ersion)?"\s*:/;

/** Serialises only JSON that names a model again. In all other JSON, numbers and spaces stay as the upstream wrote them. */
function renamedJson(json: string, model: string): string {
  if (!NAMING.test(json)) return json;
  let value: unknown;
  try {
    value = parseJson(json, PARSED_BEFORE);
  } catch {
    return json;
  }
  if (!isJsonObject(value)) return json;
  const inner = [value["type"] === "message_start" ? value["message"] : undefined, value["response"]].filter(
    isJsonObject,
  );
  const changed = [value, ...inner].filter((object) => rename(object, model));
  return changed.length > 0 ? jsonLine(value) : json;
}

function rename(object: JsonObject, model: string): boolean {
  const names = NAMES.filter((name) => typeof object[name] === "string");
  for (const name of names) object[name] = model;
  return names.length > 0;
}

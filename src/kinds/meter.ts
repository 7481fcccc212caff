/**
 * The interface of meters, for all kinds: a meter passes on the events of one answer, and counts their cost. Also the check of the counts that
 * a backend reports, and the error for an event that is none.
 */

import { backendFailed, type GatewayError } from "../errors.ts";
import type { ChatRequest } from "../model/chat-request.ts";
import type { Certainty } from "../model/usage.ts";
import { type AnyShape, assertOptions, shown, shownWord, unknownName } from "../options.ts";
import type { ModelKind } from "../ports/call-info.ts";
import type { UpstreamModel } from "../ports/model-backend.ts";
import type { CallRecord } from "../ports/observer.ts";

/** The largest count of tokens that is believed. No model reads or writes this many. */
const MAX_TOKENS = 2 ** 32;

/** Tells whether a reported value is a count of tokens. */
export const isCount = (count: unknown): count is number =>
  Number.isInteger(count) && Number(count) >= 0 && Number(count) <= MAX_TOKENS;

/**
 * A count is not believed when it is not within the estimate × `times` + `tokens`. Estimates are within a third of honest counts for prose,
 * code and JSON, and within eight times for long runs of one character.
 */
export const TRUST = { times: 16, tokens: 256 };

/** Tells whether a count cannot be true, because the estimate is so much larger. */
export const isTooLow = (count: number, estimate: number): boolean => count * TRUST.times + TRUST.tokens < estimate;

/**
 * Tells whether a count cannot be true, because it is so much larger than the estimate.
 *
 * @param added The tokens that an upstream may add to those that are estimated.
 */
export const isTooHigh = (count: number, estimate: number, added: number = TRUST.tokens): boolean =>
  count > mostBelieved(estimate, added);

const mostBelieved = (estimate: number, added: number): number => estimate * TRUST.times + added;

/** Tells the host of a value that is no count: not a whole number, negative, or beyond every answer. */
export const noCount = (fault: string): string => `The model backend reported a usage that is no count: ${fault}.`;

/** Names the fault of a value that is no count. Shows no value but a number. */
export const countFault = (name: string, value: unknown, least = 0): string =>
  `${name} must be an integer from ${least} to ${MAX_TOKENS}, not ${typeof value === "number" ? value : shown(value)}`;

/** Tells the host of a count that is too high to be true, with the most that is believed. The parameters are those of `isTooHigh`. */
export const tooMany = (name: string, count: number, estimate: number, added: number = TRUST.tokens): string =>
  `The model backend reported ${count} ${name}, and at most ${Math.floor(mostBelieved(estimate, added))} are believed.`;

/** The lowest and the highest cost of a call, in quota units. */
export interface Amounts {
  /** Refuse the call when the key has fewer units. */
  readonly atLeast: number;
  /** The highest possible cost of the call. */
  readonly atMost: number;
}

/** The counts so far, as the record of a call has them. Each kind sets its own. */
export interface MeterReport extends Partial<Pick<CallRecord, "usage" | "images">> {
  /** All tokens of the call, for rate limits; 0 while the backend has done nothing. */
  readonly tokens: number;
  /** The answering model, when the backend names it. */
  readonly model?: string | undefined;
}

/** The part of a meter that the record of a call uses. */
export interface Metered {
  readonly report: MeterReport;
  /** Throws the error of the host's price when it has none for a call that this upstream answers. */
  assertPrice(upstream: UpstreamModel): void;
  /** The output limit of the running request, less the output tokens so far. Missing where an answer is never continued. */
  readonly outputLeft?: number;
  /** The highest cost of the request that follows the running one, in units: one hold covers both. Missing where none follows. */
  readonly unitsAhead?: number | undefined;
  /** Makes the counts of a turn final, behind which the backend asks again for the same answer. Missing as `outputLeft` is. */
  endTurn?(): void;
  /**
   * Closes the counts of an upstream that has broken its answer off, or of a turn that has ended, and goes on with those of the next request.
   * Missing as `outputLeft` is.
   *
   * @param request The next request.
   * @param inputTokens The estimated tokens of its input.
   */
  nextUpstream?(request: ChatRequest, inputTokens: number): void;
}

/** The part of a meter that decides the charge of a hold. */
export interface Counted {
  /** The cost so far, in units; 0 until the backend has sent something that costs. */
  readonly units: number;
  readonly certainty: Certainty;
}

/** Turns a backend's events into the events of an answer: one start first, one finish last. */
export interface Meter<Event, Answered> extends Metered, Counted {
  /**
   * Returns the start of the answer.
   *
   * @param first The backend's first event; undefined when the backend sent nothing before the keep-alive time.
   */
  start(first: Event | undefined): Answered;
  /** Counts an event. Must also be called for the first event. Returns the event to pass on, or undefined to swallow it. */
  observe(event: Event): Answered | undefined;
  /** Called when the backend is stopped before its end: its counts are not its last. Missing where an end changes no count. */
  cut?(): void;
  /** Makes the counts final. Called when the backend has ended its answer. */
  complete(): void;
  /** True once the backend has ended each part of its answer, so that its counts are the last. Missing where an end changes no count. */
  readonly isWhole?: boolean;
  /** Returns the end of the answer. The meter must be complete. */
  finish(): Answered;
  /** Returns what waits for the finish, for an answer that fails behind it: once, and undefined when nothing waits. */
  waiting?(): Answered | undefined;
  /** True when the answer is so long that the backend must be ignoring its limit. */
  readonly overrun: boolean;
  /** True after an event whose count takes milliseconds: the event loop then serves others before the event is written. */
  readonly isHeavy?: boolean;
}

/** The fields of each event of a kind, beside its type. */
export type EventShapes = Readonly<Record<string, Readonly<Record<string, AnyShape>>>>;

export const NO_EVENT = "The model backend yielded an event that is none.";

/**
 * Returns the error for an event that is none. The cause, which only the host sees, names the event, the field, what the field must be, and
 * the nearest name that exists. It shows no value, because a value may be a caller's.
 *
 * @param others The other values that a backend may yield, such as `a text, or `.
 */
export const wrongEvent = (
  kind: ModelKind,
  event: unknown,
  shapes: EventShapes,
  others = "",
  message: string = NO_EVENT,
): GatewayError => wrongBackend(message, `${kind}: ${wrongEventField(event, shapes, others)}`);

/**
 * Returns the error of a backend that breaks a rule.
 *
 * @param rule What the backend must do. Only the host sees the rule.
 */
export const wrongBackend = (message: string, rule: string): GatewayError =>
  backendFailed(message, new TypeError(rule));

function wrongEventField(event: unknown, shapes: EventShapes, others: string): string {
  const types = Object.keys(shapes);
  if (typeof event !== "object" || event === null || !("type" in event))
    return `yield ${others}an object with a type (${types.join(", ")}), not ${shown(event)}.`;
  const { type } = event;
  const shape = typeof type === "string" && Object.hasOwn(shapes, type) ? shapes[type] : undefined;
  if (!shape) return `the type of the event, ${unknownName(nameOf(type), types)}.`;
  return (
    wrongField(`the event ${nameOf(type)}`, event, { type: "string", ...shape }) ??
    `the event ${nameOf(type)} has a wrong field.`
  );
}

/**
 * Names the first field of a backend's object that is missing or has a wrong shape, what it must be, and a field that does not exist, which
 * was perhaps meant. Returns undefined when there is none. Shows no value of a field.
 */
export function wrongField(
  where: string,
  value: unknown,
  shape: Readonly<Record<string, AnyShape>>,
): string | undefined {
  const names = Object.keys(shape);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return `${where} must be an object with ${names[0]}, not ${shown(value)}.`;
  const fields = value as Readonly<Record<string, unknown>>;
  try {
    assertOptions<object>(where, Object.fromEntries(names.map((name) => [name, fields[name]])), shape);
    return undefined;
  } catch (error) {
    const unknown = Object.keys(fields).find((name) => !names.includes(name));
    const hint = unknown === undefined ? "" : ` ${unknownName(nameOf(unknown), names)}.`;
    return `${(error as Error).message}${hint}`;
  }
}

/** Writes a name that a backend has chosen, but no text that may be a caller's. */
export const nameOf = (value: unknown): string => shownWord(value).replaceAll('"', "");

/** The record of a finished call, made once at its end. */

import type { GatewayError } from "../errors.ts";
import type { Endpoint } from "../formats/format.ts";
import { redact } from "../http/request.ts";
import type { Metered } from "../kinds/meter.ts";
import type { Conversion } from "../model/conversion.ts";
import type { CallRecord, CallOutcome, OnCall } from "../ports/observer.ts";
import type { ApiKey, Outcome } from "../ports/quota-store.ts";
import type { Attempt } from "./attempts.ts";
import { guarded } from "./failures.ts";
import type { CallWatch } from "./watch.ts";

/** The fields of a call that its record is made from. `Call` documents each field. */
interface Recorded {
  readonly id: string;
  readonly services: { readonly onCall: OnCall | undefined };
  readonly endpoint: Endpoint;
  readonly request: Request;
  readonly context: unknown;
  readonly watch: CallWatch | undefined;
  readonly abort: { readonly reason: GatewayError | undefined; readonly isClientGone: boolean };
  readonly secret: string | undefined;
  readonly key: ApiKey | undefined;
  readonly model: string | undefined;
  readonly modelListed: boolean;
  readonly stream: boolean;
  readonly conversions: readonly Conversion[];
  readonly answerConversions: readonly Conversion[];
  readonly meter: Metered | undefined;
  readonly charged: Outcome | undefined;
  readonly replayOf: string | undefined;
  readonly status: number | undefined;
  readonly error: GatewayError | undefined;
  readonly beganAt: number;
  readonly firstEventAt: number | undefined;
  readonly attempts: readonly Attempt[];
  waitUntil(work: Promise<unknown>): void;
}

/** Passes the record of a call to the host and to its observer, and returns it. An error of either changes nothing. */
export function recordCall(call: Recorded, endedAt: number): CallRecord {
  const { onCall } = call.services;
  const record = recordOf(call, endedAt);
  call.watch?.end(record);
  // A runtime that stops after the answer must wait for the host's write.
  if (onCall) call.waitUntil(guarded(() => onCall(record)));
  return record;
}

function recordOf(call: Recorded, endedAt: number): CallRecord {
  const { attempts, endpoint, key, meter, charged, firstEventAt } = call;
  const { usage, images, model } = meter?.report ?? {};
  return {
    requestId: call.id,
    context: call.context,
    key: key && { id: key.id, name: key.name },
    format: endpoint.format,
    method: call.request.method,
    route: endpoint.path,
    // A model's name is the caller's own text, and a caller may write its key anywhere.
    modelAsked: call.model === undefined ? undefined : redact(call.model, call.secret),
    modelListed: call.modelListed,
    modelAnswered: model === undefined ? undefined : redact(model, call.secret),
    stream: call.stream,
    usage,
    images,
    units: charged?.used ?? 0,
    certainty: charged?.certainty ?? "exact",
    replayOf: call.replayOf,
    outcome: outcomeOf(call),
    status: statusOf(call),
    errorCode: call.error?.code,
    beganAt: call.beganAt,
    firstEventMs: firstEventAt === undefined ? undefined : msBetween(call.beganAt, firstEventAt),
    endMs: msBetween(call.beganAt, endedAt),
    attempts: attempts.map((one, at) => one.record(at === attempts.length - 1, endedAt, call.error?.code)),
    dropped: call.conversions,
    droppedFromAnswer: call.answerConversions,
  };
}

/** Returns the time between two moments; 0 when the clock was set back between them. */
const msBetween = (from: number, to: number): number => Math.max(0, to - from);

function outcomeOf(call: Recorded): CallOutcome {
  const { error, abort, meter } = call;
  if (abort.isClientGone) return "client-closed";
  // An expired image is answered without an error.
  if (!error) return statusOf(call) < 400 ? "completed" : "refused";
  // A backend may fail with the codes of a cut, so compare the error object itself.
  if (error === abort.reason) return error.code === "deadline_exceeded" ? "deadline" : "shutdown";
  return !meter && isRefusal(call) ? "refused" : "failed";
}

const isRefusal = (call: Recorded): boolean => statusOf(call) < 500 || call.error?.code === "busy";

/** Returns the status of the answer: the decided one, or the status of the error. */
function statusOf({ status, error, endpoint, id }: Recorded): number {
  if (status !== undefined) return status;
  return error ? endpoint.encodeError(error, id).status : 200;
}

/** The record of a finished call, made once, at its end, from what the call has found. */

import type { Endpoint } from "../dialects/dialect.ts";
import type { GatewayError } from "../errors.ts";
import { redact } from "../http/credential.ts";
import type { Metered } from "../metering/meter.ts";
import type { FieldFate } from "../model/fate.ts";
import type { CallOutcome, CallRecord, OnCall } from "../ports/observer.ts";
import type { ApiKey, Outcome } from "../ports/quota-store.ts";
import { guarded } from "./failure.ts";
import type { CallWatch } from "./watch.ts";

/** What of a call its record is made from; each field is told of where `Call` declares it. */
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
  readonly fates: readonly FieldFate[];
  readonly answerFates: readonly FieldFate[];
  readonly meter: Metered | undefined;
  readonly charged: Outcome | undefined;
  readonly replayOf: string | undefined;
  readonly status: number | undefined;
  readonly error: GatewayError | undefined;
  readonly beganAt: number;
  readonly firstEventAt: number | undefined;
  waitUntil(work: Promise<unknown>): void;
}

/** Hands the host and its observer the call's record, where they want one. What throws or rejects changes nothing. */
export function recordCall(call: Recorded, endedAt: number): void {
  const { onCall } = call.services;
  if (!onCall && !call.watch) return;
  const record = recordOf(call, endedAt);
  call.watch?.end(record);
  // A runtime that stops when the answer is out must not stop the write that a host does here.
  if (onCall) call.waitUntil(guarded(() => onCall(record)));
}

function recordOf(call: Recorded, endedAt: number): CallRecord {
  const { endpoint, key, meter, charged, firstEventAt } = call;
  const { usage, images, model } = meter?.report ?? {};
  return {
    requestId: call.id,
    context: call.context,
    key: key && { id: key.id, name: key.name },
    dialect: endpoint.dialect,
    method: call.request.method,
    route: endpoint.path,
    // A caller may write its key anywhere, and a model's name is the caller's own text.
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
    dropped: call.fates,
    droppedFromAnswer: call.answerFates,
  };
}

/** The time between two moments; 0 where the clock was set back between them. */
const msBetween = (from: number, to: number): number => Math.max(0, to - from);

function outcomeOf(call: Recorded): CallOutcome {
  const { error, abort, meter } = call;
  if (abort.isClientGone) return "client-closed";
  // A picture that has expired is answered without an error.
  if (!error) return statusOf(call) < 400 ? "completed" : "refused";
  // A backend may fail with the same codes by which calls are cut, so it is the cut itself that counts.
  if (error === abort.reason) return error.code === "deadline_exceeded" ? "deadline" : "shutdown";
  return !meter && isRefusal(call) ? "refused" : "failed";
}

const isRefusal = (call: Recorded): boolean => statusOf(call) < 500 || call.error?.code === "busy";

/** The status of the answer whose head is decided, or of the error that takes its place. */
function statusOf({ status, error, endpoint, id }: Recorded): number {
  if (status !== undefined) return status;
  return error ? endpoint.encodeError(error, id).status : 200;
}

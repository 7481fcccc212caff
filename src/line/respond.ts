/** The last steps of the line: a complete answer, a streamed one, or the error in the caller's own format. */

import type { AnswerCollector, AnswerStream, Endpoint } from "../dialects/dialect.ts";
import { NO_RETRY } from "../dialects/shared/no-retry.ts";
import type { GatewayError } from "../errors.ts";
import { type Answer, jsonAnswer } from "../http/answer.ts";
import type { CallAbort } from "../http/call-abort.ts";
import { EventStream } from "../http/event-stream.ts";
import type { FieldFate } from "../model/fate.ts";
import type { Clock } from "../ports/clock.ts";
import type { RateLimit } from "../ports/rate-limiter.ts";
import type { Call } from "./call.ts";
import { failureOf } from "./failure.ts";
import type { MeteredEvents } from "./run-backend.ts";

/** Collects the events into one body. */
export async function complete<Event, Answered>(
  call: Call,
  events: MeteredEvents<Event, Answered>,
  collector: AnswerCollector<Answered>,
): Promise<Answer> {
  await events.each((event) => {
    collector.add(event);
    return true;
  });
  return jsonAnswer(200, collector.body(), answerHeaders(call));
}

/** Writes the events as they come; the call ends with the last of them. */
export function streamed<Event, Answered>(
  call: Call,
  events: MeteredEvents<Event, Answered>,
  stream: AnswerStream<Answered>,
  silentSince: number,
): Answer {
  const { clock, limits } = call.services;
  const body = new EventStream({
    frames: (write) =>
      events.each((event) => {
        const frames = stream.encode(event);
        return frames === "" || write(frames);
      }),
    isLast: () => events.isFinished,
    clock,
    silentSince,
    keepAlive: { frame: stream.keepAlive, afterMs: limits.keepAliveMs },
    failed: (thrown) => stream.error((call.error = failureOf(call, thrown))),
    cancelled: () => call.abort.disconnect(),
    ended: () => void call.end(),
  });
  // One that may be repeated can have more readers than its own client.
  const shared = call.recording?.stream(body, stream.keepAlive);
  const own = shared?.reader(disconnecting(call.abort));
  const clientGone = (): void => {
    if (!shared) return body.drain();
    void own?.return();
    void shared.runOn();
  };
  call.listener = { cut: (reason) => body.fail(reason), clientGone };
  call.status = 200;
  if (call.abort.isClientGone) clientGone();
  const headers = {
    "content-type": stream.contentType,
    "cache-control": "no-cache, no-transform",
    // Some reverse proxies collect a response before they pass it on, unless told.
    "x-accel-buffering": "no",
    ...answerHeaders(call),
  };
  if (!shared) return { status: 200, headers, body };
  const answered = { status: 200, headers, body: own ?? body };
  call.recording?.open(answered, shared);
  return answered;
}

/** Tells of a client that stops reading. Written here, where it holds nothing of the call: a client may neither read on nor go. */
const disconnecting =
  (abort: CallAbort) =>
  (isThrough: boolean): void =>
    isThrough ? undefined : abort.disconnect();

/** The error as its endpoint's format says it. */
export function refusal(call: Answered, error: GatewayError): Answer {
  const { status, body } = call.endpoint.encodeError(error, call.id);
  return jsonAnswer(status, body, { ...errorHeaders(error), ...callHeaders(call) });
}

/** What every answer's headers are made from. */
interface Answered {
  readonly id: string;
  readonly endpoint: Endpoint;
  readonly rates: readonly RateLimit[];
  readonly services: { readonly clock: Clock };
}

/** Every answer carries its id under the names by which the families' clients read it, and its key's rates where they are known. */
export function callHeaders({ id, endpoint, rates, services }: Answered): Record<string, string> {
  const headers = { "request-id": id, "x-request-id": id };
  if (rates.length === 0 || !endpoint.rateHeaders) return headers;
  return { ...endpoint.rateHeaders(rates, services.clock.now()), ...headers };
}

/** What every generated answer says of itself. */
const answerHeaders = (call: Call): Record<string, string> =>
  call.fates.length === 0 ? callHeaders(call) : { ...callHeaders(call), ...fateHeaders(call.fates) };

/** How long a header may become that names fields, in characters. */
const MAX_FATES_CHARS = 1_024;

/** Which fields of the request its backend could not pass on as they are. */
function fateHeaders(fates: readonly FieldFate[]): Record<string, string> {
  const named = (wanted: FieldFate["fate"]): string => {
    const fields = new Set(fates.filter(({ fate }) => fate === wanted).map(({ field }) => field));
    // A backend is the host's: what it names a field is not to break a header.
    return [...fields]
      .map((field) => field.replaceAll(/[^\w.-]/g, "_"))
      .join(", ")
      .slice(0, MAX_FATES_CHARS);
  };
  const [dropped, approximated] = [named("dropped"), named("approximated")];
  return {
    ...(dropped && { "polygate-dropped": dropped }),
    ...(approximated && { "polygate-approximated": approximated }),
  };
}

function errorHeaders({ code, retryAfterMs, allow }: GatewayError): Record<string, string> {
  const headers: Record<string, string> = {};
  if (allow) headers["allow"] = allow.join(", ");
  if (NO_RETRY.has(code)) headers["x-should-retry"] = "false";
  if (retryAfterMs !== undefined && retryAfterMs >= 0 && retryAfterMs < Number.POSITIVE_INFINITY) {
    headers["retry-after"] = String(Math.ceil(retryAfterMs / 1000));
    headers["retry-after-ms"] = String(retryAfterMs);
  }
  return headers;
}

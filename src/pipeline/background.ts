/** Answers that are made in the background: the caller gets an answer at once, and the call goes on without it. */

import { GatewayError } from "../errors.ts";
import type { BackgroundAnswer } from "../formats/format.ts";
import { type Answer, jsonAnswer } from "../http/answer.ts";
import type { EventStream } from "../http/event-stream.ts";
import type { Call } from "./call.ts";
import { failureOf } from "./reports.ts";
import { callHeaders } from "./respond.ts";

/** The time between two writes of what has come so far, in milliseconds. A cancelled answer is noticed at a write. */
const SAVE_EVERY_MS = 1_000;

/**
 * Makes an answer in the background. A streamed answer is sent while it is made; any other caller gets the beginning of it. A disconnect of
 * the client does not end the call.
 *
 * @param make Asks the backend, and returns the streamed answer.
 */
export async function inBackground<Event>(
  call: Call,
  background: BackgroundAnswer<Event>,
  isStreamed: boolean,
  make: () => Promise<Answer>,
): Promise<Answer> {
  const body = await background.begin();
  // Write the end of the call into the document, also when the call is cut.
  call.defer(() => background.end(call.error ?? call.endedBecause));
  call.assertLive();
  // Only a call that may go on without its client can be joined.
  call.abort.drainFor(1);
  call.abort.join();
  void saveOften(call, background);
  if (isStreamed) return make();
  const fail = (thrown: unknown): Promise<void> => {
    call.error ??= failureOf(call, thrown);
    return call.endAndSettle();
  };
  call.listener = { cut: (reason) => void fail(reason) };
  call.status = 200;
  const answer = jsonAnswer(200, body, callHeaders(call));
  // A repetition gets this answer, and not the stream behind it.
  call.recording?.settle(answer);
  call.recording = undefined;
  const made = make().then(
    ({ body: frames }) => (frames as EventStream).drain(),
    (error: unknown) => (call.isEnded ? undefined : fail(error)),
  );
  call.waitUntil(made);
  return answer;
}

/** Writes what has come so far, again and again. Cuts the call when its answer was cancelled. */
async function saveOften(call: Call, background: { save(): Promise<boolean> }): Promise<void> {
  try {
    do await call.pause(SAVE_EVERY_MS);
    while (await background.save());
    call.cut(new GatewayError("client_closed", "The response was cancelled."));
  } catch {
    // The call has ended.
  }
}

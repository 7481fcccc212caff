/** Checks what a replay store tells before a caller is answered with it. */

import type { RecordedAnswer, ReplayState } from "../ports/replay-store.ts";

/** What a header's value may hold. */
const PRINTABLE = /^[\t\x20-\x7e]*$/;
const REQUEST_ID = /^[\w-]{1,190}$/;

/**
 * The state as it was told, without headers that are none of an answer's. Throws a TypeError for one that cannot be.
 *
 * @param keptHeaders The names of headers that an answer may have.
 */
export function checkedState(told: ReplayState, keptHeaders: ReadonlySet<string>): ReplayState {
  switch (told?.state) {
    case "claimed":
      return { state: "claimed" };
    case "running":
      return { state: "running", fingerprint: told.fingerprint };
    case "answered":
      return { state: "answered", fingerprint: told.fingerprint, answer: checked(told.answer, keptHeaders) };
    default:
      throw new TypeError("The store told no state of an entry.");
  }
}

function checked(answer: RecordedAnswer, keptHeaders: ReadonlySet<string>): RecordedAnswer {
  const { requestId, status, headers, body, stream } = answer;
  const isAnswer =
    Number.isInteger(status) &&
    status >= 200 &&
    status <= 599 &&
    typeof requestId === "string" &&
    REQUEST_ID.test(requestId) &&
    (body === undefined || typeof body === "string") &&
    typeof stream === "boolean";
  if (!isAnswer) throw new TypeError("The store told an answer that it cannot have been given.");
  const kept = Object.entries(headers).filter(
    ([name, value]) => keptHeaders.has(name) && typeof value === "string" && PRINTABLE.test(value),
  );
  return { requestId, status, headers: Object.fromEntries(kept), body, stream };
}

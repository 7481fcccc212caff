/** What a host says that a hang-up does to a call, checked when the backend is made. */

import { FROM_ZERO, overridden } from "../overrides.ts";
import type { HangUp, ModelBackend } from "../ports/model-backend.ts";

const CANCEL: Exclude<HangUp, "cancel"> = { drainMs: 0 };

/** Throws a RangeError where the time to drain is none that a timer can wait. What a function says is known with its calls alone. */
export function assertHangUp(option: string, hangUp: ModelBackend["hangUp"]): void {
  if (hangUp && typeof hangUp === "object") overridden(option, CANCEL, hangUp, { drainMs: FROM_ZERO });
}

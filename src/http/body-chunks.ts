/** Reads a request's body chunk by chunk, and stops waiting for it the moment a signal fires. */

import { GatewayError } from "../errors.ts";
import type { Clock } from "../ports/clock.ts";

/** How long a body may be silent. */
export interface Patience {
  readonly clock: Clock;
  /** In milliseconds. */
  readonly stallMs: number;
}

/**
 * A body's chunks as they arrive. Throws the signal's reason as soon as it fires, even while the client sends nothing;
 * `deadline_exceeded` when nothing comes for too long, `client_closed` or `malformed_body` when the body breaks off. However it ends, the body is let go of.
 */
export async function* chunksOf(
  request: Request,
  signal: AbortSignal,
  { clock, stallMs }: Patience,
): AsyncGenerator<Uint8Array> {
  if (request.body === null) return;
  const reader = request.body.getReader();
  let interrupt: ((reason: unknown) => void) | undefined;
  const onAbort = (): void => interrupt?.(signal.reason);
  signal.addEventListener("abort", onAbort);
  // Not Promise.race with one lasting promise: that would hold on to every chunk until the end.
  const next = (): ReturnType<typeof reader.read> =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      interrupt = reject;
      const giveUp = clock.after(stallMs, () => reject(stalled(stallMs)));
      reader.read().then(resolve, reject).finally(giveUp);
    });
  try {
    for (let step = await next(); !step.done; step = await next()) yield step.value;
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    if (cause instanceof GatewayError) throw cause;
    throw request.signal.aborted
      ? new GatewayError("client_closed", "The client closed the connection.", { cause })
      : new GatewayError("malformed_body", "The request body could not be read to its end.", { cause });
  } finally {
    signal.removeEventListener("abort", onAbort);
    letGo(reader);
  }
}

/** Let go of, not cancelled: on Node that would close the connection before the caller is told. */
function letGo(reader: ReadableStreamDefaultReader): void {
  try {
    reader.releaseLock();
  } catch {
    // workerd does not part them while a read is under way; there the request ends all of it.
  }
}

const stalled = (stallMs: number): GatewayError =>
  new GatewayError("deadline_exceeded", `Nothing of the request body came for ${Math.ceil(stallMs / 1000)} seconds.`);

/** Reads what is left of a refused request's body: workerd closes the connection of a client that is still sending. */

/** What of a body is let through for nothing, in bytes: a client with more to send may find its connection closed. */
const MAX_BYTES = 4 * 1024 * 1024;
/** How long a client may send nothing, in milliseconds, before it is answered all the same. */
const SILENCE_MS = 3_000;
/** How long it may send at all, in milliseconds. */
const PATIENCE_MS = 30_000;

/** The answer; one that refuses comes once its request's body has been read, or there is no use in reading on. */
export async function afterBody(request: Request, answering: Response | Promise<Response>): Promise<Response> {
  const response = await answering;
  // Never cancelled, and with its lock given back: a runtime may close the connection for either.
  if (response.status >= 400) await discard(request).catch(() => {});
  return response;
}

async function discard({ body, headers, signal }: Request): Promise<void> {
  if (!body || body.locked || Number(headers.get("content-length")) > MAX_BYTES) return;
  const reader = body.getReader();
  const giveUpAt = Date.now() + PATIENCE_MS;
  try {
    for (let bytes = 0; bytes <= MAX_BYTES && Date.now() < giveUpAt && !signal.aborted;) {
      const step = await unlessSilent(reader.read());
      if (!step || step.done) return;
      bytes += step.value.length;
    }
  } finally {
    reader.releaseLock();
  }
}

/** What is read, or undefined where nothing comes for too long. */
function unlessSilent<T>(reading: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, SILENCE_MS, undefined);
    reading.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

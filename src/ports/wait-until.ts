/** How a runtime is kept from stopping work whose client is gone. */

/** Keeps a promise alive after the response: the platform's `waitUntil`. The promise never rejects. */
export type WaitUntil = (work: Promise<unknown>) => unknown;

/** What a host injects where its runtime stops all work for a client who is gone. */

/** Is given work that is to be done although nobody waits for it; it never rejects. */
export type Keep = (work: Promise<unknown>) => unknown;

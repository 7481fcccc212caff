/** Fills a replay store with answers of one key. */

import { createHash } from "node:crypto";
import type { ReplayStore } from "../../src/index.ts";

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Records answers one after the other. Returns a function that reads the state of each entry. */
export async function filled(
  store: ReplayStore,
  keyId: string,
  count: number,
  bodyBytes = 10,
  name = "",
): Promise<() => Promise<string[]>> {
  const entries = Array.from({ length: count }, (_, index) => ({
    id: hashOf(`${keyId} ${name} ${index}`),
    keyId,
    callId: "call",
    fingerprint: hashOf("hello"),
  }));
  for (const [index, entry] of entries.entries()) {
    await store.claim({ ...entry, leaseMs: 600_000 });
    const answer = { requestId: "req_1", status: 200, headers: {}, body: "x".repeat(bodyBytes), stream: false };
    // Each answer ends a little later than the one before.
    await store.record({ ...entry, answer, retainMs: 3_600_000 + index });
  }
  return async () => {
    const states: string[] = [];
    for (const entry of entries) {
      const asking = { ...entry, callId: "asking" };
      states.push((await store.claim({ ...asking, leaseMs: 600_000 })).state);
      await store.release(asking);
    }
    return states;
  };
}

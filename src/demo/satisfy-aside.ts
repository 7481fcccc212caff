/** Satisfies schemas on a separate thread: a slow schema delays only calls that wait for another schema. */

import { Worker } from "node:worker_threads";
import { GatewayError, type JsonObject, type JsonValue } from "../index.ts";
import type { Made } from "./satisfy-worker.ts";

/** The memory of the thread, in MiB. A thread that exceeds this limit ends, and the next call starts another thread. */
const MAX_MEMORY_MIB = 512;

type PendingCall = PromiseWithResolvers<JsonValue> & { readonly what: string };

/** The list of transferred objects: the thread gets a copy of the whole message. */
const NO_TRANSFERS = [] as const;

/** The current thread, and the pending calls by their ids. */
let thread: { readonly worker: Worker; readonly pendingCalls: Map<number, PendingCall> } | undefined;
let lastId = 0;

/** Calls `satisfy` on the thread. `what` names the schema in errors. */
export function satisfyAside(schema: JsonObject, text: string, what: string, maxMs?: number): Promise<JsonValue> {
  const { worker, pendingCalls } = (thread ??= start());
  const pending = { ...Promise.withResolvers<JsonValue>(), what };
  pendingCalls.set(++lastId, pending);
  // `satisfy` reads only the end of the text.
  worker.postMessage({ id: lastId, schema, text: text.slice(-10_000), what, maxMs }, NO_TRANSFERS);
  return pending.promise;
}

function start(): NonNullable<typeof thread> {
  const worker = new Worker(new URL("./satisfy-worker.ts", import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: MAX_MEMORY_MIB },
  });
  const pendingCalls = new Map<number, PendingCall>();
  worker.on("message", ({ id, ...made }: Made) => {
    const pending = pendingCalls.get(id);
    pendingCalls.delete(id);
    if ("refused" in made) pending?.reject(new GatewayError("failed_precondition", made.refused));
    else pending?.resolve(made.value);
  });
  const rejectAll = (cause?: unknown): void => {
    if (thread?.worker === worker) thread = undefined;
    for (const { reject, what } of pendingCalls.values())
      reject(
        new GatewayError("failed_precondition", `The demo cannot satisfy ${what}: it would take too much.`, { cause }),
      );
    pendingCalls.clear();
  };
  worker.on("error", rejectAll).on("exit", () => rejectAll());
  // The thread must not keep a stopped server alive.
  worker.unref();
  return { worker, pendingCalls };
}

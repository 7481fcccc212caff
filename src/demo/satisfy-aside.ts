/** Has schemas satisfied on a thread of its own: a schema that takes long holds up nobody but those that wait for another. */

import { Worker } from "node:worker_threads";
import { GatewayError, type JsonObject, type JsonValue } from "../index.ts";
import type { Made } from "./satisfy-worker.ts";

/** Memory for the thread, in MiB; one that takes more is ended, and another begun. */
const MOST_MEMORY_MIB = 512;

type Waiting = PromiseWithResolvers<JsonValue> & { readonly what: string };

/** All of a message is copied to the other thread. */
const NOTHING_MOVED = [] as const;

/** Who waits for what of the thread that there is. */
let thread: { readonly worker: Worker; readonly waiting: Map<number, Waiting> } | undefined;
let asked = 0;

/** What `satisfy` makes, made aside. */
export function satisfyAside(schema: JsonObject, text: string, what: string, maxMs?: number): Promise<JsonValue> {
  const { worker, waiting } = (thread ??= start());
  const pending = { ...Promise.withResolvers<JsonValue>(), what };
  waiting.set(++asked, pending);
  // Only the end of a message tells what it is about.
  worker.postMessage({ id: asked, schema, text: text.slice(-10_000), what, maxMs }, NOTHING_MOVED);
  return pending.promise;
}

function start(): NonNullable<typeof thread> {
  const worker = new Worker(new URL("./satisfy-worker.ts", import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: MOST_MEMORY_MIB },
  });
  const waiting = new Map<number, Waiting>();
  worker.on("message", ({ id, ...made }: Made) => {
    const pending = waiting.get(id);
    waiting.delete(id);
    if ("refused" in made) pending?.reject(new GatewayError("failed_precondition", made.refused));
    else pending?.resolve(made.value);
  });
  const ended = (cause?: unknown): void => {
    if (thread?.worker === worker) thread = undefined;
    for (const { reject, what } of waiting.values())
      reject(
        new GatewayError("failed_precondition", `The demo cannot satisfy ${what}: it would take too much.`, { cause }),
      );
    waiting.clear();
  };
  worker.on("error", ended).on("exit", () => ended());
  // A server that is stopped does not wait for it.
  worker.unref();
  return { worker, waiting };
}

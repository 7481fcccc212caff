/** Commands of a store's code to its server. The process may die at each of them. */

import { AsyncLocalStorage } from "node:async_hooks";
import { MadeUpFailure, type Delivery } from "./messages.ts";
import type { Process } from "./process.ts";
import type { WorldParts } from "./world-parts.ts";

/** The message for which a store's code runs. */
export const underWay: AsyncLocalStorage<Delivery> = new AsyncLocalStorage();

/** The share of failures that break the connection at a command. */
const BREAKS = 0.1;

/**
 * Sends a command to a server, which carries it out a while later. The promise never settles when the process dies before the command
 * or before its answer. It rejects with a MadeUpFailure when the connection breaks before or after the command.
 */
export function command<Answer>(
  parts: WorldParts,
  process: Process,
  what: string,
  run: () => Answer | Promise<Answer>,
): Promise<Answer> {
  const { random, trace, plan, figures } = parts;
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  if (!process.effect()) return promise;
  const isBroken = !process.reliable && random.chance(plan.rates.fail * BREAKS);
  const isDone = !isBroken || random.chance(0.5);
  process.later(random.int(0, 2), async () => {
    try {
      const answer = isDone ? await run() : undefined;
      trace(() => `${process.name}: ${what}`);
      if (!process.effect()) return;
      if (!isBroken) return resolve(answer as Answer);
      trace(() => `${process.name}: the connection breaks ${isDone ? "after" : "before"} it`);
      figures["failures told by a store"]++;
      reject(new MadeUpFailure("The connection is broken."));
    } catch (error) {
      reject(error);
    }
  });
  return promise;
}

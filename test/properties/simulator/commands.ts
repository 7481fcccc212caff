/** Commands that a store's code sends from within its process to a server: at each of them the process may die. */

import { AsyncLocalStorage } from "node:async_hooks";
import { MadeUpFailure } from "./made-up-failure.ts";
import type { Delivery } from "./messages.ts";
import type { Process } from "./process.ts";
import type { WorldParts } from "./world-parts.ts";

/** For which message a store's code runs. */
export const underWay: AsyncLocalStorage<Delivery> = new AsyncLocalStorage();

/** How often a connection breaks at a command, of those that a world lets fail. */
const BREAKS = 0.1;

/**
 * Has a server carry out a command a while later. The promise never settles where the process dies before it, or between the
 * command and its answer; it rejects with a MadeUpFailure where the connection breaks, before the command or after it.
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

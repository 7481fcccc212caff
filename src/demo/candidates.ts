/** Several answers at once. */

import type { ContentEvent, FinishEvent } from "../index.ts";

type AnswerPart = ContentEvent | FinishEvent;

/** Lets answers take turns, event by event, each event under the number of its answer; hands back what each came to. */
export async function* inTurns<Outcome>(
  answers: readonly AsyncGenerator<AnswerPart, Outcome>[],
): AsyncGenerator<AnswerPart, Outcome[]> {
  const outcomes: Outcome[] = [];
  const open = new Map(answers.entries());
  while (open.size > 0)
    for (const [candidate, events] of open) {
      const step = await events.next();
      if (step.done) {
        outcomes.push(step.value);
        open.delete(candidate);
      } else yield candidate > 0 ? { ...step.value, candidate } : step.value;
    }
  return outcomes;
}

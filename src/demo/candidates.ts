/** Merges the events of several candidates into one stream. */

import type { ContentEvent, FinishEvent } from "../index.ts";

type AnswerPart = ContentEvent | FinishEvent;

/** Yields the events of all answers in turn, each with the number of its answer. Returns the results in the order in which the answers end. */
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

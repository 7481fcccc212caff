/** Joins the pieces of an answer that have come at once: what an event costs on its way is then paid once for all of them. */

import type { ChatEvent, NativeEvent, NativeFrame } from "../../model/event.ts";

/** An event with frames of more characters takes no others: whether an answer is beyond its limit is seen between two events. */
const MOST_CHARS = 4_096;

type Framed = Extract<NativeEvent, { readonly frames: readonly NativeFrame[] }>;

/** The same answer in fewer events. A finish begins one: from there on, frames wait for the answer to be settled. */
export function joined(events: readonly ChatEvent[]): readonly ChatEvent[] {
  if (events.length < 2 || !events.every(isFramed)) return events;
  const groups: [Framed, ...Framed[]][] = [];
  let chars = 0;
  for (const event of events) {
    const last = groups.at(-1);
    if (last && chars <= MOST_CHARS && !isEnd(event)) last.push(event);
    else {
      groups.push([event]);
      chars = 0;
    }
    for (const { data } of event.frames) chars += data.length;
  }
  return groups.map(oneOf);
}

const isFramed = (event: ChatEvent): event is Framed => event.type === "native" && event.frames !== undefined;

const isEnd = ({ means }: Framed): boolean => means.some(({ type }) => type === "finish");

function oneOf(group: readonly [Framed, ...Framed[]]): NativeEvent {
  const [first] = group;
  if (group.length === 1) return first;
  return {
    ...first,
    frames: group.flatMap(({ frames }) => frames),
    means: group.flatMap(({ means }) => means),
    unsaid: () => group.flatMap(({ unsaid }) => unsaid?.() ?? []),
  };
}

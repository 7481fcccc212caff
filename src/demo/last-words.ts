/** What the caller said last, apart from what agents put around it: reminders, and other texts before it. */

import type { ChatRequest, Part } from "../index.ts";

export interface LastTurn {
  /** The caller's last text, in which commands and tools are looked for. */
  readonly words: string;
  /** The texts before it, reminders left out. */
  readonly before: readonly string[];
}

const OPENING = "<system-reminder>";
const CLOSING = "</system-reminder>";

/** The texts of the last turn that the user sent. */
export function lastTurn(request: ChatRequest): LastTurn {
  const texts = lastUserParts(request)
    .flatMap((part) => (part.type === "text" ? [withoutReminders(part.text)] : []))
    .filter((text) => text.trim() !== "");
  return { words: texts.at(-1) ?? "", before: texts.slice(0, -1) };
}

/** The parts of the last turn that the user sent. */
export const lastUserParts = (request: ChatRequest): readonly Part[] =>
  request.messages.findLast(({ role }) => role === "user")?.parts ?? [];

/** A text without its reminders; one that is not closed is none. */
function withoutReminders(text: string): string {
  const kept: string[] = [];
  let start = 0;
  for (;;) {
    const opening = text.indexOf(OPENING, start);
    const closing = opening < 0 ? -1 : text.indexOf(CLOSING, opening);
    if (closing < 0) return kept.join("") + text.slice(start);
    kept.push(text.slice(start, opening));
    start = closing + CLOSING.length;
  }
}

/** Finds the last text of the caller. Agents put reminders and other texts around it. */

import type { ChatRequest, Part } from "../index.ts";

export interface LastTurn {
  /** The caller's last text. Commands and names of tools stand here. */
  readonly words: string;
  /** The texts before the last one, without reminders. */
  readonly before: readonly string[];
}

const OPENING = "<system-reminder>";
const CLOSING = "</system-reminder>";

/** Returns the texts of the last user turn. */
export function lastTurn(request: ChatRequest): LastTurn {
  const texts = lastUserParts(request)
    .flatMap((part) => (part.type === "text" ? [withoutReminders(part.text)] : []))
    .filter((text) => text.trim() !== "");
  return { words: texts.at(-1) ?? "", before: texts.slice(0, -1) };
}

/** Returns the parts of the last user turn. */
export const lastUserParts = (request: ChatRequest): readonly Part[] =>
  request.messages.findLast(({ role }) => role === "user")?.parts ?? [];

/** Removes the reminders from a text. Keeps a reminder without a closing tag. */
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

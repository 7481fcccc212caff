/** What the conversions of fields make of a client's cases, in each pair of formats: by the upstream's format, and the caller's. */

import type { Difference } from "./differences.ts";
import type { Format } from "./relayed.ts";
import { GENERATE_CONTENT_AS_CHAT_COMPLETIONS, MESSAGES_AS_CHAT_COMPLETIONS } from "./to-chat-completions.ts";
import { CHAT_COMPLETIONS_AS_GENERATE_CONTENT, MESSAGES_AS_GENERATE_CONTENT } from "./to-generate-content.ts";
import { CHAT_COMPLETIONS_AS_MESSAGES, GENERATE_CONTENT_AS_MESSAGES } from "./to-messages.ts";

/** What passes in the format that it came in loses nothing. */
const NOTHING: readonly Difference[] = [];

export const DECLARED: Readonly<Record<Format, Readonly<Record<Format, readonly Difference[]>>>> = {
  messages: {
    messages: NOTHING,
    "generate-content": GENERATE_CONTENT_AS_MESSAGES,
    "chat-completions": CHAT_COMPLETIONS_AS_MESSAGES,
  },
  "generate-content": {
    messages: MESSAGES_AS_GENERATE_CONTENT,
    "generate-content": NOTHING,
    "chat-completions": CHAT_COMPLETIONS_AS_GENERATE_CONTENT,
  },
  "chat-completions": {
    messages: MESSAGES_AS_CHAT_COMPLETIONS,
    "generate-content": GENERATE_CONTENT_AS_CHAT_COMPLETIONS,
    "chat-completions": NOTHING,
  },
};

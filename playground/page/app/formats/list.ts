/** The chat formats of the page, in the order in which they are shown. A new one is a file beside this and a line here. */

import { chatCompletions } from "./chat-completions.ts";
import type { ChatFormat } from "./format.ts";
import { generateContent } from "./generate-content.ts";
import { messages } from "./messages.ts";
import { responses } from "./responses.ts";

export const chatFormats: readonly ChatFormat[] = [messages, generateContent, chatCompletions, responses];

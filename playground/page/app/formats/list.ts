/** The chat formats of the page, in display order. A new format needs a file in this folder and a line here. */

import { chatCompletions } from "./chat-completions.ts";
import type { ChatFormat } from "./format.ts";
import { generateContent } from "./generate-content.ts";
import { messages } from "./messages.ts";
import { responses } from "./responses.ts";

export const chatFormats: readonly ChatFormat[] = [messages, generateContent, chatCompletions, responses];

/** Whether a caller wants to see the thoughts behind an answer. */

import type { ChatRequest } from "../../model/chat.ts";

export const showsThoughts = ({ reasoning }: ChatRequest): boolean =>
  reasoning === undefined || reasoning.type === "disabled" || reasoning.visible !== false;

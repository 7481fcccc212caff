/** A backend for attackers: it answers chat, draws pictures and counts, all in order. */

import type { ChatEvent, ChatRequest, ImageEvent, ImageRequest, ModelBackend } from "../../src/index.ts";
import { CLEAR } from "../cases/images/pictures.ts";

async function* chat({ messages }: ChatRequest): AsyncGenerator<ChatEvent | string> {
  yield "You said ";
  yield `${messages.length} things.`;
  yield { type: "finish", reason: "stop", usage: { inputTokens: 3, outputTokens: 4 } };
}

async function* image({ count }: ImageRequest): AsyncGenerator<ImageEvent> {
  for (let number = 0; number < count; number++) yield { type: "image", bytes: CLEAR, mediaType: "image/png" };
}

/** Takes every name of a model. */
export const answering: Required<Pick<ModelBackend, "chat" | "image">> = { chat, image };

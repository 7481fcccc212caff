// backend.ts
import type { ChatEvent, ModelBackend } from "polygate";

export const myBackend: ModelBackend = {
  async *chat(request): AsyncGenerator<ChatEvent | string> {
    yield `You asked ${request.model} something.`;
  },
};

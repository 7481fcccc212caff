// backend.ts
import type { ModelBackend } from "polygate";

export const myBackend: ModelBackend = {
  async *chat(request) {
    yield `You asked ${request.model} something.`;
  },
};

// painter.ts
import type { ModelBackend } from "polygate";

declare function paint(prompt: string, size: string): Promise<Uint8Array>;

export const painter: ModelBackend = {
  async *image(request) {
    for (let count = 0; count < request.count; count++)
      yield { type: "image", bytes: await paint(request.prompt, request.size), mediaType: "image/png" };
  },
};

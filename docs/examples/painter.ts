// painter.ts
import type { ModelBackend } from "polygate";

// Ask your own model here.
async function paint(prompt: string, size: string): Promise<Uint8Array> {
  throw new Error(`Nothing paints ${prompt} in ${size}.`);
}

export const painter: ModelBackend = {
  async *image(request) {
    for (let count = 0; count < request.count; count++)
      yield { type: "image", bytes: await paint(request.prompt, request.size), mediaType: "image/png" };
  },
};

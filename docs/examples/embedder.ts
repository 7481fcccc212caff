// embedder.ts
import { GatewayError, type ModelBackend } from "polygate";

// Ask your own model here.
const vectorOf = async (text: string): Promise<number[]> => [text.length, 1, 0];

export const embedder: ModelBackend = {
  async *embed({ inputs }) {
    for (const input of inputs) {
      if (typeof input !== "string") throw new GatewayError("failed_precondition", "This model embeds only text.");
      yield await vectorOf(input);
    }
  },
};

// embedder.ts
import { GatewayError, type ModelBackend } from "polygate";

declare function vectorOf(text: string): Promise<number[]>;

export const embedder: ModelBackend = {
  async *embed({ inputs }) {
    for (const input of inputs) {
      if (typeof input !== "string") throw new GatewayError("failed_precondition", "This model embeds only text.");
      yield await vectorOf(input);
    }
  },
};

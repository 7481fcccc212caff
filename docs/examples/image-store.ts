// image-store.ts
import { createGateway, type ImageProfile, memoryQuotaStore, unstorageImageStore } from "polygate";
import { createStorage } from "unstorage";
import { painter } from "./painter.ts";

const sketch: ImageProfile = {
  delivery: "data",
  tellsUsage: false,
  operations: { generate: { maxPromptLength: 500, maxCount: 4, sizes: ["512x512", "1024x1024"] } },
};

export const gateway = createGateway({
  backend: painter,
  quotas: memoryQuotaStore([{ apiKey: "sk-team-a" }]),
  images: {
    models: { sketch },
    store: unstorageImageStore(createStorage()), // In memory; with a driver in files, Redis, S3 and so on.
    publicUrl: "https://example.com/ai",
  },
});

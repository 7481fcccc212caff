/** The playground's API keys: a key for each state of a quota. */

import type { ApiKeyOptions } from "../src/index.ts";

export const demoKeys: readonly (ApiKeyOptions & { readonly id: string })[] = [
  { id: "demo", apiKey: "sk-demo", name: "demo" },
  { id: "metered", apiKey: "sk-metered", name: "metered", granted: 1_000_000 },
  { id: "limited", apiKey: "sk-limited", name: "limited", granted: 1_000_000, models: ["demo-chat"] },
  { id: "empty", apiKey: "sk-empty", name: "empty", granted: 1_000, used: 1_000 },
  { id: "expired", apiKey: "sk-expired", name: "expired", granted: 1_000, expiresAt: Date.UTC(2024, 0, 1) / 1000 },
];

/** The api keys that everybody knows. */

/** The demo's keys, and what each is there to show. */
export const DEMO_KEYS = [
  { apiKey: "sk-metered", about: "1,000,000 units" },
  { apiKey: "sk-demo", about: "unlimited" },
  { apiKey: "sk-limited", about: "demo-chat only" },
  { apiKey: "sk-empty", about: "used up" },
  { apiKey: "sk-expired", about: "expired" },
] as const;

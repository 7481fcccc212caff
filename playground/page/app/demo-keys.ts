/** The public API keys of the demo. */

/** The demo's keys, and the purpose of each key. */
export const DEMO_KEYS = [
  { apiKey: "sk-metered", about: "$1" },
  { apiKey: "sk-demo", about: "unlimited" },
  { apiKey: "sk-limited", about: "demo-chat only" },
  { apiKey: "sk-empty", about: "used up" },
  { apiKey: "sk-expired", about: "expired" },
  { apiKey: "sk-team-red", about: "$5 a month" },
  { apiKey: "sk-team-blue", about: "month used up" },
] as const;

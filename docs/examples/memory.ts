// memory.ts
import { memoryQuotaStore } from "polygate";

const quotas = memoryQuotaStore([
  { apiKey: "sk-team-a", id: "team-a", name: "Team A", granted: 1_000_000 },
  { apiKey: ["sk-old", "sk-new"], id: "team-b", models: ["small-1"], granted: 5_000 },
  { apiKey: "sk-admin", id: "admin" }, // A key without `granted` is unlimited: its usage is counted, but never refused.
]);
quotas.addSecret("team-a", "sk-team-a-2");
quotas.removeSecret("sk-team-a");

/** The playground's API keys: a key for each state of a quota. */

import type { ApiKeyOptions, BudgetOptions, QuotaStore } from "../src/index.ts";

export const demoKeys: readonly (ApiKeyOptions & { readonly id: string })[] = [
  { id: "demo", apiKey: "sk-demo", name: "demo" },
  { id: "metered", apiKey: "sk-metered", name: "metered", granted: 1_000_000 },
  { id: "limited", apiKey: "sk-limited", name: "limited", granted: 1_000_000, models: ["demo-chat"] },
  { id: "empty", apiKey: "sk-empty", name: "empty", granted: 1_000, used: 1_000 },
  { id: "expired", apiKey: "sk-expired", name: "expired", granted: 1_000, expiresAt: Date.UTC(2024, 0, 1) / 1000 },
];

/** Budgets of two teams. A unit is a millionth of a dollar: a million tokens cost a dollar. */
export const teamBudgets: readonly BudgetOptions[] = [
  { id: "team-red", name: "Team Red", amount: 5_000_000, period: "month" },
  { id: "team-blue", name: "Team Blue", amount: 2_500_000, period: "month" },
];

/** A key of each team. */
export const teamKeys: readonly (ApiKeyOptions & { readonly id: string })[] = [
  { id: "red", apiKey: "sk-team-red", name: "Team Red", budget: "team-red", metadata: { group: "red" } },
  { id: "blue", apiKey: "sk-team-blue", name: "Team Blue", budget: "team-blue", metadata: { group: "blue" } },
];

/** Uses up the budget of Team Blue, so that a refusal can be seen. */
export async function useUpTeamBlue(quotas: QuotaStore): Promise<void> {
  const hold = { id: `demo-${crypto.randomUUID()}`, keyId: "blue", atLeast: 1, atMost: 2_500_000, leaseMs: 60_000 };
  await quotas.reserve(hold);
  await quotas.settle(hold.id, { used: hold.atMost, certainty: "exact" });
}

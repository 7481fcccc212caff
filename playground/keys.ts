/** The playground's API keys, a key for each state of a quota, and its teams. A unit is a millionth of a dollar. */

import type { ApiKeyOptions, BudgetOptions, CallRecord, QuotaStore } from "../src/index.ts";

export const demoKeys: readonly (ApiKeyOptions & { readonly id: string })[] = [
  { id: "demo", apiKey: "sk-demo", name: "demo" },
  { id: "metered", apiKey: "sk-metered", name: "metered", granted: 1_000_000 },
  { id: "limited", apiKey: "sk-limited", name: "limited", granted: 1_000_000, models: ["demo-chat"] },
  { id: "empty", apiKey: "sk-empty", name: "empty", granted: 1_000_000, used: 1_000_000 },
  { id: "expired", apiKey: "sk-expired", name: "expired", granted: 1_000_000, expiresAt: Date.UTC(2024, 0, 1) / 1000 },
];

/** Budgets of two teams. No id is a part of a team's api key, because reports blot out the caller's key. */
export const teamBudgets: readonly BudgetOptions[] = [
  { id: "red", name: "Team Red", amount: 5_000_000, period: "month" },
  { id: "blue", name: "Team Blue", amount: 2_500_000, period: "month" },
];

const teamBlue = { id: "blue", name: "Team Blue", budget: "blue", metadata: { group: "blue" } };

/** A key of each team. */
export const teamKeys: readonly (ApiKeyOptions & { readonly id: string })[] = [
  { id: "red", apiKey: "sk-team-red", name: "Team Red", budget: "red", metadata: { group: "red" } },
  { ...teamBlue, apiKey: "sk-team-blue" },
];

/** Uses up the budget of Team Blue, so that a refusal can be seen. Resolves with the record of the call that did so. */
export async function useUpTeamBlue(quotas: QuotaStore): Promise<CallRecord> {
  const units = 2_500_000;
  const hold = { id: `demo-${crypto.randomUUID()}`, keyId: teamBlue.id, atLeast: 1, atMost: units, leaseMs: 60_000 };
  const beganAt = Date.now();
  await quotas.reserve(hold);
  await quotas.settle(hold.id, { used: units, certainty: "exact" });
  return {
    requestId: hold.id,
    context: undefined,
    key: teamBlue,
    format: "messages",
    method: "POST",
    route: "/v1/messages",
    modelAsked: "demo-chat",
    modelListed: true,
    modelAnswered: "demo-chat",
    stream: false,
    usage: {
      inputTokens: 2_000_000,
      outputTokens: 500_000,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
    },
    images: undefined,
    units,
    currency: undefined,
    certainty: "exact",
    replayOf: undefined,
    affordedOutputTokens: undefined,
    outcome: "completed",
    status: 200,
    errorCode: undefined,
    errorPath: undefined,
    errorMessage: undefined,
    refusedBy: undefined,
    beganAt,
    firstEventMs: undefined,
    endMs: Date.now() - beganAt,
    attempts: [],
    dropped: [],
    droppedFromAnswer: [],
  };
}

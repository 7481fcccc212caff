// rate-limits.ts
import { createGateway, flexibleRateLimiter, memoryQuotaStore } from "polygate";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { myBackend } from "./backend.ts";

const perMinute = (points: number) => [new RateLimiterMemory({ points, duration: 60 })];

const rateLimiter = flexibleRateLimiter({
  perKey: {
    requests: [...perMinute(60), new RateLimiterMemory({ points: 5_000, duration: 86_400 })],
    tokens: perMinute(100_000),
    callsAtOnce: 8,
  },
  perModel: { requests: perMinute(20) },
  models: { "large-1": { requests: perMinute(5) } },
  tiers: {
    gold: { perKey: { requests: perMinute(200) }, perGroup: { requests: perMinute(300), tokens: perMinute(600_000) } },
  },
});

export const gateway = createGateway({
  backend: myBackend,
  quotas: memoryQuotaStore([
    { apiKey: "sk-one", id: "one", metadata: { tier: "gold", group: "team-a" } },
    { apiKey: "sk-two", id: "two" },
  ]),
  rateLimiter,
});

// fleet-limits-redis.ts
import { flexibleRateLimiter } from "polygate";
import { RateLimiterRedis } from "rate-limiter-flexible";
import { createClient } from "redis";

const client = createClient({ url: process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379" });
client.on("error", console.error);
await client.connect();

const counter = (points: number, duration: number): RateLimiterRedis =>
  new RateLimiterRedis({ storeClient: client, useRedisPackage: true, rejectIfRedisNotReady: true, points, duration });

export const rateLimiter = flexibleRateLimiter({
  perKey: { requests: [counter(60, 60)], tokens: [counter(100_000, 60)] },
  perModel: { requests: [counter(20, 60)] },
});

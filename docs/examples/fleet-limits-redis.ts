// fleet-limits-redis.ts
import { flexibleRateLimiter } from "polygate";
import { RateLimiterRedis } from "rate-limiter-flexible";
import { createClient } from "redis";

const client = createClient({ url: process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379" });
client.on("error", console.error);
await client.connect();

// `useRedisPackage` is for the package `redis`, and not for `ioredis`: without it, every call gets 503. With
// `rejectIfRedisNotReady`, a counter fails at once while Redis is away.
const counter = (points: number, duration: number): RateLimiterRedis =>
  new RateLimiterRedis({ storeClient: client, useRedisPackage: true, rejectIfRedisNotReady: true, points, duration });

export const rateLimiter = flexibleRateLimiter({
  perKey: { requests: [counter(60, 60)], tokens: [counter(100_000, 60)] },
  perModel: { requests: [counter(20, 60)] },
});

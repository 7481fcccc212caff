// durable-redis.ts
import { redisQuotaStore } from "polygate/stores/redis";
import { createClient } from "redis";

const client = createClient({ url: "redis://127.0.0.1:6379" });
client.on("error", console.error); // Without this listener, a lost connection ends the Node process.
export const quotas = redisQuotaStore({ client: await client.connect() });

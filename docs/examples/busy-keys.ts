// busy-keys.ts
import { borrowingQuotaStore, createGateway } from "polygate";
import { myBackend } from "./backend.ts";
import { quotas as shared } from "./durable-redis.ts"; // Or a store over SQL.

const quotas = borrowingQuotaStore(shared);
export const gateway = createGateway({ backend: myBackend, quotas });

process.once("SIGTERM", async () => {
  await gateway.close();
  await quotas.close(); // Gives the free units back.
});

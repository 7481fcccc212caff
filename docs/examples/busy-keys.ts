// busy-keys.ts
// `route.ts` stands in docs/routes.md.
import { borrowingQuotaStore, createGateway } from "polygate";
import { quotas as shared } from "./durable-redis.ts"; // Or a store over SQL.
import { backend } from "./route.ts";

const quotas = borrowingQuotaStore(shared);
export const gateway = createGateway({ backend, quotas });

process.once("SIGTERM", async () => {
  await gateway.close();
  await quotas.close(); // Gives the free units back.
});

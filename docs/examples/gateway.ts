// gateway.ts
import { createGateway, memoryQuotaStore } from "polygate";
import { myBackend } from "./backend.ts";

const quotas = memoryQuotaStore([{ apiKey: "sk-team-a", name: "Team A", granted: 1_000_000 }]);
export const gateway = createGateway({ backend: myBackend, quotas });

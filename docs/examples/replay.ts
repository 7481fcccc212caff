// replay.ts
import { createGateway, memoryQuotaStore, memoryReplayStore } from "polygate";
import { myBackend } from "./backend.ts";

export const gateway = createGateway({
  backend: myBackend,
  quotas: memoryQuotaStore([{ apiKey: "sk-team-a" }]),
  replayStore: memoryReplayStore(),
});

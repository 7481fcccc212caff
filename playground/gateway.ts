/** The gateway of the playground and of the hosts to copy from: a model that answers offline, and Python for its code. */

import { createGateway, type Gateway, memoryQuotaStore } from "../src/index.ts";
import { demoBackend } from "./demo/backend.ts";
import { demoKeys } from "./keys.ts";
import { pythonRunner } from "./python/runner.ts";

export const codeRunner: ReturnType<typeof pythonRunner> = pythonRunner();
export const gateway: Gateway = createGateway({
  backend: demoBackend(),
  quotas: memoryQuotaStore(demoKeys),
  codeRunner,
});

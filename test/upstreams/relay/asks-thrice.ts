/** Asks the upstream at the address in the argument three times, one after the other, and prints the statuses. Runs on any runtime. */

import { argv } from "node:process";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";

const backend = relay({ format: "chat-completions", baseUrl: argv.at(-1) ?? "", apiKey: "sk-upstream-key" });
const quotas = memoryQuotaStore([{ apiKey: "sk-caller", granted: 100_000 }]);
const gateway = createGateway({ backend, quotas, onFailure: () => {} });
const statuses: number[] = [];
for (let call = 0; call < 3; call++) {
  const response = await gateway.fetch(
    new Request("http://local/v1/chat/completions", {
      method: "POST",
      headers: { authorization: "Bearer sk-caller", "content-type": "application/json" },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }] }),
    }),
  );
  await response.text();
  statuses.push(response.status);
}
console.log(JSON.stringify(statuses));
await backend.close();
